"""A published snapshot: all that deciding needs, in one file, to be decided from in any process.

The learner publishes one when there is something new. It has posterior draws, the space with its rules, floors,
ceilings, holdout and baseline, what a reward may be, and the window; it has no rewards, and no decisions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit.core import Core
from tensorbandits.bandit.draws import Draws
from tensorbandits.bandit.plain_draws import draws_from_state, draws_state
from tensorbandits.bandit.shares import Shares
from tensorbandits.bandit.snapshot import Snapshot
from tensorbandits.bandit.spans import Span
from tensorbandits.base import codec
from tensorbandits.base.checks import Cell, check_cells, check_count, check_reward, is_finite
from tensorbandits.base.errors import TensorbanditsError
from tensorbandits.model.likelihood import Likelihood
from tensorbandits.model.revenue import Revenue, revenue_of
from tensorbandits.model.rewards import likelihood_of
from tensorbandits.policies.approximate import Draw, as_sampling
from tensorbandits.space import Space
from tensorbandits.tensor.packed import Packed
from tensorbandits.tensor.tucker import values_at

DRAWS = 64  # of a snapshot: hundreds of decisions are made from one, and with few draws they would be of few arms
VERSION = 1  # of the format: a reader refuses a larger one, and leaves alone what it does not know of its own
UID_BYTES = 8
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # as the decision service has it


class SnapshotRefusedError(TensorbanditsError, ValueError):
    """A published snapshot is damaged, cut short, of another bandit, or of a newer release."""


class CannotPublishError(TensorbanditsError, ValueError):
    """A bandit cannot be decided for elsewhere: its policy does not decide from posterior draws."""


@dataclass(frozen=True, eq=False)
class PublishedSnapshot:
    """All that deciding needs, as one value that can be saved, sent and decided from.

    Parameters
    ----------
    name : of the bandit.
    uid : 16 hexadecimal digits that no other bandit has, nor one that is made anew under the same name.
    version : grows with each that is published of this bandit.
    event : the number of the last event, or of rewards, that it knows.
    time : when it was made, in seconds.
    policy : the class of the policy.
    reward : the kind of rewards, ``None`` for any numbers.
    space, shares, draws : what decisions are drawn by.
    forbidden : partial cells that the policy may not choose, besides the rules of the space.
    window, default : how long a decision waits for its reward, and what it is told then.
    """

    name: str
    uid: str
    version: int
    event: int
    time: float
    policy: str
    reward: str | None
    space: Space
    shares: Shares
    draws: Draws
    forbidden: tuple[dict[int, int], ...] = ()
    window: Span | None = None
    default: float | None = None

    @classmethod
    def of(
        cls,
        core: Core,
        *,
        name: str,
        uid: str,
        version: int,
        event: int,
        time: float,
        draws: int | Draws | None = None,
        learn: bool = True,
    ) -> Self:
        """Return the snapshot of a bandit as it is now, with so many new ``draws``, with those given, or with its own.

        It waits for the learner. Without ``learn`` its own are those drawn already, whatever was told since.
        """
        if as_sampling(core.policy) is None:
            raise CannotPublishError(
                f"{type(core.policy).__name__} does not decide from posterior draws, so that nothing could be decided "
                "from a snapshot of it; publish a bandit of policy 'thompson' or 'ensemble'"
            )
        wanted = draws if draws is None or isinstance(draws, Draws) else check_count(draws, "draws")
        if learn and core.learner.stale:  # each draw will decide many times: all of them are to know the last reward
            core.learner.refresh(wait=True, least=core.learner.draws.size)
        if isinstance(wanted, int):
            wanted = None if learn and wanted == len(core.learner.draws.entries) else _drawn(core, wanted)
        with core.known() as (space, snapshot):
            found, policy = wanted or snapshot.draws, core.policy
            if found and found.shape != space.shape:  # a level was added meanwhile
                found = found.widened(space.shape)
            book, shares = core.state.book, snapshot.shares
            return cls(
                name=check_name(name),
                uid=check_uid(uid),
                version=check_count(version, "version"),
                event=check_count(event, "event", 0),
                time=float(time),
                policy=type(policy).__name__,
                reward=getattr(policy, "reward", None),
                space=space,
                shares=shares,
                draws=found,
                forbidden=tuple(dict(partial) for partial in policy.forbidden),
                window=book.window,
                default=book.default,
            )

    def with_version(self, version: int) -> Self:
        """Return the same under another number."""
        return replace(self, version=check_count(version, "version"))

    def snapshot(self) -> Snapshot:
        """Return what decisions are drawn from."""
        return Snapshot(self.version, self.space, None, self.shares, self.draws, forbidden=self.forbidden)

    # Rewards.

    @cached_property
    def _likelihood(self) -> Likelihood | Revenue | None:
        return None if self.reward is None else revenue_of(self.reward) or likelihood_of(self.reward)

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a number, if it can be one of this bandit; else say what can."""
        value = check_reward(reward)
        if self._likelihood is not None and not self._likelihood.may_be(value):
            raise ValueError(
                f'the reward is {value:g}; with reward="{self.reward}" allowed are {self._likelihood.allowed}'
            )
        return value

    def believed(self, cells: Sequence[Cell]) -> NDArray[np.float64]:
        """Return the mean rewards of some cells that the draws believe in, shape (n,)."""
        array = check_cells(cells, self.space.shape)
        drawn = np.array([_values(draw, array) for _, draw in self.draws.entries])
        if self._likelihood is None:
            return np.asarray(drawn.mean(axis=0))
        return np.asarray(self._likelihood.typical(self._likelihood.rewards(drawn)))

    # As a file.

    def to_bytes(self) -> bytes:
        """Return the snapshot as the content of a file: safetensors with JSON metadata, and a checksum."""
        return codec.pack("snapshot", VERSION, self._state())

    def _state(self) -> dict[str, Any]:
        shares = self.shares
        return {
            "name": self.name,
            "uid": self.uid,
            "version": self.version,
            "event": self.event,
            "time": self.time,
            "policy": self.policy,
            "reward": self.reward,
            "space": {name: part for name, part in self.space.state().items() if name != "features"},
            "shares": shares.state(),
            "holdout": shares.holdout,
            "rollout": shares.rollout,
            "paused": shares.paused,
            "forbidden": [[list(pair) for pair in partial.items()] for partial in self.forbidden],
            "window": None if self.window is None else list(self.window),
            "default": self.default,
            "draws": draws_state(self.draws),
        }

    @classmethod
    def from_bytes(cls, content: bytes, source: str = "the snapshot") -> Self:
        """Return the snapshot of a file's content; refuse one that is damaged, foreign, or of a newer release.

        ``source`` says in messages where it came from.
        """
        try:
            saved = codec.unpack(content)
        except ValueError as error:
            newer = "newer release" in str(error)
            raise SnapshotRefusedError(_newer(source) if newer else _damaged(source)) from None
        if saved.kind != "snapshot":
            raise SnapshotRefusedError(
                f"{source} holds a {saved.kind!r}, no published snapshot; give the address that a bandit publishes to"
            )
        if saved.version > VERSION:
            raise SnapshotRefusedError(_newer(source, saved.version))
        try:
            return cls._restored(saved.state)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise SnapshotRefusedError(f"{_damaged(source)} ({error})") from None

    @classmethod
    def _restored(cls, state: Mapping[str, Any]) -> Self:
        space = Space.from_state(state["space"])
        shares = Shares.from_state(state["shares"], state["holdout"], space, state["rollout"], state["paused"])
        reward, time, default = state["reward"], state["time"], state["default"]
        if reward is not None and revenue_of(reward) is None:
            likelihood_of(reward)
        if not is_finite(time) or not (default is None or is_finite(default)):
            raise ValueError(f"the time is {time!r} and the default {default!r}; these are numbers")
        found = cls(
            name=check_name(state["name"]),
            uid=check_uid(state["uid"]),
            version=check_count(state["version"], "version"),
            event=check_count(state["event"], "event", 0),
            time=float(time),
            policy=str(state["policy"]),
            reward=reward,
            space=space,
            shares=shares,
            draws=draws_from_state(state["draws"], space.shape),
            forbidden=tuple({int(mode): int(level) for mode, level in partial} for partial in state["forbidden"]),
            window=Span.written(state["window"]),
            default=default,
        )
        if not found.draws and not shares.paused:
            raise ValueError("it has no posterior draws")
        return found

    def __repr__(self) -> str:
        return (
            f"PublishedSnapshot({self.name!r}, version {self.version}, of event {self.event}; {self.space}, "
            f"{len(self.draws.entries)} draws of {self.policy})"
        )


def _drawn(core: Core, count: int) -> Draws:
    """So many new draws of a bandit, for which nobody who decides waits."""
    policy = as_sampling(core.policy)
    assert policy is not None
    fresh = policy.fresh_draws(count)
    return Draws(count).joined(fresh, fresh[0].shape)


def check_name(name: Any) -> str:
    """Return the name of a bandit, which becomes part of the names of files."""
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ValueError(
            f"the bandit's name is {name!r}; give at most 100 letters, digits, dots, hyphens and underscores, the "
            "first of them a letter or a digit"
        )
    return name


def check_uid(uid: Any) -> str:
    """Return the uid of a bandit: 16 hexadecimal digits.

    >>> check_uid("00ff00ff00ff00ff")
    '00ff00ff00ff00ff'
    """
    try:
        fine = isinstance(uid, str) and len(bytes.fromhex(uid)) == UID_BYTES
    except ValueError:
        fine = False
    if not fine:
        raise ValueError(f"the uid is {uid!r}; the uid of a bandit is {2 * UID_BYTES} hexadecimal digits")
    return str(uid)


def _values(draw: Draw, cells: NDArray[np.int64]) -> NDArray[np.float64]:
    return draw.at(cells) if isinstance(draw, Packed) else values_at(draw, cells)


def _damaged(source: str) -> str:
    return f"{source} is damaged or cut short; publish it again, or take another copy"


def _newer(source: str, version: int | None = None) -> str:
    what = "a newer format" if version is None else f"format {version}"
    return (
        f"{source} is of {what}, but this release reads up to format {VERSION}: it was published by a newer release; "
        "upgrade tensorbandits here (deciders first, then what publishes)"
    )
