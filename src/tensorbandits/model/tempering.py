"""Parallel tempering: a chain of the posterior, and hotter ones that find what it cannot reach.

Row by row a chain cannot leave a mode of the posterior that play has made steep, however poor its fit. In the chain of
rung ``k`` rewards count only ``beta_k`` times as often as in it, from ``beta_0 = 1`` down to so little that about as
many are left as the tensor has numbers, and modes are shallow. Neighbours exchange their states with probability
``min(1, exp((beta_i - beta_j) (l_j - l_i)))``, where ``l`` is the logarithm of the likelihood: that leaves the law of
every rung alone, above all the posterior, which is the law of the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensorbandits.base.checks import Cell, check_count
from tensorbandits.ledger import Ledger
from tensorbandits.model.chains import AnyChain
from tensorbandits.model.described import NOT_DESCRIBED, DescribedModes
from tensorbandits.model.likelihood import Units

RUNGS = 5  # besides the posterior's
_HELD = 1.1  # times as many rewards before the rungs' weights change: what was drawn for a weight is good for no other


class Ladder:
    """The hotter chains of one chain; all are drawn from the prior at first, by ``start``."""

    def __init__(self, start: Callable[[Units, np.random.Generator], AnyChain], numbers: int) -> None:
        self._start, self._numbers = start, numbers
        self.chains: list[AnyChain] = []
        self.turn = 0  # the rung that swept last

    def weights(self, rounds: float) -> list[float]:
        """Return how much rewards count in each rung, the posterior's first."""
        held = _HELD ** math.floor(math.log(max(rounds, 1.0)) / math.log(_HELD))
        hottest = min(self._numbers / held, 1.0)
        return [hottest ** (k / RUNGS) for k in range(RUNGS + 1)]

    def step(
        self,
        chain: AnyChain,
        ledger: Ledger,
        units: Units,
        rng: np.random.Generator,
        *,
        sweeps: int = 1,
        weight: float = 1.0,
    ) -> AnyChain:
        """Let the rung whose turn it is sweep, and two neighbours exchange; return the posterior's chain.

        In that, rewards count ``weight`` times.
        """
        if not self.chains:
            self.chains = [self._start(units, rng) for _ in range(RUNGS)]
        weights = [weight * share for share in self.weights(ledger.rounds)]
        self.turn = self.turn % RUNGS + 1
        self.chains[self.turn - 1].sweep(ledger, units, rng, sweeps=sweeps, weight=weights[self.turn])
        if not self.chains[self.turn - 1].finite:
            self.chains[self.turn - 1] = self._start(units, rng).calm(units)
        rungs, cooler = [chain, *self.chains], int(rng.integers(RUNGS))
        gain = rungs[cooler + 1].log_likelihood(ledger) - rungs[cooler].log_likelihood(ledger)
        if (weights[cooler] - weights[cooler + 1]) * gain > -rng.standard_exponential():
            rungs[cooler : cooler + 2] = rungs[cooler + 1], rungs[cooler]
        self.chains = rungs[1:]
        return rungs[0]

    def grow(
        self, shape: Cell, rank: Cell, numbers: int, rng: np.random.Generator, features: DescribedModes = NOT_DESCRIBED
    ) -> None:
        """Give the modes more levels, in every chain."""
        self._numbers = numbers
        for chain in self.chains:
            chain.grow(shape, rank, rng, features)

    def state(self) -> dict[str, Any]:
        """Return the hotter chains as plain arrays."""
        return {"turn": self.turn, "chains": {str(k): chain.state() for k, chain in enumerate(self.chains)}}

    def restore(self, state: Mapping[str, Any], chain_of: Callable[[Mapping[str, Any]], AnyChain]) -> None:
        """Take back what :meth:`state` returned."""
        self.turn, chains = check_count(state["turn"], "the ladder's turn", 0), state["chains"]
        if len(chains) not in (0, 1, RUNGS) or self.turn > RUNGS:
            raise ValueError(
                f"the ladder has {len(chains)} chains and turn {self.turn}; 0 or {RUNGS} chains are allowed"
            )
        some = range(len(chains) if len(chains) > 1 else 0)  # a single one was something else once
        self.chains = [chain_of(chains[str(k)]) for k in some]
