"""An hour of a lake: what its decisions and rewards add up to, and which files that is known from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tensorbandits.bandit.decision import BY
from tensorbandits.base import codec
from tensorbandits.lake.join import Meaning
from tensorbandits.lake.sums import CellSums

_VERSION = 1
_OTHER = "other"
MAKERS = (*BY, _OTHER)  # who decides, in the order of the cells of `makers`
COUNTS = (
    *("decisions", "rewards", "defaults", "waiting", "unlogged"),
    *("repeated_decisions", "repeated_rewards", "unusable_decisions", "unusable_rewards"),
)


@dataclass(frozen=True, eq=False)
class HourSums:
    """What an hour adds up to.

    ``settings`` stand for what rewards meant, ``files`` are those that it is known from, with their marks. ``due`` is
    when the next window ends, in microseconds. ``sums`` are of rewards by cell, ``makers`` of rewards by who decided.
    ``counts`` say how many decisions were logged and how many rewards told, each counted once; how many decisions have
    the default, how many wait for a reward, how many rewards are of decisions that were not logged; and how many rows
    were repeated, or cannot be used.
    """

    hour: str
    settings: str
    files: Mapping[str, str]
    due: int | None
    sums: CellSums
    makers: CellSums
    counts: Mapping[str, int]

    @property
    def digest(self) -> str:
        """What stands for the files, and for what rewards meant."""
        return digest_of(self.files, self.settings)

    def packed(self) -> bytes:
        """Return it as the content of a file."""
        parts: dict[str, Any] = {
            "hour": self.hour,
            "settings": self.settings,
            "files": dict(self.files),
            "due": self.due,
        }
        parts |= {"counts": dict(self.counts), "sums": self.sums.state(), "makers": self.makers.state()}
        return codec.pack("hour", _VERSION, parts)

    @classmethod
    def unpacked(cls, content: bytes) -> Self:
        """Return what :meth:`packed` packed."""
        kind, version, state = codec.unpack(content)
        if kind != "hour" or version > _VERSION:
            raise ValueError(f"the file holds a {kind!r} of version {version}, not an hour of version {_VERSION}")
        sums, makers = (CellSums.from_state(state[name]) for name in ("sums", "makers"))
        counts = {name: int(state["counts"][name]) for name in COUNTS}
        return cls(state["hour"], state["settings"], state["files"], state["due"], sums, makers, counts)


def settings_of(meaning: Meaning) -> str:
    """Return what stands for what rewards mean."""
    return codec.checksum({"meaning": list(meaning)})[:16]


def digest_of(files: Mapping[str, str], settings: str) -> str:
    """Return what stands for files and their marks, in whatever order they are given, and for what rewards meant."""
    return codec.checksum({"files": sorted(files.items()), "settings": settings})[:16]


def hours_of_rows(
    rows: Any, unusable: Any, files: Mapping[str, Mapping[str, str]], meaning: Meaning
) -> dict[str, HourSums]:
    """Return what hours add up to: ``rows`` and ``unusable`` are the answers of the two queries, as PyArrow tables.

    ``files`` are the files of each hour that was asked for.
    """
    lost: dict[str, dict[str, int]] = {hour: {} for hour in files}
    for one in unusable.to_pylist():
        lost[one["hour"]][f"unusable_{one['kind']}"] = one["many"]
    columns = {name: rows.column(name) for name in rows.column_names}
    cells = np.array([columns[f"c{mode}"].to_numpy() for mode in range(meaning.modes)], dtype=np.int64)
    cells = cells.reshape(meaning.modes, rows.num_rows).T
    rewards = columns["reward"].to_numpy().astype(np.float64)  # NaN where there is none
    numbers = {name: columns[name].to_numpy() for name in ("ids", "decided_rows", "told_rows")}
    first = columns["first_at"].fill_null(0).to_numpy()
    flags = {name: columns[name].to_numpy(zero_copy_only=False).astype(bool) for name in ("logged", "told")}
    places = {maker: at for at, maker in enumerate(MAKERS)}
    makers = np.array([places.get(maker, len(MAKERS) - 1) for maker in columns["side"].to_pylist()], dtype=np.int64)
    hour_of_row = columns["hour"].to_numpy(zero_copy_only=False).astype(str)
    found, settings = {}, settings_of(meaning)
    for hour in files:
        its = hour_of_row == hour
        parts = {name: column[its].astype(np.int64) for name, column in numbers.items()}
        logged, told = (flags[name][its] for name in ("logged", "told"))
        known = ~np.isnan(rewards[its])
        counts = dict.fromkeys(COUNTS, 0) | lost[hour] | _counts(parts, logged, told, known)
        waits = first[its][~known]
        due = int(waits.min()) + meaning.window if len(waits) and _ends(meaning) else None  # type: ignore[operator]
        its_rewards, its_counts = rewards[its][known], parts["ids"][known]
        logs = meaning.reward == "revenue"
        sums = CellSums.of(cells[its][known], its_rewards, its_counts, logs=logs)
        by_maker = CellSums.of(makers[its][known].reshape(-1, 1), its_rewards, its_counts)
        found[hour] = HourSums(hour, settings, files[hour], due, sums, by_maker, counts)
    return found


def _ends(meaning: Meaning) -> bool:
    """Whether decisions have a default when their window has ended."""
    return meaning.window is not None and meaning.default is not None


def _counts(parts: Mapping[str, Any], logged: Any, told: Any, known: Any) -> dict[str, int]:
    ids = parts["ids"]
    found = {
        "decisions": ids[logged],
        "rewards": ids[told],
        "defaults": ids[logged & ~told & known],
        "waiting": ids[~known],
        "unlogged": ids[told & ~logged],
        "repeated_decisions": parts["decided_rows"] - ids * logged,
        "repeated_rewards": parts["told_rows"] - ids * told,
    }
    return {name: int(many.sum()) for name, many in found.items()}


def due_by(due: int | None, now: int) -> bool:
    """Say whether a window has ended since."""
    return due is not None and due < now


def added(counts: Iterable[Mapping[str, int]], signs: Sequence[int] | None = None) -> dict[str, int]:
    """Return what counts add up to, each with its sign."""
    some = list(counts)
    weights = signs or [1] * len(some)
    return {name: sum(sign * one[name] for one, sign in zip(some, weights, strict=True)) for name in COUNTS}


def micros(seconds: float) -> int:
    """Return a time in microseconds."""
    return math.floor(seconds * 1e6)
