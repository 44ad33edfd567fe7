"""The OpenAPI document as programs that generate clients need it, from the one that the framework makes."""

from __future__ import annotations

import json
from typing import Any, get_args

from tensorbandits.bandit.intervals import Looks
from tensorbandits.service.http import examples, view_answers
from tensorbandits.service.http.errors import CODES, ProblemDocument, WrongPlace
from tensorbandits.service.page.views import VIEWS

_VIEW = "/v1/bandits/{name}/view/{what}"
_LEVELS = {"type": "string", "contentMediaType": "application/json", "examples": ['{"segment": 0}']}
_PARAMETERS: dict[str, dict[str, Any]] = {  # of views
    "intervals": {"type": "string", "enum": list(get_args(Looks))},
    "over": {"type": "string", "enum": ["holdout", "caller"]},
    "level": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "count": {"type": "integer", "minimum": 1},
    **{name: {"type": "string"} for name in ("mode", "rows", "columns")},
    **{name: _LEVELS for name in ("fixed", "context")},
}
_TIMEOUT = {
    "name": "X-Request-Timeout",
    "in": "header",
    "required": False,
    "schema": {"type": "number", "exclusiveMinimum": 0, "maximum": 3600},
    "description": "Seconds in which the answer must begin; after them it is 504, and nothing more is written.",
}
_FRAMEWORKS_OWN = ("HTTPValidationError", "ValidationError")  # which no route answers


def finish(document: dict[str, Any]) -> dict[str, Any]:
    """Add what the routes cannot say themselves: problem documents, examples, and defaults in words.

    A field that has a default need not be given. Generators of clients take ``default`` as a promise that there is a
    value, and would have everybody give it; so fields say their defaults in their descriptions.
    """
    schemas: dict[str, Any] = document.setdefault("components", {}).setdefault("schemas", {})
    for model in (ProblemDocument, WrongPlace):
        made = model.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
        schemas.update(made.pop("$defs", {}))
        schemas[model.__name__] = made
    schemas.update(view_answers.schemas("#/components/schemas/{model}"))
    _name_views(document["paths"])
    for name in _FRAMEWORKS_OWN:
        schemas.pop(name, None)
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            _say_default(field)
    document["x-problems"] = [
        {"code": code, "status": status, "meaning": meaning} for code, (status, meaning) in CODES.items()
    ]
    for path, methods in document["paths"].items():
        for operation in methods.values():
            if path.startswith("/v1/"):
                operation.setdefault("parameters", []).append(_TIMEOUT)
            for answer in operation["responses"].values():
                if answer["description"] == "Successful Response":  # the framework's words
                    answer["description"] = "Done."
    return examples.add(document)


def _name_views(paths: dict[str, Any]) -> None:
    """Give each view an address of its own, with what it takes and answers, rather than one for all."""
    shared: dict[str, Any] = paths.pop(_VIEW)["get"]
    of_bandit = [one for one in shared["parameters"] if one["name"] == "name"]
    for what, view in VIEWS.items():
        models = [{"$ref": f"#/components/schemas/{model.__name__}"} for model in view_answers.VIEWS[what]]
        queries = [
            {"name": name, "in": "query", "required": False, "schema": {"title": name, **_PARAMETERS[name]}}
            for name in view.params
        ]
        answer: dict[str, Any] = {
            "description": "The view.",
            "content": {"application/json": {"schema": {"anyOf": models}}},
        }
        if len(models) == 1:
            answer["content"]["application/json"]["schema"] = models[0]
        paths[_VIEW.replace("{what}", what)] = {
            "get": {
                **shared,
                "summary": f"View {what.title()}",
                "description": " ".join((view_answers.VIEWS[what][0].__doc__ or "").split()),
                "operationId": f"view_{what}",
                "parameters": [*of_bandit, *queries],
                "responses": {**shared["responses"], "200": answer},
            }
        }


def _say_default(field: dict[str, Any]) -> None:
    """Move the default of a field into its description."""
    missing = object()
    default = field.pop("default", missing)
    if default is missing or default is None:
        return
    words = f"By default {json.dumps(default)}."
    field["description"] = f"{field['description']} {words}" if "description" in field else words
