"""The warm guard of cold play: what the posterior itself doubts of the cells that are played, and tries in proportion.

Cold play counts every reward several times, so that it is soon sure, and where it is sure of the wrong cell it stays.
The posterior (temperature 1), of which a rung of the ladder is a chain, is not: it gives better cells some probability.
So each time when that chain sweeps, its draw is asked what cold play loses by it, beside what cells at random lose::

    doubt  =  mean of (best - played cold) / mean of (best - any),         both over the last third of the rounds, about
    share  =  5 doubt^2 (1 - doubt)^2,                                     at least 2 %

and the share of the decisions is made by draws of the posterior, which try every cell as often as it is believed to be
the best. Where all is doubted still, nothing is known that a posterior draw could make use of, and it would cost most:
cold play goes on. As doubt ends, so does the guard, but for its 2 %. A cell that is played for ever although it is
doubted keeps the doubt where it is, and the guard with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorbandits.base.checks import Cell, check_array, check_count, check_probability
from tensorbandits.ledger import Ledger
from tensorbandits.model.likelihood import Likelihood
from tensorbandits.model.sweep import Model

EFFORT = 0.1  # of the sweeps of the chain that plays, which the posterior's gets, or half of its share of decisions
TOGETHER = 2.0  # sweeps from one look to the next, at least
_SHARE = 5.0  # 16 times the largest share
_LEAST = 0.02  # share, however little is doubted: the chain of the posterior may be where it is by chance
_LATELY = 3.0  # the weight of what was seen at some time falls by this power of the rounds since


class WarmGuard:
    """What the posterior doubts of cold play, given the levels of the ``context`` modes, and its share of decisions."""

    def __init__(self, context: Cell = ()) -> None:
        self.context = context
        self.share = 0.0  # of decisions that the posterior makes
        self.looks = 0
        self.received = 0.0  # rewards that there were at the last look
        self.cold = 0.0  # what cold play loses a round, as the posterior believes
        self.blind = 0.0  # and what cells at random lose

    def look(self, cold: Model, warm: Model, ledger: Ledger, likelihood: Likelihood, rng: np.random.Generator) -> None:
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
        self.share = max(_LEAST, _SHARE * (self.doubt * (1.0 - self.doubt)) ** 2)

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
        return {name: getattr(self, name) for name in ("share", "looks", "received", "cold", "blind")}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` returned."""
        share, received, cold, blind = (
            check_array(state[name], f"the guard's {name}", ()).item()
            for name in ("share", "received", "cold", "blind")
        )
        if share:
            check_probability(share, "the guard's share")
        self.share, self.received, self.cold, self.blind = share, received, cold, blind
        self.looks = check_count(state["looks"], "the guard's looks", 0)
