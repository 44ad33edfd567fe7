"""The record of decisions over time: held to a list of all decisions, merged or not, saved or not."""

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.bandit import commands
from tensorbandits.bandit.book import Book
from tensorbandits.bandit.shares import Shares
from tensorbandits.bandit.spans import Fading, Span
from tensorbandits.bandit.state import State
from tensorbandits.bandit.timeline import Timeline

SHAPE = (3, 2)


def plain(decisions, length, count):
    """Totals (blocks, sides, 4) and levels of both modes, from a list of (mark, cell, held, reward or None)."""
    blocks = -(-count // length)
    totals = np.zeros((blocks, 3, 4))
    levels = [np.zeros((blocks, 3, 3, size)) for size in SHAPE]
    for mark, cell, held, reward in decisions:
        numbers = np.array([1.0, 0.0, 0.0, 0.0] if reward is None else [1.0, 1.0, reward, reward**2])
        totals[mark // length, int(held)] += numbers
        for mode, level in enumerate(cell):
            levels[mode][mark // length, int(held), :, level] += numbers[:3]
    return totals, levels


def assert_same(timeline, decisions):
    totals, levels = plain(decisions, timeline.length, timeline.count)
    np.testing.assert_allclose(timeline.totals, totals, atol=1e-12)
    for mode, expected in enumerate(levels):
        found = timeline.levels(mode)
        np.testing.assert_allclose(found[..., : SHAPE[mode]], expected[..., : found.shape[-1]], atol=1e-12)
        assert not found[..., SHAPE[mode] :].any()
        assert not expected[..., found.shape[-1] :].any()


@pytest.mark.parametrize("count", [1, 99, 100, 101, 450, 1601])
def test_blocks_hold_what_a_list_of_all_decisions_says(count):
    rng = np.random.default_rng(count)
    timeline, decisions = Timeline(2), []
    for at in range(count):
        cell, side = tuple(int(rng.integers(size)) for size in SHAPE), int(rng.integers(3))
        decisions.append([timeline.enter(cell, time=10.0 * at, side=side), cell, side, None])
        late = decisions[int(rng.integers(len(decisions)))]  # a reward comes late, or corrects another
        new = float(rng.integers(4))
        timeline.reward(late[0], late[1], late[3], new, side=late[2])
        late[3] = new
    assert_same(timeline, decisions)
    assert len(timeline) <= 100
    assert count < 50 or len(timeline) >= 50
    assert timeline.length == max(1, 2 ** int(np.ceil(np.log2(count / 100))))
    np.testing.assert_array_equal(timeline.starts, 10.0 * timeline.length * np.arange(len(timeline)))
    again = Timeline(2).restore(timeline.state(), SHAPE)
    assert_same(again, decisions)
    assert (again.length, again.count, again.last) == (timeline.length, timeline.count, timeline.last)
    again.enter((2, 1), time=1e5, side=0)
    assert again.count == count + 1


def state(**settings):
    space = tb.Space({"a": [0, 1, 2], "b": [0, 1]})
    policy = tb.VectorizedUCB(space.shape)
    return State(space, policy, book=Book(**settings), shares=Shares(), fading=Fading(None))


def do(one, command, time=0.0):
    for event in one.plan(command, time):
        one.apply(event)


def open_(one, number, cell, *, active=True, side=0, time=0.0):
    do(one, commands.Decide(commands.Drawn(cell, 0.5, "holdout" if side else "policy"), number, active), time)


def test_a_state_counts_what_was_shown_and_each_reward_once():
    one = state(window=Span.of("10 s", "window"), default=0.0, adds=True)
    open_(one, "shown", (0, 0))
    open_(one, "held", (1, 1), side=1)
    open_(one, "kept", (2, 0), active=False)
    open_(one, "cancelled", (2, 1))
    for _ in range(2):  # again is no matter
        do(one, commands.Cancel("cancelled"))
        do(one, commands.Tell("shown", 1.0))
    do(one, commands.Tell("shown", 2.0, add=True))
    assert one.timeline.count == 3
    do(one, commands.Activate("kept"), 5.0)
    do(one, commands.Activate("kept"), 6.0)
    do(one, commands.Expire(), 11.0)  # the one of the holdout has its default
    do(one, commands.Tell("held", 4.0), 11.0)  # and then its reward
    expected = [(0, (0, 0), False, 3.0), (1, (1, 1), True, 4.0), (3, (2, 0), False, None)]
    totals, _ = plain(expected, 1, 4)
    np.testing.assert_allclose(one.timeline.totals, totals)
    open_(one, "unseen", (2, 0), active=False, time=12.0)
    do(one, commands.Tell("unseen", 1.0), 12.0)  # of a decision that nobody said was shown
    np.testing.assert_allclose(one.timeline.totals, totals)


def test_what_a_policy_refused_is_taken_back():
    one = state()
    open_(one, "d", (0, 1))
    do(one, commands.Tell("d", 2.0))
    before = one.book["d"]
    do(one, commands.Tell("d", 5.0, amend=True))
    one.revert("d", before, 5.0)
    np.testing.assert_allclose(one.timeline.totals[0, 0], [1.0, 1.0, 2.0, 4.0])
    assert (one.book["d"].state, one.book["d"].reward) == ("rewarded", 2.0)


def played(**settings):
    space = tb.Space({"offer": ["a", "b", "c"], "channel": ["x", "y"]})
    now = [0.0]
    bandit = tb.Bandit(space, "ucb", seed=0, holdout=0.3, clock=lambda: now[0], **settings)
    decisions = []
    for at in range(250):
        now[0] += 1.0
        decisions.append(bandit.ask())
        bandit.tell(decisions[-1], float(at % 5))
    return bandit, decisions


def test_a_bandits_history_by_name_is_that_of_its_decisions(tmp_path):
    bandit, decisions = played()
    bandit.tell(decisions[3], 100.0, amend=True)
    bandit.save(tmp_path / "bandit")
    for one in (bandit, tb.Bandit.load(tmp_path / "bandit")):
        frame = one.history("channel")
        assert list(frame["level"].unique()) == ["x", "y"]
        for by in ("policy", "holdout"):
            some = [d for d in decisions if (d.by == "holdout") == (by == "holdout")]
            rows = frame[(frame["by"] == by) & (frame["level"] == "y")]
            assert rows["decisions"].sum() == sum(d.arm["channel"] == "y" for d in some)
            rewards = [100.0 if d is decisions[3] else float(at % 5) for at, d in enumerate(decisions)]
            earned = [r for r, d in zip(rewards, decisions) if d in some and d.arm["channel"] == "y"]
            assert rows["total"].sum() == pytest.approx(sum(earned))
        whole = one.history()
        assert whole["decisions"].sum() == whole["rewards"].sum() == 250
        first = whole[(whole["first"] == 0) & (whole["by"] == "policy")].iloc[0]
        assert (first["start"], whole["block"].max()) == (1.0, 62)
        got = [r for r, d in zip(rewards[:4], decisions[:4]) if d.by != "holdout"]
        assert first["mean"] == pytest.approx(np.mean(got))
        assert first["error"] == pytest.approx(np.std(got, ddof=1) / np.sqrt(len(got)))
    shares = frame.groupby(["block", "by"])["share"].sum()
    assert set(shares.round(9)) <= {0.0, 1.0}


def test_rewards_after_loading_find_their_block(tmp_path):
    bandit, _ = played()
    late = bandit.ask()
    bandit.save(tmp_path / "bandit")
    again = tb.Bandit.load(tmp_path / "bandit", clock=lambda: 300.0)
    before = again.timeline().totals[-1].sum(axis=0)
    again.tell(late, 50.0)
    np.testing.assert_allclose(again.timeline().totals[-1].sum(axis=0) - before, [0.0, 1.0, 50.0, 2500.0])


def test_a_state_without_a_history_still_loads():
    bandit, decisions = played()
    waits = bandit.ask()
    state = bandit.state_dict()
    for part in ("timeline", "unmarked", "learning"):
        del state[part]
    del state["book"]["held"]
    again = tb.Bandit.from_state_dict(state, clock=lambda: 300.0)
    again.tell(decisions[0], 9.0, amend=True)
    again.tell(waits, 1.0)
    assert again.timeline().count == 0
    again.tell(again.ask(), 2.0)
    assert again.history()["total"].sum() == 2.0


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"length": 0}, "length"),
        ({"length": 1}, "too many"),
        ({"totals": np.zeros((2, 1, 4))}, "totals"),
        ({"levels": {}}, "'0'"),
    ],
)
def test_a_damaged_timeline_is_refused(change, match):
    state = played()[0].state_dict()
    state["timeline"] |= change
    with pytest.raises((ValueError, TypeError), match=match):
        tb.Bandit.from_state_dict(state)
    state = played()[0].state_dict()
    state["book"]["orders"][0] = 10_000
    with pytest.raises(ValueError, match="in no block"):
        tb.Bandit.from_state_dict(state)


def test_levels_that_come_later_are_counted_too():
    bandit, _ = played()
    bandit.add_level("offer", "new")
    while bandit.ask().arm["offer"] != "new":
        pass
    frame = bandit.history("offer")
    assert frame[frame["level"] == "new"]["decisions"].sum() == 1.0
    with pytest.raises(ValueError, match="did you mean 'offer'"):
        bandit.history("ofer")
