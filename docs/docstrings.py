"""Turn the package's docstrings into Markdown for the reference pages.

The docstrings describe a parameter on one line, ``name : what it is``, and end with examples for doctest. Here the
parameters become a list, the examples and tables become code blocks, and references become code.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SECTION = re.compile(r"^(Parameters|Notation)\n-+\n", flags=re.MULTILINE)
_PARAMETER = re.compile(r"^(\w[\w, ]*?) : ")


def to_markdown(text: str) -> str:
    """Return a docstring, its indentation already removed, as Markdown.

    >>> print(to_markdown("Say it.\\n\\nParameters\\n----------\\nword : what to say,\\n    aloud."))
    Say it.
    <BLANKLINE>
    **Parameters**
    <BLANKLINE>
    - **`word`**: what to say,
        aloud.
    """
    text = re.sub(r":\w+:`~?([^`]*)`", lambda role: f"`{role[1].rsplit('.', 1)[-1]}`", text)
    return "\n\n".join(_paragraph(part) for part in re.split(r"\n{2,}", _SECTION.sub(r"\n**\1**\n\n", text)))


def _paragraph(part: str) -> str:
    part = part.strip("\n")
    if part.startswith(">>>"):
        return f"```pycon\n{part}\n```"
    if part.startswith("==="):
        lines = [line.replace("`", "") for line in part.splitlines() if not line.startswith("===")]
        return "\n".join(["```text", *lines, "```"])
    if _PARAMETER.match(part):
        return "\n".join(_PARAMETER.sub(_names, line) for line in part.splitlines())
    return part


def _names(match: re.Match[str]) -> str:
    names = ", ".join(f"`{name}`" for name in match[1].split(", "))
    return f"- **{names}**: "


class Markdown(griffe.Extension):
    """Rewrite every docstring as it is loaded."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)
