"""The constants of Thompson sampling in one value, each with what it does and the suite of benchmarks that judges it.

Propensities are exact whatever the constants are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from tensorbandits.base.checks import check_positive


@dataclass(frozen=True)
class Tuning:
    """The constants of Thompson sampling.

    Attributes
    ----------
    temperature, temperature_of_clicks, temperature_of_rates : what ``exploration=None`` is; of clicks, but for pairs,
        the second (suites ``exploration`` and ``locking``), of conversion rates of revenue, whose amounts are drawn
        too, the third (suite ``revenue``).
    sharpened_from : rewards for each number that is learned, from which on rewards count more than once; before there
        are so many, sharpening what they say only spreads their errors (suite ``exploration``).
    guard : times the root of the temperature, the share of decisions, at most, that the posterior itself makes while
        it doubts the others (suite ``locking``).
    guard_sweeps : the posterior's sweeps over those of the chain that plays (suite ``locking``).
    apart, apart_from, apart_below : the share of the guard's decisions that are made as if there were no tensor, once
        there are so many rewards for each cell, where the temperature is below that (suite ``locking``).
    judged_from : rewards for each number of the first structure, before which structures are not judged (suite
        ``beds``).
    any_structure : share of decisions in which every structure has the same chance (suite ``beds``).
    farthest : nats that a structure may be behind, so that it can come back (suite ``beds``).
    least_sweeps : share of the sweeps that a structure gets which nobody believes in (suite ``rounds``).
    news : rewards of a cell, after which the next says half as much of which structure is right (suite ``beds``).
    forget : share of the evidence for structures that fades with each reward (suite ``beds``).
    main_effects_odds : nats of evidence against main effects alone before any reward (suite ``beds``).
    plenty, plenty_of_clicks : rewards for each number, after which main effects alone become an affine tensor, of
        clicks and counts the second (suite ``beds``).
    settled, settled_of_clicks, settled_together : rewards, or ``sharpened_from`` for each number if these are more,
        after which the chains sweep each time when there is one more for each so many; of clicks and counts, whose
        chains are slower, the second; of chains that draw all numbers together the third, whatever the numbers (suites
        ``rounds`` and ``locking``).
    obsolete : times as many rewards, or as few, make earlier draws obsolete (suite ``rounds``).
    ladder : the hotter chains step each time when there is this share of the rewards more (suite ``stuck``).
    deviating : standard errors by which observed cells must deviate from a tensor before they may (suite ``beds``).
    explained : share of the rows of levels that their features explain; 0 learns it (suite ``features``).
    tried : from so many rewards per cell on, one of as many decisions is for cells that were hardly tried (suite
        ``beds``, full-rank-long).

    >>> from tensorbandits import TensorThompsonSampling
    >>> policy = TensorThompsonSampling((3, 4), tuning={"settled": 2000}, seed=0)
    >>> policy.oracle.tuning.settled, Tuning().settled
    (2000.0, 1000.0)
    """

    temperature: float = 0.5
    temperature_of_clicks: float = 0.1
    temperature_of_rates: float = 0.25
    sharpened_from: float = 4.0
    guard: float = 0.3
    guard_sweeps: float = 0.5
    apart: float = 0.5
    apart_from: float = 5.0
    apart_below: float = 0.25
    judged_from: float = 2.0
    any_structure: float = 0.02
    farthest: float = 12.0
    least_sweeps: float = 0.25
    news: float = 30.0
    forget: float = 1.0 / 5000.0
    main_effects_odds: float = 4.0
    plenty: float = 150.0
    plenty_of_clicks: float = 50.0
    settled: float = 1000.0
    settled_of_clicks: float = 4000.0
    settled_together: float = 1000.0
    obsolete: float = 1.1
    ladder: float = 1.0 / 400.0
    deviating: float = 6.0
    tried: float = 200.0
    explained: float = 0.0

    @classmethod
    def of(cls, changes: Any) -> Self:
        """Return the constants with some changed, given by name.

        >>> Tuning.of({"settled": 1000}).settled, Tuning.of(None) == Tuning()
        (1000.0, True)
        """
        if changes is None:
            return cls()
        if not isinstance(changes, Mapping):
            raise TypeError(f'tuning is {changes!r}; give constants by name, such as {{"settled": 1000}}, or None')
        known = [one.name for one in fields(cls)]
        for name in changes:
            if name not in known:
                raise ValueError(f"tuning names {name!r}; the constants are {', '.join(known)}")
        found = replace(cls(), **{name: check_positive(value, name) for name, value in changes.items()})
        for name in ("guard", "apart", "any_structure", "forget", "least_sweeps", "explained"):
            if getattr(found, name) > 1.0:
                raise ValueError(f"tuning: {name} is {getattr(found, name)}; it is a share: give a number up to 1")
        if found.obsolete <= 1.0:
            raise ValueError(f"tuning: obsolete is {found.obsolete}; it must be above 1")
        return found


USUAL = Tuning()
