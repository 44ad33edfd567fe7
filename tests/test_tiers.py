"""The tiers of tests: what is named exists, and no test is in none."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiers

ROOT = Path(__file__).resolve().parents[1]


def test_every_place_that_is_named_exists():
    assert [place for place in tiers.MEDIUM if not (ROOT / place).exists()] == []


def test_every_test_that_is_named_exists():
    for name in (*tiers.SLOW, *tiers.FEWER):
        place, _, test = name.partition("[")[0].partition("::")
        assert (ROOT / place).exists(), name
        assert not test or f"def {test}(" in (ROOT / place).read_text(), name


@pytest.mark.slow
def test_every_case_that_is_kept_exists():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", *tiers.FEWER]
    found = set(subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines())
    assert [
        one for name, kept in tiers.FEWER.items() for one in map(f"{name}[{{}}]".format, kept) if one not in found
    ] == []


def test_the_makefile_runs_every_test_in_one_of_its_targets():
    """`make test` leaves out exactly what `make test-all` adds."""
    chosen = dict(
        re.findall(r"(?m)^(quick|test|test-all):.*\n\t\$\(PYTEST\) -n \d -m (.*)$", (ROOT / "Makefile").read_text())
    )
    assert chosen == {"quick": '"not medium and not slow"', "test": '"not slow"', "test-all": "slow"}
