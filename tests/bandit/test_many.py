"""Asking and telling many at once: from frames and rows, as one by one would, and all or nothing."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tensorbandits as tb

MODES = {"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}
ROWS = [{"segment": ["new", "old"][at % 3 == 0]} for at in range(40)]
WITH_CONTEXT = ("thompson", "ensemble", "ucb", "epoch-greedy")
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table.from_pylist}


class Clock:
    """Stands still until it is set."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def made(policy="ucb", *, context=("segment",), **settings):
    space = tb.Space(MODES, context)
    space.forbid(offer="c", channel="sms")
    more = {"rank": 1} if policy in ("epoch-greedy", "ensemble", "elimination") else {}
    more |= {"horizon": 200, "confidence": 0.9} if policy == "elimination" else {}
    if policy in ("thompson", "ucb") and "clock" not in settings:
        settings["clock"] = Clock()
    return tb.Bandit(space, policy, seed=7, **more, **settings)


def outcome(decision):
    """What was decided, but for the id."""
    return decision.arm, decision.context, decision.propensity, decision.by, decision.policy


def pays(decision):
    return float(decision.arm["offer"] == "b") + 0.25 * (decision.context.get("segment") == "new")


def one_by_one(bandit, rows):
    """The plain twin of a round of ask_many and tell_many."""
    decisions = [bandit.ask(row) for row in rows]
    for decision in decisions[::2]:
        bandit.tell(decision, pays(decision))
    return decisions


def at_once(bandit, rows):
    decisions = bandit.ask_many(rows)
    bandit.tell_many([(decision, pays(decision)) for decision in decisions[::2]])
    return decisions


@pytest.mark.parametrize("policy", [*WITH_CONTEXT, "elimination"])
@pytest.mark.parametrize(
    "settings",
    [{"holdout": 0.2, "floors": 0.1}, {"window": 7, "default": 0.0, "half_life": 50}],
    ids=["shares", "fades"],
)
def test_many_are_decided_and_told_as_one_by_one(policy, settings):
    if policy not in ("thompson", "ucb") and "half_life" in settings:
        settings = {name: value for name, value in settings.items() if name != "half_life"}
    context = () if policy == "elimination" else ("segment",)
    rows = [{} for _ in ROWS] if policy == "elimination" else ROWS
    one, many = (made(policy, context=context, **settings) for _ in range(2))
    for _ in range(2):
        assert list(map(outcome, at_once(many, rows))) == list(map(outcome, one_by_one(one, rows)))
    for name in ("cells", "counts", "totals", "squares"):
        assert np.array_equal(getattr(one.policy.ledger, name), getattr(many.policy.ledger, name))
    assert one.waiting == many.waiting
    assert outcome(one.ask(rows[0])) == outcome(many.ask(rows[0]))


@pytest.mark.parametrize("library", FRAMES)
def test_frames_go_in_and_come_out(library):
    bandit, twin = made("thompson", reward="bernoulli"), made("thompson", reward="bernoulli")
    rows = [{"user": at, **row} for at, row in enumerate(ROWS)]
    decisions = bandit.ask_many(FRAMES[library](rows), ids=[f"u{at}" for at in range(len(rows))])
    assert list(map(outcome, decisions)) == [outcome(twin.ask(row)) for row in ROWS]
    frame = decisions.to_frame(backend=library)
    assert type(frame).__module__.startswith(library)
    assert list(frame["segment"].to_pylist() if library == "pyarrow" else frame["segment"]) == [
        row["segment"] for row in ROWS
    ]
    told = FRAMES[library]([{"decision": one.id, "clicked": int(one.arm["offer"] == "b")} for one in decisions])
    bandit.tell_many(told, id="decision", reward="clicked")
    assert bandit.waiting == 0
    assert bandit.policy.ledger.rounds == len(ROWS)


def test_an_apprentice_is_given_what_the_rule_plays():
    bandit, twin = (made("thompson", apprentice=True) for _ in range(2))
    played = [{"offer": "ab"[at % 2], "channel": "mail"} for at in range(4)]
    advice = bandit.ask_many(ROWS[:4], played=pl.DataFrame(played), propensities=[0.5] * 4)
    plain = [twin.ask(row, played=arm, propensity=0.5) for row, arm in zip(ROWS, played, strict=False)]
    assert [(one.arm, one.would, one.propensity) for one in advice] == [
        (one.arm, one.would, one.propensity) for one in plain
    ]


def test_nothing_and_a_number_of_rows():
    bandit = made(context=())
    assert bandit.ask_many([]) == []
    bandit.tell_many([])
    assert bandit.ask_many([]).to_frame(backend="pyarrow").num_rows == 0
    assert len(bandit.ask_many(3)) == 3


def test_modes_named_like_columns_of_decisions():
    bandit = tb.Bandit(tb.Space({"id": ["x", "y"], "offer": [1, 2]}, ["id"]), "ucb")
    frame = bandit.ask_many([{"id": "x"}]).to_frame(backend="pyarrow")
    assert frame.column_names == ["id", "mode id", "offer", "propensity", "by", "time"]


WRONG_QUESTIONS = {
    "a mapping": ({"segment": "new"}, {}, TypeError, "give a list with a mapping"),
    "text": ("new", {}, TypeError, "give a list with a mapping"),
    "a number, with context": (5, {}, TypeError, "give a list with a mapping"),
    "rows of text": (["new", "old"], {}, TypeError, "row 0 .* is 'new'; give a mapping"),
    "an unknown label": ([*ROWS, {"segment": "odd"}, {}], {}, ValueError, "row 40 .*'odd'.*Refused too: row 41"),
    "another column": (pl.DataFrame({"segments": ["new"]}), {}, ValueError, "no column 'segment'; it has 'segments'"),
    "a null": (pl.DataFrame({"segment": ["new", None]}), {}, TypeError, "row 1 .*None"),
    "a frame evaluated later": (pl.LazyFrame({"segment": ["new"]}), {}, TypeError, "collect"),
    "columns of one name": (pd.DataFrame([["new", "old"]], columns=["segment"] * 2), {}, ValueError, "same name"),
    "too few ids": (ROWS, {"ids": ["x"]}, ValueError, "ids has 1 entries for 40 contexts"),
    "ids as text": (ROWS[:2], {"ids": "xy"}, TypeError, "give a list with one for each"),
    "an id twice": (ROWS[:3], {"ids": ["x", "y", "x"]}, ValueError, "row 2 .*'x' is given twice"),
    "a taken id": (ROWS[:2], {"ids": ["x", "taken"]}, ValueError, "row 1 .*'taken' already"),
    "played": (ROWS[:1], {"played": [{"offer": "a", "channel": "mail"}]}, ValueError, "no apprentice"),
    "a propensity alone": (ROWS[:1], {"propensities": [0.5]}, ValueError, "goes with played"),
    "nothing allowed": (
        ROWS[:2],
        {"allowed": {"offer": ["c"], "channel": ["sms"]}},
        ValueError,
        "nothing may be chosen",
    ),
    "a library that is none": (ROWS[:1], {"activate": 2}, TypeError, "activate"),
}


@pytest.mark.parametrize("policy", ["ucb", "thompson"])
@pytest.mark.parametrize("what", WRONG_QUESTIONS)
def test_one_wrong_row_and_nothing_is_decided(what, policy):
    contexts, more, kind, words = WRONG_QUESTIONS[what]
    bandit = made(policy)
    bandit.ask(segment="new", id="taken")
    with pytest.raises(kind, match=words):
        bandit.ask_many(contexts, **more)
    assert bandit.waiting == 1
    assert bandit.history()["decisions"].sum() == 1


def test_a_row_is_named_by_its_place_among_all():
    bandit = made()
    bandit.space.retire_level("segment", "old")
    with pytest.raises(ValueError, match=r"row 3 .*'old' of mode 'segment' is retired.* Refused too: row 5\."):
        bandit.ask_many([{"segment": one} for one in ("new", "new", "new", "old", "new", "old")])


def test_what_is_refused_midway_is_cancelled():
    """A rule that another thread makes while decisions are drawn forbids what is left."""
    bandit = made()
    ask, seen = bandit.policy.propose, []

    def forbids(query):
        seen.append(query)
        if len(seen) == 3:
            bandit.space.forbid(segment="old", offer="a", channel="mail")
        return ask(query)

    bandit.policy.propose = forbids
    rows = [{"segment": "new"}, {"segment": "new"}, {"segment": "old"}]
    with pytest.raises(ValueError, match="nothing may be chosen"):
        bandit.ask_many(rows, ids=["p", "q", "r"], allowed={"offer": ["a"], "channel": ["mail"]})
    assert [bandit.status(one) for one in ("p", "q")] == ["cancelled", "cancelled"]
    assert bandit.waiting == 0


WRONG_ANSWERS = {
    "an unknown id": (lambda ids: [(ids[0], 1.0), ("nobody", 1.0)], LookupError, "row 1 .*no decision has the id"),
    "several": (lambda ids: [(ids[0], 1), ("x", 1), (ids[1], "one"), ("y", 1)], LookupError, "too: rows 2, 3"),
    "another reward": (lambda ids: [(ids[0], 1), (ids[2], 5.0)], ValueError, "row 1 .*has the reward 1 already"),
    "twice, not alike": (lambda ids: [(ids[0], 1), (ids[0], 2)], ValueError, "row 1 .*has the reward 1 already"),
    "no number": (lambda ids: pd.DataFrame({"id": ids[:2], "reward": [1.0, None]}), ValueError, "row 1 .*is nan"),
    "no id": (lambda ids: pl.DataFrame({"id": [ids[0], None], "reward": [1, 1]}), TypeError, "row 1 .*id is None"),
    "a mapping": (lambda ids: {ids[0]: 1.0}, TypeError, "give pairs"),
    "ids alone": (lambda ids: [(ids[0], 1), ids[1]], TypeError, "row 1 .*give pairs"),
    "no column": (lambda ids: pa.table({"id": ids[:1], "click": [1]}), ValueError, "no column 'reward'; .*'click'"),
}


@pytest.mark.parametrize("what", WRONG_ANSWERS)
def test_one_wrong_reward_and_nothing_is_told(what):
    rewards, kind, words = WRONG_ANSWERS[what]
    bandit = made()
    ids = [one.id for one in bandit.ask_many(ROWS[:3])]
    bandit.tell(ids[2], 1.0)
    with pytest.raises(kind, match=words):
        bandit.tell_many(rewards(ids))
    assert [bandit.status(one) for one in ids] == ["open", "open", "rewarded"]
    assert bandit.policy.ledger.rounds == 1


def test_told_twice_changes_nothing_and_amending_and_adding_do():
    bandit = made(adds=True)
    ids = [one.id for one in bandit.ask_many(ROWS[:2])]
    bandit.tell_many([(ids[0], 1.0), (ids[0], 1.0), (ids[1], 2.0)])
    bandit.tell_many([(ids[0], 1.0)])
    bandit.tell_many([(ids[0], 0.5), (ids[1], 0.5), (ids[1], 0.25)], add=True)
    assert [bandit.reward(one) for one in ids] == [1.5, 2.75]
    bandit.tell_many([(ids[0], 4.0)], amend=True)
    assert bandit.reward(ids[0]) == 4.0
    assert bandit.policy.ledger.rounds == 2
    with pytest.raises(ValueError, match="amend and add are both True"):
        bandit.tell_many([(ids[0], 1.0)], amend=True, add=True)
