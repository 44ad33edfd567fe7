"""The tiers of tests: what is named exists, and no test is in none."""

import re
from pathlib import Path

from tests import tiers

ROOT = Path(__file__).resolve().parents[1]


def test_every_place_that_is_named_exists():
    assert [place for place in tiers.MEDIUM if not (ROOT / place).exists()] == []


def test_every_test_that_is_named_exists():
    for name in tiers.SLOW:
        place, _, test = name.partition("[")[0].partition("::")
        assert (ROOT / place).exists(), name
        assert not test or f"def {test}(" in (ROOT / place).read_text(), name


def test_the_makefile_runs_every_test_in_one_of_its_targets():
    """`make test` leaves out exactly what `make test-all` adds."""
    chosen = dict(
        re.findall(r"(?m)^(quick|test|test-all):.*\n\t\$\(PYTEST\) -n \d -m (.*)$", (ROOT / "Makefile").read_text())
    )
    assert chosen == {"quick": '"not medium and not slow"', "test": '"not slow"', "test-all": "slow"}
