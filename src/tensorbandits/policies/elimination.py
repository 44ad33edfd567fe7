"""Tensor elimination: try what is least certain, and drop combinations that cannot be the best (Algorithm 1).

Notation
--------
n, s_1, n_1   horizon, initial and further uniform rounds      K, q        number of cells, of coordinates inside
V (K, K)      ridge matrix, see :mod:`.subspace`; its design, see :mod:`.design`
xi            width of a confidence interval, in units of the noise times ||a|| in the norm of V^-1
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbandits import theory
from tensorbandits.base.checks import (
    Cell,
    Rank,
    check_array,
    check_count,
    check_noise,
    check_positive,
    check_probability,
    check_shape,
    check_weights,
    feasible_rank,
    is_finite,
    resolve_rank,
)
from tensorbandits.ledger import Ledger
from tensorbandits.model.likelihood import noise_level
from tensorbandits.policies.exploration import Exploration
from tensorbandits.policies.lengths import ExplorationLength
from tensorbandits.policies.query import Choice, Query
from tensorbandits.policies.staged import StagedPolicy
from tensorbandits.policies.subspace import INSIDE_LIMIT, TIE, SubspaceRidge, first_largest
from tensorbandits.policies.traits import Traits
from tensorbandits.tensor.completion import AUTO_RANK, Completion
from tensorbandits.tensor.tucker import Floats, Ints

if TYPE_CHECKING:  # otherwise imported where it is used, for scipy.linalg takes half of the library's import time
    from tensorbandits.policies.design import Design, WidestFirst

Mask = NDArray[np.bool_]

_CELLS = 10**6  # at most
SLOW_INSIDE = 6_000  # with more coordinates inside, some asks take many seconds
_SECONDS = 3.5e-11  # per cubed coordinate
_SHARE = 0.1  # the length of a phase as a share of the rounds before it, when data are reused
_FEWEST = 10  # with fewer rewards the noise is unknown
_PULLED, _PLAYED = 0.0, -1.0  # notes: a pull of the design, or not; that of exploration is its tries, at least 1
_SAFE = 1e-3  # with penalties of at least this, every pull may be taken back from a design


class TensorElimination(StagedPolicy):
    """Explore uniformly, estimate the subspaces, then pull what is least certain and eliminate by phases.

    Each pull takes the active arm of largest width ``||a||`` in the norm of ``V^-1``, ties to the lowest
    index. After a phase an arm stays if its upper bound ``<b,a> + xi noise ||a||`` reaches the largest lower
    bound. Looks at every cell and keeps a matrix over the ``q`` coordinates inside, of which it takes up to 15,000:
    at rank 2 with three modes, 50 levels each.

    A pull counts in the design when it is issued. A phase closes at the first ask after its last pull, and
    its estimate and widths count the rewards that arrived; a later one joins the phase then open. After the
    horizon the best active arm is played. A single mode (others of size 1 aside) has no low-rank structure:
    nothing is explored, every coordinate is inside, and the phases start at once.

    Parameters
    ----------
    shape, seed : as for every policy. ``context`` must be empty.
    rank : ``r_j``; an int (a cap), a tuple, or ``"auto"``: from the spectra of the explored rewards.
    horizon : ``n``, the number of rounds planned.
    confidence : ``xi``, a number, or ``"theory"``: Lemma 1 with the norm of the completed tensor in place of
        the true one. That is above 20, and eliminates nothing within practical horizons. Smaller numbers lose the
        best arm more often, larger ones cost more regret; the documentation's table of deviations has figures.
    reuse_data : whether a phase starts from all rewards told so far, exploration included, and estimates
        from them; then nothing is eliminated before there are ``q`` of them. The paper starts each phase
        from nothing (``False``).
    growth : the length of a phase as a share of the rounds before it, or ``"doubling"``: the paper's
        ``2^(k-1)`` pulls in phase ``k``. ``None`` is 0.1 when data are reused, else doubling.
    lambda_1, lambda_2 : ridge penalties inside and outside the subspaces. ``lambda_2=None`` is the paper's
        ``n / (q log(1 + n/lambda_1))``. Theorem 1 asks for ``lambda_1 <= 1/p^d``, so that it does not cover
        the paper's own 0.1. Penalties shrink towards 0: centre rewards whose mean is many times the noise.
    C_0, c_0 : constants of ``s_1`` and of ``n_1``.
    initial, exploration : ``s_1`` and ``n_1`` themselves, instead of the paper's formulas.
    sigma : ``sigma_j``, the smallest non-zero singular value of each unfolding of the mean tensor, one per
        mode, in units of the noise. ``None``: estimated whenever the exploration would end, which goes on
        until it has the length that all rewards so far imply (estimates from few rewards are too high, the
        length they imply too short), at most half of the horizon and, when data are reused, ``q`` rounds; in
        units of the noise or of the size of the means, whichever is larger, because both blur a completion.
    noise : the standard deviation of the noise; ``None`` is estimated from repeated pulls.
    delta : the probability in Lemma 1, for ``confidence="theory"``; ``None`` is ``1/n``.
    weights : per-mode sampling weights of the exploration; ``None`` is uniform.

    >>> policy = TensorElimination((4, 3, 5), rank=1, horizon=500, exploration=50, seed=0)
    >>> for _ in range(500):
    ...     cell = policy.ask()
    ...     policy.tell(cell, float(cell == (1, 2, 3)))
    >>> policy.best()
    (1, 2, 3)
    """

    traits = Traits(contextual=False, plans=True, rewards_need_notes=False)
    _stage = (
        *("_target", "_ridge", "_norm", "_phase", "_active", "_start", "_pulls", "_told", "_pending"),
        *("_design", "_widest", "_completed", "_fitted"),
    )

    def __init__(
        self,
        shape: Sequence[int],
        rank: Rank,
        *,
        horizon: int,
        context: Sequence[int] = (),
        confidence: float | str = 1.5,
        reuse_data: bool = True,
        growth: float | str | None = None,
        lambda_1: float = 0.1,
        lambda_2: float | None = None,
        C_0: float = 1.0,
        c_0: float = 0.5,
        initial: int | None = None,
        exploration: int | None = None,
        sigma: Sequence[float] | None = None,
        noise: float | None = None,
        delta: float | None = None,
        weights: Sequence[ArrayLike] | None = None,
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        super().__init__(shape, context=context, seed=seed)
        self.rank, self.reuse_data = rank, bool(reuse_data)
        self.horizon = check_count(horizon, "horizon")
        self.confidence = _check_number(confidence, "confidence", "theory")
        self.growth = None if growth is None else _check_number(growth, "growth", "doubling")
        self.lambda_1 = check_positive(lambda_1, "lambda_1")
        self.lambda_2 = None if lambda_2 is None else check_positive(lambda_2, "lambda_2")
        self.C_0, self.c_0 = check_positive(C_0, "C_0"), check_positive(c_0, "c_0")
        self.initial = None if initial is None else check_count(initial, "initial", 0)
        self.exploration = None if exploration is None else check_count(exploration, "exploration", 0)
        self.sigma = None if sigma is None else _check_sigma(sigma, self.shape)
        self.noise = check_noise(noise)
        self.delta = None if delta is None else check_probability(delta, "delta")
        self.weights = check_weights(weights, self.shape)
        self._modes = [j for j, size in enumerate(self.shape) if size > 1] or [0]
        self._sizes: Cell = tuple(self.shape[j] for j in self._modes)
        ranks = resolve_rank(rank, self.shape)
        self._rank = None if ranks is None else tuple(ranks[j] for j in self._modes)
        if (why := self.refusal(shape, rank)) is not None:
            raise ValueError(why)
        K = math.prod(self.shape)
        q = theory.inside_coordinates(self._sizes, self._rank) if self._rank else 0
        if SLOW_INSIDE < q < K:
            warnings.warn(
                f"{self._sizes} has {q} coordinates inside subspaces of rank {self._rank}: an ask that closes a phase "
                f"will take about {_SECONDS * q**3:.0f} s; lower the rank, or use TensorThompsonSampling",
                stacklevel=2,
            )
        self._lengths = ExplorationLength(
            self._sizes,
            self.horizon,
            self._rank,
            initial=self.initial,
            exploration=self.exploration,
            sigma=None if self.sigma is None else tuple(self.sigma[j] for j in self._modes),
            noise=self.noise,
            C_0=self.C_0,
            c_0=self.c_0,
            keeps_data=self.reuse_data,
        )
        self._target = self._lengths.planned()  # rounds of exploration, as far as known
        self._pending = np.zeros(K, dtype=np.int64)  # exploration pulls without a reward yet
        self._drawn, self._tries = 0, 0.0  # exploration pulls, and how many the law without rules would have taken
        laws = self.weights and [self.weights[j] for j in self._modes]
        self._exploration = Exploration(self._sizes, (), laws)  # their rewards
        self._ridge: SubspaceRidge | None = None  # once the exploration has ended
        self._norm = 0.0  # of the completed tensor
        self._phase = 0
        self._active: Ints = np.arange(K)
        self._start = np.zeros(K)  # the counts that the design of the open phase started from
        self._pulls: list[int] = []  # the pulls of the open phase, as positions among the active arms
        self._told = np.zeros((2, K))  # counts and sums of the rewards told during the open phase
        # What follows can be made again from the above.
        self._design: Design | None = None
        self._widest: WidestFirst | None = None  # of the open phase, once it has a pull
        self._completed: tuple[int, Completion] | None = None  # with the version of the ledger that it is of
        self._fitted: tuple[int, Floats] | None = None

    @classmethod
    def refusal(cls, shape: Sequence[int], rank: Rank = "auto") -> str | None:
        """Return why there are too many cells or coordinates, or ``None``."""
        given = check_shape(shape)
        sizes = [size for size in given if size > 1] or [given[0]]
        resolved = resolve_rank(rank, given)
        ranks = feasible_rank([min(AUTO_RANK, size) for size in sizes])
        if resolved is not None:
            ranks = tuple(r for r, size in zip(resolved, given, strict=True) if size > 1) or resolved[:1]
        others = "use TensorThompsonSampling, TensorEnsembleSampling or TensorEpochGreedy"
        cells, inside = math.prod(sizes), theory.inside_coordinates(sizes, ranks)
        if cells > _CELLS:
            return (
                f"{tuple(sizes)} has {cells} cells; TensorElimination keeps some numbers for each and looks at all of "
                f"them (at most {_CELLS} are allowed); {others}"
            )
        if len(sizes) > 1 and INSIDE_LIMIT < inside < cells:
            return (
                f"{tuple(sizes)} has {inside} coordinates inside subspaces of rank {ranks}; TensorElimination keeps a "
                f"matrix over them, which takes {12e-9 * inside**2:.3g} GB (at most {INSIDE_LIMIT} are allowed); lower "
                f"the rank, or {others}"
            )
        return None

    @classmethod
    def paper(cls, shape: Sequence[int], rank: Rank, *, horizon: int, **overrides: Any) -> Self:
        """Return the policy with the paper's values: doubling phases that start from nothing, known noise 1.

        The paper calls ``xi`` an input and does not say what its experiments used. Lemma 1's value
        (``confidence="theory"``) eliminates nothing, so this is our default, 1.5.

        >>> TensorElimination.paper((15, 15, 15), 2, horizon=10_000).reuse_data
        False
        """
        values: dict[str, Any] = {"confidence": 1.5, "reuse_data": False, "growth": "doubling", "noise": 1.0}
        values |= {"lambda_1": 0.1, "lambda_2": None, "C_0": 1.0, "c_0": 0.5}
        return cls(shape, rank, horizon=horizon, **(values | overrides))

    def _over(self) -> bool:
        if self._ridge is None:
            return self._issued >= self._target
        phase = len(self._active) > 1 and len(self._pulls) >= self._length()
        return phase and self._issued < self.horizon

    def _begin_stage(self) -> None:
        if self._ridge is None:
            self._end_exploration()
        else:
            self._eliminate(self._ridge)
            self._open_phase()

    def _lend(self) -> None:
        self._design = self._widest = None

    def _choose_within(self, query: Query, rng: np.random.Generator) -> Choice:
        allowed = query.mask()
        if self._ridge is None:
            arm, tries = self._draw(allowed, rng)
            return Choice(self._cell(arm), tries)
        if self._issued >= self.horizon:
            return Choice(self._cell(self._best_arm(self._ridge, allowed)), _PLAYED)
        arm, pulled = self._pull(self._ridge, allowed)
        return Choice(self._cell(arm), _PULLED if pulled else _PLAYED)

    def _count(self, cell: Cell, note: Any) -> None:
        arm = int(np.ravel_multi_index(cell, self.shape))
        if self._ridge is None:
            self._pending[arm] += 1
            self._drawn += 1
            self._tries += 1.0 if note is None else max(float(note), 1.0)
        elif (note is None or note == _PULLED) and len(self._active) > 1 and self._issued < self.horizon:
            at = int(np.searchsorted(self._active, arm))
            if at < len(self._active) and self._active[at] == arm:
                self._count_pull(at)

    def _check_note(self, note: Any) -> None:
        if not is_finite(note) or (note < 1 and note not in (_PULLED, _PLAYED)):
            raise ValueError(f"the note is {note!r}; give the one of the decision, which decide returned, or None")

    def _observe(self, cell: Cell, count: float, total: float, note: Any) -> None:
        arm = int(np.ravel_multi_index(cell, self.shape))
        if self._ridge is not None:
            self._told[:, arm] += count, total
            return
        # A reward that nobody asked for was not drawn with known probability: it would bias completion.
        for _ in range(min(int(count), int(self._pending[arm]))):
            self._pending[arm] -= 1
            self._exploration.record(tuple(cell[j] for j in self._modes), total / count, self._tries / self._drawn)

    def _correct(self, cell: Cell, old: float, new: float, note: Any, weight: float) -> None:
        arm = int(np.ravel_multi_index(cell, self.shape))
        if self._ridge is None:
            self._exploration.correct(tuple(cell[j] for j in self._modes), old, new, weight)
        elif self._told[0, arm] > 0.0:
            self._told[1, arm] += weight * (new - old)

    def _fade(self, factor: float) -> None:
        self._exploration.fade(factor)
        self._told *= factor
        self._completed = self._fitted = None

    # Exploration.

    def _draw(self, allowed: Mask | None, rng: np.random.Generator) -> tuple[int, float]:
        """Return an arm drawn by the law of the exploration among those that are allowed, and how many tries that is.

        The law without rules would take so many on average to meet an arm that is allowed.
        """
        if self.weights is None:
            if allowed is None:
                return int(rng.integers(len(self._active))), 1.0
            arms = np.flatnonzero(allowed)
            return int(arms[rng.integers(len(arms))]), len(allowed) / len(arms)
        if allowed is not None:
            law = np.where(allowed, functools.reduce(np.multiply.outer, self.weights).ravel(), 0.0)
            return int(rng.choice(len(law), p=law / law.sum())), 1.0 / float(law.sum())
        cell = [int(rng.choice(len(w), p=w)) for w in self.weights]
        return int(np.ravel_multi_index(cell, self.shape)), 1.0

    @property
    def _explored(self) -> Ledger:
        return self._exploration.ledger

    def _end_exploration(self) -> None:
        """Open the first phase, unless the rewards so far say that the exploration should go on."""
        if len(self._sizes) == 1:
            self._ridge = SubspaceRidge(self._sizes, (), self.lambda_1, self.lambda_1)
        else:
            fit = self._completion()
            if (longer := self._lengths.longer(fit, self._explored, self._issued)) is not None:
                self._target = longer
                return
            q = theory.inside_coordinates(self._sizes, fit.rank)
            lambda_2 = self.lambda_2 or theory.perpendicular_penalty(self.horizon, q, lambda_1=self.lambda_1)
            factors = () if q == math.prod(self._sizes) else fit.factors  # all inside is as for a vector
            self._ridge = SubspaceRidge(self._sizes, factors, self.lambda_1, lambda_2 if factors else self.lambda_1)
            self._norm = float(np.linalg.norm(fit.core))
        self._pending = np.zeros_like(self._pending)
        self._open_phase()

    def _completion(self) -> Completion:
        """Return the completion of the explored rewards; it is kept until there are more of them."""
        version = self._explored.version
        if self._completed is None or self._completed[0] != version:
            fit = self._exploration.complete(self._explored, self._rank or "auto", centre=False)
            self._completed = (version, fit)
        return self._completed[1]

    # Phases.

    def _pull(self, ridge: SubspaceRidge, allowed: Mask | None) -> tuple[int, bool]:
        """Return the next allowed arm of the open phase, and whether it is one of its pulls.

        That is the widest of the arms that are active and allowed or, if there is none, the best that is allowed.
        """
        if allowed is None:
            if len(self._active) == 1:
                return int(self._active[0]), False
            if self._widest is None:
                self._widest = self._open_design(ridge)
            return int(self._active[self._widest.widest()]), True
        here = np.flatnonzero(allowed[self._active])
        if len(here) <= 1:
            return (int(self._active[here[0]]) if len(here) else self._best_arm(ridge, allowed)), False
        self._settle()
        design = self._open_design(ridge).design
        return int(self._active[here[first_largest(design.variance[self._active[here]])]]), True

    def _count_pull(self, at: int) -> None:
        """Count a pull of the active arm at a position; a design that is not at hand is made again from all pulls."""
        if self._widest is not None:
            self._widest.count(at)
        elif self._design is not None:
            self._design.count(self._active[[at]], np.ones(1))
        self._pulls.append(at)

    def _length(self) -> int:
        """Return the number of pulls of the open phase."""
        growth = self.growth or (_SHARE if self.reuse_data else "doubling")
        if growth == "doubling":
            return 1 << (self._phase - 1)
        return max(1, math.ceil(float(growth) * (self._issued - len(self._pulls))))

    def _open_phase(self) -> None:
        self._phase += 1
        self._pulls = []
        self._told = np.zeros_like(self._told)
        self._start = self._all_told()[0] if self.reuse_data else np.zeros_like(self._start)
        self._settle()

    def _settle(self) -> None:
        """Have every pull counted in the design."""
        if self._widest is not None:
            self._widest.settle()
            self._widest = None

    def _design_of(self, ridge: SubspaceRidge, counts: Floats) -> Design:
        """Return the design with the given counts: from the one at hand when that is less work than a new one."""
        from tensorbandits.policies.design import Design

        self._settle()
        if self._design is not None:
            other = np.flatnonzero(self._design.counts != counts)  # pulls not told, and rewards told late
            # Taking back all pulls of an arm loses digits, the more of them the smaller the penalties are.
            safe = min(ridge.lambda_1, ridge.lambda_2) >= _SAFE or (counts[other] > 0.0).all()
            if len(other) < np.count_nonzero(counts) and safe:
                self._design.count(other, counts[other] - self._design.counts[other])
                return self._design
            self._design = None  # so that its memory is free
        self._design = Design.given(ridge, counts)
        return self._design

    def _open_design(self, ridge: SubspaceRidge) -> WidestFirst:
        """Return what finds the pulls of the open phase, with those before a restore counted."""
        from tensorbandits.policies.design import WidestFirst

        design = self._design_of(ridge, self._start)
        arms, times = np.unique(self._active[self._pulls], return_counts=True)
        design.count(arms, times.astype(np.float64))
        return WidestFirst(design, self._active, planned=self._length() - len(self._pulls))

    def _eliminate(self, ridge: SubspaceRidge) -> None:
        """Drop the arms whose upper bound is below the largest lower bound."""
        if self._ledger.rounds < self._fewest(ridge):
            return
        counts = self._all_told()[0] if self.reuse_data else self._told[0]
        mean = (self._fit(ridge) if self.reuse_data else ridge.mean(*self._told))[self._active]
        width = self._radius(ridge) * np.sqrt(self._design_of(ridge, counts).variance[self._active])
        upper, lower = mean + width, mean - width
        # Without noise widths vanish, and arms that are alike must not be told apart by rounding.
        self._active = self._active[upper >= lower.max() - TIE * np.abs(lower).max()]

    def _fewest(self, ridge: SubspaceRidge) -> int:
        """Return with how many rewards elimination begins."""
        if self.reuse_data:  # fewer than coordinates make an estimate that is mostly penalty, whatever its widths say
            return max(_FEWEST, ridge.inside)
        return _FEWEST if self.noise is None else 0

    def _radius(self, ridge: SubspaceRidge) -> float:
        """Return ``xi`` times the noise's standard deviation."""
        noise = noise_level(self._ledger, self.noise)
        if self.confidence != "theory":
            return float(self.confidence) * noise
        noise = max(noise, 1e-9 * self._norm)  # Lemma 1 has a part that stays without noise
        if noise == 0.0:
            return 0.0
        return noise * theory.confidence_multiplier(
            delta=self.delta or 1.0 / max(self.horizon, 2),
            lambda_1=self.lambda_1,
            lambda_2=ridge.lambda_2,
            norm_inside=self._norm / noise,
            norm_perpendicular=0.0,
        )

    # What is believed.

    def _all_told(self) -> tuple[Floats, Floats]:
        counts, sums, _ = self._ledger.dense()
        return counts.ravel(), sums.ravel()

    def _fit(self, ridge: SubspaceRidge) -> Floats:
        """Return the estimates of all arms given every reward told; they are kept until there are more of them."""
        if self._fitted is None or self._fitted[0] != self._ledger.version:
            self._fitted = (self._ledger.version, ridge.mean(*self._all_told()))
        return self._fitted[1]

    def _best_arm(self, ridge: SubspaceRidge, allowed: Mask | None) -> int:
        """Return the best of the active arms that are allowed or, if there is none, of all that are."""
        arms = self._active if allowed is None else self._active[allowed[self._active]]
        if allowed is not None and not len(arms):
            arms = np.flatnonzero(allowed)
        if len(arms) == 1:
            return int(arms[0])
        return int(arms[first_largest(self._fit(ridge)[arms])])

    def _best(self, query: Query) -> Cell:
        allowed = query.mask()
        if self._ridge is not None:
            return self._cell(self._best_arm(self._ridge, allowed))
        if allowed is not None:
            means = np.where(allowed, self._completion().full().ravel(), -np.inf)
            return self._cell(int(means.argmax()))
        return self._cell(int(np.ravel_multi_index(self._completion().best(), self._sizes)))

    def _estimate(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        if self._ridge is None:
            return self._completion().at(cells[:, self._modes])
        return np.asarray(self._fit(self._ridge)[np.ravel_multi_index(tuple(cells.T), self.shape)])

    def _cell(self, arm: int) -> Cell:
        return tuple(int(i) for i in np.unravel_index(arm, self.shape))

    # Saving and making again.

    def _state(self) -> dict[str, Any]:
        ridge = self._ridge
        return {
            "issued": self._issued,
            "target": self._target,
            "pending": self._pending.copy(),
            "drawn": [self._drawn, self._tries],
            "exploration": self._exploration.state(),
            "factors": {str(j): U.copy() for j, U in enumerate(ridge.factors)} if ridge else {},
            "lambda_2": ridge.lambda_2 if ridge else 0.0,
            "norm": self._norm,
            "phase": self._phase,
            "active": self._active.copy(),
            "start": self._start.copy(),
            "pulls": np.array(self._pulls, dtype=np.int64),
            "told": self._told.copy(),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._issued, self._target, self._phase = (
            check_count(state[name], name, 0) for name in ("issued", "target", "phase")
        )
        K = math.prod(self.shape)
        self._pending = check_array(state["pending"], "pending", (K,), integers=True)
        drawn, self._tries = check_array(state["drawn"], "drawn", (2,)).tolist()
        self._drawn = int(drawn)
        self._exploration.restore(state["exploration"])
        self._norm = check_array(state["norm"], "norm", ()).item()
        self._active = check_array(state["active"], "active", (len(state["active"]),), integers=True)
        if not len(self._active) or (np.diff(self._active) <= 0).any() or self._active[0] < 0 or self._active[-1] >= K:
            raise ValueError(f"the active arms are not some of 0 to {K - 1} in order")
        self._start = check_array(state["start"], "start", (K,))
        pulls = check_array(state["pulls"], "pulls", (len(state["pulls"]),), integers=True)
        if len(pulls) and not 0 <= pulls.min() <= pulls.max() < len(self._active):
            raise ValueError("there are pulls of arms that are not active")
        self._pulls = pulls.tolist()
        self._told = check_array(state["told"], "told", (2, K))
        self._design = self._widest = self._completed = self._fitted = self._ridge = None
        if self._phase:
            factors = tuple(
                check_array(U, f"factor {j}", (self._sizes[int(j)], np.asarray(U).shape[-1]))
                for j, U in sorted(state["factors"].items(), key=lambda item: int(item[0]))
            )
            lambda_2 = check_positive(check_array(state["lambda_2"], "lambda_2", ()).item(), "lambda_2")
            if factors and len(factors) != len(self._sizes):
                raise ValueError(f"there are {len(factors)} factors instead of {len(self._sizes)}")
            self._ridge = SubspaceRidge(self._sizes, factors, self.lambda_1, lambda_2)


def _check_number(value: Any, name: str, word: str) -> float | str:
    if isinstance(value, str):
        if value != word:
            raise ValueError(f'{name} is {value!r}; give a number above 0, or "{word}"')
        return value
    return check_positive(value, name)


def _check_sigma(sigma: Sequence[float], shape: Cell) -> tuple[float, ...]:
    if not isinstance(sigma, (Sequence, np.ndarray)) or len(sigma) != len(shape):
        raise ValueError(f"sigma is {sigma!r}; give one number above 0 per mode of {shape}, or None")
    return tuple(check_positive(value, f"sigma of mode {j}") for j, value in enumerate(sigma))
