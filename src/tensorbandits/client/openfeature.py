"""A provider for OpenFeature: flags are decided by bandits, in this process or of a service.

A flag is the bandit's name, if the bandit decides one mode, or ``bandit.mode``; the attributes of the evaluation
context that are named like context modes are the context. ``pip install 'tensorbandits[openfeature]'``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tensorbandits.bandit.decision import Decision
from tensorbandits.base.checks import check_installed, nearest
from tensorbandits.client.blocking import Client
from tensorbandits.client.errors import ServerAwayError, ServerError, UnknownBanditError
from tensorbandits.space.labels import key, read, written

check_installed("tensorbandits.client.openfeature", "openfeature", extra="openfeature")

from openfeature.evaluation_context import EvaluationContext  # noqa: E402
from openfeature.exception import (  # noqa: E402
    FlagNotFoundError,
    GeneralError,
    InvalidContextError,
    OpenFeatureError,
    ParseError,
    TypeMismatchError,
)
from openfeature.flag_evaluation import FlagResolutionDetails, Reason  # noqa: E402
from openfeature.provider import AbstractProvider, Metadata  # noqa: E402
from openfeature.track import TrackingEventDetails  # noqa: E402

OTHER = "other"  # the level of a context mode that stands for values which are missing or unknown
_REFRESH = 60.0  # seconds after which the modes of a bandit of a service are asked for again
_STRIPES = 64
_log = logging.getLogger("tensorbandits.client")


class _Shape(NamedTuple):
    """What a bandit decides, and what it wants to be given."""

    decided: list[str]
    context: dict[str, frozenset[Any]]  # the keys of each mode's levels
    version: Any
    numbers: tuple[str, ...] = ()  # of modes of numbers

    @classmethod
    def of(
        cls,
        levels: Mapping[str, Sequence[Any]],
        context: Sequence[str],
        version: Any,
        numbers: Mapping[str, Sequence[str]],
    ) -> _Shape:
        known = {mode: frozenset(key(label, mode) for label in levels[mode]) for mode in context if mode not in numbers}
        decided = [mode for mode in levels if mode not in context]
        return cls(decided, known, version, tuple(name for some in numbers.values() for name in some))


class _Shown(NamedTuple):
    """The last decision of a bandit for a targeting key."""

    decision: Decision
    context: dict[str, Any]
    until: float


def _in_thread(resolve: Callable[..., FlagResolutionDetails[Any]]) -> Callable[..., Any]:
    """Return the awaited twin of a method."""

    async def resolved(self: Any, /, *given: Any, **named: Any) -> FlagResolutionDetails[Any]:
        return await asyncio.to_thread(resolve, self, *given, **named)

    return resolved


class BanditProvider(AbstractProvider):
    """Decides flags by bandits: ``api.set_provider_and_wait(BanditProvider(client))``.

    Parameters
    ----------
    bandits : a :class:`tensorbandits.Client`, all of whose bandits are flags; or bandits by name, each a
        :class:`tensorbandits.Bandit` or one of a client, which may have a fallback.
    values : what the levels of a flag stand for, by flag and by level, where that is not the level itself:
        ``{"shop.layout": {"wide": {"columns": 3}, "compact": {"columns": 1}}}``.
    rewards : which tracking events are rewards, and of which bandits: ``{"purchase": "shop"}``. The reward is the
        event's value, or 1 if it has none.
    hold : seconds for which a targeting key with the same context keeps its decision, so that all flags of a bandit
        come from one, and a page that looks twice is one visit. Without a targeting key each look is a decision.
    remember : targeting keys whose last decision is kept for tracking.
    subjects : whether targeting keys are given to bandits as whom a decision is for, so that who decides, the bandit or
        its baseline, is drawn once for each visitor, and their data can be forgotten. Otherwise they stay here.

    Metadata of a flag are ``decision_id``, by which a reward is told; ``bandit``; ``by``; and ``propensity`` where it
    is known. Any thread may use it. The client stays yours to close.

    >>> import tensorbandits as tb
    >>> from openfeature import api
    >>> from openfeature.evaluation_context import EvaluationContext
    >>> space = tb.Space({"device": ["phone", "pc"], "layout": ["wide", "compact"]}, context=["device"])
    >>> api.set_provider_and_wait(BanditProvider({"layout": tb.Bandit(space, seed=0)}))
    >>> context = EvaluationContext("visitor-7", {"device": "phone"})
    >>> api.get_client().get_string_value("layout", "compact", context) in ("wide", "compact")
    True
    """

    def __init__(
        self,
        bandits: Client | Mapping[str, Any],
        *,
        values: Mapping[str, Mapping[Any, Any]] | None = None,
        rewards: Mapping[str, str | Sequence[str]] | None = None,
        hold: float = 60.0,
        remember: int = 100_000,
        subjects: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(bandits, Client | Mapping):
            raise TypeError(f"bandits is {bandits!r}; give a tensorbandits.Client, or bandits by name")
        self._bandits, self._values, self._hold, self._remember = bandits, dict(values or {}), hold, remember
        self._subjects = subjects
        self._rewards = {
            event: [names] if isinstance(names, str) else list(names) for event, names in (rewards or {}).items()
        }
        self._shapes: dict[str, _Shape] = {}
        self._shown: OrderedDict[tuple[str, str], _Shown] = OrderedDict()
        self._lock = threading.Lock()  # over the two above
        self._turns = [threading.Lock() for _ in range(_STRIPES)]  # so that one visitor gets one decision

    def get_metadata(self) -> Metadata:
        """Return the name of the provider."""
        return Metadata(name="tensorbandits")

    # Flags.

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        """Decide a flag whose levels are truth values."""
        return self._resolve(flag_key, evaluation_context, bool)

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        """Decide a flag whose levels are text."""
        return self._resolve(flag_key, evaluation_context, str)

    def resolve_integer_details(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        """Decide a flag whose levels are whole numbers."""
        return self._resolve(flag_key, evaluation_context, int)

    def resolve_float_details(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        """Decide a flag whose levels are numbers."""
        return self._resolve(flag_key, evaluation_context, float)

    def resolve_object_details(
        self, flag_key: str, default_value: Any, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[Any]:
        """Decide a flag whose levels stand for objects; of a bandit's name alone the value is its whole arm."""
        return self._resolve(flag_key, evaluation_context, dict)

    # Awaited, they decide in a thread, as a decision may wait for a service.
    resolve_boolean_details_async = _in_thread(resolve_boolean_details)
    resolve_string_details_async = _in_thread(resolve_string_details)
    resolve_integer_details_async = _in_thread(resolve_integer_details)
    resolve_float_details_async = _in_thread(resolve_float_details)
    resolve_object_details_async = _in_thread(resolve_object_details)

    def _resolve(self, flag: str, given: EvaluationContext | None, kind: type) -> FlagResolutionDetails[Any]:
        """Decide a flag; whatever goes wrong becomes an error of OpenFeature, and its caller's default the value."""
        try:
            name, bandit, mode, shape = self._find(flag)
            mode = _mode(flag, name, mode, shape, kind, bool(self._values.get(flag)))
            context = _context(shape, given)
            decision, held = self._decision(name, bandit, context, given)
            try:
                value, variant = self._value(flag, decision, mode, kind)
            except OpenFeatureError:
                if not held:
                    self._forget(name, bandit, decision, given)
                raise
        except OpenFeatureError:
            raise
        except UnknownBanditError as error:
            raise FlagNotFoundError(str(error)) from error
        except Exception as error:
            raise GeneralError(f"{type(error).__name__}: {error}") from error
        metadata: dict[str, Any] = {"decision_id": decision.id, "bandit": name, "by": decision.by}
        if decision.propensity is not None:
            metadata["propensity"] = decision.propensity
        reason = Reason.CACHED if held else Reason.DEFAULT if decision.by == "fallback" else Reason.SPLIT
        return FlagResolutionDetails(value, reason=reason, variant=variant, flag_metadata=metadata)

    def _find(self, flag: str) -> tuple[str, Any, str | None, _Shape]:
        """The bandit that decides a flag, the mode that the flag names, if it names one, and the bandit's modes.

        As names of both may have dots, the longest that is a bandit's counts.
        """
        name, mode = flag, ""
        while name:
            bandit = self._bandit(name)
            if bandit is not None and (shape := self._shape(name, bandit)) is not None:
                return name, bandit, mode or None, shape
            name = name.rpartition(".")[0]
            mode = flag[len(name) + 1 :]
        known = [] if isinstance(self._bandits, Client) else list(self._bandits)
        hint = nearest(flag, known) or (f"the bandits are {known[:10]}" if known else "make one of that name")
        raise FlagNotFoundError(f"no bandit decides the flag {flag!r}: {hint}")

    def _bandit(self, name: str) -> Any:
        return self._bandits.bandit(name) if isinstance(self._bandits, Client) else self._bandits.get(name)

    def _shape(self, name: str, bandit: Any) -> _Shape | None:
        """The modes of a bandit, as they are now or, of a service, as they were a while ago; ``None`` of no bandit."""
        with self._lock:
            known = self._shapes.get(name)
        space = getattr(bandit, "space", None)
        if space is not None:
            if known is None or known.version != space.version:
                levels = dict(zip(space.modes, space.levels, strict=True))
                numbers = {mode: one.numbers for mode, one in space.regions.items()}
                known = _Shape.of(levels, [space.modes[at] for at in space.context], space.version, numbers)
        elif known is None or time.monotonic() > known.version:
            try:
                detail = bandit.detail()
            except UnknownBanditError:
                return None
            except (ServerAwayError, ServerError):
                if known is None:
                    raise
                known = known._replace(version=time.monotonic() + _REFRESH)  # and decide by what was known
            else:
                levels = {mode: [read(one["label"]) for one in some] for mode, some in detail["levels"].items()}
                numbers = {mode: one["numbers"] for mode, one in detail.get("regions", {}).items()}
                known = _Shape.of(levels, detail["context"], time.monotonic() + _REFRESH, numbers)
        with self._lock:
            self._shapes[name] = known
        return known

    def _decision(
        self, name: str, bandit: Any, context: dict[str, Any], given: EvaluationContext | None
    ) -> tuple[Decision, bool]:
        """A decision, and whether it was made before."""
        who = given.targeting_key if given is not None else None
        if not who:
            return bandit.ask(context), False
        place = name, who
        with self._turns[hash(place) % _STRIPES]:
            with self._lock:
                shown = self._shown.get(place)
            if shown is not None and shown.context == context and time.monotonic() < shown.until:
                return shown.decision, True
            decision = bandit.ask(context, subject=who) if self._subjects else bandit.ask(context)
            kept = 0.0 if decision.by == "fallback" else self._hold  # the service may be back at any moment
            with self._lock:
                self._shown[place] = _Shown(decision, context, time.monotonic() + kept)
                self._shown.move_to_end(place)
                while len(self._shown) > self._remember:
                    self._shown.popitem(last=False)
            return decision, False

    def _forget(self, name: str, bandit: Any, decision: Decision, given: EvaluationContext | None) -> None:
        """Cancel a decision of which nothing will be shown, so that it does not count as without reward."""
        if given is not None and given.targeting_key:
            with self._lock:
                self._shown.pop((name, given.targeting_key), None)
        bandit.cancel(decision)

    def _value(self, flag: str, decision: Decision, mode: str | None, kind: type) -> tuple[Any, str]:
        """The value of a flag and the name of its variant."""
        if mode is None:
            arm = {name: written(label) for name, label in decision.arm.items()}
            return arm, ", ".join(f"{name}={label}" for name, label in arm.items())
        label = decision.arm[mode]
        meanings = self._values.get(flag)
        if meanings is None:
            return _typed(flag, label, kind), str(label)
        if label not in meanings:
            raise ParseError(f"values has nothing for the level {label!r} of the flag {flag!r}; add what it stands for")
        return _typed(flag, meanings[label], kind), str(label)

    # Rewards.

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Tell a reward, if the event is one: of the decision that it names, or of the last of its targeting key.

        What cannot be told is logged, as a visitor's click should not fail by it.
        """
        details = tracking_event_details or TrackingEventDetails()
        reward = 1.0 if details.value is None else details.value
        who = evaluation_context.targeting_key if evaluation_context is not None else None
        for name in self._rewards.get(tracking_event_name, ()):
            try:
                self._tell(name, who, details.attributes.get("decision_id"), reward)
            except Exception as error:
                _log.warning("the event %r told bandit %r no reward: %s", tracking_event_name, name, error)

    def _tell(self, name: str, who: str | None, number: Any, reward: float) -> None:
        if (bandit := self._bandit(name)) is None:
            raise LookupError(f"there is no bandit {name!r}; correct rewards= of the provider")
        with self._lock:
            shown = self._shown.get((name, who)) if who else None
        decision = shown.decision if shown is not None and number in (None, shown.decision.id) else number
        if decision is None:
            raise LookupError(
                f"no decision is known for the targeting key {who!r}; send its id as the attribute "
                "decision_id, which is in the metadata of the flag"
            )
        bandit.tell(decision, reward)


def _mode(flag: str, name: str, mode: str | None, shape: _Shape, kind: type, meant: bool) -> str | None:
    """The mode that a flag is, or ``None`` for the whole arm."""
    if mode is not None:
        if mode not in shape.decided:
            hint = nearest(mode, shape.decided) or f"it decides {shape.decided}"
            raise FlagNotFoundError(f"bandit {name!r} decides no mode {mode!r}: {hint}")
        return mode
    if kind is dict and not meant:
        return None
    if len(shape.decided) != 1:
        flags = [f"{name}.{one}" for one in shape.decided]
        raise TypeMismatchError(
            f"bandit {name!r} decides several modes; ask for one of the flags {flags}, or for {flag!r} as an object"
        )
    return shape.decided[0]


def _context(shape: _Shape, given: EvaluationContext | None) -> dict[str, Any]:
    """The label of each context mode, or its numbers."""
    attributes = given.attributes if given is not None else {}
    found = {}
    for mode, known in shape.context.items():
        value = attributes.get(mode)
        try:
            fits = value is not None and key(value, mode) in known
        except TypeError:
            fits = False
        if not fits and ("str", OTHER) not in known:
            what = "is missing" if value is None else f"is {value!r}, which is no level of that mode"
            raise InvalidContextError(
                f"the attribute {mode!r} of the evaluation context {what}; give it, or give the mode the level "
                f"{OTHER!r}, which stands for what is missing or unknown"
            )
        found[mode] = value if fits else OTHER
    return found | {name: _number(name, attributes.get(name)) for name in shape.numbers}


def _number(name: str, value: Any) -> Any:
    """A number of the evaluation context; ``None`` where it is missing."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise InvalidContextError(
            f"the attribute {name!r} of the evaluation context is {value!r}; give a number, or leave it out "
            "where it is not known"
        )
    return value


_KINDS: dict[type, tuple[str, Callable[[Any], bool]]] = {
    bool: ("a truth value", lambda value: isinstance(value, bool)),
    str: ("text", lambda value: isinstance(value, str)),
    int: ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    dict: ("an object or a list", lambda value: isinstance(value, dict | list)),
}


def _typed(flag: str, value: Any, kind: type) -> Any:
    words, fits = _KINDS[kind]
    if not fits(value):
        raise TypeMismatchError(
            f"the flag {flag!r} is {value!r}, but {words} is wanted; ask for its own type, or say with values= what "
            "its levels stand for"
        )
    return float(value) if kind is float else value
