"""What a learner keeps between rounds, in a folder: the sums of hours, and their total.

Each file is whole or not there, and each is right by itself: whenever a learner is stopped, the next one goes on from
what there is, and does again what is missing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tensorbandits.base import codec
from tensorbandits.base.folders import Folder
from tensorbandits.lake.hours import COUNTS, MAKERS, HourSums, added
from tensorbandits.lake.sums import CellSums

_VERSION = 1
_KIND = "lake total"
_TOTAL, _LOCK = "total.safetensors", "lock"


@dataclass(frozen=True, eq=False)
class Total:
    """What all hours add up to: ``hours`` says by hour which sums are in it, by the digest of files, and what is due.

    ``now`` is the latest time up to which windows were looked at, in microseconds.
    """

    now: int
    hours: Mapping[str, tuple[str, int | None]]
    sums: CellSums
    makers: CellSums
    counts: Mapping[str, int]

    @classmethod
    def none(cls, modes: int) -> Total:
        """Return the total of no hours."""
        return cls(0, {}, CellSums.none(modes), CellSums.none(1), dict.fromkeys(COUNTS, 0))

    def having(self, fresh: Sequence[HourSums], before: Sequence[HourSums], now: int) -> Total:
        """Return the total with fresh sums of some hours, in the place of those before, as far as there were any."""
        hours = dict(self.hours) | {one.hour: (one.digest, one.due) for one in fresh}
        sums = _exchanged(self.sums, [one.sums for one in fresh], [one.sums for one in before])
        makers = _exchanged(self.makers, [one.makers for one in fresh], [one.makers for one in before])
        signs = [1] * (1 + len(fresh)) + [-1] * len(before)
        counts = added([self.counts, *(one.counts for one in [*fresh, *before])], signs)
        return Total(max(now, self.now), dict(sorted(hours.items())), sums, makers, counts)

    def by_maker(self) -> dict[str, tuple[int, float]]:
        """Return how many rewards there are of what each maker decided, and their sum."""
        rows = zip(self.makers.cells[:, 0], self.makers.counts, self.makers.rows["totals"][:, 0], strict=True)
        return {MAKERS[maker]: (int(count), float(total)) for maker, count, total in rows}


def _exchanged(total: CellSums, fresh: Sequence[CellSums], before: Sequence[CellSums]) -> CellSums:
    modes = total.cells.shape[1]
    return total.plus(*fresh).less(CellSums.none(modes).plus(*before)) if before else total.plus(*fresh)


class Keeping:
    """The folder that a learner keeps sums in, of one bandit: another one is refused."""

    def __init__(self, folder: Folder, modes: int, uid: str) -> None:
        self.folder, self.modes, self.uid = folder, modes, uid

    def total(self) -> Total:
        """Return the total as it was kept, or that of no hours."""
        try:
            content = self.folder.read(_TOTAL)
        except FileNotFoundError:
            return Total.none(self.modes)
        kind, version, state = codec.unpack(content)
        if kind != _KIND or version > _VERSION:
            raise ValueError(
                f"{_TOTAL} in {self.folder.address} holds a {kind!r} of version {version}, not a {_KIND!r} of version "
                f"{_VERSION}; give the folder of a learner of this or an older release"
            )
        if state["uid"] != self.uid:
            raise ValueError(
                f"{self.folder.address} has what was learned of another bandit (uid {state['uid']}; this one has "
                f"{self.uid}); give a folder of its own for what the learner keeps"
            )
        hours = {hour: (digest, due) for hour, (digest, due) in state["hours"].items()}
        sums, makers = (CellSums.from_state(state[name]) for name in ("sums", "makers"))
        return Total(state["now"], hours, sums, makers, state["counts"])

    def keep_total(self, total: Total) -> None:
        """Keep a total in the place of the one before."""
        hours = {hour: list(pair) for hour, pair in total.hours.items()}
        parts = {"uid": self.uid, "now": total.now, "hours": hours, "counts": dict(total.counts)}
        parts |= {"sums": total.sums.state(), "makers": total.makers.state()}
        self.folder.write(_TOTAL, codec.pack(_KIND, _VERSION, parts))

    def hour(self, hour: str, digest: str, due: int | None) -> HourSums | None:
        """Return the sums of an hour from files with a digest, as of before a window ends, if they are kept whole."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = HourSums.unpacked(self.folder.read(self._place(hour, digest, due)))
            if (found.hour, found.digest, found.due) == (hour, digest, due):
                return found
        return None

    def keep_hour(self, one: HourSums) -> None:
        """Keep the sums of an hour, beside those from other files."""
        self.folder.write(self._place(one.hour, one.digest, one.due), one.packed())

    def drop_hours(self, ones: Sequence[HourSums]) -> None:
        """Forget sums of hours that are in no total any more."""
        for one in ones:
            self.folder.remove(self._place(one.hour, one.digest, one.due))

    def _place(self, hour: str, digest: str, due: int | None) -> str:
        return f"hours/{hour}-{digest}-{due or 0}.safetensors"

    def prune(self, total: Total) -> None:
        """Forget sums of hours that a learner left which was stopped before it could."""
        known = {self._place(hour, *pair) for hour, pair in total.hours.items()}
        for file in self.folder.files("hours"):
            if f"hours/{file.name}" not in known:
                self.folder.remove(f"hours/{file.name}")


@contextlib.contextmanager
def alone(folder: Folder) -> Iterator[None]:
    """Let no other learner of this machine use a folder meanwhile."""
    if not folder.local or os.name != "posix":
        yield
        return
    import fcntl

    Path(folder.root).mkdir(parents=True, exist_ok=True)
    with open(folder.path(_LOCK), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"another learner uses {folder.address} just now; stop it first, or give each a folder of its own"
            ) from None
        yield
