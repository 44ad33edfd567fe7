"""A bandit of revenue from end to end: purchases, baskets, windows, amendments, new levels, logs, and its file."""

import numpy as np
import pyarrow as pa
import pytest

import tensorbandits as tb

SEGMENTS, OFFERS, PRICES = ["new", "old"], ["a", "b", "c"], [5, 9]
RATES = np.array([[[0.3, 0.1], [0.2, 0.1], [0.1, 0.2]], [[0.1, 0.3], [0.3, 0.1], [0.2, 0.1]]])
MEDIANS = np.array([4.0, 20.0, 9.0])


def shop(**settings):
    space = tb.Space({"segment": SEGMENTS, "offer": OFFERS, "price": PRICES}, ["segment"])
    return tb.Bandit(space, **{"reward": "revenue", "rank": 1, "seed": 0} | settings)


def purchase(bandit, decision, rng):
    cell = bandit.space.cell({**decision.context, **decision.arm})
    if cell[1] >= len(OFFERS) or rng.random() >= RATES[cell]:
        return 0.0
    return float(MEDIANS[cell[1]] * np.exp(0.5 * rng.standard_normal()))


def sell(bandit, visits, rng):
    for visit in range(visits):
        decision = bandit.ask(segment=SEGMENTS[visit % 2])
        bandit.tell(decision, purchase(bandit, decision, rng))


def test_it_learns_what_pays_and_its_file_goes_on(tmp_path):
    bandit, rng = shop(), np.random.default_rng(0)
    sell(bandit, 900, rng)
    ledger = bandit.policy.ledger
    assert isinstance(ledger, tb.RevenueLedger)
    assert ledger.rounds == 900
    assert 0 < ledger.amounts.rounds < 500
    bandit.save(tmp_path / "shop")
    again = tb.Bandit.load(tmp_path / "shop", fresh=False)
    assert again.policy.ledger == ledger
    assert (
        bandit.best(segment="new")["offer"] == again.best(segment="new")["offer"] == "b"
    )  # though others sell more often
    third = tb.Bandit.load(tmp_path / "shop", fresh=False)
    assert [again.ask(segment="new").arm for _ in range(20)] == [third.ask(segment="new").arm for _ in range(20)]


def test_baskets_windows_and_amendments_reach_both_ledgers():
    now = [0.0]
    bandit = shop(window="10 min", default=0, adds=True, clock=lambda: now[0])
    only = {"offer": ["a"], "price": [5]}
    basket, _, wrong, returned = (bandit.ask(segment="new", allowed=only) for _ in range(4))
    bandit.tell(basket, 10.0, add=True)
    bandit.tell(basket, 5.0, add=True)
    bandit.tell(wrong, 0.0)
    bandit.tell(wrong, 7.0, amend=True)
    bandit.tell(returned, 30.0)
    bandit.tell(returned, 0.0, amend=True)
    now[0] = 700.0
    bandit.expire()
    cell, ledger = (0, 0, 0), bandit.policy.ledger
    assert ledger[cell][1:3] == pytest.approx((4.0, 22.0))
    assert ledger.conversions[cell][1:3] == pytest.approx((4.0, 2.0))
    assert ledger.amounts[cell][1:] == pytest.approx((2.0, np.log(15 * 7), np.log(15) ** 2 + np.log(7) ** 2))


def test_a_new_level_starts_like_another_in_rates_and_amounts():
    bandit, rng = shop(), np.random.default_rng(1)
    sell(bandit, 400, rng)
    bandit.add_level("offer", "d", like="b")
    ledger = bandit.policy.ledger
    parts = []
    for part in (ledger, ledger.conversions, ledger.amounts):
        like, new = ([e for e in part if e.cell[1] == at] for at in (1, 3))
        assert {e.cell[::2] for e in like} == {e.cell[::2] for e in new}
        parts.append(sum(e.rounds for e in new) / sum(e.rounds for e in like))
    assert parts == pytest.approx([parts[0]] * 3)
    means = []
    for at in (1, 3):
        some = [e for e in ledger.amounts if e.cell[1] == at]
        means.append(sum(e.total for e in some) / sum(e.rounds for e in some))
    assert means[0] == pytest.approx(means[1])
    sell(bandit, 50, rng)


def test_logs_and_other_bandits_are_learned_in_full():
    rng = np.random.default_rng(2)
    n = 500
    segment, offer, price = rng.integers(2, size=n), rng.integers(3, size=n), rng.integers(2, size=n)
    paid = np.where(rng.random(n) < 0.3, MEDIANS[offer] * rng.lognormal(0.0, 0.5, n), 0.0)
    columns = {
        "segment": [SEGMENTS[i] for i in segment],
        "offer": [OFFERS[i] for i in offer],
        "price": [PRICES[i] for i in price],
        "paid": paid,
    }
    bandit = shop()
    assert bandit.tell_log(pa.table(columns), "paid").rewards == n
    right = tb.RevenueLedger((2, 3, 2))
    right.add(np.column_stack([segment, offer, price]), paid)
    assert bandit.policy.ledger == right
    other = shop()
    assert other.tell_bandit(bandit, weight=0.5).rewards == pytest.approx(n / 2)
    assert other.policy.ledger.amounts.rounds == pytest.approx(right.amounts.rounds / 2)
    with pytest.raises(ValueError, match="successes out of trials say nothing of amounts"):
        bandit.tell_log(pa.table(columns | {"shown": [5] * n}), "paid", trials="shown")
    with pytest.raises(ValueError, match=r"column 'paid' is -1\.0 in row 0.*revenue is 0 or an amount above 0"):
        bandit.tell_log(pa.table(columns | {"paid": [-1.0, *paid[1:]]}), "paid")
    assert bandit.policy.ledger == right
    clicks = tb.Bandit(bandit.space, reward="gaussian", rank=1, seed=0)
    with pytest.raises(ValueError, match="several that differ say too little"):
        shop().tell_bandit(_told(clicks, columns))


def _told(bandit, columns):
    bandit.tell_log(pa.table(columns), "paid")
    return bandit


def test_what_is_believed_has_parts_and_drift_looks_at_conversions():
    bandit, rng = shop(), np.random.default_rng(3)
    sell(bandit, 600, rng)
    found = bandit.explain()
    assert "log-odds of a conversion" in found.scale
    assert found.rate.scale == "log-odds"
    assert found.amount.scale == "logarithm of the amount"
    assert set(found.rate.effects["mode"]) == {"segment", "offer", "price"}
    assert sum(found.amount.effects["rewards"]) == pytest.approx(3 * bandit.policy.ledger.amounts.rounds)
    assert "best arms" in repr(found)
    checked = bandit.diagnose(max_rank=1)
    assert checked.structure.kind == "bernoulli"
    assert checked.rewards == 600


def test_a_rate_that_moves_is_seen_though_amounts_vary_wildly():
    bandit, rng = shop(), np.random.default_rng(4)
    for visit in range(3000):
        rate = (0.3, 0.1, 0.2)[visit % 3] if visit < 1800 or visit % 3 else 0.05
        amount = float(rng.lognormal(3.0, 1.5)) if rng.random() < rate else 0.0
        bandit.tell(arm={"offer": OFFERS[visit % 3], "price": 5}, context={"segment": "new"}, reward=amount)
    found = bandit.diagnose(max_rank=1)
    assert found.moved
    assert 0.2 < found.moved[0].before < 0.4
    assert found.moved[0].after < 0.12
    assert "conversion rates" in found.words


def test_what_cannot_be_revenue_is_refused():
    bandit = shop()
    decision = bandit.ask(segment="new")
    for call, match in (
        (lambda: bandit.tell(decision, -3.0), "the reward is -3"),
        (lambda: shop(default=-1, window="1 h"), "the reward is -1"),
        (lambda: shop(policy="ensemble"), "use TensorThompsonSampling"),
    ):
        with pytest.raises((ValueError, TypeError), match=match):
            call()
    assert bandit.policy.ledger.rounds == 0
    signed = shop(reward="revenue-signed")
    signed.tell(signed.ask(segment="new"), -3.0)
    assert signed.policy.ledger.amounts.totals.tolist() == [-3.0]
