"""What a check is given: how to make a policy, what of it cannot be derived from its class, and how to play it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell
from tensorbandits.ledger import Ledger
from tensorbandits.policies import registry
from tensorbandits.policies.base import Policy
from tensorbandits.tensor.tucker import Floats

SHAPE: Cell = (3, 4, 2)  # where any shape will do


class Skipped(Exception):  # noqa: N818  (nothing went wrong)
    """Raised by a check that says nothing of this policy; the message is the reason.

    >>> from tensorbandits.testing.contract import check_ranks
    >>> check_ranks(Case("ucb"))
    Traceback (most recent call last):
    tensorbandits.testing.case.Skipped: this policy has no rank
    """


class Case:
    """How to make a policy for any problem, and what it promises.

    What it takes (context, rank, horizon) is read off its constructor, what it can do off its traits. Beyond these:

    Parameters
    ----------
    policy : a registered name, a record of the registry, or a class.
    name : what reports call it; by default the name of its record.
    centred : whether it learns as well when means are far from 0.
    scale_free : whether the unit of rewards changes nothing.
    maximises : whether ``best`` has the largest estimate of all allowed cells. ``None`` takes it that every policy does
        but those that sample, of which decisions are compared with the draw that they are made from.
    learns_from_logs : whether it learns from rewards that it has not asked for. ``None`` takes what its class says.
    trials : whether it takes successes out of trials.
    patient : whether it learns as well when rewards come long after the asks, or most of them never.
    rounds : rounds after which it knows a good cell of an easy problem with 12 cells.
    share : what it then earns on average, as a share of what the best cell pays.
    threaded : rounds of each of four threads.
    unanswered : asks that are never answered.
    settings : further arguments of the constructor.

    >>> case = Case("ucb", scale=2.0)
    >>> case.name, case.takes("rank"), case.grows, case.make((2, 3)).scale
    ('ucb', False, True, 2.0)
    """

    def __init__(
        self,
        policy: Any,
        *,
        name: str | None = None,
        centred: bool = True,
        scale_free: bool = True,
        maximises: bool | None = None,
        learns_from_logs: bool | None = None,
        trials: bool = True,
        patient: bool = True,
        rounds: int = 600,
        share: float = 0.7,
        threaded: int = 1000,
        unanswered: int = 200_000,
        **settings: Any,
    ) -> None:
        self.record = policy if isinstance(policy, registry.PolicyRecord) else registry.find(policy)
        self.kind: Any = self.record.kind
        self.samples = self.record.traits.samples
        self.name = name or self.record.name
        self.centred, self.scale_free = centred, scale_free
        self.maximises = not self.samples if maximises is None else maximises
        self.learns_from_logs = self.record.traits.learns_from_logs if learns_from_logs is None else learns_from_logs
        self.trials, self.patient = trials, patient
        self.rounds, self.share, self.threaded, self.unanswered = rounds, share, threaded, unanswered
        self.settings = settings

    def __repr__(self) -> str:
        return f"Case({self.name!r})"

    @property
    def takes_context(self) -> bool:
        """Whether modes may be given rather than decided."""
        return self.record.context

    @property
    def forgets(self) -> bool:
        """Whether, with a past that fades, the policy follows means that change."""
        return self.record.traits.fades

    @property
    def grows(self) -> bool:
        """Whether the policy follows a mode that gains levels."""
        return self.record.traits.grows

    def takes(self, argument: str) -> bool:
        """Say whether the constructor takes an argument."""
        return self.record.takes(argument)

    def make(
        self,
        shape: Any,
        *,
        rank: Any = None,
        context: Sequence[int] = (),
        seed: Any = 0,
        horizon: int = 500,
        **more: Any,
    ) -> Policy:
        """Return a policy for a problem; rank and horizon count only if it takes them."""
        settings = {"rank": 2} | self.settings | more if self.takes("rank") else self.settings | more
        if self.takes("rank") and rank is not None:
            settings["rank"] = rank
        return self.record.make(shape, context=context, seed=seed, horizon=horizon, **settings)

    def contexts(self) -> list[tuple[Cell, Cell]]:
        """Return some shapes, each with the modes that are given."""
        free: list[tuple[Cell, Cell]] = [((5,), ()), ((4, 3), ()), ((3, 4, 2), ()), ((3, 2, 2, 3), ())]
        given: list[tuple[Cell, Cell]] = [((4, 3), (0,)), ((3, 4, 2), (1,)), ((3, 4, 2), (2, 0))]
        return free + given * self.takes_context


@contextmanager
def raises(error: type[Exception] | tuple[type[Exception], ...], match: str = "") -> Iterator[None]:
    """Hold if what is inside raises this error, with a message that has this pattern in it.

    >>> with raises(ZeroDivisionError, "by zero"):
    ...     1 / 0
    """
    message = None
    try:
        yield
    except error as raised:
        message = str(raised)
    assert message is not None, f"no {error} was raised"
    assert re.search(match, message, re.DOTALL), f"the error says {message!r}, without {match!r}"


@contextmanager
def unchanged(policy: Policy, why: str = "") -> Iterator[None]:
    """Hold if what is inside leaves the state of a policy as it was.

    >>> policy = Case("ucb").make((2, 3))
    >>> with unchanged(policy):
    ...     policy.best()
    (0, 0)
    """
    before = policy.state_dict()
    yield
    assert same(before, policy.state_dict()), why or "the state of the policy has changed"


def product_mean(shape: Cell) -> Floats:
    """Return a random tensor of rank 1."""
    rng = np.random.default_rng(0)
    return reduce(np.multiply.outer, [rng.standard_normal(size) for size in shape])


def random_levels(policy: Policy, rng: np.random.Generator) -> Cell:
    """Return random levels of the context modes."""
    return tuple(int(rng.integers(policy.shape[j])) for j in policy.context)


def play(
    policy: Policy,
    rounds: int,
    *,
    mean: Floats | None = None,
    seed: int = 1,
    scale: float = 1.0,
    noise: float = 0.5,
    delay: int = 0,
    lose: float = 0.0,
    fade: float | None = None,
) -> list[Cell]:
    """Play some rounds with noisy rewards, told late, out of order, and some never; return the cells."""
    rng = np.random.default_rng(seed)
    mean = product_mean(policy.shape) if mean is None else mean
    cells: list[Cell] = []
    waiting: list[tuple[Cell, float]] = []
    for _ in range(rounds):
        levels = random_levels(policy, rng)
        cell = policy.ask(levels)
        assert tuple(cell[j] for j in policy.context) == levels, f"{cell} was chosen given {levels}"
        assert len(cell) == len(policy.shape)
        assert all(type(i) is int and 0 <= i < p for i, p in zip(cell, policy.shape, strict=True)), f"{cell!r}"
        cells.append(cell)
        waiting.append((cell, scale * float(mean[cell] + noise * rng.standard_normal())))
        if len(waiting) > delay:
            told, reward = waiting.pop(int(rng.integers(len(waiting))))
            if rng.random() >= lose:
                policy.tell(told, fitting(policy, reward))
        if fade is not None:
            policy.fade(fade)
    return cells


def fitting(policy: Policy, reward: float) -> float:
    """Return a reward that a policy takes: this one or, if it takes no negative ones, 0 in its place.

    >>> policy = Case("thompson", reward="revenue").make((2, 3))
    >>> fitting(policy, 2.5), fitting(policy, -2.5)
    (2.5, 0.0)
    """
    try:
        return policy.check_reward(reward)
    except ValueError:
        return policy.check_reward(max(reward, 0.0))


def same(one: Any, two: Any) -> bool:
    """Say whether nested states of dicts, lists, arrays and numbers are the same.

    >>> same({"a": [1, np.ones(2)]}, {"a": [1, np.ones(2)]}), same([1.0], [1.0, 2.0])
    (True, False)
    """
    if isinstance(one, Mapping):
        return isinstance(two, Mapping) and one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, two, equal_nan=True)
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two)


def all_cells(shape: Cell) -> NDArray[np.int64]:
    """Return all cells (n, d), in C order."""
    return np.array(list(np.ndindex(shape)), dtype=np.int64)


def random_log(shape: Cell, rounds: int) -> tuple[NDArray[np.int64], Floats]:
    """Return random cells (n, d) and noisy rewards (n,)."""
    rng = np.random.default_rng(0)
    cells = np.stack([rng.integers(size, size=rounds) for size in shape], axis=1)
    return cells, product_mean(shape)[tuple(cells.T)] + 0.5 * rng.standard_normal(rounds)


def ledger_of(policy: Policy, cells: NDArray[np.int64], rewards: Floats) -> Ledger:
    """Return the ledger of some rewards, as a policy keeps them."""
    ledger = policy.ledger.empty()
    ledger.add(cells, rewards)
    return ledger
