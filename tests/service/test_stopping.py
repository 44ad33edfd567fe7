"""A server that is told to stop says so first, and serves for a while longer."""

import signal
import time

from tests.service.processes import PATIENCE, Server


def test_a_server_that_is_told_to_stop_is_not_ready_but_serves_for_a_while(tmp_path):
    server = Server(tmp_path / "store.db", drain_seconds=3, log_level="info").ready()
    try:
        bandit = server.create("offers")
        server.signal(signal.SIGTERM)
        told, answer = time.monotonic(), server.http.get("/readyz")
        while answer.status_code == 200:
            assert time.monotonic() - told < 2.5
            answer = server.http.get("/readyz")
        assert answer.status_code == 503
        assert "about to stop" in answer.json()["detail"]
        assert bandit.ask()["id"]
        assert server.http.get("/healthz").status_code == 200
        server.wait(PATIENCE)
        assert time.monotonic() - told > 2.9
        words = server.words()
        assert '"event": "ready"' in words
        assert "told to stop" in words
    finally:
        server.stop()
