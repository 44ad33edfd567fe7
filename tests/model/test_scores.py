"""The evidence for structures: main effects, steadied cells, dealt rewards, held-out scores, learning curves."""

import numpy as np
import pytest
from scipy import stats

from tensorbandits.ledger import Ledger
from tensorbandits.model.curve import Curve, curve_sizes, divisions, learning_curve
from tensorbandits.model.effects import Family, check_kind, kind_of, main_effects
from tensorbandits.model.enough import Enough
from tensorbandits.model.held_out import Rewards
from tensorbandits.model.scores import CELLS, EFFECTS, OVERALL, Form, Scores, held_out_scores, structures
from tensorbandits.sim.shrinkage import fit_prior
from tensorbandits.study.relevance import between_levels, relevance

SHAPE = (5, 6, 4)


def ledger_of(rewards, cells, shape=SHAPE):
    ledger = Ledger(shape)
    ledger.add(cells, rewards)
    return ledger


def effects(seed=0, shape=SHAPE, size=1.0):
    rng = np.random.default_rng(seed)
    parts = [size * rng.standard_normal(p) for p in shape]
    return parts, sum(b.reshape([-1 if k == j else 1 for k in range(len(shape))]) for j, b in enumerate(parts))


def clicks(eta, rewards, seed=0):
    """Clicks of cells drawn uniformly whose log-odds are ``eta``."""
    rng = np.random.default_rng(seed)
    N = rng.multinomial(rewards, np.full(eta.size, 1 / eta.size))
    Y = rng.binomial(N, (1 / (1 + np.exp(-eta))).ravel())
    cells = np.argwhere(np.ones(eta.shape))[N > 0]
    return Ledger.of(eta.shape, cells, N[N > 0], Y[N > 0], Y[N > 0])


def interactions(shape, size, seed=1):
    rng = np.random.default_rng(seed)
    factors = [rng.standard_normal((p, 2)) for p in shape]
    return size * np.einsum("ar,br,cr->abc", *factors)


# Main effects.


@pytest.mark.parametrize("kind", ["gaussian", "bernoulli", "count"])
def test_main_effects_are_recovered(kind):
    rng = np.random.default_rng(0)
    parts, eta = effects()
    family = Family(kind)
    mean = family.mean(eta - 1.0)
    cells = rng.integers(SHAPE, size=(40_000, 3))
    means = mean[tuple(cells.T)]
    draw = {
        "gaussian": lambda: means + rng.standard_normal(len(means)),
        "bernoulli": lambda: (rng.random(len(means)) < means).astype(float),
        "count": lambda: rng.poisson(means * rng.gamma(2.0, 0.5, len(means))).astype(float),
    }[kind]
    fit = main_effects(ledger_of(draw(), cells), kind)
    for true, found in zip(parts, fit.effects):
        np.testing.assert_allclose(found - found.mean(), true - true.mean(), atol=0.25)
    np.testing.assert_allclose(fit.full()[tuple(cells[:50].T)], fit.at(cells[:50]))


def test_a_mode_that_does_not_matter_gets_no_effects():
    ledger = clicks(effects(size=1.0)[1] * np.array([1, 1, 1, 1])[None, None] - 2.0, 30_000)
    flat = clicks(np.full(SHAPE, -2.0), 30_000)
    assert max(np.abs(b).max() for b in main_effects(flat, "bernoulli").effects) < 0.15
    assert min(np.abs(b).max() for b in main_effects(ledger, "bernoulli").effects) > 0.3


def test_rare_clicks_and_levels_without_any_converge():
    eta = np.full((3, 3), -7.0)
    ledger = clicks(eta, 100_000)
    ledger = Ledger.of((3, 3), ledger.cells, ledger.counts, np.where(ledger.cells[:, 0] == 0, 0, ledger.totals + 1),
                       np.where(ledger.cells[:, 0] == 0, 0, ledger.totals + 1))  # fmt: skip
    full = main_effects(ledger, "bernoulli").full()
    assert np.isfinite(full).all()
    assert (full > 0).all()
    assert full.max() < 0.01


def test_rewards_far_from_zero_lose_no_digits():
    _, mean = effects(size=1e-3)
    rng = np.random.default_rng(1)
    cells = rng.integers(SHAPE, size=(9_000, 3))
    fit = main_effects(ledger_of(1e6 + mean[tuple(cells.T)], cells))
    np.testing.assert_allclose(fit.full() - 1e6, mean, atol=1e-4)


def test_kinds_are_noticed():
    rng = np.random.default_rng(0)
    cells = rng.integers((3, 3), size=(500, 2))
    for rewards, kind in (
        (rng.integers(0, 2, 500), "bernoulli"),
        (rng.poisson(5.0, 500), "count"),
        (rng.poisson(5.0, 500) - 6, "gaussian"),
        (4 + rng.integers(0, 2, 500), "gaussian"),  # whole, but far steadier than counts are
        (rng.standard_normal(500), "gaussian"),
        (rng.integers(0, 2, 500) * 0.5, "gaussian"),
    ):
        assert kind_of(ledger_of(rewards.astype(float), cells, (3, 3))) == kind
    assert kind_of(Ledger((2, 2))) == "gaussian"
    with pytest.raises(ValueError, match="the kind of reward is 'clicks'; allowed are 'gaussian', 'bernoulli'"):
        check_kind("clicks")
    with pytest.raises(ValueError, match="the ledger is empty"):
        main_effects(Ledger((2, 2)))


# Steadied cells.


def test_the_strength_is_that_of_the_beta_law_which_rates_came_from():
    rng = np.random.default_rng(0)
    cells = np.argwhere(np.ones((20, 15, 4)))
    for strength in (20.0, 300.0):
        rates = rng.beta(0.1 * strength, 0.9 * strength, len(cells))
        N = rng.integers(20, 2_000, len(cells))
        Y = rng.binomial(N, rates)
        prior, found_strength = fit_prior(Ledger.of((20, 15, 4), cells, N, Y, Y), "bernoulli")
        assert found_strength == pytest.approx(strength, rel=0.3)
        np.testing.assert_allclose(prior, 0.1, atol=0.04)


def test_cells_that_are_what_main_effects_say_are_drawn_to_them():
    strong = fit_prior(clicks(effects()[1] - 2.0, 50_000), "bernoulli")[1]
    weak = fit_prior(clicks(effects()[1] - 2.0 + interactions(SHAPE, 1.0), 50_000), "bernoulli")[1]
    assert weak < 100 < strong


# Dealing.


def test_rewards_of_a_ledger_have_its_sums():
    rng = np.random.default_rng(0)
    cells = rng.integers(SHAPE, size=(3_000, 3))
    for rewards in (rng.standard_normal(3_000) + 5.0, (rng.random(3_000) < 0.2).astype(float), np.full(3_000, 2.5)):
        ledger = ledger_of(rewards, cells)
        again = Rewards.of(ledger, rng).ledger()
        order = ledger.order
        np.testing.assert_array_equal(again.cells, ledger.cells[order])
        np.testing.assert_array_equal(again.counts, ledger.counts[order])
        np.testing.assert_allclose(again.means, ledger.means[order])
        np.testing.assert_allclose(again.within, ledger.within[order], atol=1e-9)


def test_faded_rewards_count_as_whole_ones():
    ledger = clicks(effects()[1], 5_000)
    ledger.fade(0.37)
    rewards = Rewards.of(ledger, np.random.default_rng(0))
    assert rewards.total == pytest.approx(ledger.rounds, rel=0.05)
    assert rewards.ledger().mean == pytest.approx(ledger.mean, rel=0.1)


def test_parts_are_nested_and_every_reward_is_held_out_once():
    rewards = Rewards.of(clicks(effects()[1], 1_000), np.random.default_rng(0))
    held = np.zeros_like(rewards.counts)
    for parts, held_out in divisions(rewards, [100, 700], np.random.SeedSequence(0)):
        assert [part.total for part in parts] == [100, 700]
        assert (parts[0].counts <= parts[1].counts).all()
        assert (parts[1].counts + held_out.counts <= rewards.counts).all()
        held += held_out.counts
    np.testing.assert_array_equal(held, rewards.counts)


# Scores and curves.


def test_scores_are_log_densities():
    ledger = clicks(effects()[1], 900)
    single = Family("bernoulli").log_scores(ledger, np.full(len(ledger), 0.3)).sum()
    assert single == pytest.approx(ledger.totals.sum() * np.log(0.3) + (900 - ledger.totals.sum()) * np.log(0.7))
    numbers = ledger_of([1.0, 2.0, 4.0], [(0, 0, 0), (0, 0, 0), (1, 1, 1)])
    found = Family("gaussian", variance=2.0).log_scores(numbers, np.array([1.0, 3.0]))
    np.testing.assert_allclose(found, [-0.5 * (2 * np.log(4 * np.pi) + 1 / 2), -0.5 * (np.log(4 * np.pi) + 1 / 2)])


def test_errors_of_leads_are_those_of_repeated_rewards():
    """The standard error of a difference, beside how much it varies when the held-out rewards are drawn again."""
    eta = effects(size=0.5)[1] - 1.0
    rates, leads, errors = 1 / (1 + np.exp(-eta)), [], []
    for seed in range(60):
        ledger = clicks(eta, 4_000, seed)
        at = tuple(ledger.cells.T)
        family = Family("bernoulli")
        by_cell = {"true": rates[at], "flat": np.full(len(ledger), rates.mean())}
        scores = Scores.of(1, {name: family.log_scores(ledger, mean) for name, mean in by_cell.items()}, ledger.counts)
        lead, error = scores.ahead("true", "flat")
        leads.append(lead)
        errors.append(error)
    assert np.mean(errors) == pytest.approx(np.std(leads), rel=0.35)
    assert scores.ahead("true", "true") == (0.0, 0.0)


def test_a_structure_that_is_there_wins_and_one_that_is_not_does_not():
    shape = (6, 8, 5)
    found = {}
    for size in (0.0, 1.0):
        eta = effects(shape=shape, size=0.5)[1] + interactions(shape, size) - 2.0
        rewards = Rewards.of(clicks(eta, 20_000), np.random.default_rng(0))
        curve = learning_curve(rewards, "bernoulli", structures(shape, 2), [4_000], np.random.SeedSequence(0))
        found[size] = curve
    assert not found[0.0].worth_it
    assert "**Main effects suffice**" in found[0.0].sentence(4_000)
    assert found[1.0].worth_it
    assert "**Low rank is worth it here**" in found[1.0].sentence(4_000)
    assert found[1.0].low_rank(found[1.0].points[0]).rank == 2


def test_noise_teaches_nothing():
    rewards = Rewards.of(clicks(np.full(SHAPE, -1.0), 3_000), np.random.default_rng(0))
    curve = learning_curve(rewards, "bernoulli", structures(SHAPE, 1), [500, 2_000], np.random.SeedSequence(0))
    assert curve.nothing_to_learn
    assert "Nothing to learn was found" in curve.sentence(1_000)


def of_noise(seed, rate=0.003, rows=4_000, shape=(8, 7, 6), eta=0.0):
    """The learning curve of a log of clicks, without effects unless some are given."""
    ledger = clicks(np.full(shape, np.log(rate / (1 - rate))) + eta, rows, seed)
    rewards = Rewards.of(ledger, np.random.default_rng(seed))
    sizes = curve_sizes(rows, 10_000)
    return learning_curve(rewards, "bernoulli", structures(shape), sizes, np.random.SeedSequence(seed))


NOISE = [pytest.param(range(6), id="6"), pytest.param(range(33), id="33", marks=pytest.mark.slow)]


@pytest.mark.parametrize("seeds", NOISE)
def test_about_ten_clicks_of_pure_noise_are_too_few_to_tell(seeds):
    for curve in map(of_noise, seeds):
        words = curve.sentence(10_000)
        assert words.startswith("**Too few to tell**: from 4,000 rewards with")
        assert "suffice" not in words
        assert "of what can be learned" not in words
        assert "let a bandit decide" in words
        assert (curve.worth_it, curve.stretches()) == (False, [])
        assert curve.suggested(curve.points[-1]) == Form("additive", 1)
        assert {curve.learned(curve.points[-1], model) for model in curve.points[-1].models} == {0.0}
        assert 200 < curve.enough.needed * curve.enough.events / 4_000 < 400  # clicks


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "rows"), [(0.003, 100_000), (0.05, 4_000), (0.05, 20_000), (0.3, 4_000)])
def test_noise_is_seldom_taken_for_something(rate, rows):
    assert sum(not of_noise(seed, rate, rows).nothing_to_learn for seed in range(20)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.003, 0.05])
def test_as_many_rewards_as_were_asked_for_mostly_show_such_levels(rate):
    """Levels whose effects have a standard deviation of 0.3, after the number that a log of noise asks for."""
    rows, found = round(of_noise(0, rate, 4_000).enough.needed), 0
    for seed in range(20):
        parts, _ = effects(seed, (8, 7, 6))
        parts = [0.3 * (part - part.mean()) / part.std() for part in parts]
        eta = parts[0][:, None, None] + parts[1][:, None] + parts[2]
        found += not of_noise(seed, rate, rows, eta=eta).nothing_to_learn
    assert found >= 14


def test_few_clicks_that_all_fall_on_one_level_are_enough():
    eta = np.full((8, 7, 6), -9.0)
    eta[2] = 1.0
    curve = of_noise(0, 0.05, 4_000, eta=eta)
    assert not curve.nothing_to_learn
    assert curve.enough.events < curve.enough.rewards / 10
    assert "Too few" not in curve.sentence(10_000)


def test_counts_and_numbers_say_how_many_they_need_in_their_own_terms():
    cells = np.argwhere(np.ones((4, 5)))
    few = Rewards((4, 5), cells, np.linspace(-1.0, 1.0, 20), np.ones(20, dtype=np.int64))
    numbers = Enough.of(few, "gaussian", 7)
    assert "from 20 rewards no model" in numbers.words()
    assert "differ by 30 % of the spread of single rewards" in numbers.words()
    scaled = Enough.of(few._replace(values=1_000.0 * few.values), "gaussian", 7)
    assert scaled.needed == numbers.needed
    counts = Enough.of(few._replace(values=np.r_[np.zeros(17), 1.0, 2.0, 1.0]), "count", 7)
    assert "from 20 rewards with 3 other than 0 no model" in counts.words()
    assert counts.needed > numbers.needed
    same = Enough.of(few._replace(values=np.full(20, 7.0)), "count", 7)
    assert same.words() == "**Nothing to learn was found**: all 20 rewards are the same, 7."


def test_the_limit_grows_with_models_and_with_fewer_events():
    limits = [Enough(events=events).limit(models) for events, models in ((np.inf, 1), (np.inf, 8), (10.0, 8), (2.0, 8))]
    assert limits[0] == pytest.approx(stats.norm.isf(0.025))
    assert limits[2] == pytest.approx(stats.t.isf(0.025 / 8, 9))
    assert limits == sorted(limits)


def test_no_sentence_says_that_the_overall_mean_does_well():
    def scores(rewards, effects):
        noise = np.tile([1.0, -1.0], 5)
        by_cell = {OVERALL: np.zeros(10), EFFECTS: effects + 0.1 * noise, CELLS: np.full(10, -1.0)}
        return Scores.of(rewards, by_cell | {"tucker 1": np.full(10, -1.0)}, np.ones(10))

    curve = Curve((scores(300, 0.0), scores(3_000, 1.0)), (Form("tucker", 1),))
    words = curve.sentence(300)
    assert words.startswith("**Too few to tell**: after 300 rewards there is too little to learn from")
    assert "About 3,000 will do: from so many 'main effects' predicts surely better." in words
    assert "let a bandit decide" in words
    assert curve.sentence(3_000).startswith("**Main effects suffice**")


def test_main_effects_do_not_suffice_where_combinations_cannot_be_told():
    def sentence(doubt, rewards=1_000):
        noise = np.tile([1.0, -1.0], 5) * np.sqrt(10) * doubt / 2
        by_cell = {OVERALL: np.zeros(10), EFFECTS: np.ones(10), CELLS: np.full(10, -1.0), "tucker 1": 1.0 + noise}
        return Curve((Scores.of(rewards, by_cell, np.ones(10)),), (Form("tucker", 1),)).sentence(rewards)

    assert sentence(0.4).startswith("**Main effects suffice**")
    assert sentence(1.0).startswith("**Main effects are all that is known so far**")
    assert "Come back with about 4,000 rewards" in sentence(1.0)  # half the doubt takes four times the rewards


def curve_of(leads, sizes, error=0.0):
    """A curve on which low rank has such leads over cell means, which have learned 0.5, with such an error."""
    points = []
    for lead, size in zip(leads, sizes):
        by_cell = {OVERALL: np.zeros(10), EFFECTS: np.full(10, 0.1), CELLS: np.full(10, 0.5)}
        by_cell["tucker 1"] = 0.5 + lead + error * np.sqrt(10) * np.tile([1.0, -1.0], 5)
        points.append(Scores.of(size, by_cell, np.ones(10)))
    return Curve(tuple(points), (Form("tucker", 1),))


def test_crossing_points_lie_where_the_lead_is_no_longer_sure():
    sizes = [300, 1_000, 3_000, 10_000]
    curve = curve_of([-0.2, 0.2, 0.2, -0.2], sizes)
    ((start, end),) = curve.stretches()
    assert start == pytest.approx(np.sqrt(300 * 1_000), rel=0.03)  # a lead of one point is none
    assert end == pytest.approx(np.sqrt(3_000 * 10_000), rel=0.03)
    assert "from about 560 rewards until about 5,400" in curve.sentence(2_000)
    assert "**Low rank is worth it here**, with more rewards" in curve.sentence(300)
    assert "**Low rank is worth it only with fewer rewards**" in curve.sentence(10_000)
    assert curve_of([0.2, 0.1], [300, 900]).stretches() == [(None, None)]
    assert "from 300 rewards or fewer to the end of the curve, 900" in curve_of([0.2, 0.1], [300, 900]).sentence(300)
    assert "**Low rank gains nothing here**" in curve_of([-0.1, -0.1], [300, 900]).sentence(300)
    assert curve_of([-0.1, -0.1], [300, 900]).stretches() == []


def test_a_lead_that_is_not_sure_is_none_in_all_of_a_sentence():
    curve = curve_of([0.2, 0.05, 0.2, 0.05], [300, 1_000, 3_000, 10_000], error=0.06)
    (first, middle), (second, last) = curve.stretches()
    assert first is None
    assert 300 < middle < 1_000 < second < 3_000 < last < 10_000
    assert curve.sentence(1_000).startswith("**Low rank is worth it here**, with more rewards; after 1,000 rewards")
    assert "300 rewards or fewer until about 570, and from about 1,700 rewards until about 5,700." in curve.sentence(1)
    assert curve.sentence(10_000).startswith("**Low rank is worth it only with fewer rewards**")


def test_sizes_go_up_to_what_is_not_held_out():
    assert curve_sizes(400_000, 10_000) == [300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000]
    assert curve_sizes(2, 10_000) == [1]
    assert curve_sizes(1_000, 10**9) == [300, 750]


def test_structures_are_those_that_a_space_has_room_for():
    assert [str(s) for s in structures((2, 2))] == ["tucker 1", "tucker 2", "affine 1"]
    assert max(s.rank for s in structures((9,) * 6)) < 3


def test_irrelevant_modes_are_found():
    eta = effects(size=0.7)[1] - 1.0
    eta = np.broadcast_to(eta.mean(axis=1, keepdims=True), SHAPE)
    rewards = Rewards.of(clicks(eta, 20_000), np.random.default_rng(0))
    found = relevance(rewards, "bernoulli", Form("tucker", 1), 15_000, np.random.SeedSequence(0))
    assert [item.matters for item in found] == [True, False, True]


@pytest.mark.parametrize(("channel", "rows", "matters"), [(0.3, 8_000, True), (0.0, 8_000, False), (0.15, 1_000, True)])
def test_a_mode_is_idle_only_if_what_it_adds_is_surely_small(channel, rows, matters):
    """Rates of 18, 14 and 11 % by channel, then the same for all, then too few rewards to tell."""
    s, o, c = np.ogrid[:4, :8, :3]
    eta = -3.0 + 0.4 * s + 0.2 * o - channel * c
    for seed in (0, 1, 12, 23):
        rewards = Rewards.of(clicks(eta, rows, seed), np.random.default_rng(0))
        found = relevance(rewards, "bernoulli", Form("affine", 1), rows * 3 // 4, np.random.SeedSequence(0))
        assert found[2].matters == matters, seed
        assert found[0].matters


def test_levels_are_compared_where_all_other_modes_are_the_same():
    """A mode that decides nothing looks as if it did, where it is told with the levels of another that do."""
    rng = np.random.default_rng(0)
    other = rng.integers(4, size=(6_000, 1))
    idle = np.where(rng.random((6_000, 1)) < 0.7, other, rng.integers(4, size=(6_000, 1)))
    nested = other // 2
    rewards = other[:, 0] + rng.standard_normal(6_000)
    ledger = ledger_of(rewards, np.hstack([other, idle]), (4, 4))
    (mattering, most), (chance, least) = (between_levels(ledger, j) for j in (0, 1))
    assert mattering < 1e-9 < 0.025 < chance
    assert least < 0.005 < 0.1 < most
    assert between_levels(ledger_of(rewards, np.hstack([other, nested]), (4, 2)), 1) == (1.0, np.inf)  # never compared
    same = ledger_of(np.ones(6_000), np.hstack([other, idle]), (4, 4))
    assert between_levels(same, 1) == (1.0, 0.0)


def test_what_differences_may_add_is_bounded_by_what_they_do_add():
    """The bound of 97.5 % is exceeded about once in 40 logs."""
    eta = np.array([[-1.0, -0.6], [-1.3, -0.9], [-0.9, -0.5]])
    rates = 1 / (1 + np.exp(-eta))
    overall = rates.mean(axis=1, keepdims=True)
    added = (rates * np.log(rates / overall) + (1 - rates) * np.log((1 - rates) / (1 - overall))).mean()
    below = [between_levels(clicks(eta, 3_000, seed), 1)[1] < added for seed in range(200)]
    assert 0 < np.sum(below) < 12


def test_empty_parts_are_refused():
    ledger, empty = clicks(effects()[1], 100), Ledger(SHAPE)
    for parts, held_out in (([empty], ledger), ([ledger], empty), ([], ledger)):
        with pytest.raises(ValueError, match="a part is empty"):
            held_out_scores(parts, held_out, "bernoulli", [], np.random.default_rng(0))
    one = Rewards((2, 2), np.zeros((1, 2), int), np.ones(1), np.ones(1, int))
    with pytest.raises(ValueError, match="there are 1 rewards; some are held out"):
        learning_curve(one, "gaussian", [], [1], np.random.SeedSequence(0))


def test_the_chance_of_differences_between_levels_is_that_of_the_plain_test():
    """Of each level but one, what its rewards exceed the mean of their stratum by; the last follows from the others."""
    rng, shape = np.random.default_rng(0), (8, 30, 6)
    cells = rng.integers(shape, size=(20_000, 3))
    rewards = rng.standard_normal(len(cells)) + 0.05 * cells[:, 0] / 8
    ledger = Ledger(shape)
    ledger.add(cells, rewards)
    excess, covariance = np.zeros(7), np.zeros((7, 7))
    for stratum in np.ndindex(shape[1:]):
        here = (cells[:, 1:] == stratum).all(axis=1)
        values, levels = rewards[here], np.eye(8)[cells[here, 0], :7]
        share = levels.mean(axis=0)
        excess += (values - values.mean()) @ levels
        covariance += values.var(ddof=1) * here.sum() * (np.diag(share) - np.outer(share, share))
    statistic = excess @ np.linalg.solve(covariance, excess)
    assert between_levels(ledger, 0)[0] == pytest.approx(stats.chi2.sf(statistic, 7), rel=1e-6)
