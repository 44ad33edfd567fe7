"""How long tensor elimination explores at random, as its arguments say or the rewards so far imply."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tensorbandits import theory
from tensorbandits.base.checks import Cell
from tensorbandits.ledger import Ledger
from tensorbandits.model.likelihood import noise_level
from tensorbandits.tensor.completion import Completion
from tensorbandits.tensor.tucker import smallest_singular_values

_STEP = 1.05  # an exploration that goes on is looked at again after this factor, to keep looking cheap


@dataclass(frozen=True)
class ExplorationLength:
    """The arguments of tensor elimination that decide it, for modes of the given sizes; see there.

    >>> ExplorationLength((20, 20, 20), 10_000, (2, 2, 2), exploration=500).planned()
    627
    """

    sizes: Cell
    horizon: int
    rank: Cell | None
    initial: int | None = None
    exploration: int | None = None
    sigma: tuple[float, ...] | None = None
    noise: float | None = None
    C_0: float = 1.0
    c_0: float = 0.5
    keeps_data: bool = True

    def planned(self) -> int:
        """Return the rounds known before any reward; refuse a horizon that is too short."""
        if len(self.sizes) == 1:
            return 0
        s_1 = self._initial(self.rank or (1,) * len(self.sizes))
        n_1 = self._known(self.horizon) or 0
        if self.horizon <= s_1 + n_1:
            needed = s_1 + n_1 + 1
            while needed <= (rounds := s_1 + (self._known(needed) or 0)):
                needed = rounds + 1  # a longer horizon asks for a longer exploration
            raise ValueError(
                f"horizon is {self.horizon}, but exploration takes s_1 = {s_1} and n_1 = {n_1} rounds; give a "
                f"horizon of at least {needed}, or shorten it with initial, exploration, C_0 or c_0"
            )
        return s_1 + n_1

    def longer(self, fit: Completion, explored: Ledger, issued: int) -> int | None:
        """Return after how many rounds to look again, if the rewards so far say that the exploration should go on."""
        if self._known(self.horizon) is not None or (implied := self._implied(fit, explored)) <= issued:
            return None
        return min(max(implied, math.ceil(_STEP * issued)), self._limit(fit.rank))

    def _initial(self, rank: Cell) -> int:
        """Return ``s_1``."""
        if self.initial is not None:
            return self.initial
        return theory.initial_rounds(self.sizes, rank, C_0=self.C_0)

    def _known(self, horizon: int) -> int | None:
        """Return ``n_1`` if the arguments decide it, ``None`` if the rewards will."""
        if self.exploration is not None:
            return self.exploration
        if self.sigma is None or self.rank is None:
            return None
        return theory.exploration_rounds(self.sizes, self.rank, horizon, self.sigma, c_0=self.c_0)

    def _implied(self, fit: Completion, explored: Ledger) -> int:
        """Return ``s_1 + n_1`` with ``sigma`` from the rewards so far, within the limit."""
        limit = self._limit(fit.rank)
        if not len(explored):
            return limit
        sigma = list(self.sigma or ())
        if not sigma:
            noise = noise_level(explored, self.noise)
            squares = float(explored.squares.sum()) / explored.rounds
            scale = math.sqrt(max(noise**2, squares - noise**2))
            sigma = [float(value) / scale if scale else 0.0 for value in smallest_singular_values(fit)]
        if min(sigma) <= 0.0:
            return limit
        n_1 = theory.exploration_rounds(self.sizes, fit.rank, self.horizon, sigma, c_0=self.c_0)
        return min(self._initial(fit.rank) + n_1, limit)

    def _limit(self, rank: Cell) -> int:
        """Return the most rounds of an exploration whose length the rewards decide."""
        half = self.horizon // 2
        # A rank that is too high makes sigma tiny. Phases that keep the data learn as much from q pulls of their own.
        return min(half, theory.inside_coordinates(self.sizes, rank)) if self.keeps_data else half
