"""Run the pages whose figures are those that their code writes, and keep these.

python docs/page_figures.py      # a minute; the figures are in docs/assets/seeing and docs/assets/offers
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
PAGES = {
    DOCS / "how-to" / "see-what-was-learned.md": DOCS / "assets" / "seeing",
    DOCS / "tutorial-offers.md": DOCS / "assets" / "offers",
}


def run(page: Path, figures: Path) -> dict[str, Any]:
    """Run the code of a page where its figures are kept, and return what it defines."""
    figures.mkdir(parents=True, exist_ok=True)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = {"__name__": "page"}
    with contextlib.chdir(figures):
        exec(compile("\n".join(blocks), str(page), "exec"), found)
    return found


if __name__ == "__main__":
    for page, figures in PAGES.items():
        run(page, figures)
