"""Views of what was decided and what it earned: numbers, reward and uplift over time, traffic.

Where a reward has a default, those who do not click say so only at the end of their window, so that the mean of the
rewards that are there already is far too high. Decisions therefore count once they are settled: when nearly all up to
them have a reward, which they have when windows end. Policy and holdout are compared on the same decisions.

Notation: sums (n, 4) are decisions, rewards, sum of rewards, sum of their squares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit.core import Core
from tensorbandits.bandit.timeline import SIDES, Timeline
from tensorbandits.service.page.views.parts import Floats, bounds

_SETTLED = 0.99  # share of decisions with a reward, from which on they count
_TOGETHER = 20  # decisions of which that share is taken, at least
_LATE = 2.0  # windows after which decisions count, whether they have a reward or not
_POINTS = 40  # over time, at most
_FEWEST_POINTS = 5
_REWARDS = 100  # of a point, if there can be some points with as many
_SPARKS = 24  # points of the small line on a card
_NAMED = 7  # levels with a colour of their own
_QUANTILES = (0.5, 0.9, 0.99)
_SMALLEST = 1e-9  # relative; what is nearer to 0 is 0


def overview(bandit: Core, now: float, last: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the numbers that are seen first.

    ``policy`` and ``holdout`` have decisions, rewards, and the mean reward with its 95 % interval; ``uplift`` is their
    difference, and relative to the holdout; ``settled`` is the share of decisions that these means are of. ``lag`` is
    in seconds from decision to reward, ``last`` is the last event.
    """
    timeline, kind = bandit.timeline(), _kind(bandit)
    totals, ripe = timeline.totals, _settled(bandit, timeline, now)
    sums = totals[ripe].sum(axis=0)
    sides = {name: _side(totals[:, at].sum(axis=0), sums[at], kind) for at, name in enumerate(SIDES)}
    decided = totals[..., 0].sum()
    return {
        "kind": kind,
        "decisions": int(decided),
        "rewards": int(totals[..., 1].sum()),
        "learned": bandit.policy.ledger.rounds,
        "waiting": bandit.waiting,
        "settled": totals[ripe][..., 0].sum() / decided if decided else None,
        "policy": sides["policy"],
        "holdout": sides["holdout"] if totals[:, 1, 0].any() else None,
        "uplift": _uplift(sums, kind),
        "lag": lag(list(bandit.state.lags)),
        "first_time": float(timeline.starts[0]) if timeline.count else None,
        "last_time": timeline.last if timeline.count else None,
        "last_event": last,
        "spark": _spark(totals[ripe][:, int(not sides["policy"]["rewards"])]),
        "version": bandit.space.version,
        "apprentice": _is_apprentice(bandit),
    }


def lag(lags: Sequence[float]) -> dict[str, Any] | None:
    """Return the median and other quantiles of seconds from decision to reward."""
    if not lags:
        return None
    found = np.quantile(np.asarray(lags, dtype=float), _QUANTILES)
    return {"count": len(lags), **{f"p{100 * q:.0f}": one for q, one in zip(_QUANTILES, found.tolist(), strict=True)}}


def reward(bandit: Core, now: float) -> dict[str, Any]:
    """Return mean rewards over time with 95 % intervals, the holdout's apart, and what lies between them.

    Each side has points of its own, of about 100 rewards at least; ``uplift`` has those of the holdout, with the
    difference of each (``difference``) and of all up to it (``so_far``). Points are given by their first decision, and
    by the times at which they begin and end. ``settled`` is where means end, as later rewards are still to come.
    """
    timeline, kind = bandit.timeline(), _kind(bandit)
    totals, ripe = timeline.totals, _settled(bandit, timeline, now)
    kept = np.where(ripe[:, None, None], totals, 0.0)
    found: dict[str, Any] = {"kind": kind, "decisions": timeline.count, "settled": _edge(timeline, ripe)}
    for at, name in enumerate(SIDES):
        starts = _starts(kept[:, at, 1])
        found[name] = None
        if kept[:, at, 1].any():
            sums = np.add.reduceat(kept[:, at], starts, axis=0)
            found[name] = {**_places(timeline, starts, ripe), "rewards": sums[:, 1], **bounds(sums, kind)}
    found |= {"uplift": None, "apprentice": _is_apprentice(bandit)}
    if found["policy"] and found["holdout"]:
        starts = _starts(kept[:, 1, 1])
        parts = np.add.reduceat(kept, starts, axis=0)
        told = parts[..., 1].sum(axis=1) > 0
        each, whole = (_difference(some[told], kind) for some in (parts, parts.cumsum(axis=0)))
        places = {name: values[told] for name, values in _places(timeline, starts, ripe).items()}
        found["uplift"] = {**places, "difference": each, "so_far": whole}
    return found


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
    side = int(not timeline.totals[:, 0, 0].any())  # an apprentice decides nothing: what was played is the holdout's
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


def _kind(bandit: Core) -> str | None:
    kind: str | None = getattr(bandit.policy, "reward", None)
    return kind


def _is_apprentice(bandit: Core) -> bool:
    return bool(bandit.state.settings.get("apprentice"))


def _settled(bandit: Core, timeline: Timeline, now: float) -> NDArray[np.bool_]:
    """Which blocks count, (blocks,); without a default rewards come as they are, and all do."""
    window = bandit.state.book.window
    if bandit.state.book.default is None or window is None or not bandit.waiting:
        return np.ones(len(timeline), dtype=bool)
    length = _LATE * window.length
    if window.rounds:
        ripe = np.arange(1, len(timeline) + 1) * timeline.length <= timeline.count - length
    else:
        ripe = np.append(timeline.starts[1:], timeline.last) <= now - length
    decisions, rewards = timeline.totals.sum(axis=1)[:, :2].T
    chunk = -(-_TOGETHER // timeline.length)
    for begin in range(0, len(ripe), chunk):
        here = slice(begin, begin + chunk)
        whole = (min(begin + chunk, len(ripe)) - begin) * timeline.length >= _TOGETHER
        if not ripe[here].all() and not (whole and rewards[here].sum() >= _SETTLED * decisions[here].sum()):
            break
        ripe[here] = True
    return np.asarray(ripe)


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


def _side(whole: Floats, ripe: Floats, kind: str | None) -> dict[str, Any]:
    """The numbers of a side: what was decided and rewarded at all, and the mean reward of what is settled."""
    means = {name: values.item() for name, values in bounds(ripe[None], kind).items()}
    return {"decisions": int(whole[0]), "rewards": int(whole[1]), **means}


def _difference(sums: Floats, kind: str | None) -> dict[str, Floats]:
    """How much higher the policy's mean rewards are than the holdout's, of sums (n, 2, 4), with 95 % intervals.

    The bounds of the difference come from those of both means (Zou and Donner 2008), which are right for few clicks.
    """
    policy, holdout = (bounds(sums[:, side], kind) for side in range(2))
    mean = policy["mean"] - holdout["mean"]
    low = mean - np.hypot(policy["mean"] - policy["low"], holdout["high"] - holdout["mean"])
    high = mean + np.hypot(policy["high"] - policy["mean"], holdout["mean"] - holdout["low"])
    return {"mean": mean, "low": low, "high": high}


def _uplift(sums: Floats, kind: str | None) -> dict[str, float] | None:
    """How much higher the policy's mean reward is, of sums (2, 4), also relative to the holdout's above 0."""
    if sums[:, 1].min() < 2:
        return None
    found = {name: values.item() for name, values in _difference(sums[None], kind).items()}
    policy, holdout = ({name: one.item() for name, one in bounds(side[None], kind).items()} for side in sums)
    if holdout["low"] > 0 and policy["low"] >= 0:  # else no ratio says anything
        low = _ratio(policy["mean"], holdout["mean"], policy["low"], holdout["high"], -1.0)
        high = _ratio(policy["mean"], holdout["mean"], policy["high"], holdout["low"], 1.0)
        found |= {"relative": policy["mean"] / holdout["mean"] - 1.0, "relative_low": low, "relative_high": high}
    return found


def _ratio(one: float, two: float, at: float, by: float, sign: float) -> float:
    """A bound of a ratio of means, less 1, from opposite bounds of both (Donner and Zou 2012)."""
    below = by * (2.0 * two - by)
    if abs(below) < _SMALLEST * two * two:  # the limit: of the lower bound it is finite
        return math.inf if sign > 0 else at * (2.0 * one - at) / (2.0 * max(one, _SMALLEST) * two) - 1.0
    root = math.sqrt(max((one * two) ** 2 - at * (2.0 * one - at) * below, 0.0))
    return (one * two + sign * root) / below - 1.0


def _spark(sums: Floats) -> Floats:
    """A few mean rewards of the policy over time."""
    if not len(sums):
        return np.zeros(0)
    parts = np.add.reduceat(sums, np.arange(0, len(sums), -(-len(sums) // _SPARKS)), axis=0)
    parts = parts[parts[:, 1] > 0]
    return np.asarray(parts[:, 2] / parts[:, 1])
