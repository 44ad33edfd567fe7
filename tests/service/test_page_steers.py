"""Steering from the page, as a person does: each change shows what it does before it is done, and can be undone."""

import pytest

from tests.service.browsing import SCREENS, feed
from tests.service.served import until

RULE = {"forbid": {"offer": "c", "channel": "sms"}}


@pytest.fixture(scope="module")
def served(service):
    feed(service.create("campaign", reward="bernoulli", holdout=0.3, rules=[RULE]), 60, 50)
    return service


class Person:
    """Somebody at a page, who presses buttons and reads dialogs."""

    def __init__(self, page):
        self.page, self.tab = page, page.tab

    def press(self, name, within=None, exact=True):
        (within or self.tab).get_by_role("button", name=name, exact=exact).first.click()

    def reads(self, *words):
        """Wait for a dialog that says this, and return it."""
        dialog = self.tab.locator("dialog[open]")
        dialog.wait_for()
        for some in words:
            self.page.says(some, "dialog[open]")
        return dialog

    def confirms(self, name, *words):
        dialog = self.reads(*words)
        self.press(name, dialog)
        dialog.wait_for(state="detached")

    def undoes(self, name="Undo"):
        self.press(name, self.tab.locator("#toast"))
        self.page.says("Undone", "#toast")


@pytest.fixture
def person(served, visit):
    def person(place, screen="desktop light"):
        page = visit(served.url, screen)
        page.open(place)
        return Person(page)

    return person


@pytest.mark.parametrize("screen", SCREENS)
def test_pausing_shows_what_it_does_and_is_undone(served, person, screen):
    bandit = served.bandit("campaign")
    one = person("campaign/reward", screen)
    one.press("Pause …")
    one.reads("Pause campaign?", "the baseline decides", "Decided by the baseline", "100")
    one.tab.keyboard.press("Escape")
    assert not bandit.detail()["paused"]
    one.press("Pause …")
    one.confirms("Pause")
    one.tab.wait_for_selector(".title .badge:has-text('paused')")
    assert bandit.ask()["by"] == "holdout"
    assert bandit.kinds().count("Changed") % 3 == 1
    one.undoes()
    one.tab.wait_for_selector(".title .badge:has-text('deciding')")
    assert not bandit.detail()["paused"]
    assert one.tab.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    bandit.patch(paused=False)
    assert one.page.wrong == []


def test_settings_are_changed_with_before_and_after(served, person):
    bandit = served.bandit("campaign")
    one = person("campaign/control")
    one.tab.get_by_label("Held out for the baseline, percent").fill("10")
    one.tab.get_by_label("A decision waits for its reward").fill("2 h")
    one.press("Add a share")
    one.tab.get_by_label("Percent", exact=True).fill("100")
    one.tab.locator(".share-row").get_by_label("offer").select_option("a")
    one.press("Show what changes …")
    one.confirms("Change", "30", "10", "as long as it takes", "2 h", "100.0", "offer = a", "Decided by the bandit")
    settings = bandit.detail()["settings"]
    assert (settings["holdout"], settings["window"]) == (0.1, "2 h")
    assert settings["baseline"] == [{"labels": {"offer": "a"}, "share": 1}]
    one.page.says("Changed from here")
    one.undoes()
    settings = bandit.detail()["settings"]
    assert (settings["holdout"], settings["window"], settings["baseline"]) == (0.3, None, None)
    one.page.says("undone")
    one.tab.get_by_label("A decision waits for its reward").fill("a while")
    one.press("Show what changes …")
    one.page.says("a while", "#panel .wrong")  # in the server's words, and nothing is changed
    assert bandit.detail()["settings"]["window"] is None


def test_a_gradual_start_goes_up_and_back(served, person):
    bandit = served.create("beside", reward="bernoulli", apprentice=True)
    one = person("beside/control")
    one.press("5 %", exact=False)
    one.confirms("Set 5 %", "drawn at random", "Share of visitors", "95")
    one.tab.wait_for_selector(".title .badge:has-text('gradual start: 5')")
    assert bandit.detail()["rollout"] == 0.05
    one.press("0 %: only watch")
    one.confirms("Only watch", "What was learned stays")
    until(lambda: bandit.detail()["rollout"] == 0)
    assert one.page.wrong == []


def test_levels_and_rules_come_and_go_by_keyboard_alone(served, person):
    bandit = served.bandit("campaign")
    one = person("campaign/levels")
    keys = one.tab.keyboard
    label = one.tab.get_by_label("New level of offer")
    label.focus()
    keys.type("summer")
    keys.press("Enter")
    one.reads("Add summer to offer?", "Combinations", "12", "16")
    keys.press("Tab")  # the dialog is left only by its buttons
    while one.tab.evaluate("() => document.activeElement.textContent") != "Add":
        keys.press("Tab")
    keys.press("Enter")
    one.page.says("summer", ".levels")
    assert {"label": "summer", "retired": False} in bandit.detail()["levels"]["offer"]
    one.undoes("Undo (retire it)")
    one.page.says("summer retired", ".levels")
    one.tab.get_by_role("button", name="Remove the rule: Never where offer is c and channel is sms").focus()
    keys.press("Enter")
    one.reads("Remove this rule?", "Combinations that may be chosen")
    keys.press("Enter")  # the first button of a dialog is to leave it
    one.tab.locator("dialog").wait_for(state="detached")
    assert bandit.detail()["rules"] == [RULE]


def test_a_rule_says_which_share_it_forbids(served, person):
    bandit = served.create("ruled", reward="bernoulli")
    one = person("ruled/levels")
    one.tab.get_by_text("Make a rule").click()
    form = one.tab.locator("form", has_text="What it says")
    form.get_by_label("offer").select_option("b")
    form.get_by_label("channel").select_option("mail")
    one.press("Show what it forbids …")
    one.confirms("Make the rule", "Never where offer is b and channel is mail", "83.3")
    one.page.says("forbids 16.7")
    one.undoes()
    assert bandit.detail()["rules"] == []
    one.tab.get_by_text("Make a rule").click()
    one.tab.get_by_label("What it says").select_option("allow")
    one.tab.get_by_label("Only these of offer").select_option(["a", "b"])
    one.press("Show what it forbids …")
    one.confirms("Make the rule", "Only offer a, b", "66.7")
    assert bandit.detail()["rules"] == [{"allow": {"offer": ["a", "b"]}}]
    one.press("Retire offer a")
    one.confirms("Retire", "It is chosen no more")
    one.press("Retire offer b")
    one.reads("Retire b?") if one.tab.locator("dialog").count() else one.page.says("nothing would be left to choose")
    assert [one["retired"] for one in bandit.detail()["levels"]["offer"]] == [True, False, False]


def test_deleting_asks_for_the_name(served, person):
    served.create("doomed", reward="bernoulli")
    one = person("doomed/control")
    one.press("Delete this bandit …")
    dialog = one.reads("Delete doomed?")
    go = dialog.get_by_role("button", name="Delete for good")
    assert go.is_disabled()
    dialog.get_by_label("Type its name, doomed").fill("doome")
    assert go.is_disabled()
    dialog.get_by_label("Type its name, doomed").fill("doomed")
    go.click()
    one.tab.wait_for_selector("h1:has-text('Bandits')")
    assert served.http.get("/v1/bandits/doomed").status_code == 404
