"""Write reference/http-api.md from the service itself: its routes, what they take and may answer.

``python docs/http_api.py`` writes it; a test fails while it is not what this writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tensorbandits.service.http.app import create_app
from tensorbandits.service.http.errors import CODES
from tensorbandits.service.settings import Settings
from tensorbandits.store import Store

PAGE = Path(__file__).parent / "reference" / "http-api.md"
_HEAD = """# HTTP API

Every route of the decision service; `GET /openapi.json` describes the same for programs. Bodies are JSON, except of an
export or import. A key goes into the header `Authorization: Bearer tb_..`; a service that has no keys answers only on
the machine that it runs on, and needs none. [Run the service](../how-to/run-the-service.md#make-keys) says who may do
what. Every write takes a header `Idempotency-Key`, a text of your choice: the same request with the same key is carried
out once, and answered alike. Every answer has a header `X-Request-Id`, which the log of the service has too.

## Errors

An answer that is no success is a problem document, `application/problem+json` as in RFC 9457: `type`, `title`,
`status`, `detail`, which says what is wrong and what to do, `instance`, and of ours `code`, `request`, and `errors`,
which lists each place of the request that is wrong. A parameter of the query that is not known is refused. HEAD is
answered wherever GET is.

| status | code | meaning |
|--:|:--|:--|
"""


def page() -> str:
    """Return the page."""
    rows = [f"| {status} | `{code}` | {meaning} |" for code, (status, meaning) in sorted(CODES.items(), key=_by_status)]
    with Store.open("sqlite://") as store:
        schema = create_app(Settings(), store).openapi()
    parts = [_HEAD + "\n".join(rows), "## Routes"]
    for path, methods in schema["paths"].items():
        for method, route in methods.items():
            parts.append(_route(method.upper(), path, route, schema["components"]["schemas"]))
    return "\n\n".join(parts) + "\n"


def _by_status(item: tuple[str, tuple[int, str]]) -> tuple[int, str]:
    return item[1][0], item[0]


def _route(method: str, path: str, route: dict[str, Any], schemas: dict[str, Any]) -> str:
    lines = [f"### {method} {path}", route.get("description", "").strip()]
    queries = [one for one in route.get("parameters", []) if one["in"] == "query"]
    lines += [
        f"- `?{one['name']}=`{' (required)' if one.get('required') else ''} {one.get('description', '')}".rstrip()
        for one in queries
    ]
    content = route.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        lines.append(_body(content["application/json"]["schema"], schemas))
    elif content:
        lines.append(f"Body: {' or '.join(content)}.")
    answers = [status for status in sorted(route["responses"]) if status.startswith("2")]
    errors = [status for status in sorted(route["responses"]) if not status.startswith("2")]
    lines.append(f"Answers {', '.join(answers)}" + (f", or {', '.join(errors)}." if errors else "."))
    return "\n\n".join(line for line in lines if line)


def _body(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """What a body holds, and an example of it."""
    found = schemas[schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
    required = set(found.get("required", ()))
    rows = ["| field | |", "|:--|:--|"]
    for name, one in found.get("properties", {}).items():
        words = one.get("description", "")
        rows.append(f"| `{name}`{' (required)' if name in required else ''} | {words} |")
    example = found.get("examples") or [
        {
            name: one["examples"][0]
            for name, one in found.get("properties", {}).items()
            if one.get("examples") and one["examples"][0] is not None
        }
    ]
    shown = "\n\n".join(f"```json\n{json.dumps(one, indent=1)}\n```" for one in example if one)
    return "\n".join(rows) + ("\n\n" + shown if shown else "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
