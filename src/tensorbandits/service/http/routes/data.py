"""Routes that show what a bandit believes and what happened, and that import and export logs."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Literal

from anyio.to_thread import run_sync
from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from tensorbandits.bandit import reporting, warm_start
from tensorbandits.bandit.commands import Import
from tensorbandits.bandit.settings import named
from tensorbandits.service.engine import forgetting, orders
from tensorbandits.service.engine.host import Host
from tensorbandits.service.http import export, formats, imports, previews, schemas
from tensorbandits.service.http.errors import Responses
from tensorbandits.service.http.formats import FORMATS
from tensorbandits.service.http.routes.router import Name, Router
from tensorbandits.service.http.security import Caller
from tensorbandits.service.http.serving import Key, Served, Serving, reply, to_json
from tensorbandits.service.page.views import ViewSource
from tensorbandits.service.page.views import view as make_view
from tensorbandits.service.page.views.parts import plain
from tensorbandits.space.labels import Label
from tensorbandits.store import Event

router = Router("looking")

_MOST = 1_000  # events at once
_MOST_OVERVIEWS = 100
Seq = Annotated[int, Query(ge=0, le=2**62)]
_FILE = {"schema": {"type": "string", "format": "binary"}}
_FILES: Responses = {200: {"content": {form.media: _FILE for form in FORMATS.values()}}}
_TEXT = {"schema": {"type": "string"}}
_PAGES: Responses = {200: {"content": {"text/html": _TEXT, "text/markdown": _TEXT}}}
_LOG = {
    "requestBody": {
        "required": True,
        "content": {form.media: dict(_FILE) for form in FORMATS.values()},
    }
}


@router.route_of("explain", response_model=schemas.BeliefsAnswer)
async def explain(name: Name, body: schemas.Explain, service: Served) -> Response:
    """Say what is believed: main effects, interactions, levels that are alike, best arms. It may take seconds."""
    host = await service.host(name)
    return reply(await run_in_threadpool(_explained, host, body))


def _explained(host: Host, body: schemas.Explain) -> dict[str, Any]:
    context = None if body.context is None else named(body.given().get("context"))
    levels = host.core.space.given(context) if context else None
    found = host.core.explain(levels, level=body.level, arms=body.arms)
    tables = {"effects": found.effects, "interactions": found.shares, "alike": found.alike, "arms": found.arms}
    tables["features"] = found.features
    rows = {name: plain(_rows(table)) for name, table in tables.items()}
    return {"words": repr(found), "scale": found.scale, **rows}


def _rows(frame: Any) -> list[dict[str, Any]]:
    import narwhals as nw

    return list(nw.from_native(frame).iter_rows(named=True))


@router.route_of("diagnose", response_model=schemas.DiagnosisAnswer)
async def diagnose(name: Name, service: Served) -> Response:
    """Say which structure the rewards speak for, and which levels have moved. It takes some seconds."""
    host = await service.host(name)
    found = await run_in_threadpool(host.core.diagnose)
    moved = [{part: getattr(one, part) for part in ("mode", "label", "ago", "before", "after")} for one in found.moved]
    return reply(plain({"words": found.words, "structure": repr(found.structure), "moved": moved}))


@router.route_of("history", response_model=schemas.HistoryAnswer)
async def history(
    name: Name, service: Served, mode: Annotated[str | None, Query(description="Of each level of this mode.")] = None
) -> Response:
    """Return decisions and rewards over time, in at most 100 blocks of equally many decisions, the holdout's apart."""
    host = await service.host(name)
    return reply({"history": plain(_rows(await run_in_threadpool(host.core.history, mode)))})


@router.route_of("report", response_class=Response, more=_PAGES)
async def report(
    name: Name,
    service: Served,
    since: Annotated[
        str, Query(max_length=40, description="A duration before now, such as 7d, or a date.", examples=["7d"])
    ] = "7d",
    form: Annotated[Literal["html", "md"], Query(alias="format", description="One HTML page, or Markdown.")] = "html",
) -> Response:
    """Return a report for people who were not there: uplift, what was learned, what moved, what to do next."""
    host, now = await service.host(name), service.engine.clock.now()
    begin = reporting.began(since, now)

    def made() -> str:
        return reporting.document(reporting.gather(host.core, name=host.name, begin=begin, now=now), form)

    text = await run_sync(made, limiter=service.view_threads)
    headers = {"Content-Disposition": f'inline; filename="{host.name}-report.{form}"'}
    return Response(text, media_type=f"text/{'html' if form == 'html' else 'markdown'}", headers=headers)


@router.route_of("list_events", response_model=schemas.EventsAnswer)
async def list_events(
    name: Name,
    service: Served,
    after: Seq = 0,
    limit: Annotated[int, Query(ge=1, le=_MOST)] = 100,
    newest: Annotated[bool, Query(description="Whether to begin with the newest, whatever came after.")] = False,
) -> Response:
    """Return events, in their order; or the newest ones, the last first."""
    host = await service.host(name)

    def read() -> list[Event]:
        if newest:
            return service.store.tail(host.id, limit)
        return list(service.store.events(host.id, max(after, service.store.base(host.id)), limit=limit, verify=False))

    events = await run_in_threadpool(read)
    return reply({"events": [host.shown(event) for event in events]})


@router.route_of("export", response_class=Response, more=_FILES)
async def export_log(
    name: Name,
    service: Served,
    what: Literal["decisions", "events"] = "decisions",
    after: Seq = 0,
    form: Annotated[formats.Name, Query(alias="format", description="JSON lines are jsonl.")] = "parquet",
) -> Response:
    """Return decisions with their rewards, or events, as a file: Parquet, CSV, or JSON lines."""
    host = await service.host(name)
    first = max(after, await run_in_threadpool(service.store.base, host.id))
    pieces = (export.decisions if what == "decisions" else export.events)(service.store, host, first, form)
    headers = {"Content-Disposition": f'attachment; filename="{host.name}-{what}.{form}"'}
    return StreamingResponse(pieces, media_type=FORMATS[form].media, headers=headers)


@router.route_of("import_log", "key_reused", response_model=schemas.Imported, openapi_extra=_LOG)
async def import_log(
    name: Name,
    request: Request,
    service: Served,
    reward: Annotated[str, Query(description="The column of rewards.")],
    trials: Annotated[str | None, Query(description="The column of trials, if rewards are sums.")] = None,
    columns: Annotated[str | None, Query(description="Columns named otherwise than their modes, as JSON.")] = None,
    fixed: Annotated[str | None, Query(description="The label of modes that have no column, as JSON.")] = None,
    unknown: Literal["error", "skip", "add", "retire"] | None = None,
    missing: Literal["error", "drop"] = "error",
    weight: Annotated[float, Query(gt=0, le=1)] = 1.0,
    features: Annotated[
        str | None,
        Query(
            description="Columns that say what levels are like, as JSON: lists of them, by mode. Unknown levels are "
            "added as retired ones then: they teach what features say."
        ),
    ] = None,
    key: Key = None,
) -> Response:
    """Learn the rewards of a log; all of them, or none.

    The body is a Parquet file, a CSV file with the names of its columns on top, or JSON lines; it may be compressed by
    gzip.
    """
    host = await service.host(name)
    mapped, constant = _mapping(columns, "columns"), _labels(_mapping(fixed, "fixed"))
    space, rows = host.core.space, service.settings.import_rows
    named_as = {mode: mapped.get(mode, mode) for mode in space.modes if mode not in constant}
    numbers = [name for mode, one in space.regions.items() if mode not in constant for name in one.numbers]
    texts = [
        named_as.get(mode, mode)
        for mode, labels in zip(space.modes, space.levels, strict=True)
        if mode not in space.regions and any(isinstance(label, str) for label in labels)
    ]
    labelled = [column for mode, column in named_as.items() if mode not in space.regions]
    said = _columns_by_mode(features)
    own = [mapped.get(one, one) for one in numbers] + [column for some in said.values() for column in some]
    wanted = list(dict.fromkeys([*labelled, reward, *([] if trials is None else [trials]), *own]))

    def read(upload: imports.Upload) -> warm_start.Past:
        with imports.table(upload, wanted, texts, rows, service.settings.import_limit) as frame:
            for mode, partition in warm_start.to_learn(space, frame, mapped, constant).items():
                service.engine.submit(orders.learn_regions(host, mode, partition)).result()
            policy, now = host.core.policy, host.core.space
            return warm_start.past_of_log(now, policy, frame, reward, trials, mapped, constant, missing, None, said)

    asked = repr((reward, trials, columns, fixed, unknown or "error", missing, weight, *([features] if said else [])))
    async with imports.received(request, asked) as upload, service.imports:
        past = await run_in_threadpool(read, upload)
    command = Import(past, constant, unknown, weight)
    order = await run_in_threadpool(orders.import_log, host, command, upload.digest, key)
    return reply(await service.write(order))


def _mapping(text: str | None, what: str) -> dict[str, Any]:
    try:
        found = {} if text is None else json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or (what == "columns" and not all(isinstance(one, str) for one in found.values())):
        raise ValueError(f'{what} is {str(text)[:60]!r}; give a JSON object, a value for some modes: {{"offer": "a"}}')
    return found


def _columns_by_mode(text: str | None) -> dict[str, list[str]]:
    found = _mapping(text, "features")
    if not all(isinstance(some, list) and all(isinstance(one, str) for one in some) for some in found.values()):
        raise ValueError(
            f'features is {str(text)[:60]!r}; give names of columns of the file, by mode: {{"offer": ["price"]}}'
        )
    return found


def _labels(found: dict[str, Any]) -> dict[str, Label]:
    try:
        return named(found)
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"fixed is {str(found)[:60]}; labels are text, numbers, truth values, dates and times, these two written "
            'as {"date": "2026-02-28"} and {"time": "2026-02-28T12:00:00"}'
        ) from None


@router.route_of("fold", response_model=schemas.Folded)
async def fold(name: Name, body: schemas.Fold, service: Served) -> Response:
    """Remove old events, after what they say was added up for good. Export them first: they cannot be brought back."""
    host = await service.host(name)
    count, base = await run_in_threadpool(service.engine.fold, host, body.before)
    return reply({"folded": count, "base": base})


@router.route_of("forget", response_model=schemas.ForgottenAnswer)
async def forget(name: Name, body: schemas.ForgetBody, service: Served, grant: Caller) -> Response:
    """Remove a person's data: ids, subject and idempotency keys of their decisions; doing it again changes nothing.

    What was counted and learned stays, and so do the decisions, under names that mean nothing. That it was done is an
    event with actor and reason. Backups of before, and files that were exported, are out of reach.
    """
    host = await service.host(name)
    found = await run_in_threadpool(
        lambda: forgetting.forget(
            service.store,
            host,
            service.engine.clock.now,
            actor=grant.name,
            why=body.why,
            decision=body.decision,
            subject=body.subject,
            dry_run=body.dry_run,
        )
    )
    return reply(asdict(found))


@router.route_of("view", response_model=dict[str, Any])
async def view(name: Name, what: str, request: Request, service: Served) -> Response:
    """Return what the page draws; made for it, and changed with it."""
    host = await service.host(name)
    look = partial(_look, service, host, what, dict(request.query_params))
    return Response(await run_sync(look, limiter=service.view_threads), media_type="application/json")


@router.route_of("overviews", response_model=previews.OverviewsAnswer)
async def overviews(
    service: Served,
    grant: Caller,
    name: Annotated[
        list[schemas.Name] | None, Query(max_length=_MOST_OVERVIEWS, description="Of these bandits; else of the first.")
    ] = None,
) -> Response:
    """Return what a list shows of some bandits, in one answer, without those that are not there or not served."""
    wanted = [host.name for host in service.engine.all()] if name is None else dict.fromkeys(name)
    seen = [one for one in wanted if grant.sees(one)][:_MOST_OVERVIEWS]
    some = [host for one in seen if (host := service.engine.known(one)) is not None]

    def look() -> bytes:
        served = [host for host in some if host.quarantined is None]
        rows = [b"%s:%s" % (to_json(host.name), _look(service, host, "overview", {})) for host in served]
        return b'{"overviews":{%s}}' % b",".join(rows)

    return Response(await run_sync(look, limiter=service.view_threads), media_type="application/json")


def _look(service: Serving, host: Host, what: str, params: dict[str, str]) -> bytes:
    """Return the JSON of a view, as it was made not long ago, or made now."""
    where = (host.id, what, tuple(sorted(params.items())))
    return service.view_cache.get(where, what, lambda: make_view(_source(service, host), what, params))


def _source(service: Serving, host: Host) -> ViewSource:
    return ViewSource(
        host.core,
        tail=lambda count: service.store.tail(host.id, count),
        oldest=host.oldest,
        health=lambda: service.health(host),
        now=service.engine.clock.now,
        deciders=lambda: service.deciders(host),
    )
