"""What a report says, as numbers: uplift, what was learned, what moved, traffic, and what is still to come.

Decisions over time are kept in at most a hundred blocks, so a period begins with the first block that reaches into it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tensorbandits.bandit import beliefs
from tensorbandits.bandit.changes import chosen, described
from tensorbandits.bandit.checkup import Checkup
from tensorbandits.bandit.commands import Ask
from tensorbandits.bandit.comparison import EVENTS, REWARDS, SIDES
from tensorbandits.bandit.core import Core
from tensorbandits.bandit.snapshot import Snapshot
from tensorbandits.bandit.timeline import Timeline
from tensorbandits.bandit.uplift import Uplift, mean_bounds
from tensorbandits.base.checks import Cell
from tensorbandits.policies.approximate import ModelSampling, as_modelling, as_sampling
from tensorbandits.space import Space
from tensorbandits.tensor.tucker import Floats

LEVEL = 0.95  # of intervals of what was earned
BELIEVED = 0.9  # and of what is believed
_POINTS, _REWARDS = 14, 50  # of a line over time, and rewards of each point at least
_CONTEXTS, _ARMS, _LEVELS = 12, 5, 12  # that a person reads
_SURE = 0.9  # probability with which the best arm leads the next ones


class Change(NamedTuple):
    """A change of the bandit: when, by whom if that is known, and what."""

    time: float
    by: str | None
    words: str


class Arm(NamedTuple):
    """An arm by its labels, what it is believed to earn, with bounds, and how many rewards it has."""

    labels: tuple[str, ...]
    mean: float
    low: float
    high: float
    rewards: float


class BestArms(NamedTuple):
    """The best arms in a context, and whether the first surely leads the others."""

    context: tuple[str, ...]
    arms: tuple[Arm, ...]
    sure: bool


class LevelFound(NamedTuple):
    """A level: what it earns with typical partners, with bounds, its rewards, and its share of decisions, twice."""

    label: str
    retired: bool
    mean: float
    low: float
    high: float
    rewards: float
    share: float  # in the period
    before: float


class ModeFound(NamedTuple):
    """A mode: its levels, the best first, how many are left out, and groups that are interchangeable."""

    name: str
    context: bool
    levels: tuple[LevelFound, ...]
    left_out: int
    alike: tuple[tuple[str, ...], ...]


class Point(NamedTuple):
    """What a side earned over some time: mean with bounds."""

    start: float
    end: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Gathered:
    """Everything that a report of a bandit says of the time from ``begin`` to ``end``.

    ``since`` is when the first of its decisions was made, ``whole`` whether these are all. ``earned`` is by side what
    its decisions of the period earned, as far as that is settled; ``uplift`` is of all decisions that can be compared.
    """

    name: str
    kind: str | None
    begin: float
    end: float
    since: float
    whole: bool
    decisions: int
    rewards: int
    all_decisions: int
    learned: float
    provisional: float | None
    pseudo: float
    to_come: int
    lag: float | None
    earned: dict[str, tuple[int, float, float, float]]  # rewards, mean, low, high
    lines: dict[str, tuple[Point, ...]]
    uplift: Uplift
    names: tuple[tuple[str, ...], tuple[str, ...]]  # of the modes that are given, and decided
    best: tuple[BestArms, ...]
    contexts_left_out: int
    modes: tuple[ModeFound, ...]
    believes: bool  # whether the policy has a model
    checkup: Checkup
    holdout: float
    rollout: float | None
    changes: tuple[Change, ...]  # the newest first


def gather(core: Core, *, name: str, begin: float, now: float) -> Gathered:
    """Collect what there is to say of a bandit since a time; it may take seconds, and changes nothing."""
    checkup, uplift, compared = core.findings(), core.uplift(now, level=LEVEL), core.compared(now)
    kind, timeline = getattr(core.policy, "reward", None), core.timeline()
    first = _first(timeline, begin)
    totals = timeline.totals
    ends = np.minimum(np.arange(1, len(timeline) + 1) * timeline.length, timeline.count)
    settled = np.where((ends <= core.state.settled_marks)[:, None, None], totals, 0.0)[first:]
    sums = compared.sums.sum(axis=(0, 1)) if len(compared.sums) else np.zeros(5)
    events = float(sums[EVENTS] / sums[REWARDS]) if sums[REWARDS] > 0 else 1.0
    policy, lags = as_modelling(core.policy), list(core.state.lags)
    with core.known() as (space, snapshot):
        best, left_out = _best(space, snapshot, policy)
        modes = _modes(space, policy, timeline, first) if policy is not None else ()
        pseudo = core.policy.pseudo.rounds
    shares = core.state.shares
    return Gathered(
        name=name,
        kind=kind,
        begin=max(begin, timeline.starts[0]) if timeline.count else now,
        end=now,
        since=float(timeline.starts[first]) if timeline.count else now,
        whole=first == 0,
        decisions=int(totals[first:, :, 0].sum()),
        rewards=int(totals[first:, :, 1].sum()),
        all_decisions=int(totals[..., 0].sum()),
        learned=core.policy.ledger.rounds - pseudo,
        pseudo=pseudo,
        to_come=int(compared.waiting.sum()),
        provisional=core.provisional,
        lag=float(np.median(lags)) if lags else None,
        earned=_earned(settled.sum(axis=0), kind, events),
        lines=_lines(timeline, settled, first, kind, events),
        uplift=uplift,
        names=(
            tuple(space.modes[mode] for mode in space.context),
            tuple(mode for at, mode in enumerate(space.modes) if at not in space.context),
        ),
        best=best,
        contexts_left_out=left_out,
        modes=modes,
        believes=policy is not None,
        checkup=checkup,
        holdout=shares.holdout,
        rollout=shares.rollout,
        changes=_changes(core, begin),
    )


def _changes(core: Core, begin: float) -> tuple[Change, ...]:
    """Who changed what, the newest first."""
    with core.lock:
        rows = core.state.changelog.rows()
    found = [described(row) for row in chosen(rows, since=begin)]
    return tuple(Change(one["time"], one["actor"], str(one["words"])) for one in reversed(found))


def _first(timeline: Timeline, begin: float) -> int:
    """The first block that reaches into the period; without any, the last."""
    if not timeline.count:
        return 0
    ends = np.append(timeline.starts[1:], timeline.last)
    return min(int(np.searchsorted(ends, begin, side="left")), len(ends) - 1)


def _earned(sums: Floats, kind: str | None, events: float) -> dict[str, tuple[int, float, float, float]]:
    found: dict[str, tuple[int, float, float, float]] = {}
    for side, name in enumerate(SIDES):
        if sums[side, 1] > 0:
            numbers = (one.item() for one in mean_bounds(sums[side][None], kind, events, LEVEL))
            found[name] = (int(sums[side, 1]), *numbers)  # type: ignore[assignment]
    return found


def _lines(
    timeline: Timeline, settled: Floats, first: int, kind: str | None, events: float
) -> dict[str, tuple[Point, ...]]:
    """Means over time by side, of points of about as many blocks each."""
    times = np.append(timeline.starts[first:], timeline.last)
    lines: dict[str, tuple[Point, ...]] = {}
    for side, name in enumerate(SIDES):
        rewards = settled[:, side, 1]
        if not rewards.any():
            continue
        count = min(max(int(rewards.sum()) // _REWARDS, 1), _POINTS, len(rewards))
        edges = np.linspace(0, len(rewards), count + 1).round().astype(int)
        sums = np.add.reduceat(settled[:, side], edges[:-1], axis=0)
        numbers = np.array(mean_bounds(sums, kind, events, LEVEL)).T
        lines[name] = tuple(
            Point(float(times[a]), float(times[b]), *numbers[at].tolist())
            for at, (a, b) in enumerate(pairwise(edges.tolist()))
            if sums[at, 1] > 0
        )
    return lines


def _best(space: Space, snapshot: Snapshot, policy: ModelSampling | None) -> tuple[tuple[BestArms, ...], int]:
    """The best arms of the contexts that have the most rewards, and how many contexts are left out."""
    if policy is None:
        return (), 0
    ledger, context = policy.ledger, list(space.context)
    rewarded, at = np.unique(ledger.cells[:, context], axis=0, return_inverse=True)
    counts = np.bincount(at.ravel(), policy.earned_counts(), minlength=len(rewarded))
    wanted = [tuple(rewarded[one].tolist()) for one in np.argsort(-counts, kind="stable")]
    every = beliefs.contexts(space)
    if every is not None:  # those that may still be given, also where nothing was told yet
        kept = set(every)
        wanted = [one for one in wanted if one in kept] + [one for one in every if one not in set(wanted)]
    count = math.prod(space.shape[mode] for mode in context) if every is None else len(every)
    found = [_best_in(space, snapshot, policy, one) for one in wanted[:_CONTEXTS]]
    return tuple(one for one in found if one.arms), max(count - _CONTEXTS, 0)


def _best_in(space: Space, snapshot: Snapshot, policy: ModelSampling, levels: Cell) -> BestArms:
    context = tuple(str(space.levels[mode][level]) for mode, level in zip(space.context, levels, strict=True))
    found = beliefs.best_arms(policy, [snapshot.query(Ask(levels))], _ARMS, BELIEVED)
    decided = [mode for mode in range(len(space.modes)) if mode not in space.context]
    arms = []
    for cell, numbers in zip(found.cells.tolist(), found.numbers.tolist(), strict=True):
        rewards = max(policy.ledger[cell].rounds - policy.pseudo[cell].rounds, 0.0)
        mean, low, high = numbers
        arms.append(Arm(tuple(str(space.levels[mode][cell[mode]]) for mode in decided), mean, low, high, rewards))
    samples = as_sampling(policy)
    sure = len(arms) == 1
    if len(arms) > 1 and samples is not None:
        draws = samples.samples(found.cells)
        sure = bool((draws[:, 0] > draws[:, 1:].max(axis=1)).mean() >= _SURE)
    return BestArms(context, tuple(arms), sure)


def _modes(space: Space, policy: ModelSampling, timeline: Timeline, first: int) -> tuple[ModeFound, ...]:
    found = beliefs.believed(space, policy, None, 1, BELIEVED)
    return tuple(_mode(space, found, mode, timeline, first) for mode in range(len(space.modes)))


def _mode(space: Space, found: beliefs.Beliefs, mode: int, timeline: Timeline, first: int) -> ModeFound:
    typical, labels = found.explanation.typical[mode], space.levels[mode]
    gone = space.retired.get(space.modes[mode], [])
    counts = timeline.levels(mode)[:, :, 0].sum(axis=1)[:, : len(labels)]  # of all sides, by block
    counts = np.pad(counts, [(0, 0), (0, len(labels) - counts.shape[1])])
    now, before = (part.sum(axis=0) / max(part.sum(), 1.0) for part in (counts[first:], counts[:first]))
    order = np.argsort(-typical[:, 0], kind="stable")
    half = _LEVELS // 2
    shown = order if len(order) <= _LEVELS else np.concatenate([order[:half], order[-half:]])
    told, rows = found.told[mode], typical.tolist()
    levels = tuple(
        LevelFound(
            label=str(labels[at]),
            retired=labels[at] in gone,
            mean=rows[at][0],
            low=rows[at][1],
            high=rows[at][2],
            rewards=float(told[at]),
            share=float(now[at]),
            before=float(before[at]),
        )
        for at in shown.tolist()
    )
    alike = tuple(tuple(str(labels[level]) for level in group) for group in found.explanation.alike[mode])
    return ModeFound(space.modes[mode], mode in space.context, levels, len(order) - len(shown), alike)
