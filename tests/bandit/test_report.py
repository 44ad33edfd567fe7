"""The report of a period: what it says, that it holds all that it shows, and what it says of little or nothing."""

import re
from datetime import date, timedelta

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.bandit.reporting.since import shown

LEVELS = {"segment": ["new", "old"], "offer": ["a", "b", "<b>&|*"], "channel": ["mail", "sms"]}
WEEK = 7 * 86_400.0


class Clock:
    def __init__(self):
        self.now = 1.8e9

    def __call__(self):
        return self.now


def played(rounds, *, policy="thompson", fall=False, weeks=2.0, **settings):
    """A bandit whose offer ``b`` is best, and falls late if asked to."""
    clock, rng = Clock(), np.random.default_rng(0)
    settings = {"reward": "gaussian", "rank": 1, "holdout": 0.3} | settings if policy == "thompson" else settings
    bandit = tb.Bandit(tb.Space(LEVELS, context=["segment"]), policy, clock=clock, seed=0, **settings)
    for t in range(rounds):
        clock.now += weeks * WEEK / rounds
        decision = bandit.ask(segment=LEVELS["segment"][t % 2])
        good = decision.arm["offer"] == "b"
        bandit.tell(decision, float((0.0 if fall and t > 0.7 * rounds else 1.5) * good + rng.standard_normal()))
    return bandit


@pytest.fixture(scope="module")
def fallen():
    return played(1200, fall=True)


def test_a_report_says_what_was_earned_learned_and_moved_and_what_to_do(fallen, tmp_path):
    page = fallen.report(tmp_path / "week.html", name="Off<er>s").read_text()
    text = fallen.report(tmp_path / "week.md", name="Off<er>s").read_text()
    assert page.startswith("<!doctype html>")
    assert "<title>Off&lt;er&gt;s: what it earned and learned</title>" in page
    assert not re.search(r"<(script|link|iframe|img)|https?://(?!www\.w3\.org/2000/svg)|url\(", page)  # it holds all
    assert page.count("<svg") == 4  # over time, and each mode
    assert "&lt;b&gt;&amp;|*" in page
    assert "<b>&" not in page
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings == re.findall(r"<h2>(.*?)</h2>", page)
    assert headings[:5] == ["In short", "What it earned", "What was learned", "What moved", "Traffic"]
    assert headings[-2:] == ["What was changed", "What to do next"]
    up = fallen.uplift()
    assert up.words.split(", valid")[0] in text
    assert "Offer 'b' has moved" in text
    assert "`bandit.retire_level('offer', 'b')`" in text
    assert "`bandit.change(half_life=" in text
    assert fallen.diagnose().matters.words in text  # the same as everywhere else
    assert "leading, not sure" in text or "leads" in text


def test_the_chart_ends_when_the_last_decision_was_made_and_not_when_somebody_looks(tmp_path):
    bandit = played(300, weeks=0.5)
    begun = bandit._clock.now - 0.5 * WEEK
    last = shown(bandit._clock.now)
    bandit._clock.now += 2 * 86_400.0
    chart = bandit.report(tmp_path / "week.html").read_text().split("<svg", 2)[1].split("</svg>")[0]
    assert re.findall(r">(\d+ \w+ 20\d\d, [\d:]+)<", chart) == [shown(begun + 0.5 * WEEK / 300), last]


def test_changes_of_the_period_are_listed_the_newest_first(tmp_path):
    bandit = played(0)
    bandit.change(holdout=0.1)
    bandit._clock.now += 10 * 86_400.0
    bandit.add_level("offer", "d")
    bandit.retire_level("offer", "a")
    text = bandit.report(tmp_path / "week.md").read_text()
    listed = [line.split("|")[2].strip() for line in text.splitlines() if re.match(r"\| \d+ \w+ 20", line)]
    assert listed == ["a retired in offer", "d added to offer"]
    assert "holdout: from 0.3 to 0.1" in bandit.report(tmp_path / "all.md", since=None).read_text()


def test_the_period_is_what_was_asked_for(fallen, tmp_path):
    def count(since):
        text = fallen.report(tmp_path / "week.md", since=since).read_text()
        return int(re.search(r"([\d,]+) decisions, ", text)[1].replace(",", ""))

    assert count(None) == count("30 days") == count(date(2027, 1, 15)) == 1200
    assert 560 <= count("7d") == count(timedelta(days=7)) <= 640
    assert count("2027-01-28") == count("2027-01-28T00:00:00+00:00") < 300
    assert count("1 s") < 40  # the last block of decisions


@pytest.mark.parametrize("since", ["7 fortnights", "2027-13-01", "2090-01-01", "", 7, True, "7"])
def test_a_period_that_is_none_is_refused_and_nothing_written(fallen, tmp_path, since):
    with pytest.raises((TypeError, ValueError), match=r"since is .*; give a duration"):
        fallen.report(tmp_path / "week.html", since=since)
    with pytest.raises(ValueError, match=r"ends in .html or .md"):
        fallen.report(tmp_path / "week.pdf")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "settings",
    [
        {"reward": "bernoulli", "window": "1 h", "default": 0},
        {"reward": "revenue"},
        {"apprentice": True, "rollout": 0.1, "holdout": 0.0},
        {"policy": "ucb"},
    ],
)
@pytest.mark.parametrize("rounds", [0, 12])
def test_a_bandit_of_any_kind_without_rewards_or_with_a_few_gets_a_sensible_page(settings, rounds, tmp_path):
    policy = settings.get("policy", "thompson")
    settings = {name: value for name, value in settings.items() if name != "policy"}
    bandit = played(0, policy=policy, **settings)
    arm = {"played": {"offer": "a", "channel": "mail"}} if settings.get("apprentice") else {}
    for at in range(rounds):
        decision = bandit.ask(segment="new", **arm)
        if at < 8:
            bandit.tell(decision, float(at % 2))
    text = bandit.report(tmp_path / "week.md").read_text()
    page = bandit.report(tmp_path / "week.html").read_text()
    for wrong in ("nan", "inf", "None", "Traceback"):
        assert not re.search(rf"\b{wrong}\b", text)
    assert "Too few to tell whether anything has moved" in text
    assert ("Nothing was decided yet" in text) == (rounds == 0)
    assert "## What to do next\n\n- " in text
    assert page.endswith("</html>\n")
