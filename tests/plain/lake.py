"""The plain twin of learning from a lake: one loop over decisions and rewards, as a person would read the rules."""

from __future__ import annotations

from collections import defaultdict


def effective(decisions, rewards, *, window, default, now, allowed=lambda reward: True):
    """Return the reward of each decision that has one, by id, with its cell: ``{id: (cell, reward)}``.

    ``decisions`` are (id, time, cell), ``rewards`` (id, time, reward, amend, cell), in any order, several times or not.
    """
    made = {}
    for number, time, cell in decisions:
        made[number] = (time, cell)
    told = defaultdict(list)
    for number, time, reward, amend, cell in rewards:
        if allowed(reward):
            told[number].append((time, reward, amend, cell))
    found = {}
    for number, all_told in told.items():
        amends = sorted((time, reward) for time, reward, amend, _ in all_told if amend)
        firsts = sorted((time, reward) for time, reward, amend, _ in all_told if not amend)
        found[number] = (all_told[0][3], amends[-1][1] if amends else firsts[0][1])
    for number, (time, cell) in made.items():
        if number not in found and default is not None and window is not None and time + window < now:
            found[number] = (cell, default)
    return found


def sums(found):
    """Return counts, and rewards one by one, by cell."""
    cells = defaultdict(list)
    for cell, reward in found.values():
        cells[tuple(cell)].append(reward)
    return dict(cells)
