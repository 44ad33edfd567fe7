"""What a notebook shows: small tables, in which no label is a tag."""

from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

import tensorbandits as tb

EVIL = "<script>alert('x')</script>"


class Tags(HTMLParser):
    """Collects the tags of some HTML, which must close all that it opens, and its text."""

    def __init__(self, text):
        super().__init__()
        self.seen, self.open, self.text = set(), [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.open.append(tag)
        assert not [name for name, _ in attrs if name not in ("style", "scope")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def shown():
    """Everything that has a form for notebooks, of a space with hostile names."""
    rng = np.random.default_rng(0)
    space = tb.Space({EVIL: ["new", 2024], "offer": [EVIL, "b & c", *range(20)], "channel": ["a", "b"]}, [EVIL])
    space.forbid(offer="b & c", channel="b")
    bandit = tb.Bandit(space, rank=1, reward="bernoulli", holdout=0.3, seed=0)
    decisions = bandit.ask_many([{EVIL: "new"}, {EVIL: 2024}] * 40)
    bandit.tell_many([(one, int(rng.random() < 0.4)) for one in decisions])
    bandit.retire_level("offer", 7)
    cells = rng.integers(0, 3, (300, 2))
    columns = {"a": cells[:, 0], EVIL: [f"<b>{level}" for level in cells[:, 1]], "paid": rng.random(300)}
    log = tb.data.from_log(pa.table(columns), ["a", EVIL], "paid")
    return {
        "space": space,
        "bandit": bandit,
        "decision": decisions[0],
        "decisions": decisions,
        "beliefs": bandit.explain(arms=3),
        "uplift": bandit.uplift(),
        "no uplift": tb.Bandit(tb.Space({"offer": ["a", "b"]}), "ucb").uplift(),
        "evaluation": tb.evaluate(log, {EVIL: "uniform"}, logged="uniform"),
    }


def test_every_form_is_small_and_nothing_in_it_is_a_tag_of_a_label(shown):
    for name, one in shown.items():
        text = one._repr_html_()
        found = Tags(text)
        assert found.seen <= {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}, name
        assert len(text) < 15_000, name
        assert "background: #" not in text  # the notebook says how light it is
        assert "color: #" not in text


def test_what_is_shown_is_what_there_is(shown):
    said = {name: " ".join(Tags(one._repr_html_()).text) for name, one in shown.items()}
    assert EVIL in said["space"]
    assert "… (22)" in said["space"]
    assert "rules that say what may not be chosen: 1" in said["space"]
    assert "80 decisions, 80 rewards, 0 wait for theirs" in said["bandit"]
    assert shown["decision"].id in said["decision"]
    assert f"propensity {shown['decision'].propensity:.4g}" in said["decision"]
    assert "2024" in said["decisions"]  # a label, not a number
    assert "80 decisions the first 10 are" in said["decisions"]
    assert "best arms" in said["beliefs"]
    assert shown["uplift"].words in said["uplift"]
    assert "the holdout" in said["uplift"]
    assert shown["no uplift"].words in said["no uplift"]
    assert "logged" in said["evaluation"]
