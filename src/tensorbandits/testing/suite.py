"""All checks, and running them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tensorbandits.testing import changes, contract, damage, following, inputs, learning, restrictions, state, threads
from tensorbandits.testing.case import Case, Skipped

Check = Callable[[Case], None]


def checks_of(*modules: ModuleType) -> list[Any]:
    """Return the checks of some modules, in order: the functions whose names begin with ``check_``.

    >>> [check.__name__ for check in checks_of(following)]
    ['check_proposing_changes_nothing', 'check_follows_a_log']
    """
    return [part for module in modules for name, part in vars(module).items() if name.startswith("check_")]


checks: list[Check] = checks_of(contract, inputs, restrictions, changes, following, state, threads, learning, damage)


@dataclass
class Report:
    """Which checks passed, which say nothing of the policy and why, and which failed and how.

    >>> print(Report("ours", ["check_context"], {}, {"check_ranks": "AssertionError: ..."}))
    ours: 1 passed, 0 skipped, 1 failed
    check_ranks: AssertionError: ...
    """

    name: str
    passed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def __str__(self) -> str:
        counts = f"{len(self.passed)} passed, {len(self.skipped)} skipped, {len(self.failed)} failed"
        return "\n".join([f"{self.name}: {counts}", *(f"{name}: {how}" for name, how in self.failed.items())])


def run(case: Case, only: Sequence[Check] | None = None) -> Report:
    """Run all checks over a policy, or ``only`` some of them, and return which passed and which failed how.

    >>> from tensorbandits.testing.contract import check_a_seed_decides_everything
    >>> print(run(Case("ucb"), only=[check_a_seed_decides_everything]))
    ucb: 1 passed, 0 skipped, 0 failed
    """
    return run_each(checks if only is None else only, lambda check: check(case), case.name)


def run_each(some: Sequence[Any], call: Callable[[Any], None], name: str) -> Report:
    """Call each of some checks and return which passed and which failed how."""
    if not __debug__:
        raise RuntimeError("the checks are assertions, which python -O leaves out; run without -O")
    report = Report(name)
    for check in some:
        try:
            call(check)
        except Skipped as reason:
            report.skipped[check.__name__] = str(reason)
        except Exception:
            report.failed[check.__name__] = traceback.format_exc(limit=-3)
        else:
            report.passed.append(check.__name__)
    return report
