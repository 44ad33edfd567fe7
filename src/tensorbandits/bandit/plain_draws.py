"""Posterior draws as plain data, and back: what a published snapshot decides from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit.draws import Draws
from tensorbandits.base.checks import Cell, check_array, check_cells, check_count, check_level
from tensorbandits.model.residual import Deviating, Trying
from tensorbandits.model.revenue import revenue_of
from tensorbandits.model.revenue_draw import RevenueDraw
from tensorbandits.model.sweep import Model
from tensorbandits.policies.approximate import Draw
from tensorbandits.tensor.packed import Packed, Remembering
from tensorbandits.tensor.pairs import Pairs, PairsLayout
from tensorbandits.tensor.tucker import Tucker

_LARGEST = 1e120  # number of a draw; those of larger ones multiply to what no float holds


def draws_state(draws: Draws) -> dict[str, Any]:
    """Return draws as arrays, numbers and text; cells that several of them have are kept once.

    >>> from tensorbandits import TensorThompsonSampling
    >>> policy = TensorThompsonSampling((3, 4), rank=1, seed=0)
    >>> draws = Draws(2).joined(policy.fresh_draws(2), (3, 4))
    >>> again = draws_from_state(draws_state(draws), (3, 4))
    >>> again.numbers, bool((again.entries[0][1].line() == draws.entries[0][1].line()).all())
    ((0, 1), True)
    """
    cells = _Cells()
    return {
        "size": draws.size,
        "last": draws.last,
        "numbers": list(draws.numbers),
        "draws": [_described(draw, cells) for _, draw in draws.entries],
        "cells": cells.arrays,
    }


def draws_from_state(state: Mapping[str, Any], shape: Cell) -> Draws:
    """Return the draws that :func:`draws_state` described, which must be of this shape."""
    cells = [check_cells(array, shape) for array in state["cells"]]
    draws = [_made(draw, shape, cells) for draw in state["draws"]]
    numbers = [_whole(number) for number in state["numbers"]]
    if len(numbers) != len(draws) or len(set(numbers)) != len(numbers):
        raise ValueError(f"there are {len(draws)} draws and the numbers {numbers}; each draw has one of its own")
    entries = tuple(zip(numbers, draws, strict=True))
    return Draws(check_count(state["size"], "size"), shape, entries, _whole(state["last"]))


class _Cells:
    """Arrays of cells, of which those that are the same are kept once."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[np.int64]] = []
        self._known: dict[bytes, int] = {}

    def place(self, cells: NDArray[np.int64]) -> int:
        """Return where an array of cells (n, d) is kept."""
        found = self._known.setdefault(cells.tobytes(), len(self.arrays))
        if found == len(self.arrays):
            self.arrays.append(cells)
        return found


def _described(draw: Draw, cells: _Cells) -> dict[str, Any]:
    if isinstance(draw, Remembering):
        return _described(draw.base, cells)
    if isinstance(draw, Deviating):
        return {
            "kind": "deviating",
            "base": _described(draw.base, cells),
            "cells": cells.place(draw.cells),
            "seen": draw.seen,
        }
    if isinstance(draw, Trying):
        return {"kind": "trying", "base": _described(draw.base, cells), "few": cells.place(draw.few)}
    if isinstance(draw, RevenueDraw):
        return {
            "kind": "revenue",
            "reward": draw.kind.name,
            "rates": _described(draw.rates, cells),
            "amounts": _described(draw.amounts, cells),
            "variance": draw.variance,
        }
    if isinstance(draw, Model):
        return {"kind": "model", "rank": list(draw.rank), "affine": draw.affine, "line": draw.line()}
    if isinstance(draw, Pairs):
        layout = draw.layout
        return {"kind": "pairs", "rank": list(layout.rank), "complete": list(layout.complete), "line": draw.line()}
    if isinstance(draw, Tucker):
        factors = {str(mode): factor for mode, factor in enumerate(draw.factors)}
        return {"kind": "tucker", "core": draw.core, "factors": factors, "offset": draw.offset}
    if isinstance(draw, np.ndarray):
        return {"kind": "array", "values": draw}
    raise TypeError(f"a posterior draw is a {type(draw).__name__}, which cannot be published; return a Tucker instead")


def _made(state: Mapping[str, Any], shape: Cell, cells: Sequence[NDArray[np.int64]]) -> Draw:
    match state["kind"]:
        case "deviating":
            mine = cells[check_level(state["cells"], len(cells), "the cells of a draw")]
            return Deviating(_packed(state["base"], shape, cells), mine, _numbers(state["seen"], (len(mine),)))
        case "trying":
            few = cells[check_level(state["few"], len(cells), "the cells of a draw")]
            return Trying(_packed(state["base"], shape, cells), few)
        case "revenue":
            kind = revenue_of(state["reward"])
            if kind is None:
                raise ValueError(f"{state['reward']!r} is no kind of revenue")
            rates, amounts = _packed(state["rates"], shape, cells), _packed(state["amounts"], shape, cells)
            return RevenueDraw(kind, rates, amounts, _numbers(state["variance"], ()).item())
        case "model":
            rank = tuple(check_count(r, "a rank") for r in state["rank"])
            entries = sum(p * r for p, r in zip(shape, rank, strict=True))
            line = _numbers(state["line"], (entries + math.prod(rank) + 1,))
            model = Model(shape, rank, line[:entries], line[entries:-1], float(line[-1]), affine=bool(state["affine"]))
            return model.copy()
        case "pairs":
            return _pairs(state, shape)
        case "tucker":
            core = np.asarray(state["core"])
            sizes = zip(shape, core.shape, strict=True)
            factors = tuple(_numbers(state["factors"][str(j)], size) for j, size in enumerate(sizes))
            return Tucker(_numbers(core, core.shape), factors, _numbers(state["offset"], ()).item())
        case "array":
            return _numbers(state["values"], shape)
    raise ValueError(f"a draw is of kind {state['kind']!r}, which this release does not know")


def _pairs(state: Mapping[str, Any], shape: Cell) -> Pairs:
    rank = tuple(check_count(r, "a rank", 0) for r in state["rank"])
    complete = [bool(one) for one in state["complete"]]
    if len(rank) != len(shape) or len(complete) != len(shape):
        raise ValueError(f"a draw of pairs has the ranks {rank} for {len(shape)} modes")
    layout = PairsLayout(shape, rank, complete)
    line = _numbers(state["line"], (layout.size,))
    empty = np.zeros(0)
    return Pairs(layout, empty, empty, empty).with_numbers(line).copy()


def _packed(state: Mapping[str, Any], shape: Cell, cells: Sequence[NDArray[np.int64]]) -> Packed:
    draw = _made(state, shape, cells)
    if not isinstance(draw, Packed) or isinstance(draw, RevenueDraw):
        raise ValueError(f"a draw is made of one of kind {state['kind']!r}, which cannot be")
    return draw


def _numbers(values: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return check_array(values, "the numbers of a draw", shape, largest=_LARGEST)


def _whole(number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError(f"the number of a draw is {number!r}; it is a whole number")
    return number
