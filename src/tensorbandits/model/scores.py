"""How well models predict rewards that they have not seen: the evidence for a structure, for main effects, for neither.

A model learns from one part of the rewards and gives each of the others a density; the logarithm of it, averaged over
rewards, is its *score*. All models share what is not about means (the spread of single rewards), so that a difference
of scores says whose means are better. The models::

    overall mean    one number
    main effects    an effect of each level of each mode, none of combinations
    cell means      each cell by itself, with one pseudo-reward of the overall mean
    tucker r        a low-rank tensor and a constant, averaged over draws from its posterior
    affine r        the same with main effects, and interactions of fewer modes, inside it
    pairs           main effects and interactions of two modes each, where there are more than four

The work is in proportion to the cells that were observed, however many rewards they have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from tensorbandits.base import pieces
from tensorbandits.base.checks import Cell, feasible_rank
from tensorbandits.ledger import Ledger
from tensorbandits.model.chains import AnyChain, chain_from_prior
from tensorbandits.model.described import NOT_DESCRIBED, DescribedModes
from tensorbandits.model.effects import Family, Kind, check_kind, main_effects
from tensorbandits.model.likelihood import Units
from tensorbandits.model.rewards import likelihood_of
from tensorbandits.tensor.pairs import usual_columns
from tensorbandits.tensor.tucker import Floats, Ints

OVERALL, EFFECTS, CELLS = PLAIN = ("overall mean", "main effects", "cell means")

_DRAWS = 20  # posterior draws that a prediction averages over
_SWEEPS = 2  # between draws
_SETTLE = 60  # sweeps of the first part; a later one starts where the one before ended
_MOST_WORK = 2e6  # cells times sweeps for one model and part; larger ledgers are swept less
_FEWEST = 12  # draws and sweeps before them, however large the ledger
_FEW_MODES = 4  # of more, pairs are a structure that is worth a look
_LARGEST_CORE = 200  # entries; a structure with more of them is left out


class Form(NamedTuple):
    """A kind of low-rank model and its rank: the number of free columns of each factor; main effects have one.

    >>> str(Form("affine", 2)), str(Form("additive", 1))
    ('affine 2', 'additive')
    """

    kind: Literal["tucker", "affine", "additive", "pairs"]
    rank: int

    @classmethod
    def named(cls, name: str) -> Form:
        """Return the form of a name.

        >>> Form.named("affine 2"), Form.named("pairs") == Form("pairs", 1)
        (Form(kind='affine', rank=2), True)
        """
        kind, _, rank = name.partition(" ")
        return cls(cast(Any, kind), int(rank or 1))

    def __str__(self) -> str:
        return self.kind if self.kind in ("additive", "pairs") else f"{self.kind} {self.rank}"


def structures(shape: Cell, largest: int = 3) -> tuple[Form, ...]:
    """Return the structures worth a look in a space: those whose core is neither huge nor the same as a smaller one's.

    >>> [str(structure) for structure in structures((4, 5, 2), 2)]
    ['tucker 1', 'tucker 2', 'affine 1', 'affine 2']
    >>> [str(structure) for structure in structures((2,) * 9)]
    ['tucker 1', 'pairs']
    """
    found, seen = [], set()
    kinds: tuple[Literal["tucker", "affine"], ...] = ("tucker", "affine")
    for kind in kinds:
        for rank in range(1, largest + 1):
            ranks = _free(shape, kind, rank)
            if (kind, ranks) not in seen and (math.prod(r + (kind == "affine") for r in ranks) <= _LARGEST_CORE):
                found.append(Form(kind, rank))
                seen.add((kind, ranks))
    if len(shape) > _FEW_MODES:
        found.append(Form("pairs", 2))
    return tuple(found)


def _free(shape: Cell, kind: str, rank: int) -> Cell:
    """The free columns of each mode: no more than its levels can tell apart."""
    if kind == "pairs":
        return usual_columns(shape)
    if kind == "affine":
        return tuple(min(rank, size - 1) for size in shape)
    return feasible_rank([min(rank, size) for size in shape])


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of some models on the same held-out rewards, after they learned from ``rewards`` others.

    ``total`` (models,) are sums over the held-out rewards, of which there are ``held_out``; ``moments`` (models + 1,
    models + 1) are the sums over cells of products of the models' scores and of the number of rewards, from which the
    errors of differences follow. Scores of other divisions of the same rewards are added with :meth:`join`.
    """

    rewards: int
    models: tuple[str, ...]
    total: Floats
    held_out: float
    moments: Floats
    parts: tuple[Floats, ...]  # mean scores (models,) of each division

    @classmethod
    def of(cls, rewards: int, by_cell: dict[str, Floats], counts: Floats) -> Scores:
        """Return the scores of models whose sums are known by cell (n,), with the number of rewards of each cell."""
        table = np.array([*by_cell.values(), counts])
        total = table[:-1].sum(axis=1)
        return cls(rewards, tuple(by_cell), total, float(counts.sum()), table @ table.T, (total / counts.sum(),))

    @classmethod
    def join(cls, several: Sequence[Scores]) -> Scores:
        """Return the scores over several divisions, of the same models and about as many rewards."""
        return cls(
            round(float(np.mean([scores.rewards for scores in several]))),
            several[0].models,
            np.sum([scores.total for scores in several], axis=0),
            sum(scores.held_out for scores in several),
            np.sum([scores.moments for scores in several], axis=0),
            tuple(part for scores in several for part in scores.parts),
        )

    def __getitem__(self, model: str) -> float:
        """The mean score of a model, per reward."""
        return float(self.total[self.models.index(model)] / self.held_out)

    def as_dict(self) -> dict[str, float]:
        """Return the mean score of each model."""
        return {model: self[model] for model in self.models}

    def ahead(self, model: str, other: str, *, by_cells: bool = False) -> tuple[float, float]:
        """Return by how much a model's score is above another's, per reward, and the standard error of that.

        The error is the larger of what the cells say and what the divisions say: the first knows how rewards vary, the
        second also how much it matters from which of them a model learned. Divisions are few, so that what they say is
        far from sure; ``by_cells`` leaves it out.
        """
        difference = self[model] - self[other]
        weights = np.zeros(len(self.models) + 1)
        a, b = self.models.index(model), self.models.index(other)
        weights[a] += 1.0
        weights[b] -= 1.0
        weights[-1] = -difference
        cells = math.sqrt(max(float(weights @ self.moments @ weights), 0.0)) / self.held_out
        if by_cells or len(self.parts) < 2:
            return difference, cells
        by_part = [part[a] - part[b] for part in self.parts]
        return difference, max(cells, float(np.std(by_part, ddof=1)) / math.sqrt(len(by_part)))

    def best(self, models: Sequence[str], within: float = 1.0) -> str:
        """Return the model with the highest score; of several the first that is within so many standard errors."""
        first = max(models, key=lambda model: self[model])
        for model in models:
            behind, error = self.ahead(first, model)
            if behind <= within * error:
                return model
        return first


def held_out_scores(
    parts: Sequence[Ledger],
    held_out: Ledger,
    kind: Kind,
    candidates: Sequence[Form],
    rng: np.random.Generator,
) -> list[Scores]:
    """Return the scores on a held-out ledger after learning from each of some others, each within the next.

    Parameters
    ----------
    parts : ledgers to learn from, the smaller first; each has all rewards of the one before it.
    held_out : the rewards to be predicted, none of which is in the parts.
    kind : of the rewards.
    candidates : the low-rank structures to try.

    >>> rng = np.random.default_rng(0)
    >>> cells = rng.integers(6, size=(4000, 2)); means = np.cos(cells[:, 0]) * np.sin(cells[:, 1])
    >>> rewards = means + 0.3 * rng.standard_normal(4000)
    >>> train, rest = Ledger((6, 6)), Ledger((6, 6))
    >>> train.add(cells[:300], rewards[:300]); rest.add(cells[300:], rewards[300:])
    >>> (scores,) = held_out_scores([train], rest, "gaussian", [Form("tucker", 1)], rng)
    >>> scores.best(scores.models)
    'tucker 1'
    """
    if not len(held_out) or not parts or not all(map(len, parts)):
        raise ValueError("a part is empty; models need rewards to learn from and rewards to predict")
    family = Family.of(parts[-1] + held_out, check_kind(kind))
    learners = {str(structure): _Learner(structure, kind, held_out.cells, rng) for structure in candidates}
    result = []
    for part in parts:
        means = _plain(part, held_out.cells, family)
        means |= {name: learner.means(part) for name, learner in learners.items()}
        by_cell = {name: family.log_scores(held_out, mean) for name, mean in means.items()}
        result.append(Scores.of(round(part.rounds), by_cell, held_out.counts))
    return result


def predictions(
    train: Ledger,
    cells: Ints,
    family: Family,
    candidates: Sequence[Form],
    rng: np.random.Generator,
    features: DescribedModes = NOT_DESCRIBED,
) -> dict[str, Floats]:
    """Return the mean rewards of cells (n, d) that each model learns from a ledger, by model.

    Low-rank structures know the ``features`` of levels.
    """
    learned = {str(item): _Learner(item, family.kind, cells, rng, features).means(train) for item in candidates}
    return _plain(train, cells, family) | learned


def _plain(train: Ledger, cells: Ints, family: Family) -> dict[str, Floats]:
    """Return what the models without low rank say of cells (n, d)."""
    overall = train.mean
    if family.kind != "gaussian":  # one pseudo-reward of a half, so that no density is 0
        overall = (train.totals.sum() + 0.5) / (train.rounds + 1.0)
    N, Y = _at(train, cells)
    return {
        OVERALL: np.full(len(cells), overall),
        EFFECTS: main_effects(train, family.kind, family).at(cells),
        CELLS: (Y + overall) / (N + 1.0),
    }


def _at(ledger: Ledger, cells: Ints) -> tuple[Floats, Floats]:
    """Return the counts and the sums of rewards of cells (n, d), 0 where there are none."""
    keys = pieces.numbered(np.concatenate([ledger.cells, cells]))
    own, wanted = keys[: len(ledger)], keys[len(ledger) :]
    order = np.argsort(own)
    at = order[np.minimum(np.searchsorted(own, wanted, sorter=order), len(own) - 1)]
    there = own[at] == wanted
    return np.where(there, ledger.counts[at], 0.0), np.where(there, ledger.totals[at], 0.0)


class _Learner:
    """A chain of posterior draws of one structure, which goes on as more rewards come."""

    def __init__(
        self,
        structure: Form,
        kind: Kind,
        cells: Ints,
        rng: np.random.Generator,
        features: DescribedModes = NOT_DESCRIBED,
    ) -> None:
        self.structure, self.cells, self.rng, self.features = structure, cells, rng, features
        self.likelihood = likelihood_of(kind)
        self.chain: AnyChain | None = None

    def means(self, train: Ledger) -> Floats:
        """Return the mean rewards of the held-out cells, averaged over draws given a ledger."""
        units = self.likelihood.units(train)
        settle = _SETTLE
        if self.chain is None:
            self.chain = self._start(train.shape, units)
        else:
            settle //= 3
        share = min(1.0, _MOST_WORK / (len(train) * (settle + _DRAWS * _SWEEPS)))
        between = max(1, round(share * _SWEEPS))
        draws = max(_FEWEST, round(share * _DRAWS * _SWEEPS / between))
        self.chain.sweep(train, units, self.rng, sweeps=max(_FEWEST, round(share * settle)))
        lines = self.chain.sweep(train, units, self.rng, sweeps=draws * between, keep=draws)
        return np.asarray(np.mean([self._rewards(line) for line in lines], axis=0))

    def _start(self, shape: Cell, units: Units) -> AnyChain:
        kind, rank = self.structure
        ranks = _free(shape, kind, rank)
        chain = chain_from_prior(
            kind, shape, ranks, units, self.rng, likelihood=self.likelihood, features=self.features
        )
        return chain.calm(units)

    def _rewards(self, line: Floats) -> Floats:
        assert self.chain is not None
        return self.chain.likelihood.rewards(self.chain.model.with_numbers(line).at(self.cells))
