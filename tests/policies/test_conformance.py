"""The conformance suite over every policy of the registry, and over the frame with an oracle of one's own."""

import math
from itertools import product

import numpy as np
import pytest

pytest.register_assert_rewrite("tensorbandits.testing")

import tensorbandits as tb  # noqa: E402
from tensorbandits import testing  # noqa: E402
from tensorbandits.policies import registry  # noqa: E402
from tensorbandits.testing import Case, changes, damage, learning, restrictions, threads  # noqa: E402
from tensorbandits.testing.suite import checks_of  # noqa: E402


def gaussian_oracle(ledger, rng):
    """The exact posterior of unrelated arms with prior N(0, 1) and noise variance 1."""
    N, Y, _ = ledger.dense()
    return Y / (N + 1) + rng.standard_normal(N.shape) / np.sqrt(N + 1)


CASES = [
    Case("thompson", unanswered=10_000, draws=16),
    Case("thompson", name="thompson-pairs", unanswered=10_000, draws=16, structure="pairs"),
    # Logarithms round the unit of rewards, and noise about large means is no noise of their logarithms. Rewards of
    # these checks are never 0 in some cells and always in others, which a sharpened posterior takes for settled.
    Case(
        "thompson",
        name="revenue",
        reward="revenue",
        exploration=1.0,
        centred=False,
        scale_free=False,
        trials=False,
        unanswered=2_000,
        threaded=500,
        draws=16,
    ),
    Case(
        "thompson",
        name="revenue-signed",
        reward="revenue-signed",
        exploration=1.0,
        centred=False,
        trials=False,
        unanswered=2_000,
        threaded=500,
        draws=16,
    ),
    Case("ensemble", unanswered=50_000, ensemble_size=8),
    # It keeps to the arms that are still active, and shrinks estimates towards 0.
    Case("elimination", centred=False, maximises=False, patient=False, unanswered=50_000),
    # It learns from its few uniform rounds only.
    Case("epoch-greedy", rounds=3000, share=0.5, unanswered=50_000),
    Case("ucb", scale_free=False, unanswered=50_000),
    # With c_0 = 0.5 it would explore 3 of 12 cells, and lock onto the best of those on a bad day.
    Case("estr", centred=False, patient=False, share=0.5, unanswered=50_000, c_0=3.0),
    Case(
        tb.ApproximateThompsonSampling,
        name="own-oracle",
        centred=False,
        scale_free=False,
        unanswered=10_000,
        oracle=gaussian_oracle,
        draws=16,
    ),
]


# Those that take seconds over all cases.
LONG = [
    *checks_of(damage),
    changes.check_a_fading_past_follows_a_change,
    learning.check_late_rewards_are_learned,
    learning.check_few_rewards_are_learned,
    threads.check_unanswered_asks_are_bounded,
]


def test_every_policy_of_the_registry_is_here():
    assert {record.name for record in registry.records()} <= {case.name for case in CASES}


# Those that take a second with tensors of pairs, and guard the same there as elsewhere.
LONG_PAIRS = [*LONG, changes.check_growth, restrictions.check_only_allowed_cells_are_chosen]


def every_check():
    """Every check of every case; those of revenue, and most of damage, are slow: they have tests of their own."""
    for check, case in product(testing.checks, CASES):
        slow = case.name in ("revenue", "revenue-signed") or (case.name == "thompson-pairs" and check in LONG_PAIRS)
        slow = slow or (check in checks_of(damage) and case.name not in ("thompson", "ucb"))
        marks = pytest.mark.slow if slow else pytest.mark.medium if check in LONG else ()
        yield pytest.param(check, case, marks=marks, id=f"{check.__name__.removeprefix('check_')}-{case.name}")


@pytest.mark.parametrize(("check", "case"), list(every_check()))
def test_it_conforms(check, case):
    try:
        check(case)
    except testing.Skipped as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
def test_many_more_unanswered_asks_of_epoch_greedy_are_bounded():
    threads.check_unanswered_asks_are_bounded(Case("epoch-greedy"))


def test_elimination_that_keeps_all_arms_has_the_largest_estimate_of_all():
    restrictions.check_the_best_allowed_cell_equals_brute_force(Case("elimination", confidence=1e6))


@pytest.mark.slow  # each check runs for each case in the other tests; here they are counted
def test_ten_thousand_requests_are_restricted(monkeypatch):
    """The checks of restrictions over all cases pose so many requests that leave something out, and none is missed."""
    real, restricted = tb.Policy.query, []

    def counted(policy, levels=(), allowed=None):
        query = real(policy, levels, allowed)
        restricted.append(len(query.arms()) < math.prod(policy.shape[j] for j in policy.decided))
        return query

    monkeypatch.setattr(tb.Policy, "query", counted)
    posed = [
        restrictions.check_only_allowed_cells_are_chosen,
        restrictions.check_the_best_allowed_cell_equals_brute_force,
    ]
    for case in CASES:
        assert testing.run(case, only=posed).ok
    assert sum(restricted) >= 10_000


def test_two_thousand_states_and_files_are_damaged(monkeypatch):
    """So many over all cases: each case as many as one that is checked in this process, where they are counted."""
    read = []
    for name in ("from_state_dict", "load"):
        real = getattr(tb.Policy, name)
        monkeypatch.setattr(tb.Policy, name, lambda *given, real=real, **more: read.append(1) or real(*given, **more))
    local = type("Local", (tb.VectorizedUCB,), {"__module__": "__main__"})
    assert testing.run(Case(local), only=checks_of(damage)).ok
    assert len(CASES) * len(read) >= 2000


class Careless(tb.VectorizedUCB):
    """Chooses whatever is asked, changes when it is looked at, and takes any state."""

    def _choose(self, query, rng):
        return (0,) * len(self.shape)

    def _correct(self, cell, old, new, note, weight):
        pass

    def _best(self, query):
        self._tables[0] += 1
        return super()._best(query)

    def _restore(self, state):
        self._tables = np.asarray(state["tables"])


class Impatient(tb.VectorizedUCB):
    """Counts a pull when it decides, so that no other process can follow it, and says that it grows any mode."""

    def _choose(self, query, rng):
        cell = super()._choose(query, rng)
        self._tables[(0, *cell)] += 1
        return cell

    def _issue(self, cell, note):
        pass

    def refusal_to_grow(self, shape):
        self._tables[0] += 1


class Forgetful(tb.VectorizedUCB):
    """Saves nothing, forgets by turning counts around, and grows by starting afresh."""

    def _state(self):
        return {"tables": np.zeros_like(self._tables)}

    def _fade(self, factor):
        self._tables[1:] *= -factor

    def _grow(self, shape):
        self._tables = np.zeros((3, *shape))
        self._bound()

    def _observe_ledger(self, ledger):
        pass


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Careless, "check_context"),
        (Careless, "check_looking_changes_nothing"),
        (Careless, "check_only_allowed_cells_are_chosen"),
        (Careless, "check_a_request_that_allows_nothing_is_refused"),
        (Careless, "check_it_learns"),
        (Careless, "check_a_corrected_reward_counts_as_if_it_had_been_told"),
        (Careless, "check_late_rewards_are_learned"),
        (Careless, "check_damaged_states_are_refused"),
        (Impatient, "check_proposing_changes_nothing"),
        (Impatient, "check_follows_a_log"),
        (Impatient, "check_a_refusal_to_grow_is_known_beforehand"),
        (Forgetful, "check_growth"),
        (Forgetful, "check_a_fading_past_stays_sound"),
        (Forgetful, "check_a_ledger_told_equals_its_rewards_told"),
        (Forgetful, "check_a_state_goes_on_identically"),
        (Forgetful, "check_a_file_goes_on_identically"),
    ],
)
def test_the_suite_finds_what_is_broken(kind, name):
    (check,) = (check for check in testing.checks if check.__name__ == name)
    report = testing.run(Case(kind, name="broken"), only=[check])
    assert list(report.failed) == [name]
    assert "broken: 0 passed, 0 skipped, 1 failed" in str(report)
