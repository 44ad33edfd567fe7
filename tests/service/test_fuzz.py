"""Made-up requests to every route, with every key and none; ``python -m benchmarks.service.fuzz`` sends more."""

import pytest

from benchmarks.service.fuzz import Report, World, fuzz
from tensorbandits.service.http.access import ACCESS
from tests.service.served import Service


@pytest.mark.parametrize(
    ("keyed", "requests"),
    [
        pytest.param(False, 110, id="open", marks=pytest.mark.slow),
        pytest.param(True, 110, id="keys", marks=pytest.mark.slow),
        pytest.param(True, 45, id="keys, fewer requests"),
    ],
)
def test_no_answer_is_an_error_of_ours_or_not_as_described(tmp_path, keyed, requests):
    report = Report()
    with Service(tmp_path / "own.db", rate=0) as service:
        world = World(service.url, keyed)
        fuzz(world, requests, 0, report)
        world.session.close()
    assert not report.failures, report.words()
    assert set(report.callers) == set(world.keys)
    routes = {"view" if route.startswith("view_") else route for route in report.routes}  # each view is described
    assert routes == set(ACCESS) - {"page", "docs", "static", "openapi"}
