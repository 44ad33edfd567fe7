"""Tensor Thompson sampling: draw a low-rank tensor from its posterior by Gibbs sweeps, and play its best cell."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from tensorbandits.base.checks import (
    Cell,
    Rank,
    check_array,
    check_cells,
    check_count,
    check_level,
    check_noise,
    check_positive,
    check_shape,
)
from tensorbandits.ledger import Ledger
from tensorbandits.model.described import ModeFeatures, described
from tensorbandits.model.features import NO_FEATURES, Features, Scales, check_features
from tensorbandits.model.gibbs import Structure, Units
from tensorbandits.model.likelihood import Likelihood
from tensorbandits.model.residual import Trying, misfit
from tensorbandits.model.revenue import revenue_of
from tensorbandits.model.rewards import Noise, Reward, likelihood_of
from tensorbandits.policies.apart import cells_by_draws
from tensorbandits.policies.approximate import MOST_STEPS, Draw, ModelSampling
from tensorbandits.policies.guard import TOGETHER, WarmGuard
from tensorbandits.policies.recent import RECENT
from tensorbandits.policies.schedule import settled_from
from tensorbandits.policies.structures import Candidate, Sampler, candidates, check_structure, guardian, refused
from tensorbandits.policies.tuning import USUAL, Tuning
from tensorbandits.tensor.packed import Packed
from tensorbandits.tensor.tucker import Floats, Ints

if TYPE_CHECKING:
    from tensorbandits.model.guided import Guided
    from tensorbandits.policies.revenue import RevenueOracle

_ONE_SWEEP = 500  # with more entries in all factors, one sweep per reward
_AT_ONCE = 2**20  # random numbers drawn at once
_DRAWS = 8  # over which shares of rewards are averaged
_FAR = 20.0  # nats of fading, after which next to nothing is left
_SURE: Floats = np.ones(1)
_APART = 2**12  # cells at most, where a draw of each alone is made: it lists them all, in files and snapshots too
_SMALLEST_DECAY = 1e-3
_BETWEEN = 4  # sweeps from one draw to the next that is looked at
_SETTLING = 4  # times as many sweeps before the posterior's chain is asked what features explain
_LOG = 2.0  # times as many rewards as before, from which on what comes at once decides where chains are
_LOOK = 1.05  # times as many rewards, after which that is looked at again


class Due(NamedTuple):
    """What a sampler has to catch up with: sweeps that are due, and how many rewards are worth one."""

    steps: int  # times that each chain sweeps for one reward
    share: float
    quiet: bool  # whether that is so little that an earlier draw will do
    anew: bool  # or so much that the chain will forget where it was


class Unscored(NamedTuple):
    """Rewards of a cell that structures will be scored by: how many, their sum, and what of each is news."""

    cell: Cell
    rounds: float
    total: float
    new: float


class GibbsOracle:
    """Draws from the posterior by Gibbs chains that go on from decision to decision, one for each structure."""

    def __init__(
        self,
        shape: Cell,
        candidates: Sequence[Candidate],
        *,
        likelihood: Likelihood,
        exploration: float,
        residual: bool | None,
        sweeps: int | None,
        max_sweeps: int,
        tuning: Tuning = USUAL,
        features: Features = NO_FEATURES,
    ) -> None:
        self.likelihood, self.exploration, self.residual, self.tuning = likelihood, exploration, residual, tuning
        self.features = self._described(features)
        self._sweeps, self.max_sweeps = sweeps, max_sweeps
        self.samplers = self._start(shape, candidates)
        self.guardian = self._start_guardian(shape, candidates)  # draws by the posterior itself, beside colder play
        self.playing = 0  # the structure that drew last
        self.seen = 0.0  # rewards that had been received at the last sweep
        self.log_faded = 0.0  # and how much had faded then
        self.corrected = 0.0  # rewards that were replaced since
        self.worth = 1.0  # rewards that say as much as one normal one
        self._unscored: list[Unscored] = []  # rewards that structures will be scored by
        self._together = 1.0  # of these, that are scored at once
        self.guard = WarmGuard(exploration, tuning=tuning)  # of play that is colder than the posterior
        self._chances: tuple[tuple[float, ...], Floats] = ((), _SURE)  # scores, and the chances that they make
        self._anew = False  # whether every draw is a new one, which tells what is believed and is not played

    def _start(self, shape: Cell, candidates: Sequence[Candidate]) -> list[Sampler]:
        """Return samplers that know nothing, each believed as far as its odds say."""
        return [Sampler(shape, one, self.likelihood, self.tuning, self.features) for one in candidates]

    def _start_guardian(self, shape: Cell, candidates: Sequence[Candidate]) -> Sampler:
        return Sampler(shape, guardian(candidates, shape), self.likelihood, self.tuning, self.features)

    def _described(self, features: Features) -> dict[int, ModeFeatures]:
        """Return features as chains take them, which share what is worked out of these."""
        return described(features, explained=self.tuning.explained)

    def watch(self, context: Cell) -> None:
        """Have the guard judge decisions given the levels of these modes."""
        self.guard.context = context

    def detach(self) -> None:
        """Make this copy draw anew each time, and by the posterior itself, whatever would be played."""
        self._anew, self.exploration, self.guard = True, 1.0, WarmGuard(1.0, tuning=self.tuning)

    @property
    def chances(self) -> Floats:
        """The probability of each structure to decide."""
        if len(self.samplers) == 1:
            return _SURE
        scores = tuple(sampler.score for sampler in self.samplers)
        if scores != self._chances[0]:
            each = np.exp(np.array(scores) - max(scores))
            least = self.tuning.any_structure
            self._chances = scores, (1.0 - least) * each / each.sum() + least / len(scores)
        return self._chances[1]

    def playing_shares(self) -> dict[str, float]:
        """Return how often each structure decides, by name, where several do and were judged by rewards."""
        names = [str(sampler.candidate) for sampler in self.samplers]
        return dict(zip(names, self.chances.tolist(), strict=True)) if self._judges else {}

    def observe(self, cell: Cell, count: float, total: float, ledger: Ledger) -> None:
        """Score the structures by rewards that they have not learned from yet, though the ledger has them.

        A cell that is played all the time all of them predict: the more it was tried, the less another reward counts.
        """
        if not self._judges:
            return
        self._unscored.append(Unscored(cell, count, total, self._news(cell, count, ledger)))
        if len(self._unscored) >= self._together:
            self._score()

    def _score(self) -> None:
        """Score the structures by the rewards that wait for it: draws are still those from before these."""
        if not self._unscored:
            return
        waiting, self._unscored = self._unscored, []
        cells = np.array([one.cell for one in waiting], dtype=np.int64)
        counts, totals, news = np.array([one[1:] for one in waiting]).T
        gains = news * self._log_scores(cells, counts, totals)
        stays = (1.0 - self.tuning.forget) ** (news * counts)
        for stay, each in zip(stays.tolist(), gains.T.tolist(), strict=True):
            for sampler, gain in zip(self.samplers, each, strict=True):
                sampler.score = stay * sampler.score + gain
            self._level_scores()

    def _log_scores(self, cells: Ints, counts: Floats, totals: Floats) -> Floats:
        """Return how well each structure predicts sums of rewards of cells (n, d), shape (structures, n)."""
        chains = [sampler.chain for sampler in self.samplers if sampler.chain]
        variances = np.max([chain.likelihood.variances_at(cells) for chain in chains], axis=0)
        return np.array([sampler.log_scores(cells, counts, totals, variances) for sampler in self.samplers])

    def observe_ledger(self, theirs: Ledger, ledger: Ledger) -> None:
        """Do the same by the rewards of another ledger, cell by cell."""
        for cell, count, total, _ in theirs:
            self.observe(cell, count, total, ledger)

    def correct(self, cell: Cell, old: float, new: float, ledger: Ledger, weight: float = 1.0) -> None:
        """Score the structures by another reward than they were scored by, as their draws predict both now."""
        self.corrected += weight
        if not self._judges:
            return
        self._score()
        share = weight * self._news(cell, 1.0, ledger)
        scores = self._log_scores(np.array([cell, cell]), np.ones(2), np.array([old, new]))
        for sampler, (before, after) in zip(self.samplers, scores.tolist(), strict=True):
            sampler.score += share * (after - before)
        self._level_scores()

    def fade(self, factor: float) -> None:
        """Let what rewards said of the structures count less."""
        self._score()
        for sampler in self.samplers:
            odds = sampler.candidate.odds
            sampler.score = odds + factor * (sampler.score - odds)
        self._level_scores()

    @property
    def _judges(self) -> bool:
        """Whether there are structures to choose from, and draws of all that are more than mostly the prior's."""
        several = len(self.samplers) > 1 and all(sampler.draws for sampler in self.samplers)
        return several and self.seen >= self.tuning.judged_from * self.samplers[0].numbers

    def _news(self, cell: Cell, count: float, ledger: Ledger) -> float:
        """What of each of the last rewards of a cell, which the ledger has, is news."""
        before = max(ledger[cell].rounds - count, 0.0)
        some = self.tuning.news * self.worth
        return min(1.0, some * math.log1p(count / (before + some)) / count)

    def _level_scores(self) -> None:
        """Count scores from the best one, and let none fall too far behind."""
        best = max(sampler.score for sampler in self.samplers)
        for sampler in self.samplers:
            sampler.score = max(sampler.score - best, -self.tuning.farthest)

    def __call__(self, ledger: Ledger, rng: np.random.Generator) -> Any:
        """Sweep for all new rewards, up to ``max_sweeps`` times, and return the draw of a structure."""
        return self.advance(ledger, rng).tensor()

    def advance(self, ledger: Ledger, rng: np.random.Generator) -> Packed:
        """Do the same, and return the model itself, which the next sweep will change."""
        chances = self.chances
        self.playing = int(np.searchsorted(np.cumsum(chances)[:-1], rng.random())) if len(chances) > 1 else 0
        playing = self.samplers[self.playing]
        due = self._due(ledger, playing)
        if self._tries(playing, ledger) and rng.random() * self.tuning.tried < 1.0:
            return Trying(playing.model(ledger), self._hardly_tried(ledger, rng))
        guards = self._guards(ledger, rng) if self._guarded and rng.random() < self.guard.share else None
        # Where cells deviate only the last draw is there to be recalled, and even without rewards must not be for ever.
        if self._knows(playing, due) and not (playing.deviates and rng.random() * due.share < 1.0):
            return guards or playing.recall(ledger, rng)
        self._score()
        self._together = due.share
        units, self.worth = self.likelihood.units(ledger), self.likelihood.worth(ledger)
        for sampler in self.samplers:
            self._prepare(sampler, ledger, units, rng)
        for k, (sampler, chance) in enumerate(zip(self.samplers, chances.tolist(), strict=True)):
            wanted = self._per_reward(sampler) * due.steps
            if k != self.playing:  # believed by few, it may lag behind
                sampler.credit += wanted * min(1.0, max(self.tuning.least_sweeps, 2.0 * chance))
                wanted = math.floor(sampler.credit)
                sampler.credit -= wanted
            self._catch_up(sampler, ledger, units, rng, int(min(wanted, self.max_sweeps)), due)
        self._let_deviate(playing, ledger, units, rng)
        self._climb(playing, ledger, units, rng, due)
        self._watch(playing, ledger, units, rng, due)
        self.seen, self.log_faded, self.corrected = ledger.received, ledger.log_faded, 0.0
        return guards or playing.model(ledger)

    def law(self, ledger: Ledger, rng: np.random.Generator, draws: int) -> Iterator[tuple[float, Packed]]:
        """Yield what :meth:`advance` would return next, each with its probability; nothing is changed.

        What is recalled is known exactly, also by the guard. Draws of each cell apart, and what must be swept for, are
        drawn as often as their share of ``draws`` is, each time from where the chain is now; a chain that has so much
        to catch up with that it will forget where it was catches up once, and goes on from there.
        """
        oracle = copy.deepcopy(self)
        units, worth = oracle.likelihood.units(ledger), oracle.likelihood.worth(ledger)
        for sampler, chance in zip(oracle.samplers, oracle.chances.tolist(), strict=True):
            due = oracle._due(ledger, sampler)
            if oracle._tries(sampler, ledger):
                model, few = sampler.model(ledger), math.ceil(draws / self.tuning.tried) + _DRAWS
                yield from (
                    (chance / self.tuning.tried / few, Trying(model, oracle._hardly_tried(ledger, rng)))
                    for _ in range(few)
                )
                chance *= 1.0 - 1.0 / self.tuning.tried
            if oracle._guarded:
                guards, share, apart = oracle.guardian.recalled(ledger), oracle.guard.share, oracle._apart(ledger)
                yield from ((chance * share * (1.0 - apart) / len(guards), model) for model in guards)
                few = math.ceil(draws * chance * share * apart) + _DRAWS if apart else 0
                yield from ((chance * share * apart / few, oracle._cells_apart(ledger, rng)) for _ in range(few))
                chance *= 1.0 - share
            if oracle._knows(sampler, due):
                swept = min(1.0 / due.share, 1.0) if sampler.deviates else 0.0
                recalled = sampler.recalled(ledger)
                yield from ((chance * (1.0 - swept) / len(recalled), model) for model in recalled)
                chance *= swept
            if chance > 0.0:
                oracle.worth, before = worth, oracle.worth
                some = max(1, round(draws * chance))
                yield from ((chance / some, model) for model in oracle._swept(sampler, ledger, units, rng, due, some))
                oracle.worth = before

    def _swept(
        self, sampler: Sampler, ledger: Ledger, units: Units, rng: np.random.Generator, due: Due, count: int
    ) -> Iterator[Packed]:
        """Yield draws of what a sampler will return when it has swept for all rewards that are due."""
        apart = min(math.ceil(self.likelihood.slowness(ledger)), MOST_STEPS)
        one: Sampler | None = None
        for _ in range(count):
            if one is not None and due.anew:
                self._sweep(one, ledger, units, rng, self._per_reward(one) * apart)
            else:
                one = copy.deepcopy(sampler)
                self._prepare(one, ledger, units, rng)
                wanted = min(self._per_reward(one) * due.steps, self.max_sweeps)
                self._catch_up(one, ledger, units, rng, wanted, due)
                self._let_deviate(one, ledger, units, rng)
                self._climb(one, ledger, units, rng, due)
            yield one.model(ledger).copy()

    def _due(self, ledger: Ledger, playing: Sampler) -> Due:
        """Return what there is to sweep for; draws that are obsolete by now are forgotten."""
        received = ledger.received
        lost = ledger.rounds * math.expm1(min(self.log_faded - ledger.log_faded, _FAR))  # rewards, since the last sweep
        much = (
            lost > (self.tuning.obsolete - 1.0) * ledger.rounds
        )  # is as good as news; little by little is nothing to catch up with
        news = max(received - self.seen + self.corrected, lost if much else 0.0)
        joint = playing.chain is not None and playing.chain.joint
        numbers = [sampler.numbers for sampler in self.samplers]
        settled = settled_from(numbers, together=joint, augmented=self.likelihood.augmented, tuning=self.tuning)
        # Rewards that are worth a sweep.
        share = 1.0 if self._anew else max(self.worth, ledger.rounds / settled)
        if received > self.tuning.obsolete * self.seen or much or news > RECENT * share or self.corrected > share:
            self._score()
            for sampler in (*self.samplers, self.guardian):
                sampler.forget()
        steps = max(1, math.floor(news / share)) if received else 0
        return Due(steps, share, quiet=received > 0.0 and max(news, lost) < share and share > 1.0, anew=steps > RECENT)

    def _tries(self, sampler: Sampler, ledger: Ledger) -> bool:
        """Say whether a draw may be for cells that were hardly tried."""
        return (
            not self._anew
            and sampler.draws > 0
            and self.residual is not False
            and self._per_cell(ledger) >= self.tuning.tried
        )

    def _knows(self, sampler: Sampler, due: Due) -> bool:
        """Say whether an earlier draw is as good as another."""
        return due.quiet and sampler.draws >= RECENT

    def _prepare(self, sampler: Sampler, ledger: Ledger, units: Units, rng: np.random.Generator) -> None:
        """Have a chain that can sweep, of the structure that so many rewards are enough for."""
        if sampler.chain is None or not self.seen:
            sampler.begin(units, rng, sweeps=ledger.received > 0.0)
        elif sampler.outgrow(ledger.rounds / self.worth, units, rng):
            self._sweep(sampler, ledger, units, rng, self.max_sweeps)
        if self.residual:
            sampler.allow_residual(units)

    def _let_deviate(self, sampler: Sampler, ledger: Ledger, units: Units, rng: np.random.Generator) -> None:
        """Let cells deviate from the structure that has predicted best, if they surely do, now and then."""
        best = max(one.score for one in self.samplers)
        due = self.residual is None and not sampler.deviates and ledger.received > _LOOK * sampler.looked
        if not due or sampler.score < best:
            return
        sampler.looked = ledger.received
        if self._misfits(sampler, ledger, units):  # as a chain does that has not found the tensor yet, after a log
            sampler.climb(ledger, units, rng, self.max_sweeps, self._weight(sampler, ledger))
            self._sweep(sampler, ledger, units, rng, self.max_sweeps)
            if self._misfits(sampler, ledger, units):
                sampler.allow_residual(units)
                self.guardian.allow_residual(units)
                sampler.forget()
                self._sweep(sampler, ledger, units, rng, self.max_sweeps)

    def _misfits(self, sampler: Sampler, ledger: Ledger, units: Units) -> bool:
        """Say whether cells surely deviate from the last draw of a structure."""
        assert sampler.chain is not None
        found = misfit(ledger, sampler.chain.values(ledger), sampler.chain.likelihood, units)
        return found > self.tuning.deviating

    def _climb(self, sampler: Sampler, ledger: Ledger, units: Units, rng: np.random.Generator, due: Due) -> None:
        """Have the hotter chains of a structure help it, if there are new rewards."""
        if ledger.received > self.seen:
            sampler.climb(ledger, units, rng, min(due.steps, self.max_sweeps), self._weight(sampler, ledger))

    @property
    def _guarded(self) -> bool:
        """Whether the guard decides at times, by a draw of the posterior itself."""
        return self.guard.share > 0.0 and self.guardian.draws > 0

    def _guards(self, ledger: Ledger, rng: np.random.Generator) -> Packed:
        """Return a draw by which the guard decides."""
        apart = self._apart(ledger)
        return self._cells_apart(ledger, rng) if apart and rng.random() < apart else self.guardian.recall(ledger, rng)

    def _apart(self, ledger: Ledger) -> float:
        """Return the share of the guard's decisions that are made as if there were no tensor."""
        cells = math.prod(ledger.shape)
        cold = self.exploration < self.tuning.apart_below and cells <= _APART
        return self.tuning.apart if cold and ledger.rounds >= self.tuning.apart_from * cells else 0.0

    def _cells_apart(self, ledger: Ledger, rng: np.random.Generator) -> Trying:
        """Return a draw of every cell by its own rewards."""
        return Trying(self.guardian.model(ledger), cells_by_draws(ledger, rng, rates=self.likelihood.rates))

    def _watch(self, sampler: Sampler, ledger: Ledger, units: Units, rng: np.random.Generator, due: Due) -> None:
        """Let the posterior itself be drawn now and then, and have its draw judge what is played."""
        warm = self.guardian
        if self._weight(sampler, ledger) <= 1.0:
            return
        assert sampler.chain is not None
        # A chain that draws all numbers together sweeps seldom; were the posterior's to do so less often, it would lag.
        effort = 1.0 if sampler.chain.joint else self.tuning.guard_sweeps
        warm.credit += self._per_reward(sampler) * due.steps * effort
        if warm.credit < TOGETHER:
            return
        sweeps, warm.credit = divmod(warm.credit, 1.0)
        if warm.chain is None:
            self._begin_watching(sampler, units, rng)
            warm.find(ledger, units, rng, self.max_sweeps, 1.0)
            sweeps = self.max_sweeps
        some = int(min(sweeps, self.max_sweeps))
        warm.sweep(ledger, units, rng, some, 1.0)
        warm.climb(ledger, units, rng, some, 1.0)
        self.guard.look(sampler.model(ledger), warm.model(ledger), ledger, self.likelihood, rng)

    def widest(self, ledger: Ledger, rng: np.random.Generator, count: int) -> list[Packed]:
        """Return draws of the structure that has what all others have, by the posterior itself; none if it is but one.

        What is kept of it moves on: have a copy do it.
        """
        if len(self.samplers) < 2:
            return []
        units, warm = self.likelihood.units(ledger), self.guardian
        if warm.chain is None:
            warm.begin(units, rng)
            warm.sweep(ledger, units, rng, self.max_sweeps, 1.0)
        return [model.copy() for model in warm.more(ledger, units, rng, _BETWEEN, count, 1.0)]

    def _per_cell(self, ledger: Ledger) -> float:
        """Return the rewards per cell, in those that say as much as a normal one."""
        return ledger.rounds / (self.worth * math.prod(ledger.shape))

    def _hardly_tried(self, ledger: Ledger, rng: np.random.Generator) -> Ints:
        """Return the cells (m, d), in any order, with fewer rewards than each must have, whatever is believed of it.

        That is one, and one more for each time that all rewards have doubled since: so regret grows by the logarithm.
        """
        least = self.worth * (1.0 + math.log2(self._per_cell(ledger) / self.tuning.tried))
        return rng.permutation(np.argwhere(ledger.dense()[0] < least))

    def _weight(self, sampler: Sampler, ledger: Ledger) -> float:
        """Return how often a reward counts: no more than once while there are few for each number that is learned.

        Of clicks and counts it grows in steps, as all that was drawn for a weight is drawn again for another one.
        """
        each = ledger.rounds / (self.worth * sampler.numbers)
        weight = max(1.0, each / self.tuning.sharpened_from)
        if self.likelihood.augmented:
            weight = self.tuning.obsolete ** math.floor(math.log(weight) / math.log(self.tuning.obsolete))
        return min(1.0 / self.exploration, weight)

    def _per_reward(self, sampler: Sampler) -> int:
        """Return how often a chain sweeps for a new reward."""
        assert sampler.chain is not None
        return self._sweeps or (1 if sampler.chain.joint or sampler.chain.entries > _ONE_SWEEP else 2)

    def _catch_up(
        self, sampler: Sampler, ledger: Ledger, units: Units, rng: np.random.Generator, sweeps: int, due: Due
    ) -> None:
        """Sweep for new rewards; where these are more than all before, as after a log, look for what they say first."""
        if due.anew and sweeps and ledger.received > _LOG * self.seen:
            sampler.find(ledger, units, rng, self.max_sweeps, self._weight(sampler, ledger))
        self._sweep(sampler, ledger, units, rng, sweeps)

    def _sweep(self, sampler: Sampler, ledger: Ledger, units: Units, rng: np.random.Generator, sweeps: int) -> None:
        """Sweep in parts, as all random numbers of one are drawn at once."""
        at_once = max(1, _AT_ONCE // sampler.numbers)
        self._hold(sampler, ledger, units, rng)
        while sweeps:
            some = min(sweeps, at_once)
            sampler.sweep(ledger, units, rng, some, self._weight(sampler, ledger))
            sweeps -= some

    def _hold(self, sampler: Sampler, ledger: Ledger, units: Units, rng: np.random.Generator) -> None:
        """Have colder chains believe of features what the posterior itself does, however often rewards count."""
        if not self.features:
            return
        if self._weight(sampler, ledger) <= 1.0:
            sampler.hold({})
            return
        warm = self.guardian
        if warm.chain is None:
            self._begin_watching(sampler, units, rng)
            warm.sweep(ledger, units, rng, _SETTLING * self.max_sweeps, 1.0)
        assert warm.chain is not None
        sampler.hold({mode: (one.tau, one.phi) for mode, one in warm.chain.features.items()})

    def _begin_watching(self, sampler: Sampler, units: Units, rng: np.random.Generator) -> None:
        """Start the chain of the posterior itself, beside that of a structure."""
        self.guardian.begin(units, rng)
        if self.residual or sampler.deviates:
            self.guardian.allow_residual(units)

    def more(self, ledger: Ledger, rng: np.random.Generator, count: int) -> Iterator[Packed]:
        """Yield ``count`` further draws given the same ledger, as calling that often would, sharing work."""
        sampler = self.samplers[0]
        if len(self.samplers) > 1 or not self.seen or sampler.chain is None or sampler.chain.residual is not None:
            yield from (self.advance(ledger, rng) for _ in range(count))
            return
        guards = rng.random(count) < self.guard.share if self._guarded else np.zeros(count, dtype=bool)
        cold = self._more(sampler, ledger, rng, count - int(guards.sum()))
        for guarding in guards:
            yield self._guards(ledger, rng) if guarding else next(cold)

    def _more(self, sampler: Sampler, ledger: Ledger, rng: np.random.Generator, count: int) -> Iterator[Packed]:
        """Yield further draws of a chain that play as cold as ever."""
        units = self.likelihood.units(ledger)
        self._hold(sampler, ledger, units, rng)
        per_draw = min(self._per_reward(sampler), self.max_sweeps)
        at_once = max(1, _AT_ONCE // sampler.numbers)
        while count:
            some = min(count, max(1, at_once // per_draw))
            yield from sampler.more(ledger, units, rng, per_draw, some, self._weight(sampler, ledger))
            count -= some

    def own_shares(self, ledger: Ledger, rng: np.random.Generator) -> list[Floats] | None:
        """Return for each mode how much the levels' own rewards decide of their rows, in the structure believed most.

        It is the average over some draws of the posterior; nothing is changed.
        """
        sampler = self.samplers[int(np.argmax(self.chances))]
        if sampler.chain is None:
            return None
        chain, units = copy.deepcopy(sampler.chain), self.likelihood.units(ledger)
        found = []
        for _ in range(_DRAWS):
            chain.sweep(ledger, units, rng, sweeps=1)
            observed = chain.likelihood.observe(ledger, units, chain.values(ledger), rng)
            found.append(chain.own_shares(observed))
        return [np.mean(shares, axis=0) for shares in zip(*found, strict=True)]

    def model(self) -> Packed | None:
        """Return the model of the last draw."""
        chain = self.samplers[self.playing].chain
        return chain.model if chain else None

    def grow(
        self,
        shape: Cell,
        candidates: Sequence[Candidate],
        rng: np.random.Generator,
        features: Features = NO_FEATURES,
    ) -> None:
        """Draw the rows of new levels from the prior; where the candidates are others, all starts from the prior."""
        self._score()
        self.features = self._described(features)
        follow = []
        for sampler, new in zip(self.samplers, candidates, strict=False):
            known = sampler.candidate.like(sampler.shape, self.features)
            both = (one for one in (new, new.later) if one is not None)
            follow.append(next((one for one in both if one.like(shape, self.features) == known), None))
        if len(candidates) != len(self.samplers) or None in follow:
            self.seen, self.playing, self._unscored = 0.0, 0, []
            self.samplers = self._start(shape, candidates)
            self.guard = WarmGuard(self.exploration, self.guard.context, self.tuning)
            self.guardian = self._start_guardian(shape, candidates)
            return
        for sampler, candidate in zip(self.samplers, follow, strict=True):
            assert candidate is not None
            sampler.grow(shape, candidate, rng, self.features)
        self.guardian.grow(shape, guardian(candidates, shape), rng, self.features)

    def feature_scales(self) -> list[Scales]:
        """Return tau and phi of the last draw, of the modes with features."""
        chain = self.samplers[self.playing].chain
        return [] if chain is None else [{mode: (one.tau, one.phi) for mode, one in chain.features.items()}]

    def describe(self, features: Features) -> None:
        """Go on with other features of the levels; draws that knew the old ones are forgotten."""
        self._score()
        self.features = self._described(features)
        for sampler in (*self.samplers, self.guardian):
            sampler.describe(self.features)
            sampler.forget()
        if any(sampler.chain is None for sampler in self.samplers):
            self.seen = 0.0

    def state(self) -> dict[str, Any]:
        """Return the draws of all chains, and how far they are."""
        samplers = {str(k): sampler.state() for k, sampler in enumerate(self.samplers)}
        names = ("seen", "log_faded", "corrected", "playing", "worth")
        numbers = {name: getattr(self, name) for name in names}
        modes = len(self.samplers[0].shape)
        unscored = np.array([[*cell, *rest] for cell, *rest in self._unscored], dtype=np.float64)
        waiting = {"together": self._together, "unscored": unscored.reshape(-1, modes + 3)}
        return (
            numbers | waiting | {"samplers": samplers, "guard": self.guard.state(), "guardian": self.guardian.state()}
        )

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` returned."""
        self.seen = check_array(state["seen"], "seen", ()).item()
        self.log_faded = check_array(state.get("log_faded", 0.0), "log_faded", ()).item()
        self.corrected = check_array(state.get("corrected", 0.0), "corrected", ()).item()
        worth = check_array(state.get("worth", 1.0), "worth", ()).item()  # states did not always have it
        self.worth = check_positive(worth, "what a normal reward is worth")
        self.playing = check_level(state["playing"], len(self.samplers), "the structure that drew last")
        if set(state["samplers"]) != {str(k) for k in range(len(self.samplers))}:
            raise ValueError(f"there are {len(state['samplers'])} samplers; the policy has {len(self.samplers)}")
        for k, sampler in enumerate(self.samplers):
            sampler.restore(state["samplers"][str(k)])
        if "guard" in state:  # states did not always have it
            self.guard.restore(state["guard"])
        if "guardian" in state:
            self.guardian.restore(state["guardian"])
        if "unscored" in state:  # nor this
            shape = self.samplers[0].shape
            rows = check_array(state["unscored"], "rewards to score by", (len(state["unscored"]), len(shape) + 3))
            cells = check_cells(rows[:, :-3].astype(np.int64), shape).tolist()
            rest = rows[:, -3:].tolist()
            self._unscored = [Unscored(tuple(cell), *one) for cell, one in zip(cells, rest, strict=True)]
            together = check_array(state["together"], "rewards that are scored at once", ()).item()
            self._together = check_positive(together, "rewards that are scored at once")


def by_name(features: Mapping[int, Floats]) -> dict[str, Floats]:
    """Return features by the position of their mode as text, as files have it."""
    return {str(mode): one for mode, one in features.items()}


class TensorThompsonSampling(ModelSampling):
    """Draw a low-rank tensor from its posterior given all rewards, and play its best cell.

    The prior is scale-free (it is stated in units of the rewards seen), the noise is learned unless given, rewards
    need not be centred, no horizon is needed. After a batch of rewards the sampler catches up. Rewards that are clicks
    or counts are drawn for as such: then the tensor holds the log-odds of rates, or the logarithms of means. Of revenue
    two tensors are drawn, each with structures of its own: log-odds of conversion rates, and logarithms of amounts.

    Parameters
    ----------
    shape, context, seed : as for every policy.
    rank : an int (a cap, lowered for smaller modes), a tuple, or ``"auto"``: several structures side by side, which
        decide as often as they predicted the rewards so far.
    structure : ``"tucker"``; ``"affine"``, where main effects and interactions of each order have a size of their own,
        and the rank counts columns besides the constant one; or ``"additive"``, main effects only. ``None`` is
        ``"tucker"`` for a given rank, and leaves the choice to ``"auto"``.
    reward : what a reward is. ``"gaussian"``: any number; ``"bernoulli"``: 0 or 1; ``"binomial"``: clicks out of
        trials; ``"count"``: a whole number, that may vary far more than a Poisson count; ``"revenue"``: mostly 0, else
        an amount above 0, log-normal; ``"revenue-signed"``: mostly 0, else a normal amount that may be negative too.
    exploration : the temperature: rewards count ``1 / exploration`` times, but no more than once until there are four
        for each number that is learned. 1 samples the posterior exactly, less explores less, which pays unless a few
        wrong first impressions are costly; so below 1 the posterior itself makes a share of the decisions, as far as
        it doubts the others, up to ``0.3 sqrt(exploration)``. ``None`` is 0.5, and 0.1 for clicks, each of which says
        so little that the posterior would have nearly all cells tried for most of a campaign (0.5 with pairs, which
        locked at 0.1); of revenue 0.25 for rates, 0.5 for amounts.
    features : numbers that describe the levels of some modes, (levels, numbers) by position of the mode, each
        column about 0 and of size 1. The rows of levels are about what their features say; how much these say is
        learned, and may be nothing. So a level that was never tried is believed to be like those that it resembles.
    noise : the standard deviation of a single Gaussian reward about its mean, when it is known; ``None`` learns it;
        ``"varying"`` learns how it differs with the levels of each mode.
    residual : let every observed cell deviate from the tensor, by as much as the rewards say. ``None`` does so once
        the rewards of observed cells surely differ from what the best structure says. From 200 rewards per cell on (of
        rare clicks, what says as much), one decision of 200 is for a cell that was hardly tried, whatever the tensor
        says of it, so that no cell stays ahead only because no tensor of low rank says better.
    decay : prior size of each column of a factor relative to the one before it; 1, the default, makes all columns
        alike.
    sweeps : Gibbs sweeps per new reward; more of them mix better and cost more. ``None`` is 2, or 1 when the factors
        have more than 500 entries, each of which changes little.
    max_sweeps : at most this many sweeps for one decision, however many rewards came since the last.
    draws : how many posterior draws ``best``, ``estimate`` and ``propensity`` average over.
    tuning : other values of the constants in :class:`Tuning`, by name, for those who study them.

    >>> policy = TensorThompsonSampling((3, 4, 5), rank=2, context=(0,), seed=0)
    >>> cell = policy.ask((1,))
    >>> policy.tell(cell, 0.7)
    >>> cell[0], len(policy.best((2,))), policy.estimate([cell]).shape
    (1, 3, (1,))
    """

    traits = replace(ModelSampling.traits, featured=True)
    state_version = 2
    older_versions = (1,)
    oracle: GibbsOracle | RevenueOracle

    def __init__(
        self,
        shape: Sequence[int],
        rank: Rank = "auto",
        *,
        context: Sequence[int] = (),
        structure: Structure | None = None,
        reward: Reward = "gaussian",
        exploration: float | None = None,
        noise: Noise = None,
        features: Mapping[Any, ArrayLike] | None = None,
        residual: bool | None = None,
        decay: float | None = None,
        sweeps: int | None = None,
        max_sweeps: int = 100,
        draws: int = 64,
        tuning: Mapping[str, float] | None = None,
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        constants = Tuning.of(tuning)
        self.tuning = None if tuning is None else dict(tuning)
        self.rank, self.structure = rank, check_structure(structure)
        self.reward: Reward = reward
        self.exploration = None if exploration is None else check_positive(exploration, "exploration")
        if isinstance(noise, str) and noise != "varying":
            raise ValueError(f'noise is {noise!r}; give a number, None, which learns it, or "varying", by level')
        self.noise: Noise = noise if isinstance(noise, str) else check_noise(noise)
        if residual is not None and not isinstance(residual, (bool, np.bool_)):
            raise TypeError(f"residual is {residual!r}; give True, False, or None for when there are many rewards")
        self.residual = residual
        self.decay = None if decay is None else check_positive(decay, "decay")
        if decay is not None and not _SMALLEST_DECAY <= decay <= 1:
            raise ValueError(f"decay is {decay}; it must be from {_SMALLEST_DECAY:g} to 1 (1: all columns alike)")
        self.sweeps = None if sweeps is None else check_count(sweeps, "sweeps")
        self.max_sweeps = check_count(max_sweeps, "max_sweeps")
        sizes = check_shape(shape)
        self.features = None if features is None else by_name(check_features(features, sizes))
        super().__init__(sizes, self._make_oracle(sizes, constants), context=context, draws=draws, seed=seed)
        self.oracle.watch(self.context)
        self._scales: list[list[Scales]] = []  # of what features say, of each posterior draw
        if (revenue := revenue_of(reward)) is not None:
            self._ledger = revenue.ledger(self.shape)

    def _make_oracle(self, shape: Cell, tuning: Tuning) -> GibbsOracle | RevenueOracle:
        """Return an oracle that has seen nothing, or two of them as one."""
        given, revenue = self.exploration, revenue_of(self.reward, self.noise)
        rest: dict[str, Any] = {"residual": self.residual, "sweeps": self.sweeps, "max_sweeps": self.max_sweeps}
        rest |= {"tuning": tuning, "features": self._described(shape)}
        if revenue is not None:
            from tensorbandits.policies.revenue import RevenueOracle

            both = given or tuning.temperature_of_rates, given or tuning.temperature
            return RevenueOracle(shape, self._candidates(shape), likelihood=revenue, temperatures=both, **rest)
        likelihood, candidates = likelihood_of(self.reward, noise=self.noise), self._candidates(shape)
        cold = self.reward in ("bernoulli", "binomial") and candidates[0].structure != "pairs"
        temperature = given or (tuning.temperature_of_clicks if cold else tuning.temperature)
        return GibbsOracle(shape, candidates, likelihood=likelihood, exploration=temperature, **rest)

    @classmethod
    def _upgraded(cls, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Keep what was told, and start chains that catch up with it; version 1 sampled the posterior itself."""
        arguments = {**state["arguments"], "exploration": 1.0, "residual": False}
        return {**state, "arguments": arguments, "state": {}}

    def _restore(self, state: Mapping[str, Any]) -> None:
        if state:
            super()._restore(state)

    def refusal_to_grow(self, shape: Sequence[int]) -> str | None:
        """Return why no structure can follow to a larger shape, or ``None``."""
        return super().refusal_to_grow(shape) or refused(self._candidates, check_shape(shape))

    def _candidates(self, shape: Cell) -> list[Candidate]:
        return candidates(self.rank, self.structure, shape, self.decay, self.reward, Tuning.of(self.tuning))

    def _grow(self, shape: Cell) -> None:
        super()._grow(shape)
        features = self._described(shape)
        self.oracle.grow(shape, self._candidates(shape), self._rng, features)
        self.features = self.features and by_name(features)
        model = self.oracle.model()
        self._draw = None if model is None else model.copy()

    def _described(self, shape: Cell) -> dict[int, Floats]:
        """Return the features of all levels of a shape; of those that nothing is known of they are 0, the mean."""
        known = {int(mode): np.asarray(one) for mode, one in (self.features or {}).items()}
        return {j: np.vstack([one, np.zeros((shape[j] - len(one), one.shape[1]))]) for j, one in known.items()}

    def _describe(self, mode: int, features: Floats | None) -> None:
        others = {j: one for j, one in self._described(self.shape).items() if j != mode}
        found = others if features is None else dict(sorted((others | {mode: features}).items()))
        self.features = by_name(found) or None
        self.oracle.describe(found)
        self._seen, self._believed, self._law = -1, [], []
        model = self.oracle.model()
        self._draw = None if model is None else model.copy()

    def playing(self) -> dict[str, float]:
        """Return how often each structure decides, by name, where several do and their predictions were judged."""
        return self.oracle.playing_shares()

    def _noted(self, oracle: Any, kept: bool) -> None:
        self._scales = [*self._scales, oracle.feature_scales()][-self.draws :] if kept else []

    def _guided(self, places: Mapping[int, Sequence[slice]]) -> tuple[Mapping[int, Guided], Mapping[int, Guided]]:
        from tensorbandits.model.guided import guided

        draws, rng = [draw.tensor() for draw in self._posterior_draws() if isinstance(draw, Packed)], self._aside()
        found: tuple[dict[int, Guided], dict[int, Guided]] = ({}, {})
        for mode, F in self._described(self.shape).items():
            columns = places.get(mode) or [slice(at, at + 1) for at in range(F.shape[1])]
            for k, into in enumerate(found):
                scales = [one[k] for one in self._scales if k < len(one)]
                if scales and all(mode in one for one in scales):
                    tensors = [draw[k] if isinstance(draw, tuple) else draw for draw in draws]
                    into[mode] = guided(tensors, mode, F, columns, scales, rng)
        return found

    def _next_draws(self) -> list[tuple[float, Draw]]:
        return list(self.oracle.law(self._ledger, self._aside(), self.draws))

    def _more_widely(self) -> list[Packed]:
        return copy.deepcopy(self.oracle).widest(self._ledger, self._aside(), self.draws)

    def _own_shares(self) -> list[Floats] | None:
        rng, oracle = self._aside(), self.oracle
        if oracle.model() is None:  # nothing was decided yet
            oracle = copy.deepcopy(oracle)
            oracle.advance(self._ledger, rng)
        return oracle.own_shares(self._ledger, rng)

    def _observe(self, cell: Cell, count: float, total: float, note: Any) -> None:
        self.oracle.observe(cell, count, total, self._ledger)

    def _observe_ledger(self, ledger: Ledger) -> None:
        self.oracle.observe_ledger(ledger, self._ledger)

    def _correct(self, cell: Cell, old: float, new: float, note: Any, weight: float) -> None:
        self.oracle.correct(cell, old, new, self._ledger, weight)

    def _fade(self, factor: float) -> None:
        self.oracle.fade(factor)

    @classmethod
    def paper(cls, shape: Sequence[int], rank: Rank, **arguments: Any) -> Self:
        """Return the policy in the paper's setting: known noise of standard deviation 1, one sweep a round.

        The paper leaves the sampling oracle of its Algorithm 4 open; this is ours with its section 4's Gaussian rows.
        """
        return cls(
            shape,
            rank,
            **({"noise": 1.0, "decay": 1.0, "sweeps": 1, "exploration": 1.0, "residual": False} | arguments),
        )
