"""Web pages of other origins, and traces that go on here: taken, logged, answered, and as spans of OpenTelemetry."""

import json

import pytest

from tensorbandits.service.tracing import Spans, read_trace
from tests.service.calls import placed

PAGE = "https://shop.example"
ASK = "/v1/bandits/shop/ask"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture
def place():
    with placed(origins=f"{PAGE},http://localhost:5173") as place:
        yield place


def test_a_named_origin_may_ask_beforehand_and_send(place):
    wants = {"Origin": PAGE, "Access-Control-Request-Method": "POST"}
    answer = place.call("OPTIONS", ASK, headers=wants)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["access-control-allow-methods"] == "POST"
    assert "Idempotency-Key" in answer.headers["access-control-allow-headers"]
    assert "Origin" in answer.headers["vary"]
    key = place.key("decide")
    answer = place.call("POST", ASK, key, json={"reward": 1}, headers={"Origin": PAGE, "Sec-Fetch-Site": "cross-site"})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, PAGE)
    assert "X-Request-Id" in answer.headers["access-control-expose-headers"]
    refused = place.call("POST", ASK, json={"reward": 1}, headers={"Origin": PAGE})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, PAGE), (
        "so that pages read why"
    )


def test_other_origins_and_other_questions_get_no_leave(place):
    for origin in ("https://elsewhere.example", "null", f"{PAGE}.elsewhere.example"):
        wants = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        answer = place.call("OPTIONS", ASK, headers=wants)
        assert answer.status_code in (401, 403, 405)
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["vary"] == "Origin"
    assert place.call("OPTIONS", ASK, headers={"Origin": PAGE}).status_code in (401, 405)
    with placed() as other:
        answer = other.call("OPTIONS", ASK, headers={"Origin": PAGE, "Access-Control-Request-Method": "POST"})
        assert answer.status_code in (403, 405)
        assert "access-control-allow-origin" not in answer.headers


def test_without_keys_only_named_origins_may(tmp_path):
    with placed(origins=PAGE) as place:
        for origin, status in ((PAGE, 200), ("https://elsewhere.example", 403)):
            headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
            assert place.call("POST", ASK, json={"reward": 1}, headers=headers).status_code == status


def test_a_trace_is_answered_and_logged(place):
    answer = place.call("GET", "/healthz", headers={"traceparent": PARENT})
    version, trace, span, flags = answer.headers["traceparent"].split("-")
    assert (version, trace, flags) == ("00", TRACE, "01")
    assert span not in PARENT
    assert place.log()[-1]["trace"] == TRACE
    for wrong in ("hello", PARENT.replace(TRACE, "0" * 32), f"ff{PARENT[2:]}", PARENT.upper()):
        answer = place.call("GET", "/healthz", headers={"traceparent": wrong})
        assert "traceparent" not in answer.headers
        assert "trace" not in place.log()[-1]


class Span:
    """A span as OpenTelemetry's kit has it, which remembers what it was told."""

    def __init__(self, above, api):
        self.told, self.ended, self._api = {}, False, api
        self.above = api.get_current_span(above).get_span_context()

    def is_recording(self):
        return True

    def get_span_context(self):
        return self._api.SpanContext(self.above.trace_id or 7, 9, is_remote=False, trace_flags=self._api.TraceFlags(1))

    def update_name(self, name):
        self.told["name"] = name

    def set_attributes(self, attributes):
        self.told |= attributes

    def set_status(self, status):
        self.told["status"] = status.name

    def end(self):
        self.ended = True


def test_spans_of_open_telemetry(place, monkeypatch):
    api = pytest.importorskip("opentelemetry.trace")
    made = []

    class Tracer:
        def start_span(self, name, context=None, kind=None):
            made.append(Span(context, api))
            return made[-1]

    monkeypatch.setattr(api, "get_tracer", lambda name: Tracer())
    answer = place.call("GET", "/healthz", headers={"traceparent": PARENT})
    assert answer.headers["traceparent"] == f"00-{TRACE}-{9:016x}-01"
    assert made[0].ended
    assert made[0].above.span_id == int("b7ad6b7169203331", 16)
    assert made[0].told["name"] == "GET /healthz"
    assert made[0].told["http.response.status_code"] == 200
    assert made[0].told["tensorbandits.request"] == answer.headers["x-request-id"]
    assert place.call("GET", "/healthz").headers["traceparent"].startswith(f"00-{7:032x}-")
    place.call("POST", "/v1/bandits/internal/explain", place.key())
    assert made[-1].told["status"] == "ERROR"


def test_without_a_provider_there_are_no_spans():
    pytest.importorskip("opentelemetry.trace")
    spans, trace = Spans(), read_trace(PARENT.encode())
    assert spans.begin("GET", trace) is None
    assert spans.trace(None, trace) is trace
    spans.end(None, "GET", "/", 200, "r")


def test_lines_of_traces_are_json(place):
    place.call("GET", "/v1/me", headers={"traceparent": PARENT})
    assert json.dumps(place.log()[-1])
