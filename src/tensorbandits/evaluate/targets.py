"""What is evaluated: policies by name, trained ones, fixed arms, tables, rules, as probabilities of cells."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorbandits.base.checks import Cell, check_cell, is_sequence, nearest
from tensorbandits.evaluate.rows import Rows
from tensorbandits.policies.approximate import as_sampling
from tensorbandits.policies.base import Policy
from tensorbandits.sim.recipes import PolicyRecipe
from tensorbandits.space import Space
from tensorbandits.tensor.tucker import Floats, Ints

LOGGED, UNIFORM = "logged", "uniform"
Law = Callable[[Cell], tuple[Ints, Floats]]  # of context levels: cells (k, d) and their probabilities (k,)

_CLOSE = 1e-6  # to 1, for probabilities that sum to it


@dataclass(frozen=True, eq=False)
class Choices:
    """What a policy would do in the contexts of some rows, given by their positions.

    ``cells`` (m, d) are those that it may choose, ``chances`` (m,) their probabilities, and ``owners`` (m,) the context
    of each, by its position among those of all rows.
    """

    rows: Ints
    cells: Ints
    chances: Floats
    owners: Ints

    @classmethod
    def of(cls, law: Law, rows: Rows, chosen: Ints) -> Choices:
        """Return what a law says in the contexts of chosen rows."""
        contexts = np.unique(rows.context_of[chosen])
        cells, chances = zip(*(law(tuple(levels)) for levels in rows.contexts[contexts].tolist()), strict=True)
        owners = np.repeat(contexts, [len(part) for part in chances])
        return cls(chosen, np.concatenate(cells), np.concatenate(chances), owners)

    def at(self, rows: Rows) -> Floats:
        """Return the probabilities of the decisions of its rows, (len(self.rows),)."""
        numbers, decided = rows.number(self.cells), rows.flat[self.rows]
        order = np.argsort(numbers)
        found = order[np.minimum(np.searchsorted(numbers, decided, sorter=order), len(order) - 1)]
        return np.where(numbers[found] == decided, self.chances[found], 0.0)

    def counts(self, rows: Rows) -> Floats:
        """Return how many decisions for each of the cells are expected over its rows, (m,)."""
        often = np.bincount(rows.context_of[self.rows], minlength=len(rows.contexts))
        return np.asarray(often[self.owners] * self.chances)

    def expected(self, values: Floats, rows: Rows) -> Floats:
        """Return the mean of values (m,) under the probabilities in each context of the rows, (c,)."""
        return np.asarray(np.bincount(self.owners, self.chances * values, len(rows.contexts)), dtype=np.float64)


def space_of(policies: Any) -> Space | None:
    """Return the space of the first bandit among what is to be evaluated; a bandit has a space and a policy."""
    return next((policy.space for _, policy in _pairs(policies) if _is_bandit(policy)), None)


def _is_bandit(policy: Any) -> bool:
    return isinstance(getattr(policy, "policy", None), Policy) and isinstance(getattr(policy, "space", None), Space)


def _pairs(policies: Any) -> list[tuple[Any, Any]]:
    """Return policies with their names, given or made."""
    if isinstance(policies, Mapping):
        return list(policies.items())
    listed = policies if isinstance(policies, (list, tuple)) else [policies]
    return [(_name(policy), policy) for policy in listed]


def named(policies: Any, rows: Rows) -> dict[str, Any]:
    """Return what is to be evaluated by name: a law for what is fixed, a recipe for what learns."""
    given = _pairs(policies)
    if not given:
        raise ValueError("policies is empty; give at least one, such as 'uniform', 'thompson' or a trained policy")
    found: dict[str, Any] = {}
    for name, policy in given:
        if not isinstance(name, str) or not name or name == LOGGED:
            raise ValueError(
                f"a policy has the name {name!r}; names are text, and {LOGGED!r} is the log's own decisions"
            )
        if name in found:
            raise ValueError(f"two policies have the name {name!r}; give names: {{'first': ..., 'second': ...}}")
        found[name] = _target(policy, rows)
    return found


def _name(policy: Any) -> str:
    if isinstance(policy, (str, PolicyRecipe)):
        return str(policy)
    if isinstance(policy, Mapping):
        return f"always {', '.join(map(str, policy.values()))}"
    if inspect.isclass(policy) or inspect.isroutine(policy):
        return policy.__name__
    return "table" if isinstance(policy, np.ndarray) else repr(policy)


def _target(policy: Any, rows: Rows) -> Law | PolicyRecipe:
    if isinstance(policy, str) and policy == UNIFORM:
        return lambda levels: _equal(rows.arms(levels))
    if isinstance(policy, Policy):
        return _trained(policy, rows)
    if _is_bandit(policy):
        if policy.space != rows.space:
            raise ValueError(
                f"the bandit's space is {policy.space}, the log is read in {rows.space}; both must be equal"
            )
        return _trained(policy.policy, rows)
    if isinstance(policy, (str, PolicyRecipe)) or inspect.isclass(policy):
        return _recipe(policy)
    if isinstance(policy, Mapping):
        return _always(policy, rows)
    if callable(policy):
        return lambda levels: _sure(_checked(policy(levels), levels, rows))
    if isinstance(policy, np.ndarray) or is_sequence(policy):
        return _table(np.asarray(policy, dtype=np.float64), rows)
    raise TypeError(
        f"{policy!r} cannot be evaluated; give 'uniform', a policy's name or class (it learns along the log), a "
        "trained policy, an arm as labels by mode, an array of probabilities, or a function of the context levels"
    )


def _recipe(policy: Any) -> PolicyRecipe:
    try:
        recipe = PolicyRecipe.parse(policy) if isinstance(policy, str) else policy
    except ValueError:
        if hint := nearest(policy, [UNIFORM]):
            raise ValueError(f"policy is {policy!r}; {hint}") from None
        raise
    return recipe if isinstance(recipe, PolicyRecipe) else PolicyRecipe(recipe)


def _trained(policy: Policy, rows: Rows) -> Law:
    """A policy that learns no more: as often as its draws choose a cell, or the cell that it believes best."""
    if policy.shape != rows.shape:
        raise ValueError(
            f"the policy has shape {policy.shape}, the log {rows.shape}; if the policy knows levels that the log "
            "lacks, give the space that it was made for: space=..."
        )
    if policy.context != rows.space.context:
        raise ValueError(
            f"the policy has the context modes {policy.context}, the log is read with {rows.space.context}; give "
            f"context={[rows.space.modes[j] for j in policy.context]}"
        )
    return law_of(policy, rows)


def law_of(policy: Policy, rows: Rows) -> Law:
    """Return what a policy would do as it is, within the rules of the space."""
    allowed, sampling = rows.rules, as_sampling(policy)
    if sampling is None:
        return lambda levels: _sure(policy.best(levels, allowed))

    def law(levels: Cell) -> tuple[Ints, Floats]:
        found = sampling.shares(levels, allowed)
        return np.array(list(found), dtype=np.int64), np.array(list(found.values()))

    return law


def _always(labels: Mapping[str, Any], rows: Rows) -> Law:
    space = rows.space
    decided = {mode for j, mode in enumerate(space.modes) if j not in space.context}
    if set(labels) != decided:
        raise ValueError(f"the arm names {sorted(map(str, labels))}; give one label for each of {sorted(decided)}")
    chosen = {space.position(mode): space.level(mode, label) for mode, label in labels.items()}

    def law(levels: Cell) -> tuple[Ints, Floats]:
        full = chosen | dict(zip(space.context, levels, strict=True))
        return _sure(tuple(full[j] for j in range(len(space.modes))))

    return law


def _table(table: Floats, rows: Rows) -> Law:
    """Probabilities of all cells, which sum to 1 over the decided modes in each context."""
    if table.shape != rows.shape:
        raise ValueError(f"the table has shape {table.shape}, the log {rows.shape}; give a probability for each cell")
    decided = tuple(j for j in range(table.ndim) if j not in rows.space.context)
    if not (table >= 0).all() or not np.allclose(table.sum(axis=decided), 1.0, atol=_CLOSE, rtol=0.0):
        raise ValueError(
            "the table holds no probabilities: each must be 0 or more, and those of the cells of each context must sum "
            "to 1"
        )

    def law(levels: Cell) -> tuple[Ints, Floats]:
        cells = rows.arms(levels)
        chances = table[tuple(cells.T)]
        if abs(chances.sum() - 1.0) > _CLOSE:
            raise ValueError(
                f"the table decides for combinations that the space forbids, in the context {levels}; use 0"
            )
        return cells[chances > 0], chances[chances > 0]

    return law


def _checked(cell: Any, levels: Cell, rows: Rows) -> Cell:
    valid = check_cell(cell, rows.shape)
    if tuple(valid[j] for j in rows.space.context) != levels:
        raise ValueError(f"the function returned the cell {valid} for the context levels {levels}, which it must keep")
    return valid


def _sure(cell: Cell) -> tuple[Ints, Floats]:
    return np.array([cell], dtype=np.int64), np.ones(1)


def _equal(cells: Ints) -> tuple[Ints, Floats]:
    return cells, np.full(len(cells), 1.0 / len(cells))
