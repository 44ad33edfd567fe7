"""The page in a real browser: every view with data, by keyboard and on a phone, nothing from elsewhere, and the key."""

import re
import sqlite3
from pathlib import Path

import httpx
import pytest

from tests.service.browsing import SCREENS, feed
from tests.service.served import Service, until

TABS = [
    "reward",
    "traffic",
    "heat",
    "effects",
    "arms",
    "decisions",
    "drift",
    "apprentice",
    "control",
    "levels",
    "events",
    "health",
]
FIGURES = {"reward": 2, "traffic": 1, "heat": 2, "effects": 3, "arms": 1, "decisions": 1}
STRANGE = {
    "<b>who</b>": ['<b>&"', "<img src=x onerror=hacked=1>"],
    "1": ["$a$ %{y}", "</script><script>hacked=1</script>", 7],
    "0": ["x" * 120, "ü 漢字 🙂"],
}


@pytest.fixture(scope="module")
def served(service):
    feed(service.create("campaign", reward="bernoulli", holdout=0.3))
    arm = {"played": {"offer": "a", "channel": "mail"}, "propensity": 0.5}
    feed(service.create("watching", reward="bernoulli", apprentice=True), played=arm)
    feed(service.create("strange", STRANGE, context=["<b>who</b>"], reward="bernoulli", holdout=0.3))
    service.create("empty", reward="bernoulli")
    return service


@pytest.mark.parametrize("screen", SCREENS)
def test_every_view_is_drawn(served, visit, screen):
    page = visit(served.url, screen)
    for tab in TABS:
        page.open(f"campaign/{tab}")
        page.tab.wait_for_selector(f"#tab-{tab}[aria-selected=true]")
        if tab in FIGURES:
            page.drawn(FIGURES[tab])
        page.tab.wait_for_function("() => document.querySelector('#panel').innerText.length > 60")
        too_wide = page.tab.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
        assert too_wide <= 0, f"{tab} is {too_wide} px too wide for the {screen}"
        assert "NaN" not in page.text()
        assert "undefined" not in page.text()
    assert page.wrong == []


def test_views_say_what_they_show(served, visit):
    page = visit(served.url)
    words = {
        "reward": ["Mean reward over time", "bandit", "holdout", "Not decided yet", "valid at every look"],
        "traffic": ["Traffic by offer", "share of decisions"],
        "heat": ["Estimated mean reward", " with ", "intervals are"],
        "effects": ["hat matters", "Main effects", "segment (given)"],
        "arms": ["Best choices for segment = new", "Best now"],
        "decisions": ["How long rewards take", "10 decisions wait", "wait longest"],
        "drift": ["Too few to tell whether anything has moved", "How modes act"],
        "apprentice": ["The bandit decides", "curl -X PATCH"],
        "events": ["decided", "rewarded", "probability"],
        "health": ["Ready to decide", "store"],
    }
    for tab, expected in words.items():
        page.open(f"campaign/{tab}")
        for some in expected:
            page.says(some)
    assert "160" in page.text(".tiles")
    assert page.wrong == []


def test_what_is_suggested_is_done_where_it_is_suggested_and_undone(service, visit):
    bandit = service.create("falling", reward="gaussian")
    for at in range(16):
        rows = [{"context": {"segment": "new"}, "arm": {"offer": "abc"[n % 3], "channel": "sms"}} for n in range(60)]
        gone = at >= 8
        rewards = [
            {**row, "reward": (n % 7) / 7 - 3.0 * (gone and row["arm"]["offer"] == "b")} for n, row in enumerate(rows)
        ]
        bandit.post("/tell-many", {"rewards": rewards})
    page = visit(service.url, "phone dark", accept_downloads=True)
    page.open("falling/drift")
    page.says("offer: b fell")
    page.tab.get_by_role("button", name="Do it: stop choosing offer 'b'").press("Enter")
    page.says("Done: stop choosing offer 'b'")
    assert [one["retired"] for one in bandit.detail()["levels"]["offer"]] == [False, True, False]
    page.tab.wait_for_function("() => !document.querySelector('#panel').innerText.includes('retire_level')")
    page.tab.get_by_role("button", name="Undo").press("Enter")
    page.says("Taken back.")
    assert not any(one["retired"] for one in bandit.detail()["levels"]["offer"])
    with page.tab.expect_download() as saved:
        page.tab.get_by_role("button", name="Report").click()
    assert saved.value.suggested_filename == "falling-report.html"
    assert page.wrong == []


def test_the_list_has_a_card_for_each_bandit(served, visit):
    page = visit(served.url, "phone dark")
    page.open()
    page.tab.wait_for_function("() => document.querySelectorAll('.card.bandit').length >= 4")
    card = page.tab.locator(".card.bandit", has_text="campaign")
    card.locator(".spark svg path").wait_for(state="attached")
    assert "160" in card.inner_text()
    until(lambda: "%" in card.inner_text())
    card.locator("a").click()
    page.tab.wait_for_selector("h1:has-text('campaign')")
    page.drawn()
    page.tab.get_by_text("All bandits").click()
    page.tab.wait_for_selector("h1:has-text('Bandits')")
    assert page.wrong == []


def test_labels_are_shown_as_they_are(served, visit):
    page = visit(served.url)
    for tab, figures in FIGURES.items():
        page.open(f"strange/{tab}")
        page.drawn(figures)
    page.open("strange/arms")
    page.tab.wait_for_selector("#panel select")
    assert page.tab.locator("#panel select option").all_inner_texts() == STRANGE["<b>who</b>"]
    page.tab.locator("#panel select").select_option("1")
    page.tab.wait_for_selector("h3:has-text('<b>who</b> = <img src=x onerror=hacked=1>')")
    page.says("$a$ %{y}", ".chart")
    page.open("strange/events")
    page.tab.wait_for_selector("td:has-text('<img src=x onerror=hacked=1>')")
    assert page.tab.locator("img").count() == 1  # the sign of the page
    assert page.tab.evaluate("() => window.hacked") is None
    assert page.wrong == []


def test_before_decisions_the_page_says_how_to_ask(served, visit):
    page = visit(served.url)
    page.open("empty")
    page.tab.wait_for_selector("text=No decisions yet")
    line = page.tab.locator("pre").first.inner_text()
    assert f"'{served.url}/v1/bandits/empty/ask'" in line
    body = re.search(r"-d '(.*)'", line)[1]
    answer = served.http.post("/v1/bandits/empty/ask", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    page.tab.wait_for_selector("text=No rewards to draw yet")  # it is seen without a reload
    assert page.wrong == []


def test_numbers_move_while_one_looks(served, visit):
    bandit = served.create(reward="bernoulli")
    feed(bandit, 30, 20)
    page = visit(served.url)
    page.open(f"{bandit.name}/events")
    page.tab.wait_for_selector(".tiles:has-text('30')")
    feed(bandit, 45, 45)
    page.tab.wait_for_selector(".tiles:has-text('75')")
    feed(bandit, 25, 25)
    page.tab.wait_for_selector(".tiles:has-text('100')")
    assert page.wrong == []
    assert page.twice == []


def test_a_page_that_is_not_seen_asks_nothing(served, visit):
    page = visit(served.url)
    page.open("campaign/events")
    page.tab.wait_for_selector("td")
    hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true}); "
    hide += "document.dispatchEvent(new Event('visibilitychange')); }"
    page.tab.evaluate(hide, True)
    page.tab.wait_for_timeout(500)  # what is under way comes to its end
    page.asked.clear()
    page.tab.wait_for_timeout(5000)
    assert page.asked == []
    page.tab.evaluate(hide, False)
    until(lambda: page.tab.wait_for_timeout(50) or len(page.asked) >= 2)


def test_trouble_is_said_and_goes_away(served, visit):
    page = visit(served.url)
    page.open("campaign/reward")
    page.drawn(2)
    full = '{"error": {"code": "unavailable", "message": "The disk is full.", "request": "r-17"}}'
    page.tab.route("**/view/**", lambda route: route.fulfill(status=503, content_type="application/json", body=full))
    page.tab.wait_for_selector("#trouble:has-text('The disk is full. (request r-17) Trying again in')")
    page.tab.unroute("**/view/**")
    page.tab.route("**/view/**", lambda route: route.abort())
    page.tab.wait_for_selector("#trouble:has-text('cannot be reached')")
    page.tab.unroute("**/view/**")
    page.tab.wait_for_selector("#trouble", state="hidden")
    page.tab.route("**/view/reward*", lambda route: route.abort())
    page.tab.wait_for_selector("#trouble:has-text('cannot be reached')")
    page.open("campaign/traffic")  # with which nothing is wrong
    page.tab.wait_for_selector("#trouble", state="hidden", timeout=5_000)
    page.open("nothing")
    page.tab.wait_for_selector("h1:has-text('No such bandit')")  # which is no trouble, but a page of its own


def test_the_history_says_who_changed_what_and_what_became_of_a_decision(served, visit):
    bandit = served.create(reward="bernoulli", holdout=0.1)
    bandit.tell(bandit.ask(id="order-1")["id"], 1)
    page = visit(served.url, "phone dark")
    page.open(f"{bandit.name}/events")
    page.says("made, of 2 segment x 3 offer x 2 channel", "summary")
    bandit.patch(holdout=0.25)
    bandit.post("/levels", {"mode": "offer", "label": "summer"})
    page.says("offer: summer", "#panel section:first-child td")  # it is seen without a reload
    page.tab.locator("#panel select").first.select_option("Changed,Created")
    changes = page.tab.locator("#panel section").first
    until(lambda: changes.locator("td", has_text="offer: summer").count() == 0)
    row = [
        words.replace("\u202f", " ")
        for words in changes.locator("tr", has_text="Held out").locator("td").all_inner_texts()
    ]
    assert row[1:6] == ["everybody", "settings changed", "Held out for the baseline", "10 %", "25 %"]
    page.tab.get_by_label("Decision id").fill("order-1")
    page.tab.get_by_role("button", name="Look it up").click()
    page.says("now rewarded, reward 1.")
    with page.tab.expect_download() as saved:
        page.tab.get_by_role("button", name="Save as CSV").click()
    assert "Changed,everybody,holdout,0.1,0.25" in Path(saved.value.path()).read_text()
    assert page.wrong == []


def test_everything_can_be_reached_by_keyboard(served, visit):
    page = visit(served.url)
    page.open("campaign/reward")
    page.drawn(2)
    page.tab.evaluate("() => document.activeElement.blur()")
    page.tab.keyboard.press("Tab")
    assert page.tab.evaluate("() => document.activeElement.textContent") == "Skip to the content"
    page.tab.keyboard.press("Enter")
    assert page.tab.evaluate("() => document.activeElement.id") == "main"
    page.tab.keyboard.press("Tab")  # all bandits
    page.tab.keyboard.press("Tab")
    assert page.tab.evaluate("() => document.activeElement.textContent") == "Pause …"
    for _ in ("the report", "its period", "the views"):
        page.tab.keyboard.press("Tab")
    focused = "() => document.activeElement.id"
    assert page.tab.evaluate(focused) == "tab-reward"
    outline = "() => getComputedStyle(document.activeElement).outlineStyle"
    assert page.tab.evaluate(outline) == "solid"
    for key, tab in [("ArrowRight", "traffic"), ("End", "health"), ("ArrowRight", "reward"), ("ArrowLeft", "health")]:
        page.tab.keyboard.press(key)
        assert page.tab.evaluate(focused) == f"tab-{tab}"
        page.tab.wait_for_selector(f"#tab-{tab}[aria-selected=true]")
    page.tab.keyboard.press("Home")
    page.tab.keyboard.press("Tab")
    assert page.tab.evaluate(focused) == "panel"
    tabs = page.tab.locator("[role=tab]")
    assert sum(tabs.nth(at).get_attribute("tabindex") == "0" for at in range(tabs.count())) == 1
    assert page.tab.locator("[role=tabpanel]").get_attribute("aria-labelledby") == "tab-reward"
    assert page.wrong == []


def test_colours_follow_the_system_and_the_switch(served, visit):
    ground = "() => getComputedStyle(document.body).backgroundColor"
    page = visit(served.url, "phone dark")
    page.open("campaign")
    dark = page.tab.evaluate(ground)
    page.tab.get_by_role("button", name="Use light colours").click()
    light = page.tab.evaluate(ground)
    assert dark != light
    page.tab.reload()
    page.tab.get_by_role("button", name="Use dark colours").wait_for()
    assert page.tab.evaluate(ground) == light
    other = visit(served.url)
    other.open()
    other.tab.get_by_role("button", name="Use dark colours").wait_for()
    assert other.tab.evaluate(ground) == light
    assert page.wrong == other.wrong == []


def test_choosing_other_modes_and_contexts(served, visit):
    page = visit(served.url)
    page.open("campaign/heat")
    page.drawn(2)
    page.tab.get_by_label("Rows").select_option("segment")
    page.says("segment", ".chart")
    page.tab.locator("label", has_text="averaged over").locator("select").select_option("2")
    page.tab.wait_for_selector("text=offer = c")
    page.tab.locator("label", has_text="averaged over").locator("select").select_option("")
    page.tab.wait_for_selector("text=averaged over offer")
    page.open("campaign/traffic")
    page.tab.get_by_label("Mode").select_option("channel")
    page.tab.wait_for_selector("h3:has-text('Traffic by channel')")
    page.tab.get_by_label("Horizontal axis").select_option("decisions")
    page.tab.get_by_text("Numbers as a table").click()
    page.tab.wait_for_selector("figure table td:has-text('mail')")
    assert page.wrong == []


def test_an_apprentice_is_switched_on(served, visit):
    arm = {"played": {"offer": "a", "channel": "mail"}, "propensity": 0.5}
    bandit = served.create(reward="bernoulli", apprentice=True)
    page = visit(served.url)
    page.open(f"{bandit.name}/apprentice")
    page.tab.wait_for_selector("text=The bandit watches")
    feed(bandit, 60, 50, played=arm)
    page.drawn()
    page.tab.wait_for_selector("text=What would have happened")
    assert "Your rule, which was played, earned" in page.text("#panel")
    page.tab.get_by_role("button", name="Switch the bandit on …").click()
    page.tab.get_by_role("button", name="Switch it on", exact=True).click()
    page.tab.wait_for_selector("h3:has-text('The bandit decides')")
    assert not bandit.detail()["apprentice"]
    assert page.wrong == []


def test_the_key_is_needed_where_there_are_keys(tmp_path, visit):
    with Service(tmp_path / "keys.db") as service:
        service.create("campaign", reward="bernoulli")
        feed(service.bandit("campaign"), 20, 15)
        admin = made_key(service, "admin", {})
        read, decide = (made_key(service, role, bearer(admin)) for role in ("read", "decide"))
        page = visit(service.url)
        page.open("campaign")
        page.tab.wait_for_selector("text=API key")
        assert not any("/view/" in url or url.endswith("/v1/bandits") for url in page.asked)
        assert "campaign" not in page.text()
        page.tab.get_by_label("API key").fill("tb_wrong_key")
        page.tab.keyboard.press("Enter")
        page.tab.wait_for_selector("text=This key is not known")
        page.tab.get_by_label("API key").fill(read)
        page.tab.get_by_role("button", name="Sign in").click()
        page.tab.wait_for_selector("h1:has-text('campaign')")
        page.drawn()
        assert page.tab.evaluate("() => Object.values(sessionStorage)") == [read]
        assert page.tab.evaluate("() => Object.values(localStorage)") == []
        assert not any(read in url for url in page.asked)
        page.tab.reload()
        page.drawn()
        page.open("campaign/apprentice")
        page.tab.get_by_text("As a command").first.click()
        page.tab.wait_for_selector("text=Bearer $KEY")
        service.http.delete(f"/v1/keys/{read.split('_')[1]}", headers=bearer(admin)).raise_for_status()
        page.tab.wait_for_selector("text=was revoked")  # while it is looked at
        page.tab.get_by_label("API key").fill(decide)
        page.tab.keyboard.press("Enter")
        page.tab.wait_for_selector("#trouble:has-text('role')")
        page.tab.get_by_role("button", name="Sign out").click()
        page.tab.wait_for_selector("text=API key")
        assert page.tab.evaluate("() => Object.values(sessionStorage)") == []


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def made_key(service, role, headers):
    answer = service.http.post("/v1/keys", json={"name": role, "role": role}, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["key"]


def test_files_come_with_headers_that_keep_the_page_to_itself(service):
    answer = service.http.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self';" in answer.headers["content-security-policy"]  # so that no script is inline
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "<script>" not in answer.text
    assert "onclick" not in answer.text
    assert "style=" not in answer.text
    named = re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text)
    kinds = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
    for path in [*named, "/static/plotly.min.js", "/static/charts.js"]:
        answer = service.http.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == kinds[path[path.rindex(".") :]]
        again = service.http.get(path, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == answer.headers["etag"]


def test_scripts_come_compressed_to_those_who_take_it(service):
    packed = service.http.get("/static/plotly.min.js", headers={"Accept-Encoding": "gzip"})
    plain = service.http.get("/static/plotly.min.js", headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) < 0.4 * len(plain.content)
    head = httpx.head(f"{service.url}/static/plotly.min.js", headers={"Accept-Encoding": "gzip"})
    assert head.headers["content-length"] == packed.headers["content-length"]


@pytest.mark.parametrize("file", ["nothing.js", "..%2Fapp.py", "%2e%2e%2fapp.py", "pages.py", "", "sub/file.js", "%00"])
def test_no_other_files_are_served(service, file):
    answer = service.http.get(f"/static/{file}")
    assert answer.status_code == 404
    assert set(answer.json()["error"]) == {"code", "message", "request"}


def test_scripts_insert_text_only():
    """Labels are other people's words."""
    from tensorbandits.service.http.routes import pages

    for path in pages._FOLDER.glob("*.js"):
        words = path.read_text(encoding="utf-8")
        for never in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert never not in words, f"{path.name} has {never}"
        for address in re.findall(r"https?://[^\s\"'`]+", words):
            assert address == "http://www.w3.org/2000/svg"


def test_a_quarantined_bandit_says_so_on_its_card(tmp_path, visit):
    place = tmp_path / "store.db"
    with Service(place) as service:
        feed(service.create("hurt", reward="bernoulli"), 20, 20)
        feed(service.create("sound", reward="bernoulli"), 20, 20)
    with sqlite3.connect(place) as damaged:
        damaged.execute("DELETE FROM snapshots")
        damaged.execute("DELETE FROM events WHERE seq = 9 AND bandit = (SELECT id FROM bandits WHERE name = 'hurt')")
    with Service(place) as service:
        page = visit(service.url)
        page.open()
        cards = {name: page.tab.locator(".card.bandit", has_text=name) for name in ("hurt", "sound")}
        cards["hurt"].get_by_text("quarantined", exact=True).wait_for()
        assert "event 9" in cards["hurt"].inner_text()
        assert "quarantined" not in cards["sound"].inner_text()
        cards["hurt"].locator("a").click()
        page.tab.wait_for_selector("h1:has-text('hurt is quarantined')")
        assert "event 9" in page.text()
        assert "tensorbandits repair hurt" in page.text()
        assert page.tab.locator("#trouble").is_hidden()


def test_what_was_learned_in_the_first_window_is_said_to_be_too_high(served, visit):
    bandit = served.create("early", reward="bernoulli", window="1 d", default=0)
    made = [bandit.ask()["id"] for _ in range(40)]
    for number in made[:10]:
        bandit.tell(number, 1)  # who clicks says so at once
    page = visit(served.url)
    page.open("early/arms")
    page.says("Provisional: 75", "main")
    page.tab.get_by_role("tab", name="Traffic").click()
    page.tab.wait_for_selector("text=Provisional", state="hidden")
    assert "**Provisional**: 75% of the decisions" in bandit.send("GET", "/report", params={"format": "md"}).text
    for number in made[10:]:
        bandit.tell(number, 0)
    page.open("early/heat")
    until(lambda: bandit.send("GET", "/view/overview").json()["provisional"] is None)
    page.tab.wait_for_selector("text=Provisional", state="hidden")
    assert page.wrong == []


def test_a_bandit_whose_first_decision_waits_has_nothing_to_draw_and_says_why(served, visit):
    bandit = served.create("young", reward="bernoulli", window="1 d", default=0, holdout=0.3)
    bandit.ask()
    feed(bandit, 40, 40)
    page = visit(served.url)
    page.open("young/reward")
    page.says("their mean is known when the first windows have ended")
    assert page.tab.locator("#trouble").is_hidden()
    assert page.wrong == []


def answered(page, what, change):
    """Let a view of the page be answered otherwise."""

    def answer(route):
        found = route.fetch().json()
        change(found)
        route.fulfill(json=found)

    page.tab.route(f"**/view/{what}*", answer)


def test_the_best_is_sure_only_if_no_other_interval_reaches_it(served, visit):
    page = visit(served.url)
    wide = 0.5

    def arms(found):
        bounds = [(0.7, 0.66, 0.74), (0.5, 0.46, 0.54), (0.4, 0.1, 0.5 + wide / 2)]
        for arm, numbers in zip(found["arms"], bounds):
            arm |= dict(zip(("estimate", "low", "high"), numbers))
        del found["arms"][3:]

    def heat(found):
        rows, columns = len(found["rows"]), len(found["columns"])
        found["estimate"] = [[0.3] * columns for _ in range(rows)]
        found["width"] = [[0.04] * columns for _ in range(rows)]
        found["estimate"][0][0], found["width"][1][1] = 0.5, wide

    answered(page, "arms", arms)
    answered(page, "heat", heat)
    for place, words in (("arms", "others may be as good"), ("heat", "Leading, not sure")):
        page.open(f"campaign/{place}")
        page.says(words)
    wide = 0.1
    for place, words in (("arms", "clearly ahead"), ("heat", "Highest (★)")):
        page.open(f"campaign/{place}")
        page.says(words)


def test_the_page_of_the_api_is_read_searched_and_tried(service, browser):
    bandit = service.create()
    tab = browser.new_page()
    asked, errors = [], []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto(f"{service.url}/docs#ask")
    form = tab.locator("#ask form")  # which the address opened
    form.get_by_label("name", exact=True).fill(bandit.name)
    form.get_by_role("button", name="Send POST").click()
    tab.wait_for_selector("#ask .answer:has-text('propensity')")
    form.get_by_label("Body, application/json").fill('{"context": {"segment": "nobody"}}')
    form.get_by_role("button", name="Send POST").click()
    tab.wait_for_selector("#ask .answer:has-text('#error-invalid')")
    tab.get_by_label("Search").fill("retire level")
    tab.wait_for_selector("p:has-text(' operations')")
    assert tab.locator("details.operation[id]:visible .path", has_text="/levels/retire").count() == 1
    assert tab.locator("#error-closed_decision").is_visible()
    tab.close()
    assert not errors
    assert all(url.startswith(service.url) for url in asked)
