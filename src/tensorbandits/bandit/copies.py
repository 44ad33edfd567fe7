"""Saving a bandit and making it again: files, plain data, pickles and copies."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Self

import numpy as np

from tensorbandits.bandit.brought import Brought
from tensorbandits.bandit.core import restored_core
from tensorbandits.bandit.running import check_learning
from tensorbandits.bandit.sharing import PublishCount, Sharing
from tensorbandits.base import codec
from tensorbandits.base.checks import check_count
from tensorbandits.policies import saving

_VERSION = 5  # of a saved bandit
_STATE = (
    *("space", "policy", "rng", "ring", "shares", "holdout"),
    *("window", "default", "adds", "capacity", "remember", "book", "teller"),
)
_ADDED = (  # which states of before lack: for times and sides, comparisons, histories, and what was made elsewhere
    ("timeline", "unmarked", "learning"),
    ("comparison", "rollout", "apprentice", "rewards"),
    ("actors", "changelog", "subjects", "paused"),
    ("adopted", "forgotten", "published"),
)
_OF_LOGS = ("seq", "chain", "moment", "decisions", "settings", "changes")  # of bandits that have one


class Copies(Sharing):
    """Saves everything and makes it again; :class:`~tensorbandits.Bandit` has these methods."""

    _brought: Brought | None

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, whole or not at all: space, rules, policy, open and recent decisions."""
        codec.save(path, "bandit", _VERSION, self.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Return everything as plain data: arrays, numbers, text, and dicts and lists of them."""
        self._do(None)
        state = {name: part for name, part in self._core.frozen()().items() if name not in _OF_LOGS}
        own = {"rng": copy.deepcopy(self._rng.bit_generator.state), "learning": self.learning}
        if self._brought is not None:
            own["brought"] = self._brought.state()
        return state | own | {"published": self._published._asdict()}

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        fresh: bool = True,
        clock: Callable[[], float] = time.time,
        **code: Any,
    ) -> Self:
        """Return the bandit that :meth:`save` wrote, which goes on from there.

        It does so with fresh randomness, as another process may go on from the same file; with ``fresh=False`` it takes
        up the saved generators, so that every load goes on alike. ``code`` are arguments of the policy that are code.
        """
        saved = codec.load(path)
        if saved.kind != "bandit" or saved.version > _VERSION:
            raise ValueError(
                f"{path} holds a {saved.kind!r} of version {saved.version}, not a bandit of version {_VERSION}; give a "
                "file that a bandit's save wrote, with this or an older release"
            )
        state = saved.state if saved.version > 1 else {**saved.state, "teller": None}  # which was not there yet
        return cls.from_state_dict(state, fresh=fresh, clock=clock, **code)

    @classmethod
    def from_state_dict(
        cls, state: Mapping[str, Any], *, fresh: bool = True, clock: Callable[[], float] = time.time, **code: Any
    ) -> Self:
        """Return the bandit that :meth:`state_dict` described."""
        known = set(state) if isinstance(state, Mapping) else set()
        new = [part for parts in _ADDED if known.intersection(parts) for part in parts]
        if not isinstance(state, Mapping) or (missing := [part for part in (*_STATE, *new) if part not in state]):
            lacks = f"lacks {missing}" if isinstance(state, Mapping) else f"is {state!r}"
            raise ValueError(f"the state of a bandit {lacks}; give what state_dict returned, whole")
        try:
            self = cls.__new__(cls)
            self._clock, self.learning = clock, check_learning(state.get("learning", "ask"))
            self._own(restored_core(dict(state), self._now(), check_count(state["ring"], "ring"), code))
            self._published, self._brought = (
                PublishCount.read(state.get("published")),
                Brought.read(state.get("brought")),
            )
            self._rng = np.random.default_rng()
            if fresh:
                self.policy.reseed(None)
            else:
                self._rng.bit_generator.state = state["rng"]
        except (KeyError, IndexError, AttributeError, OverflowError) as error:
            raise ValueError(
                f"this is no state of a bandit ({error!r}); give what state_dict returned, whole"
            ) from None
        return self

    def __reduce__(self) -> Any:
        code = saving.code_of(self.policy)
        for name, part in {"clock": self._clock, **code}.items():
            _refuse_unpicklable(name, part)
        return _unpickled, (type(self), self.state_dict(), self._clock, code)

    def __copy__(self) -> Self:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: Any) -> Self:
        code = saving.code_of(self.policy)
        return type(self).from_state_dict(copy.deepcopy(self.state_dict()), clock=self._clock, **code)


def _unpickled(kind: type[Copies], state: dict[str, Any], clock: Callable[[], float], code: dict[str, Any]) -> Copies:
    return kind.from_state_dict(state, clock=clock, **code)


def _refuse_unpicklable(name: str, part: Any) -> None:
    """Refuse to pickle a bandit with code that pickle cannot find again, such as a lambda."""
    try:
        pickle.dumps(part)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(
            f"this bandit cannot be pickled, as its {name} is {part!r} ({error}): give a function that stands at the "
            f"top of a module, or save the bandit to a file and load it with {name}=..."
        ) from None
