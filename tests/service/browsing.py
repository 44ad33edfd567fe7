"""A real browser for tests of the page: what it does that it should not is noted, and what is read is waited for."""

import os
import shutil

import pytest

_NO_BROWSER = "there is no chromium that playwright could drive; install both, as the command of CI does"
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENS = {"desktop light": (1280, 900, "light"), "phone dark": (360, 740, "dark")}
ALL_SCREENS = SCREENS | {"desktop dark": (1280, 900, "dark"), "phone light": (390, 844, "light")}


def refuse(words):
    if os.environ.get("CI"):
        pytest.fail(words)
    pytest.skip(words)


def launched(playwright):
    """Return Debian's browser, driven by playwright."""
    chromium = shutil.which("chromium")
    if chromium is None:
        refuse(_NO_BROWSER)
    return playwright.chromium.launch(executable_path=chromium, args=_ARGUMENTS)


def driver():
    """Return what drives browsers, to be used by ``with``."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        refuse(_NO_BROWSER)
    return sync_playwright()


def feed(bandit, rounds=160, rewarded=150, played=None):
    """Ask and tell, twenty at a time: clicks depend on the last mode."""
    detail = bandit.detail()
    modes, context = detail["levels"], detail["context"]
    last = [mode for mode in modes if mode not in context][-1]
    for begin in range(0, rounds, 20):
        numbers = range(begin, min(begin + 20, rounds))
        labels = [{mode: modes[mode][at % len(modes[mode])]["label"] for mode in context} for at in numbers]
        requests = [{"context": some, **(played or {})} for some in labels]
        decisions = bandit.post("/ask-many", {"requests": requests})["decisions"]
        rewards = []
        for at, one in zip(numbers, decisions):
            good = one["arm"][last] == modes[last][0]["label"]
            if at < rewarded:
                rewards.append({"id": one["id"], "reward": int(at % 10 < (7 if good else 2))})
        if rewards:
            results = bandit.post("/tell-many", {"rewards": rewards})["results"]
            assert all("error" not in answer for answer in results)


class Page:
    """A page, with everything that it did which it should not have."""

    def __init__(self, context, url):
        self.tab, self.url, self.wrong, self.asked = context.new_page(), url, [], []
        self.going, self.twice = {}, []
        self.tab.on("console", lambda said: said.type in ("error", "warning") and self.wrong.append(said.text))
        self.tab.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.tab.on("request", self._request)
        self.tab.on("requestfinished", self._ended)
        self.tab.on("requestfailed", self._ended)
        self.tab.on(
            "response", lambda answer: answer.status >= 400 and self.wrong.append(f"{answer.status} {answer.url}")
        )

    def _request(self, request):
        self.asked.append(request.url)
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.wrong.append(f"a request to {request.url}")
        if "/view/" in request.url:
            what = request.url.split("?")[0]
            self.going[what] = self.going.get(what, 0) + 1
            if self.going[what] > 1:
                self.twice.append(what)

    def _ended(self, request):
        if "/view/" in request.url:
            what = request.url.split("?")[0]
            self.going[what] = self.going.get(what, 1) - 1

    def open(self, place=""):
        self.tab.goto(f"{self.url}/#/{place}")
        return self.tab

    def drawn(self, figures=1):
        """Wait until so many charts are there."""
        charts = "#panel figure:not([hidden]) .chart svg.main-svg:first-of-type"
        self.tab.wait_for_function(f"() => document.querySelectorAll('{charts}').length >= {figures}", timeout=60_000)

    def text(self, where="main"):
        return self.tab.inner_text(where)

    def says(self, words, where="#panel"):
        """Wait until something is read there, also in charts."""
        try:
            read = (
                "([where, words]) => [...document.querySelectorAll(where)].some(one => one.textContent.includes(words))"
            )
            self.tab.wait_for_function(read, arg=[where, words])
        except Exception as error:
            raise AssertionError(f"{words!r} is not in {self.tab.text_content('main')!r}") from error
