"""Thompson sampling with any sampler: draw a tensor of mean rewards, play its best cell (the paper's Algorithm 4).

The frame of all sampling policies. An *oracle* maps the history to a random draw of the mean tensor; the closer
the law of its best cell is to the posterior law, the lower the regret (Theorem 3).
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbandits.base.checks import (
    Cell,
    Rank,
    check_array,
    check_cells,
    check_count,
    check_probability,
    check_shape,
    resolve_rank,
)
from tensorbandits.ledger import Ledger
from tensorbandits.model.likelihood import Likelihood
from tensorbandits.model.revenue import Revenue
from tensorbandits.model.revenue_draw import RevenueDraw
from tensorbandits.model.rewards import Reward
from tensorbandits.policies.base import Policy
from tensorbandits.policies.query import Choice, Query
from tensorbandits.policies.traits import Traits
from tensorbandits.tensor.packed import Packed
from tensorbandits.tensor.tucker import Floats, Tucker, best_cell, values_at

if TYPE_CHECKING:
    from tensorbandits.model.guided import Guided
    from tensorbandits.policies.explanation import Explanation

Draw = Tucker | Floats | Packed

SLOW_CORE = 512  # with more entries of the core a decision takes more than a tenth of a second
_LARGEST_CORE = 4096
_CORE_SECONDS = 2e-10  # per cubed entry of the core
_SETTLING = 20  # draws that are thrown away where the sampler moves slowly
_ROUNDING = 1e-9  # of a number of draws
MOST_STEPS = 40  # of the sampler between two posterior draws, where it moves slowly


class Oracle(Protocol):
    """What approximate Thompson sampling needs: a draw of the mean tensor given the ledger.

    A draw is a :class:`~tensorbandits.tensor.Tucker` or an array of the policy's shape. A plain function will do.
    """

    def __call__(self, ledger: Ledger, rng: np.random.Generator, /) -> Draw:
        """Return one draw of the mean tensor, given all rewards so far."""
        ...


class ApproximateThompsonSampling(Policy):
    """Thompson sampling with an oracle of your own.

    Parameters
    ----------
    shape, context, seed : as for every policy.
    oracle : ``oracle(ledger, rng)`` returns a random draw of the mean tensor: a ``Tucker`` or an array of ``shape``.
        It may keep state, in which case it must survive ``copy.deepcopy``.
    draws : how many draws ``best``, ``estimate`` and ``propensity`` average over.

    >>> def oracle(ledger, rng):
    ...     N, Y, _ = ledger.dense()
    ...     return Y / (N + 1) + rng.standard_normal(N.shape) / np.sqrt(N + 1)
    >>> policy = ApproximateThompsonSampling((2, 3), oracle, seed=0)
    >>> cell = policy.ask()
    >>> policy.tell(cell, 1.0)
    """

    traits = Traits(samples=True, grows=True, fades=True, learns_apart=True)

    def __init__(
        self,
        shape: Sequence[int],
        oracle: Oracle,
        *,
        context: Sequence[int] = (),
        draws: int = 64,
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        super().__init__(shape, context=context, seed=seed)
        if not callable(oracle):
            raise TypeError(
                f"oracle is {oracle!r}; give a function oracle(ledger, rng) that returns a draw of the tensor"
            )
        self.oracle = oracle
        self.draws = check_count(draws, "draws")
        self._draw: Draw | None = None  # what decisions are made from
        self._seen = -1  # the version of the ledger that the following are of, which were drawn to look at
        self._believed: list[Draw] = []  # draws of what is believed
        self._widest: list[Packed] = []  # and of the structure that has what all others have
        self._law: list[tuple[float, Draw]] = []  # what the next decision may be made from, with its probability

    def _ready(self) -> bool:
        return self._draw is not None

    def _learn(self) -> None:
        self._seen, self._believed, self._law, self._widest = -1, [], [], []
        self._draw = self._checked_draw(self.oracle, self._rng)

    def _forget_outdated(self) -> None:
        """Forget the draws that were made to look at, unless they are of all that is known now."""
        if self._seen != self._ledger.version:
            self._seen, self._believed, self._law = self._ledger.version, [], []
            self._widest = []

    def propose(self, query: Query, rng: np.random.Generator | None = None) -> Choice:
        """Return the best allowed cell of the last draw; waits for nobody once there is one."""
        if not isinstance(query, Query):
            raise TypeError(f"{query!r} is no Query; give what policy.query(levels, allowed) returns")
        draw = self._draw
        if draw is None or query.shape != draw.shape:  # nothing was learned yet, or a mode has gained levels since
            with self._turns.still():
                query, draw = self.query(query.levels, query.given), self._draw
                if draw is None:
                    draw = self._checked_draw(copy.deepcopy(self.oracle), rng or self._rng)
        return Choice(best_of(draw, query))

    def decide(self, query: Query, rng: np.random.Generator | None = None) -> Choice:
        """Return the best allowed cell of the last draw, as :meth:`propose` does; there is nothing to count."""
        if self._draw is None and isinstance(query, Query):
            self.learn()
        return self.propose(query, rng or self._rng)

    def fresh_draws(self, count: int = 1, *, wait: bool = True) -> list[Draw]:
        """Learn once, and return new draws to decide from; the first is the one that :meth:`decide` reads.

        While another thread learns there are none, unless one waits for it.
        """
        more = check_count(count, "count") - 1
        if not self._turns.begin(wait=wait):
            return []
        try:
            self._learn()
            assert self._draw is not None
            return [self._draw, *self._more(more)]
        finally:
            self._turns.end()

    def _more(self, count: int) -> list[Draw]:
        """Further draws given the same ledger."""
        return [self._checked_draw(self.oracle, self._rng) for _ in range(count)]

    def _checked_draw(self, oracle: Oracle, rng: np.random.Generator) -> Draw:
        """Return a draw of an oracle, which is one of the whole tensor."""
        draw = oracle(self._ledger, rng)
        if not isinstance(draw, (Tucker, np.ndarray)) or draw.shape != self._ledger.shape:
            raise ValueError(
                f"the oracle returned {type(draw).__name__} of shape {getattr(draw, 'shape', None)}; "
                f"it must return a Tucker tensor or an array of shape {self._ledger.shape}"
            )
        if isinstance(draw, Tucker):
            return Tucker(draw.core, draw.factors, draw.offset)  # its arrays may have been changed since
        return check_array(draw, "what the oracle returned", self._ledger.shape)

    def _choose(self, query: Query, rng: np.random.Generator) -> Choice:
        assert self._draw is not None
        return Choice(best_of(self._draw, query))

    def _grow(self, shape: Cell) -> None:
        self._draw = None

    def replace_ledger(self, ledger: Ledger) -> None:
        """Learn from other sums in the place of all rewards told so far; what is believed goes on from there.

        >>> from tensorbandits import TensorThompsonSampling
        >>> policy, sums = TensorThompsonSampling((2, 3), rank=1, seed=0), Ledger((2, 3))
        >>> policy.tell((0, 1), 5.0)
        >>> sums.add([(0, 1), (1, 2)], [4.0, 1.0])
        >>> policy.replace_ledger(sums)
        >>> policy.ledger == sums
        True
        """
        if not isinstance(ledger, Ledger):
            raise TypeError(f"{ledger!r} is no Ledger; add rewards to one of shape {self.shape}, and give that")
        if ledger.shape != self.shape:
            raise ValueError(f"the ledger has shape {ledger.shape}, the policy {self.shape}; both must be the same")
        self.check_ledger(ledger)
        with self._turns.frozen():
            news = self._ledger.gained(ledger)
            self._ledger.take_over(ledger)
            self._observe_ledger(self._possible(news))

    def _possible(self, ledger: Ledger) -> Ledger:
        """What of a ledger can be sums of rewards here: differences of sums need not be, where some were corrected."""
        return ledger

    def propensity(self, cell: Sequence[int], allowed: Any = None) -> float:
        """Return the probability that the next ``ask`` returns this cell, given its context and what is allowed.

        See :meth:`shares`; nothing is changed.
        """
        (valid,) = check_cells([cell], self.shape).tolist()
        return self.shares(tuple(valid[j] for j in self.context), allowed).get(tuple(valid), 0.0)

    def shares(self, levels: Sequence[int] = (), allowed: Any = None) -> dict[Cell, float]:
        """Return the probability of each cell to be returned by the next ``ask``, the largest first; others have none.

        It is the law of that decision given all that the policy holds at this moment (its rewards, its sampler's
        present state, the draws that it may play again), over the random numbers to come: what copies of the policy
        would play that are each given another seed. What must be drawn for it is drawn as often as ``draws`` says, on
        copies, so that it is known up to the error of so many draws; nothing is changed.

        >>> from tensorbandits import TensorThompsonSampling
        >>> policy = TensorThompsonSampling((2, 3), rank=1, context=(0,), seed=0)
        >>> policy.tell_many([(0, 0), (0, 1), (0, 2)] * 50, [0.0, 9.0, 0.0] * 50)
        >>> policy.shares((0,))
        {(0, 1): 1.0}
        """
        found: dict[Cell, list[float]] = {}
        with self._turns.still():
            query = self.query(levels, allowed)
            self._forget_outdated()
            if not self._law:
                self._law = self._next_draws()
            for weight, draw in self._law:
                found.setdefault(best_of(draw, query), []).append(weight)
        chances = {cell: math.fsum(weights) for cell, weights in found.items()}
        total = math.fsum(chances.values())
        return {cell: chance / total for cell, chance in sorted(chances.items(), key=lambda item: -item[1])}

    def _next_draws(self) -> list[tuple[float, Draw]]:
        """Return what the next decision may be made from, each with its probability."""
        rng = self._aside()
        return [(1.0, self._checked_draw(copy.deepcopy(self.oracle), rng)) for _ in range(self.draws)]

    def samples(self, cells: ArrayLike) -> NDArray[np.float64]:
        """Return the mean rewards of cells (n, d) in each posterior draw, shape (draws, n).

        Their mean over draws, of counts their median, is :meth:`estimate`; what is added up of them has the posterior
        of that sum.
        """
        valid = check_cells(cells, self.shape)
        with self._turns.still():
            return np.array([self._mean_rewards(draw, valid) for draw in self._posterior_draws()])

    def _best(self, query: Query) -> Cell:
        """The cell of largest mean over the draws, among the cells that are best in one of them."""
        candidates = sorted({best_of(draw, query) for draw in self._posterior_draws()})
        return candidates[int(self._estimate(np.array(candidates)).argmax())]

    def _estimate(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.typical(np.array([self._mean_rewards(draw, cells) for draw in self._posterior_draws()]))

    def typical(self, rewards: Floats) -> Floats:
        """Return what is believed of mean rewards (n,), given draws of them (draws, n), such as :meth:`samples`."""
        return np.asarray(rewards.mean(axis=0))

    def interval(self, cells: ArrayLike, level: float = 0.9) -> NDArray[np.float64]:
        """Return bounds between which the mean rewards of cells (n, d) are believed to be, shape (n, 2).

        ``level`` is the probability that a mean lies between its two bounds.
        """
        share, valid = check_probability(level, "level"), check_cells(cells, self.shape)
        with self._turns.still():
            draws = self._posterior_draws()
            _check_told(share, len(draws))
            rewards = np.array([self._mean_rewards(draw, valid) for draw in draws])
        # Of n draws and the truth, if all are drawn alike, each is the k-th smallest with the same probability.
        bounds = np.quantile(rewards, [0.5 - share / 2, 0.5 + share / 2], axis=0, method="weibull")
        return np.asarray(bounds.T)

    def mean_rewards(self, draw: Draw, cells: ArrayLike) -> Floats:
        """Return the mean rewards of cells (n, d) in a draw of :meth:`fresh_draws`, shape (n,)."""
        return self._mean_rewards(draw, check_cells(cells, draw.shape))

    def _mean_rewards(self, draw: Draw, cells: NDArray[np.int64]) -> Floats:
        """The mean rewards of cells (n, d) in a draw, shape (n,)."""
        return draw.at(cells) if isinstance(draw, Packed) else values_at(draw, cells)

    def _aside(self) -> np.random.Generator:
        """A generator with a stream of its own, which leaves the policy's where it is."""
        source: Any = self._rng.bit_generator
        return np.random.Generator(source.jumped())

    def _posterior_draws(self) -> list[Draw]:
        """Draws given the ledger as it is, made on a copy so that neither oracle nor generator moves."""
        self._forget_outdated()
        if not self._believed:
            oracle = copy.deepcopy(self.oracle)
            getattr(oracle, "detach", lambda: None)()
            self._believed = self._draw_copies(oracle)
        return self._believed

    def _draw_copies(self, oracle: Oracle) -> list[Draw]:
        """Draws of a stream of their own: the draw that will be served is one of many, and must not be among them."""
        rng = self._aside()
        return [self._checked_draw(oracle, rng) for _ in range(self.draws)]

    def _state(self) -> dict[str, Any]:
        state = getattr(self.oracle, "state", None)
        return {"oracle": state()} if callable(state) else {}

    def _restore(self, state: Mapping[str, Any]) -> None:
        restore = getattr(self.oracle, "restore", None)
        if callable(restore) and "oracle" in state:
            restore(state["oracle"])


def _check_told(level: float, draws: int) -> None:
    """Refuse a probability that bounds from so few draws cannot have."""
    if (draws + 1) * (1.0 - level) < 2.0 - _ROUNDING:
        raise ValueError(
            f"level is {level:g}; {draws} draws tell no more than {1 - 2 / (draws + 1):.3g}: lower it, or make the "
            f"policy with {math.ceil(2.0 / (1.0 - level) - 1.0 - _ROUNDING)} draws or members"
        )


def as_sampling(policy: Policy) -> ApproximateThompsonSampling | None:
    """Return a policy if its decisions are made from draws, else ``None``.

    >>> from tensorbandits import TensorThompsonSampling, VectorizedUCB
    >>> as_sampling(VectorizedUCB((2, 3))) is None, as_sampling(TensorThompsonSampling((2, 3), 1)) is None
    (True, False)
    """
    return cast(ApproximateThompsonSampling, policy) if policy.traits.samples else None


def best_of(draw: Draw, query: Query) -> Cell:
    """The best allowed cell of a draw."""
    if isinstance(draw, Packed):
        return draw.best(query.fixed, query.allowed)
    fixed = {j: level for j, level in enumerate(query.fixed.tolist()) if level >= 0}
    return best_cell(draw, fixed, query.allowed)


def check_core(ranks: Cell) -> None:
    """Refuse ranks, constant columns included, whose core is too large, and warn of one that makes a sampler slow."""
    if (why := core_refusal(ranks)) is not None:
        raise ValueError(why)
    if (entries := math.prod(ranks)) > SLOW_CORE:
        warnings.warn(
            f"rank {ranks} makes a core of {entries} entries, for which each sweep solves: a decision will take about "
            f"{_CORE_SECONDS * entries**3:.2g} s; lower the ranks if that is too long",
            stacklevel=6,
        )


def core_refusal(ranks: Cell) -> str | None:
    """Return why a core is too large to be sampled, or ``None``."""
    if math.prod(ranks) <= _LARGEST_CORE:
        return None
    return (
        f"rank {ranks} makes a core of {math.prod(ranks)} entries; at most {_LARGEST_CORE} are allowed, "
        "since each round solves for all of them: lower the ranks"
    )


class ModelOracle(Oracle, Protocol):
    """An oracle that keeps a model and changes it in place, so that a draw need not be made anew."""

    @property
    def likelihood(self) -> Likelihood | Revenue:
        """What rewards say of the tensor, or of two."""
        ...

    def advance(self, ledger: Ledger, rng: np.random.Generator, /) -> Packed:
        """Return the model of the next draw; it is valid until the oracle is used again."""
        ...

    def more(self, ledger: Ledger, rng: np.random.Generator, count: int, /) -> Iterator[Packed]:
        """Yield the models of further draws given the same ledger, each valid until the next."""
        ...


class ModelSampling(ApproximateThompsonSampling):
    """Approximate Thompson sampling with a model oracle: the frame of the library's own sampling policies."""

    traits = replace(ApproximateThompsonSampling.traits, models=True)
    oracle: ModelOracle
    rank: Rank
    reward: Reward

    def still(self) -> AbstractContextManager[None]:
        """Have the policy stand still while several things are read of it; rewards that are told meanwhile wait."""
        return self._turns.still()

    def explain(self, level: float = 0.9, places: Mapping[int, Sequence[slice]] | None = None) -> Explanation:
        """Return main effects, interactions and levels that are alike, as they are believed, with intervals.

        ``level`` is the probability that a number lies between its bounds; ``places`` are the columns of each feature,
        by mode, where one has several. Nothing is changed. It is about the tensor:
        what single cells deviate from it by, once there are many rewards, is left out. Of revenue there is one of mean
        rewards, which has one of its conversion rate and one of its amount. Shares are those of
        :meth:`acting_together`.
        """
        from tensorbandits.policies.explanation import explain, explain_revenue, shares_of

        share = check_probability(level, "level")
        with self._turns.still():
            found, widest = self._posterior_draws(), self._widest_draws()
            _check_told(share, len(found))
            own, guided = self._own_shares(), self._guided(places or {})
        if revenue := [draw for draw in found if isinstance(draw, RevenueDraw)]:
            return explain_revenue(revenue, share, own, guided)
        draws, likelihood = [draw.tensor() for draw in found if isinstance(draw, Packed)], self.oracle.likelihood
        made = explain(draws, share, likelihood.rewards, own, likelihood.typical, guided[0])
        return replace(made, shares=shares_of([draw.tensor() for draw in widest], share)) if widest else made

    def acting_together(self, level: float = 0.9) -> Floats:
        """Return which share of what combinations differ by is believed to be due to modes acting together, (3,).

        It comes with bounds; the rest is what each mode does by itself. Of revenue it is about conversion rates. Where
        several structures play, it is what the one says that has what all others have: main effects alone, which may
        be played mostly as long as little is known, could not tell.
        """
        from tensorbandits.policies.explanation import acting_together

        share = check_probability(level, "level")
        with self._turns.still():
            found: Sequence[Draw] = self._widest_draws() or self._posterior_draws()
            _check_told(share, len(found))
        rates = [draw.tensor()[0] for draw in found if isinstance(draw, RevenueDraw)]
        return acting_together(rates or [draw.tensor() for draw in found if isinstance(draw, Packed)], share)

    def _widest_draws(self) -> list[Packed]:
        """Draws of the structure that has what all others have, given the ledger as it is; none if it is but one."""
        self._forget_outdated()
        if not self._widest:
            self._widest = self._more_widely()
        return self._widest

    def _more_widely(self) -> list[Packed]:
        return []

    def _own_shares(self) -> list[Floats] | None:
        """How much of what is believed of the levels of each mode comes from their own rewards, if that is known."""
        return None

    def _guided(self, places: Mapping[int, Sequence[slice]]) -> tuple[Mapping[int, Guided], Mapping[int, Guided]]:
        """What features say of levels in each posterior draw, by mode; of revenue, of rates and of amounts."""
        return {}, {}

    def _more(self, count: int) -> list[Draw]:
        return [model.copy() for model in self.oracle.more(self._ledger, self._rng, count)] if count else []

    def _mean_rewards(self, draw: Draw, cells: NDArray[np.int64]) -> Floats:
        return self.oracle.likelihood.rewards(super()._mean_rewards(draw, cells))

    def typical(self, rewards: Floats) -> Floats:
        """Return the mean of draws, of counts the median."""
        return self.oracle.likelihood.typical(rewards)

    def _checked_draw(self, oracle: Any, rng: np.random.Generator) -> Draw:
        model: Packed = oracle.advance(self._ledger, rng)
        return model.copy()

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a number, if it can be one here; else say what can."""
        value = super().check_reward(reward)
        if not self.oracle.likelihood.may_be(value):
            raise ValueError(f"the reward is {value:g}; {self._allowed_rewards}")
        return value

    def _check_rewards(self, counts: Floats, totals: Floats, squares: Floats, *, faded: bool = False) -> None:
        possible = self.oracle.likelihood.may_add_up(counts, totals, squares, faded=faded)
        if not possible.all():
            row = int(np.flatnonzero(~possible)[0])
            sums = f"add up to {totals[row]:g}, their squares to {squares[row]:g}"
            what = f"reward {row} is {totals[row]:g}" if counts[row] == 1 else f"{counts[row]:g} rewards {sums}"
            raise ValueError(f"{what}; {self._allowed_rewards}")

    def _possible(self, ledger: Ledger) -> Ledger:
        if ledger.kind:
            return ledger
        fine = self.oracle.likelihood.may_add_up(ledger.counts, ledger.totals, ledger.squares)
        return ledger.excerpt(self.shape, lambda cells: np.where(fine[:, None], cells, -1))

    @property
    def _allowed_rewards(self) -> str:
        return f'with reward="{self.reward}" allowed are {self.oracle.likelihood.allowed}'

    def _choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        if not queries:
            return []
        self._learn()
        first = self._choose(queries[0], self._rng)
        models = self.oracle.more(self._ledger, self._rng, len(queries) - 1)
        return [first, *(Choice(best_of(model, query)) for query, model in zip(queries[1:], models, strict=True))]

    def _draw_copies(self, oracle: Oracle) -> list[Draw]:
        rng = self._aside()
        ours: Any = oracle
        steps = min(math.ceil(self.oracle.likelihood.slowness(self._ledger)), MOST_STEPS)
        draws: list[Draw] = []
        lost = _SETTLING if steps > 1 else 0  # a slow sampler may still be on its way from before the last rewards
        for at in range(lost + self.draws):
            for _ in range(steps):
                model = ours.advance(self._ledger, rng)
            draws.append(model.copy())
            self._noted(ours, at >= lost)
        return draws[lost:]

    def _noted(self, oracle: Any, kept: bool) -> None:
        """Take note of what else belongs to a draw, which is kept, or those before are thrown away too."""

    @classmethod
    def refusal(cls, shape: Sequence[int], rank: Rank = "auto") -> str | None:
        """Return why the core is too large, or ``None``."""
        ranks = resolve_rank(rank, check_shape(shape))
        return None if ranks is None else core_refusal(ranks)


def as_modelling(policy: Policy) -> ModelSampling | None:
    """Return a policy if its draws are low-rank models, which can be explained, else ``None``."""
    return cast(ModelSampling, policy) if policy.traits.models else None
