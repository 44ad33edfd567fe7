"""Everything that steers a bandit, by keyboard alone, from nothing to its end, in both colours, on all screens."""

import pytest

from tests.service.browsing import ALL_SCREENS
from tests.service.served import Service

_FOCUSED = """() => {
  const one = document.activeElement;
  const label = one.labels?.[0];
  const named = label?.contains(one) ? label.querySelector('span') ?? label : label ?? one;
  return (one.getAttribute('aria-label') ?? named.textContent).trim();
}"""
_SEEN = """() => {
  const box = document.activeElement.getBoundingClientRect();
  return box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.left < innerWidth;
}"""
_THIN = "\u202f"  # before a unit, so that no line ends there
MOST = 150  # elements that the tab key may pass by


class Typist:
    """Somebody who has a keyboard only, and sees what has the focus."""

    def __init__(self, page):
        self.page, self.tab, self.keys = page, page.tab, page.tab.keyboard

    def reach(self, name):
        """Press Tab until what has this name has the focus, and is seen."""
        passed = []
        for _ in range(MOST):
            self.keys.press("Tab")
            passed.append(self.tab.evaluate(_FOCUSED))
            if passed[-1] == name:
                assert self.tab.evaluate(_SEEN), f"{name} has the focus out of sight"
                return
        raise AssertionError(f"{name!r} cannot be reached, but {passed}")

    def press(self, name):
        self.reach(name)
        self.keys.press("Enter")

    def types(self, name, words):
        self.reach(name)
        self.keys.type(words)

    def confirms(self, button, *words):
        """Go from the first button of a dialog, which leaves it, to the one that does it."""
        dialog = self.tab.locator("dialog[open]")
        dialog.wait_for()
        for some in words:
            self.page.says(some, "dialog[open]")
        self.press(button)
        dialog.wait_for(state="detached")

    def opens(self, place):
        """Go to a tab with the arrows."""
        for _ in range(MOST):
            if self.tab.evaluate("() => document.activeElement.getAttribute('role')") == "tab":
                break
            self.keys.press("Tab")
        self.keys.press("Home")
        while self.tab.evaluate("() => document.activeElement.id") != f"tab-{place}":
            self.keys.press("ArrowRight")
            assert self.tab.evaluate("() => document.activeElement.id") != "tab-reward", f"there is no tab {place}"
        self.tab.wait_for_selector(f"#panel[aria-labelledby='tab-{place}']")

    def badge(self, words):
        self.tab.wait_for_selector(f".title .badge:has-text('{words}')")


@pytest.fixture
def service(tmp_path):
    with Service(tmp_path / "own.db") as service:
        yield service


@pytest.mark.slow
@pytest.mark.parametrize("screen", ALL_SCREENS)
def test_from_a_first_bandit_to_its_end_by_keyboard_alone(service, visit, screen):
    page = visit(service.url, screen, accept_downloads=True)
    page.open()
    one = Typist(page)
    create(one)
    bandit = service.bandit("spring")
    steer(one, bandit)
    look(one)
    one.opens("control")
    one.press("Delete this bandit …")
    one.page.says("Delete spring?", "dialog[open]")
    one.keys.type("spring")  # the field has the focus
    one.confirms("Delete for good")
    one.tab.wait_for_selector("h1:has-text('Bandits')")
    assert service.http.get("/v1/bandits/spring").status_code == 404
    handle_keys(one)
    # The page may look once more at what is gone, and is refused when its key is.
    assert [words for words in page.wrong if "status of 40" not in words and not words.startswith(("401", "404"))] == []


def create(one):
    one.tab.wait_for_selector("h1:has-text('Bandits')")
    one.press("New bandit")
    one.tab.wait_for_selector("h1:has-text('New bandit')")
    one.types("Name", "spring")
    for name, levels in (("segment", "new\nold"), ("offer", "a, b, video")):
        one.types("Name of the mode", name)
        one.types("Levels", levels)
        if name == "segment":
            one.reach("given, not chosen (context)")
            one.keys.press("Space")
    one.types("It will", "run")  # chooses what begins so
    one.press("Make it …")
    one.confirms("Make it", "6: 2 segment × 3 offer", f"your own rule 100{_THIN}%")
    one.tab.wait_for_selector("h1:has-text('spring')")
    one.badge("apprentice")


def steer(one, bandit):
    one.opens("control")
    one.press(f"5{_THIN}%")
    one.confirms(f"Set 5{_THIN}%", "drawn at random")
    one.badge("gradual start: 5")
    assert bandit.detail()["rollout"] == 0.05
    one.press("Undo")
    one.badge("apprentice")
    one.opens("levels")
    one.types("New level of offer", "summer")
    one.keys.press("Enter")
    one.confirms("Add", "Add summer to offer?")
    one.page.says("summer", ".levels")
    one.press("Make a rule")
    one.types("offer", "b")
    one.press("Show what it forbids …")
    one.confirms("Make the rule", "Never where offer is b")
    one.page.says("forbids 25", "#panel")
    one.press("Undo")
    one.page.says("Undone", "#toast")
    assert bandit.detail()["rules"] == []
    one.press("Retire offer video")
    one.confirms("Retire", "It is chosen no more")
    one.press("Pause …")
    one.confirms("Pause", "your own rule decides")
    one.badge("paused")
    assert bandit.detail()["paused"]


def look(one):
    """The history, with a filter and as a file, and the report."""
    one.opens("events")
    one.page.says("Paused", "#panel td")
    one.types("What", "rules")
    one.page.says("2 changes", "#panel")
    with one.tab.expect_download() as saved:
        one.press("Save as CSV")
    assert saved.value.suggested_filename == "spring-changes.csv"
    with one.tab.expect_download() as saved:
        one.press("Report")
    assert saved.value.suggested_filename == "spring-report.html"


def handle_keys(one):
    one.press("Keys")
    one.tab.wait_for_selector("h1:has-text('Keys')")
    one.types("For whom", "boss")
    one.press("Make the key …")
    one.confirms("Make it", "It is the first key")
    one.press("Sign in with it here")
    one.page.says("do everything", "td")
    one.press("Revoke the key boss")
    one.confirms("Revoke", "It cannot be undone")
    one.tab.wait_for_selector("h1:has-text('Sign in')")
