"""Settings of all tests."""

import pytest
from hypothesis import settings

# No deadline: the first example of a test may wait for kernels to be compiled. The same examples each time: among
# numbers that differ by rounding only, one in a million is farther apart than any fixed tolerance.
settings.register_profile("tensorbandits", deadline=None, derandomize=True)
settings.load_profile("tensorbandits")


@pytest.fixture(autouse=True)
def registry_as_it_was():
    """What a test registers is forgotten after it."""
    from tensorbandits.policies import registry

    before = dict(registry._RECORDS)
    yield
    registry._RECORDS.clear()
    registry._RECORDS.update(before)
