"""The conformance suite over every policy of the registry, and over the frame with an oracle of one's own."""

import numpy as np
import pytest

pytest.register_assert_rewrite("tensorbandits.testing")

import tensorbandits as tb  # noqa: E402
from tensorbandits import testing  # noqa: E402
from tensorbandits.policies import registry  # noqa: E402
from tensorbandits.testing import Case  # noqa: E402


def gaussian_oracle(ledger, rng):
    """The exact posterior of unrelated arms with prior N(0, 1) and noise variance 1."""
    N, Y, _ = ledger.dense()
    return Y / (N + 1) + rng.standard_normal(N.shape) / np.sqrt(N + 1)


CASES = [
    Case("thompson", unanswered=20_000),
    Case("ensemble", ensemble_size=8),
    # It keeps to the arms that are still active, and shrinks estimates towards 0.
    Case("elimination", centred=False, maximises=False, patient=False, forgets=False),
    # It learns from its few uniform rounds only.
    Case("epoch-greedy", learns_from_logs=False, rounds=3000, share=0.5),
    Case("ucb", scale_free=False, unanswered=50_000),
    # With c_0 = 0.5 it would explore 3 of 12 cells, and lock onto the best of those on a bad day.
    Case("estr", centred=False, patient=False, forgets=False, share=0.5, unanswered=100_000, c_0=3.0),
    Case(
        tb.ApproximateThompsonSampling,
        name="own-oracle",
        centred=False,
        scale_free=False,
        unanswered=20_000,
        oracle=gaussian_oracle,
        draws=16,
    ),
]


def test_every_policy_of_the_registry_is_here():
    assert {record.name for record in registry.records()} <= {case.name for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("check", testing.checks, ids=lambda check: check.__name__.removeprefix("check_"))
def test_it_conforms(check, case):
    try:
        check(case)
    except testing.Skipped as reason:
        pytest.skip(str(reason))
