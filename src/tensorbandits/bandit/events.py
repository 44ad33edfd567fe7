"""What can happen to a bandit: one class for each kind of event, with its words in the log.

Events are facts: folding the events of a log, in their order, gives the state of a bandit. To add a kind, write a class
here and a method of :class:`~tensorbandits.bandit.state.State` that applies it. A field that has its default is not
written. Who did it is written by whoever appends the event, as a short mark (:mod:`~tensorbandits.bandit.actors`).
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from hashlib import blake2b
from typing import Any, ClassVar, Self

from tensorbandits.bandit.actors import MARK, SERVICE
from tensorbandits.bandit.apprentice import Shadow
from tensorbandits.bandit.commands import Numbers
from tensorbandits.bandit.warm_start import WarmStart
from tensorbandits.base import codec
from tensorbandits.base.checks import Cell
from tensorbandits.base.errors import TensorbanditsError
from tensorbandits.ledger import Ledger
from tensorbandits.space import Numeric

_NAMED = 20  # features that the history of changes lists
_SHORT = "zlib:"  # before a ledger that is written short; at first they were not
# Of a long text, some at a time: one call for all of it would stop every other thread for milliseconds.
_BYTES, _LETTERS = 3 * 2**16, 4 * 2**16
_APART = ("time", "id", "actor")  # fields that are not written in the body by their name
# Fields that are not written as they are: their word, and how they are written and read.
_CELL: dict[str, Any] = {"write": list, "read": tuple}
_PROPENSITY: dict[str, Any] = {"word": "p"}
_CHANCES: dict[str, Any] = {"write": lambda chances: list(chances), "read": lambda chances: tuple(chances)}
_WOULD: dict[str, Any] = {"write": Shadow.written, "read": Shadow.read}
_NUMBERS: dict[str, Any] = {
    "write": lambda numbers: [[mode, list(values)] for mode, values in numbers],
    "read": lambda numbers: tuple((mode, tuple(values)) for mode, values in numbers),
}


class UnknownEventError(TensorbanditsError, ValueError):
    """The log has an event of a kind that this release does not know."""


def _packed(ledger: Ledger) -> str:
    packed = codec.pack("ledger", 1, ledger.state())
    short = zlib.compress(packed, 1)
    return _SHORT + "".join(base64.b64encode(short[at : at + _BYTES]).decode() for at in range(0, len(short), _BYTES))


def _unpacked(text: str) -> Ledger:
    coded = text.removeprefix(_SHORT)
    packed = b"".join(base64.b64decode(coded[at : at + _LETTERS]) for at in range(0, len(coded), _LETTERS))
    return Ledger.from_state(codec.unpack(zlib.decompress(packed) if text.startswith(_SHORT) else packed).state)


@dataclass(frozen=True)
class BanditEvent:
    """One thing that happened at a time; its kind is the name of its class.

    ``actor`` is who did it, of a change: of decisions and rewards it stands in the log only, as they are so many.
    """

    kinds: ClassVar[dict[str, type[BanditEvent]]] = {}
    change: ClassVar[bool] = True  # whether it belongs to the history of changes, apart from decisions and rewards
    time: float
    actor: str | None = field(default=None, kw_only=True, repr=False)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        BanditEvent.kinds[cls.__name__] = cls

    @property
    def kind(self) -> str:
        """The name of the kind, as logs have it."""
        return type(self).__name__

    @property
    def decision(self) -> str | None:
        """The id of the decision that it is about, if any."""
        return getattr(self, "id", None)

    def body(self) -> dict[str, Any]:
        """Return all but time and decision, as JSON can hold it."""
        body = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name not in _APART and (one.default is MISSING or value != one.default):
                body[one.metadata.get("word") or one.name] = one.metadata.get("write", _same)(value)
        return body

    def noted(self) -> dict[str, Any]:
        """Return what the history of changes keeps of it."""
        return self.body()

    def signed(self, actor: str | None) -> Self:
        """Return a change with its actor, and anything else as it is."""
        return replace(self, actor=actor) if self.change and actor is not None else self

    @classmethod
    def read(cls, time: float, decision: str | None, body: Mapping[str, Any]) -> Self:
        """Return the event that a log has."""
        given: dict[str, Any] = {"time": time}
        for one in fields(cls):
            word = one.metadata.get("word") or one.name
            if one.name == "id":
                given["id"] = str(decision)
            elif one.name not in _APART and (word in body or one.default is MISSING):
                given[one.name] = one.metadata.get("read", _same)(body[word])
        return cls(**given)


def _same(value: Any) -> Any:
    return value


def read_event(kind: str, time: float, decision: str | None, body: Mapping[str, Any]) -> BanditEvent:
    """Return the event that a log has under the name of its kind.

    >>> read_event("Rewarded", 2.5, "d1", {"reward": 1.0})
    Rewarded(time=2.5, id='d1', reward=1.0)
    """
    found = BanditEvent.kinds.get(kind)
    if found is None:
        raise UnknownEventError(f"the event is {kind!r}, which a newer release has written; upgrade this one too")
    return found.read(time, decision, body)


@dataclass(frozen=True)
class Created(BanditEvent):
    """The bandit was made, with these settings."""

    settings: Mapping[str, Any]

    def noted(self) -> dict[str, Any]:
        """Return the settings, with numbers of levels in the place of all labels and features."""
        modes = self.settings.get("modes", {})
        sizes = {mode: len(levels) for mode, levels in modes.items() if not isinstance(levels, Mapping)}
        sizes |= {mode: Numeric.read(one).regions for mode, one in modes.items() if mode not in sizes}
        kept = {name: one for name, one in self.settings.items() if name not in ("modes", "features")}
        return {"settings": kept, "sizes": sizes}


@dataclass(frozen=True)
class Decided(BanditEvent):
    """A decision was made: its arm and context as a cell, its probability if known, and by what it was drawn.

    ``would`` is what an apprentice would have done, and ``note`` what the policy wants to be told with the reward.
    ``chances`` are those of policy and holdout to make it, where they are not what the settings say. ``made`` is when
    it was made, if a decider did so elsewhere, before this event was written: its window began then. ``part`` is one
    of 128 of all visitors, where who decides was drawn for a visitor once and not for the decision. ``numbers`` are
    what the request brought of modes whose regions were still to be learned.
    """

    change = False
    id: str
    cell: Cell = field(metadata=_CELL)
    propensity: float | None = field(metadata=_PROPENSITY)
    by: str
    active: bool = True
    note: Any = None
    would: Shadow | None = field(default=None, metadata=_WOULD)
    chances: tuple[float, float] | None = field(default=None, metadata=_CHANCES)
    made: float | None = None
    part: int | None = None
    numbers: Numbers = field(default=(), metadata=_NUMBERS)

    def body(self) -> dict[str, Any]:
        """Return cell, propensity and origin, and what is unusual; the usual ones quickly, as they are so many."""
        rare = (self.note, self.would, self.chances, self.made, self.part)
        if not self.active or self.numbers or any(one is not None for one in rare):
            return super().body()
        return {"cell": list(self.cell), "p": self.propensity, "by": self.by}


@dataclass(frozen=True)
class Activated(BanditEvent):
    """A decision was shown: its window begins."""

    change = False
    id: str


@dataclass(frozen=True)
class Cancelled(BanditEvent):
    """A decision was not carried out, and takes no reward."""

    change = False
    id: str


@dataclass(frozen=True)
class Rewarded(BanditEvent):
    """A decision got its reward, the first one that was told of it."""

    change = False
    id: str
    reward: float


@dataclass(frozen=True)
class Amended(Rewarded):
    """A decision got another reward in the place of the one, or of the default, that it had."""


@dataclass(frozen=True)
class TimedOut(BanditEvent):
    """The window of a decision ended without a reward; it gets the default, if there is one."""

    change = False
    id: str
    reward: float | None


@dataclass(frozen=True)
class Unchanged(BanditEvent):
    """A keyed request changed nothing; it is written down so that its repetition will change nothing either.

    ``status`` and ``reward`` are what it was answered.
    """

    change = False
    id: str
    status: str
    reward: float | None


@dataclass(frozen=True)
class Told(BanditEvent):
    """The reward of a cell was told without a decision; with ``trials``, so many of which ``reward`` succeeded."""

    change = False
    cell: Cell = field(metadata=_CELL)
    reward: float
    trials: int | None = None


@dataclass(frozen=True)
class LevelAdded(BanditEvent):
    """A mode got another level, which may start like another one. Labels are written as JSON has them."""

    mode: str
    label: Any
    like: Any = None
    rewards: float | None = None
    features: Mapping[str, Any] | None = None

    def noted(self) -> dict[str, Any]:
        """Return all but features."""
        return {name: one for name, one in self.body().items() if name != "features"}


@dataclass(frozen=True)
class Described(BanditEvent):
    """Levels of a mode have other features: pairs of a label, as JSON has it, and values by name; or none have any.

    With ``anew`` they took the place of all features that there were; else ``was`` has what they took the place of, in
    the same order.
    """

    mode: str
    features: list[list[Any]] | None
    anew: bool = False
    was: Sequence[Mapping[str, Any]] | None = None

    def noted(self) -> dict[str, Any]:
        """Return of how many levels which features are others, and the first of them before and after.

        ``whole`` says whether these are all there is to say of it.
        """
        named = sorted({name for _, values in self.features or () for name in values})
        rows = zip(self.features or (), self.was or (), strict=False)
        some = [
            [label, name, _short(was.get(name)), _short(value)]
            for (label, values), was in rows
            for name, value in values.items()
        ]
        values = [one for _, known in self.features or () for one in known.values()]
        values += [one for was in self.was or () for one in was.values()]
        return {
            "mode": self.mode,
            "levels": len(self.features or ()),
            "gone": self.features is None,
            "anew": self.anew,
            "features": named[:_NAMED],
            "some": some[:_NAMED],
            "whole": 0 < len(some) <= _NAMED and not any(isinstance(one, list) for one in values),
        }


@dataclass(frozen=True)
class LevelRetired(BanditEvent):
    """A level is chosen no more."""

    mode: str
    label: Any


@dataclass(frozen=True)
class LevelRestored(LevelRetired):
    """A retired level is chosen again."""


@dataclass(frozen=True)
class RegionsLearned(BanditEvent):
    """The regions of a mode of numbers were learned from requests; the one there was for all stays as a level."""

    mode: str
    partition: Mapping[str, Any]

    def noted(self) -> dict[str, Any]:
        """Return how many regions were learned."""
        return {"mode": self.mode, "regions": len(self.partition["shares"])}


@dataclass(frozen=True)
class RegionSplit(BanditEvent):
    """A region of a mode of numbers was split in two at a value ``of`` one of the numbers, and stays as a level."""

    mode: str
    region: str
    at: float
    of: str


@dataclass(frozen=True)
class RuleChanged(BanditEvent):
    """A rule was made, or taken back. Labels are written as JSON has them."""

    rule: Mapping[str, Any]
    add: bool


@dataclass(frozen=True)
class Changed(BanditEvent):
    """Some settings are others now; ``was`` is what they were, which events of early releases do not say."""

    settings: Mapping[str, Any]
    was: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Imported(BanditEvent):
    """The rewards of a log from elsewhere were told, added up; ``added`` are labels that became levels, by mode.

    ``features`` are those of these labels, by mode, and of the modes in ``retired`` they are chosen no more. ``said``
    is what the caller was answered; ``start`` says it in full, to whoever has just planned it.
    """

    ledger: Ledger
    added: Mapping[str, list[Any]]
    said: Mapping[str, Any] = field(default_factory=dict)
    start: WarmStart | None = None
    packed: list[str] = field(default_factory=list, repr=False, compare=False)  # the ledger as text, once it was made
    features: Mapping[str, list[Any]] = field(default_factory=dict)
    retired: list[str] = field(default_factory=list)

    def at(self, time: float) -> Imported:
        """Return the same at another time."""
        return replace(self, time=time)

    def body(self) -> dict[str, Any]:
        """Return the ledger as text, and what was answered beside it."""
        if not self.packed:
            self.packed.append(_packed(self.ledger))
        rare = {name: one for name, one in (("features", self.features), ("retired", self.retired)) if one}
        return {"ledger": self.packed[0], "added": dict(self.added), **rare, **self.said}

    def noted(self) -> dict[str, Any]:
        """Return all but the ledger."""
        said = self.said if self.start is None else self.start.said()
        return {"added": dict(self.added), **{name: one for name, one in said.items() if name != "digest"}}

    @classmethod
    def read(cls, time: float, decision: str | None, body: Mapping[str, Any]) -> Self:
        """Return the event that a log has."""
        own = ("ledger", "added", "features", "retired", MARK)
        said = {name: value for name, value in body.items() if name not in own}
        more = {"features": body.get("features", {}), "retired": body.get("retired", [])}
        return cls(time, _unpacked(body["ledger"]), body["added"], said, **more)


@dataclass(frozen=True)
class Deleted(BanditEvent):
    """The bandit was ended."""


@dataclass(frozen=True)
class Skipped(BanditEvent):
    """An earlier event of the log cannot be applied, or is damaged, and somebody decided to leave it out."""

    seq: int
    who: str
    why: str

    def noted(self) -> dict[str, Any]:
        """Return which event it leaves out, and why."""
        return {"skipped": self.seq, "why": self.why}

    @property
    def decision(self) -> str:
        """A name by which the log finds it."""
        return skip_name(self.seq)


@dataclass(frozen=True)
class Forgotten(BanditEvent):
    """The ids of some decisions were replaced by names, everywhere, as somebody wanted a person's data removed.

    Whoever still knows an id, as a server that runs does, finds it by the time of the decision and a digest of the
    salt and the id. A decision of two times, its own and that of its token, is there twice, by one name.
    """

    names: list[str]
    times: list[float]
    digests: list[str]
    salt: str
    why: str

    def found(self, decisions: Iterable[tuple[str, float]]) -> dict[str, str]:
        """Return the names of those it is about, by id, of decisions that are given by id and time."""
        times, names = set(self.times), dict(zip(self.digests, self.names, strict=True))
        near = (number for number, time in decisions if time in times)
        return {number: names[digest] for number in near if (digest := digest_of(number, self.salt)) in names}

    def noted(self) -> dict[str, Any]:
        """Return how many decisions it is about, and why."""
        return {"decisions": len(set(self.names)), "why": self.why}


def _short(value: Any) -> Any:
    """Return the value of a feature as the history of changes keeps it."""
    return f"{len(value)} numbers" if isinstance(value, list | tuple) else value


def digest_of(number: str, salt: str) -> str:
    """Return what an id is found by, by those who know it."""
    return blake2b(number.encode("utf-8", "surrogatepass"), digest_size=16, key=bytes.fromhex(salt)).hexdigest()


def mark_of(kind: str, body: Mapping[str, Any]) -> Any:
    """Return the mark of who did what an event of a log says; a window that ends by itself is the service's doing."""
    return SERVICE if kind == "TimedOut" else body.get("who") if kind == "Skipped" else body.get(MARK)


def skip_name(seq: int) -> str:
    """Return the name by which a log finds the event that leaves out the one of this number; no decision has it."""
    return f"\x1f skips event {seq}"
