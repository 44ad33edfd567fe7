"""Visitors who come back: who decides is drawn once for each, and intervals know that their decisions go together."""

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.bandit.comparison import NO_WINDOW, POLICY, SideSums, Waits
from tensorbandits.bandit.uplift import uplift
from tensorbandits.bandit.visitors import PARTS, grouped, parted, place_of, spread

SPACE = {"segment": ["new", "old"], "offer": ["a", "b", "c"]}


def made(**settings):
    return tb.Bandit(
        tb.Space(SPACE, context=["segment"]), rank=1, **({"reward": "bernoulli", "seed": 0, "holdout": 0.3} | settings)
    )


def by_visitor(bandit, visitors, rounds=3, **request):
    """Who decided for each visitor, as a list of each visit."""
    found = {}
    for _ in range(rounds):
        for visitor in visitors:
            played = request.get("played")
            decision = bandit.ask({"segment": "new"}, subject=visitor, **({} if played is None else {"played": played}))
            found.setdefault(visitor, []).append(decision.by)
    return found


VISITORS = [f"visitor {number}" for number in range(200)]


def test_a_visitor_stays_on_one_side_and_shares_are_as_set():
    found = by_visitor(made(), VISITORS)
    assert all(len(set(sides)) == 1 for sides in found.values())
    assert 0.2 < np.mean([sides[0] == "holdout" for sides in found.values()]) < 0.4


def test_many_at_once_are_on_the_sides_that_each_has_alone():
    bandit = made()
    alone = by_visitor(bandit, VISITORS[:60], 1)
    contexts, people = [{"segment": "new"}] * 60, [*VISITORS[:59], None]
    many = bandit.ask_many(contexts, subjects=people)
    assert [[one.by] for one in many[:59]] == [alone[who] for who in VISITORS[:59]]
    assert bandit.forget(subject=VISITORS[0], why="they asked us to")["decisions"] == 2
    with pytest.raises(ValueError, match="subjects has 1 entries for 2 contexts"):
        bandit.ask_many(contexts[:2], subjects=["ann"])
    with pytest.raises(TypeError, match=r"row 1.*the subject is 7"):
        bandit.ask_many(contexts[:2], subjects=["ann", 7])


def test_without_a_subject_each_decision_is_drawn():
    bandit = made()
    assert len({bandit.ask(segment="new").by for _ in range(60)}) == 2


def test_who_was_with_the_bandit_stays_there_when_its_share_is_raised():
    bandit = made(apprentice=True, holdout=0.0, rollout=0.2)
    arm = {"offer": "a"}
    before = by_visitor(bandit, VISITORS, 1, played=arm)
    bandit.change(rollout=0.5)
    after = by_visitor(bandit, VISITORS, 1, played=arm)
    own = {who for who in VISITORS if before[who] == ["policy"]}
    assert 20 <= len(own) <= 60
    assert own < {who for who in VISITORS if after[who] == ["policy"]}


def test_another_bandit_draws_otherwise_and_a_copy_alike(tmp_path):
    bandit, other = made(), made(seed=1)
    bandit.save(tmp_path / "bandit")
    sides = [by_visitor(one, VISITORS, 1) for one in (bandit, other, tb.Bandit.load(tmp_path / "bandit"))]
    assert sides[0] == sides[2] != sides[1]


def test_what_is_kept_is_kept_in_a_file_too(tmp_path):
    bandit = made(window="1 h", default=0)
    for visitor in VISITORS[:40] * 3:
        bandit.tell(bandit.ask(segment="new", subject=visitor), 1)
    bandit.save(tmp_path / "bandit")
    again = tb.Bandit.load(tmp_path / "bandit")
    assert again.uplift().to_dict() == bandit.uplift().to_dict()
    assert again.state_dict()["comparison"]["parts"].sum() == bandit.state_dict()["comparison"]["parts"].sum() > 0


def test_a_state_with_parts_that_cannot_be_is_refused():
    bandit = made()
    bandit.ask(segment="new", subject="ann")
    state = bandit.state_dict()
    state["comparison"]["groups"] = np.array([grouped(0, PARTS)])
    with pytest.raises(ValueError, match="a decision is of group"):
        tb.Bandit.from_state_dict(state)
    state = bandit.state_dict()
    state["comparison"] |= {"visited": np.array([3]), "parts": np.zeros((1, 3, PARTS, 4))}
    with pytest.raises(ValueError, match="visitors are counted in the strata"):
        tb.Bandit.from_state_dict(state)


def test_parts_are_what_a_plain_sum_says():
    """Whatever comes late, changes or is cancelled."""
    rng, sums, plain = np.random.default_rng(0), SideSums(), np.zeros((PARTS, 4))
    kept = []
    for order in range(1, 201):
        part, side = int(rng.integers(PARTS)), int(rng.integers(2))
        group = sums.group((0.5, 0.5), side, part)
        assert parted(group) == (side, part)
        sums.enter(order, group, Waits(0.0, NO_WINDOW), 50)
        kept.append([order, group, part, side, None])
        one = kept[int(rng.integers(len(kept)))]
        new = float(rng.integers(3))
        sums.reward(one[0], one[1], one[4], new)
        one[4] = new
    sums.cancel(kept[0][0], kept[0][1])
    sums.settle(1e12, 1e12)
    while sums.pending:
        left = next(one for one in kept if one[4] is None)
        sums.reward(left[0], left[1], None, 1.0)
        left[4] = 1.0
    for _, _, part, side, reward in kept:
        if side == POLICY and reward is not None:
            plain[part] += 1.0, 1.0, reward, reward**2
    cancelled = kept[0]
    if cancelled[3] == POLICY:
        plain[cancelled[2], 0] -= 1.0
    np.testing.assert_allclose(sums.compared().parts[0, POLICY], plain)


def told(visits, rewards, own, parts):
    """What is compared of visitors with a side, a part, and some visits of the same reward each."""
    sums = SideSums()
    order = 0
    for count, reward, mine, part in zip(visits, rewards, own, parts):
        for _ in range(count):
            order += 1
            group = sums.group((0.5, 0.5), int(not mine), part)
            sums.enter(order, group, Waits(0.0, NO_WINDOW), 10)
            sums.reward(order, group, None, float(reward))
    return sums.compared()


def test_a_visitor_of_many_visits_counts_as_one():
    """Ten visits that earn the same say as much as one of them: intervals are as wide as of one visit each."""
    rng = np.random.default_rng(1)
    people = 2_000
    rewards, own = rng.random(people) < 0.3, rng.random(people) < 0.5
    parts = rng.integers(PARTS, size=people)
    found = [uplift(told([n] * people, rewards, own, parts), "bernoulli") for n in (1, 10)]
    widths = [one.high - one.low for one in found]
    assert widths[1] == pytest.approx(widths[0], rel=0.15)
    assert [round(one.policy.rewards / people / n, 1) for one, n in zip(found, (1, 10))] == [0.5, 0.5]
    blind = uplift(told([10] * people, rewards, own, [None] * people), "bernoulli")
    assert blind.high - blind.low < 0.5 * widths[0]
    assert found[1].ratio.fits


def test_shares_that_are_wrong_are_found_beside_visitors_who_come_back():
    rng = np.random.default_rng(2)
    own = rng.random(3_000) < 0.6  # where 0.5 was set
    parts = rng.integers(PARTS, size=3_000)
    assert uplift(told([5] * 3_000, np.zeros(3_000), own, parts), "bernoulli").verdict == "suspect"


def test_one_visitor_alone_says_nothing():
    assert uplift(told([500, 500], [1, 0], [True, False], [3, 4]), "bernoulli").verdict in ("too few", "open")
    few = told([500] * 6, [1, 1, 1, 0, 0, 0], [True] * 3 + [False] * 3, [3, 14, 15, 9, 26, 5])
    assert uplift(few, "bernoulli").verdict in ("too few", "open")
    one = told([400, 400], [1, 0], [True, True], [3, 3])
    assert spread(one.parts[:, 0], np.ones(1), 0.5, 200.0) == np.inf


def test_before_the_first_click_rewards_count_by_visitors():
    parts = np.random.default_rng(3).integers(PARTS, size=1_000)
    nothing, all_own = [0] * 1_000, [True] * 1_000
    compared = [told([n] * 1_000, nothing, all_own, parts) for n in (1, 8)]
    found = [spread(one.side(POLICY), np.ones(1), 0.0, 0.0) for one in compared]
    assert found[0] == pytest.approx(1.0, abs=0.4)
    assert found[1] == pytest.approx(8.0, rel=0.35)


def test_places_are_spread_evenly():
    places = [place_of(str(number), "salt") for number in range(20_000)]
    for column in (0, 1):
        counts = np.histogram([place[column] for place in places], bins=10, range=(0, 1))[0]
        assert abs(counts / 2_000 - 1).max() < 0.1
    assert np.bincount([place.part for place in places], minlength=PARTS).min() > 80
    assert abs(np.corrcoef([place[:2] for place in places], rowvar=False)[0, 1]) < 0.03
