"""Routes that say who changed a bandit, when and how, apart from its decisions: page by page, or as a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Query, Response

from tensorbandits.bandit.changes import Change, ChangeLog, chosen, described, undone
from tensorbandits.service.engine.host import Host
from tensorbandits.service.http import schemas
from tensorbandits.service.http.errors import Responses
from tensorbandits.service.http.routes.router import Name, Router
from tensorbandits.service.http.serving import Served, reply, to_json

router = Router("looking")

_MOST = 1_000  # changes of a page
_COLUMNS = ("number", "time", "kind", "actor", "what", "before", "after")
_FILES: Responses = {
    200: {"content": {kind: {"schema": {"type": "string"}} for kind in ("text/csv", "application/x-ndjson")}}
}
_LATEST = 253_402_300_799.0  # seconds; the end of the year 9999

Kinds = Annotated[list[schemas.ChangeKind], Query(description="Of these kinds only; repeat it for several.")]
Who = Annotated[str | None, Query(max_length=200, description="By this actor only: the name of a key.")]
Since = Annotated[float | None, Query(ge=0, le=_LATEST, description="From this time on, in seconds since 1970.")]
Until = Annotated[float | None, Query(ge=0, le=_LATEST, description="Up to this time, in seconds since 1970.")]


@router.route_of("list_changes", response_model=schemas.ChangesAnswer)
async def list_changes(
    name: Name,
    service: Served,
    kind: Kinds = [],  # noqa: B006  (nobody changes it)
    actor: Who = None,
    since: Since = None,
    until: Until = None,
    before: Annotated[int | None, Query(ge=1, le=2**62, description="Changes with a smaller number only.")] = None,
    limit: Annotated[int, Query(ge=1, le=_MOST)] = 50,
) -> Response:
    """Return who made the bandit, changed settings, levels and rules, or imported logs: newest first, before and after.

    Decisions and rewards are not among them. Changes outlive the events that were folded away.
    """
    changes = _changes(await service.host(name))
    rows = changes.rows()
    found = chosen(rows, kinds=kind, actor=actor, since=since, until=until)
    older = [row for row in found if before is None or row["number"] < before]
    page = older[-limit:]
    actors = sorted({row["actor"] for row in rows if row["actor"] is not None})
    said = {
        "changes": [described(row) | {"undo": undone(row)} for row in reversed(page)],
        "total": len(found),
        "actors": actors,
    }
    more = page[0]["number"] if len(older) > len(page) else None
    return reply({**said, "next": more, "since": changes.since, "lost": changes.lost})


@router.route_of("export_changes", response_class=Response, more=_FILES)
async def export_changes(
    name: Name,
    service: Served,
    format: Literal["csv", "jsonl"] = "csv",
    kind: Kinds = [],  # noqa: B006
    actor: Who = None,
    since: Since = None,
    until: Until = None,
) -> Response:
    """Return all changes that fit, oldest first, as a file: CSV with a row per thing changed, or JSON lines."""
    host = await service.host(name)
    rows = chosen(_changes(host).rows(), kinds=kind, actor=actor, since=since, until=until)
    content, media = (_csv(rows), "text/csv") if format == "csv" else (_lines(rows), "application/x-ndjson")
    headers = {"Content-Disposition": f'attachment; filename="{host.name}-changes.{format}"'}
    return Response(content, media_type=media, headers=headers)


def _changes(host: Host) -> ChangeLog:
    return host.core.state.changelog


def _lines(rows: Sequence[Change]) -> bytes:
    return b"".join(to_json(described(row)) + b"\n" for row in rows)


def _csv(rows: Sequence[Change]) -> str:
    """The changes as CSV; what is neither text nor number is JSON in its field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for one in map(described, rows):
        time = datetime.fromtimestamp(one["time"], UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        for item in one["items"] or [{"what": one["words"], "before": None, "after": None}]:
            values = (item["what"], _field(item["before"]), _field(item["after"]))
            writer.writerow((one["number"], time, one["kind"], one["actor"] or "", *values))
    return text.getvalue()


def _field(value: Any) -> Any:
    return "" if value is None else value if isinstance(value, str | int | float) else json.dumps(value)
