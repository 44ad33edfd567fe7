"""The application of a decide server: the routes of the service that need no database, answered by deciders.

Requests and answers are those of the service, so that its clients work here too. Ids are tokens: an id that a caller
gives is taken for the key of a request that may come again, and the answer has its own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any

from starlette.types import Receive, Scope, Send

from tensorbandits.bandit.settings import named
from tensorbandits.decider.decider import Decider, DeciderClosedError, Question, SnapshotDecision
from tensorbandits.decider.following import NoSnapshotError
from tensorbandits.decider.sending import SinkFullError
from tensorbandits.policies.registry import find
from tensorbandits.service.deciding.repeats import RepeatedAnswers
from tensorbandits.service.http import errors, schemas
from tensorbandits.service.http.access import methods
from tensorbandits.service.http.errors import Problem, unknown_bandit
from tensorbandits.service.http.fingerprint import fingerprint
from tensorbandits.service.http.keyring import Keys
from tensorbandits.service.http.security import VISIT, Visit, authorise
from tensorbandits.service.http.serving import allowed_labels, to_json
from tensorbandits.service.metrics import Metrics
from tensorbandits.space.labels import written

_BANDIT = re.compile(r"/v1/bandits/([A-Za-z0-9][A-Za-z0-9._-]{0,99})(?:/([a-z-]+))?")
_KEY = re.compile(r"[\x21-\x7e]{1,200}")
_POSTS = {"ask": "ask", "ask-many": "ask_many", "tell": "tell", "tell-many": "tell_many", "best": "best"}
_PLAIN = {"/healthz": "healthz", "/readyz": "readyz", "/metrics": "metrics", "/v1/bandits": "list_bandits"}
_ELSEWHERE = "a decide server has no such route; it decides and takes rewards, and the service that learns has the rest"
_JSON = b"application/json"
_SECONDS = 1.0  # between two looks at what deciders do, for the metrics


class DecideApp:
    """An ASGI application: ``Guard(DecideApp(deciders, keys, metrics), ...)``."""

    def __init__(
        self,
        deciders: Sequence[Decider],
        keys: Keys,
        metrics: Metrics,
        started: Callable[[], None] | None = None,
    ) -> None:
        self._deciders, self._keys, self._metrics, self._started = list(deciders), keys, metrics, started
        self._repeats = RepeatedAnswers()
        self._counted: dict[str, dict[str, int]] = {}  # of each bandit, what the metrics know

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or start and stop."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        visit: Visit = scope[VISIT]
        try:
            status, content, media = await self._answer(scope, receive)
            headers: dict[str, str] = {}
        except Exception as error:
            problem = _explained(error)
            if problem.code == "internal":
                raise
            visit.problem = problem
            status, content, media, headers = (
                problem.status,
                problem.body(visit.id),
                errors.MEDIA.encode(),
                problem.headers,
            )
        pairs = [(b"content-type", media), (b"content-length", b"%d" % len(content))]
        pairs += [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": content})

    # Starting and stopping.

    async def _live(self, receive: Receive, send: Send) -> None:
        counting: asyncio.Task[None] | None = None
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await asyncio.to_thread(self._keys.start)
                counting = asyncio.create_task(self._count_on())
                if self._started is not None:
                    self._started()
                await send({"type": "lifespan.startup.complete"})
            else:
                if counting is not None:
                    counting.cancel()
                await asyncio.gather(*(asyncio.to_thread(decider.close) for decider in self._deciders))
                await asyncio.to_thread(self._keys.stop)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _count_on(self) -> None:
        while True:
            self._count()
            await asyncio.sleep(_SECONDS)

    def _count(self) -> None:
        ready = 0
        for decider in self._deciders:
            status = decider.status()
            if status["bandit"] is not None:
                ready += 1
                before = self._counted.get(status["bandit"], {})
                self._counted[status["bandit"]] = self._metrics.deciding(status, before)
        self._metrics.ready(float(ready == len(self._deciders)))
        self._metrics.serving(ready)

    # Answering.

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes, bytes]:
        path, method = scope["path"], scope["method"]
        found = _BANDIT.fullmatch(path)
        name, verb = (found[1], found[2]) if found is not None else (None, None)
        route = _PLAIN.get(path) if found is None else "get_bandit" if verb is None else _POSTS.get(verb)
        if route is None:
            raise Problem("not_found", _ELSEWHERE if methods(path) else "there is nothing at this address")
        wanted = "POST" if verb is not None else "GET"
        if method != wanted:
            raise Problem("method", f"this address has no such method; allowed is {wanted}", headers={"Allow": wanted})
        scope["path_params"] = {} if name is None else {"name": name}
        if route not in ("healthz", "readyz"):
            authorise(scope, route)
        if name is None:
            return await self._plain(scope, route)
        decider = self._decider(name)
        if verb is None:
            return 200, to_json(_detail(decider)), _JSON
        content, key = await _body(receive, scope["headers"]), _idempotency(scope["headers"])
        return 200, await _ROUTES[route](self, name, decider, content, key), _JSON

    async def _plain(self, scope: Scope, route: str) -> tuple[int, bytes, bytes]:
        if route == "healthz":
            return 200, to_json({"status": "ok"}), _JSON
        if route == "metrics":
            self._count()
            return 200, await asyncio.to_thread(self._metrics.text), self._metrics.content_type.encode()
        ready = [decider.status() for decider in self._deciders]
        if route == "readyz":
            missing = [
                f"{one['source']}: {one['problem'] or 'nothing published yet'}" for one in ready if one["age"] is None
            ]
            if missing:
                raise Problem("unavailable", f"there is no snapshot yet of {'; '.join(missing)}", retry=1)
            return 200, to_json({"status": "ready", "bandits": len(ready)}), _JSON
        grant = scope[VISIT].grant
        seen = [_said(one) for one in ready if one["bandit"] is not None and grant.sees(one["bandit"])]
        return 200, to_json({"bandits": seen}), _JSON

    def _decider(self, name: str) -> Decider:
        missing = False
        for decider in self._deciders:
            snapshot = decider.snapshot
            missing = missing or snapshot is None
            if snapshot is not None and snapshot.name == name:
                return decider
        if missing:
            raise Problem("unavailable", "not all snapshots are there yet; try again in a second", retry=1)
        raise unknown_bandit(name)

    async def _ask(self, name: str, decider: Decider, content: bytes, key: str | None) -> bytes:
        return self._once(
            name,
            "ask",
            schemas.AskBody.model_validate_json(content),
            key,
            lambda body: self._asked(name, decider, body),
        )

    def _once(self, name: str, route: str, body: Any, key: str | None, answer: Callable[[Any], Any]) -> bytes:
        """Answer a request, or, if it came with a key before, as it was answered then."""
        own = getattr(body, "id", None) or key
        if own is None:
            return to_json(answer(body))
        mark, place = fingerprint(route, body.meant()), f"{name} {own}"
        known = self._repeats.find(place, mark)
        if known is None:
            known = to_json(answer(body))
            self._repeats.put(place, mark, known)
        return known

    def _asked(self, name: str, decider: Decider, body: schemas.AskBody) -> dict[str, Any]:
        asked = _question(body)
        decision = decider.ask(asked.context, allowed=asked.allowed, played=asked.played, propensity=asked.propensity)
        self._metrics.decided(name)
        return _written(decision)

    async def _ask_many(self, name: str, decider: Decider, content: bytes, key: str | None) -> bytes:
        def answer(body: schemas.AskManyBody) -> dict[str, Any]:
            made = decider.ask_each([_question(one) for one in body.requests])
            self._metrics.decided(name, len(made))
            return {"decisions": [_written(one) for one in made]}

        return self._once(name, "ask_many", schemas.AskManyBody.model_validate_json(content), key, answer)

    async def _tell(self, name: str, decider: Decider, content: bytes, key: str | None) -> bytes:
        return to_json(self._told(name, decider, schemas.TellBody.model_validate_json(content)))

    def _told(self, name: str, decider: Decider, body: schemas.TellBody) -> dict[str, Any]:
        if body.id is None or body.arm is not None or body.context is not None or body.trials is not None:
            raise ValueError(
                "a decide server takes the reward of a decision, by its id; tell that of an arm to the service"
            )
        if body.add:
            raise ValueError("a decide server does not add rewards up; tell the sum, with amend")
        decider.tell(body.id, body.reward, amend=body.amend)
        self._metrics.rewarded(name)
        return {"id": body.id, "status": "rewarded", "reward": float(body.reward), "changed": True}

    async def _tell_many(self, name: str, decider: Decider, content: bytes, key: str | None) -> bytes:
        results: list[dict[str, Any]] = []
        for at, body in enumerate(schemas.TellManyBody.model_validate_json(content).rewards):
            try:
                results.append(self._told(name, decider, body))
            except Exception as error:
                problem = _explained(error)
                if problem.status >= 500:
                    raise
                results.append({"error": {"code": problem.code, "message": problem.message}})
            if at % 50 == 49:
                await asyncio.sleep(0)  # decisions come in between
        return to_json({"results": results})

    async def _best(self, name: str, decider: Decider, content: bytes, key: str | None) -> bytes:
        given = schemas.Best.model_validate_json(content).given()
        arm = decider.best(named(given.get("context")), allowed=allowed_labels(given))
        return to_json({"arm": {mode: written(label) for mode, label in arm.items()}})


_ROUTES: dict[str, Callable[..., Awaitable[bytes]]] = {
    "ask": DecideApp._ask,
    "ask_many": DecideApp._ask_many,
    "tell": DecideApp._tell,
    "tell_many": DecideApp._tell_many,
    "best": DecideApp._best,
}


def _question(body: schemas.AskBody) -> Question:
    """What an ask says."""
    if not body.activate or body.subject is not None:
        raise ValueError(
            "a decide server has no activate and no subject: a decision counts as shown when it is made, and nothing "
            "but its id is kept of it; ask the service where you need them"
        )
    given = body.given()
    played = None if given.get("played") is None else named(given["played"])
    return Question(named(given.get("context")), allowed_labels(given), played, given.get("propensity"))


def _written(decision: SnapshotDecision) -> dict[str, Any]:
    """A decision as the service says it, with its snapshot."""
    arm = {mode: written(label) for mode, label in decision.arm.items()}
    context = {mode: written(label) for mode, label in decision.context.items()}
    found = {"id": decision.id, "arm": arm, "context": context, "propensity": decision.propensity, "by": decision.by}
    found |= {"policy": _short(decision.policy), "time": decision.time}
    found |= {"snapshot": decision.snapshot, "draw": decision.draw}
    if decision.would:
        found["would"] = {mode: written(label) for mode, label in decision.would.items()}
    return found


def _said(status: dict[str, Any]) -> dict[str, Any]:
    """What is said of a bandit."""
    return {"name": status["bandit"], **{name: value for name, value in status.items() if name != "bandit"}}


def _detail(decider: Decider) -> dict[str, Any]:
    """A bandit, as far as its snapshot says."""
    snapshot = decider.snapshot
    if snapshot is None:
        raise Problem("unavailable", "the snapshot is not there yet; try again in a second", retry=1)
    space = snapshot.space
    levels = zip(space.modes, space.levels, strict=True)
    return {
        **_said(decider.status()),
        "policy": _short(snapshot.policy),
        "reward": snapshot.reward,
        "modes": {mode: [written(label) for label in labels] for mode, labels in levels},
        "context": [space.modes[at] for at in space.context],
        "rules": [
            {what: {mode: _label(label) for mode, label in labels.items()} for what, labels in rule.items()}
            for rule in space.rules
        ],
    }


@lru_cache
def _short(policy: str) -> str:
    """The name of a policy over HTTP; that of its class if it is not known here, where nothing of it is needed."""
    try:
        return find(policy).name
    except ValueError:
        return policy


def _label(label: Any) -> Any:
    return [written(one) for one in label] if isinstance(label, list) else written(label)


def _explained(error: Exception) -> Problem:
    if isinstance(error, (DeciderClosedError, NoSnapshotError)):
        return Problem("unavailable", str(error), retry=1)
    if isinstance(error, SinkFullError):
        return Problem("unavailable", str(error), retry=5)
    return errors.explain(error)


async def _body(receive: Receive, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The body of a request, which says that it is JSON."""
    kinds = [value.partition(b";")[0].strip().lower() for name, value in headers if name == b"content-type"]
    if kinds != [_JSON]:
        raise Problem("invalid", "the body must be JSON, with the header Content-Type: application/json")
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b"".join(parts)
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _idempotency(headers: Sequence[tuple[bytes, bytes]]) -> str | None:
    """The key of a request that may come again."""
    found = [value.decode("latin-1") for name, value in headers if name == b"idempotency-key"]
    if not found:
        return None
    if len(found) > 1 or _KEY.fullmatch(found[0]) is None:
        raise Problem("invalid", "Idempotency-Key is 1 to 200 printable characters without spaces; send one")
    return found[0]
