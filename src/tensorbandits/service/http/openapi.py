"""The OpenAPI document as programs that generate clients need it, from the one that the framework makes."""

from __future__ import annotations

import json
from typing import Any

from tensorbandits.service.http import examples
from tensorbandits.service.http.errors import ProblemDocument, WrongPlace

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
    for name in _FRAMEWORKS_OWN:
        schemas.pop(name, None)
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            _say_default(field)
    return examples.add(document)


def _say_default(field: dict[str, Any]) -> None:
    """Move the default of a field into its description."""
    missing = object()
    default = field.pop("default", missing)
    if default is missing or default is None:
        return
    words = f"By default {json.dumps(default)}."
    field["description"] = f"{field['description']} {words}" if "description" in field else words
