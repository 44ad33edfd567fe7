"""What is wrong with a request that does not fit its schema, in plain words and by the names that the caller wrote.

A value may fit one of several kinds, a label for instance. The schema then reports one error for each kind; the caller
is told once what would be right.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from tensorbandits.service.http.wording import in_http

Found = Mapping[str, Any]  # an error, as pydantic describes it
Place = tuple[Any, ...]

MOST = 20  # places that an answer lists
_KINDS = {  # what is allowed, where the kind is wrong
    "string_type": "a string",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
_MODELS = {"DateLabel": 'a day as {"date": "2026-02-28"}', "TimeLabel": 'a time as {"time": "2026-02-28T12:00:00"}'}
_TAGS = {
    *("int", "float", "str", "bool", "none", "list", "dict", "bytes", "date", "datetime", "tuple", "set"),
    *("constrained-str", "constrained-int", "constrained-float", "constrained-list", "constrained-dict"),
}
_PLACES = {"body": "", "query": "the query parameter", "path": "the path's", "header": "the header"}
_SHORT = reprlib.Repr()
_SHORT.maxstring, _SHORT.maxother, _SHORT.maxlevel = 60, 60, 2
_SHORT.maxlist = _SHORT.maxdict = _SHORT.maxtuple = 4


class Wrong(NamedTuple):
    """What is wrong at one place: the place, as the caller wrote it, and words for it."""

    place: Place
    words: str

    def to_dict(self) -> dict[str, str]:
        """Return it as answers list it: a JSON pointer into the body, or the name of a parameter or a header."""
        first, *rest = self.place
        if first == "body":
            where = {"pointer": "#" + "".join(f"/{_pointed(part)}" for part in rest)}
        else:
            where = {"header" if first == "header" else "parameter": str(rest[0]) if rest else ""}
        return {"detail": self.words, **where}


def wrong_with(error: RequestValidationError | ValidationError) -> list[Wrong]:
    """Return what is wrong, one entry for each place, in order."""
    if isinstance(error, ValidationError):
        errors, body = list(error.errors(include_url=False)), None
    else:
        errors, body = list(error.errors()), error.body
    groups: dict[Place, list[tuple[Place, Found]]] = {}
    for one in errors:
        place = _place(tuple(one.get("loc", ())), body)
        top = next((known for known in groups if place[: len(known)] == known and len(known) > 1), place)
        groups.setdefault(top, []).append((place, one))
    return [_of_group(top, group) for top, group in groups.items()]


def _of_group(top: Place, group: Sequence[tuple[Place, Found]]) -> Wrong:
    """What is wrong at a place, of the errors of all kinds that were tried for it."""
    if len(group) == 1:
        place, one = group[0]
        return Wrong(place, _words(place, one))
    deeper = [(place, one) for place, one in group if len(place) > len(top)]
    models = {tuple(one.get("loc", ()))[: len(one.get("loc", ())) - len(place) + len(top)] for place, one in deeper}
    telling = [found for found in deeper if found[1]["type"] not in ("missing", "extra_forbidden")]
    if deeper and (telling or len(models) == 1):
        place, one = (telling or deeper)[0]
        return Wrong(place, _words(place, one))
    kinds = dict.fromkeys(filter(None, (_kind(one, len(place) > len(top)) for place, one in group)))
    if "a number" in kinds:
        kinds.pop("a whole number", None)
    if not kinds:
        return Wrong(top, _words(*group[0]))
    *some, last = kinds
    allowed = f"{', '.join(some)} or {last}" if some else last
    given = next((one["input"] for place, one in group if place == top and "input" in one), None)
    return Wrong(top, f"{_name(top)} is {short(given)}; give {allowed}")


def _kind(one: Found, inside: bool) -> str | None:
    """The kind of value that was tried when an error was found, in words."""
    model = next((_MODELS[str(part)] for part in one.get("loc", ()) if str(part) in _MODELS), None)
    return model or (None if inside else _KINDS.get(one["type"]))


def _place(place: Place, body: Any) -> Place:
    """A place as the caller wrote it: without the kinds that were tried, which pydantic puts in between."""
    first, rest = (str(place[0]), list(place[1:])) if place else ("body", [])
    if first not in _PLACES:  # a model that was read by hand
        first, rest = "body", list(place)
    if first != "body" or body is None:
        while len(rest) > 1 and isinstance(rest[-1], str) and (rest[-1] in _TAGS or "[" in rest[-1]):
            rest.pop()
        return (first, *rest)
    found: list[Any] = []
    value = body
    for at, part in enumerate(rest):
        if isinstance(part, int) if isinstance(value, list) else isinstance(value, Mapping) and part in value:
            value = value[part]
        elif at + 1 < len(rest) or str(part) in _TAGS or "[" in str(part) or not isinstance(value, Mapping):
            continue
        found.append(part)
    return (first, *found)


def _words(place: Place, error: Found) -> str:
    kind, given, context = error["type"], error.get("input"), error.get("ctx") or {}
    if kind == "json_invalid":
        where = error.get("loc", ())[-1:]
        at = f" at character {where[0]}" if where and isinstance(where[0], int) else ""
        return f"the body is no JSON ({context.get('error', 'broken')}{at}); send one JSON object"
    if place == ("body",) and isinstance(given, bytes):
        return "the body is not said to be JSON; send the header Content-Type: application/json"
    name = _name(place)
    if kind == "missing":
        return f"{name} is missing; give it"
    if kind == "extra_forbidden":
        return f"{name} is not known here; leave it out, or look at its spelling"
    if kind in ("model_type", "model_attributes_type"):
        return f"{name} is {short(given)}; give a JSON object"
    if kind == "too_long" and isinstance(most := context.get("max_length"), int):
        return f"{name} has more than {most:,} entries; give at most so many"
    if kind == "too_short" and isinstance(least := context.get("min_length"), int):
        return f"{name} is {short(given)}; give at least {least:,} of them"
    if kind in ("value_error", "assertion_error") and isinstance(context.get("error"), Exception):
        return str(context["error"])
    message = re.sub(r"^[A-Z]\w*( \w+)? should ", "it should ", str(error["msg"]))
    return f"{name} is {short(given)}; {message[:1].lower()}{message[1:]}"


def _name(place: Place) -> str:
    """The name of what is wrong.

    >>> _name(("body", "rewards", 3, "id")), _name(("query", "after")), _name(("body",))
    ('rewards[3].id', 'the query parameter after', 'the body')
    """
    first, *rest = place
    words = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest).lstrip(".")
    if first == "body":
        return words or "the body"
    return f"{_PLACES[first]} {words}"


def _pointed(part: Any) -> str:
    """A part of a JSON pointer, as RFC 6901 has it.

    >>> _pointed("a/b~c"), _pointed(3)
    ('a~1b~0c', '3')
    """
    return str(part).replace("~", "~0").replace("/", "~1")


def short(value: Any) -> str:
    """Return a value as a message shows it.

    >>> short("a" * 100), short(None), short([1, 2, 3, 4, 5, 6])
    ('"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.."', 'null', '[1, 2, 3, 4, ...]')
    >>> short(["a", True, None])
    '["a", true, null]'
    """
    if isinstance(value, str):
        return json.dumps(value if len(value) <= 60 else f"{value[:60]}..", ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return in_http(_SHORT.repr(value))
