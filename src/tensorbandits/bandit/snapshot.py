"""A snapshot: all that deciding needs, as it was at one moment. Any thread may decide from it, and nothing is locked.

A new one takes its place, by one assignment, whenever there are new draws, rules, levels or settings.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorbandits.bandit.apprentice import Shadow
from tensorbandits.bandit.commands import Ask, Drawn
from tensorbandits.bandit.draws import Draws
from tensorbandits.bandit.law import RequestLaw
from tensorbandits.bandit.shares import Shares
from tensorbandits.base.checks import Cell, is_finite
from tensorbandits.base.errors import TensorbanditsError
from tensorbandits.base.pieces import gently
from tensorbandits.policies.approximate import as_sampling, best_of
from tensorbandits.policies.base import Policy
from tensorbandits.policies.query import Query
from tensorbandits.space import Space
from tensorbandits.tensor.allowed import Allowed, NothingAllowedError

_LAWS = 1024  # requests of which the law is kept
_AT_ONCE = 8  # laws that are worked out before other threads have a moment


class NotLearnedError(TensorbanditsError, RuntimeError):
    """There is no posterior draw yet to decide from; the learner makes some."""


class Snapshot:
    """What decisions are drawn from: posterior draws, what is allowed, and the shares of floors, ceilings and holdout.

    Parameters
    ----------
    version : of the rules and settings that it has.
    space : names of modes and levels, for messages.
    policy : tells mean rewards of a draw; one that does not sample decides by itself. ``None`` where it is not at hand.
    shares : floors, ceilings, holdout, baseline.
    draws : posterior draws; of a policy that samples, decisions need some.
    forbidden : what else may not be chosen, as partial cells.
    """

    def __init__(
        self,
        version: Any,
        space: Space,
        policy: Policy | None,
        shares: Shares,
        draws: Draws,
        *,
        samples: bool = True,
        forbidden: Sequence[dict[int, int]] = (),
    ) -> None:
        self.version, self.shares, self.samples = version, shares, samples
        self._space, self._policy, self.shape = space, policy, space.shape
        self.draws = draws if not draws or draws.shape == self.shape else draws.widened(self.shape)
        all_forbidden = [*space.forbidden, *forbidden, *(() if policy is None else policy.forbidden)]
        self._standing = Allowed.of(Allowed(forbidden=all_forbidden), self.shape)
        # A region that was split just now may still be given, by a request that came before.
        self._retired = {mode: set(some) for mode, some in space.retired.items() if mode not in space.regions}
        self._laws: dict[Any, RequestLaw] = {}

    def with_draws(self, draws: Draws) -> Snapshot:
        """Return the same with other draws; what was worked out of requests is kept.

        Draws of more levels wait for the snapshot that knows these, which is about to be made.
        """
        if draws.beyond(self.shape):
            return self
        if draws and draws.shape != self.shape:
            draws = draws.widened(self.shape)
        other = copy.copy(self)
        other.draws = draws
        return other

    def prepare(self, before: Draws) -> None:
        """Work out the laws of the requests that came while decisions were made from the draws before these."""
        for law in gently([law for law in list(self._laws.values()) if law.known(before)], _AT_ONCE):
            law.law(self.draws)

    def decide(self, ask: Ask, rng: np.random.Generator) -> Drawn:
        """Draw a decision for a request, and say with what probability."""
        self.refuse_played(ask.played is not None)
        rollout = self.shares.rollout
        try:
            law = self.law(ask)
            if not self.samples and self._policy is not None:
                return _placed(law.ask(self._policy, rng, ask.place), ask)._replace(version=self.version)
            if not self.draws and not law.paused:
                raise NotLearnedError("nothing was learned yet")
            drawn = _placed(law.draw(self.draws, rng, ask.place), ask)._replace(version=self.version)
        except NothingAllowedError:
            raise ValueError(self.nothing(ask)) from None
        own = 0.0 if rollout is None or self.shares.paused else rollout
        if ask.played is None or (own > 0.0 and (rng.random() if ask.place is None else ask.place.rollout) < own):
            return drawn
        would = self._shadow(drawn.cell, ask.played, law.probability(self.draws, ask.played), ask.propensity)
        return drawn._replace(
            cell=ask.played, propensity=ask.propensity, by="caller", note=None, would=would, draw=None
        )

    def chances(self, ask: Ask, cells: Sequence[Cell]) -> list[float | None]:
        """Return the probability with which :meth:`decide` plays each of some cells; ``None`` where it is not known."""
        law = self.law(ask)
        if not self.samples or not self.draws:
            return [None] * len(cells)
        own = 1.0 if self.shares.rollout is None else sum(law.chances)
        return [own * law.probability(self.draws, cell) + (1.0 - own) * (cell == ask.played) for cell in cells]

    def refuse_played(self, given: bool) -> None:
        """Refuse a request that says, or does not say, what the caller's own rule plays, where that is not asked."""
        if (self.shares.rollout is not None) != given:
            raise ValueError(_NO_APPRENTICE if given else _NO_RULE)

    def refuse(self, ask: Ask) -> None:
        """Refuse a request that could not be decided, without deciding it."""
        self.refuse_played(ask.played is not None)
        try:
            query = self.law(ask).query
            if query.allowed is not None and self.samples:
                best_of(self.draws.entries[-1][1], query)
            elif query.allowed is not None and self._policy is not None:
                self._policy.best(ask.levels, query.allowed)
        except NothingAllowedError:
            raise ValueError(self.nothing(ask)) from None

    def law(self, ask: Ask) -> RequestLaw:
        """Return the law of a request, checked."""
        key = ask.levels, ask.chosen
        found = self._laws.get(key)
        if found is None:
            found = RequestLaw(self._query(ask), self.shares)
            keep(self._laws, key, found, _LAWS)
        return found

    def query(self, ask: Ask) -> Query:
        """Return a request as policies take it, checked."""
        return self.law(ask).query

    def _query(self, ask: Ask) -> Query:
        space = self._space
        fixed = np.full(len(self.shape), -1)
        for mode, level in zip(space.context, ask.levels, strict=True):
            name, fixed[mode] = space.modes[mode], level
            if (label := space.levels[mode][level]) in self._retired.get(name, ()):
                raise ValueError(f"{label!r} of mode {name!r} is retired; give another, or restore it first")
        for mode, some in ask.chosen:
            name, labels = space.modes[mode], space.levels[mode]
            retired = self._retired.get(name, ())
            if retired and all(labels[level] in retired for level in some):
                shown = [labels[level] for level in some]
                raise ValueError(f"all of mode {name!r} that is allowed, {shown}, is retired; allow others too")
        allowed = Allowed.of(dict(ask.chosen) or None, self.shape, self._standing)
        return Query(ask.levels, fixed, allowed, self.shape, allowed)

    def _shadow(self, own: Cell, played: Cell, share: float, propensity: float | None) -> Shadow:
        """What is said of a decision beforehand that a caller's rule makes."""
        weight = share / propensity if propensity else share
        if propensity is not None and not (0.0 < propensity <= 1.0 and math.isfinite(weight * weight)):
            raise ValueError(
                f"propensity is {propensity!r}; it is the probability with which your own rule played what it played, "
                "above 1e-100 and at most 1, and goes with played"
            )
        policy = None if self._policy is None else as_sampling(self._policy)
        assert policy is not None
        both = np.array([own, played], dtype=np.int64)
        means = np.mean([policy.mean_rewards(draw, both) for _, draw in self.draws.entries], axis=0)
        return Shadow(own, weight, *means.tolist())

    def nothing(self, ask: Ask) -> str:
        """Return the words for a request that leaves nothing to choose."""
        names, labels = self._space.modes, self._space.levels
        context = zip(self._space.context, ask.levels, strict=True)
        given = {names[mode]: labels[mode][level] for mode, level in context}
        some = {names[mode]: [labels[mode][level] for level in these] for mode, these in ask.chosen}
        words = [f"given {given}" if given else "", f"with allowed={some}" if some else ""]
        return (
            f"nothing may be chosen {' and '.join(filter(None, words))}, as rules forbid the rest; allow more, or take "
            "back one of space.rules"
        )


def keep(kept: dict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Keep a value in the place of the oldest ones, if there are too many. Any thread may do so, without a lock."""
    while len(kept) >= most:
        with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread was faster
            del kept[next(iter(kept))]
    kept[key] = value


def _placed(drawn: Drawn, ask: Ask) -> Drawn:
    """Return what was drawn with the part of the visitor, if one side or another could have got them."""
    if ask.place is None or max(*drawn.chances, 1.0 - sum(drawn.chances)) >= 1.0:
        return drawn
    return drawn._replace(part=ask.place.part)


def refuse_propensity(propensity: float | None, *, alone: bool) -> None:
    """Refuse a propensity that is none, or that goes with no arm."""
    if propensity is not None and (alone or not is_finite(propensity) or not 0 < propensity <= 1):
        raise ValueError(
            f"propensity is {propensity!r}; it is the probability with which your own rule played what it "
            "played, above 0 and at most 1, and goes with played"
        )


_NO_RULE = (
    "this bandit is an apprentice: say which arm your own rule plays, played={...}, or switch the bandit on with "
    "apprentice=false"
)
_NO_APPRENTICE = "played is given, but this bandit is no apprentice: it decides itself; leave it out"
