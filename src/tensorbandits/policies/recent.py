"""The last draws of a chain, from which decisions are made while one more reward says too little for a sweep."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorbandits.base.checks import check_array, check_count
from tensorbandits.ledger import Ledger
from tensorbandits.model.chains import AnyChain
from tensorbandits.tensor.packed import Packed, PackedModel, Remembering
from tensorbandits.tensor.tucker import Floats, Ints

RECENT = 16  # draws that are kept


def model_of(chain: AnyChain, ledger: Ledger) -> Packed:
    """Return the model of a chain's last draw, with what observed cells deviate by."""
    return chain.model if chain.residual is None else chain.residual.model(chain.model, ledger)


class Recent:
    """The last draws, at most 16: rows, core and offset of one in each line.

    >>> from tensorbandits.model.sweep import Model
    >>> recent = Recent()
    >>> recent.keep(Model((2, 3), (1, 1), np.ones(5), np.array([2.0]), offset=0.5).line())
    >>> recent.draws, recent.kept.tolist()
    (1, [[1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 0.5]])
    """

    def __init__(self) -> None:
        self.lines: Floats = np.zeros((0, 0))
        self.draws = 0  # kept so far, those that others took the place of included
        self._models: list[Packed | None] = [None] * RECENT  # of those that were asked for

    @property
    def kept(self) -> Floats:
        """The lines of the draws that are there, shape (n, numbers)."""
        return self.lines[: min(self.draws, RECENT)]

    def keep(self, line: Floats) -> None:
        """Put a line of numbers in the place of the oldest draw."""
        if not len(self.lines):
            self.lines = np.zeros((RECENT, len(line)))
        self.lines[self.draws % RECENT] = line
        self._models[self.draws % RECENT] = None
        self.draws += 1

    def models(self, chain: AnyChain, ledger: Ledger) -> list[Packed]:
        """Return all models that :meth:`one` may return, each as likely as another."""
        if chain.residual is not None:
            return [model_of(chain, ledger)]
        return [self._model(chain, at) for at in range(len(self.kept))]

    def one(self, chain: AnyChain, ledger: Ledger, rng: np.random.Generator) -> Packed:
        """Return the model of one of the draws of a chain; where cells deviate, of the last."""
        if chain.residual is not None:
            return model_of(chain, ledger)
        return self._model(chain, int(rng.integers(min(self.draws, RECENT))))

    def _model(self, chain: AnyChain, at: int) -> Packed:
        """Return the model of a draw, the same one each time, as it remembers its best cells."""
        if (model := self._models[at]) is None:
            model = self._models[at] = Remembering(chain.model.with_numbers(self.lines[at].copy()))
        return model

    def values(self, model: PackedModel, cells: Ints) -> Floats:
        """Return the values of cells (n, d) in each draw, for models of the layout of this one, shape (n, draws)."""
        return model.at_of_lines(self.kept, cells)

    def forget(self) -> None:
        """Forget all draws."""
        self.draws = 0

    def restore(self, lines: Any, draws: Any, entries: int) -> None:
        """Take back the lines, of so many entries, and the number of draws."""
        self.draws = check_count(draws, "the sampler's draws", 0)
        self.lines = check_array(lines, "the recent draws", (RECENT, entries) if len(lines) else (0, 0)).copy()
        self._models = [None] * RECENT
        if self.draws and not len(self.lines):
            raise ValueError(f"there are no recent draws, of {self.draws}")
