"""What the page shows of a bandit, as JSON: one function for each view, from a bandit and a few plain values.

Nothing here changes anything, and no view takes the bandit's turn. :class:`Looks` keeps answers for a while, so that
however many people look, one thread in twenty seconds works for a second at most for each thing that is looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tensorbandits.bandit.apprentice import Apprentice
from tensorbandits.bandit.core import Core
from tensorbandits.bandit.spans import Span
from tensorbandits.base.checks import nearest
from tensorbandits.service.page.views import believed, kept, past
from tensorbandits.service.page.views.looks import Looks
from tensorbandits.service.page.views.parts import Params, plain

__all__ = ["VIEWS", "Looked", "Looks", "view"]

_TAIL, _MOST_EVENTS, _EARLIER = 50, 500, 8
_OLDEST = 20  # open decisions that are listed
_ARMS, _MOST_ARMS = 15, 100


class Looked(NamedTuple):
    """What is looked at: a bandit, and what the process that serves it knows besides.

    Parameters
    ----------
    bandit : as it is here, now.
    settings : those of the bandit, as changed since it was created; ``default``, ``window``, ``holdout``,
        ``half_life`` and ``apprentice`` are looked at.
    apprentice : what it would have earned in the place of a caller's rule, if it ever ran beside one.
    tail : returns the last events, so many, newest first: seq, time, kind, decision, body.
    lags : returns how many seconds the last rewards took, from decision to reward; some thousands at most.
    oldest : returns the decisions that wait longest, so many: id, cell, and as far as is known time and active.
    health : returns numbers and texts of the process and of this bandit in it, by name.
    now : returns the time in seconds.
    """

    bandit: Core
    settings: Mapping[str, Any] = {}
    apprentice: Apprentice | None = None
    tail: Callable[[int], Sequence[Mapping[str, Any]]] = lambda count: ()
    lags: Callable[[], Sequence[float]] = tuple
    oldest: Callable[[int], Sequence[Mapping[str, Any]]] = lambda count: ()
    health: Callable[[], Mapping[str, Any]] = dict
    now: Callable[[], float] = time.time


def view(looked: Looked, what: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a view, ready for JSON. Modes are given by name, levels by their index."""
    if what not in VIEWS:
        hint = nearest(what, list(VIEWS)) or "name one of them"
        raise ValueError(f"{what!r} is no view; the views are {list(VIEWS)}: {hint}")
    given = Params(params or {})
    make = VIEWS[what](looked, given)
    given.done()
    found: dict[str, Any] = plain(make())
    return found


# Each reads its parameters first, and returns what makes the view, so that a wrong parameter costs nothing.

Make = Callable[[], dict[str, Any]]


def _wait(looked: Looked) -> past.Wait:
    window = Span.of(looked.settings.get("window"), "window")
    return past.Wait(window, looked.settings.get("default"), looked.now())


def _space(looked: Looked, params: Params) -> Make:
    return lambda: kept.space(looked.bandit, looked.settings)


def _overview(looked: Looked, params: Params) -> Make:
    def make() -> dict[str, Any]:
        last = next(iter(kept.events(looked.bandit, looked.tail(1), 1)["events"]), None)
        on = bool(looked.settings.get("apprentice"))
        return past.overview(looked.bandit, _wait(looked), lags=looked.lags(), last=last) | {"apprentice": on}

    return make


def _reward(looked: Looked, params: Params) -> Make:
    on = bool(looked.settings.get("apprentice"))
    return lambda: past.reward(looked.bandit, _wait(looked)) | {"apprentice": on}


def _traffic(looked: Looked, params: Params) -> Make:
    mode = params.word("mode")
    return lambda: past.traffic(looked.bandit, mode)


def _heat(looked: Looked, params: Params) -> Make:
    rows, columns = params.word("rows"), params.word("columns")
    fixed, level = params.levels("fixed", looked.bandit.space), params.probability("level", 0.9)
    return lambda: believed.heat(looked.bandit, rows, columns, fixed, level)


def _effects(looked: Looked, params: Params) -> Make:
    level = params.probability("level", 0.9)
    return lambda: believed.effects(looked.bandit, level)


def _arms(looked: Looked, params: Params) -> Make:
    context, level = params.levels("context", looked.bandit.space), params.probability("level", 0.9)
    count = params.count("count", _ARMS, _MOST_ARMS)
    return lambda: believed.arms(looked.bandit, context, count, level)


def _decisions(looked: Looked, params: Params) -> Make:
    count = params.count("count", _OLDEST, _MOST_EVENTS)
    window = looked.settings.get("window")
    return lambda: kept.decisions(looked.bandit, looked.oldest(count), looked.lags(), looked.now(), window)


def _drift(looked: Looked, params: Params) -> Make:
    return lambda: believed.drift(looked.bandit)


def _apprentice(looked: Looked, params: Params) -> Make:
    on = bool(looked.settings.get("apprentice"))
    return lambda: kept.apprentice(looked.bandit, on, looked.apprentice)


def _events(looked: Looked, params: Params) -> Make:
    count = params.count("count", _TAIL, _MOST_EVENTS)
    earlier = max(count, min(_EARLIER * count, _MOST_EVENTS))  # to find the decisions that rewards are of
    return lambda: kept.events(looked.bandit, looked.tail(earlier), count)


def _health(looked: Looked, params: Params) -> Make:
    return lambda: kept.health(looked.health())


VIEWS: dict[str, Callable[[Looked, Params], Make]] = {
    "space": _space,
    "overview": _overview,
    "reward": _reward,
    "traffic": _traffic,
    "heat": _heat,
    "effects": _effects,
    "arms": _arms,
    "decisions": _decisions,
    "drift": _drift,
    "apprentice": _apprentice,
    "events": _events,
    "health": _health,
}
