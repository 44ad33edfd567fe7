"""Views of a bandit: right numbers, ready for JSON, of bandits with and without data, holdout and strange labels."""

import json
import threading
from datetime import date

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.bandit.apprentice import Apprentice, Shadow
from tensorbandits.bandit.core import restored_core
from tensorbandits.bandit.spans import Span
from tensorbandits.policies import registry
from tensorbandits.service.page.views import VIEWS, ViewCache, ViewSource, view
from tensorbandits.service.page.views.parts import bounds
from tensorbandits.store import Event

STRANGE = {
    "<b>who</b>": ['<b>&"', "<script>alert(1)</script>", "$a$ %{y}"],
    "1": [1, 2.5, True, date(2024, 2, 29), float("inf"), 2**63],
    "0": ["x" * 300, "ü 漢字 🙂\n\t\x00"],
}
PLAIN = {"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}


def played(modes=PLAIN, rounds=300, context=None, tell=True, reward="bernoulli", policy="thompson", **settings):
    rng, now = np.random.default_rng(0), [1.7e9]
    space = tb.Space(modes, context=[next(iter(modes))] if context is None else context)
    more = {"rank": 1} if policy == "ensemble" else {"reward": reward}
    bandit = tb.Bandit(space, policy, seed=0, clock=lambda: now[0], **more, **settings)
    for at in range(rounds):
        now[0] += 60.0
        labels = {space.modes[mode]: space.levels[mode][rng.integers(space.shape[mode])] for mode in space.context}
        decision = bandit.ask(labels)
        if tell and at < rounds - 5:
            rate = 0.2 + 0.5 * (space.cell({**decision.arm, **decision.context})[-1] == 1)
            bandit.tell(decision, float(rng.random() < rate) if reward == "bernoulli" else rate + rng.standard_normal())
    return bandit


def events(bandit):
    cell = [0] * len(bandit.space.modes)
    bodies = {
        "Created": {"settings": {}},
        "Changed": {"settings": {"holdout": 0.1}},
        "Decided": {"cell": cell, "p": 0.5, "by": "caller", "would": {"cell": cell, "w": 1.0, "q": [0.1, 0.2]}},
        "Activated": {},
        "Rewarded": {"reward": 1.0},
        "TimedOut": {"reward": None},
        "Told": {"cell": cell, "reward": 2.0},
        "LevelAdded": {"mode": "offer", "label": {"date": "2024-02-29"}},
        "RuleChanged": {"rule": {"allow": {"a": "<b>", "c": ["d", "e"]}}, "add": False},
        "Imported": {"ledger": "", "added": {}, "rows": 7},
    }
    found = [
        Event(bandit=1, seq=seq, time=1.7e9, kind=kind, decision="d-1", key=None, body=body)
        for seq, (kind, body) in enumerate(bodies.items(), start=1)
    ]
    return found[::-1]


def compared(order, count=20, played=0):
    apprentice = Apprentice()
    for number in range(count):
        apprentice.open(str(number), Shadow((0,) * order, 1.0 - played, 0.9, 0.5), (played,) * order, 1000)
        apprentice.reward(str(number), float(number % 2), in_order=True)
    return apprentice


def seen(bandit, settings=None, apprentice=None, now=lambda: 1.7e9 + 60):
    core = restored_core(bandit.state_dict(), 0.0, 16, {})
    core.state.settings = settings or {"default": None, "window": "10 min", "apprentice": False}
    core.state.book.window = Span.of(core.state.settings.get("window"), "window")
    core.state.book.default = core.state.settings.get("default")
    core.state.apprentice = apprentice or compared(len(bandit.space.modes))
    core.state.lags.clear()
    core.state.lags.extend([0.01, 5.0, 1e7])
    oldest = {"id": "d-1", "cell": [0] * len(bandit.space.modes), "time": 1.7e9, "active": True}
    return ViewSource(
        core,
        tail=lambda count: events(bandit)[:count],
        oldest=lambda count: [oldest, {**oldest, "active": False}][:count],
        health=lambda: {"store": "sqlite", "seconds": float("nan"), "events": np.int64(3)},
        now=now,
        deciders=lambda: {"version": None, "age": float("nan"), "deciders": [], "failed": None},
    )


BANDITS = {
    "empty": lambda: played(rounds=0),
    "no rewards": lambda: played(tell=False),
    "plain": played,
    "holdout": lambda: played(holdout=0.3),
    "strange": lambda: played(STRANGE, rounds=120, holdout=0.2),
    "normal": lambda: played(reward="gaussian", holdout=0.2),
    "ensemble": lambda: played(policy="ensemble", reward="gaussian", rounds=60),
    "no context": lambda: played({"offer": ["a", "b"], "channel": ["mail", "sms"]}, context=[]),
    "one mode": lambda: played({"offer": ["a", "b", "c"]}, context=[]),
    "many levels": lambda: played({"segment": [1, 2], "offer": list(range(90))}, rounds=150),
}


@pytest.fixture(scope="module", params=BANDITS)
def looked(request):
    return seen(BANDITS[request.param]())


@pytest.mark.parametrize("what", VIEWS)
def test_every_view_of_every_bandit_is_json(looked, what):
    found = view(looked, what)
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again == found
    assert isinstance(found, dict)


def test_labels_come_as_they_are():
    one = seen(played(STRANGE, rounds=60))
    modes = view(one, "space")["modes"]
    assert [mode["mode"] for mode in modes] == list(STRANGE)
    assert modes[0]["levels"] == STRANGE["<b>who</b>"]
    assert modes[0]["context"]
    assert modes[1]["levels"] == ["1", "2.5", "True", "2024-02-29", "inf", str(2**63)]
    fixed = json.dumps({"<b>who</b>": 1})
    heat = view(one, "heat", {"rows": "1", "columns": "0", "fixed": fixed})
    assert heat["rows"] == modes[1]["levels"]
    assert "<script>alert(1)</script>" in heat["others"]
    assert view(one, "arms", {"context": fixed})["context"] == {"<b>who</b>": 1}


def test_overview_has_the_numbers_of_the_history():
    bandit = played(holdout=0.3)
    found, frame = view(seen(bandit), "overview"), bandit.history()
    for side in ("policy", "holdout"):
        mine = frame[frame["by"] == side]
        assert found[side]["decisions"] == mine["decisions"].sum()
        assert found[side]["mean"] == pytest.approx(mine["total"].sum() / mine["rewards"].sum())
        assert found[side]["low"] < found[side]["mean"] < found[side]["high"]
    up = found["uplift"]
    assert up["mean"] == pytest.approx(found["policy"]["mean"] - found["holdout"]["mean"])
    assert up["low"] < up["mean"] < up["high"]
    assert up["relative_low"] < up["relative"] < up["relative_high"]
    assert (up["low"] > 0) == (up["relative_low"] > 0)
    assert found["waiting"] == bandit.waiting == 5
    assert found["decisions"] == 300
    assert found["lag"]["count"] == 3
    assert found["last_event"]["kind"] == "Imported"


def test_means_wait_until_windows_end():
    """Clicks come before windows end: the mean of what is there already would be 1."""
    now = [1.7e9]
    bandit = tb.Bandit(tb.Space(PLAIN), reward="bernoulli", window="1 h", default=0, seed=0, clock=lambda: now[0])
    for at in range(400):
        now[0] += 60.0
        decision = bandit.ask()
        if at % 10 == 0:
            bandit.tell(decision, 1)
    settings = {"default": 0, "window": "1 h"}
    one = seen(bandit, settings=settings, now=lambda: now[0])
    found, over = view(one, "overview"), view(one, "reward")
    assert found["policy"]["mean"] == pytest.approx(0.1, abs=0.01)
    assert 0.75 < found["settled"] < 0.86
    assert 300 < over["settled"]["first"] < 345
    assert max(mean for mean in over["policy"]["mean"] if mean is not None) < 0.2
    rounds = seen(bandit, settings={"default": 0, "window": 100}, now=lambda: now[0])
    assert view(rounds, "reward")["settled"]["first"] > 300  # most have their reward already, before 100 rounds
    fresh = tb.Bandit(tb.Space(PLAIN), reward="bernoulli", window="1 h", default=0, seed=0, clock=lambda: now[0])
    for at in range(30):  # who clicks does so at once, and the others wait
        decision = fresh.ask()
        if at % 3 == 0:
            fresh.tell(decision, 1)
    early = seen(fresh, settings=settings, now=lambda: now[0])
    assert view(early, "reward")["policy"] is None
    assert view(early, "overview")["policy"]["mean"] is None
    now[0] += 4000.0
    late = seen(fresh, settings=settings, now=lambda: now[0])  # a server times decisions out as a bandit does
    assert view(late, "overview")["policy"]["mean"] == pytest.approx(1 / 3)


def test_rewards_that_come_at_once_count_before_windows_end():
    now = [1.7e9]
    bandit = tb.Bandit(tb.Space(PLAIN), reward="bernoulli", window="1 d", default=0, seed=0, clock=lambda: now[0])
    for at in range(200):
        decision = bandit.ask()
        if at < 150:
            bandit.tell(decision, at % 2)
    found = view(seen(bandit, settings={"default": 0, "window": "1 d"}, now=lambda: now[0]), "overview")
    assert found["settled"] == pytest.approx(0.655)  # 131 of 200: those whose next nineteen are known
    assert found["policy"]["mean"] == pytest.approx(65 / 131)


def test_reward_over_time_adds_up():
    bandit = played(rounds=700, holdout=0.3)
    found = view(seen(bandit), "reward")
    frame = bandit.history()
    for side in ("policy", "holdout"):
        one = found[side]
        assert sum(one["rewards"]) == frame[frame["by"] == side]["rewards"].sum()
        assert one["first"][0] == 0
        assert 690 < one["next"][-1] <= 700  # the last ones have no reward yet
        assert one["next"][:-1] == one["first"][1:]
        assert all(low <= mean <= high for low, mean, high in zip(one["low"], one["mean"], one["high"]))
    overall = view(seen(bandit), "overview")["uplift"]
    assert found["uplift"]["so_far"]["mean"][-1] == pytest.approx(overall["mean"])
    assert len(found["uplift"]["difference"]["mean"]) == len(found["uplift"]["start"])


def test_a_holdout_without_clicks_proves_nothing():
    sums = np.array([[20.0, 20.0, 3.0, 3.0], [20.0, 20.0, 0.0, 0.0]])
    found = bounds(sums, "bernoulli", looks="fixed")
    assert found["low"][1] == 0
    assert 0.1 < found["high"][1] < 0.2
    assert 0.05 < found["low"][0] < 0.15 < found["high"][0] < 0.4
    always = bounds(sums, "bernoulli")
    assert (always["low"] == 0).all()
    assert (always["high"] > found["high"]).all()


def test_traffic_shares_add_up_to_one():
    found = view(seen(played({"offer": list(range(30))}, context=[], rounds=500)), "traffic")
    assert len(found["levels"]) == 7
    assert found["others"] == 23
    assert len(found["shares"]) == 8
    assert np.sum(found["shares"], axis=0) == pytest.approx(np.ones(len(found["start"])))
    assert sum(found["totals"]) == pytest.approx(1.0)
    assert view(seen(played()), "traffic", {"mode": "segment"})["mode"] == "segment"
    assert view(seen(played(holdout=0.3)), "traffic")["side"] == "policy"
    assert view(seen(played(holdout=0.999, rounds=60)), "traffic")["side"] == "holdout"  # as an apprentice has it


def test_heat_map_is_the_table_of_beliefs():
    bandit = played()
    bandit.space.forbid(offer="a", channel="sms")
    found = view(seen(bandit), "heat", {"rows": "offer", "columns": "channel", "fixed": '{"segment": 1}'})
    assert found["estimate"][0][1] is None
    assert found["width"][0][1] is None
    cells = [bandit.space.cell(segment="old", offer=offer, channel="mail") for offer in "abc"]
    assert [row[0] for row in found["estimate"]] == pytest.approx(bandit.policy.estimate(cells))
    assert view(seen(bandit), "heat", {"rows": "segment"})["modes"] == ["segment", "offer"]
    assert view(seen(bandit), "heat", {"columns": "segment"})["modes"] == ["offer", "segment"]
    many = view(seen(BANDITS["many levels"]()), "heat")
    assert len(many["rows"]) == 40
    assert many["left_out"] == [50, 0]


def test_effects_and_arms_are_those_that_the_bandit_explains():
    bandit = played()
    bandit.retire_level("offer", "c")
    found, known = view(seen(bandit), "effects"), bandit.explain(segment="old", arms=4)
    effects = known.effects
    for mode in found["modes"]:
        for level in mode["levels"]:
            row = effects[(effects["mode"] == mode["mode"]) & (effects["level"] == level["text"])].iloc[0]
            assert level["reward"] == pytest.approx(row["reward"])
            assert level["rewards"] == row["rewards"]
    assert [level["text"] for level in found["modes"][1]["levels"] if level["retired"]] == ["c"]
    assert [one["part"] for one in found["interactions"]] == list(known.shares["part"])
    arms = view(seen(bandit), "arms", {"context": '{"segment": 1}', "count": "4"})
    assert [one["estimate"] for one in arms["arms"]] == pytest.approx(list(known.arms["estimate"]))
    assert all("c" not in one["labels"] for one in arms["arms"])
    assert len(arms["arms"]) == 4


def test_drift_names_the_level_that_moved():
    rng = np.random.default_rng(0)
    bandit = tb.Bandit(tb.Space(PLAIN), reward="gaussian", rank=1, seed=0)
    for at in range(1200):
        arm = {mode: labels[rng.integers(len(labels))] for mode, labels in PLAIN.items()}
        reward = float(rng.standard_normal() * 0.5 + 2.0 * (arm["offer"] == "b" and at > 700))
        bandit.tell(arm=arm, reward=reward)
    found = view(seen(bandit), "drift")
    assert [(one["mode"], one["label"]) for one in found["moved"]] == [("offer", "b")]
    assert found["evidence"] > found["news"]
    assert "Offer 'b'" in found["words"]


def test_apprentice_says_what_would_have_happened():
    bandit = played(rounds=0)
    found = view(seen(bandit, apprentice=compared(3, 400)), "apprentice")
    assert (found["on"], found["rollout"], found["count"]) == (False, None, 400)
    assert (found["verdict"], found["support"], found["intervals"]) == ("better", 1.0, "anytime")
    assert found["rule"]["mean"] == 0.5
    assert found["bandit"]["mean"] == pytest.approx(0.9)
    assert 0.25 < found["difference"]["low"] < 0.35 < 0.4 < found["difference"]["high"] < 0.55
    once = view(seen(bandit, apprentice=compared(3, 400)), "apprentice", {"intervals": "fixed"})
    assert once["difference"]["low"] > found["difference"]["low"]
    few = view(seen(bandit, apprentice=compared(3, 10)), "apprentice")
    assert (few["verdict"], few["difference"]["low"], few["difference"]["high"]) == ("too few", -1.0, 1.0)
    none = view(seen(bandit, apprentice=compared(3, 0)), "apprentice")
    assert (none["count"], none["bandit"], none["verdict"]) == (0, None, "too few")
    with pytest.raises(ValueError, match="valid at every look"):
        view(seen(bandit), "apprentice", {"intervals": "often"})


def test_what_the_rule_never_plays_gets_no_verdict_but_bounds():
    found = view(seen(played(rounds=0), apprentice=compared(3, 400, played=1)), "apprentice")
    assert (found["verdict"], found["support"]) == ("unsupported", 0.0)
    assert (found["bandit"]["mean"], found["difference"]["mean"]) == (None, None)
    assert found["difference"]["low"] == pytest.approx(-0.5, abs=0.1)  # if all that was never played earned nothing
    assert found["difference"]["high"] == pytest.approx(0.5, abs=0.1)  # or all of it everything
    assert found["model"]["low"] < found["model"]["high"]
    amounts = view(seen(played(rounds=0, reward="gaussian"), apprentice=compared(3, 400, played=1)), "apprentice")
    assert (amounts["verdict"], amounts["bounded"], amounts["difference"]["low"]) == ("unsupported", False, None)


def test_events_and_decisions_have_labels():
    one = seen(played())
    found = {event["kind"]: event for event in view(one, "events")["events"]}
    assert (
        found["Decided"]["labels"] == ["new", "a", "mail"] == found["Rewarded"]["labels"] == found["Decided"]["would"]
    )
    assert found["LevelAdded"]["words"] == "offer: 2024-02-29"
    assert found["RuleChanged"]["words"] == "taken back: where a is <b>, only: c d, e"
    assert [event["kind"] for event in view(one, "events", {"count": "2"})["events"]] == ["Imported", "RuleChanged"]
    waiting = view(one, "decisions")
    assert [row["age"] for row in waiting["oldest"]] == [60.0, 60.0]
    assert not waiting["oldest"][1]["active"]
    assert sum(bar["count"] for bar in waiting["bars"]) == 3
    assert waiting["bars"][-1]["to"] is None
    assert view(one, "health") == {"numbers": {"store": "sqlite", "seconds": None, "events": 3}}


def test_policies_without_beliefs_say_so():
    space = tb.Space({"offer": ["a", "b"], "channel": ["mail", "sms"]})
    one = seen(tb.Bandit(space, "ucb"))
    assert "believes in no tensor" in view(one, "effects")["why"]
    assert "no intervals" in view(one, "arms")["why"]
    assert view(one, "heat")["width"] is None


@pytest.mark.parametrize(
    ("what", "params", "words"),
    [
        ("rewards", {}, "did you mean 'reward'"),
        ("traffic", {"mod": "offer"}, "did you mean 'mode'"),
        ("traffic", {"mode": "ofer"}, "did you mean 'offer'"),
        ("heat", {"fixed": "{"}, "give indices of levels"),
        ("heat", {"fixed": "[1]"}, "give indices of levels"),
        ("heat", {"fixed": "[" * 100_000}, "give indices of levels"),
        ("heat", {"fixed": '{"offer": 3}'}, "from 0 to 2"),
        ("heat", {"fixed": '{"offer": true}'}, "from 0 to 2"),
        ("heat", {"fixed": '{"offr": 0}'}, "did you mean 'offer'"),
        ("heat", {"rows": "offer", "columns": "offer"}, "name two"),
        ("heat", {"rows": "offer", "columns": "channel", "fixed": '{"offer": 0}'}, "is shown and fixed"),
        ("arms", {"context": '{"offer": 0}'}, "is decided, not given"),
        ("arms", {"count": "0"}, "from 1 to 100"),
        ("arms", {"count": "٣"}, "from 1 to 100"),
        ("effects", {"level": "x"}, "level"),
        ("effects", {"level": "1.5"}, "level"),
    ],
)
def test_wrong_parameters_are_refused_in_words(what, params, words):
    with pytest.raises(ValueError, match=words):
        view(seen(played(rounds=3)), what, params)


def test_all_policies_of_the_service_have_all_views():
    assert {"thompson", "ensemble"} <= {record.name for record in registry.records()}


def test_answers_are_kept_the_longer_the_more_work_they_were():
    now, made = [0.0], []

    def make():
        made.append(now[0])
        now[0] += 3.0
        return {"made": len(made)}

    looks = ViewCache(clock=lambda: now[0])
    assert looks.get("a", "overview", make) == b'{"made":1}' == looks.get("a", "overview", make)
    now[0] += 59.0
    looks.get("a", "overview", make)
    assert len(made) == 1
    now[0] += 2.0
    assert looks.get("a", "overview", make) == b'{"made":2}'


def test_who_asks_meanwhile_gets_the_old_answer():
    now, going, go_on = [0.0], threading.Event(), threading.Event()
    looks = ViewCache(clock=lambda: now[0])
    looks.get("a", "overview", lambda: {"made": 1})
    now[0] += 10.0

    def slow():
        going.set()
        assert go_on.wait(30)
        return {"made": 2}

    found = []
    thread = threading.Thread(target=lambda: found.append(looks.get("a", "overview", slow)))
    thread.start()
    assert going.wait(30)
    assert looks.get("a", "overview", lambda: {"made": 3}) == b'{"made":1}'
    go_on.set()
    thread.join()
    assert found == [b'{"made":2}']


def test_an_answer_that_fails_is_not_kept():
    looks = ViewCache()
    with pytest.raises(ValueError, match="wrong"):
        looks.get("a", "overview", lambda: (_ for _ in ()).throw(ValueError("wrong")))
    assert looks.get("a", "overview", lambda: {"made": 1}) == b'{"made":1}'
    for number in range(1000):
        looks.get(number, "overview", lambda: {})
    assert len(looks) <= 300
