"""Search that works in pages opened as files: an index of all sections, written as a script beside the pages.

MkDocs' own search fetches its index, which browsers refuse for files. This hook writes the index as a script instead;
``assets/search.js`` looks words up in it.
"""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

INDEX = "assets/search-index.js"
_HEADINGS = {"h1", "h2", "h3"}
_SILENT = {"script", "style"}


class Sections(HTMLParser):
    """The sections of a page: each heading with its anchor, and the words up to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = [{"anchor": "", "heading": "", "text": ""}]
        self._into, self._silent = "text", 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in _HEADINGS:
            self.found.append({"anchor": named.get("id") or "", "heading": "", "text": ""})
            self._into = "heading"
        elif tag in _SILENT or "headerlink" in (named.get("class") or ""):
            self._silent += 1

    def handle_endtag(self, tag: str) -> None:
        if tag in _HEADINGS:
            self._into = "text"
            self._silent = 0
        elif (tag in _SILENT or tag == "a") and self._silent:
            self._silent -= 1

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.found[-1][self._into] += data


def sections(html: str) -> list[dict[str, str]]:
    """Return the sections of a page that hold any word, with single spaces.

    >>> sections('<h1 id="a">One<a class="headerlink" href="#a">#</a></h1><p>Two  three</p>')
    [{'anchor': 'a', 'heading': 'One', 'text': 'Two three'}]
    """
    parser = Sections()
    parser.feed(html)
    tidy = [{name: " ".join(words.split()) for name, words in part.items()} for part in parser.found]
    return [part for part in tidy if part["heading"] or part["text"]]


_pages: list[dict[str, Any]] = []


def on_pre_build(config: Any) -> None:
    """Begin anew."""
    _pages.clear()


def on_page_content(html: str, page: Any, config: Any, files: Any) -> None:
    """Keep the sections of a page."""
    _pages.extend({"page": page.title, "url": page.url, **part} for part in sections(html))


def on_post_build(config: Any) -> None:
    """Write the index beside the pages."""
    path = Path(config["site_dir"]) / INDEX
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"window.searchIndex = {json.dumps(_pages, separators=(',', ':'))};\n", encoding="utf-8")
