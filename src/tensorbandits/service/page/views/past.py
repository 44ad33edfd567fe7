"""Views of what was decided and what it earned: numbers, reward and uplift over time, traffic.

Those who do not click say so only at the end of their window, so that the mean of the rewards that are there already is
far too high. Decisions therefore count in their order, as far as it is settled what all before earned
(:mod:`tensorbandits.bandit.comparison`); the others are shown as still to come. Intervals are valid at every look,
unless somebody asks for those of one time that was fixed beforehand.

Notation: sums (n, 4) are decisions, rewards, sum of rewards, sum of their squares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit import uplift as compare
from tensorbandits.bandit.comparison import DECISIONS, EVENTS, REWARDS, SIDES, SQUARES, TOTAL, Compared
from tensorbandits.bandit.core import Core
from tensorbandits.bandit.intervals import Looks
from tensorbandits.bandit.timeline import Timeline
from tensorbandits.service.page.views.parts import Floats, bounds, needed

_POINTS = 40  # over time, at most
_FEWEST_POINTS = 5
_REWARDS = 100  # of a point, if there can be some points with as many
_SPARKS = 24  # points of the small line on a card
_NAMED = 7  # levels with a colour of their own
_QUANTILES = (0.5, 0.9, 0.99)


def overview(bandit: Core, now: float, last: Mapping[str, Any] | None, looks: Looks = "anytime") -> dict[str, Any]:
    """Return the numbers that are seen first.

    ``policy``, ``holdout`` and ``caller`` (a caller's own rule) have decisions, rewards, and the mean reward with its
    95 % interval; ``uplift`` is what the policy earns more than the side that it is drawn with, and relative to it;
    ``settled`` is the share of decisions that these means are of, ``to_come`` how many of the others wait. ``pseudo``
    are rewards that nobody earned: of another level, as which a new one started. ``provisional`` is the share of
    decisions that may still earn nothing, where it is so large that what was learned is too high. ``needed`` is how
    many rewards mostly show levels that differ. ``lag`` is in seconds from decision to
    reward, ``last`` is the last event.
    """
    compared = bandit.compared(now)
    timeline, kind = bandit.timeline(), kind_of(bandit)
    totals = timeline.totals
    decided = totals[..., 0].sum()
    waiting = compared.waiting.sum()
    sides = {name: side._asdict() for name, side in compare.means(compared, kind, looks=looks).items()}
    nobody = dict.fromkeys(("mean", "low", "high"))
    for name, whole in zip(SIDES, totals.sum(axis=0), strict=True):
        if whole[0] or name == "policy":  # all that was decided and rewarded, settled or not
            sides[name] = {**sides.get(name, nobody), "decisions": int(whole[0]), "rewards": int(whole[1])}
    shares = bandit.state.shares
    return {
        "kind": kind,
        "decisions": int(decided),
        "rewards": int(totals[..., 1].sum()),
        "learned": bandit.policy.ledger.rounds - bandit.policy.pseudo.rounds,
        "pseudo": bandit.policy.pseudo.rounds,
        "waiting": bandit.waiting,
        "provisional": bandit.provisional,
        "settled": 1.0 - waiting / decided if decided else None,
        "to_come": int(waiting),
        "policy": sides["policy"],
        "holdout": sides.get("holdout"),
        "caller": sides.get("caller"),
        "uplift": uplift_shown(bandit, now, looks),
        "intervals": looks,
        "needed": needed(bandit.space, kind, _events(compared) if compared.sums[..., REWARDS].sum() else None),
        "lag": lag(list(bandit.state.lags)),
        "first_time": float(timeline.starts[0]) if timeline.count else None,
        "last_time": timeline.last if timeline.count else None,
        "last_event": last,
        "spark": _spark(totals[_settled(bandit, timeline)][:, _main(totals)]),
        "version": ".".join(map(str, bandit.state.version)),
        "apprentice": shares.rollout is not None,
        "rollout": shares.rollout,
        "paused": shares.paused,
    }


def uplift_shown(bandit: Core, now: float, looks: Looks) -> dict[str, Any] | None:
    """Return how much more the policy earns, with what is to be said before it; ``None`` if nothing is compared."""
    found = bandit.uplift(now, looks=looks)
    if found.over is None or found.ratio is None or found.verdict == "none":
        return None
    shown = found.to_dict()
    del shown["relative"]
    if found.relative is not None:
        shown |= dict(zip(("relative", "relative_low", "relative_high"), found.relative, strict=True))
    return shown


def lag(lags: Sequence[float]) -> dict[str, Any] | None:
    """Return the median and other quantiles of seconds from decision to reward."""
    if not lags:
        return None
    found = np.quantile(np.asarray(lags, dtype=float), _QUANTILES)
    return {"count": len(lags), **{f"p{100 * q:.0f}": one for q, one in zip(_QUANTILES, found.tolist(), strict=True)}}


def reward(bandit: Core, now: float, looks: Looks = "anytime") -> dict[str, Any]:
    """Return mean rewards over time with 95 % intervals, of each side, and what lies between policy and the other.

    Each side has points of its own, of about 100 rewards at least; ``uplift`` has those of the side that it is over,
    with the difference of each (``difference``), of all up to it (``so_far``), and ``whole``, all that can be said.
    Points are given by their first decision, and by the times at which they begin and end. ``settled`` is where means
    end, as later rewards are still to come.
    """
    compared = bandit.compared(now)
    timeline, kind = bandit.timeline(), kind_of(bandit)
    totals, ripe = timeline.totals, _settled(bandit, timeline)
    kept, events = np.where(ripe[:, None, None], totals, 0.0), _events(compared)
    found: dict[str, Any] = {"kind": kind, "decisions": timeline.count, "settled": _edge(timeline, ripe)}
    for at, name in enumerate(SIDES):
        starts = _starts(kept[:, at, 1])
        found[name] = None
        if kept[:, at, 1].any():
            sums = np.add.reduceat(kept[:, at], starts, axis=0)
            numbers = bounds(sums, kind, events, looks)
            found[name] = {**_places(timeline, starts, ripe), "rewards": sums[:, 1], **numbers}
    shares = bandit.state.shares
    found |= {"uplift": None, "apprentice": shares.rollout is not None, "rollout": shares.rollout, "intervals": looks}
    whole = uplift_shown(bandit, now, looks)
    if whole is not None:
        found["uplift"] = {
            **_over_time(timeline, kept, SIDES.index(whole["over"]), kind, events, looks, compared),
            "whole": whole,
        }
    return found


def _over_time(
    timeline: Timeline, kept: Floats, other: int, kind: str | None, events: float, looks: Looks, compared: Compared
) -> dict[str, Any]:
    """How much more the policy earned than another side, of blocks in which both could decide by the same chances."""
    chances = timeline.chances()
    some = np.flatnonzero((chances[:, [0, other]].min(axis=1) > 0) & kept[:, [0, other], 0].any(axis=1))
    weights = chances[some, 0] / chances[some, other]
    parts = np.zeros((len(some), 3, 5))
    parts[..., [DECISIONS, REWARDS, TOTAL, SQUARES]] = kept[some]
    parts[..., EVENTS] = events * parts[..., REWARDS]
    wider = compare.spreads(compared, other)  # of all decisions: those of a stretch would say less of it
    starts = _starts(parts[:, other, REWARDS])
    ends = np.append(starts[1:], len(some))[: len(starts)]  # none, while nothing is settled

    def gap(first: int, end: int) -> list[float]:
        here = slice(first, end)
        sides = (parts[here, 0], parts[here, other])
        return [one.item() for one in compare.between(*sides, weights[here], kind, 0.95, looks, wider)[2]]

    pairs = list(zip(starts.tolist(), ends.tolist(), strict=True))
    names = ("mean", "low", "high")
    series = {
        "difference": [gap(first, end) for first, end in pairs],
        "so_far": [gap(0, end) for _, end in pairs],
    }
    times = np.append(timeline.starts, timeline.last)
    last = some[ends - 1] + 1 if len(some) else ends
    return {
        "first": some[starts] * timeline.length if len(some) else starts,
        "next": np.minimum(last * timeline.length, timeline.count),
        "start": timeline.starts[some[starts]] if len(some) else starts,
        "end": times[np.minimum(last, len(timeline))],
        **{name: dict(zip(names, np.array(rows).reshape(-1, 3).T, strict=True)) for name, rows in series.items()},
    }


def traffic(bandit: Core, mode: str | None) -> dict[str, Any]:
    """Return the share of decisions that each level of a mode had over time, but for the holdout.

    The most frequent levels come by name, and all others together. By default it is the first mode that is decided.
    """
    space = bandit.space
    name = mode or next(one for at, one in enumerate(space.modes) if at not in space.context)
    at = space.position(name)
    timeline, labels = bandit.timeline(), space.levels[at]
    found: dict[str, Any] = {"mode": name, "decisions": timeline.count, "levels": [], "others": 0}
    if not timeline.count:
        return {**found, "start": [], "end": [], "first": [], "shares": [], "totals": []}
    starts = np.arange(0, len(timeline), -(-len(timeline) // _POINTS))
    side = 0 if timeline.totals[:, 0, 0].any() else _main(timeline.totals)  # an apprentice that watches decides nothing
    counts = timeline.levels(at)[:, side, 0, : len(labels)]
    counts = np.add.reduceat(np.pad(counts, [(0, 0), (0, len(labels) - counts.shape[1])]), starts, axis=0)
    order = np.argsort(-counts.sum(axis=0), kind="stable")
    named = order if len(order) <= _NAMED + 1 else order[:_NAMED]
    rest = order[len(named) :]
    columns = [counts[:, level] for level in named] + ([counts[:, rest].sum(axis=1)] if len(rest) else [])
    whole = counts.sum(axis=1)
    shares = [np.divide(one, whole, out=np.zeros_like(one), where=whole > 0) for one in columns]
    totals = np.array([one.sum() for one in columns]) / max(whole.sum(), 1.0)
    return {
        **found,
        **_places(timeline, starts),
        "levels": [{"level": level, "text": str(labels[level])} for level in named.tolist()],
        "others": len(rest),
        "side": SIDES[side],
        "shares": shares,
        "totals": totals,
    }


def kind_of(bandit: Core) -> str | None:
    """Return what a reward of a bandit is, if its policy says so."""
    kind: str | None = getattr(bandit.policy, "reward", None)
    return kind


def _settled(bandit: Core, timeline: Timeline) -> NDArray[np.bool_]:
    """Which blocks count, (blocks,): those of decisions whose rewards are all settled."""
    count = bandit.state.settled_marks
    ends = np.minimum(np.arange(1, len(timeline) + 1) * timeline.length, timeline.count)
    return np.asarray(ends <= count)


def _events(compared: Compared) -> float:
    """The share of rewards that are not 0."""
    sums = compared.sums.sum(axis=(0, 1)) if len(compared.sums) else np.zeros(5)
    return float(sums[EVENTS] / sums[REWARDS]) if sums[REWARDS] > 0 else 1.0


def _main(totals: Floats) -> int:
    """The side that has most decisions."""
    return int(np.argmax(totals[..., 0].sum(axis=0))) if len(totals) else 0


def _edge(timeline: Timeline, ripe: NDArray[np.bool_]) -> dict[str, float] | None:
    """Where means end, if some later decisions still wait: the number of the decision, and its time."""
    open_ = np.flatnonzero(~ripe)
    if not len(open_):
        return None
    kept = np.flatnonzero(ripe)
    first = int(kept[-1]) + 1 if len(kept) else 0
    if first >= len(timeline):
        return None
    return {"first": float(first * timeline.length), "time": float(timeline.starts[first])}


def _starts(rewards: Floats) -> NDArray[np.int64]:
    """The first blocks of points, which have about as many blocks each, and enough of these rewards (blocks,)."""
    if not len(rewards):
        return np.zeros(0, dtype=np.int64)
    points = min(max(int(rewards.sum()) // _REWARDS, _FEWEST_POINTS), _POINTS)
    return np.arange(0, len(rewards), -(-len(rewards) // points))


def _places(timeline: Timeline, starts: NDArray[np.int64], ripe: NDArray[np.bool_] | None = None) -> dict[str, Floats]:
    """Where points are: their first decisions and the next ones', and when they begin and end; cut where means end."""
    first = (starts * timeline.length).astype(float)
    found = {"first": first, "next": np.append(first[1:], timeline.count)}
    times = timeline.starts[starts]
    found |= {"start": times, "end": np.append(times[1:], timeline.last)}
    edge = None if ripe is None else _edge(timeline, ripe)
    if edge is not None:
        found["next"] = np.maximum(np.minimum(found["next"], edge["first"]), first)
        found["end"] = np.maximum(np.minimum(found["end"], edge["time"]), times)
    return found


def _spark(sums: Floats) -> Floats:
    """A few mean rewards of the policy over time."""
    if not len(sums):
        return np.zeros(0)
    parts = np.add.reduceat(sums, np.arange(0, len(sums), -(-len(sums) // _SPARKS)), axis=0)
    parts = parts[parts[:, 1] > 0]
    return np.asarray(parts[:, 2] / parts[:, 1])
