"""Which level moved: named where one did, and none where none did, however cells were chosen."""

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.bandit.drift import NEWS, drift
from tensorbandits.bandit.history import History
from tensorbandits.bandit.sensitivity import sensitivity

SHAPE = (4, 5, 3)


def means(kind, seed, *, lift=0.0):
    """Mean rewards, of which one level of the last mode is better by so much, on the scale of the kind."""
    values = np.random.default_rng([seed, 1]).standard_normal(SHAPE)
    values[:, :, 1] += lift
    if kind == "bernoulli":
        return 1.0 / (1.0 + np.exp(2.0 - values))
    return np.exp(0.5 * values) if kind == "count" else values


def pull(kind, mean, rng):
    if kind == "bernoulli":
        return float(rng.random() < mean)
    return float(rng.poisson(mean)) if kind == "count" else float(mean + rng.standard_normal())


def play(kind, seed, before, after, *, greedy=True, rounds=2400):
    """Rewards of who plays what has paid best so far, now and then anything, while means change after half of them."""
    rng, history = np.random.default_rng([seed, 2]), History(SHAPE)
    counts, totals = np.full(SHAPE, 1e-9), np.zeros(SHAPE)
    for t in range(rounds):
        cell = tuple(rng.integers(SHAPE).tolist())
        if greedy and rng.random() < 0.8:
            bonus = np.where(counts < 1, 2.0, 0.0) + np.sqrt(1.0 / np.maximum(counts, 1.0))
            cell = (cell[0], *np.unravel_index((totals / counts + bonus)[cell[0]].argmax(), SHAPE[1:]))
            cell = tuple(int(level) for level in cell)
        reward = pull(kind, (before if t < rounds // 2 else after)[cell], rng)
        counts[cell] += 1.0
        totals[cell] += reward
        history.record(cell, reward)
    return history


@pytest.mark.parametrize(("seeds", "most"), [(6, 1), pytest.param(20, 2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["gaussian", "bernoulli", "count"])
@pytest.mark.parametrize("greedy", [False, True])
def test_where_nothing_moves_nothing_is_said_to_have(kind, greedy, seeds, most):
    alarms = 0
    for seed in range(seeds):
        same = means(kind, seed)
        found = drift(play(kind, seed, same, same, greedy=greedy), kind)
        assert (found.evidence >= NEWS) == bool(found.moves)
        alarms += bool(found.moves)
    assert alarms <= most  # each with a probability of at most 1 / 20


@pytest.mark.parametrize("kind", ["gaussian", "bernoulli", "count"])
def test_the_level_that_moved_is_named_and_no_other(kind):
    right = 0
    for seed in range(8):
        before, after = means(kind, seed, lift=1.0), means(kind, seed, lift=-1.0)
        found = drift(play(kind, seed, before, after), kind)
        right += [(move.mode, move.level) for move in found.moves] == [(2, 1)]
        for move in found.moves:
            assert move.before > move.after
            assert 600 <= move.ago <= 1400  # it was 1200
    assert right >= 7


def test_several_levels_and_everything_are_told_apart():
    before = means("gaussian", 0)
    two = before.copy()
    two[1] += 2.0
    two[:, :, 2] -= 2.0
    found = drift(play("gaussian", 0, before, two, greedy=False), "gaussian")
    assert {(move.mode, move.level) for move in found.moves} == {(0, 1), (2, 2)}
    (everything,) = drift(play("gaussian", 0, before, before + 2.0, greedy=False), "gaussian").moves
    assert (everything.mode, everything.level) == (None, None)
    assert everything.after - everything.before == pytest.approx(2.0, abs=0.3)


def test_traffic_that_moves_to_worse_cells_is_no_drift():
    rng, history, mean = np.random.default_rng(0), History(SHAPE), means("gaussian", 0)
    order = np.argsort(mean.ravel())
    for t in range(3000):
        some = order[-30:] if t < 1500 else order[:40]  # all but a few cells are others later
        cell = tuple(int(level) for level in np.unravel_index(rng.choice(some), SHAPE))
        history.record(cell, pull("gaussian", mean[cell], rng))
    assert not drift(history, "gaussian").moves


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rewards", [[], [1.0], [1.0] * 400, [0.0] * 400, [1e9, -1e9] * 200, [1e-9] * 400])
@pytest.mark.parametrize("kind", ["gaussian", "bernoulli", "count"])
def test_extreme_rewards_are_no_drift(rewards, kind):
    if kind != "gaussian" and set(rewards) - {0.0, 1.0}:
        return
    history = History((2, 2))
    for at, reward in enumerate(rewards):
        history.record((at // 2 % 2, at // 4 % 2), reward)
    assert not drift(history, kind).moves


def test_rewards_without_noise_that_change_are_found():
    history = History((2, 3))
    for t in range(1200):
        history.record((t % 2, t % 3), float(t % 2 + (t % 3 == 2) * (t > 700)))
    assert [(move.mode, move.level) for move in drift(history, "gaussian").moves] == [(1, 2)]


# The history.


def test_a_history_holds_every_reward_once_in_blocks_that_shrink():
    rng, history, ledger = np.random.default_rng(0), History((3, 4)), tb.Ledger((3, 4))
    for _ in range(5000):
        cell, reward = tuple(rng.integers([3, 4]).tolist()), float(rng.integers(9))
        history.record(cell, reward)
        ledger.record(cell, reward)
    whole = tb.Ledger((3, 4))
    for block, length in zip(history.blocks, history.lengths, strict=True):
        assert block.rounds == length
        whole.merge(block)
    assert whole == ledger
    full = history.lengths[:-1]
    assert full == sorted(full, reverse=True)
    assert len(full) <= 4 * np.log2(5000 / 128) + 1
    assert max(full.count(length) for length in full) == 4
    again = History.from_state(history.state(), (3, 4))
    assert again.lengths == history.lengths
    assert again.blocks == history.blocks


def test_a_reward_is_replaced_in_the_block_that_it_is_in():
    wrong, right = History((2,)), History((2,))
    numbers = [wrong.record((t % 2,), -float(t)) for t in range(1000)]
    for t in range(1000):
        right.record((t % 2,), float(t))
    for t, number in enumerate(numbers):
        wrong.replace(number, (t % 2,), -float(t), float(t))
    assert wrong.blocks == right.blocks
    wrong.replace(0, (0,), 0.0, 5.0)  # of a time before the history
    wrong.replace(9999, (0,), 0.0, 5.0)
    assert wrong.blocks == right.blocks


def test_a_block_keeps_the_cells_that_were_rewarded_most(monkeypatch):
    monkeypatch.setattr("tensorbandits.bandit.history._CELLS", 10)
    history = History((1000,))
    for t in range(1000):
        history.record((t % 2 * t,), 1.0)  # every other reward is of cell 0
    merged = [block for block, length in zip(history.blocks, history.lengths, strict=True) if length > 64]
    assert {len(block) for block in merged} == {10}
    assert all((0,) in block for block in history.blocks)
    assert history.told == 1000


def test_a_damaged_history_is_refused():
    history = History((2, 3))
    for _ in range(100):
        history.record((0, 1), 1.0)
    state = history.state()
    with pytest.raises(ValueError, match="the history has 2 blocks"):
        History.from_state(state, (2, 4))
    with pytest.raises(ValueError, match="the history has 2 blocks"):
        History.from_state({**state, "lengths": [64]}, (2, 3))


# Through a bandit.


def bandit(policy="ucb", **settings):
    space = tb.Space({"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}, ["segment"])
    return tb.Bandit(space, policy, **{"seed": 0} | settings)


def tell(one, rounds, mean, rng):
    for _ in range(rounds):
        arm = one.space.labels(tuple(rng.integers(one.space.shape).tolist()))
        reward = float(mean(arm) + rng.standard_normal())
        one.tell(arm=arm, context={"segment": arm.pop("segment")}, reward=reward)


def test_diagnose_names_the_label_that_moved_and_says_it_in_words(tmp_path):
    one, rng = bandit(half_life=500), np.random.default_rng(0)
    tell(one, 600, lambda labels: float(labels["offer"] == "a"), rng)
    found = one.diagnose(max_rank=1)
    assert found.moved == ()
    assert found.drift.verdict in ("still", "too few")
    one.add_level("offer", "d")
    one.save(tmp_path / "one")
    one = tb.Bandit.load(tmp_path / "one")
    tell(one, 600, lambda labels: (labels["offer"] == "a") + 2.0 * (labels["channel"] == "sms"), rng)
    before = one.policy.ledger.copy()
    found = one.diagnose(max_rank=1)
    assert [(moved.mode, moved.label) for moved in found.moved] == [("channel", "sms")]
    assert found.moved[0].after - found.moved[0].before == pytest.approx(2.0, abs=0.4)
    assert found.rewards == 1200
    assert found.words.startswith("Channel 'sms' has moved, about ")
    assert found.structure.structure in repr(found)
    assert one.policy.ledger == before


def test_without_rewards_the_answer_is_that_there_are_too_few_and_how_many_would_do():
    for reward, what in (("gaussian", "rewards"), ("bernoulli", "clicks"), ("count", "rewards other than 0")):
        found = bandit("thompson", reward=reward).diagnose()
        assert (found.drift.verdict, found.matters.verdict) == ("too few", "too few")
        assert (found.moved, found.actions) == ((), ())
        assert "Too few to tell whether anything has moved: 0 rewards so far. From about" in found.words
        assert f" {what} on," in found.words
        assert f" {what}." in found.matters.words
        assert found.drift.needed > 100
        assert "No level has moved" not in repr(found)


def test_that_nothing_moved_is_said_where_a_move_would_have_been_noticed():
    same = np.zeros(SHAPE)
    few, many = (sensitivity(play("gaussian", 0, same, same, greedy=False, rounds=n), "gaussian") for n in (400, 6000))
    assert not few.enough
    assert 1500 < few.needed < 6000
    assert many.enough
    assert many.levels == tuple(tuple(range(size)) for size in SHAPE)
    fallen = same.copy()
    fallen[:, 2] -= 0.5  # half of the spread of single rewards
    noticed = [drift(play("gaussian", seed, same, fallen, greedy=False, rounds=6000), "gaussian") for seed in range(5)]
    assert sum([(move.mode, move.level) for move in found.moves] == [(1, 2)] for found in noticed) >= 4


def test_a_level_that_has_nearly_all_rewards_is_named_rather_than_everything():
    rng, history = np.random.default_rng(0), History(SHAPE)
    for t in range(4000):
        level = 1 if rng.random() < 0.95 else int(rng.integers(5))
        cell = (int(rng.integers(4)), level, int(rng.integers(3)))
        history.record(cell, float(rng.standard_normal() - (level == 1) * (t > 2500)))
    assert [(move.mode, move.level) for move in drift(history, "gaussian").moves] == [(1, 1)]


def test_what_can_be_done_about_a_level_that_fell_is_done_and_undone():
    one, rng = bandit("thompson", rank=1, reward="gaussian"), np.random.default_rng(0)
    tell(one, 800, lambda labels: 0.0, rng)
    tell(one, 800, lambda labels: -1.5 * (labels["offer"] == "b"), rng)
    found = one.diagnose()
    assert [(moved.mode, moved.label) for moved in found.moved] == [("offer", "b")]
    retire, forget = found.actions
    assert retire.change == {"retire_level": {"mode": "offer", "label": "b"}}
    assert retire.python == "bandit.retire_level('offer', 'b')"
    length = forget.change["change"]["half_life"]
    assert 300 <= length <= 1200
    for action in found.actions:
        assert action.words in repr(found)
        for step in (action.change, action.undo, action.change):
            ((what, given),) = step.items()
            getattr(one, what)(**given)
    assert one.space.retired == {"offer": ["b"]}
    assert one.diagnose().actions == ()  # all was done


@pytest.mark.parametrize("truth", ["none", "main", "both"])
def test_structure_is_said_once_and_never_against_the_truth(truth):
    rng = np.random.default_rng(3)
    space = tb.Space({"segment": list("abcd"), "offer": list("efghij"), "channel": list("xyz")}, ["segment"])
    rows = [rng.standard_normal(size) for size in space.shape]
    mean = {"none": 0.0, "main": rows[0][:, None] + rows[1], "both": 1.5 * np.multiply.outer(rows[0], rows[1])}[truth]
    mean = np.broadcast_to(mean, (4, 6))
    one = tb.Bandit(space, reward="gaussian", floors=0.3, seed=0)
    allowed = {"none": {"too few", "nothing"}, "main": {"too few", "open", "alone"}, "both": {"too few", "together"}}
    for end in (20, 100, 1500):
        while one.policy.ledger.rounds < end:
            decision = one.ask(segment="abcd"[rng.integers(4)])
            cell = space.cell({**decision.context, **decision.arm})
            one.tell(decision, float(mean[cell[:2]] + rng.standard_normal()))
        found = one.diagnose()
        assert found.matters.verdict in allowed[truth]
        assert found.structure.words == found.matters.words
        assert (found.matters.together is None) == (not found.matters.known)
    assert found.matters.verdict != "too few"


def test_amended_rewards_are_compared_as_they_are_now():
    one = bandit("ucb", remember=10_000)
    rng, ids = np.random.default_rng(0), []
    for at in range(800):
        decision = one.ask(segment=["new", "old"][at % 2])
        ids.append(decision.id)
        one.tell(decision.id, float(rng.standard_normal() + 3.0 * (at >= 400)))
    assert one.diagnose(max_rank=1).moved
    for number in ids:
        one.tell(number, float(rng.standard_normal()), amend=True)
    assert not one.diagnose(max_rank=1).moved


def in_flight(seed, visits=1500, shown=None, clicked_on=None):
    """A bandit in a world that stays as it is, whose clicks come soon, and zeros only when their window ends."""
    space = tb.Space({"segment": list("abc"), "offer": list("ABCDEF"), "channel": list("wxyz")}, ["segment"])
    people = tb.Audience(space, rate=0.15, effects=0.7, delay=2.0, pace=0.04, seed=seed)
    bandit = tb.Bandit(space, reward="bernoulli", rank=1, window="20 s", default=0, seed=seed, clock=lambda: people.now)
    for _ in range(visits):
        decision = bandit.ask(people.visit())
        people.show(decision)
        if shown is not None:
            shown.append((people.now, decision.id))
        for clicked in people.clicks():
            bandit.tell(clicked, 1)
            if clicked_on is not None:
                clicked_on.add(getattr(clicked, "id", clicked))
    return bandit


def test_clicks_that_are_known_before_zeros_are_no_change():
    shown, clicked_on = [], set()
    bandit = in_flight(0, shown=shown, clicked_on=clicked_on)
    known = sum(time <= shown[-1][0] - 20.0 for time, _ in shown)  # as their window has ended ..
    while shown[known][1] in clicked_on:  # .. or they clicked, before the first of which nothing is known
        known += 1
    found = bandit.diagnose(max_rank=1)
    assert found.moved == ()
    assert found.evidence < 20
    assert found.rewards <= known < bandit.policy.ledger.rounds  # the clicks of the last window wait for its zeros


def test_rewards_that_wait_for_others_are_kept_and_corrected_where_they_wait():
    now = 0.0
    space = tb.Space({"offer": ["a", "b"]})
    bandit = tb.Bandit(space, rank=1, reward="bernoulli", window="10 s", default=0, seed=0, clock=lambda: now)
    first, second = bandit.ask(), bandit.ask()
    bandit.tell(second, 1)
    assert told_in_history(bandit) == (0, 0.0)
    bandit.tell(second, 0, amend=True)
    bandit.tell(second, 1, amend=True)
    bandit = tb.Bandit.from_state_dict(bandit.state_dict(), clock=lambda: now)
    assert (bandit.state_dict()["teller"]["told"], told_in_history(bandit)) == (1, (0, 0.0))
    bandit.tell(first, 0)
    assert told_in_history(bandit) == (2, 1.0)
    bandit.tell(second, 0, amend=True)
    assert told_in_history(bandit) == (2, 0.0)


def told_in_history(bandit):
    """How many rewards the history has, and their sum."""
    history = History.from_state(bandit.state_dict()["teller"]["history"], bandit.space.shape)
    return history.told, sum(float(block.totals.sum()) for block in history.blocks)
