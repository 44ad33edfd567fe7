"""Levels that start like another one: with how many of its rewards, how they are outweighed, and who refuses."""

import numpy as np
import pytest

import tensorbandits as tb


def bandit(policy="ucb", **settings):
    space = tb.Space(
        {"segment": ["new", "old"], "offer": ["spring", "winter"], "channel": ["mail", "sms"]}, ["segment"]
    )
    return tb.Bandit(space, policy, **{"seed": 0} | settings)


def tell(one, offer, reward, count=1, channel="mail", segment="new"):
    for _ in range(count):
        one.tell(arm={"offer": offer, "channel": channel}, context={"segment": segment}, reward=reward)


def test_a_level_starts_with_so_many_of_the_others_rewards_spread_as_those_are():
    one = bandit()
    tell(one, "spring", 4.0, 60)
    tell(one, "spring", 1.0, 40, channel="sms")
    tell(one, "winter", 9.0, 50)
    one.add_level("offer", "summer", like="spring", rewards=10)
    ledger = one.policy.ledger
    assert ledger[0, 2, 0][1:] == pytest.approx((6.0, 24.0, 96.0))
    assert ledger[0, 2, 1][1:] == pytest.approx((4.0, 4.0, 4.0))
    assert ledger.rounds == pytest.approx(160.0)
    assert ledger[0, 0, 0][1:] == (60.0, 240.0, 960.0)
    np.testing.assert_allclose(one.policy.estimate([(0, 2, 0), (0, 2, 1)]), [4.0, 1.0])
    assert sum(one.state_dict()["teller"]["history"]["lengths"]) == 150  # what was not told has not moved either


def test_a_level_is_no_surer_than_the_other_and_nothing_to_start_from_is_the_prior():
    one = bandit()
    tell(one, "spring", 4.0, 3)
    one.add_level("offer", "summer", like="spring", rewards=10)
    assert one.policy.ledger[0, 2, 0].rounds == pytest.approx(3.0)
    one.add_level("offer", "autumn", like="winter", rewards=10)
    assert not [entry for entry in one.policy.ledger if entry.cell[1] == 3]


@pytest.mark.parametrize("rate", [0.5, 0.02])
def test_by_default_clicks_say_as_much_as_thirty_normal_rewards(rate):
    one = bandit("thompson", rank=1, reward="bernoulli")
    for _ in range(100):
        for _ in range(int(1 / rate) - 1):
            tell(one, "spring", 0)
        tell(one, "spring", 1)
    one.add_level("offer", "summer", like="spring")
    started = one.policy.ledger[0, 2, 0]
    assert started.rounds == pytest.approx(30.0 if rate == 0.5 else 3.0 / rate, rel=0.1)
    assert started.total == pytest.approx(rate * started.rounds)


def test_what_a_level_started_with_fades_and_is_outweighed():
    one = bandit(half_life=20)
    tell(one, "spring", 4.0, 400)
    one.add_level("offer", "summer", like="spring", rewards=10)
    tell(one, "summer", 0.0, 20)
    left, own = 10 / 2, sum(2.0 ** -(age / 20) for age in range(20))
    assert one.policy.ledger[0, 2, 0].total == pytest.approx(4.0 * left, rel=0.011)
    assert one.policy.ledger[0, 2, 0].rounds == pytest.approx(left + own, rel=0.011)


@pytest.mark.parametrize("policy", ["thompson", "ensemble", "ucb"])
def test_a_level_like_the_best_is_believed_good_and_chosen_at_once(policy):
    one = bandit(policy, **({} if policy == "ucb" else {"rank": 1}))
    rng = np.random.default_rng(0)
    for _ in range(400):
        decision = one.ask(segment="new")
        one.tell(decision, 3.0 * (decision.arm["offer"] == "spring") + 0.1 * rng.standard_normal())
    one.add_level("offer", "summer", like="spring")
    one.retire_level("offer", "spring")
    assert one.best(segment="new")["offer"] == "summer"
    chosen = [one.ask(segment="new").arm["offer"] for _ in range(40)]
    assert chosen.count("summer") > 25


@pytest.mark.parametrize(
    ("policy", "arguments", "words"),
    [
        ("ucb", {"like": "sping"}, "did you mean 'spring'"),
        ("ucb", {"like": "summer"}, "summer"),
        ("ucb", {"like": "spring", "rewards": 0}, "rewards is 0"),
        ("ucb", {"like": "spring", "rewards": float("nan")}, "rewards is nan"),
        ("ucb", {"like": "spring", "rewards": True}, "rewards is True"),
        ("ucb", {"rewards": 5}, "nothing says whose rewards"),
        ("epoch-greedy", {"like": "spring"}, "learns only from cells that it chose itself"),
    ],
)
def test_what_cannot_be_started_from_is_refused_and_nothing_changes(policy, arguments, words):
    one = bandit(policy, **({} if policy == "ucb" else {"rank": 1}))
    tell(one, "spring", 1.0, 3)
    with pytest.raises(ValueError, match=words):
        one.add_level("offer", "summer", **arguments)
    assert one.space.shape == one.policy.shape == (2, 2, 2)
    assert one.policy.ledger.rounds == 3.0


def test_levels_may_start_alike_while_others_ask_and_tell(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    one = bandit("thompson", rank=1, reward="bernoulli", half_life=50)

    def work(seed):
        rng = np.random.default_rng(seed)
        for at in range(40):
            decision = one.ask(segment=["new", "old"][int(rng.integers(2))])
            one.tell(decision, int(rng.random() < 0.5))
            if at % 20 == 10:
                one.add_level("offer", f"{seed}-{at}", like="spring")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert one.space.shape == one.policy.shape == (2, 10, 2)
    assert sum(one.state_dict()["teller"]["history"]["lengths"]) == 160
    one.save(tmp_path / "one")
    assert tb.Bandit.load(tmp_path / "one").policy.ledger == one.policy.ledger


def test_a_checkup_counts_no_reward_that_nobody_earned():
    one, rng = bandit("ucb"), np.random.default_rng(0)
    for at in range(120):
        tell(one, "spring" if at % 2 else "winter", float(rng.standard_normal()))
    before = one.diagnose(max_rank=1)
    one.add_level("offer", "summer", like="spring", rewards=30)
    assert one.policy.pseudo.rounds == 30.0
    assert one.diagnose(max_rank=1).structure.rewards == before.structure.rewards == 90
