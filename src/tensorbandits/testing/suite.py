"""All checks, and running them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tensorbandits.testing import changes, contract, damage, following, inputs, learning, restrictions, state, threads
from tensorbandits.testing.case import Case, Skipped

Check = Callable[[Case], None]

checks: list[Check] = [
    check
    for module in (contract, inputs, restrictions, changes, following, state, threads, learning, damage)
    for check in module.CHECKS
]


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
    if not __debug__:
        raise RuntimeError("the checks are assertions, which python -O leaves out; run without -O")
    report = Report(case.name)
    for check in checks if only is None else only:
        try:
            check(case)
        except Skipped as reason:
            report.skipped[check.__name__] = str(reason)
        except Exception:
            report.failed[check.__name__] = traceback.format_exc(limit=-3)
        else:
            report.passed.append(check.__name__)
    return report
