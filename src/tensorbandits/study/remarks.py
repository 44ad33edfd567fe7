"""What is odd about a log's columns: levels that differ by case or spaces only, rare ones, modes that do not matter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorbandits.data.log import Log
from tensorbandits.report.page import escape
from tensorbandits.study.relevance import SMALL, Relevance

_RARE = 0.05  # of the rewards that a level would have if all had as many
_SHOWN = 5


def remarks(log: Log, relevance: Sequence[Relevance]) -> list[str]:
    """Return, in words, what the user may want to mend before trusting a study."""
    found = []
    for j, mode in enumerate(log.modes):
        found += [
            f"Levels of {escape(mode)} that differ by case or spaces only: {', '.join(map(_quoted, group))}. If they "
            "are the same, make them one before reading the log."
            for group in same_but_for_case(log.levels[j])
        ]
        if rare := rare_levels(log, j):
            more = f" and {len(rare) - _SHOWN} more" if len(rare) > _SHOWN else ""
            named = ", ".join(f"{_quoted(level)} ({count:,})" for level, count in rare[:_SHOWN])
            found.append(
                f"Rare levels of {escape(mode)}, with their rewards: {named}{more}. Little can be known of them; `top` "
                "leaves them out."
            )
    idle = [escape(log.modes[item.mode]) for item in relevance if not item.matters]
    if idle:
        they = "it" if len(idle) == 1 else "any one of them"
        found.append(
            f"No difference was found between the levels of {' or of '.join(idle)}: held-out rewards are predicted as "
            f"well without {they}, which surely adds less than {SMALL:.0%} of what can be learned. A mode fewer makes "
            "every policy quicker to learn."
        )
    return found


def _quoted(level: object) -> str:
    return escape(f"'{level}'")  # spaces at its ends are seen within quotes


def shown(level: object) -> str:
    """Return a level in words, within quotes if spaces at its ends would not be seen.

    >>> shown("old"), shown("old ")
    ('old', "'old '")
    """
    return escape(level) if str(level).strip() == str(level) else _quoted(level)


def same_but_for_case(levels: Sequence[object]) -> list[list[object]]:
    """Return groups of labels that are the same text but for case and spaces.

    >>> same_but_for_case(["new", "New ", "old", "a b", "A  b"])
    [['new', 'New '], ['a b', 'A  b']]
    """
    groups: dict[str, list[object]] = {}
    for level in levels:
        groups.setdefault("".join(str(level).split()).casefold(), []).append(level)
    return [group for group in groups.values() if len(group) > 1]


def rare_levels(log: Log, mode: int) -> list[tuple[object, int]]:
    """Return the levels of a mode that have far fewer rewards than the others, rarest first, with their counts."""
    counts = np.bincount(log.ledger.cells[:, mode], log.ledger.counts, minlength=log.shape[mode])
    least = _RARE * counts.sum() / len(counts)
    return [(log.levels[mode][i], int(counts[i])) for i in np.argsort(counts, kind="stable") if counts[i] < least]
