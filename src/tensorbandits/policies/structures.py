"""Thompson sampling with rank "auto": several structures of the tensor side by side, judged by how they predict.

Each structure has a chain of its own over the same ledger. A reward first scores every structure by the density that
its recent draws gave it on average, and then all learn from it. A decision draws a structure with probability
proportional to the product of its scores, which is its posterior probability as far as the draws know it; or, now and
then, any of them, so that one that was written off can show that it predicts better after all. Older scores fade.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, cast, get_args

import numpy as np

from tensorbandits.base.checks import Cell, Rank, check_array, resolve_rank
from tensorbandits.ledger import Ledger
from tensorbandits.model.chains import AnyChain, chain_from_prior, chain_from_state, columns_of, draws_together
from tensorbandits.model.described import NOT_DESCRIBED, DescribedModes
from tensorbandits.model.features import Scales
from tensorbandits.model.gibbs import Structure
from tensorbandits.model.likelihood import Likelihood, Units
from tensorbandits.model.pairs import layout_of
from tensorbandits.model.residual import Residual
from tensorbandits.model.rewards import Reward
from tensorbandits.model.tempering import RUNGS, Ladder
from tensorbandits.policies.approximate import check_core
from tensorbandits.policies.recent import Recent, model_of
from tensorbandits.policies.tuning import USUAL, Tuning
from tensorbandits.tensor.packed import Packed, PackedModel
from tensorbandits.tensor.pairs import MOST_ENTRIES, PairsLayout, columns_once, usual_columns
from tensorbandits.tensor.tucker import Floats, Ints

_AUTO = (2, 3)  # ranks that are tried side by side
_AUTO_LARGE = (1,)  # where both make too large a core
_RISES = 16  # steps in which rewards come to count in full, after a log
_AUTO_CORE = 100  # entries; of more, a decision takes long
_FEW_MODES = 4  # of more the structure is pairs: main effects or a Tucker tensor beside them locked


class Candidate(NamedTuple):
    """A structure: its kind, its free columns in each mode, and the prior size of each relative to the one before.

    ``odds`` are the nats of evidence that it has before any reward. ``later`` is what it becomes when there are
    ``plenty`` of rewards for each number of that, and to try interactions costs little beside what was played.
    """

    structure: Structure
    rank: Cell
    decay: float = 1.0
    odds: float = 0.0
    later: Candidate | None = None
    plenty: float = math.inf

    def __str__(self) -> str:
        """Its name among others.

        >>> str(Candidate("tucker", (2, 2))), str(Candidate("additive", (1, 1)))
        ('tucker 2', 'additive')
        """
        return self.structure if self.structure in ("additive", "pairs") else f"{self.structure} {max(self.rank)}"

    def numbers(self, shape: Cell) -> int:
        """How many numbers such a tensor has.

        >>> Candidate("affine", (1, 1)).numbers((3, 2))
        10
        """
        if draws_together(self.structure, len(shape)):
            return _pairs_numbers(PairsLayout(shape, columns_of(self.structure, self.rank)))
        entries = sum(p * r for p, r in zip(shape, self.rank, strict=True))
        return entries + 1 + math.prod(r + (self.structure != "tucker") for r in self.rank)

    def like(self, shape: Cell, features: DescribedModes = NOT_DESCRIBED) -> tuple[Any, ...]:
        """Return what tells it from others whatever the number of levels is; modes of pairs are complete or not."""
        if self.structure != "pairs":
            return self.structure, self.rank, self.decay
        layout = layout_of(shape, self.rank, features)
        return "pairs", *(-1 if whole else r for r, whole in zip(layout.rank, layout.complete, strict=True))


def check_structure(structure: Any, allowed: tuple[str, ...] = get_args(Structure)) -> Structure | None:
    """Return the structure, or ``None``, if it is one of those that are allowed."""
    if structure is None or (isinstance(structure, str) and structure in allowed):
        return cast("Structure | None", structure)
    words = ", ".join(map(repr, allowed))
    raise ValueError(f"structure is {structure!r}; allowed are {words}, and None, which leaves it open")


def candidates(
    rank: Rank,
    structure: Structure | None,
    shape: Cell,
    decay: float | None = None,
    reward: Reward = "gaussian",
    tuning: Tuning = USUAL,
) -> list[Candidate]:
    """Return the structures to consider: the one that was told, or two ranks and, if that is open, main effects.

    >>> candidates(2, None, (5, 5))
    [Candidate(structure='tucker', rank=(2, 2), decay=1.0, odds=0.0, later=None, plenty=inf)]
    >>> [(one.structure, one.rank) for one in candidates("auto", None, (5, 5, 2))]
    [('tucker', (2, 2, 2)), ('tucker', (3, 3, 2)), ('additive', (1, 1, 1))]
    """
    if structure == "additive":
        if not isinstance(rank, str) and resolve_rank(rank, shape) != (1,) * len(shape):
            raise ValueError(f'rank is {rank!r}; structure "additive" has main effects only: give "auto"')
        return [Candidate("additive", _columns(1, "additive", shape))]
    if structure == "pairs":
        return [Candidate("pairs", pairs_columns(rank, shape))]
    kind = structure or "tucker"
    if not isinstance(rank, str):
        return [Candidate(kind, _columns(rank, kind, shape), decay or 1.0)]
    resolve_rank(rank, shape)  # refuses any other word
    if structure is None and len(shape) > _FEW_MODES:
        pairs = refused(lambda sizes: pairs_columns("auto", sizes), shape) is None
        return candidates("auto", "pairs" if pairs else "additive", shape)
    small = [r for r in _AUTO if math.prod(min(r + (kind != "tucker"), p) for p in shape) <= _AUTO_CORE]
    found = [Candidate(kind, _columns(r, kind, shape), decay or 1.0) for r in small or _AUTO_LARGE]
    distinct = list(reversed({one.rank: one for one in reversed(found)}.values()))
    if structure is None and len(shape) > 1 and 3 ** len(shape) <= _AUTO_CORE:
        later = Candidate("affine", _columns(2, "affine", shape), decay or 1.0)
        plenty = tuning.plenty if reward == "gaussian" else tuning.plenty_of_clicks
        distinct.append(
            Candidate("additive", _columns(1, "additive", shape), 1.0, -tuning.main_effects_odds, later, plenty)
        )
    return distinct


def guardian(candidates: Sequence[Candidate], shape: Cell, decay: float | None = None) -> Candidate:
    """Return the structure of the posterior that guards cold play: one that has what any of the candidates has.

    >>> str(guardian(candidates("auto", None, (5, 4)), (5, 4))), str(guardian(candidates(2, None, (5, 4)), (5, 4)))
    ('affine 2', 'tucker 2')
    """
    if len(candidates) == 1 or 3 ** len(shape) > _AUTO_CORE:
        return candidates[0]
    return Candidate("affine", _columns(2, "affine", shape), decay or 1.0)


def pairs_columns(rank: Rank, shape: Cell) -> Cell:
    """Return the columns of each mode in a tensor of pairs: ``"auto"`` has complete modes as far as that stays quick.

    >>> pairs_columns("auto", (4, 3, 600)), pairs_columns(1, (4, 3))
    ((3, 2, 2), (1, 1))
    """
    if sum(p * q for p, q in combinations(shape, 2)) > MOST_ENTRIES:
        raise ValueError(
            f'the shape {shape} has too many pairs of levels for structure "pairs"; at most {MOST_ENTRIES:,} are '
            'allowed, as decisions look at them all: leave the structure open, or take "tucker"'
        )
    if not isinstance(rank, str):
        ranks = _columns(rank, "pairs", shape)
        check_core((_pairs_numbers(PairsLayout(shape, ranks)) - sum(shape),))
        return ranks
    resolve_rank(rank, shape)  # refuses any other word
    return usual_columns(shape)


def _as_once(candidate: Candidate, shape: Cell, chain: Mapping[str, Any], features: DescribedModes) -> Candidate:
    """Return the candidate with the columns that its saved chain has, if these are the usual ones of then."""
    if candidate.structure != "pairs" or candidate.rank != usual_columns(shape) or not chain:
        return candidate
    ranks = (candidate.rank, columns_once(shape))
    fits = (rank for rank in ranks if layout_of(shape, rank, features).entries == np.size(chain["cores"]))
    return candidate._replace(rank=found) if (found := next(fits, candidate.rank)) != candidate.rank else candidate


def _pairs_numbers(layout: PairsLayout) -> int:
    """How many numbers a tensor of pairs has, as far as they make a difference."""
    both = zip(layout.shape, layout.rank, layout.complete, strict=True)
    rows = sum(p - 1 if whole else p * (1 + r) for p, r, whole in both)
    return 1 + rows + sum(layout.rank[j] * layout.rank[k] for j, k in layout.pairs)


def _columns(rank: Rank, structure: Structure, shape: Cell) -> Cell:
    """Return the free columns of each mode; an affine factor has one more, so that one fewer makes sense."""
    most = tuple(size - 1 for size in shape)
    if structure != "tucker" and isinstance(rank, (int, np.integer)) and not isinstance(rank, bool) and rank >= 1:
        ranks: Cell | None = tuple(min(int(rank), size) for size in most)
    else:
        ranks = resolve_rank(rank, shape)
    assert ranks is not None
    if structure != "tucker":
        for mode, (r, size) in enumerate(zip(ranks, most, strict=True)):
            if r > max(size, 1):
                raise ValueError(
                    f"the rank of mode {mode} is {r}; beside a constant column its {size + 1} levels allow at most "
                    f"{max(size, 1)}"
                )
        ranks = tuple(min(r, size) for r, size in zip(ranks, most, strict=True))
    if structure != "pairs" and not draws_together(structure, len(shape)):
        check_core(tuple(r + (structure != "tucker") for r in ranks))
    return ranks


def refused(make: Callable[[Cell], Any], shape: Cell) -> str | None:
    """Return why something cannot be made for a shape, or ``None``; what is slow is not warned of."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make(shape)
    except ValueError as error:
        return str(error)
    return None


def columns_by_mode(features: DescribedModes) -> dict[int, int]:
    """Return how many features the levels of each mode have."""
    return {mode: one.count for mode, one in features.items()}


class Sampler:
    """The chain of one structure, hotter ones that help it, its recent draws, and how well these predicted."""

    def __init__(
        self,
        shape: Cell,
        candidate: Candidate,
        likelihood: Likelihood,
        tuning: Tuning = USUAL,
        features: DescribedModes = NOT_DESCRIBED,
    ) -> None:
        self.shape, self.candidate, self._likelihood, self.tuning = shape, candidate, likelihood, tuning
        self.features = features
        self._scales: Scales = {}  # tau and phi of modes whose levels have features, where these are not learned
        self.chain: AnyChain | None = None
        self.numbers = candidate.numbers(shape)
        self.ladder = Ladder(self.start, self.numbers)
        self.ladder_due = float(self.numbers)  # rewards at which it steps; fewer settle nothing
        self.recent = Recent()
        self.score = candidate.odds
        self.credit = 0.0  # sweeps that are due
        self.looked = 0.0  # rewards that there were when it was last looked at whether cells deviate

    def start(self, units: Units, rng: np.random.Generator, *, sweeps: bool = True) -> AnyChain:
        """Return a chain drawn from the prior; if it will sweep, from its middle where it could not come back."""
        structure, rank, decay, *_ = self.candidate
        chain = chain_from_prior(
            *(structure, self.shape, rank, units, rng),
            likelihood=self._likelihood,
            decay=decay,
            residual=self.deviates,  # as neighbours on the ladder exchange their states
            features=self.features,
        )
        return self._held(chain.calm(units) if self._likelihood.augmented and sweeps else chain)

    def begin(self, units: Units, rng: np.random.Generator, *, sweeps: bool = True) -> None:
        """Start from the prior."""
        self.chain = self.start(units, rng, sweeps=sweeps)
        self.forget()

    def outgrow(self, rewards: float, units: Units, rng: np.random.Generator) -> bool:
        """Become the later structure when there are plenty of rewards for each of its numbers; say whether it did."""
        later = self.candidate.later
        if later is None or rewards < self.candidate.plenty * later.numbers(self.shape):
            return False
        self.grow(self.shape, later, rng, self.features)
        self.begin(units, rng)
        return True

    def forget(self) -> None:
        """Forget the recent draws."""
        self.recent.forget()

    @property
    def draws(self) -> int:
        """How many draws were kept since the recent ones were forgotten last."""
        return self.recent.draws

    def sweep(self, ledger: Ledger, units: Units, rng: np.random.Generator, sweeps: int, weight: float) -> None:
        """Redraw all of the chain, some times."""
        assert self.chain is not None
        self.chain.sweep(ledger, units, rng, sweeps=sweeps, weight=weight)
        if not self.chain.finite:  # rewards far beyond all before: what was drawn for those is of no use
            self.chain = self.start(units, rng).calm(units)
        self.recent.keep(self.chain.model.line())

    def find(self, ledger: Ledger, units: Units, rng: np.random.Generator, sweeps: int, weight: float) -> None:
        """Sweep while rewards count more and more, up to ``weight``, so that the chain finds what many at once say.

        It would stay at the first mode of the posterior that it comes to: the more rewards, the deeper they are.
        """
        assert self.chain is not None
        least = weight * min(1.0, self.numbers / max(ledger.rounds, 1.0))
        for part in np.geomspace(least, weight, _RISES):
            self.chain.sweep(ledger, units, rng, sweeps=math.ceil(sweeps / _RISES), weight=float(part))

    def hold(self, scales: Scales) -> None:
        """Have the shares that features explain be those of the posterior itself; without any, they are learned.

        Colder chains would take noise for what levels have of their own: as rewards count more often than they came.
        """
        if scales != self._scales and self.chain is not None:
            self._scales = scales
            self._held(self.chain)

    def _held(self, chain: AnyChain) -> AnyChain:
        """Return a chain that keeps to what holds for all of them."""
        for mode, one in chain.features.items():
            one.hold(self._scales.get(mode))
        return chain

    def climb(self, ledger: Ledger, units: Units, rng: np.random.Generator, sweeps: int, weight: float) -> None:
        """Step on the ladder if that is due; after a batch several times, so that what a hot rung finds comes down."""
        received = ledger.received
        assert self.chain is not None
        if received >= self.ladder_due and not self.chain.joint:  # one that cannot be stuck needs no help
            for chain in self.ladder.chains:  # of the same law but for their temperature
                self._held(chain)
            for _ in range(min(sweeps, 4 * RUNGS)):
                some = math.ceil(sweeps / (4 * RUNGS))
                self.chain = self.ladder.step(self.chain, ledger, units, rng, sweeps=some, weight=weight)
            self.ladder_due = received + max(1.0, ledger.rounds * self.tuning.ladder)

    @property
    def deviates(self) -> bool:
        """Whether observed cells may deviate from the tensor."""
        return self.chain is not None and self.chain.residual is not None

    def allow_residual(self, units: Units) -> None:
        """Let observed cells deviate from the tensor from now on."""
        for chain in (self.chain, *self.ladder.chains):
            if chain is not None and chain.residual is None:
                chain.residual = Residual.start(units)

    def model(self, ledger: Ledger) -> Packed:
        """Return the model of the last draw."""
        assert self.chain is not None
        return model_of(self.chain, ledger)

    def recalled(self, ledger: Ledger) -> list[Packed]:
        """Return all models that :meth:`recall` may return, each as likely as another."""
        assert self.chain is not None
        return self.recent.models(self.chain, ledger)

    def recall(self, ledger: Ledger, rng: np.random.Generator) -> Packed:
        """Return the model of one of the recent draws."""
        assert self.chain is not None
        return self.recent.one(self.chain, ledger, rng)

    def more(
        self, ledger: Ledger, units: Units, rng: np.random.Generator, sweeps: int, draws: int, weight: float
    ) -> Iterator[PackedModel]:
        """Yield the models of further draws, with so many sweeps before each."""
        assert self.chain is not None
        for line in self.chain.sweep(ledger, units, rng, sweeps=sweeps * draws, keep=draws, weight=weight):
            self.recent.keep(line)
            yield self.chain.model.with_numbers(line)

    def log_scores(self, cells: Ints, counts: Floats, totals: Floats, variances: Floats) -> Floats:
        """Return the logs of the mean densities of new rewards of cells (n, d) over the recent draws, shape (n,).

        The variances of noise are the same for all structures: one that fits too closely would think little of it.
        """
        assert self.chain is not None
        values = self.recent.values(self.chain.model, cells)
        scores = self.chain.likelihood.log_scores(values, *(each[:, None] for each in (counts, totals, variances)))
        return np.asarray(np.logaddexp.reduce(scores, axis=1) - math.log(scores.shape[1]))

    def grow(
        self, shape: Cell, candidate: Candidate, rng: np.random.Generator, features: DescribedModes = NOT_DESCRIBED
    ) -> None:
        """Follow modes that gain levels; where the rank is another one, all starts from the prior."""
        if candidate.like(shape, features) != self.candidate.like(self.shape, features):
            self.chain, self.ladder.chains = None, []
        elif self.chain is not None:
            self.chain.grow(shape, candidate.rank, rng, features)
        self.shape, self.candidate, self.numbers = shape, candidate, candidate.numbers(shape)
        self.features = features
        self.ladder.grow(shape, candidate.rank, self.numbers, rng, features)
        self.recent, self._scales = Recent(), {}

    def describe(self, features: DescribedModes) -> None:
        """Go on with other features of the levels; where they are of other columns, all starts from the prior."""
        if columns_by_mode(features) != columns_by_mode(self.features):
            self.chain, self.ladder.chains = None, []
        for chain in (self.chain, *self.ladder.chains):
            if chain is not None:
                chain.describe(features)
        self.features, self._scales = features, {}

    def state(self) -> dict[str, Any]:
        """Return everything as plain arrays and numbers."""
        return {
            "chain": self.chain.state() if self.chain else {},
            "ladder": self.ladder.state(),
            "ladder_due": self.ladder_due,
            "recent": self.recent.lines.copy(),
            "draws": self.recent.draws,
            "score": self.score,
            "credit": self.credit,
            "looked": self.looked,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` returned."""
        if state["chain"] and self.candidate.later and state["chain"]["structure"] == self.candidate.later.structure:
            self.grow(self.shape, self.candidate.later, np.random.default_rng(0), self.features)
        once = _as_once(self.candidate, self.shape, state["chain"], self.features)
        if once is not self.candidate:
            self.grow(self.shape, once, np.random.default_rng(0), self.features)
        self.chain, self._scales = self._chain_of(state["chain"]) if state["chain"] else None, {}
        self.ladder.restore(state["ladder"], self._chain_of)
        state = {"looked": 0.0, **state}  # states did not always have it
        self.ladder_due, self.score, self.credit, self.looked = (
            check_array(state[name], f"the sampler's {name}", ()).item()
            for name in ("ladder_due", "score", "credit", "looked")
        )
        entries = len(self.chain.model.line()) if self.chain else 0
        self.recent.restore(state["recent"], state["draws"], entries)

    def _chain_of(self, state: Mapping[str, Any]) -> AnyChain:
        structure, rank = self.candidate.structure, self.candidate.rank
        return chain_from_state(state, structure, self.shape, rank, self._likelihood, self.features)
