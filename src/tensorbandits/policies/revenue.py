"""Thompson sampling of revenue: two oracles, one of rates and one of amounts, each with structures of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tensorbandits.amounts import RevenueLedger
from tensorbandits.base.checks import Cell
from tensorbandits.ledger import Ledger
from tensorbandits.model.features import NO_FEATURES, Features, Scales
from tensorbandits.model.revenue import Revenue
from tensorbandits.model.revenue_draw import RevenueDraw
from tensorbandits.policies.structures import Candidate, Sampler
from tensorbandits.policies.thompson import GibbsOracle
from tensorbandits.policies.tuning import USUAL, Tuning
from tensorbandits.tensor.packed import Packed
from tensorbandits.tensor.tucker import Floats

_OTHER_ODDS = -4.0  # nats, of structures of amounts other than main effects
_PAIRS = 4  # times as many pairs of a rate's and an amount's draw, of which the law of a decision is made up


class _AmountOracle(GibbsOracle):
    """Draws of amounts; which cells are hardly tried is for the rates to say."""

    def _tries(self, sampler: Sampler, ledger: Ledger) -> bool:
        return False

    @property
    def variance(self) -> float:
        """The variance of the sizes of amounts in the last draw."""
        chain = self.samplers[self.playing].chain
        return chain.noise_variance if chain else 1.0


class RevenueOracle:
    """Draws rates and amounts, which are independent given rewards, each by Gibbs chains of its own.

    ``temperatures`` are those of rates and of amounts; the rest is as for :class:`GibbsOracle`.
    """

    def __init__(
        self,
        shape: Cell,
        candidates: Sequence[Candidate],
        *,
        likelihood: Revenue,
        temperatures: tuple[float, float],
        residual: bool | None,
        sweeps: int | None,
        max_sweeps: int,
        tuning: Tuning = USUAL,
        features: Features = NO_FEATURES,
    ) -> None:
        self.likelihood = likelihood
        cold, warm = temperatures
        rest: dict[str, Any] = {"residual": residual, "sweeps": sweeps, "max_sweeps": max_sweeps, "tuning": tuning}
        rest["features"] = features
        self.rates = GibbsOracle(shape, candidates, likelihood=likelihood.rates, exploration=cold, **rest)
        few = _for_amounts(candidates)
        self.amounts = _AmountOracle(shape, few, likelihood=likelihood.amounts, exploration=warm, **rest)

    def watch(self, context: Cell) -> None:
        """Have the guards judge decisions given the levels of these modes, each by rates or amounts alone."""
        self.rates.watch(context)
        self.amounts.watch(context)

    def playing_shares(self) -> dict[str, float]:
        """Return how often each structure of rates decides, by name, where several do and were judged."""
        return self.rates.playing_shares()

    def detach(self) -> None:
        """Make this copy draw anew each time, and by the posterior itself, whatever would be played."""
        self.rates.detach()
        self.amounts.detach()

    def __call__(self, ledger: Ledger, rng: np.random.Generator) -> RevenueDraw:
        """Sweep for all new rewards, and return a draw."""
        return self.advance(ledger, rng).copy()

    def advance(self, ledger: Ledger, rng: np.random.Generator) -> RevenueDraw:
        """Do the same, and return what the next sweeps will change."""
        told = _parts(ledger)
        rates = self.rates.advance(told.conversions, rng)
        return self._draw(rates, self.amounts.advance(told.amounts, rng))

    def more(self, ledger: Ledger, rng: np.random.Generator, count: int) -> Iterator[RevenueDraw]:
        """Yield ``count`` further draws given the same ledger, as calling that often would."""
        yield from (self.advance(ledger, rng) for _ in range(count))

    def law(self, ledger: Ledger, rng: np.random.Generator, draws: int) -> Iterator[tuple[float, RevenueDraw]]:
        """Yield what :meth:`advance` would return next, each with its probability; nothing is changed.

        It is made up of all pairs of what both oracles may return, or, of many, of a sample in which each is as often
        as its probability says. The variance of amounts, which has no part in what is best, is the last one drawn.
        """
        told = _parts(ledger)
        rates = [(weight, model.copy()) for weight, model in self.rates.law(told.conversions, rng, draws)]
        amounts = [(weight, model.copy()) for weight, model in self.amounts.law(told.amounts, rng, draws)]
        most = _PAIRS * draws
        if len(rates) * len(amounts) <= most:
            yield from ((w * v, self._draw(rate, amount)) for w, rate in rates for v, amount in amounts)
            return
        pairs = zip(_spread(rates, most, rng), rng.permutation(_spread(amounts, most, rng)), strict=True)
        yield from ((1.0 / most, self._draw(rates[k][1], amounts[j][1])) for k, j in pairs)

    def _draw(self, rates: Packed, amounts: Packed) -> RevenueDraw:
        return RevenueDraw(self.likelihood, rates, amounts, self.amounts.variance)

    def observe(self, cell: Cell, count: float, total: float, ledger: Ledger) -> None:
        """Score the structures of both by rewards that are all the same, though the ledger has them already."""
        told = _parts(ledger)
        bought = count if total != 0.0 else 0.0
        self.rates.observe(cell, count, bought, told.conversions)
        if bought:
            self.amounts.observe(cell, count, count * told.size(total / count), told.amounts)

    def observe_ledger(self, theirs: Ledger, ledger: Ledger) -> None:
        """Score the structures of both by the rewards of another ledger, which this one has already."""
        told = _parts(ledger)
        new = told.taken(theirs)
        for cell, count, total, _ in new.conversions:
            self.rates.observe(cell, count, total, told.conversions)
        for cell, count, total, _ in new.amounts:
            self.amounts.observe(cell, count, total, told.amounts)

    def correct(self, cell: Cell, old: float, new: float, ledger: Ledger, weight: float = 1.0) -> None:
        """Score the structures by another reward than they were scored by."""
        told, was, now = _parts(ledger), old != 0.0, new != 0.0
        self.rates.correct(cell, float(was), float(now), told.conversions, weight)
        if was and now:
            self.amounts.correct(cell, told.size(old), told.size(new), told.amounts, weight)
        elif was:  # what it said of structures stays
            self.amounts.corrected += weight
        elif now:
            self.amounts.observe(cell, weight, weight * told.size(new), told.amounts)

    def fade(self, factor: float) -> None:
        """Let what rewards said of the structures count less."""
        self.rates.fade(factor)
        self.amounts.fade(factor)

    def widest(self, ledger: Ledger, rng: np.random.Generator, count: int) -> list[Packed]:
        """Return draws of rates by the structure that has what all others have; none if it is but one."""
        return self.rates.widest(_parts(ledger).conversions, rng, count)

    def own_shares(self, ledger: Ledger, rng: np.random.Generator) -> list[Floats] | None:
        """Return for each mode how much the levels' own rewards decide of their rows: of rates, and then of amounts."""
        told = _parts(ledger)
        rates, amounts = self.rates.own_shares(told.conversions, rng), self.amounts.own_shares(told.amounts, rng)
        return None if rates is None or amounts is None else [*rates, *amounts]

    def model(self) -> RevenueDraw | None:
        """Return the last draw."""
        rates, amounts = self.rates.model(), self.amounts.model()
        return None if rates is None or amounts is None else self._draw(rates, amounts)

    def grow(
        self,
        shape: Cell,
        candidates: Sequence[Candidate],
        rng: np.random.Generator,
        features: Features = NO_FEATURES,
    ) -> None:
        """Draw the rows of new levels from the prior."""
        self.rates.grow(shape, candidates, rng, features)
        self.amounts.grow(shape, _for_amounts(candidates), rng, features)

    def feature_scales(self) -> list[Scales]:
        """Return tau and phi of the last draw, of the modes with features: of rates, and of amounts."""
        return [*self.rates.feature_scales(), *self.amounts.feature_scales()]

    def describe(self, features: Features) -> None:
        """Go on with other features of the levels."""
        self.rates.describe(features)
        self.amounts.describe(features)

    def state(self) -> dict[str, Any]:
        """Return the draws of all chains, and how far they are."""
        return {"rates": self.rates.state(), "amounts": self.amounts.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` returned."""
        self.rates.restore(state["rates"])
        self.amounts.restore(state["amounts"])


def _for_amounts(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return structures to choose from for amounts: as these are few, more than main effects has to show itself."""
    if not any(one.structure == "additive" for one in candidates):
        return list(candidates)
    return [one._replace(odds=0.0 if one.structure == "additive" else _OTHER_ODDS) for one in candidates]


def _parts(ledger: Ledger) -> RevenueLedger:
    assert isinstance(ledger, RevenueLedger)
    return ledger


def _spread(weighted: Sequence[tuple[float, Any]], count: int, rng: np.random.Generator) -> Any:
    """Return so many positions, each as often as its weight says, up to one."""
    ends = np.cumsum([weight for weight, _ in weighted])
    at = (np.arange(count) + rng.random()) / count * ends[-1]
    return np.minimum(np.searchsorted(ends, at), len(ends) - 1)
