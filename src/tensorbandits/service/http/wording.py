"""The library's words as a caller over HTTP would write them: JSON rather than Python, and policies by their names.

The library says ``use amend=True``, as a Python program would write it; whoever sends JSON reads ``"amend": true``.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache

from tensorbandits.policies import registry

_QUERY = frozenset(("unknown", "missing", "columns", "fixed", "weight"))  # which an import has in its address
_PHRASES = (
    (re.compile(r"amend it with tell\(id, reward, amend=True\)"), 'tell its reward again with "amend": true'),
    (re.compile(r"tell\(arm=\.\.\., context=\.\.\., reward=\.\.\.\)"), "tell with arm, context and reward"),
    (re.compile(r", of this bandit: decision\.id"), ", of this bandit"),
    (re.compile(r"explain\((\w+)=\.\.\.\)"), r'"context": {"\1": ..}'),
    (re.compile(r"timedelta\(minutes=10\) or '10 min'"), '"10 min"'),
    (
        re.compile(r"go by trials=, of a policy's tell or of a bandit's tell_log"),
        "go by trials, beside arm and context",
    ),
    (
        re.compile(r"\w+\.__init__\(\) missing \d+ required .*arguments?: (.+)"),
        r"the policy cannot do without \1; give it in settings",
    ),
    (
        re.compile(r"(\S+) is no argument of a bandit or of (\w+): .*"),
        r"\1 is no setting of the policy \2; leave it out, or choose another policy",
    ),
)
_PYTHON = re.compile(
    r"""(?P<name>\b[a-z_]+)=(?=True\b|False\b|None\b|true\b|false\b|[\[{'"\d-])
    |(?P<open>[\[{])
    |(?P<text>(?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|(?<!\w)"(?:[^"\\]|\\.)*"(?!\w))
    |(?P<word>\b(?:True|False|None)\b)""",
    re.VERBOSE,
)
_WORDS = {"True": "true", "False": "false", "None": "null"}
_PAIRS = {"[": "]", "{": "}"}


def in_http(text: str) -> str:
    """Return words of the library in those of HTTP; what callers named themselves, in quotes, stays as it is.

    >>> in_http("add is True, but rewards do not add up here; make the bandit with adds=True")
    'add is true, but rewards do not add up here; make the bandit with "adds": true'
    >>> in_http("'None=True' is no rule; give one such as {'forbid': {'offer': 'a'}}, or fixed={'offer': 'a'}")
    '\\'None=True\\' is no rule; give one such as {"forbid": {"offer": "a"}}, or fixed={"offer": "a"}'
    >>> in_http("VectorizedUCB draws by itself; use one that samples, window='1 h'")
    'the policy "ucb" draws by itself; use one that samples, "window": "1 h"'
    """
    for pattern, instead in _PHRASES:
        text = pattern.sub(instead, text)
    parts, at, named = [], 0, ""
    while (found := _PYTHON.search(text, at)) is not None:
        between = text[at : found.start()]
        parts.append(_policies(between))
        named = "" if between else named
        at = found.end()
        if found["name"] is not None:
            parts.append(f"{found['name']}=" if found["name"] in _QUERY else f'"{found["name"]}": ')
            named = "query" if found["name"] in _QUERY else "json"
            continue
        if found["open"] is not None:
            end = _closing(text, found.start())
            shown = _as_json(text[found.start() : end])
            at = end if shown is not None else at
            parts.append(found["open"] if shown is None else shown)
        elif found["text"] is not None:
            shown = _as_json(found["text"]) if named == "json" else None
            parts.append(found["text"][1:-1] if named == "query" else shown or found["text"])
        else:
            parts.append(_WORDS[found["word"]])
        named = ""
    return "".join((*parts, _policies(text[at:])))


def _closing(text: str, start: int) -> int:
    """The place after the bracket that closes the one at ``start``; the one after that if there is none."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in _PAIRS) - (text[at] in _PAIRS.values())
        if depth == 0:
            return at + 1
    return start + 1


def _as_json(shown: str) -> str | None:
    """JSON of a value that Python shows; ``None`` if it is none that JSON could hold."""
    try:
        return json.dumps(ast.literal_eval(shown), ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _policies(text: str) -> str:
    """Text in which policies have the names by which callers know them, rather than those of their classes."""
    for kind, name in _names():
        text = re.sub(rf"(?:the policy )?\b{kind}\b", f'the policy "{name}"', text) if kind in text else text
    return text


@cache
def _names() -> tuple[tuple[str, str], ...]:
    return tuple((record.kind.__name__, record.name) for record in registry.records())
