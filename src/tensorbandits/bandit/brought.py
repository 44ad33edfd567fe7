"""Rewards that were added up elsewhere, and are brought to a bandit again and again, each time all of them.

Those that it was told otherwise, before and since, stay beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits.amounts import RevenueLedger
from tensorbandits.base.checks import Cell
from tensorbandits.ledger import Ledger

_NOTHING = 1e-9  # rewards of a cell that has none

Floats = NDArray[np.float64]


class Brought(NamedTuple):
    """What a bandit was told otherwise than by sums that were brought, and its ledger as these left it."""

    own: Ledger
    left: Ledger

    def own_by(self, held: Ledger) -> Ledger:
        """Return what it was told otherwise by now, when this is its ledger."""
        own, left = over(self.own, held.shape), over(self.left, held.shape)
        return own if same_rewards(left, held) else _moved(own, left, held)

    def state(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"own": self.own.state(), "left": self.left.state()}

    @classmethod
    def read(cls, state: Mapping[str, Any] | None) -> Self | None:
        """Return what :meth:`state` returned."""
        return None if state is None else cls(*(Ledger.from_state(state[name]) for name in ("own", "left")))


def over(ledger: Ledger, shape: Cell) -> Ledger:
    """Return a copy of a ledger, over a shape that may have more levels."""
    copy = ledger.copy()
    copy.grow_to(shape)
    return copy


def same_rewards(one: Ledger, other: Ledger) -> bool:
    """Say whether two ledgers hold the same sums to the last bit, cells that hold next to nothing aside."""
    pairs = zip(_filled(one), _filled(other), strict=True)
    return one.shape == other.shape and all(np.array_equal(a, b) for a, b in pairs)


def _filled(ledger: Ledger) -> list[NDArray[Any]]:
    """Cells that hold something, in order, with their sums."""
    at = ledger.order[ledger.counts[ledger.order] > _NOTHING]
    return [part[at] for part in (ledger.cells, ledger.counts, ledger.totals, ledger.squares)]


def _moved(own: Ledger, left: Ledger, held: Ledger) -> Ledger:
    """What was told otherwise, with that by which a ledger has changed since it was left."""
    cells = np.unique(np.concatenate([own.cells, left.cells, held.cells]), axis=0)

    def change(part: Any) -> Floats:
        rows = [_aligned(part(ledger), cells) for ledger in (own, left, held)]
        return rows[0] + rows[2] - rows[1]

    N, Y, Q = change(lambda ledger: ledger)
    kept = N > _NOTHING
    plain = Ledger.of(own.shape, cells[kept], N[kept], Y[kept], np.maximum(Q, Y * Y / np.where(kept, N, 1.0))[kept])
    if not isinstance(own, RevenueLedger):
        return plain
    K = np.clip(change(lambda ledger: ledger.conversions)[1][kept], 0.0, N[kept])
    sizes = change(lambda ledger: ledger.amounts)[:, kept]
    K[sizes[0] <= _NOTHING] = 0.0
    return own.of_parts(plain, K, sizes[1], np.maximum(sizes[2], sizes[1] ** 2 / np.where(K > 0.0, K, 1.0)))


def _aligned(ledger: Ledger, cells: NDArray[np.int64]) -> Floats:
    """The counts, sums and squares of cells (n, d), shape (3, n); zeros for those that a ledger does not have."""
    found = np.zeros((3, len(cells)))
    places = {tuple(cell): at for at, cell in enumerate(cells.tolist())}
    at = np.array([places[tuple(cell)] for cell in ledger.cells.tolist()], dtype=np.int64)
    found[:, at] = ledger.counts, ledger.totals, ledger.squares
    return found
