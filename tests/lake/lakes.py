"""Lakes for tests: histories of decisions and rewards, cut into files in any way, and their plain sums."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

import tensorbandits as tb
from tensorbandits.base.folders import Folder
from tensorbandits.lake import records
from tensorbandits.lake.files import write_records
from tensorbandits.lake.learning import LakeLearner
from tests.plain import lake as plain

NAME = "offers"
START = records.hour_start("2026-11-19T04")  # seconds
WINDOW = 600.0
SHAPE = (2, 3, 2)


class History(NamedTuple):
    """Rows: decisions (id, microseconds, cell), and rewards (id, microseconds, reward, amend, cell, decided)."""

    decisions: list
    rewards: list

    def wanted(self, now, *, default=0.0, window=WINDOW, allowed=lambda reward: True):
        """The reward of each decision that has one, by the plain loop."""
        rewards = [row[:5] for row in self.rewards]
        ends = {"window": None if window is None else window * 1e6, "now": now * 1e6, "default": default}
        return plain.effective(self.decisions, rewards, **ends, allowed=allowed)


def history(seed, count=400, *, hours=2, shape=SHAPE, reward=lambda rng: float(rng.random() < 0.3)):
    """Decisions of some hours, some not logged, or twice; rewards that come late, twice, amended, never."""
    rng = np.random.default_rng(seed)
    decisions, rewards = [], []
    for at in range(count):
        number = f"{rng.integers(1 << 60):016x}-{at}"
        moment = int((START + rng.random() * 3600 * hours) * 1e6)
        cell = tuple(int(rng.integers(size)) for size in shape)
        for _ in range(rng.choice([0, 1, 2], p=[0.05, 0.9, 0.05])):
            decisions.append((number, moment, cell))
        for _ in range(rng.choice([0, 1, 2, 3], p=[0.4, 0.4, 0.1, 0.1])):
            late = int(rng.choice([1, 60, 601, 4000])) * 1_000_000  # several at the same moment too
            rewards.append((number, moment + late, reward(rng), bool(rng.random() < 0.2), cell, moment))
    return History(decisions, rewards)


def write(lake, found, uid, *, seed=0, pieces=3, writer="w", first=0):
    """Write a history into a lake, in files of its rows in any order; return their names."""
    rng, names = np.random.default_rng(seed), []
    for kind, rows, decided in (("decisions", found.decisions, 1), ("rewards", found.rewards, 5)):
        by_file = {}
        for place in rng.permutation(len(rows)):
            row = rows[place]
            by_file.setdefault((records.hour_of(row[decided] / 1e6), int(rng.integers(pieces))), []).append(row)
        for number, ((hour, _), some) in enumerate(by_file.items(), first):
            names.append(write_records(Folder(lake), kind, hour, writer, number, table(kind, some, uid)))
    return names


def table(kind, rows, uid, bandit=NAME):
    """Rows of a history as a table of records."""
    columns = {"id": [row[0] for row in rows], "time": [row[1] for row in rows], "by": ["policy"] * len(rows)}
    columns["propensity"] = [0.5] * len(rows)
    if kind == "decisions":
        columns |= {"cell": [row[2] for row in rows], "snapshot": [1] * len(rows), "draw": [None] * len(rows)}
        columns |= {"policy_chance": [1.0] * len(rows), "holdout_chance": [0.0] * len(rows)}
    else:
        columns |= {"reward": [row[2] for row in rows], "amend": [row[3] for row in rows]}
        columns |= {"cell": [row[4] for row in rows], "decided": [row[5] for row in rows]}
    return records.table(kind, columns, bandit, uid)


def bandit(place, *, shape=SHAPE, reward="bernoulli", window="10 min", default=0, **settings):
    """Save a new bandit, and return its file and its uid."""
    space = tb.Space({f"mode{at}": [f"{at}{level}" for level in range(size)] for at, size in enumerate(shape)})
    made = tb.Bandit(
        space, rank=1, reward=reward, window=window, default=default, ring=2, sweeps=1, draws=2, seed=0, **settings
    )
    made.save(place / f"{NAME}.safetensors")
    return place / f"{NAME}.safetensors", made.uid


def learner(place, lake, *, engine="duckdb", **options):
    """A learner of the bandit in a place, from a lake."""
    folders = {kind: f"{lake}/{kind}" for kind in ("decisions", "rewards")}
    return LakeLearner(place / f"{NAME}.safetensors", name=NAME, **folders, engine=engine, **options)


def counted(ledger):
    """Counts, sums and sums of squares by cell."""
    return {entry.cell: tuple(entry[1:]) for entry in ledger}


def exact(found):
    """The same by the plain loop, each sum the float that is nearest to the true one."""
    cells = plain.sums(found)
    return {
        cell: (float(len(some)), math.fsum(some), _nearest(square for reward in some for square in _square(reward)))
        for cell, some in cells.items()
    }


def _square(reward):
    from fractions import Fraction

    whole = Fraction(reward) ** 2
    first = float(whole)
    return first, float(whole - Fraction(first))


def _nearest(terms):
    return math.fsum(terms)
