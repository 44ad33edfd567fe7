"""A small service in this process that does what the real one promises, with troubles on the way, as ordered."""

import itertools
import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import httpx


class Fake:
    """Decisions and rewards by id, each write once per key.

    ``troubles`` are what becomes of the next requests: ``"away"`` (never reached), ``"lost"`` (done, but the answer
    does not come), ``"slow"`` (done, and then a time-out), an answer to give instead, or ``None`` for none. With
    ``always``, all later requests have that trouble.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.seen = []  # (method, path, headers, body)
        self.done = {}  # answers by key
        self.rewards = {}  # by id
        self.told = []  # (arm, context, reward)
        self.cancelled = set()
        self.troubles, self.always = deque(), None
        self.numbers = itertools.count()

    # What is seen of it.

    @property
    def keys(self):
        return [headers.get("idempotency-key") for _, _, headers, _ in self.seen]

    @property
    def paths(self):
        return [path.rpartition("/")[2] for _, path, _, _ in self.seen]

    @property
    def bodies(self):
        return [json.loads(body) if body else None for _, _, _, body in self.seen]

    # The service.

    def answer(self, method, path, headers, body):
        """Return status, headers and body, as if there were no troubles."""
        key = headers.get("idempotency-key")
        request = (method, path, bytes(body))
        with self.lock:
            if key in self.done:
                before, answer = self.done[key]
                if before != request:
                    return error(409, "key_reused", "the key was used for another request")
                return answer
            answer = self.act(method, urlsplit(path).path, body)
            if key is not None and answer[0] < 300:
                self.done[key] = request, answer
            return answer

    def act(self, method, path, body):
        verb = unquote(path.rpartition("/")[2])
        data = json.loads(body) if body[:1] == b"{" else None
        if path == "/v1/bandits":
            return said({"bandits": [{"name": "offers"}]}) if method == "GET" else said({"name": data["name"]}, 201)
        if method == "DELETE":
            return 204, {}, b""
        if verb == "ask":
            return said(self.decide(data))
        if verb == "ask-many":
            return said({"decisions": [self.decide(one) for one in data["requests"]]})
        if verb == "tell":
            return self.tell(data)
        if verb == "tell-many":
            return said({"results": [json.loads(self.tell(one)[2]) for one in data["rewards"]]})
        if verb in ("cancel", "activate"):
            if data["id"] not in self.rewards:
                return unknown(data["id"])
            self.cancelled |= {data["id"]} if verb == "cancel" else set()
            return said({"id": data["id"], "status": verb, "reward": None, "changed": True})
        if "/decisions/" in path:
            if verb not in self.rewards:
                return unknown(verb)
            reward = self.rewards[verb]
            return said({"id": verb, "status": "open" if reward is None else "rewarded", "reward": reward})
        if verb == "best":
            return said({"arm": {"day": {"date": "2024-02-29"}}})
        return said({"words": "said", "method": method})

    def decide(self, data):
        number = data.get("id") or f"server-{next(self.numbers)}"
        self.rewards[number] = None
        day = {"date": "2024-02-29"}
        made = {"id": number, "arm": {"offer": "b", "day": day}, "context": data["context"], "propensity": 0.5}
        return {**made, "by": "policy", "policy": "thompson", "time": 1e9, "news": "of later"}

    def tell(self, data):
        if "arm" in data:
            self.told.append((data["arm"], data["context"], data["reward"]))
            return said({"id": None, "status": "rewarded", "reward": data["reward"], "changed": True})
        number, reward = data["id"], data["reward"]
        if number not in self.rewards:
            return unknown(number)
        if data.get("add"):
            reward += self.rewards[number] or 0.0
        elif self.rewards[number] not in (None, reward) and not data.get("amend"):
            return error(409, "closed_decision", f"decision {number!r} has the reward {self.rewards[number]:g} already")
        self.rewards[number] = reward
        return said({"id": number, "status": "rewarded", "reward": reward, "changed": True})

    # Two ways to reach it.

    def trouble(self):
        with self.lock:
            return self.troubles.popleft() if self.troubles else self.always

    def __call__(self, request):
        """Answer a request of httpx, without a network."""
        body = request.read()
        trouble, path = self.trouble(), request.url.raw_path.decode()
        self.seen.append((request.method, path, request.headers, body))
        if trouble == "away":
            raise httpx.ConnectError("nobody listens", request=request)
        if isinstance(trouble, tuple):
            return httpx.Response(trouble[0], headers=trouble[1], content=trouble[2])
        status, headers, content = self.answer(request.method, path, request.headers, body)
        if trouble == "lost":
            raise httpx.RemoteProtocolError("the server disconnected", request=request)
        if trouble == "slow":
            raise httpx.ReadTimeout("", request=request)
        return httpx.Response(status, headers=headers, content=content)

    async def awaited(self, request):
        await request.aread()
        return self(request)


def said(data, status=200):
    return status, {"content-type": "application/json"}, json.dumps(data).encode()


def error(status, code, message, headers=None):
    """A trouble, or an answer: an error of the service."""
    found = {"error": {"code": code, "message": message, "request": "r-17"}}
    return status, {"x-request-id": "r-17", **(headers or {})}, json.dumps(found).encode()


def unknown(number):
    return error(404, "unknown_decision", f"no decision has the id {number!r}")


class Listening:
    """The same at a port of this machine, over real connections."""

    def __init__(self, fake):
        self.fake, self.connections = fake, 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self):
                outer.connections += 1
                super().setup()

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                trouble = fake.trouble()
                with fake.lock:
                    fake.seen.append((self.command, self.path, headers, body))
                status, more, content = (
                    trouble if isinstance(trouble, tuple) else fake.answer(self.command, self.path, headers, body)
                )
                if trouble == "lost":  # done, and the connection breaks
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in {**more, "content-length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = handle_one  # noqa: N815

            def log_message(self, *words):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *failure):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
