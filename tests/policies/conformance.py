"""The policies that must pass the conformance suite. A new policy only has to join this list."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorbandits as tb


@dataclass(frozen=True)
class Case:
    """How to make a policy: a factory (shape, rank, context, seed, horizon) and what the policy can do."""

    name: str
    kind: type
    takes_context: bool = True
    takes_rank: bool = True
    takes_horizon: bool = False
    scale_free: bool = True
    arguments: tuple[tuple[str, Any], ...] = ()

    def make(self, shape, *, rank=2, context=(), seed=0, horizon=500, **more):
        arguments = dict(self.arguments) | {"context": context, "seed": seed} | more
        if self.takes_rank:
            arguments["rank"] = rank
        if self.takes_horizon:
            arguments["horizon"] = horizon
        return self.kind(shape, **arguments)


def gaussian_oracle(ledger, rng):
    """The exact posterior of unrelated arms with prior N(0, 1) and noise variance 1."""
    N, Y, _ = ledger.dense()
    return Y / (N + 1) + rng.standard_normal(N.shape) / np.sqrt(N + 1)


POLICIES = [
    Case("thompson", tb.TensorThompsonSampling),
    Case("ensemble", tb.TensorEnsembleSampling, arguments=(("ensemble_size", 8),)),
    Case("elimination", tb.TensorElimination, takes_context=False, takes_horizon=True),
    Case("epoch-greedy", tb.TensorEpochGreedy),
    Case("ucb", tb.VectorizedUCB, takes_rank=False, scale_free=False),
    # With c_0 = 0.5 it would explore 3 of 12 cells, and lock onto the best of those on a bad day.
    Case("estr", tb.MatricizedESTR, takes_context=False, takes_horizon=True, arguments=(("c_0", 3.0),)),
    Case(
        "own-oracle",
        tb.ApproximateThompsonSampling,
        takes_rank=False,
        scale_free=False,
        arguments=(("oracle", gaussian_oracle), ("draws", 16)),
    ),
]
