"""The warm guard of cold play: a share of decisions that the posterior itself makes, as long as it doubts the others.

Cold play counts every reward several times, so that it is soon sure, and where it is sure of the wrong cell it stays.
The posterior (temperature 1) of a structure that has what any of those that play has, is not: it gives better cells
some probability. Each time when it is drawn, its draw is asked what cold play loses by it, beside what cells at random
lose::

    doubt  =  mean of (best - played cold) / mean of (best - any),         both over the last third of the rounds, about
    share  =  doubt, but at most 0.3 sqrt(T),                              T the temperature of cold play

and the share of the decisions is made by draws of the posterior, which try every cell as often as it is believed to be
the best. So what the guard costs is bounded, and ends with the doubt; and a cell that is played although it is doubted
has the others tried, for as long as that lasts. The colder the play, the more a draw of the posterior costs beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorbandits.base.checks import Cell, check_array, check_count, check_probability
from tensorbandits.ledger import Ledger
from tensorbandits.model.likelihood import Likelihood
from tensorbandits.policies.tuning import USUAL, Tuning
from tensorbandits.tensor.packed import Packed

TOGETHER = 2.0  # sweeps from one look to the next, at least
_NUMBERS = ("share", "received", "cold", "blind")
_LATELY = 3.0  # the weight of what was seen at some time falls by this power of the rounds since


class WarmGuard:
    """What the posterior doubts of play at a temperature, given the levels of the ``context`` modes, and its share."""

    def __init__(self, temperature: float, context: Cell = (), tuning: Tuning = USUAL) -> None:
        self.context = context
        self.most = min(tuning.guard * math.sqrt(temperature), 1.0)  # share
        self.share = 0.0  # of decisions that the posterior makes
        self.looks = 0
        self.received = 0.0  # rewards that there were at the last look
        self.cold = 0.0  # what cold play loses a round, as the posterior believes
        self.blind = 0.0  # and what cells at random lose

    def look(
        self, cold: Packed, warm: Packed, ledger: Ledger, likelihood: Likelihood, rng: np.random.Generator
    ) -> None:
        """Judge the cell that cold play would choose, for a context as they come, by a draw of the posterior."""
        if ledger.received <= self.received:
            return
        fixed = self._context(ledger, rng)
        anywhere = np.where(fixed < 0, rng.integers(ledger.shape), fixed)
        cells = np.array([warm.best(fixed), cold.best(fixed), anywhere])
        best, played, blind = likelihood.rewards(warm.at(cells)).tolist()
        if not math.isfinite(best - played + best - blind):
            return
        self.looks += 1
        new = max(1.0 / self.looks, 1.0 - (self.received / ledger.received) ** _LATELY)
        self.received = ledger.received
        self.cold += new * (best - played - self.cold)
        self.blind += new * (best - blind - self.blind)
        self.share = min(self.doubt, self.most)

    @property
    def doubt(self) -> float:
        """What cold play is believed to lose, as a share of what cells at random lose."""
        return min(max(self.cold / self.blind, 0.0), 1.0) if self.blind > 0.0 else 0.0

    def _context(self, ledger: Ledger, rng: np.random.Generator) -> Any:
        """Return the levels of a context, drawn from those of all rewards, and -1 for what is decided, shape (d,)."""
        fixed = np.full(len(ledger.shape), -1, dtype=np.int64)
        if self.context:
            upto = np.cumsum(ledger.counts)
            row = int(np.searchsorted(upto, rng.random() * upto[-1]))
            fixed[list(self.context)] = ledger.cells[min(row, len(upto) - 1)][list(self.context)]
        return fixed

    def state(self) -> dict[str, Any]:
        """Return everything as plain numbers."""
        return {name: getattr(self, name) for name in ("looks", *_NUMBERS)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` returned."""
        for name in _NUMBERS:
            setattr(self, name, check_array(state[name], f"the guard's {name}", ()).item())
        if self.share:
            check_probability(self.share, "the guard's share")
        self.looks = check_count(state["looks"], "the guard's looks", 0)
