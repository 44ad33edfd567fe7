"""The samplers of all structures: which one a structure has, made from the prior or from a saved state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from tensorbandits.base.checks import Cell
from tensorbandits.model.described import NOT_DESCRIBED, DescribedModes
from tensorbandits.model.gibbs import Chain, Structure
from tensorbandits.model.likelihood import Likelihood, Units
from tensorbandits.model.pairs import PairsChain

AnyChain = Chain | PairsChain

_FEW_MODES = 4  # main effects of more modes are sampled as pairs without interactions: no core of 2^d entries


def draws_together(structure: Structure, modes: int) -> bool:
    """Say whether a structure is sampled by :class:`PairsChain`.

    >>> draws_together("pairs", 2), draws_together("additive", 12), draws_together("additive", 3)
    (True, True, False)
    """
    return structure == "pairs" or (structure == "additive" and modes > _FEW_MODES)


def columns_of(structure: Structure, rank: Cell) -> Cell:
    """Return the columns that a sampler of pairs has for a structure: none for main effects alone."""
    return rank if structure == "pairs" else (0,) * len(rank)


def chain_from_prior(
    structure: Structure,
    shape: Cell,
    rank: Cell,
    units: Units,
    rng: np.random.Generator,
    *,
    likelihood: Likelihood,
    decay: float = 1.0,
    residual: bool = False,
    features: DescribedModes = NOT_DESCRIBED,
) -> AnyChain:
    """Return the sampler of a structure, with everything drawn from the prior; the rank counts free columns."""
    more: dict[str, Any] = {"likelihood": likelihood, "residual": residual, "features": features}
    if draws_together(structure, len(shape)):
        return PairsChain.from_prior(shape, columns_of(structure, rank), units, rng, **more)
    return Chain.from_prior(shape, rank, units, rng, structure=structure, decay=decay, **more)


def chain_from_state(
    state: Mapping[str, Any],
    structure: Structure,
    shape: Cell,
    rank: Cell,
    likelihood: Likelihood,
    features: DescribedModes = NOT_DESCRIBED,
) -> AnyChain:
    """Return the sampler that its ``state()`` described, which must be of this structure, shape and rank."""
    found = state["structure"]
    if found not in get_args(Structure):
        raise ValueError(f"the chain's structure is {found!r}; it is one of {', '.join(get_args(Structure))}")
    if found != structure:
        raise ValueError(f"the chain is {found}; the policy's structure is {structure}")
    if draws_together(structure, len(shape)) and "gammas" not in state:  # main effects had a core of 2^d entries once
        return PairsChain.from_state(state, shape, columns_of(structure, rank), likelihood, features)
    return Chain.from_state(state, shape, rank, likelihood, features)
