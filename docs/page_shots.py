"""Take the pictures of the service's page: ``python docs/page_shots.py`` runs the demonstration for some minutes first.

Needs chromium, and playwright from the development packages.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent / "assets" / "page"
ADDRESS, MINUTES = "http://127.0.0.1:8902", 5
SHOTS = (  # which view, where it is, how wide, which colours
    ("list", "", "desktop", "light"),
    ("reward", "campaign/reward", "desktop", "light"),
    ("reward", "campaign/reward", "desktop", "dark"),
    ("reward", "campaign/reward", "phone", "light"),
    ("traffic", "campaign/traffic", "desktop", "light"),
    ("traffic", "campaign/traffic", "phone", "dark"),
    ("heat", "campaign/heat", "desktop", "dark"),
    ("effects", "campaign/effects", "desktop", "light"),
    ("arms", "campaign/arms", "desktop", "light"),
    ("arms", "campaign/arms", "phone", "dark"),
    ("decisions", "campaign/decisions", "desktop", "light"),
    ("drift", "campaign/drift", "desktop", "light"),
    ("apprentice", "apprentice/apprentice", "desktop", "light"),
    ("events", "campaign/events", "desktop", "dark"),
    ("control", "campaign/control", "desktop", "light"),
    ("control", "apprentice/control", "phone", "dark"),
    ("levels", "campaign/levels", "desktop", "light"),
    ("new", "-/new", "desktop", "light"),
    ("health", "campaign/health", "desktop", "light"),
)
SIZES = {"desktop": ({"width": 1200, "height": 1000}, 1), "phone": ({"width": 360, "height": 1100}, 2)}


def main() -> None:
    """Run the demonstration, and take all pictures."""
    command = [sys.executable, "-m", "tensorbandits", "serve", "--demo", "--port", ADDRESS.rsplit(":", 1)[1]]
    with subprocess.Popen([*command, "--log-level", "warning"]) as server:
        try:
            time.sleep(60 * MINUTES)
            FOLDER.mkdir(parents=True, exist_ok=True)
            take()
        finally:
            server.terminate()


def take() -> None:
    """Take the pictures of a service that runs."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        for name, place, size, colours in SHOTS:
            viewport, scale = SIZES[size]
            context = browser.new_context(viewport=viewport, color_scheme=colours, device_scale_factor=scale)
            page = context.new_page()
            page.goto(f"{ADDRESS}/#/{place}")
            page.wait_for_timeout(20_000 if name == "drift" else 5_000)
            file = FOLDER / f"{name}-{size}-{colours}.png"
            page.screenshot(path=file)
            context.close()
            Image.open(file).convert("RGB").quantize(200, dither=Image.Dither.NONE).save(file, optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
