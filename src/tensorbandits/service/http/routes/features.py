"""Routes that say what levels are like, as JSON or as a file."""

from __future__ import annotations

import csv
import io
import json
from typing import Annotated, Any

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from tensorbandits.base.frames import columns_of
from tensorbandits.service.engine import orders
from tensorbandits.service.engine.host import Host
from tensorbandits.service.http import imports, schemas
from tensorbandits.service.http.errors import Responses
from tensorbandits.service.http.formats import FORMATS
from tensorbandits.service.http.routes.router import Name, Router
from tensorbandits.service.http.serving import Key, Served, fingerprint_of, reply
from tensorbandits.space.features import LevelFeatures
from tensorbandits.space.labels import written

router = Router("bandits")

Mode = Annotated[str, Query(max_length=1_000, description="The mode whose levels they are of.")]
_TEXT: Responses = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}
_FILE = {"schema": {"type": "string", "format": "binary"}}
_LIST = "["  # with which the field of a CSV file begins that holds a list of numbers


@router.route_of("get_features", response_model=schemas.FeaturesAnswer)
async def get_features(name: Name, service: Served, mode: Mode) -> Response:
    """Return the features of the levels of a mode, as they are now."""
    labels, found = _features(await service.host(name), mode)
    rows = [] if found is None else [found.written(level) for level in range(len(found.rows))]
    levels = [{"label": label, "features": row} for label, row in zip(labels, rows, strict=False)]
    return reply({"mode": mode, "features": [] if found is None else found.said(), "levels": levels})


@router.route_of("export_features", response_class=Response, more=_TEXT)
async def export_features(name: Name, service: Served, mode: Mode) -> Response:
    """Return the features of the levels of a mode as a CSV file, with a row for each level."""
    host = await service.host(name)
    headers = {"Content-Disposition": f'attachment; filename="{host.name}-features.csv"'}
    return Response(_csv(mode, *_features(host, mode)), media_type="text/csv", headers=headers)


def _features(host: Host, mode: str) -> tuple[list[Any], LevelFeatures | None]:
    """The labels of a mode, as JSON has them, and its features."""
    space = host.core.space.copy()
    return [written(label) for label in space.levels[space.position(mode)]], space.features.get(mode)


def _csv(mode: str, labels: list[Any], found: LevelFeatures | None) -> str:
    """The features of levels as CSV, with lists of numbers as JSON."""
    text, names = io.StringIO(), [] if found is None else found.names
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([mode, *names])
    for level, label in enumerate(labels if found is not None else []):
        row = {} if found is None else found.written(level)
        values = [row.get(one, "") for one in names]
        fields = [json.dumps(one) if isinstance(one, list | bool) else one for one in values]
        writer.writerow([json.dumps(label) if isinstance(label, dict | bool) else label, *fields])
    return text.getvalue()


@router.route_of("describe_levels", "key_reused", response_model=schemas.Detail)
async def describe_levels(name: Name, body: schemas.DescribeBody, service: Served, key: Key = None) -> Response:
    """Say what levels of a mode are like, from now on; what was learned of those features stays.

    With `anew`, or if the mode had none, these are all features of all its levels, and what they say is learned from
    the rewards so far.
    """
    host = await service.host(name)
    order = orders.describe(host, body.given(), key, fingerprint_of("describe", body, key))
    await service.write(order)
    return reply(host.detail())


@router.route_of(
    "import_features",
    "key_reused",
    response_model=schemas.Detail,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {FORMATS[form].media: dict(_FILE) for form in ("parquet", "csv")},
        }
    },
)
async def import_features(
    name: Name,
    request: Request,
    service: Served,
    mode: Mode,
    anew: Annotated[bool, Query(description="Whether they take the place of all features of the mode.")] = False,
    key: Key = None,
) -> Response:
    """Say what levels of a mode are like with a file: Parquet, or CSV with the names of its columns on top.

    It has a column with the name of the mode, and one for each feature. In a CSV file an empty field is missing, and a
    list of numbers stands as `[0.1, 0.7]`.
    """
    host = await service.host(name)
    space = host.core.space
    labels = space.levels[space.position(mode)]
    texts = [mode] if any(isinstance(label, str) for label in labels) else []

    def read(upload: imports.Upload) -> list[dict[str, Any]]:
        with imports.whole_table(upload, texts, service.settings.import_rows, service.settings.import_limit) as table:
            columns = columns_of(table, None, "the file")
        if mode not in columns:
            raise ValueError(f"the file has no column {mode!r}, which says of which level each row is; rename one")
        of, count = columns.pop(mode), len(table)
        rows = [{one: _listed(column[at]) for one, column in columns.items()} for at in range(count)]
        return [{"label": written(label), "features": row} for label, row in zip(of, rows, strict=True)]

    async with imports.received(request, repr((mode, anew))) as upload, service.imports:
        levels = await run_in_threadpool(read, upload)
    mark = None if key is None else upload.digest
    await service.write(orders.describe(host, {"mode": mode, "levels": levels, "anew": anew}, key, mark))
    return reply(host.detail())


def _listed(value: Any) -> Any:
    """A value of a file; text that is a list of numbers as such."""
    if isinstance(value, str) and value.startswith(_LIST):
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return found if isinstance(found, list) else value
    return value
