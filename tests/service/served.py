"""The service over HTTP: in a thread of this process, at a port that is free, with what tests ask of it."""

import itertools
import threading
import time
from urllib.parse import quote

import httpx
import uvicorn

from tensorbandits.service.http.app import create_app
from tensorbandits.service.run import server_options
from tensorbandits.service.settings import Settings

MODES = {"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}
_NUMBERS = itertools.count(1)


class Service:
    """An application that serves a store, and a client of it; ``with`` starts and stops it."""

    def __init__(self, store, **settings):
        self.store, self._settings = str(store), {"log_level": "error", "key_seconds": 0.1} | settings
        self.headers = {}

    def __enter__(self):
        settings = Settings.read({}, store=self.store, **self._settings)
        self.app = create_app(settings)
        config = uvicorn.Config(self.app, host="127.0.0.1", port=0, lifespan="on", **server_options(settings))
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.01)
            assert self._thread.is_alive(), "the service did not start"
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"
        self.http = httpx.Client(base_url=self.url, timeout=120, headers=self.headers)
        return self

    def __exit__(self, *_):
        self.http.close()
        self._server.should_exit = True
        self._thread.join()

    @property
    def engine(self):
        """The bandits of the process, and the threads that write and learn."""
        return self.app.state.serving.engine

    def restarted(self):
        """Return another service of the same store, not yet started."""
        return Service(self.store, **self._settings)

    def create(self, name=None, modes=MODES, *, context=("segment",), **settings):
        """Make a bandit, by default with a new name, and return it."""
        name = name or f"bandit-{next(_NUMBERS)}"
        body = {"name": name, "modes": modes, "context": [mode for mode in context if mode in modes], "rank": 1}
        answer = self.http.post("/v1/bandits", json=body | settings)
        assert answer.status_code == 201, answer.text
        return Served(self, name)

    def bandit(self, name):
        """Return a bandit by its name, whether it is there or not."""
        return Served(self, name)


class Served:
    """A bandit of a service, by HTTP: each method sends one request and returns what its JSON says."""

    def __init__(self, service, name):
        self.service, self.name = service, name

    def send(self, method, path="", *, key=None, **request):
        """Send a request about the bandit and return the response."""
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.service.http.request(method, f"/v1/bandits/{self.name}{path}", headers=headers, **request)

    def post(self, path, body=None, *, key=None, status=200):
        """Send JSON, and return the answer, whose status must be as said; an error's code and message are kept."""
        answer = self.send("POST", path, key=key, json={} if body is None else body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def refused(self, path, body, status, code, *, key=None, method="POST"):
        """Send JSON that must be refused, and return the message."""
        answer = self.send(method, path, key=key, json=body)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (status, code), answer.text
        assert answer.headers["x-request-id"] == error["request"]
        return error["message"]

    def ask(self, segment="new", *, key=None, **body):
        """Ask for a decision."""
        context = {} if segment is None else {"context": {"segment": segment}}
        return self.post("/ask", context | body, key=key)

    def tell(self, id, reward, *, key=None, **body):
        """Tell the reward of a decision."""
        return self.post("/tell", {"id": id, "reward": reward} | body, key=key)

    def look_up(self, id):
        """Return a decision and what became of it."""
        answer = self.send("GET", f"/decisions/{quote(id, safe='')}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def detail(self):
        """Return how the bandit is made and what it has seen."""
        answer = self.send("GET")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def patch(self, key=None, **changes):
        """Change settings."""
        answer = self.send("PATCH", key=key, json=changes)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def events(self, **query):
        """Return events."""
        answer = self.send("GET", "/events", params={"limit": 1000} | query)
        assert answer.status_code == 200, answer.text
        return answer.json()["events"]

    def kinds(self):
        """Return the kinds of all events, in order."""
        return [event["kind"] for event in self.events()]

    def ledger(self):
        """Return what the process has learned, as plain data: rewards of each cell, and their number and sum."""
        return ledger(self.core)

    @property
    def core(self):
        """The core of the bandit in the process that serves it."""
        return self.service.engine.find(self.name).core


def ledger(core):
    """Return the ledger of a bandit as plain data, in the order of its cells."""
    with core.learner.still():
        state = core.policy.copy_ledger().state()
    return {name: getattr(value, "tolist", lambda value=value: value)() for name, value in state.items()}


def until(condition, *, seconds=60.0):
    """Wait for a condition, and return what it returns; generous, as machines may be busy."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.02)
    return found
