"""Which tests take seconds, start processes or need a server: ``make test`` runs them, ``make quick`` does not.

A folder or a file is named here once; a single test elsewhere has ``@pytest.mark.medium``. What takes longer, or is
statistics of many runs, is marked ``slow`` where it stands, and only ``make test-all`` runs it; of such a test
``make test`` keeps a smaller form: fewer seeds, half of the combinations, one of several signals or ways to start
processes. Measured times decide: ``make test PYTEST_ARGS=--durations=40``. ``make quick`` has 90 seconds on two cores
with kernels compiled already, ``make test`` 5 minutes.
"""

MEDIUM = (
    "tests/bandit/test_bandit_machine.py",
    "tests/bandit/test_comparison.py",
    "tests/bandit/test_drift.py",
    "tests/bandit/test_figures.py",
    "tests/bandit/test_hostile.py",
    "tests/bandit/test_many_modes.py",
    "tests/base/test_compiled.py",
    "tests/benchmarks",
    "tests/cli",
    "tests/client/test_page.py",
    "tests/client/test_service.py",
    "tests/evaluate",
    "tests/model/test_joint.py",
    "tests/paper",
    "tests/policies/test_elimination.py",
    "tests/policies/test_guard.py",
    "tests/policies/test_law.py",
    "tests/policies/test_revenue.py",
    "tests/service/test_apprentice.py",
    "tests/service/test_attack.py",
    "tests/service/test_bodies.py",
    "tests/service/test_connections.py",
    "tests/service/test_durability.py",
    "tests/service/test_fuzz.py",
    "tests/service/test_hostile.py",
    "tests/service/test_hung_replica.py",
    "tests/service/test_measured.py",
    "tests/service/test_page.py",
    "tests/service/test_policies.py",
    "tests/service/test_random_orders.py",
    "tests/service/test_replicas.py",
    "tests/service/test_restart.py",
    "tests/service/test_revenue.py",
    "tests/service/test_strange.py",
    "tests/service/test_time.py",
    "tests/service/test_together.py",
    "tests/service/test_troubles.py",
    "tests/sim/test_backends.py",
    "tests/sim/test_compare.py",
    "tests/sim/test_digests.py",
    "tests/sim/test_log_world.py",
    "tests/sim/test_results.py",
    "tests/sim/test_simulate.py",
    "tests/store/test_fairness.py",
    "tests/store/test_migrations.py",
    "tests/store/test_processes.py",
    "tests/store/test_stopped.py",
    "tests/study",
    "tests/test_docs.py",
)
FIXTURES = frozenset({"postgres", "postgres_url"})  # a test that uses one of these is medium wherever it stands
