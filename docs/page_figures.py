"""Run the page about seeing what was learned, and keep the figures that its code writes.

python docs/page_figures.py      # half a minute; the figures are in docs/assets/seeing
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGE, FIGURES = DOCS / "how-to" / "see-what-was-learned.md", DOCS / "assets" / "seeing"


def main() -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    with contextlib.chdir(FIGURES):
        exec(compile("\n".join(blocks), str(PAGE), "exec"), {"__name__": "page"})


if __name__ == "__main__":
    main()
