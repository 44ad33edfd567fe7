"""What is odd about a log's columns: levels that differ by case or spaces only, rare ones, modes that do not matter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorbandits.data.cleaning import Merge, Step, merges
from tensorbandits.data.log import Log
from tensorbandits.report.page import escape
from tensorbandits.study.relevance import SMALL, Relevance

_RARE = 0.05  # of the rewards that a level would have if all had as many
_SHOWN = 5
_EXAMPLES = 3  # of levels that are alike


def remarks(log: Log, relevance: Sequence[Relevance]) -> list[str]:
    """Return, in words, what the user may want to mend before trusting a study."""
    _, found = alike(log)
    words = []
    for j, mode in enumerate(log.modes):
        merged = {label for merge in found if merge.mode == mode for label in merge.labels}
        rare = [(level, count) for level, count in rare_levels(log, j) if level not in merged]
        if rare:
            more = f" and {len(rare) - _SHOWN} more" if len(rare) > _SHOWN else ""
            named = ", ".join(f"{_quoted(level)} ({count:,})" for level, count in rare[:_SHOWN])
            words.append(
                f"Rare levels of {escape(mode)}, with their rewards: {named}{more}. Little can be known of them; `top` "
                "leaves them out."
            )
    idle = [escape(log.modes[item.mode]) for item in relevance if not item.matters]
    if idle:
        they = "it" if len(idle) == 1 else "any one of them"
        words.append(
            f"No difference was found between the levels of {' or of '.join(idle)}: held-out rewards are predicted as "
            f"well without {they}, which surely adds less than {SMALL:.0%} of what can be learned. A mode fewer makes "
            "every policy quicker to learn."
        )
    return words


def alike(log: Log) -> tuple[tuple[Step, ...], list[Merge]]:
    """Return which levels of a log are the same but for case or spaces, and how they would be made one."""
    return merges(dict(zip(log.modes, log.levels, strict=True)))


def alike_words(log: Log) -> str:
    """Say of all modes at once which levels are probably the same, and the one thing that mends it; else nothing."""
    steps, found = alike(log)
    if not found:
        return ""
    sizes = []
    for mode, levels in zip(log.modes, log.levels, strict=True):
        fewer = sum(len(merge.labels) - 1 for merge in found if merge.mode == mode)
        if fewer:
            sizes.append(f"{escape(mode)} has {len(levels):,} levels and would have {len(levels) - fewer:,}")
    examples = [
        f"{' and '.join(map(_quoted, _listed(merge.labels)))} would be {_quoted(merge.label)}"
        for merge in found[:_EXAMPLES]
    ]
    more = f", and so on for {len(found) - _EXAMPLES:,} more" if len(found) > _EXAMPLES else ""
    differ = " or ".join(word for step, word in (("casefold", "case"), ("strip", "spaces")) if step in steps)
    how = ",".join(steps)
    return (
        f"**Clean the log first**: levels differ by {differ} only, and are probably the same. {'; '.join(sizes)}. "
        f"{'; '.join(examples)}{more}. `--clean {how}` reads them as one (in Python `clean='{how}'`), and changes what "
        "is said below; the report lists all that it would merge."
    )


def _listed(labels: Sequence[object]) -> list[object]:
    return list(labels[:_SHOWN]) + ["…"] * (len(labels) > _SHOWN)


def _quoted(level: object) -> str:
    return escape(f"'{level}'")  # spaces at its ends are seen within quotes


def shown(level: object) -> str:
    """Return a level in words, within quotes if spaces at its ends would not be seen.

    >>> shown("old"), shown("old ")
    ('old', "'old '")
    """
    return escape(level) if str(level).strip() == str(level) else _quoted(level)


def rare_levels(log: Log, mode: int) -> list[tuple[object, int]]:
    """Return the levels of a mode that have far fewer rewards than the others, rarest first, with their counts."""
    counts = np.bincount(log.ledger.cells[:, mode], log.ledger.counts, minlength=log.shape[mode])
    least = _RARE * counts.sum() / len(counts)
    return [(log.levels[mode][i], int(counts[i])) for i in np.argsort(counts, kind="stable") if counts[i] < least]
