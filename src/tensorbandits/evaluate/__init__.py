"""Off-policy evaluation: what policies would have earned per decision, from the decisions that a log holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tensorbandits.base.checks import check_count, check_probability
from tensorbandits.data.log import Log
from tensorbandits.evaluate.diagnostics import log_warnings, policy_warnings
from tensorbandits.evaluate.estimators import doubly_robust, ips, snips
from tensorbandits.evaluate.learners import along, replay, start
from tensorbandits.evaluate.model import RewardModel
from tensorbandits.evaluate.result import Difference, Estimate, Evaluation
from tensorbandits.evaluate.rows import Logged, Rows
from tensorbandits.evaluate.targets import LOGGED, Choices, named, space_of
from tensorbandits.model.effects import kind_of
from tensorbandits.model.rewards import Reward
from tensorbandits.sim.recipes import PolicyRecipe
from tensorbandits.space import Space
from tensorbandits.tensor.tucker import Floats, Ints

__all__ = ["Difference", "Estimate", "Evaluation", "evaluate"]


def evaluate(
    log: Log,
    policies: Any,
    *,
    context: Sequence[str | int] = (),
    space: Space | None = None,
    logged: Logged | None = None,
    level: float = 0.9,
    seed: int = 0,
) -> Evaluation:
    """Estimate what policies would have earned per decision, from the decisions of a log, with intervals.

    Parameters
    ----------
    log : what :func:`tensorbandits.data.from_log` or :func:`tensorbandits.data.read_log` read, a row per decision, with
        ``propensity=`` the column of the probabilities with which decisions were made. Without these there is only
        what a model expects. Of one that was read with ``kind="revenue"`` the model is that of revenue.
    policies : one, a list, or a dict of names. Each is ``"uniform"``; a trained policy, or a bandit with its space and
        policy, which learns no more: as often as its draws choose a cell, or the cell that it believes best; an arm as
        labels by mode, ``{"offer": "a"}``; an array of the log's shape of probabilities given the context; a function
        of the context levels that returns a cell, such as ``policy.best``; or the name or class of a policy, with
        settings if wanted, as in ``"thompson:rank=2"``, which starts knowing nothing and learns along the log.
    context : modes of the log that are given rather than decided.
    space : the space whose indices the policies know, if it has levels that the log lacks, or rules.
    logged : ``"uniform"`` if each combination was as likely, so that no propensities are needed.
    level : the probability with which an interval holds the value.
    seed : of draws, and of how the log is parted.

    What is returned holds for each policy an estimate by each method: inverse propensity scoring (``"IPS"``), the same
    self-normalised (``"SNIPS"``), doubly robust with the low-rank posterior as reward model, fitted five times without
    the rows that it corrects (``"DR"``), the model alone (``"direct"``), and for learners ``"replay"``. Intervals are
    Student's, with as many degrees of freedom as there are effective rows, less one.

    >>> import pyarrow as pa
    >>> import tensorbandits as tb
    >>> rng = np.random.default_rng(0)
    >>> offer, channel = rng.integers(4, size=2000), rng.integers(3, size=2000)
    >>> table = pa.table({"offer": offer, "channel": channel, "paid": offer * channel + rng.normal(size=2000)})
    >>> log = tb.data.from_log(table, ["offer", "channel"], "paid")
    >>> found = evaluate(log, {"always (3, 2)": {"offer": 3, "channel": 2}}, logged="uniform")
    >>> estimate = found.of("always (3, 2)")
    >>> estimate.method, estimate.low < 6 < estimate.high, found.difference("always (3, 2)").clear
    ('DR', True, True)
    """
    share = check_probability(level, "level")
    rows = Rows.of(log, context, space_of(policies) if space is None else space, logged)
    targets = named(policies, rows)
    kind = cast(Reward, log.ledger.kind or kind_of(log.ledger))
    sources = np.random.SeedSequence(check_count(seed, "seed", least=0)).spawn(2 * len(targets) + 1)
    learners = {
        name: start(target, rows, kind, source)  # before any work, so that a mistake is known at once
        for (name, target), source in zip(targets.items(), sources, strict=False)
        if isinstance(target, PolicyRecipe)
    }
    pieces = {
        name: along(learners[name], rows) if name in learners else [Choices.of(target, rows, np.arange(len(rows)))]
        for name, target in targets.items()
    }
    cells = [rows.cells, *(piece.cells for parts in pieces.values() for piece in parts)]
    model = RewardModel.of(rows, np.concatenate(cells), kind, sources[-1], folds=rows.propensities is not None)
    estimates = [Estimate.of(LOGGED, "mean", rows.rewards, np.ones(len(rows)), share)]
    warnings = log_warnings(rows)
    for (name, target), source in zip(targets.items(), sources[len(targets) :], strict=False):
        found = _estimates(name, pieces[name], rows, model, share)
        if name in learners and rows.propensities is not None:
            own, coins = source.spawn(2)
            accepted = replay(start(target, rows, kind, own), rows, np.random.default_rng(coins))
            found.append(Estimate.of(name, "replay", snips(accepted, rows.rewards), accepted, share))
        estimates += found
        warnings += policy_warnings(name, found, pieces[name], rows)
    return Evaluation(tuple(estimates), tuple(warnings), len(rows), share, log.reward)


def _estimates(name: str, pieces: Sequence[Choices], rows: Rows, model: RewardModel, level: float) -> list[Estimate]:
    """Return the estimates of a policy by each method that can be had."""
    direct = _expected(pieces, rows, model, model.expected[None], np.zeros(len(rows), dtype=np.int64))
    totals = [model.draws[:, model.places(rows, piece.cells)] @ piece.counts(rows) for piece in pieces]
    found = [Estimate.of(name, "direct", direct, np.ones(len(rows)), level, np.asarray(sum(totals) / len(rows)))]
    if rows.propensities is None:
        return found
    weights = np.concatenate([piece.at(rows) for piece in pieces]) / rows.propensities
    of_the_row = model.held_out[model.fold, model.places(rows, rows.cells)]
    of_the_policy = _expected(pieces, rows, model, model.held_out, model.fold)
    robust = doubly_robust(weights, rows.rewards, of_the_row, of_the_policy)
    by_method = {"IPS": ips(weights, rows.rewards), "SNIPS": snips(weights, rows.rewards), "DR": robust}
    return [*(Estimate.of(name, method, part, weights, level) for method, part in by_method.items()), *found]


def _expected(pieces: Sequence[Choices], rows: Rows, model: RewardModel, means: Floats, which: Ints) -> Floats:
    """Return what is expected of a policy in each row's context, (n,), by the one of some means (k, u) that it has."""
    values = np.empty(len(rows))
    for piece in pieces:
        places = model.places(rows, piece.cells)
        by_context = np.array([piece.expected(some[places], rows) for some in means])
        values[piece.rows] = by_context[which[piece.rows], rows.context_of[piece.rows]]
    return values
