"""Views of what is believed: heat maps of two modes, main effects and interactions, best arms, levels that moved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorbandits.bandit import beliefs
from tensorbandits.bandit.beliefs import Beliefs
from tensorbandits.bandit.checkup import Checkup
from tensorbandits.bandit.core import Core
from tensorbandits.bandit.drift import NEWS
from tensorbandits.policies import registry
from tensorbandits.policies.approximate import as_modelling
from tensorbandits.policies.explanation import FeatureShares
from tensorbandits.service.page.views.parts import MOST, Floats, retired
from tensorbandits.space import Space
from tensorbandits.space.labels import Label
from tensorbandits.tensor.allowed import Allowed

_BEST = MOST // 2  # of the most levels that are shown, how many are the best; the others are the worst
_MOST_CELLS = 250_000  # that a heat map looks at; more take long, and much memory


def heat(
    bandit: Core, rows: str | None, columns: str | None, fixed: Mapping[str, Label], level: float
) -> dict[str, Any]:
    """Return estimates and widths of their intervals for all levels of two modes.

    Other modes are at ``fixed`` labels, or else averaged over. What may not be chosen is null. Of more than 40 levels
    of a mode those with the highest estimates are shown.
    """
    with bandit.known() as (space, _):
        kind = getattr(bandit.policy, "reward", None)
        if len(space.modes) < 2:
            return {"kind": kind, "why": "There is only one mode, and a heat map needs two: see main effects instead."}
        modes = None if rows is None and columns is None else _two(space, rows, columns)
        wide = level if bandit.policy.traits.samples else None
        first = sorted(range(len(space.modes)), key=lambda mode: mode in space.context)  # those that are decided
        shown = first[:2] if modes is None else [space.position(mode) for mode in modes]
        if (count := math.prod(space.shape[mode] for mode in shown)) > _MOST_CELLS:
            names = " and ".join(space.modes[mode] for mode in shown)
            return {
                "kind": kind,
                "why": f"{names} have {count:,} combinations, too many to look at: choose other modes.",
            }
        found = beliefs.table(space, bandit.policy, modes, fixed, wide)
        kept = [_highest(found.estimate, 1 - at) for at in (0, 1)]
        at = np.ix_(*kept)
        return {
            "kind": kind,
            "level": level,
            "rewards": bandit.policy.ledger.rounds - bandit.policy.pseudo.rounds,
            "modes": found.modes,
            "rows": [str(found.labels[0][at]) for at in kept[0]],
            "columns": [str(found.labels[1][at]) for at in kept[1]],
            "left_out": [len(labels) - len(some) for labels, some in zip(found.labels, kept, strict=True)],
            "estimate": found.estimate[at],
            "width": None if found.width is None else found.width[at],
            "others": found.others,
        }


def effects(bandit: Core, level: float) -> dict[str, Any]:
    """Return the mean reward of every level with typical partners, and what modes have alone and together.

    ``effect`` is on the scale that is named; ``own`` is the share of what is believed of a level that comes from its
    own rewards. Of more than 40 levels the best and the worst 20 are shown. ``matters`` says how far rewards
    tell how much modes matter, alone and together: ``interactions`` are what is believed, at first what was assumed.
    """
    policy = as_modelling(bandit.policy)
    if policy is None:
        return {"why": f"The policy {_name(bandit)} believes in no tensor that could be explained."}
    with bandit.known() as (space, _):
        found = beliefs.believed(space, policy, None, 1, level)
    shares = [(part, found.explanation.shares[part]) for part in found.parts()]
    checked = bandit.findings()
    return {
        "kind": policy.reward,
        "level": level,
        "rewards": found.rewards,
        "pseudo": found.pseudo,
        "scale": found.scale,
        "modes": [_of_mode(found, space, mode) for mode in range(len(space.modes))],
        "matters": _matters(checked),
        "interactions": [
            {"part": found.part(part), "modes": len(part), "share": share, "low": low, "high": high}
            for part, (share, low, high) in shares
        ],
    }


def arms(bandit: Core, context: Mapping[str, Label], count: int, level: float) -> dict[str, Any]:
    """Return the best allowed arms in a context, with the intervals of their mean rewards, and rewards so far.

    Context modes that are not given are at their first label that is not retired.
    """
    policy = as_modelling(bandit.policy)
    if policy is None:
        return {"why": f"The policy {_name(bandit)} knows no intervals of mean rewards."}
    with bandit.known() as (space, _):
        given = {space.modes[mode]: _first(space, mode) for mode in space.context} | dict(context)
        query = policy.query(space.given(given), Allowed.of(Allowed(forbidden=space.forbidden), space.shape))
        decided = [mode for mode in range(len(space.modes)) if mode not in space.context]
        with policy.still():
            found = beliefs.best_arms(policy, [query], count, level)
            pseudo = policy.pseudo
            counts = [max(policy.ledger[cell].rounds - pseudo[cell].rounds, 0.0) for cell in found.cells.tolist()]
        return {
            "kind": getattr(policy, "reward", None),
            "level": level,
            "rewards": policy.ledger.rounds - policy.pseudo.rounds,
            "context": {mode: space.level(mode, label) for mode, label in given.items()},
            "modes": [space.modes[mode] for mode in decided],
            "arms": [
                {
                    "labels": [str(space.levels[mode][cell[mode]]) for mode in decided],
                    **dict(zip(("estimate", "low", "high"), numbers, strict=True)),
                    "rewards": told,
                }
                for cell, numbers, told in zip(found.cells.tolist(), found.numbers.tolist(), counts, strict=True)
            ],
        }


def drift(bandit: Core) -> dict[str, Any]:
    """Return which levels have moved, or that it cannot be told yet, how modes act, and what can be done about both.

    It may take seconds. ``matters`` is what the view of effects says, too. Of the ``actions``, each has the change that
    does it, and the one that takes it back, as methods of a bandit with their arguments.
    """
    found = bandit.findings()
    moved = [{**one._asdict(), "label": None if one.label is None else str(one.label)} for one in found.moved]
    return {
        "kind": getattr(bandit.policy, "reward", None),
        "verdict": found.drift.verdict,
        "words": found.words,
        "moved": moved,
        "evidence": found.evidence,
        "news": NEWS,
        "rewards": found.rewards,
        "needed": found.drift.needed,
        "unjudged": {mode: [str(label) for label in labels] for mode, labels in found.drift.unjudged.items()},
        "matters": _matters(found),
        "structure": found.matters.words,
        "suggested": found.structure.structure,
        "rank": found.structure.rank,
        "actions": [one._asdict() for one in found.actions],
    }


def _matters(found: Checkup) -> dict[str, Any]:
    """How much modes matter alone and together, as far as rewards tell."""
    matters, share = found.matters, found.matters.together
    together = None if share is None else dict(zip(("share", "low", "high"), share, strict=True))
    return {
        "verdict": matters.verdict,
        "known": matters.known,
        "together": together,
        "needed": matters.needed,
        "words": matters.words,
    }


def _two(space: Space, rows: str | None, columns: str | None) -> list[str]:
    """Two modes, of which one may be left to choose."""
    named = [space.modes[space.position(mode)] if mode is not None else None for mode in (rows, columns)]
    decided = [mode for at, mode in enumerate(space.modes) if at not in space.context]
    others = [mode for mode in (*decided, *space.modes) if mode not in named]
    return [mode if mode is not None else others[0] for mode in named]


def _highest(values: Floats, axis: int) -> NDArray[np.int64]:
    """The positions of as many rows or columns with the highest means as can be shown, ascending."""
    known = ~np.isnan(values)
    means = np.where(known, values, 0.0).sum(axis=axis) / np.maximum(known.sum(axis=axis), 1)
    means = np.where(known.any(axis=axis), means, -np.inf)
    return np.sort(np.argsort(-means, kind="stable")[:MOST])


def _of_mode(found: Beliefs, space: Space, mode: int) -> dict[str, Any]:
    """The levels of a mode, the best first."""
    typical, own = found.explanation.typical[mode], found.explanation.own
    said = found.explanation.features.get(mode)
    order = np.argsort(-typical[:, 0], kind="stable")
    shown = order if len(order) <= MOST else np.concatenate([order[:_BEST], order[_BEST - MOST :]])
    gone = retired(space, mode)
    return {
        "mode": space.modes[mode],
        "context": mode in space.context,
        "left_out": len(order) - len(shown),
        "middle": typical[:, 0].mean(),
        "features": None if said is None else _explained(found, mode, said),
        "levels": [
            {
                "text": str(space.levels[mode][level]),
                "retired": level in gone,
                **dict(zip(("reward", "low", "high"), typical[level].tolist(), strict=True)),
                "effect": found.explanation.effects[mode][level, 0],
                "own": None if own is None else own[mode][level],
                **({} if said is None else _apart(said, level)),
                "rewards": found.told[mode][level],
            }
            for level in shown.tolist()
        ],
        "alike": [[str(space.levels[mode][level]) for level in group] for group in found.explanation.alike[mode]],
    }


def _explained(found: Beliefs, mode: int, said: FeatureShares) -> dict[str, Any]:
    """How much of what levels differ by features explain, and which, the more telling first."""
    parts = sorted(zip(found.features_of(mode), said.parts.tolist(), strict=True), key=lambda part: -part[1][0])
    return {
        **dict(zip(("share", "low", "high"), said.share.tolist(), strict=True)),
        "left_out": len(parts[MOST:]),
        "parts": [
            {"feature": name, **dict(zip(("share", "low", "high"), numbers, strict=True))}
            for name, numbers in parts[:MOST]
        ],
    }


def _apart(said: FeatureShares, level: int) -> dict[str, dict[str, float]]:
    """The two parts of a level's effect: what its features say, and what is its own."""
    pairs = (("by_features", said.said), ("by_itself", said.own))
    return {name: dict(zip(("mean", "low", "high"), part[level].tolist(), strict=True)) for name, part in pairs}


def _first(space: Space, mode: int) -> Label:
    gone = retired(space, mode)
    return next((label for level, label in enumerate(space.levels[mode]) if level not in gone), space.levels[mode][0])


def _name(bandit: Core) -> str:
    return registry.find(type(bandit.policy)).name
