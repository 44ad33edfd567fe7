"""Learning from a lake: a plain loop's sums to the last reward, in whatever order files come, whatever is killed."""

import contextlib
import os
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorbandits as tb
from tensorbandits.base.folders import Folder
from tensorbandits.lake import records
from tensorbandits.lake.files import write_records
from tensorbandits.lake.learning import LakeLearner
from tests.lake import lakes

duckdb = pytest.importorskip("duckdb")
END = lakes.START + 2 * 3600
LATER = END + 4000  # all windows have ended, and all rewards are in


@pytest.fixture
def made(tmp_path):
    """A folder with a bandit, the root of a lake in it, and the bandit's uid."""
    return tmp_path, f"{tmp_path}/lake", lakes.bandit(tmp_path)[1]


def click(reward):
    return reward in (0.0, 1.0)


# The join.


@pytest.mark.parametrize("now", [lakes.START + 1800, END, LATER])
@pytest.mark.parametrize("default", [0, 1, None])
def test_the_ledger_is_that_of_a_plain_loop(tmp_path, default, now):
    _, uid = lakes.bandit(tmp_path, default=default)
    found = lakes.history(1)
    lakes.write(tmp_path / "lake", found, uid)
    learner = lakes.learner(tmp_path, tmp_path / "lake")
    done = learner.learn(now)
    wanted = found.wanted(now, default=None if default is None else float(default))
    assert lakes.counted(learner.ledger) == lakes.exact(wanted)
    made, told = {row[0] for row in found.decisions}, {row[0] for row in found.rewards}
    assert done.counts == {
        "decisions": len(made),
        "rewards": len(told),
        "defaults": len(wanted) - len(told),
        "waiting": len(made - set(wanted)),
        "unlogged": len(told - made),
        "repeated_decisions": len(found.decisions) - len(made),
        "repeated_rewards": len(found.rewards) - len(told),
        "unusable_decisions": 0,
        "unusable_rewards": 0,
    }
    assert learner.bandit.policy.ledger == learner.ledger
    assert tb.Bandit.load(learner.path).policy.ledger == learner.ledger


REWARDS = {
    "gaussian": lambda rng: float(rng.normal(1e6, 1e-3)),
    "count": lambda rng: float(rng.poisson(2.0)),
    "revenue": lambda rng: float(rng.choice([0.0, rng.gamma(2.0, 7.0)])),
    "revenue-signed": lambda rng: float(rng.choice([0.0, rng.normal(5.0, 9.0)])),
}


@pytest.mark.parametrize("kind", REWARDS)
def test_rewards_of_every_kind_are_added_up_exactly(tmp_path, kind):
    _, uid = lakes.bandit(tmp_path, reward=kind)
    found = lakes.history(2, 200, reward=REWARDS[kind])
    lakes.write(tmp_path / "lake", found, uid)
    learner = lakes.learner(tmp_path, tmp_path / "lake")
    learner.learn(LATER)
    assert lakes.counted(learner.ledger) == lakes.exact(found.wanted(LATER))
    assert learner.bandit.policy.ledger == learner.ledger


def test_a_reward_after_its_window_takes_the_defaults_place(made):
    place, lake, uid = made
    first, late = int(lakes.START * 1e6), int((lakes.START + 5000) * 1e6)
    lakes.write(lake, lakes.History([("a", first, (0, 0, 0))], []), uid)
    learner = lakes.learner(place, lake)
    assert (
        lakes.counted((learner.learn(lakes.START + 600), learner.ledger)[1]) == {}
    )  # the window ends after this moment
    learner.learn(lakes.START + 601)
    assert learner.ledger[0, 0, 0][1:] == (1.0, 0.0, 0.0)
    lakes.write(lake, lakes.History([], [("a", late, 1.0, False, (0, 0, 0), first)]), uid, writer="late")
    learner.learn(lakes.START + 601)
    assert learner.ledger[0, 0, 0][1:] == (1.0, 1.0, 1.0)
    assert learner.bandit.policy.ledger == learner.ledger


def test_it_means_what_the_bandit_means(tmp_path):
    """The same decisions and rewards, told to a bandit one by one in the order of time, leave the same sums."""
    now = [lakes.START]
    space = tb.Space({"a": ["x", "y"], "b": ["p", "q", "r"]})
    live = tb.Bandit(space, "ucb", window="10 min", default=0, clock=lambda: now[0])
    _, uid = lakes.bandit(tmp_path, shape=(2, 3))
    rng, found, todo = np.random.default_rng(3), lakes.History([], []), []
    for at in range(150):
        now[0] = lakes.START + 20.0 * at
        for due, number, reward, amend, cell, decided in sorted(one for one in todo if one[0] <= now[0]):
            moment, now[0] = now[0], due
            with contextlib.suppress(ValueError):  # another reward than the first, without amend
                live.tell(number, reward, amend=amend)
            now[0] = moment
            found.rewards.append((number, round(due * 1e6), reward, amend, cell, decided))
        todo = [one for one in todo if one[0] > now[0]]
        decision = live.ask()
        cell = tuple(space.cell({}, **decision.arm))
        decided = round(now[0] * 1e6)
        found.decisions.append((decision.id, decided, cell))
        for late, amend in ((30.0, False), (45.0, True), (700.0, False), (900.0, True))[: rng.integers(5)]:
            todo.append((now[0] + late + rng.random(), decision.id, float(rng.integers(2)), amend, cell, decided))
    live.expire()
    lakes.write(tmp_path / "lake", found, uid)
    learner = lakes.learner(tmp_path, tmp_path / "lake")
    learner.learn(now[0])
    assert learner.ledger == live.policy.ledger
    assert learner.ledger.rounds > 100


def test_rewards_that_cannot_be_are_left_out_and_counted(made):
    place, lake, uid = made
    moment = int(lakes.START * 1e6)
    told = [("a", 0.5), ("b", float("nan")), ("c", float("inf")), ("d", -1.0), ("e", 1.0), ("f", -0.0)]
    rewards = [(number, moment + 1, reward, False, (0, 0, 0), moment) for number, reward in told]
    rewards += [("g", moment + 1, 1.0, False, (0, 0), moment), ("h", moment + 1, 1.0, False, (0, 0, -1), moment)]
    decisions = [("i", moment, (0, 0, 0, 0)), ("j", moment, (1, 2, 1))]
    lakes.write(lake, lakes.History(decisions, rewards), uid)
    learner = lakes.learner(place, lake)
    done = learner.learn(LATER)
    assert (done.counts["unusable_rewards"], done.counts["unusable_decisions"]) == (6, 1)
    assert lakes.counted(learner.ledger) == {(0, 0, 0): (2.0, 1.0, 1.0), (1, 2, 1): (1.0, 0.0, 0.0)}


@pytest.mark.parametrize("kind", ["gaussian", "bernoulli", "binomial", "count", "revenue", "revenue-signed"])
def test_the_join_takes_the_rewards_that_the_policy_takes(tmp_path, kind):
    _, uid = lakes.bandit(tmp_path, reward=kind, default=0)
    learner = lakes.learner(tmp_path, tmp_path / "lake")
    values = [0.0, -0.0, 1.0, 0.5, 2.0, -1.0, 1e15, 1e15 + 2, 1e100, 1e101, 1e-100, 1e-101, float("inf"), float("nan")]
    moment = int(lakes.START * 1e6)
    rewards = [(f"{at}", moment + 1, value, False, (0, 0, 0), moment) for at, value in enumerate(values)]
    lakes.write(tmp_path / "lake", lakes.History([], rewards), uid, pieces=1)

    def takes(value):
        try:
            learner.bandit.policy.check_reward(value)
        except ValueError:
            return False
        return True

    assert learner.learn(LATER).counts["unusable_rewards"] == sum(not takes(value) for value in values)


# Rounds.


@settings(max_examples=3)
@given(st.integers(0, 1_000_000), st.data())
def test_any_order_of_files_and_rounds_gives_the_same_bits(tmp_path_factory, seed, data):
    _check_any_order(tmp_path_factory, seed, data)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.integers(0, 1_000_000), st.data())
def test_any_order_of_many_files_and_rounds_gives_the_same_bits(tmp_path_factory, seed, data):
    _check_any_order(tmp_path_factory, seed, data)


def _check_any_order(tmp_path_factory, seed, data):
    place = tmp_path_factory.mktemp("lake")
    _, uid = lakes.bandit(place, reward="gaussian", default=0.1)
    found = lakes.history(seed, 60, reward=lambda rng: float(rng.normal()))
    all_at_once, names = place / "whole", lakes.write(place / "source", found, uid, pieces=3)
    shutil.copytree(place / "source", all_at_once)
    one = lakes.learner(place, all_at_once, kept=place / "one")
    one.learn(LATER)
    two = lakes.learner(place, place / "parts", kept=place / "two")
    times = sorted(data.draw(st.lists(st.floats(lakes.START, LATER), max_size=4)))
    for at, name in enumerate(data.draw(st.permutations(names))):
        Folder(place / "parts").write(name, Folder(place / "source").read(name))
        if times and at % 3 == 2:
            two.learn(times.pop(0))
    two.learn(LATER)
    assert two.total.sums == one.total.sums
    assert two.total.makers == one.total.makers
    assert two.total.counts == one.total.counts
    assert lakes.counted(two.ledger) == lakes.counted(one.ledger) == lakes.exact(found.wanted(LATER, default=0.1))


def test_only_hours_with_news_are_joined_anew(made):
    place, lake, uid = made
    found = lakes.history(4, hours=3)
    lakes.write(lake, found, uid)
    learner = lakes.learner(place, lake, publish=f"{place}/published")
    hours = ["2026-11-19T04", "2026-11-19T05", "2026-11-19T06"]
    assert (learner.learn(LATER + 3600).joined, learner.learn(LATER + 3600).joined) == (hours, [])
    assert learner.learn(LATER + 9999).version is None  # nothing new
    more = ("new", int((lakes.START + 3700) * 1e6), (0, 0, 0))
    lakes.write(lake, lakes.History([more], []), uid, writer="more")
    done = learner.learn(LATER + 9999)
    assert (done.joined, done.version) == (hours[1:2], 2)
    again = lakes.learner(place, lake)  # as after a restart
    assert again.learn(LATER + 9999).joined == []
    assert again.ledger == learner.ledger


def test_a_restart_opens_no_file_of_an_hour_without_news(made, monkeypatch):
    place, lake, uid = made
    lakes.write(lake, lakes.history(4, hours=3), uid)
    lakes.learner(place, lake).learn(LATER + 9999)
    lakes.write(lake, lakes.History([("new", int((lakes.START + 3700) * 1e6), (0, 0, 0))], []), uid, writer="more")
    opened, ordinary = [], Folder.open
    monkeypatch.setattr(Folder, "open", lambda self, name: (opened.append(name), ordinary(self, name))[1])
    lakes.learner(place, lake).learn(LATER + 9999)
    assert {name.split("/")[1] for name in opened} == {"hour=2026-11-19T05"}


class Killed(BaseException):
    """What stands for the death of a learner in the middle of a round."""


@pytest.mark.parametrize(
    "writes", [2, 5, *(pytest.param(many, marks=pytest.mark.slow) for many in (1, 3, 4, 6, 7, 8, 9))]
)
def test_a_round_that_is_killed_at_any_write_leaves_nothing_wrong(made, monkeypatch, writes):
    place, lake, uid = made
    lakes.write(lake, lakes.history(5, 100), uid)
    lakes.learner(place, lake, publish=f"{place}/published").learn(END)
    more = lakes.history(6, 100)
    lakes.write(lake, more, uid, writer="more")
    left, write, save = [writes], Folder.write, tb.Bandit.save

    def counting(ordinary):
        def dying(*given):
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            return ordinary(*given)

        return dying

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "write", counting(write))
        patch.setattr(tb.Bandit, "save", counting(save))
        learner = lakes.learner(place, lake, publish=f"{place}/published")
        try:
            learner.learn(LATER)
        except Killed:
            pass
        else:
            assert writes > 6  # there are so many of them
    learner = lakes.learner(place, lake, publish=f"{place}/published")
    done = learner.learn(LATER)
    shutil.rmtree(f"{learner.path}.learned")
    fresh = lakes.learner(place, lake)
    fresh.learn(LATER)
    assert fresh.total.sums == learner.total.sums
    assert done.counts == fresh.total.counts
    assert fresh.bandit.policy.ledger == learner.ledger == tb.Bandit.load(learner.path).policy.ledger


def test_what_a_bandit_was_told_otherwise_stays_beside_the_lake(made):
    place, lake, uid = made
    path = place / f"{lakes.NAME}.safetensors"
    bandit = tb.Bandit.load(path)
    bandit.tell(arm={"mode0": "00", "mode1": "10", "mode2": "20"}, reward=1)
    bandit.save(path)
    lakes.write(lake, lakes.history(7), uid)
    learner = lakes.learner(place, lake)
    learner.learn(END)
    bandit = tb.Bandit.load(path)  # as somebody does while the learner is between rounds
    bandit.tell(arm={"mode0": "01", "mode1": "12", "mode2": "21"}, reward=0)
    bandit.add_level("mode1", "new", like="10")
    bandit.save(path)
    more = bandit.policy.ledger.rounds - learner.ledger.rounds - 1
    learner.learn(LATER)
    assert learner.bandit.policy.shape == (2, 4, 2)
    assert learner.bandit.policy.ledger.rounds == pytest.approx(learner.ledger.rounds + 1 + more)
    before = learner.bandit.policy.ledger.rounds
    shutil.rmtree(f"{path}.learned")  # what is kept is gone, and is learned anew
    again = lakes.learner(place, lake)
    again.learn(LATER)
    assert again.bandit.policy.ledger.rounds == pytest.approx(before)


def test_another_window_or_default_holds_for_all_hours(made):
    place, lake, uid = made
    found = lakes.history(8)
    lakes.write(lake, found, uid)
    learner = lakes.learner(place, lake)
    learner.learn(LATER)
    bandit = tb.Bandit.load(learner.path)
    bandit.change(window="3 days", default=None)
    bandit.save(learner.path)
    learner.learn(LATER)
    assert lakes.counted(learner.ledger) == lakes.exact(found.wanted(LATER, default=None))
    assert learner.bandit.policy.ledger.rounds == pytest.approx(learner.ledger.rounds)


def test_levels_that_the_bandit_does_not_know_wait_for_it(made):
    place, lake, uid = made
    moment = int(lakes.START * 1e6)
    rows = [("a", moment, (0, 3, 0)), ("b", moment, (0, 0, 0))]
    lakes.write(lake, lakes.History(rows, []), uid)
    learner = lakes.learner(place, lake)
    done = learner.learn(LATER)
    assert (done.beyond, learner.ledger.rounds) == (1, 1.0)
    assert "1 rewards of levels that are not known" in str(done)
    bandit = tb.Bandit.load(learner.path)
    bandit.add_level("mode1", "new")
    bandit.save(learner.path)
    done = learner.learn(LATER)
    assert (done.beyond, done.joined, learner.ledger.rounds) == (0, [], 2.0)


def test_what_was_learned_of_files_that_are_gone_stays(made):
    place, lake, uid = made
    found = lakes.history(9)
    lakes.write(lake, found, uid)
    learner = lakes.learner(place, lake)
    learner.learn(LATER)
    before = lakes.counted(learner.ledger)
    os.remove(next((place / "lake/rewards/bandit=offers/hour=2026-11-19T04").iterdir()))
    done = learner.learn(LATER)
    assert (done.kept, done.joined, lakes.counted(learner.ledger)) == (["2026-11-19T04"], [], before)
    shutil.rmtree(place / "lake/decisions")
    shutil.rmtree(place / "lake/rewards/bandit=offers/hour=2026-11-19T04")
    assert lakes.counted((learner.learn(LATER), learner.ledger)[1]) == before


def test_old_hours_are_looked_at_when_their_windows_end_only(made):
    place, lake, uid = made
    found = lakes.history(10)
    lakes.write(lake, found, uid)
    learner = lakes.learner(place, lake, look_back="30 min")
    learner.learn(END)
    assert learner.learn(LATER).joined == ["2026-11-19T05"]  # whose windows have ended since
    lakes.write(lake, lakes.History([("x", int(lakes.START * 1e6), (0, 0, 0))], []), uid, writer="more")
    assert learner.learn(LATER).joined == []
    assert lakes.learner(place, lake, look_back="30 min").learn(LATER).joined == ["2026-11-19T04"]


def test_the_time_of_a_round_never_goes_back(made):
    place, lake, uid = made
    found = lakes.history(11)
    lakes.write(lake, found, uid)
    learner = lakes.learner(place, lake)
    assert learner.learn(LATER).behind == 0.0
    lakes.write(lake, lakes.History([("x", int(lakes.START * 1e6), (0, 0, 0))], []), uid, writer="more")
    done = learner.learn(lakes.START)
    assert (done.counts["waiting"], done.behind) == (0, LATER - lakes.START)
    assert "the clock is 11,200 s behind that of an earlier round" in str(done)


# Files that cannot be used.


def test_files_that_cannot_be_used_are_named_and_the_rest_goes_on(made):
    place, lake, uid = made
    found = lakes.history(12, 50, hours=1)
    lakes.write(lake, found, uid)
    folder, hour = Folder(lake), "2026-11-19T04"
    some = found.rewards[:5]
    whole = records.packed(lakes.table("rewards", some, uid))
    inside = bytearray(whole)
    inside[60:72] = bytes(12)  # a page of it
    bad = {
        "cut": (whole[:-40], "was not written to its end"),
        "empty": (b"", "was not written to its end"),
        "inside": (bytes(inside), "is damaged"),
        "other": (records.packed(lakes.table("rewards", some, uid, "other")), "of the bandit 'other', not of 'offers'"),
        "uid": (records.packed(lakes.table("rewards", some, "ff" * 8)), "of another bandit of the name 'offers'"),
        "kind": (
            records.packed(lakes.table("decisions", found.decisions, uid)),
            "holds decisions, in a folder of rewards",
        ),
        "newer": (_with(some, uid, version=2), "version 2, written by a newer release"),
        "foreign": (_foreign(), "does not say of which bandit it is"),
        "columns": (_with(some, uid, drop="amend"), "lacks the column 'amend'"),
        "types": (_with(some, uid, cast="reward"), "'reward' is of type string, not double"),
    }
    for name, (content, _) in bad.items():
        folder.write(f"rewards/bandit=offers/hour={hour}/part-{name}-00000000.parquet", content)
    late = [(*row[:5], row[5] + 3_600_000_000) for row in some]
    write_records(folder, "rewards", hour, "hour", 0, lakes.table("rewards", late, uid))
    folder.write(f"rewards/bandit=offers/hour={hour}/.part-half.parquet.writing", whole[:100])
    learner = lakes.learner(place, lake)
    done = learner.learn(LATER)
    assert {path.rpartition("part-")[2].split("-")[0]: why for path, why in done.refused.items()}.keys() == {
        *bad,
        "hour",
    }
    for name, (_, words) in (bad | {"hour": (b"", f"in the folder of the hour {hour}")}).items():
        (why,) = (why for path, why in done.refused.items() if f"part-{name}-" in path)
        assert words in why
    assert lakes.counted(learner.ledger) == lakes.exact(found.wanted(LATER))
    assert learner.learn(LATER).joined == []
    mended = [("m", some[0][1], 1.0, False, some[0][4], some[0][5])]
    write_records(folder, "rewards", hour, "cut", 0, lakes.table("rewards", mended, uid))
    assert learner.learn(LATER).joined == [hour]
    again = found._replace(rewards=[*found.rewards, *mended])
    assert lakes.counted(learner.ledger) == lakes.exact(again.wanted(LATER))


def _with(rows, uid, *, version=records.VERSION, drop=None, cast=None):
    import json

    table = lakes.table("rewards", rows, uid)
    said = {"kind": "rewards", "version": version, "bandit": "offers", "uid": uid}
    if cast:
        at = table.column_names.index(cast)
        table = table.set_column(at, cast, table.column(cast).cast("string"))
    table = table.drop_columns([drop]) if drop else table
    return records.packed(table.replace_schema_metadata({b"tensorbandits": json.dumps(said)}))


def _foreign():
    import pyarrow as pa

    return records.packed(pa.table({"a": [1]}))


# What cannot be learned.


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"window": 100}, "many deciders have no common order"),
        ({"adds": True}, "in a lake one counts"),
        ({"half_life": "1 day"}, "sums of a lake do not fade"),
    ],
)
def test_bandits_that_a_lake_cannot_teach_are_refused(tmp_path, settings, words):
    lakes.bandit(tmp_path, **settings)
    with pytest.raises(ValueError, match=words):
        lakes.learner(tmp_path, tmp_path / "lake")


def test_a_policy_that_does_not_sample_is_refused(tmp_path):
    tb.Bandit(tb.Space({"a": ["x", "y"]}), "ucb").save(tmp_path / "offers.safetensors")
    with pytest.raises(ValueError, match="VectorizedUCB, which does not sample"):
        lakes.learner(tmp_path, tmp_path / "lake")


def test_the_root_of_a_lake_and_a_strange_engine_are_refused(made):
    place, lake, uid = made
    lakes.write(lake, lakes.history(13, 5), uid)
    with pytest.raises(ValueError, match="holds a folder 'decisions'; give that one"):
        LakeLearner(place / "offers.safetensors", name="offers", decisions=lake, rewards=f"{lake}/rewards")
    with pytest.raises(ValueError, match="engine is 'hadoop'; give 'duckdb' or 'spark'"):
        lakes.learner(place, lake, engine="hadoop")
    with pytest.raises(ValueError, match="the bandit's name is 'a/b'"):
        LakeLearner(place / "offers.safetensors", name="a/b", decisions=lake, rewards=lake)


def test_a_folder_of_another_bandit_and_a_second_learner_are_refused(made):
    place, lake, uid = made
    lakes.write(lake, lakes.history(14, 5), uid)
    learner = lakes.learner(place, lake)
    learner.learn(LATER)
    from tensorbandits.lake.kept import alone

    with alone(learner.kept), pytest.raises(ValueError, match="another learner uses"):
        learner.learn(LATER)
    lakes.bandit(place)  # made anew, under the same name
    with pytest.raises(ValueError, match="has what was learned of another bandit"):
        lakes.learner(place, lake).learn(LATER)


def test_a_lake_may_lie_at_any_address(tmp_path):
    _, uid = lakes.bandit(tmp_path)
    found = lakes.history(15, 50)
    lake = f"memory://{tmp_path.name}/lake"
    lakes.write(lake, found, uid)
    learner = lakes.learner(tmp_path, lake, kept=f"memory://{tmp_path.name}/kept")
    learner.learn(LATER)
    assert lakes.counted(learner.ledger) == lakes.exact(found.wanted(LATER))


@pytest.mark.parametrize("error", [OSError, duckdb.IOException])
def test_a_learner_that_runs_says_what_fails_and_goes_on(made, caplog, error):
    place, lake, uid = made
    found = lakes.history(16, 50)
    lakes.write(lake, found, uid)
    learner = lakes.learner(place, lake)
    rounds, fails = [], [True, False]

    def learn():
        if fails.pop():
            raise error("the lake is away")
        return LakeLearner.learn(learner, LATER)

    learner.learn = learn
    fails[:] = [False, True]
    for done in learner.run(0.01, until=lambda: len(rounds) >= 1):
        rounds.append(done)
    assert "the lake is away" in caplog.text
    assert rounds[0].counts["decisions"] == len({row[0] for row in found.decisions})
