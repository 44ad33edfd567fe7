"""What the page shows of a bandit, as JSON: one function for each view, from a bandit and a few plain values.

Nothing here changes anything, and no view takes the bandit's turn. :class:`ViewCache` keeps answers for a while, so
that however many people look, one thread in twenty seconds works for a second at most for each thing that is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tensorbandits.bandit.core import Core
from tensorbandits.bandit.intervals import Looks
from tensorbandits.base.checks import nearest
from tensorbandits.service.page.views import believed, kept, past
from tensorbandits.service.page.views.cache import ViewCache
from tensorbandits.service.page.views.parts import Reader, count, levels, looks, plain, probability, word
from tensorbandits.store import Event

__all__ = ["VIEWS", "ViewCache", "ViewSource", "view"]

_TAIL, _MOST_EVENTS, _EARLIER = 50, 500, 8
_OLDEST = 20  # open decisions that are listed
_ARMS, _MOST_ARMS = 15, 100


class ViewSource(NamedTuple):
    """What is looked at: a bandit, and what the process that serves it knows besides.

    Parameters
    ----------
    bandit : as it is here, now.
    tail : returns the last events, so many, newest first.
    oldest : returns the decisions that wait longest, so many: id, cell, time and active.
    health : returns numbers and texts of the process and of this bandit in it, by name.
    now : returns the time in seconds.
    deciders : returns what is known of snapshots and of those who decide from them.
    """

    bandit: Core
    tail: Callable[[int], Sequence[Event]]
    oldest: Callable[[int], Sequence[Mapping[str, Any]]]
    health: Callable[[], Mapping[str, Any]]
    now: Callable[[], float]
    deciders: Callable[[], Mapping[str, Any]]


def view(source: ViewSource, what: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a view, ready for JSON. Modes are given by name, levels by their index."""
    if what not in VIEWS:
        hint = nearest(what, list(VIEWS)) or "name one of them"
        raise ValueError(f"{what!r} is no view; the views are {list(VIEWS)}: {hint}")
    make, readers = VIEWS[what]
    given, space = params or {}, source.bandit.space
    values = {name: reader(name, given.get(name), space) for name, reader in readers.items()}  # before any work
    for name in given:
        if name not in readers:
            hint = nearest(name, list(readers)) or "leave it out"
            raise ValueError(f"this view has no parameter {name!r}, but {list(readers)}: {hint}")
    found: dict[str, Any] = plain(make(source, **values))
    return found


def _overview(source: ViewSource, intervals: Looks) -> dict[str, Any]:
    last = next(iter(kept.events(source.bandit, source.tail(1), 1)["events"]), None)
    return past.overview(source.bandit, source.now(), last, intervals)


def _events(source: ViewSource, count: int) -> dict[str, Any]:
    earlier = max(count, min(_EARLIER * count, _MOST_EVENTS))  # to find the decisions that rewards are of
    return kept.events(source.bandit, source.tail(earlier), count)


class PageView(NamedTuple):
    """A view: what makes it, of a bandit and the parameters of the request, and what reads each of these."""

    make: Callable[..., dict[str, Any]]
    params: Mapping[str, Reader] = {}


VIEWS = {
    "space": PageView(lambda source: kept.space(source.bandit)),
    "overview": PageView(_overview, {"intervals": looks}),
    "uplift": PageView(
        lambda source, over, level, intervals: source.bandit.uplift(
            source.now(), over=over, level=level, looks=intervals
        ).to_dict(),
        {"over": word, "level": probability(0.95), "intervals": looks},
    ),
    "reward": PageView(
        lambda source, intervals: past.reward(source.bandit, source.now(), intervals), {"intervals": looks}
    ),
    "traffic": PageView(lambda source, mode: past.traffic(source.bandit, mode), {"mode": word}),
    "heat": PageView(
        lambda source, **given: believed.heat(source.bandit, **given),
        {"rows": word, "columns": word, "fixed": levels, "level": probability(0.9)},
    ),
    "effects": PageView(lambda source, level: believed.effects(source.bandit, level), {"level": probability(0.9)}),
    "arms": PageView(
        lambda source, **given: believed.arms(source.bandit, **given),
        {"context": levels, "level": probability(0.9), "count": count(_ARMS, _MOST_ARMS)},
    ),
    "decisions": PageView(
        lambda source, count: kept.decisions(source.bandit, source.oldest(count), source.now()),
        {"count": count(_OLDEST, _MOST_EVENTS)},
    ),
    "drift": PageView(lambda source: believed.drift(source.bandit)),
    "apprentice": PageView(
        lambda source, intervals: kept.apprentice(source.bandit, source.now(), intervals), {"intervals": looks}
    ),
    "events": PageView(_events, {"count": count(_TAIL, _MOST_EVENTS)}),
    "deciders": PageView(lambda source: kept.deciders(source.bandit, source.deciders())),
    "health": PageView(lambda source: {"numbers": dict(source.health())}),
}
