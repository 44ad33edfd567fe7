"""What an evaluation warns of: few rows, propensities that do not fit, weights on few rows, cells never seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorbandits.base.pieces import numbered
from tensorbandits.evaluate.result import Estimate
from tensorbandits.evaluate.rows import Rows
from tensorbandits.evaluate.targets import Choices
from tensorbandits.tensor.tucker import Floats, Ints

_FEW = 200  # rows below which no interval can be relied on
_THIN = 50.0  # effective rows below which it is the same
_HEAVY = 0.1  # of the sum of weights, on one row
_FAR = 4.0  # standard errors of the mean weight from 1
_CHANCE = 1e-4  # with which right propensities are said not to fit, over all combinations of a log
_UNSEEN = 0.05  # of the decisions of a policy, for cells that the log never shows


def log_warnings(rows: Rows) -> list[str]:
    """Return what is wrong with a log, whatever is evaluated."""
    found = []
    if len(rows) < _FEW:
        found.append(f"the log has {len(rows):,} decisions, too few to rely on any interval; use {_FEW} or more")
    if rows.propensities is None:
        found.append(
            "the log has no propensities, so that all estimates rest on the model and on decisions not depending on "
            "what the log leaves out; log the probability of each decision, or say logged='uniform' if that is true"
        )
    if wrong := rows.impossible_sums():
        found.append(
            f"the propensities of the cells sum to more than 1 in {wrong:,} of {len(rows.contexts):,} contexts, which "
            "cannot be; see that they are the probabilities of whole decisions, given all that is context"
        )
    if rows.propensities is not None and (odd := _not_uniform(rows) or _too_often(rows)):
        found.append(odd)
    return found


def _not_uniform(rows: Rows) -> str:
    """Say so if a log that should be uniform, by what it says of itself, is not."""
    from scipy import stats

    if rows.propensities is None or not np.allclose(rows.propensities, rows.uniform, rtol=1e-6, atol=0.0):
        return ""
    _, first, counts = np.unique(rows.flat, return_index=True, return_counts=True)
    arms = 1.0 / rows.uniform[first]
    often = np.bincount(rows.context_of)[rows.context_of[first]] / arms
    cells = float(np.sum(1.0 / rows.uniform[np.unique(rows.context_of, return_index=True)[1]]))
    # Cells that were never shown add what was expected of them.
    statistic = float(((counts - often) ** 2 / often).sum()) + len(rows) - float(often.sum())
    freedom = cells - len(rows.contexts)
    if freedom < 1 or len(rows) < 5 * cells or stats.chi2.sf(statistic, freedom) > 1e-6:
        return ""
    return (
        "the decisions are said to be uniform, but some combinations were shown far more often than others (chi-square "
        f"{statistic:,.0f} with {freedom:,.0f} degrees of freedom); do not trust estimates that use propensities"
    )


def _too_often(rows: Rows) -> str:
    """Say so if combinations were decided for more often than their propensities allow.

    The sum of 1/propensity over the rows of a combination is expected to be the number of rows of its context, or less
    if it could not be chosen in some of them; so it is of an arm over all contexts. Only sums that are too large are a
    sign, since one that is too small may be of a combination that was not always allowed.
    """
    from scipy import stats

    every = list(range(len(rows.shape)))
    decided = [j for j in every if j not in rows.space.context]
    by_context = _Sums.of(rows, every, np.bincount(rows.context_of)[rows.context_of])
    over_all = _Sums.of(rows, decided, np.full(len(rows), len(rows)))
    limit = float(stats.norm.isf(_CHANCE / (len(by_context.excess) + len(over_all.excess))))
    for found in (over_all, by_context):
        if wrong := int((found.excess > limit).sum()):
            worst = int(np.argmax(found.excess))
            labels = rows.space.labels(rows.cells[found.first[worst]].tolist())
            arm = ", ".join(f"{mode}={labels[mode]!r}" for mode in (rows.space.modes[j] for j in found.modes))
            return (
                f"the propensities do not fit the decisions: {wrong:,} of {len(found.excess):,} combinations were "
                "decided for more often than their propensities allow; that of the rows with "
                f"{arm} is so low that there should be {found.sums[worst]:,.0f} decisions in all (the sum of "
                f"1/propensity), but there are {found.rows[worst]:,.0f}; see that each row has the probability of its "
                "own decision, and do not trust estimates that use propensities"
            )
    return ""


class _Sums(NamedTuple):
    """Sums of 1/propensity by combination (k,) of some modes, beside the rows in which each could be decided for.

    ``excess`` is by how many standard errors the sum is above these; ``first`` a row of each combination.
    """

    modes: list[int]
    sums: Floats
    rows: Floats
    excess: Floats
    first: Ints

    @classmethod
    def of(cls, rows: Rows, modes: list[int], there: Ints) -> _Sums:
        """Return the sums over combinations of some modes, where each row knows how many are ``there`` (n,)."""
        assert rows.propensities is not None
        _, first, which = np.unique(numbered(rows.cells[:, modes]), return_index=True, return_inverse=True)
        weights = 1.0 / rows.propensities
        sums = np.asarray(np.bincount(which, weights), dtype=np.float64)
        error = np.sqrt(np.bincount(which, weights * (weights - 1.0)))
        allowed = there[first].astype(np.float64)
        return cls(modes, sums, allowed, (sums - allowed * (1.0 + 1e-9)) / np.maximum(error, 1e-9), first)


def policy_warnings(name: str, estimates: Sequence[Estimate], pieces: Sequence[Choices], rows: Rows) -> list[str]:
    """Return what is wrong with the estimates of a policy."""
    found, by_method = [], {estimate.method: estimate for estimate in estimates}
    if (unseen := _unseen(pieces, rows)) > _UNSEEN:
        found.append(
            f"{name}: {unseen:.0%} of its decisions are for combinations that the log never shows, of which only the "
            "model says anything"
        )
    if "IPS" in by_method:
        found += _overlap(name, by_method["IPS"], rows)
    if "replay" in by_method and by_method["replay"].effective_rows < _FEW:
        found.append(
            f"{name}: replay met {by_method['replay'].effective_rows:,.0f} of {len(rows):,} decisions, so that it says "
            "how the policy starts, and that roughly; a log with more rows, or fewer combinations, says more"
        )
    return found


def _overlap(name: str, weighted: Estimate, rows: Rows) -> list[str]:
    """Say so if few rows carry the weight, or if weights are not 1 on average, as right propensities make them."""
    found = []
    heavy = weighted.largest_weight / max(weighted.mean_weight * len(rows), 1e-300)
    if weighted.effective_rows < _THIN or heavy > _HEAVY:
        found.append(
            f"{name}: overlap is poor, {weighted.effective_rows:,.0f} effective of {len(rows):,} rows and "
            f"{min(heavy, 1.0):.0%} of the weight on one of them; intervals by IPS, SNIPS and DR may be too narrow"
        )
    spread = math.sqrt(weighted.mean_weight**2 * (len(rows) / max(weighted.effective_rows, 1e-9) - 1.0) / len(rows))
    if abs(weighted.mean_weight - 1.0) > _FAR * spread + 1e-9:
        found.append(
            f"{name}: weights are {weighted.mean_weight:.3g} on average where right propensities make them 1, within "
            f"{_FAR * spread:.2g}; the propensities are wrong, or it decides for what the log never shows"
        )
    return found


def _unseen(pieces: Sequence[Choices], rows: Rows) -> float:
    """The share of a policy's decisions that are for cells without a row."""
    new = (piece.counts(rows)[~np.isin(rows.number(piece.cells), rows.flat)] for piece in pieces)
    return sum(float(counts.sum()) for counts in new) / len(rows)
