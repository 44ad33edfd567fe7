"""The warm guard of cold play: what the posterior itself doubts of the cells that are played, and tries in proportion.

Cold play counts every reward several times, so that it is soon sure, and where it is sure of the wrong cell it stays.
The posterior (temperature 1), of which a rung of the ladder is a chain, is not: it gives better cells some probability.
So each time when that chain sweeps, its draw is asked what cold play loses by it, beside what cells at random lose::

    doubt  =  mean of (best - played cold) / mean of (best - any),         both over the last third of the rounds, about
    share  =  3 doubt (1 - doubt)^5 x persistence,                         at least 2 %, at most 90 %

and the share of the decisions is made by draws of the posterior, which try every cell as often as it is believed to be
the best. Where all is doubted still, nothing is known that a posterior draw could make use of, and it would cost most:
cold play goes on. As doubt ends, so does the guard, but for its 2 %. A cell that is played for ever although it is
doubted keeps the doubt where it is: while a doubt below a fifth is as large lately as it was over all rounds so far,
its persistence grows with the square of the rewards, and falls likewise once the doubt does, down to 1.
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
_NUMBERS = ("share", "received", "cold", "blind", "cold_ever", "blind_ever", "persistence")
_LATELY = 3.0  # the weight of what was seen at some time falls by this power of the rounds since
_MOST = 0.9  # share
_KNOWN = 0.2  # doubt, above which too little is known to tell whether it lasts
_LASTS = 0.8  # of the doubt over all rounds: one that is as large lately lasts
_GROWTH = 2.0  # power of the rewards with which persistence grows and falls
_LARGEST = 50.0  # persistence


class WarmGuard:
    """What the posterior doubts of cold play, given the levels of the ``context`` modes, and its share of decisions."""

    def __init__(self, context: Cell = (), tuning: Tuning = USUAL) -> None:
        self.context, self.tuning = context, tuning
        self.share = 0.0  # of decisions that the posterior makes
        self.looks = 0
        self.received = 0.0  # rewards that there were at the last look
        self.cold = 0.0  # what cold play loses a round, as the posterior believes
        self.blind = 0.0  # and what cells at random lose
        self.cold_ever, self.blind_ever = 0.0, 0.0  # the same over all rounds so far
        self.persistence = 1.0

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
        before = self.received / ledger.received
        self.received = ledger.received
        new, little = (max(1.0 / self.looks, 1.0 - before**power) for power in (_LATELY, 1.0))
        self.cold += new * (best - played - self.cold)
        self.blind += new * (best - blind - self.blind)
        self.cold_ever += little * (best - played - self.cold_ever)
        self.blind_ever += little * (best - blind - self.blind_ever)
        if before > 0.0:
            lasts = self.doubt < _KNOWN and self.doubt * self.blind_ever > _LASTS * self.cold_ever
            self.persistence *= before ** (-_GROWTH if lasts else _GROWTH)
            self.persistence = min(max(self.persistence, 1.0), _LARGEST)
        share = self.tuning.guard * self.persistence * self.doubt * (1.0 - self.doubt) ** 5
        self.share = min(max(self.tuning.guard_least, share), _MOST)

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
