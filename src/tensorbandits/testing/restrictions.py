"""What may not be chosen is never chosen, and of what may be chosen the best is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell
from tensorbandits.policies.base import Policy
from tensorbandits.tensor.allowed import Allowed
from tensorbandits.tensor.packed import Packed
from tensorbandits.tensor.tucker import Floats, Tucker
from tensorbandits.testing.case import (
    SHAPE,
    Case,
    Skipped,
    all_cells,
    fitting,
    play,
    raises,
    random_levels,
    same,
    unchanged,
)

Mask = NDArray[np.bool_]

_REQUESTS = 250  # per shape; each is answered by ask, decide, best or ask_many
_EXACT = 60  # per shape; each is compared with all cells
_TIE = 1e-9


class Request(NamedTuple):
    """A random request: levels of the context, what is given as allowed, and which cells that leaves."""

    levels: Cell
    allowed: Any
    mask: Mask  # of the policy's shape


def given(policy: Policy, levels: Cell) -> tuple[int | slice, ...]:
    """Return the index of all cells that agree with the levels of the context."""
    fixed = dict(zip(policy.context, levels, strict=True))
    return tuple(fixed.get(j, slice(None)) for j in range(len(policy.shape)))


def strike(mask: Mask, rule: Mapping[int, int]) -> None:
    """Take the cells of a forbidden combination out of a mask."""
    mask[tuple(rule.get(j, slice(None)) for j in range(mask.ndim))] = False


def random_rule(shape: Cell, rng: np.random.Generator) -> dict[int, int]:
    """Return a random combination of levels of one mode or several."""
    modes = rng.permutation(len(shape))[: int(rng.integers(1, len(shape) + 1))]
    return {int(j): int(rng.integers(shape[j])) for j in modes}


def _random_allowed(shape: Cell, rng: np.random.Generator) -> tuple[Any, Mask]:
    """Return something to give as allowed, as levels, masks or an ``Allowed``, and which cells that leaves."""
    mask, levels = np.ones(shape, dtype=bool), {}
    for j, size in enumerate(shape):
        if rng.random() < 0.5:
            kept = rng.random(size) < 0.6
            kept[int(rng.integers(size))] = True
            mask &= kept.reshape([-1 if k == j else 1 for k in range(len(shape))])
            levels[j] = kept if rng.random() < 0.5 else np.flatnonzero(kept).tolist()
    if rng.random() < 0.4:
        return (levels or None), mask
    rules = [random_rule(shape, rng) for _ in range(int(rng.integers(1, 4)))]
    for rule in rules:
        strike(mask, rule)
    return Allowed(levels, forbidden=rules), mask


def check_only_allowed_cells_are_chosen(case: Case) -> None:
    """Neither ``ask``, ``ask_many``, ``decide`` nor ``best`` returns what a request or a standing rule excludes."""
    rng = np.random.default_rng(0)
    for shape, context in case.contexts():
        policy = case.make(shape, context=context)
        play(policy, 40)
        standing: list[Mapping[int, int]] = []
        for _ in range(_REQUESTS):
            _change_rules(policy, standing, rng)
            request = _request(policy, rng, standing)
            for cell in _answers(policy, request, rng):
                chosen = tuple(cell[j] for j in policy.context) == request.levels and request.mask[cell]
                assert chosen, f"{cell} was chosen of {request} with {standing} forbidden"
                if rng.random() < 0.3:
                    policy.tell(cell, fitting(policy, float(rng.standard_normal())))


def _request(policy: Policy, rng: np.random.Generator, standing: list[Mapping[int, int]]) -> Request:
    """A random request with standing rules, of which the last are lifted while none can be met."""
    while True:
        for _ in range(20):
            levels = random_levels(policy, rng)
            allowed, mask = _random_allowed(policy.shape, rng)
            for rule in standing:
                strike(mask, rule)
            if mask[given(policy, levels)].any():
                return Request(levels, allowed, mask)
        policy.permit(standing.pop())


def _change_rules(policy: Policy, standing: list[Mapping[int, int]], rng: np.random.Generator) -> None:
    """Forbid one more combination, or permit one again, now and then."""
    if rng.random() < 0.1 and len(standing) < 3 and len(policy.shape) > 1:
        rule = random_rule(policy.shape, rng)
        if rule not in standing and len(rule) > 1:
            policy.forbid(rule)
            standing.append(rule)
    elif rng.random() < 0.05 and standing:
        policy.permit(standing.pop())


def _answers(policy: Policy, request: Request, rng: np.random.Generator) -> list[Cell]:
    way = rng.random()
    if way < 0.4:
        return [policy.ask(request.levels, request.allowed)]
    if way < 0.8:
        return [policy.decide(policy.query(request.levels, request.allowed)).cell]
    if way < 0.9:
        return policy.ask_many([request.levels] * 3 if policy.context else 3, request.allowed)
    return [policy.best(request.levels, request.allowed)]


def check_the_best_allowed_cell_equals_brute_force(case: Case) -> None:
    """``best`` has the largest estimate of all allowed cells; a sampled decision is the best of its draw."""
    if not case.maximises and not case.samples:
        raise Skipped("the best cell of this policy is not that of the largest estimate")
    rng = np.random.default_rng(1)
    for shape, context in case.contexts():
        policy = case.make(shape, context=context)
        play(policy, 40)
        for _ in range(_EXACT):
            request = _request(policy, rng, [])
            if case.samples:
                policy.learn()
                cell = policy.decide(policy.query(request.levels, request.allowed)).cell
                values = _full(policy._draw)  # type: ignore[attr-defined]
            else:
                cell = policy.best(request.levels, request.allowed)
                values = policy.estimate(all_cells(shape)).reshape(shape)
            index = given(policy, request.levels)
            largest = values[index][request.mask[index]].max()
            assert values[cell] >= largest - _TIE * np.abs(values).max(), f"{cell} is not the best of {request}"


def _full(draw: Any) -> Floats:
    """All entries of what a decision is made from."""
    if isinstance(draw, Packed):
        return draw.at(all_cells(draw.shape)).reshape(draw.shape)
    return draw.full() if isinstance(draw, Tucker) else np.asarray(draw)


def check_a_request_that_allows_nothing_is_refused(case: Case) -> None:
    """An empty request is an error that says so, and changes nothing but what is learned before any decision."""
    for context in ((), (1,)) if case.takes_context else ((),):
        policy, twin = case.make(SHAPE, context=context), case.make(SHAPE, context=context)
        levels = (2,) * len(context)
        for rounds in (0, 30, 60):
            play(policy, rounds, seed=rounds)
            play(twin, rounds, seed=rounds)
            nothing = Allowed({0: [1], 2: [0, 1]}, forbidden=[{0: 1, 2: 0}, {0: 1, 2: 1}])
            for call in (policy.ask, policy.best):
                with raises(ValueError, "no cell is allowed"):
                    call(levels, nothing)
            with raises(ValueError, "no cell is allowed"):
                policy.ask_many([levels] * 2 if context else 2, nothing)
            with raises(ValueError, "no level of mode 0 is left"):
                policy.ask(levels, Allowed({0: [1]}, forbidden=[{0: 1}]))
            twin.learn()  # once for ask, and once for ask_many
            twin.learn()
            assert same(policy.state_dict(), twin.state_dict()), f"such a request changed it after {rounds} rounds"


def check_bad_restrictions_are_refused(case: Case) -> None:
    """What is no restriction of this shape is named in an error, and changes nothing."""
    policy = case.make(SHAPE)
    bad: list[tuple[Any, str]] = [
        ({5: [0]}, "mode 5"),
        ({0: [7]}, "out of range"),
        ({0: []}, "empty"),
        ({1: [True, False]}, "mask of mode 1 has 2 entries"),
        ({0: ["a"]}, ""),
        ([0, 1], "give the allowed levels by mode"),
        (Allowed(forbidden=[{9: 0}]), ""),
        (Allowed(forbidden=[{0: 9}]), ""),
    ]
    for allowed, match in bad:
        for call in (policy.ask, policy.best, policy.query):
            with unchanged(policy), raises((ValueError, TypeError), match):
                call((), allowed)
    with unchanged(policy):
        for rule in ({9: 0}, {0: 9}, {"a": 0}, {0: 0.5}):
            with raises((ValueError, TypeError)):
                policy.forbid(rule)  # type: ignore[arg-type]
        policy.forbid({0: 0, 1: 1})
        with raises(ValueError, "not among the forbidden"):
            policy.permit({0: 0})
        policy.permit({1: 1, 0: 0})
    assert policy.forbidden == []
