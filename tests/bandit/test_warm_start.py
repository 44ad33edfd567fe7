"""Warm starts: what a log or another bandit tells, by label, whole or not at all."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tensorbandits as tb

MODES = {"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}
ROWS = {
    "segment": ["old", "new", "new", "old", "old"],
    "offer": ["a", "b", "b", "c", "a"],
    "channel": ["sms", "mail", "mail", "mail", "sms"],
    "reward": [1.0, 2.0, 4.0, 0.5, 3.0],
}


def space(modes=MODES, context=("segment",)):
    return tb.Space(modes, context)


def bandit(policy="ucb", **settings):
    return tb.Bandit(settings.pop("space", None) or space(), policy, seed=0, **settings)


def told(one):
    """What a bandit's ledger holds, by labels in the order of their names."""
    found = {}
    for entry in one.policy.ledger:
        labels = one.space.labels(entry.cell)
        found[tuple(labels[mode] for mode in sorted(labels))] = entry[1:]
    return found


def state(one):
    return told(one), one.space.state(), one.policy.shape


def duckdb_relation(rows):
    duckdb = pytest.importorskip("duckdb")
    table = pa.table(rows)
    return duckdb.from_arrow(table)


@pytest.mark.parametrize(
    "make",
    [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, duckdb_relation],
    ids=["pandas", "polars", "lazy", "arrow", "duckdb"],
)
def test_a_log_of_any_frame_is_as_its_rows_told_one_by_one(make):
    one, plain = bandit(), bandit()
    start = one.tell_log(make(ROWS), "reward")
    for segment, offer, channel, reward in zip(*ROWS.values()):
        plain.tell(arm={"offer": offer, "channel": channel}, context={"segment": segment}, reward=reward)
    assert told(one) == told(plain)
    assert (start.rewards, start.cells, start.rows, start.skipped, start.added) == (5.0, 3, 5, {}, {})


def test_trials_other_columns_bins_and_a_mode_that_is_the_same_throughout():
    days = tb.Space({"day": ["Mon", "Tue", "Wed"], "offer": [1, 2], "channel": ["mail", "sms"]})
    times = pd.to_datetime(["2024-01-02 10:00", "2024-01-01 09:00", "2024-01-02 23:00"])
    log = pd.DataFrame({"time": times, "offer_id": [2.0, 1.0, 2.0], "clicks": [1, 0, 2], "shown": [10, 20, 30]})
    one = bandit("thompson", space=days, reward="bernoulli", rank=1)
    columns = {"day": "time:weekday", "offer": "offer_id"}
    start = one.tell_log(log, "clicks", trials="shown", columns=columns, fixed={"channel": "sms"})
    assert start.rewards == 60
    assert one.policy.ledger[1, 1, 1][1:3] == (40.0, 3.0)
    assert one.policy.ledger[0, 0, 1][1:3] == (20.0, 0.0)
    assert set(one.ask().arm) == {"day", "offer", "channel"}


def test_one_mode_one_level_and_dates_will_do():
    days = tb.Space({"day": [date(2024, 1, 1), date(2024, 1, 2)]})
    one = bandit(space=days)
    one.tell_log(pl.DataFrame({"day": [date(2024, 1, 2)] * 3, "reward": [1, 2, 3]}), "reward")
    assert one.policy.ledger[1,][1:3] == (3.0, 6.0)


def test_unknown_labels_are_refused_with_their_names_and_counts():
    log = {**ROWS, "offer": ["a", "z", "z", "y", "a"], "channel": ["sms", "post", "mail", "mail", "sms"]}
    one = bandit()
    with pytest.raises(ValueError, match=r"offer 'y' \(1\), 'z' \(2\); channel 'post' \(1\); leave them out"):
        one.tell_log(pa.table(log), "reward")
    assert not told(one)
    start = one.tell_log(pa.table(log), "reward", unknown="skip")
    assert told(one) == {("sms", "a", "old"): (2.0, 4.0, 10.0)}
    assert start.skipped == {"offer": {"y": 1.0, "z": 2.0}, "channel": {"post": 1.0}}
    assert "skipped: offer 'y' (1), 'z' (2); channel 'post' (1)" in repr(start)


@pytest.mark.parametrize("policy", ["ucb", "thompson"])
def test_unknown_labels_are_added(policy):
    log = {**ROWS, "offer": ["a", "z", "z", "y", "a"], "segment": ["old", "older", "new", "new", "old"]}
    one = bandit(policy)
    one.ask(segment="new")
    start = one.tell_log(pa.table(log), "reward", unknown="add")
    assert start.added == {"offer": ("y", "z"), "segment": ("older",)}
    assert one.space.levels[1] == ("a", "b", "c", "y", "z")
    assert one.policy.shape == one.space.shape == (3, 5, 2)
    assert told(one)["mail", "z", "older"][:2] == (1.0, 2.0)
    assert one.policy.ledger.rounds == 5
    assert set(one.ask(segment="older").arm) == {"offer", "channel"}


def test_policies_that_cannot_grow_refuse_new_labels_and_nothing_changes():
    offers = tb.Space({"offer": ["a", "b", "c"], "channel": ["mail", "sms"]})
    one = bandit("elimination", space=offers, rank=1, horizon=100)
    log = pa.table({"offer": ["a", "z"], "channel": ["mail", "mail"], "reward": [1.0, 2.0]})
    before = state(one)
    with pytest.raises(ValueError, match="cannot follow a mode that gains levels"):
        one.tell_log(log, "reward", unknown="add")
    assert state(one) == before
    one.tell_log(log, "reward", unknown="skip")
    assert one.policy.ledger.rounds == 1


@pytest.mark.parametrize(
    ("log", "arguments", "match"),
    [
        ({}, {"reward": "rewrd"}, "did you mean 'reward'"),
        ({}, {"columns": {"ofer": "offer"}}, "did you mean 'offer'"),
        ({}, {"columns": {"offer": "ofer"}}, "did you mean 'offer'"),
        ({}, {"columns": ["offer"]}, "columns is"),
        ({}, {"fixed": "mail"}, "fixed is 'mail'"),
        ({}, {"fixed": {"channel": "post"}}, "'post' is no level of mode 'channel'"),
        ({}, {"fixed": {"channel": "sms"}, "columns": {"channel": "offer"}}, "in columns and in fixed"),
        ({}, {"unknown": "ignore"}, "allowed are 'error', 'skip' and 'add'"),
        ({}, {"missing": "ignore"}, "allowed are 'error' and 'drop'"),
        ({}, {"weight": 0}, "above 0 and at most 1"),
        ({}, {"weight": 1.5}, "above 0 and at most 1"),
        ({}, {"weight": True}, "weight is True"),
        ({"offer": ["z"] * 5}, {"unknown": "skip"}, "no reward is left"),
        ({"reward": [1.0, 2.0, None, 1.0, 1.0]}, {}, "has no value"),
        ({"reward": [1.0, 2.0, float("inf"), 1.0, 1.0]}, {}, "row 2"),
        ({"segment": [1, 2, 1, 2, 1]}, {}, r"segment 1 \(3\), 2 \(2\)"),
        ({"reward": [1, 0, 1, 2, 0]}, {"policy": "thompson"}, "allowed are 0 and 1"),
    ],
)
def test_wrong_input_is_named_and_changes_nothing(log, arguments, match):
    policy = arguments.pop("policy", "ucb")
    one = bandit(policy, **({"reward": "bernoulli"} if policy == "thompson" else {}))
    before = state(one)
    with pytest.raises((TypeError, ValueError), match=match):
        one.tell_log(pa.table({**ROWS, **log}), **{"reward": "reward", **arguments})
    assert state(one) == before


def test_what_cannot_be_rewards_adds_no_levels_either():
    one = bandit("thompson", reward="bernoulli")
    before = state(one)
    with pytest.raises(ValueError, match="allowed are 0 and 1"):
        one.tell_log(pa.table({**ROWS, "offer": list("zzzzz")}), "reward", unknown="add")
    assert state(one) == before


def test_another_bandit_is_matched_by_label():
    other = bandit(space=tb.Space({"channel": ["sms", "mail"], "segment": ["old"], "offer": ["c", "a"]}, ["segment"]))
    for offer, reward in (("c", 1.0), ("a", 3.0), ("c", 2.0)):
        other.tell(arm={"offer": offer, "channel": "sms"}, context={"segment": "old"}, reward=reward)
    other.ask(segment="old")  # which stays open there
    one = bandit()
    one.tell(arm={"offer": "c", "channel": "sms"}, context={"segment": "old"}, reward=5.0)
    start = one.tell_bandit(other)
    assert told(one) == {("sms", "c", "old"): (3.0, 8.0, 30.0), ("sms", "a", "old"): (1.0, 3.0, 9.0)}
    assert (start.rewards, start.rows, one.waiting, other.waiting) == (3.0, None, 0, 1)


def test_another_bandit_counts_for_less_also_once_more_and_saved(tmp_path):
    clicks = {"policy": "thompson", "reward": "bernoulli", "rank": 1}
    first, second, third = bandit(**clicks), bandit(**clicks), bandit(**clicks)
    for _ in range(3):
        first.tell(arm={"offer": "a", "channel": "sms"}, context={"segment": "new"}, reward=1)
    second.tell_bandit(first, weight=0.5)
    assert told(second) == {("sms", "a", "new"): (1.5, 1.5, 1.5)}
    decision = second.ask(segment="new")
    second.tell(decision, 0)
    second.tell(decision, 1, amend=True)
    third.tell_bandit(second)  # of which some counts for half
    assert third.policy.ledger.rounds == 2.5
    third.save(tmp_path / "bandit")
    assert told(tb.Bandit.load(tmp_path / "bandit")) == told(third)
    assert third.ask(segment="new").propensity > 0


def test_a_bandit_with_fewer_modes_needs_the_others_named():
    other = bandit(space=tb.Space({"segment": ["new"], "offer": ["a", "q"]}, ["segment"]))
    other.tell(arm={"offer": "a"}, context={"segment": "new"}, reward=1.0)
    one = bandit()
    with pytest.raises(ValueError, match=r"fixed=\{'channel': 'mail'\}"):
        one.tell_bandit(other)
    with pytest.raises(ValueError, match="is in fixed, but the rewards have levels of it"):
        one.tell_bandit(other, fixed={"channel": "mail", "offer": "a"})
    one.tell_bandit(other, fixed={"channel": "sms"})  # a label without rewards, 'q', is no matter
    assert told(one) == {("sms", "a", "new"): (1.0, 1.0, 1.0)}
    with pytest.raises(ValueError, match="'channel' is no mode"):
        other.tell_bandit(one)


@pytest.mark.parametrize("other", [None, 7, "bandit"])
def test_what_is_no_other_bandit_is_refused(other):
    with pytest.raises(TypeError, match="not another Bandit"):
        bandit().tell_bandit(other)
    one = bandit()
    with pytest.raises(TypeError, match="not another Bandit"):
        one.tell_bandit(one)


def test_a_bandit_that_was_told_nothing_has_nothing_to_tell():
    one = bandit()
    assert repr(one.tell_bandit(bandit())) == "WarmStart(told 0 rewards of 0 cells)"
    assert one.policy.ledger.rounds == 0


def test_a_warm_bandit_decides_well_at_once():
    rng = np.random.default_rng(0)
    cells = rng.integers((2, 3, 2), size=(600, 3))
    rewards = (cells[:, 1] == 2 * cells[:, 0]) + 0.1 * rng.standard_normal(600)
    columns = {mode: np.array(labels)[cells[:, at]] for at, (mode, labels) in enumerate(MODES.items())}
    one = bandit("thompson", rank=2)
    one.tell_log(pl.DataFrame({**columns, "reward": rewards}), "reward")
    assert (one.best(segment="new")["offer"], one.best(segment="old")["offer"]) == ("a", "c")
    assert sum(one.ask(segment="old").arm["offer"] == "c" for _ in range(20)) >= 18
