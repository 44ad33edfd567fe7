"""The middleware that every request passes first: API keys, limits, security headers, metrics and the access log.

It knows nothing of bandits. It gives the request an id, finds out whose key it carries, refuses what is too large, too
often or not allowed before anything is read, and lets no exception out.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Iterable
from random import getrandbits
from time import monotonic, perf_counter
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tensorbandits.service import logs
from tensorbandits.service.engine.actor import ACTOR
from tensorbandits.service.engine.deadline import UNTIL
from tensorbandits.service.http import errors
from tensorbandits.service.http.access import ACCESS, EVERYBODY, route_name
from tensorbandits.service.http.complaints import Complaints
from tensorbandits.service.http.cors import Cors
from tensorbandits.service.http.errors import Problem
from tensorbandits.service.http.keyring import Keys, bearer, refusal_without_key
from tensorbandits.service.http.limits import Buckets, network_of
from tensorbandits.service.http.security import VISIT, Visit
from tensorbandits.service.http.validation import Wrong, short
from tensorbandits.service.settings import Settings, is_loopback
from tensorbandits.service.tracing import Spans, read_trace

if TYPE_CHECKING:
    from tensorbandits.service.metrics import Metrics

_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")
_IMPORT = re.compile(r"/v1/bandits/[^/]+/(features/)?import")
_BANDIT = re.compile(r"/v1/bandits/([^/]{1,200})")
_MANY = re.compile(r"/v1/bandits(/[^/]+(/((ask|tell)-many|features))?)?")  # bodies of a bandit, or of many things
_ONE_LIMIT = 2**20  # bytes of any other body, about one decision, reward or rule
_CALLER_GONE = 499  # the status of a caller who did not wait, in the log only
_OTHER = "other"  # the route of what is no route, as anybody can make up paths
_QUIET = frozenset(("healthz", "readyz", "metrics", "static"))  # asked so often that the log would be of them
_READ_ANYWAY = 16 * 2**20  # bytes of a body that is refused and still read, so that the connection can go on
_CONTENT = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)  # for the page's plotly, which sets styles of what it makes, and turns charts into images of data and blob addresses
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", _CONTENT.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_SUBSCRIPTION = b"ocp-apim-subscription-key"  # in which client libraries of the rank and reward interface send a key
_TIMEOUT, _LONGEST_TIMEOUT = b"x-request-timeout", 3_600.0
_NO_STORE = (b"cache-control", b"no-store")


class Guard:
    """ASGI middleware: ``app.add_middleware(Guard, keys=keys, settings=settings, metrics=metrics)``, the outermost."""

    def __init__(self, app: ASGIApp, *, keys: Keys, settings: Settings, metrics: Metrics) -> None:
        self.app, self._keys, self._settings, self._metrics = app, keys, settings, metrics
        self._least = min(_ONE_LIMIT, settings.body_limit)  # which every body may have
        self._buckets = Buckets(settings.rate, settings.burst)
        self._log, self._requests, self._complaints = logs.get("guard"), logs.Requests(), Complaints()
        self._left: set[asyncio.Task[None]] = set()  # requests that were refused, and are not at their end
        self._cors, self._spans = Cors(settings.origins), Spans()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, method = perf_counter(), scope["method"]
        if method == "HEAD":  # is GET without what it would send
            scope = {**scope, "method": "GET"}
        headers = dict(scope["headers"])
        visit = scope[VISIT] = Visit(_request_id(headers.get(b"x-request-id")))
        visit.trace = read_trace(headers.get(b"traceparent"))
        span = self._spans.begin(method, visit.trace)
        visit.trace = self._spans.trace(span, visit.trace)
        length = _length(headers)
        reply = _Reply(send, visit, private=scope["path"].startswith(("/v1/", "/metrics")), bare=method == "HEAD")
        reply.more += self._cors.headers(headers.get(b"origin", b""))
        try:
            if (beforehand := self._cors.preflight(method, scope["path"], headers)) is not None:
                await reply.send({"type": "http.response.start", "status": 204, "headers": beforehand})
                await reply.send({"type": "http.response.body", "body": b""})
                return
            problem = await self._check_caller(scope, headers, visit)
            limit = self._limit(scope) if length < 0 or length > self._least else self._least
            if problem is None and length > limit:
                problem = _too_large(limit)
            seconds = _seconds(headers[_TIMEOUT]) if _TIMEOUT in headers else None
            if problem is None:
                work = self.app(scope, receive if length >= 0 else _counting(receive, limit, reply), reply.send)
                await (work if seconds is None else self._within(seconds, work, reply))
            else:
                visit.problem = problem
                self._metrics.refused(problem.code)
                await reply.refuse(problem, close=length > _READ_ANYWAY or b"transfer-encoding" in headers)
        except ClientDisconnect:
            reply.status = reply.status or _CALLER_GONE
        except Exception as error:
            await self._failed(error, reply, visit)
        finally:
            route = self._record(scope, method, visit, reply.status or _CALLER_GONE, perf_counter() - began)
            self._spans.end(span, method, route, reply.status or _CALLER_GONE, visit.id)

    async def _check_caller(self, scope: Scope, headers: dict[bytes, bytes], visit: Visit) -> Problem | None:
        """Find out what the caller may do; return why the request is refused, if it is."""
        client = scope.get("client")
        address = client[0] if client else ""
        path, keys = scope["path"], self._keys
        api = path.startswith("/v1/")
        token = bearer(headers.get(b"authorization", b"")) or headers.get(_SUBSCRIPTION)
        try:
            if token is not None and (known := keys.known(token)) is not None:
                visit.grant = known
            elif keys.open:
                named = self._cors.allowed(headers.get(b"origin", b""))
                if (problem := _from_elsewhere(headers, api and not named)) is not None:
                    return problem
                visit.grant = EVERYBODY
            elif token is not None:
                visit.grant = await keys.grant(token, address)
            else:
                visit.refusal = refusal_without_key()
        except Exception as error:
            visit.refusal = errors.explain(error)
            if visit.refusal.code == "internal":
                raise
        grant = visit.grant
        if grant is not None:
            ACTOR.set(grant.name)
        wait = self._buckets.take(grant.id if grant is not None and grant.id else network_of(address))
        if wait > 0:
            rate = self._settings.rate
            return Problem("too_many", f"more than {rate:g} requests a second; send fewer, or many in one", retry=wait)
        return visit.refusal if grant is None and api else None  # before any of its body is read

    async def _within(self, seconds: float, work: Awaitable[None], reply: _Reply) -> None:
        """Have a request answered in time, or refuse it; what is being written is finished: it cannot be taken back."""
        before = UNTIL.set(monotonic() + seconds)
        task = asyncio.ensure_future(work)  # which keeps the context of now
        UNTIL.reset(before)
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if done or reply.status:  # an answer that has begun is sent to its end
            return await task
        reply.over = True
        self._left.add(task)
        task.add_done_callback(self._leave)
        raise Problem(
            "deadline",
            f"the {seconds:g} s of {_TIMEOUT.decode()} have passed; what was not written by then is not written any "
            "more, but what was being written may be there: the same request with the same Idempotency-Key, or GET of "
            "the decision by an id of yours, says so",
        )

    def _leave(self, task: asyncio.Task[None]) -> None:
        """Forget a request that was refused before it ended."""
        self._left.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, ClientDisconnect):
            self._log.error("error after a deadline", exc_info=error)

    def _limit(self, scope: Scope) -> int:
        """The largest body that this route takes."""
        if scope["method"] == "POST" and _IMPORT.fullmatch(scope["path"]) is not None:
            return self._settings.import_limit
        return self._settings.body_limit if _MANY.fullmatch(scope["path"]) is not None else self._least

    async def _failed(self, error: Exception, reply: _Reply, visit: Visit) -> None:
        """Tell the caller of an error of ours no more than that there was one; the log gets all."""
        problem = visit.problem = reply.instead or errors.explain(error)
        if problem.code == "internal":
            self._log.error("internal error", request=visit.id, exc_info=error)
        if reply.status:  # half an answer is sent: it must break off, or it would look whole
            raise ConnectionAbortedError(f"the answer to request {visit.id} broke off") from None
        await reply.refuse(problem, close=False)

    def _record(self, scope: Scope, method: str, visit: Visit, status: int, seconds: float) -> str:
        """Count the request, and write it down; return its route."""
        route = scope["route"].name if "route" in scope else route_name(scope["method"], scope["path"])
        access = ACCESS.get(route) if route is not None else None
        template = _OTHER if access is None else access.path
        self._metrics.request(method, template, status, seconds)
        key = visit.grant.id if visit.grant is not None else ""
        trace = visit.trace.trace if visit.trace is not None else ""
        if status >= 500:
            problem = visit.problem or visit.refusal
            code, reason = (problem.code, problem.message) if problem is not None else ("", "")
            found = _BANDIT.match(scope["path"])
            more = {"method": method[:20], "status": status, "ms": round(1000 * seconds, 3), "key": key}
            more |= {"trace": trace} if trace else {}
            self._complaints.write((code, found[1] if found else "", template), reason, request=visit.id, **more)
        else:
            level = "debug" if route in _QUIET else "info"
            self._requests.write(level, visit.id, method, template, status, seconds, key, trace)
        return template


class _Reply:
    """The way of an answer back: adds the headers, remembers the status, and can take the place of the app's answer."""

    __slots__ = ("_bare", "_dropping", "_private", "_send", "_visit", "instead", "more", "over", "status")

    def __init__(self, send: Send, visit: Visit, private: bool, bare: bool = False) -> None:
        self._send, self._visit, self._private, self._bare = send, visit, private, bare
        self.status, self._dropping = 0, False
        self.more: list[tuple[bytes, bytes]] = []  # headers of this answer
        self.instead: Problem | None = None
        self.over = False  # whether something else was answered already

    async def send(self, message: Message) -> None:
        """Send a message of the app."""
        if self.over:
            return
        if message["type"] == "http.response.start":
            if self.instead is not None:
                self._dropping = True
                await self.refuse(self.instead, close=True)
                return
            self.status = message["status"]
            message["headers"] = self._headers(message.get("headers", ()))
        elif self._dropping:
            return
        elif self._bare:
            self._dropping = True
            await self._send({"type": "http.response.body", "body": b""})
            if message.get("more_body"):
                raise ClientDisconnect  # the rest need not be made
            return
        await self._send(message)

    def _headers(self, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Add the headers of every answer."""
        found = [*headers, *HEADERS, (b"x-request-id", self._visit.id.encode())]
        found += self.more
        if self._visit.trace is not None:
            found.append((b"traceparent", self._visit.trace.header))
        if self._private:
            found.append(_NO_STORE)
        return found

    async def refuse(self, problem: Problem, close: bool) -> None:
        """Answer with a problem; ``close`` ends the connection, when too much would be left to read."""
        content = problem.body(self._visit.id)
        headers = [(b"content-type", errors.MEDIA.encode()), (b"content-length", str(len(content)).encode())]
        headers += [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
        if close:
            headers.append((b"connection", b"close"))
        self.status = problem.status
        start = {"type": "http.response.start", "status": problem.status, "headers": self._headers(headers)}
        await self._send(start)
        await self._send({"type": "http.response.body", "body": b"" if self._bare else content})


def _request_id(given: bytes | None) -> str:
    """The caller's id of the request if it is one that a log can hold, or a new one."""
    if given and _ID.fullmatch(given) and b"tb_" not in given:  # a key is no id
        return given.decode()
    return f"{getrandbits(64):016x}"  # it is no secret


def _seconds(given: bytes) -> float:
    """The seconds in which a request wants to be answered."""
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LONGEST_TIMEOUT:
        name, words = _TIMEOUT.decode(), short(given[:60].decode("latin-1"))
        told = f"the header {name} is {words}; give seconds, above 0 and at most {_LONGEST_TIMEOUT:g}"
        raise Problem("invalid", told, wrong=[Wrong(("header", name), told)])
    return seconds


def _length(headers: dict[bytes, bytes]) -> int:
    """How long the body says it is; -1 if that is not known."""
    given = headers.get(b"content-length", b"")
    if b"transfer-encoding" in headers:
        return -1
    return int(given) if given.isdigit() and len(given) < 19 else -1


def _counting(receive: Receive, limit: int, reply: _Reply) -> Receive:
    """Receive a body that does not say how long it is, until it is too long."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > limit:
                reply.instead = _too_large(limit)  # whatever the app makes of the error
                raise reply.instead
        return message

    return counted


def _too_large(limit: int) -> Problem:
    shown = f"{limit / 2**20:g} MiB" if limit >= 2**20 else f"{limit} bytes"
    return Problem("too_large", f"the body is larger than {shown}, the most that is read; send it in parts")


def _from_elsewhere(headers: dict[bytes, bytes], api: bool) -> Problem | None:
    """Refuse what comes from another machine or another site while nobody is asked for a key.

    The service then listens on loopback, but a proxy may pass on what comes from outside, and a browser on this
    machine may be made to send requests by any page that it shows, also under a name that was pointed to loopback.
    """
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if not is_loopback(host if host.endswith("]") else host.rpartition(":")[0] or host):
        return Problem(
            "forbidden",
            f"there are no API keys, so only localhost is answered, but this came for {short(host)}; make "
            "a key: tensorbandits keys add NAME --role admin",
        )
    origin = headers.get(b"origin", b"").decode("latin-1").lower()
    other = origin and origin.rpartition("//")[2] != host
    if api and (other or headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site")):
        return Problem("forbidden", "there are no API keys, so requests of other sites' pages are refused; make a key")
    return None
