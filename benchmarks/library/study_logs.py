"""Simulated logs whose truth is known, for the suite ``studies``."""

from __future__ import annotations

from typing import Any

import numpy as np

SHAPE = (8, 30, 6)
NAMES = ("segment", "offer", "channel")
ADVERTS = (20, 6, 7)


def clicks(rows: int, *, interactions: float, weekday: bool, seed: int, most_shown: int = 1) -> Any:
    """A table of clicks of segment x offer x channel, with main effects, and rank-2 interactions on the logistic scale.

    One row per impression, or with ``most_shown`` above 1 per so many. A ``weekday`` is drawn, and decides nothing.
    """
    import pyarrow as pa

    rng = np.random.default_rng([seed, 8306])
    cells = [rng.integers(size, size=rows) for size in SHAPE]
    eta = -2.5 + sum(0.6 * rng.standard_normal(size)[levels] for size, levels in zip(SHAPE, cells, strict=True))
    factors = [rng.standard_normal((size, 2)) for size in SHAPE]
    signs = np.prod([U[levels] for U, levels in zip(factors, cells, strict=True)], axis=0)
    rates = 1.0 / (1.0 + np.exp(-eta - interactions * signs.sum(axis=1)))
    shown = rng.integers(1, most_shown + 1, rows)
    table = {name: [f"{name} {level}" for level in levels] for name, levels in zip(NAMES, cells, strict=True)}
    if weekday:
        table["weekday"] = rng.integers(7, size=rows)
    return pa.table(table | {"shown": shown, "clicks": rng.binomial(shown, rates)})


def adverts(seed: int) -> Any:
    """A table like that of an advertiser: 25 million impressions of campaign x slot x weekday, one row per combination.

    Rates are about 1 %. Impressions are spread most unevenly, and one cell in ten has fewer than 30, some a single one
    that was clicked.
    """
    import pyarrow as pa

    rng = np.random.default_rng([seed, 2067])
    cells = np.argwhere(np.ones(ADVERTS))
    effects = sum(
        spread * rng.standard_normal(size)[cells[:, j]]
        for j, (size, spread) in enumerate(zip(ADVERTS, (0.5, 0.5, 0.1), strict=True))
    )
    factors = [rng.standard_normal((size, 2)) for size in ADVERTS]
    low_rank = 0.25 * np.prod([U[cells[:, j]] for j, U in enumerate(factors)], axis=0).sum(axis=1)
    own = 0.05 * rng.standard_normal(len(cells))  # which no structure has
    rates = 1.0 / (1.0 + np.exp(4.6 - effects - low_rank - own))
    weight = np.exp(1.5 * rng.standard_normal(len(cells)))
    shown = np.maximum(1, (25e6 * weight / weight.sum()).astype(np.int64))
    small = rng.choice(len(cells), len(cells) // 10, replace=False)
    shown[small] = rng.integers(1, 30, len(small))
    taken = rng.binomial(shown, rates)
    shown[small[:3]] = taken[small[:3]] = 1
    names = ("campaign", "slot", "weekday")
    table = {name: cells[:, j] for j, name in enumerate(names)}
    return pa.table(table | {"shown": shown, "clicks": taken})


def lucky(seed: int, chosen: int = 4) -> tuple[Any, list[tuple[int, ...]]]:
    """A table of clicks in which a few cells have one impression and one click, and these cells."""
    import pyarrow as pa

    rng = np.random.default_rng([seed, 11])
    shape = (10, 12, 5)
    cells = np.argwhere(np.ones(shape))
    eta = -4.0 + sum(0.5 * rng.standard_normal(size)[cells[:, j]] for j, size in enumerate(shape))
    shown = rng.integers(500, 3_000, len(cells))
    taken = rng.binomial(shown, 1.0 / (1.0 + np.exp(-eta)))
    few = rng.choice(len(cells), chosen, replace=False)
    shown[few] = taken[few] = 1
    table = {name: cells[:, j] for j, name in enumerate(("a", "b", "c"))} | {"shown": shown, "clicks": taken}
    return pa.table(table), [tuple(cell) for cell in cells[few].tolist()]
