"""The route by which deciders get the newest snapshot of a bandit, and wait for the next one."""

from __future__ import annotations

import time
from typing import Annotated

import anyio
from fastapi import Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from tensorbandits.service.engine.host import Host
from tensorbandits.service.engine.publishing import Latest
from tensorbandits.service.http.errors import Responses
from tensorbandits.service.http.routes.router import Name, Router
from tensorbandits.service.http.security import Caller
from tensorbandits.service.http.serving import Served, Serving

router = Router("deciders")

MEDIA = "application/vnd.safetensors"
LONGEST = 60.0  # seconds that somebody may wait
MOST = 1_000  # that wait at one process; others are answered at once
_PAUSE = 0.25  # seconds between two looks
_SNAPSHOT: Responses = {
    200: {"content": {MEDIA: {"schema": {"type": "string", "format": "binary"}}}},
    304: {"description": "There is nothing newer than what If-None-Match names."},
}


@router.route_of("snapshot", response_class=Response, more=_SNAPSHOT)
async def snapshot(
    name: Name,
    request: Request,
    service: Served,
    grant: Caller,
    wait: Annotated[
        float, Query(ge=0, le=LONGEST, description="Seconds to wait for a newer one than If-None-Match names.")
    ] = 0.0,
    known: Annotated[
        str | None, Header(alias="If-None-Match", description="The ETag of the snapshot that the caller has.")
    ] = None,
    decider: Annotated[
        str | None, Header(alias="X-Decider", max_length=100, description="The name of the decider, for the page.")
    ] = None,
) -> Response:
    """Return the newest snapshot, from which `tensorbandits.Decider` decides; 304 if the caller has it already."""
    host = await service.host(name)
    host.deciders.note(decider or grant.name, _version(known))
    latest = await run_in_threadpool(service.engine.publisher.newest, host)
    if _is_known(latest, known) and wait and service.waiting < MOST:
        latest = await _newer(service, host, request, latest, wait)
    said = latest.snapshot
    headers = {"ETag": latest.tag, "Cache-Control": "no-cache", "X-Snapshot-Version": str(said.version)}
    headers |= {"X-Snapshot-Event": str(said.event), "X-Snapshot-Time": repr(said.time)}
    if _is_known(latest, known):
        return Response(status_code=304, headers=headers)
    return Response(latest.content, media_type=MEDIA, headers=headers)


async def _newer(service: Serving, host: Host, request: Request, before: Latest, wait: float) -> Latest:
    """Return the next snapshot, or that of before if there is none in time, or if nobody waits any more."""
    until, latest, publisher = time.monotonic() + wait, before, service.engine.publisher
    service.waiting += 1
    try:
        while latest.tag == before.tag and time.monotonic() < until and service.engine.ready and not host.closed:
            await anyio.sleep(min(_PAUSE, max(until - time.monotonic(), 0.0)))
            if await request.is_disconnected():
                break
            latest = publisher.of(host).latest or latest
    finally:
        service.waiting -= 1
    return latest


def _is_known(latest: Latest, tags: str | None) -> bool:
    """Say whether one of the tags that a caller names is that of the newest snapshot."""
    return tags is not None and any(tag.strip().removeprefix("W/") in (latest.tag, "*") for tag in tags.split(","))


def _version(tags: str | None) -> int | None:
    """The version of the snapshot that a caller has, as its tag says.

    >>> _version('"17-00ff"'), _version("*"), _version(None)
    (17, None, None)
    """
    first = (tags or "").strip().removeprefix("W/").strip('"').partition("-")[0]
    return int(first) if first.isascii() and first.isdigit() and len(first) < 19 else None
