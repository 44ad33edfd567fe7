"""Time the ways to a first decision: ``python docs/first_decisions.py``, in the browser alone and in TypeScript.

Both begin with a service that runs and has nothing, and end with a reward that is told. The browser is driven as a
person would: a second for each step, and ten keys a second. Needs chromium, playwright, and Node with npm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ADDRESS = "http://127.0.0.1:8903"
STEP, KEY = 1_000, 100  # milliseconds
PAGE = Path(__file__).parent / "how-to" / "typescript.md"


def main() -> None:
    """Print the seconds of each step."""
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "events.db"):
        for name, seconds in [*in_the_browser(), *in_typescript(Path(folder))]:
            print(f"{name}: {seconds:.1f} s", flush=True)


@contextmanager
def served(store: Path) -> Iterator[None]:
    """A service, until it is ready and then for a while."""
    command = [sys.executable, "-m", "tensorbandits", "serve", "--port", ADDRESS.rsplit(":", 1)[1]]
    with subprocess.Popen([*command, "--store", str(store), "--log-level", "warning"]) as server:
        try:
            while not is_ready():
                time.sleep(0.2)
            yield
        finally:
            server.terminate()


def is_ready() -> bool:
    """Whether the service may be asked."""
    try:
        with urllib.request.urlopen(f"{ADDRESS}/readyz"):
            return True
    except (urllib.error.URLError, OSError):
        return False


def in_the_browser() -> list[tuple[str, float]]:
    """Make a bandit, ask it and tell the reward, on the page alone."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"], slow_mo=STEP
        )
        page = browser.new_page()
        began = time.monotonic()
        page.goto(ADDRESS)
        page.get_by_role("button", name="New bandit").or_(page.get_by_role("link", name="New bandit")).first.click()
        page.get_by_label("Name", exact=True).press_sequentially("spring", delay=KEY)
        for at, (mode, levels) in enumerate({"segment": "new, old", "offer": "a, b, c"}.items()):
            row = page.locator("fieldset", has_text=f"Mode {at + 1}")
            row.get_by_label("Name of the mode").press_sequentially(mode, delay=KEY)
            row.get_by_label("Levels").press_sequentially(levels, delay=KEY)
        page.get_by_label("given, not chosen").first.check()
        page.get_by_role("button", name="Make it …").click()
        page.get_by_role("button", name="Make it", exact=True).click()
        page.get_by_role("button", name="Try one here …").click()
        made = time.monotonic()
        page.get_by_role("button", name="Ask", exact=True).click()
        page.get_by_role("button", name="Tell it").click()
        page.get_by_text("knows what it earned").wait_for()
        ended = time.monotonic()
        browser.close()
    return [("browser: make a bandit", made - began), ("browser: ask, and tell the reward", ended - made)]


def in_typescript(folder: Path) -> list[tuple[str, float]]:
    """Follow the page of TypeScript, step by step."""
    blocks = [block.split("```")[0] for block in PAGE.read_text(encoding="utf-8").split("```typescript\n")[1:]]
    (folder / "first.ts").write_text(blocks[0], encoding="utf-8")
    shell = [block.split("```")[0] for block in PAGE.read_text(encoding="utf-8").split("```sh\n")[1:]]
    install, types = shell[1].strip().rsplit("\n", 1)
    names = {"install the tools": install, "generate the types": types, "compile and run": shell[2]}
    found = []
    for name, lines in names.items():
        began = time.monotonic()
        environment = os.environ | {"TENSORBANDITS_URL": ADDRESS}
        command = lines.replace("http://127.0.0.1:8000", ADDRESS)
        subprocess.run(command, shell=True, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        found.append((f"TypeScript: {name}", time.monotonic() - began))
    return found


if __name__ == "__main__":
    main()
