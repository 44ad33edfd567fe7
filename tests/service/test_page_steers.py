"""Steering from the page, as a person does: each change shows what it does before it is done, and can be undone."""

import json
import re

import pytest

from tests.service.browsing import ALL_SCREENS, SCREENS, feed, refuse
from tests.service.served import Service, until

RULE = {"forbid": {"offer": "c", "channel": "sms"}}


@pytest.fixture(scope="module")
def served(service):
    feed(service.create("campaign", reward="bernoulli", holdout=0.3, rules=[RULE]), 60, 50)
    service.create("resting", reward="bernoulli").patch(paused=True)
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
    buttons = one.tab.get_by_role("group", name="Share of visitors").get_by_role("button").all()
    assert len({round(button.bounding_box()["y"]) for button in buttons}) == 1, "they stand in one line"
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


VIEWS = [
    *("reward", "traffic", "heat", "effects", "arms", "decisions", "deciders"),
    *("drift", "apprentice", "control", "levels", "events", "health"),
]


def test_what_somebody_changed_is_put_back_from_the_history(served, person):
    bandit = served.create("historic", reward="bernoulli", holdout=0.1)
    bandit.patch(holdout=0.25, window="2 h")
    bandit.post("/levels/retire", {"mode": "offer", "label": "b"})
    one = person("historic/events")
    one.press("Put back: b retired in offer")
    one.confirms("Put it back", "b retired in offer", "Combinations that may be chosen")
    until(lambda: not any(level["retired"] for level in bandit.detail()["levels"]["offer"]))
    one.press("Put back: holdout", exact=False)
    one.confirms("Put it back", "25", "10", "2 h", "as long as it takes")
    until(lambda: bandit.detail()["settings"]["holdout"] == 0.1)
    assert bandit.detail()["settings"]["window"] is None
    one.undoes()  # what was put back is a change like others
    until(lambda: bandit.detail()["settings"]["holdout"] == 0.25)
    one.press("Put back: b retired in offer")
    one.page.says("is not retired")  # in words, beside the button
    assert one.tab.get_by_role("button", name="Put back: made").count() == 0
    assert [words for words in one.page.wrong if "422" not in words] == []  # what cannot be is refused, and said


PLACES = [
    *("", "-/new", "-/keys", "nobody", "resting/control"),
    *("campaign/control", "campaign/levels", "campaign/events", "campaign/reward", "campaign/deciders"),
]


@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing(served, person, screen):
    look_with_axe(person, screen, PLACES)


@pytest.mark.slow
@pytest.mark.parametrize("screen", ALL_SCREENS)
def test_axe_finds_nothing_in_any_view(served, person, screen):
    served.create(f"untried {screen}".replace(" ", "-"), reward="bernoulli", apprentice=True)
    views = [f"{name}/{view}" for name in ("campaign", f"untried-{screen.replace(' ', '-')}") for view in VIEWS]
    look_with_axe(person, screen, views)


def look_with_axe(person, screen, places):
    one = person("", screen)
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        refuse("axe-playwright-python is not installed: it is one of the development packages")
    for place in places:
        one.page.open(place)
        one.tab.wait_for_selector("main h1")
        one.tab.wait_for_function("() => !document.querySelector('#panel') || document.querySelector('#panel *')")
        if place == "campaign/levels":  # with a dialog in front
            one.tab.get_by_text("Make a rule").click()
            one.press("Retire offer a")
            one.reads("Retire a?")
        found = Axe().run(one.tab).response["violations"]
        assert [(place, each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
        if one.tab.locator("dialog").count():
            one.tab.keyboard.press("Escape")


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


def test_a_bandit_is_made_from_nothing_and_decides(served, person):
    one = person("-/new")
    one.tab.get_by_label("Name", exact=True).fill("spring")
    for at, (name, levels) in enumerate([("segment", "new\nold"), ("offer", "a, b, video")]):
        mode = one.tab.locator("fieldset", has_text=f"Mode {at + 1}")
        mode.get_by_label("Name of the mode").fill(name)
        mode.get_by_label("Levels").fill(levels)
    one.tab.get_by_label("given, not chosen").first.check()
    one.tab.get_by_label("About how many decisions earn something, percent").fill("2")
    one.press("Make it …")
    one.reads("Make spring?", "6: 2 segment × 3 offer", "for each of 2 contexts", "if 2.0")
    assert served.http.get("/v1/bandits/spring").status_code == 404  # nothing is made by looking
    one.confirms("Make it")
    one.tab.wait_for_selector("h1:has-text('spring')")
    one.page.says("No decisions yet")
    detail = served.bandit("spring").detail()
    settings = {name: detail["settings"][name] for name in ("window", "default", "holdout")}
    assert (detail["context"], settings) == (["segment"], {"window": "30 min", "default": 0, "holdout": 0.05})
    decides_here(one, served.bandit("spring"), "segment", "old")
    assert one.page.wrong == []


def decides_here(one, bandit, mode, label):
    """Ask for a first decision on the page itself, and tell what it earned."""
    one.press("Try one here …")
    dialog = one.reads("It is a real one")
    dialog.get_by_label(mode).select_option(label)
    one.press("Ask", dialog)
    one.reads("decided by", "probability of that")
    one.confirms("Tell it")
    one.page.says("knows what it earned", "#toast")
    [made] = [event for event in bandit.events() if event["kind"] == "Decided"]
    assert bandit.look_up(made["decision"])["reward"] == 1


def test_a_first_decision_is_given_a_number_where_a_mode_is_of_numbers(served, person):
    modes = {"age": {"numbers": [], "regions": 4}, "offer": ["a", "b"]}
    bandit = served.create("aged", modes, context=["age"], reward="bernoulli")
    one = person("aged/reward")
    one.press("Try one here …")
    dialog = one.reads("It is a real one")
    dialog.get_by_label("age").fill("33")
    one.press("Ask", dialog)
    one.reads("decided by")
    one.confirms("Tell it")
    assert bandit.detail()["regions"]["age"]["seen"] == 1
    assert one.page.wrong == []


def test_a_first_decision_beside_a_rule_says_what_the_rule_plays(served, person):
    bandit = served.create("firstly", reward="bernoulli", apprentice=True)
    one = person("firstly/reward", "phone dark")
    one.page.says("say what your own rule plays")
    body = re.search(r"-d '(.*)'", one.tab.locator("pre").first.inner_text())[1]
    assert set(json.loads(body)["played"]) == {"offer", "channel"}
    decides_here(one, bandit, "channel", "sms")
    assert one.tab.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    assert one.page.wrong == []


def test_modes_come_from_a_csv_file_and_what_is_wrong_is_said(served, person, tmp_path):
    file = tmp_path / "log.csv"
    file.write_text('\ufeffshop;"size, cm"\r\nNord;10\r\n"Sued ""am See""";20\r\nNord;20\r\n', encoding="utf-8")
    one = person("-/new", "phone dark")
    one.tab.get_by_label("Name", exact=True).fill("sizes")
    one.tab.locator("input[type=file]").set_input_files(file)
    one.page.says("2 columns were read", "#toast")
    one.tab.get_by_label("labels are numbers").last.check()
    one.press("Preview")
    one.page.says("4: 2 shop × 2 size, cm", ".preview")
    one.press("Make it …")
    one.confirms("Make it")
    one.tab.wait_for_selector("h1:has-text('sizes')")
    levels = served.bandit("sizes").detail()["levels"]
    assert [level["label"] for level in levels["shop"]] == ["Nord", 'Sued "am See"']
    assert [level["label"] for level in levels["size, cm"]] == [10, 20]
    one.page.open("-/new")
    one.tab.get_by_label("Name", exact=True).fill("sizes")
    file.write_text("a,a\n1,2\n")
    one.tab.locator("input[type=file]").set_input_files(file)
    one.page.says("Two columns of the file are named", ".card")
    one.tab.get_by_label("Name of the mode").first.fill("offer")
    one.press("Make it …")
    one.page.says("has no levels", ".create")
    one.tab.get_by_label("Levels").first.fill("a, b")
    one.press("Make it …")
    one.page.says("is named sizes already", ".create")
    assert one.page.wrong == []


def test_keys_are_made_and_revoked_and_what_a_key_may_not_is_explained(tmp_path, visit):
    with Service(tmp_path / "keys.db") as service:
        service.create("campaign", reward="bernoulli")
        page = visit(service.url)
        page.open()
        one = Person(page)
        one.tab.get_by_role("link", name="Keys").click()
        page.says("There are no keys", "main")

        def make(name, role):
            one.tab.get_by_label("For whom").fill(name)
            one.tab.get_by_label("It may").select_option(role)
            one.press("Make the key …")
            one.confirms("Make it", name)
            page.says(f"The key for {name}", "main")
            return one.tab.locator(".alert pre").inner_text()

        admin = make("boss", "admin")
        one.press("Sign in with it here")
        one.tab.get_by_role("cell", name="boss", exact=True).wait_for()
        read = make("analyst", "read")
        rows = service.http.get("/v1/keys", headers={"Authorization": f"Bearer {admin}"}).json()["keys"]
        assert [(row["name"], row["role"]) for row in rows] == [("boss", "admin"), ("analyst", "read")]
        one.press("Sign out")
        one.tab.get_by_label("API key").fill(read)
        one.tab.keyboard.press("Enter")
        page.says("No bandits", "main") if one.tab.locator(".empty").count() else None
        one.tab.wait_for_selector("h1:has-text('Keys')")
        page.says("To handle keys, sign in with a key of the role admin", "main")
        page.open("campaign/control")
        page.says("Your key (analyst) has the role read")
        for never in ("Pause …", "Delete this bandit …", "Show what changes …"):
            assert one.tab.get_by_role("button", name=never).count() == 0
        page.open("-/new")
        page.says("To make a bandit", "main")
        one.press("Sign out")
        one.tab.get_by_label("API key").fill(admin)
        one.tab.keyboard.press("Enter")
        one.tab.wait_for_selector("h1:has-text('New bandit')")
        page.open("-/keys")
        one.press("Revoke the key analyst")
        one.confirms("Revoke", "It cannot be undone")
        until(lambda: service.http.get("/v1/me", headers={"Authorization": f"Bearer {read}"}).status_code == 401)


def test_a_list_of_many_is_searched_sorted_and_asked_for_at_once(service, served, person):
    for at in range(70):
        service.create(f"many-{at}", {"offer": ["a", "b"]}, context=(), policy="ucb", rank=None)
    service.bandit("many-7").patch(paused=True)
    one = person("")
    one.tab.wait_for_selector(".card.bandit")
    until(lambda: one.tab.wait_for_timeout(50) or any("/v1/overviews" in url for url in one.page.asked))
    assert not any("/view/" in url for url in one.page.asked)
    assert one.tab.locator(".card.bandit").count() <= 60  # the others are drawn as one scrolls
    one.tab.get_by_label("Search bandits").fill("many-")
    one.tab.get_by_label("State").select_option("paused")
    one.tab.wait_for_function("() => document.querySelectorAll('.card.bandit').length === 1")
    assert "many-7" in one.page.text(".cards")
    one.tab.get_by_label("State").select_option("")
    one.tab.get_by_label("Search bandits").fill("MANY-6")
    one.page.says("11 of", "main")
    one.tab.get_by_label("Sort by").select_option("created")
    assert one.tab.locator(".card.bandit h2 a").first.inner_text() == "many-69"
    one.page.open("nobody")
    one.tab.wait_for_selector("h1:has-text('No such bandit')")
    one.tab.get_by_role("link", name="See all bandits").click()
    one.tab.wait_for_selector("h1:has-text('Bandits')")


def test_features_are_pasted_and_a_new_level_starts_from_them(served, person):
    bandit = served.create(reward="bernoulli")
    one = person(f"{bandit.name}/levels")
    card = one.tab.locator("section.card", has=one.tab.get_by_role("heading", name="offer", exact=True))
    card.get_by_text("Features: none").click()
    pasted = card.get_by_label("Paste a table")
    pasted.fill("offer,price\na,1\nz,2")
    one.press("Set features …", card)
    one.page.says("“z” is no level here", "main")
    pasted.fill('offer,price,brand,image\na,9.9,Acme,"[1, 2]"\nb,5,Acme,\nc,7.5,Bolt,"[0, 3]"')
    one.press("Set features …", card)
    one.confirms("Set them", "Of 3 levels: price, brand and image", "learned from all rewards")
    card.get_by_text("Features: price, brand and image").wait_for()
    assert bandit.send("GET", "/features?mode=offer").json()["levels"][1]["features"] == {"price": 5.0, "brand": "Acme"}
    card.get_by_label("New level of offer").fill("summer")
    card.get_by_label("price", exact=True).fill("much")
    one.press("Add …", card)
    one.page.says("“much” is not a number", "main")
    card.get_by_label("price", exact=True).fill("6.5")
    one.press("Add …", card)
    one.confirms("Add", "starts from what was learned of its features")
    card.get_by_text("summer").first.wait_for()
    levels = bandit.send("GET", "/features?mode=offer").json()["levels"]
    assert levels[-1] == {"label": "summer", "features": {"price": 6.5}}
    card.get_by_text("Features: price").click()
    card.get_by_label("Paste a table").fill("offer,price\na,8.9")
    one.press("Set features …", card)
    one.confirms("Set them", "What was learned of these features stays")
    until(lambda: bandit.send("GET", "/features?mode=offer").json()["levels"][0]["features"]["price"] == 8.9)
    one.undoes()
    until(lambda: bandit.send("GET", "/features?mode=offer").json()["levels"][0]["features"]["price"] == 9.9)
    assert one.page.wrong == []


def test_a_bandit_is_made_with_features(served, person):
    one = person("-/new")
    one.tab.get_by_label("Name", exact=True).fill("described")
    one.tab.get_by_label("Name of the mode").first.fill("offer")
    one.tab.get_by_label("Levels").first.fill("a\nb")
    one.tab.get_by_label("What they are like").first.fill("offer,price\na,1\nb,2")
    one.press("Make it …")
    one.confirms("Make it")
    until(lambda: served.bandit("described").send("GET").status_code == 200)
    assert served.bandit("described").detail()["features"]["offer"][0]["name"] == "price"


def test_regions_of_numbers_are_made_and_split(served, person):
    one = person("-/new")
    one.tab.get_by_label("Name", exact=True).fill("ages")
    mode, other = (one.tab.locator("fieldset").nth(at) for at in range(2))
    mode.get_by_label("Name of the mode").fill("age")
    mode.get_by_label("Levels").fill("18, 30, 45, 65")
    mode.get_by_label("a number that requests bring").check()
    other.get_by_label("Name of the mode").fill("offer")
    other.get_by_label("Levels").fill("a\nb")
    one.press("Make it …")
    one.confirms("Make it", "2 offer")
    bandit = served.bandit("ages")
    until(lambda: bandit.send("GET").status_code == 200)
    assert bandit.detail()["regions"]["age"]["numbers"] == ["age"]
    one = person("ages/levels")
    one.page.says("age (numbers: age)", "main")
    one.press("Split age age 30 to 45")
    one.tab.locator("dialog[open]").get_by_label("At").fill("45")
    one.press("Split", one.reads("Split age 30 to 45?", "A split cannot be undone"))
    one.reads("is not between 30 and 45")
    one.tab.locator("dialog[open]").get_by_label("At").fill("38")
    one.confirms("Split")
    one.page.says("age 30 to 38", "main")
    one.page.says("replaced by its parts", "main")
    assert bandit.post("/ask", {"context": {"age": 40}})["context"] == {"age": "age 38 to 45"}
    assert [each for each in one.page.wrong if "422" not in each] == []
