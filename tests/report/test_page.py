import base64
import html
import re

import pytest

from tensorbandits.report.page import (
    Claim,
    Claims,
    Code,
    Picture,
    Report,
    Section,
    Table,
    Text,
    escape,
    markdown_table,
    write,
)

PNG = b"\x89PNG\r\n\x1a\n-not really-"


@pytest.fixture
def written(tmp_path):
    parts = [
        Text("Regret is **lower**, see `tb.compare`, when 1 < 2 & so on"),
        Text("- one\n- two"),
        Code("tensorbandits reproduce all > log"),
        Table(["policy", "regret", "note"], [["<ucb>", "1,234", "slow"], ["thompson", "12 ± 3", "quick"]], "A table"),
        Picture("curve", lambda path: path.write_bytes(PNG), "Regret of `ucb`"),
        Claims([Claim("a is below b", "Section 5", "does not hold here", "2 against 1", "t = 3", "It is not.")]),
    ]
    page, twin = write(Report("A <title>", [Section("First part", parts), Section("Second", [])]), tmp_path / "new")
    return page.read_text(encoding="utf-8"), twin.read_text(encoding="utf-8"), tmp_path / "new"


def test_the_page_holds_everything_it_shows(written):
    page, _, _ = written
    assert base64.b64encode(PNG).decode() in page
    assert not re.findall(r"https?://|<script|<link|@import|url\(", page)
    assert set(re.findall(r'(?:src|href)="([^"]{0,5})', page)) == {"data:", "#firs", "#seco"}
    for anchor in re.findall(r'href="#([^"]+)"', page):
        assert f'id="{anchor}"' in page


def test_words_are_escaped_and_marked(written):
    page, _, _ = written
    assert "A &lt;title&gt;" in page
    assert "<strong>lower</strong>" in page
    assert "<code>tb.compare</code>" in page
    assert "1 &lt; 2 &amp; so on" in page
    assert "&lt;ucb&gt;" in page
    assert "<li>one</li><li>two</li>" in page


def test_columns_of_words_are_set_to_the_left_and_numbers_to_the_right(written):
    page, _, _ = written
    assert "<td>1,234</td>" in page
    assert "<td>12 ± 3</td>" in page
    assert "<td class=words>slow</td>" in page


def test_the_twin_says_the_same_in_markdown(written):
    _, twin, folder = written
    assert twin.startswith("# A <title>\n\n## First part\n")
    assert "| thompson | 12 ± 3 | quick |" in twin
    assert "![Regret of ucb](figures/curve.png)" in twin
    assert (folder / "figures" / "curve.png").read_bytes() == PNG
    assert "- **does not hold here**: a is below b [Section 5]. Measured: 2 against 1 (t = 3). It is not." in twin
    assert "```console\ntensorbandits reproduce all > log\n```" in twin


def test_verdicts_are_told_by_words_and_not_by_colour_alone(written):
    page, _, _ = written
    assert '<span class="no">does not hold here</span>' in page


def test_markdown_aligns_numbers_to_the_right():
    assert markdown_table(["a", "b", "c"], [["x", "1", "2"]]) == "| a | b | c |\n|:--|--:|--:|\n| x | 1 | 2 |"


HOSTILE = [
    "a|b",
    "*new*",
    "**bold**",
    "`code`",
    "<script>alert(1)</script>",
    "[link](http://example.org)",
    "_name",
    "name_",
    "__init__",
    "back\\slash",
    "back\\|both",
    "&lt;",
    "two\nlines",
    "usd_$_per_$_click",
    "# no title",
    "~~gone~~",
    "tab\tand\x00more",
    "ad «ö» 日本 \u2028 x",
    "\"quoted\" 'twice'",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_comes_from_data_is_shown_as_it_is(text):
    line = " ".join(text.replace("\x00", " ").split())
    cell = Table(["level"], [[escape(text)]])
    for page in (cell.html(), Text(escape(text)).html()):
        ((inside,),) = (filter(None, found) for found in re.findall(r"<td class=words>(.*?)</td>|<p>(.*?)</p>", page))
        assert "<" not in inside
        assert html.unescape(inside) == line
    rows = cell.markdown().splitlines()
    assert len(rows) == 3
    inside = rows[2].removeprefix("| ").removesuffix(" |")
    assert re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", inside) == line  # as Markdown takes backslashes away
    assert not re.search(r"(?<!\\)(?:\\\\)*[|<`*\[]", inside)  # and nothing that marks is left without one
    assert escape("offer 12, x (new): 50 %") == "offer 12, x (new): 50 %"


def test_long_texts_are_cut():
    assert escape("ab" * 500) == "ab" * 29 + "a…"


def test_bold_words_may_hold_escaped_ones():
    words = Text(f"**{escape('a*b')}** and `c*d*`")
    assert words.html() == "<p><strong>a*b</strong> and <code>c*d*</code></p>"
    assert words.markdown() == "**a\\*b** and `c*d*`"


def test_titles_and_commands_are_shown_as_they_are(tmp_path):
    report = Report(f"Study of {escape('<b>|*x*')}", [Section("How", [Code("echo ```` \udcff")])])
    page, twin = (path.read_text(encoding="utf-8") for path in write(report, tmp_path))
    assert "<title>Study of &lt;b&gt;|*x*</title>" in page
    assert "<h1>Study of &lt;b&gt;|*x*</h1>" in page
    assert "`````console\necho ```` ?\n`````" in twin
