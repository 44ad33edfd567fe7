"""The route that tells programs what changes, as it happens: server-sent events of changes and alerts of a bandit.

Whoever takes ``text/event-stream``, as an ``EventSource`` does, is told for as long as it listens. Everybody else gets
what there is, and may ask again.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Annotated, Any

import anyio
from anyio.to_thread import run_sync
from fastapi import Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from tensorbandits.bandit.changes import described
from tensorbandits.service.engine.host import Host
from tensorbandits.service.http.errors import Problem, Responses
from tensorbandits.service.http.routes.router import Name, Router
from tensorbandits.service.http.serving import Served, Serving
from tensorbandits.store.errors import QuarantinedError

router = Router("looking")

MEDIA = "text/event-stream"
MOST = 200  # that listen to one process
PAUSE = 1.0  # seconds between two looks
ALIVE = 15.0  # seconds after which something is said, so that it is noticed when nobody listens any more
_VERDICT = 10.0  # seconds between looks at the uplift
_TOLD = ("better", "worse", "suspect")  # verdicts that are worth an alert
_STREAM: Responses = {200: {"content": {MEDIA: {"schema": {}}}}}


@router.route_of("stream", response_class=Response, more=_STREAM)
async def stream(
    name: Name,
    request: Request,
    service: Served,
    after: Annotated[int | None, Query(ge=0, le=2**62, description="Changes with a larger number only.")] = None,
    last: Annotated[str | None, Header(alias="Last-Event-ID", description="As `after`; browsers send it.")] = None,
) -> Response:
    """Tell changes and alerts of a bandit as server-sent events, for as long as somebody listens.

    An event `change` has what `changes` lists, and its number as id, so that a listener which comes back misses
    nothing. An event `alert` says that the bandit is quarantined, or that the verdict on its uplift has become better,
    worse or suspect; `end` that it was deleted. Without the header `Accept: text/event-stream` the answer ends with
    what there is now.
    """
    host = await service.host(name)
    known = after if after is not None else int(last) if last is not None and last.isdigit() and len(last) < 19 else 0
    watch = Watch(host, known)
    if MEDIA not in request.headers.get("accept", ""):
        return Response("".join(watch.news()), media_type=MEDIA)
    if service.listeners >= MOST:
        raise Problem("too_many", f"{MOST} programs listen to this process already; ask again later", retry=30)
    return StreamingResponse(_told(service, watch), media_type=MEDIA, headers={"X-Accel-Buffering": "no"})


class Watch:
    """What one listener knows of a bandit, and what is news to it."""

    def __init__(self, host: Host, known: int) -> None:
        self.host, self._known = host, known
        self._seq = -1  # of the log at the last look
        self._quarantined: str | None = None
        self._verdict: str | None = None

    def news(self) -> Iterator[str]:
        """Yield events for what has changed since the last look."""
        if self.host.quarantined != self._quarantined:
            self._quarantined = self.host.quarantined
            if self._quarantined is not None:
                yield event("alert", {"kind": "quarantined", "words": self._quarantined, "time": time.time()})
        if self._quarantined is None and self.host.seq != self._seq:
            self._seq = self.host.seq
            for row in self.host.core.state.changelog.rows():
                if row["number"] > self._known:
                    self._known = row["number"]
                    yield event("change", described(row), self._known)

    def judged(self, uplift: dict[str, Any] | None) -> Iterator[str]:
        """Yield an event if the verdict on the uplift has become another one that is worth it."""
        verdict = None if uplift is None else uplift["verdict"]
        if verdict != self._verdict:
            self._verdict = verdict
            if uplift is not None and verdict in _TOLD:
                yield event("alert", {"kind": "uplift", **uplift, "time": time.time()})


def event(kind: str, data: dict[str, Any], id: int | None = None) -> str:
    """Return a server-sent event.

    >>> event("change", {"number": 7}, 7)
    'event: change\\nid: 7\\ndata: {"number": 7}\\n\\n'
    """
    number = "" if id is None else f"id: {id}\n"
    return f"event: {kind}\n{number}data: {json.dumps(data, ensure_ascii=False)}\n\n"


async def _told(service: Serving, watch: Watch) -> AsyncIterator[str]:
    """Yield events until the bandit ends, or nobody listens any more."""
    host = watch.host
    service.listeners += 1
    try:
        yield "retry: 3000\n\n"
        looked = said = -ALIVE
        while service.engine.known(host.name) is host and not host.closed:
            now = time.monotonic()
            some = list(watch.news())
            if now - looked >= _VERDICT and host.quarantined is None:
                looked = now
                some += watch.judged(await run_sync(partial(_uplift, service, host), limiter=service.view_threads))
            if some or now - said >= ALIVE:
                said = now
                yield "".join(some) or ": nothing new\n\n"
            await anyio.sleep(PAUSE)
        yield event("end", {"words": f"bandit {host.name!r} is not served here any more"})
    finally:
        service.listeners -= 1


def _uplift(service: Serving, host: Host) -> dict[str, Any] | None:
    """The uplift of a bandit, worked out once for all who listen."""

    def look() -> dict[str, Any]:
        found = host.core.uplift(service.engine.clock.now())
        return {"verdict": found.verdict, "words": found.words}

    try:
        told: dict[str, Any] = json.loads(service.view_cache.get((host.id, "verdict"), "verdict", look))
    except QuarantinedError:
        return None
    return told
