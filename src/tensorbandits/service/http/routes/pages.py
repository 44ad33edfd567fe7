"""Routes of the web page and its files: kept in memory, compressed once, and allowed to load nothing from elsewhere."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, HTTPException, Request, Response

router = APIRouter(include_in_schema=False)

_FOLDER = Path(__file__).resolve().parents[2] / "page" / "dashboard"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PLOTLY = "plotly.min.js"
_DAY = 86_400


class Asset(NamedTuple):
    """A file: as it is, compressed, what it is, and a tag that changes with it."""

    body: bytes
    packed: bytes
    kind: str
    tag: str


@router.api_route("/", methods=["GET", "HEAD"])
def page(request: Request) -> Response:
    """Return the page."""
    return _answer(request, "index.html", 0)


@router.api_route("/docs", methods=["GET", "HEAD"])
def docs(request: Request) -> Response:
    """Return the page of the HTTP API."""
    return _answer(request, "api.html", 0)


@router.api_route("/static/{file}", methods=["GET", "HEAD"])
def static(request: Request, file: str) -> Response:
    """Return a file of the page, or plotly's script."""
    if file not in _files():
        raise HTTPException(404, f"there is no file {file[:60]!r} here; the page is at /")
    return _answer(request, file, _DAY if file == _PLOTLY else 0)


@cache
def _files() -> frozenset[str]:
    """The names that are served."""
    return frozenset({one.name for one in _FOLDER.iterdir() if one.suffix in _TYPES} | {_PLOTLY})


@cache
def _asset(file: str) -> Asset:
    path = _FOLDER / file
    if file == _PLOTLY:
        found = find_spec("plotly")
        if found is None or not found.submodule_search_locations:
            raise HTTPException(404, "plotly is not installed, so that the page has no figures: pip install plotly")
        path = Path(found.submodule_search_locations[0]) / "package_data" / _PLOTLY
    body = path.read_bytes()
    tag = f'W/"{hashlib.sha256(body).hexdigest()[:20]}"'
    return Asset(body, gzip.compress(body, mtime=0), _TYPES[path.suffix], tag)


def _answer(request: Request, file: str, seconds: int) -> Response:
    """A file, or word that the browser's copy is still good."""
    asset = _asset(file)
    headers = {
        "ETag": asset.tag,
        "Cache-Control": f"public, max-age={seconds}" if seconds else "no-cache",
        "Vary": "Accept-Encoding",
    }
    if asset.tag in (one.strip() for one in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    body = asset.body
    if _takes_gzip(request.headers.get("accept-encoding", "")):
        body, headers["Content-Encoding"] = asset.packed, "gzip"
    answer = Response(body, headers=headers, media_type=asset.kind)
    if request.method == "HEAD":
        answer.body = b""
    return answer


def _takes_gzip(accepted: str) -> bool:
    """Whether a browser takes what is compressed.

    >>> _takes_gzip("br, gzip;q=0.5"), _takes_gzip("gzip;q=0, br"), _takes_gzip("")
    (True, False, False)
    """
    for part in accepted.lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
