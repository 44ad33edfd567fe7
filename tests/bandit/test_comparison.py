"""Who decided and what it earned: sums held to a plain recount of a list of decisions, whatever happens in between."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorbandits as tb
from tensorbandits.bandit.comparison import SIDES
from tensorbandits.bandit.core import restored_core

SPACE = {"offer": ["a", "b", "c"], "channel": ["mail", "sms"]}
RULE = {"offer": "a", "channel": "mail"}
CHANGES = [
    {"holdout": 0.5},
    {"holdout": 0.2},
    {"holdout": 0.0},
    {"apprentice": True, "rollout": 0.5},
    {"apprentice": True, "rollout": 0.2, "holdout": 0.3},
    {"apprentice": True, "rollout": 0.0},
    {"apprentice": True, "rollout": 1.0},
    {"apprentice": False},
    {"window": "20 s", "default": 0.0},
    {"window": "5 s", "default": None},
    {"window": 4, "default": 0.0},
    {"window": None, "default": None},
]


class Recount:
    """A bandit beside a list of all its decisions: chances, side, reward, when made, and when it is settled."""

    def __init__(self, seed):
        self.now, self.rng = 0.0, np.random.default_rng(seed)
        self.bandit = tb.Bandit(tb.Space(SPACE), reward="gaussian", seed=seed, clock=lambda: self.now)
        self.settings = {"holdout": 0.0, "apprentice": False, "rollout": 0.0, "window": None, "default": None}
        self.rows = []  # in the order in which decisions were shown
        self.hidden = []

    def chances(self):
        own = (self.settings["rollout"] or 0.0) if self.settings["apprentice"] else 1.0
        held = self.settings["holdout"] or 0.0
        return own * (1.0 - held), own * held

    def ask(self, *, activate):
        self.expire()
        more = {"played": RULE} if self.settings["apprentice"] else {}
        decision = self.bandit.ask(activate=activate, **more)
        row = {"id": decision.id, "chances": self.chances(), "side": {"floor": "policy"}.get(decision.by, decision.by)}
        row |= {"made": self.now, "reward": None, "cancelled": False, "ended": False}
        self.show(row) if activate else self.hidden.append(row)

    def show(self, row):
        window = self.settings["window"]
        row["rounds"] = isinstance(window, int)
        row["shown"] = self.now
        self.rows.append(row)
        length = math.inf if window is None else window if row["rounds"] else float(window.split()[0])
        row["due"] = (len(self.rows) if row["rounds"] else self.now) + length
        row["default"] = None
        self.expire()

    def expire(self):
        """End windows as they end, with the default that the bandit has then."""
        for row in self.rows:
            over = row["due"] < (len(self.rows) if row["rounds"] else self.now)
            if over and row["reward"] is None and not row["cancelled"] and not row["ended"]:
                row["ended"], row["reward"], row["default"] = True, self.settings["default"], self.settings["default"]

    def change(self, given):
        self.expire()
        merged = {**self.settings, **given}
        if merged["default"] is not None and merged["window"] is None:
            return
        self.bandit.change(**given)
        self.settings = merged
        if not merged["apprentice"]:
            self.settings["rollout"] = 0.0

    def step(self, what, which, value):
        self.now += 1.0 + which % 3
        if what == "ask":
            self.ask(activate=True)
        elif what == "later":
            self.ask(activate=False)
        elif what == "change":
            self.change(CHANGES[which % len(CHANGES)])
        elif what == "activate" and self.hidden:
            row = self.hidden.pop(which % len(self.hidden))
            self.expire()
            self.bandit.activate(row["id"])
            self.show(row)
        elif what in ("tell", "cancel") and self.rows:
            self.expire()
            row = self.rows[which % len(self.rows)]
            if what == "tell" and not row["cancelled"]:
                self.bandit.tell(row["id"], value, amend=True)
                row["reward"], row["ended"] = value, row["ended"]
            elif what == "cancel" and row["reward"] is None and not row["cancelled"]:
                self.bandit.cancel(row["id"])
                row["cancelled"] = True
        elif what == "save":
            self.bandit = tb.Bandit.from_state_dict(self.bandit.state_dict(), clock=lambda: self.now)

    def settled(self, compared):
        """The number of decisions, from the first on, that the bandit has settled: given, as it depends on lags."""
        return int(compared.sums[..., 0].sum())

    def check(self):
        self.expire()
        self.bandit.expire()
        compared = restored_core(self.bandit.state_dict(), self.now, 16, {}).compared(self.now)
        kept = [row for row in self.rows if not row["cancelled"]]
        count = self.settled(compared)
        assert compared.waiting.sum() == len(kept) - count
        expected = {}
        for row in kept[:count]:
            sums = expected.setdefault((row["chances"], row["side"]), np.zeros(5))
            value = row["reward"]
            sums += [1.0, 0.0, 0.0, 0.0, 0.0] if value is None else [1.0, 1.0, float(value != 0), value, value**2]
        for chances, strata in zip(compared.chances, compared.sums, strict=True):
            for side, sums in zip(SIDES, strata, strict=True):
                known = [
                    one for (pair, name), one in expected.items() if name == side and pair == (chances[0], chances[1])
                ]
                np.testing.assert_allclose(sums, known[0] if known else np.zeros(5), atol=1e-9)
        # Nobody waits whose window has ended, and nobody is settled before another that may still get a reward.
        for at, row in enumerate(kept):
            over = row["due"] < (len(self.rows) if row["rounds"] else self.now)
            if at < count and math.isfinite(row["due"]):
                assert row["reward"] is not None or row["ended"]
            if at == count:
                assert not over or not (row["reward"] is not None or row["ended"])
        line = self.bandit.timeline().totals.sum(axis=0)
        assert line[:, 0].sum() == len(kept)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask"] * 6 + ["later", "activate", "tell", "tell", "tell", "cancel", "change", "save"]),
        st.integers(0, 10**6),
        st.sampled_from([0.0, 0.0, 1.0, 2.5, -1.0]),
    ),
    max_size=60,
)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 100))
def test_sums_are_those_of_a_recount(steps, seed):
    one = Recount(seed)
    for what, which, value in steps:
        one.step(what, which, value)
    one.check()


def test_clicks_that_come_at_once_do_not_count_before_those_who_may_still_click():
    now = [0.0]
    space = tb.Space(SPACE)
    bandit = tb.Bandit(space, reward="bernoulli", holdout=0.5, window="1 h", default=0, seed=0, clock=lambda: now[0])
    rng = np.random.default_rng(0)
    for _ in range(2000):
        now[0] += 10.0
        decision = bandit.ask()
        if rng.random() < 0.3:
            bandit.tell(decision, 1)
    found = bandit.uplift()
    assert found.policy.mean == pytest.approx(0.3, abs=0.06)
    assert found.other.mean == pytest.approx(0.3, abs=0.06)
    assert 340 < found.to_come < 380  # those of the last hour
    assert found.verdict == "open"
    now[0] += 3601.0
    later = bandit.uplift()
    assert (later.to_come, later.policy.decisions + later.other.decisions) == (0, 2000)


def test_without_a_window_one_decision_that_gets_no_reward_holds_up_nobody_for_long():
    now = [0.0]
    bandit = tb.Bandit(tb.Space(SPACE), reward="bernoulli", holdout=0.5, seed=0, clock=lambda: now[0])
    for at in range(300):
        now[0] += 10.0
        decision = bandit.ask()
        if at != 100:
            bandit.tell(decision, at % 2)
    found = bandit.uplift()
    assert (found.to_come, found.unrewarded) == (0, 1)
    assert "1 decisions got no reward" in found.words


def test_what_the_rule_earned_before_is_never_compared_with_what_the_bandit_earns_after():
    bandit = tb.Bandit(tb.Space(SPACE), reward="gaussian", apprentice=True, seed=0)
    for _ in range(200):
        bandit.tell(bandit.ask(played=RULE), 0.0)
    assert bandit.uplift().verdict == "none"
    bandit.change(apprentice=False)
    for _ in range(200):
        bandit.tell(bandit.ask(), 10.0)
    found = bandit.uplift()
    assert (found.verdict, found.over) == ("none", None)
    assert math.isnan(found.mean)
    bandit.change(apprentice=True, rollout=0.5)
    rng = np.random.default_rng(0)
    for _ in range(400):  # from now on both are drawn, and earn the same
        bandit.tell(bandit.ask(played=RULE), 5.0 + rng.standard_normal())
    found = bandit.uplift()
    assert (found.over, found.verdict) == ("caller", "open")
    assert abs(found.mean) < 1.0
    assert found.policy.decisions + found.other.decisions == 400


def test_changing_shares_does_not_bias_what_is_compared():
    """Later rewards are higher on both sides: sides whose shares change are weighed alike."""
    rng = np.random.default_rng(1)
    bandit = tb.Bandit(tb.Space(SPACE), reward="gaussian", apprentice=True, rollout=0.05, seed=0)
    for share, level in ((0.05, 0.0), (0.2, 5.0), (0.5, 10.0), (0.9, 20.0)):
        bandit.change(rollout=share)
        for _ in range(1500):
            decision = bandit.ask(played=RULE)
            bandit.tell(decision, level + (decision.by != "caller") + 0.1 * rng.standard_normal())
    found = bandit.uplift()
    assert found.low < 1.0 < found.high
    plain = found.policy.mean - 8.75  # the rule's mean where all decisions count alike
    assert plain > 3.0
    assert found.mean == pytest.approx(1.0, abs=1.0)


def test_shares_that_are_not_what_was_set_are_said_before_anything_else():
    bandit = tb.Bandit(tb.Space(SPACE), reward="bernoulli", holdout=0.5, seed=0)
    rng = np.random.default_rng(0)
    for at in range(600):
        decision = bandit.ask()
        if decision.by == "holdout" and at % 3:
            bandit.cancel(decision)  # as a page does that does not show the holdout's arms
        else:
            bandit.tell(decision, int(rng.random() < 0.3))
    found = bandit.uplift()
    assert (found.verdict, found.ratio.fits) == ("suspect", False)
    assert found.ratio.expected == 0.5
    assert found.ratio.seen < 0.35
    assert found.words.startswith("The holdout has")


def test_rewards_that_are_missing_on_one_side_make_it_suspect():
    bandit = tb.Bandit(tb.Space(SPACE), reward="bernoulli", holdout=0.5, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(800):
        decision = bandit.ask()
        if decision.by != "holdout" or rng.random() < 0.5:
            bandit.tell(decision, int(rng.random() < 0.3))
    found = bandit.uplift()
    assert (found.verdict, found.ratio.fits) == ("suspect", True)
    assert "missing more often on one side" in found.words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"over": "policy"}, "over is 'policy'; give 'holdout'"),
        ({"intervals": "often"}, "intervals is 'often'; give 'anytime'"),
        ({"level": 1.5}, "level is 1.5"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        tb.Bandit(tb.Space(SPACE), seed=0).uplift(**arguments)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rollout": 0.5}, "no apprentice"),
        ({"apprentice": True, "rollout": 1.5}, "rollout is 1.5; it is the share"),
        ({"apprentice": True, "rollout": True}, "rollout is True"),
        ({"rank": 3}, "'rank' cannot be changed"),
    ],
)
def test_settings_that_cannot_be_change_nothing(given, words):
    bandit = tb.Bandit(tb.Space(SPACE), reward="bernoulli", holdout=0.2, floors=[({"offer": "b"}, 0.1)], seed=0)
    with pytest.raises(ValueError, match=words):
        bandit.change(**given)
    assert bandit.ask().by in ("policy", "floor", "holdout")
    bandit.change(window="10 min", default=0)  # and what was set before stays
    drawn = [bandit.ask() for _ in range(300)]
    assert {one.by for one in drawn} == {"policy", "floor", "holdout"}
    assert all(one.arm["offer"] == "b" for one in drawn if one.by == "floor")


def test_who_becomes_an_apprentice_again_starts_from_nothing():
    bandit = tb.Bandit(tb.Space(SPACE), reward="bernoulli", apprentice=True, rollout=1.0, seed=0)
    assert bandit.ask(played=RULE).by == "policy"
    bandit.change(apprentice=False)
    bandit.change(apprentice=True)
    decision = bandit.ask(played=RULE, propensity=0.5)
    assert (decision.by, decision.arm, decision.propensity) == ("caller", RULE, 0.5)
    assert set(decision.would) == set(SPACE)
    with pytest.raises(ValueError, match="say which arm your own rule plays"):
        bandit.ask()
    again = restored_core(bandit.state_dict(), 0.0, 16, {})
    assert again.state.shares.rollout == 0.0
    assert len(again.state.apprentice.wanted) == 1


def test_pseudo_rewards_of_levels_that_start_like_others_are_told_apart():
    bandit = tb.Bandit(tb.Space(SPACE), reward="gaussian", rank=1, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(100):
        bandit.tell(bandit.ask(), float(rng.standard_normal()))
    bandit.add_level("offer", "d", like="a", rewards=10)
    assert bandit.policy.pseudo.rounds == pytest.approx(min(10, bandit.policy.ledger.rounds - 100))
    assert bandit.policy.pseudo.rounds > 1
    assert bandit.policy.earned_counts().sum() == pytest.approx(100)
    found = bandit.explain()
    assert (found.rewards, found.pseudo) == (pytest.approx(100), pytest.approx(bandit.policy.pseudo.rounds))
    rows = found.effects
    assert rows[(rows["mode"] == "offer") & (rows["level"] == "d")]["rewards"].item() == pytest.approx(0.0)
    again = tb.Bandit.from_state_dict(bandit.state_dict())
    assert again.policy.pseudo.rounds == bandit.policy.pseudo.rounds
    assert "pseudo-rewards" in repr(again.explain())
