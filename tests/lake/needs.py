"""What tests need that may not be installed: they say so when they are skipped, and are not skipped in CI."""

import os
from typing import NoReturn

import pytest


def missing(why: str) -> NoReturn:
    """Skip a test that something is missing for, or fail it where every test has to run."""
    if os.environ.get("CI"):
        pytest.fail(f"{why}, and CI runs every test")
    pytest.skip(why)
