"""Reports: sections of text, tables, figures and claims, written as one HTML file and a Markdown twin.

The HTML file holds everything it shows, so it can be mailed, archived, and opened without a network.

Words are marked as in Markdown: `` `code` ``, ``**bold**``, and a backslash before a sign that stands for itself. What
comes from data, such as the names of columns and levels, goes through :func:`escape` on its way into them.
"""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

_NUMBER = re.compile(r"^[-–+]?[\d.,]*( ?[±%] ?[\d.,]*)?$")  # a cell of a table that is set to the right
_MARKED = re.compile(r"\\(?P<sign>[!-/:-@\[-`{-~])|`(?P<code>[^`]+)`|\*\*(?P<bold>(?:\\.|[^*\\])+)\*\*")
_SIGNS = re.compile(
    r"[\\`*\[\]<>|~$#]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])"
)  # an underscore within a word marks nothing
_BREAKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
Verdict = Literal["holds", "does not hold here", "not decided"]


def escape(text: object, longest: int = 60) -> str:
    """Return words that show a text as it is, whatever it holds, on one line, and cut if it is very long.

    >>> print(escape("a|b *new* <i>"), escape("time_of_day"), escape("_name"))
    a\\|b \\*new\\* \\<i\\> time_of_day \\_name
    >>> escape("x" * 100, longest=8)
    'xxxxxxx…'
    """
    line = _BREAKS.sub(" ", str(text)).strip()
    if len(line) > longest:
        line = line[: longest - 1] + "…"
    return _SIGNS.sub(r"\\\g<0>", line)


@dataclass(frozen=True)
class Text:
    """A paragraph, or a list when its lines start with ``- ``.

    >>> Text("regret is **lower**").markdown()
    'regret is **lower**'
    """

    words: str

    def markdown(self) -> str:
        """The words as they are."""
        return self.words

    def html(self) -> str:
        """The words as a paragraph or a list."""
        if self.words.startswith("- "):
            return "<ul>" + "".join(f"<li>{_inline(line[2:])}</li>" for line in self.words.splitlines()) + "</ul>"
        return f"<p>{_inline(self.words)}</p>"


@dataclass(frozen=True)
class Code:
    """A command, or other text to be shown as it is, in a language."""

    words: str
    language: str = "console"

    def markdown(self) -> str:
        """A fenced block, its fence longer than any in the words."""
        fence = "`" * max(3, *(len(ticks) + 1 for ticks in re.findall("`+", self.words)), 0)
        return f"{fence}{self.language}\n{self.words}\n{fence}"

    def html(self) -> str:
        """A preformatted block."""
        return f"<pre>{html.escape(self.words)}</pre>"


@dataclass(frozen=True)
class Table:
    """A table whose first column is text and whose others are numbers, as text.

    >>> print(Table(["policy", "regret"], [["ucb", "12"]]).markdown())
    | policy | regret |
    |:--|--:|
    | ucb | 12 |
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def markdown(self) -> str:
        """The table, below its caption."""
        table = markdown_table(self.header, self.rows)
        return f"{self.caption}\n\n{table}" if self.caption else table

    def html(self) -> str:
        """The table, with its caption."""
        caption = f"<caption>{_inline(self.caption)}</caption>" if self.caption else ""
        words = [not all(_NUMBER.match(row[i]) for row in self.rows) for i in range(len(self.header))]
        head, *rows = (
            "".join(
                f"<{tag}{' class=words' if left else ''}>{_inline(cell)}</{tag}>"
                for cell, left in zip(row, words, strict=True)
            )
            for tag, row in (("th", self.header), *(("td", row) for row in self.rows))
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


@dataclass(frozen=True)
class Picture:
    """A figure: ``draw(path)`` writes it as PNG. ``name`` becomes the name of its file."""

    name: str
    draw: Callable[[Path], object]
    caption: str

    def markdown(self) -> str:
        """A reference to the file beside the report."""
        return f"![{plain_words(self.caption)}](figures/{self.name}.png)\n\n*{plain_words(self.caption)}*"

    def html(self, folder: Path | None = None) -> str:
        """The picture itself, inside the page."""
        data = (folder / "figures" / f"{self.name}.png").read_bytes() if folder else b""
        source = f"data:image/png;base64,{base64.b64encode(data).decode()}"
        alt = html.escape(plain_words(self.caption), quote=True)
        return f'<figure><img alt="{alt}" src="{source}"><figcaption>{_inline(self.caption)}</figcaption></figure>'


@dataclass(frozen=True)
class Drawing:
    """A figure as SVG, which stands in the page itself; Markdown has its numbers instead, a header and rows.

    >>> drawing = Drawing("<svg></svg>", "two **bars**", [["bar", "height"], ["a", "1"]])
    >>> drawing.html()
    '<figure><div class="wide"><svg></svg></div><figcaption>two <strong>bars</strong></figcaption></figure>'
    >>> print(drawing.markdown())
    two **bars**
    <BLANKLINE>
    | bar | height |
    |:--|--:|
    | a | 1 |
    """

    svg: str
    caption: str
    numbers: Sequence[Sequence[str]] = ()

    def markdown(self) -> str:
        """The numbers below the caption; without any the caption alone, as no text shows a line."""
        return "\n\n".join(
            [self.caption, *([markdown_table(self.numbers[0], self.numbers[1:])] if self.numbers else [])]
        )

    def html(self) -> str:
        """The figure with its caption."""
        return f'<figure><div class="wide">{self.svg}</div><figcaption>{_inline(self.caption)}</figcaption></figure>'


@dataclass(frozen=True)
class Claim:
    """A claim, what was measured of it, and whether it holds here; why, in a sentence, is kept only if it does not.

    >>> Claim("a is below b", "Section 5", "holds", "1 against 2", "t = 9").verdict
    'holds'
    """

    words: str
    source: str
    verdict: Verdict
    measured: str
    test: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        if self.verdict != "does not hold here":
            object.__setattr__(self, "why", "")


@dataclass(frozen=True)
class Claims:
    """Claims, as a table."""

    claims: Sequence[Claim]

    def markdown(self) -> str:
        """A list: tables of long sentences are hard to read as plain text."""
        return "\n".join(self._line(claim) for claim in self.claims)

    def _line(self, claim: Claim) -> str:
        test = f" ({claim.test})" if claim.test else ""
        why = f" {claim.why}" if claim.why else ""
        return f"- **{claim.verdict}**: {claim.words} [{claim.source}]. Measured: {claim.measured}{test}.{why}"

    def html(self) -> str:
        """A table with the verdicts in colour and in words."""
        rows = []
        for claim in self.claims:
            kind = {"holds": "yes", "does not hold here": "no"}.get(claim.verdict, "open")
            why = f"<br><small>{_inline(claim.why)}</small>" if claim.why else ""
            test = f"<br><small>{_inline(claim.test)}</small>" if claim.test else ""
            rows.append(
                f'<tr><td><span class="{kind}">{claim.verdict}</span></td><td>{_inline(claim.words)}<br>'
                f"<small>{_inline(claim.source)}</small></td><td>{_inline(claim.measured)}{test}{why}</td></tr>"
            )
        head = "<tr><th>verdict</th><th>claim</th><th>measured</th></tr>"
        return (
            f'<div class="wide"><table class="claims"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'
        )


Part = Text | Code | Table | Picture | Drawing | Claims


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    title: str
    parts: Sequence[Part] = field(default_factory=tuple)


@dataclass(frozen=True)
class Report:
    """A title and sections; :func:`write` makes the files.

    >>> import tempfile
    >>> report = Report("Small", [Section("One", [Text("words")])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write(report, folder)]
    ['report.html', 'report.md']
    """

    title: str
    sections: Sequence[Section]


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; columns of numbers are set to the right, those of words to the left.

    >>> print(markdown_table(["policy", "regret"], [["ucb|2", "12"]]))
    | policy | regret |
    |:--|--:|
    | ucb\\|2 | 12 |
    """
    lines = [list(row) for row in rows]
    numbers = [bool(lines) and all(_NUMBER.match(line[i]) for line in lines) for i in range(len(header))]
    rule = "|" + "|".join("--:" if number else ":--" for number in numbers) + "|"
    text = [f"| {' | '.join(map(_in_cell, line))} |" for line in (header, *lines)]
    return "\n".join([text[0], rule, *text[1:]])


def _in_cell(words: str) -> str:
    """Words without what would end a cell of a table: bars, unless they are escaped already, and ends of lines."""
    return re.sub(r"\\.|\|", lambda found: found[0] if len(found[0]) > 1 else r"\|", " ".join(words.splitlines()))


def write(report: Report, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write ``report.html``, ``report.md`` and ``figures/`` into a folder, and return the first two."""
    place = Path(folder)
    (place / "figures").mkdir(parents=True, exist_ok=True)
    for picture in (part for section in report.sections for part in section.parts if isinstance(part, Picture)):
        picture.draw(place / "figures" / f"{picture.name}.png")
    paths = place / "report.html", place / "report.md"
    for path, text in zip(paths, (_page(report, place), _markdown(report)), strict=True):
        path.write_text(text, encoding="utf-8", errors="replace")  # a name in a command may be no text at all
    return paths


def one_page(report: Report) -> str:
    """Return a report without pictures as one HTML page, which needs no other file and prints well.

    >>> one_page(Report("Small", [Section("One", [Text("words")])])).count("<h2>One</h2><p>words</p>")
    1
    """
    return _document(report, "".join(_section(section, None) for section in report.sections), _STYLE + _PRINTED)


def markdown(report: Report) -> str:
    """Return a report as Markdown.

    >>> markdown(Report("Small", [Section("One", [Text("words")])]))
    '# Small\\n\\n## One\\n\\nwords\\n'
    """
    return _markdown(report)


def _markdown(report: Report) -> str:
    blocks = [f"# {report.title}"]
    for section in report.sections:
        blocks += [f"## {section.title}", *(part.markdown() for part in section.parts)]
    return "\n\n".join(blocks) + "\n"


def _page(report: Report, folder: Path) -> str:
    links = "".join(
        f'<li><a href="#{_anchor(section.title)}">{_inline(section.title)}</a></li>' for section in report.sections
    )
    body = "".join(_section(section, folder) for section in report.sections)
    return _document(report, f"<nav><ul>{links}</ul></nav>{body}", _STYLE)


def _document(report: Report, body: str, style: str) -> str:
    title = html.escape(plain_words(report.title))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body><h1>{_inline(report.title)}</h1>{body}</body></html>\n"
    )


def _section(section: Section, folder: Path | None) -> str:
    parts = "".join(part.html(folder) if isinstance(part, Picture) else part.html() for part in section.parts)
    return f'<section id="{_anchor(section.title)}"><h2>{_inline(section.title)}</h2>{parts}</section>'


def _inline(words: str) -> str:
    """Return words as HTML: escaped, with code and bold marked."""
    parts, at = [], 0
    for found in _MARKED.finditer(words):
        parts += [html.escape(words[at : found.start()], quote=False), _marked(found)]
        at = found.end()
    return "".join([*parts, html.escape(words[at:], quote=False)])


def _marked(found: re.Match[str]) -> str:
    if found["code"]:
        return f"<code>{html.escape(found['code'], quote=False)}</code>"
    return f"<strong>{_inline(found['bold'])}</strong>" if found["bold"] else html.escape(found["sign"], quote=False)


def plain_words(words: str) -> str:
    """Return words without their marks.

    >>> plain_words("regret is **lower** by `ucb`")
    'regret is lower by ucb'
    """
    return _MARKED.sub(lambda found: found["code"] or found["sign"] or plain_words(found["bold"]), words)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; padding-bottom: .2rem; }
nav ul { columns: 2; padding-left: 1.2rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; margin: 1rem 0; font-size: .92rem; }
caption { text-align: left; padding-bottom: .3rem; font-weight: 600; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top; }
th.words, td.words { text-align: left; } th { background: #f2f2f2; }
table.claims th, table.claims td { text-align: left; } small { color: #444; }
.yes, .no, .open { white-space: nowrap; font-weight: 600; padding: .05rem .45rem; border-radius: .25rem; }
.yes { background: #d5efe6; color: #00513b; } .no { background: #fbe0cf; color: #7a3200; }
.open { background: #e8e8e8; color: #333; }
figure { margin: 1.2rem 0; } img { max-width: 100%; height: auto; } figcaption { font-size: .92rem; color: #333; }
pre, code { background: #f4f4f4; font: .9em ui-monospace, monospace; } pre { padding: .6rem; overflow-x: auto; }
"""

_PRINTED = """
body { max-width: 52rem; } h2 { margin-top: 1.8rem; } :root { color-scheme: light; } body { background: #fff; }
svg { width: 100%; min-width: 30rem; height: auto; font: 13px system-ui, sans-serif; }
svg text { fill: #333; } svg .grid { stroke: #ddd; fill: none; }
th, td { white-space: nowrap; } td.words { white-space: normal; overflow-wrap: break-word; min-width: 5rem; }
p, li, figcaption, h1 { overflow-wrap: anywhere; }
@page { margin: 16mm; }
@media print {
  body { margin: 0; max-width: none; font-size: 11pt; padding: 0; } svg { min-width: 0; }
  h2, caption { break-after: avoid; } figure, tr, li { break-inside: avoid; } .wide { overflow: visible; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""
