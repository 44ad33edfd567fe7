"""The beds: their worlds, the policies that play beside ours, and what is concluded; regrets are for a run of them."""

import json
import pickle

import numpy as np
import pytest

import tensorbandits as tb
from benchmarks.paper import bed_findings, beds, exploration
from benchmarks.paper.baselines import BetaBernoulliArms, StandardisedEnsemble
from benchmarks.paper.bed_lines import BEDS, LABELS, LOGISTIC, MENU, OURS, SEEN, first_seed
from benchmarks.paper.worlds import Campaign, FullRank, Keywords, OpenData, spread
from benchmarks.store import Options, read_lines
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.jobs import Run
from tests.benchmarks.test_benchmarks import run


def logit(rates):
    return np.log(rates / (1 - rates))


def without_main_effects(values):
    """What is left of a tensor when its mean and its main effects are taken out."""
    rest = values - values.mean()
    for mode in range(values.ndim):
        others = tuple(j for j in range(values.ndim) if j != mode)
        rest = rest - rest.mean(axis=others, keepdims=True)
    return rest


LARGE = [
    name for name in BEDS if name.startswith(("layouts-8", "layouts-12"))
]  # of which one is looked at in make test


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE[1:])) for name in BEDS])
def test_every_bed_is_the_same_for_the_same_seed_in_any_process(name):
    bed = BEDS[name]
    one, same, other = bed.world(7), pickle.loads(pickle.dumps(bed.world))(7), bed.world(8)
    cell = tuple(size - 1 for size in one.shape)
    assert np.array_equal(one.mean, same.mean)
    assert (one.context(), one.pull(cell)) == (same.context(), same.pull(cell))
    assert np.array_equal(one.mean, other.mean) == isinstance(bed.world, OpenData)
    menu = {"told" if "told" in bed.lines and key == "tucker-2" else key for key in MENU}
    others = set(LOGISTIC) if bed.many else {"ensemble"} | menu | (set(LOGISTIC) if bed.rivals else set())
    assert {OURS, "ucb", "additive"} | others <= bed.lines.keys() <= LABELS.keys()
    assert all(recipe.make(one, bed.rounds, 0).shape == one.shape for recipe in bed.lines.values())


@pytest.mark.parametrize(("main", "share"), [(True, 0.4**2 / (1 + 0.4**2)), (False, 1.0)])
def test_campaigns_have_the_rates_and_the_effects_they_say(main, share):
    rates = Campaign(0.002, 0.06, main=main)(0).mean
    assert rates.shape == (12, 40, 8)
    assert (rates.min(), rates.max()) == pytest.approx((0.002, 0.06))
    interaction = without_main_effects(logit(rates))
    assert interaction.var() / logit(rates).var() == pytest.approx(share)
    values = np.linalg.svd(interaction.reshape(12, -1), compute_uv=False)
    assert (values > 1e-9 * values[0]).sum() == 2


def test_the_tensor_of_full_rank_has_main_effects():
    mean = FullRank()(0).mean
    left = without_main_effects(mean)
    assert left.std() == pytest.approx(0.5, abs=0.03)
    assert left.var() / mean.var() == pytest.approx(0.25 / (0.75**2 + 0.25), abs=0.03)
    assert [np.linalg.matrix_rank(np.moveaxis(left, mode, 0).reshape(12, -1)) for mode in range(3)] == [12, 12, 12]


def test_a_few_keywords_earn_most_and_their_counts_vary_as_they_say():
    world = Keywords()
    env = world(0)
    levels = np.sort(env.mean.mean(axis=(0, 1)))[::-1]
    assert levels[:30].sum() > 0.4 * levels.sum()
    cell = np.unravel_index(env.mean.argmax(), env.shape)
    counts = np.array([env.pull(cell) for _ in range(4_000)])
    mean = env.mean[cell]
    assert counts.mean() == pytest.approx(mean, rel=0.05)
    assert counts.var() == pytest.approx(mean + mean**2 / world.size, rel=0.15)
    assert (counts == counts.round()).all()


def test_the_open_data_is_that_of_the_reproduction():
    from tensorbandits.paper import figure3, figure4

    theirs = [world(0) for item in (figure3, figure4) for world in item.experiments(True)[0].environments.values()]
    for name, their in zip(("bikes-given", "bikes", "flights"), theirs, strict=True):
        ours = BEDS[name].world(0)
        assert np.array_equal(ours.mean, their.mean)
        assert (ours.context_modes, ours.context()) == (their.context_modes, their.context())
        assert [ours.pull((0, 0, 0)) for _ in range(5)] == [their.pull((0, 0, 0)) for _ in range(5)]
    assert BEDS["bikes"].world(0).mean.max() == pytest.approx(4.35639191)  # the targets suppose these units
    assert BEDS["flights"].world(0).mean.max() == pytest.approx(0.49114478)


def test_spread_is_that_of_rewards():
    env = Campaign(0.2, 0.6, main=True)(0)
    centre, scale = spread(env)
    rng = np.random.default_rng(0)
    cells = np.stack([rng.integers(size, size=20_000) for size in env.shape], axis=1)
    rewards = np.array([env.pull(cell) for cell in cells])
    within = rewards - env.mean[tuple(cells.T)]
    assert (rewards.mean(), within.std()) == pytest.approx((centre, scale), rel=0.03)
    assert spread(tb.PaperWorld(p=3)(0))[1] == 1.0


def test_separate_arms_draw_from_the_posterior_of_each():
    policy = BetaBernoulliArms((2, 2), context=(0,), seed=0)
    for clicks, cell in ((3, (1, 0)), (6, (1, 1))):
        for i in range(10):
            policy.tell(cell, float(i < clicks))
    assert policy.best((1,)) == (1, 1)
    assert policy.estimate([(1, 1), (0, 0)]) == pytest.approx([7 / 12, 1 / 2])
    draws = np.random.default_rng(1).beta([4, 7], [8, 5], size=(100_000, 2))
    played = np.mean([policy.ask((1,))[1] for _ in range(4_000)])
    assert played == pytest.approx((draws[:, 1] > draws[:, 0]).mean(), abs=0.02)
    assert policy.ask((1,), allowed={1: [0]}) == (1, 0)
    again = tb.Policy.from_state_dict(policy.state_dict())
    assert [again.ask((0,)) for _ in range(5)] == [policy.ask((0,)) for _ in range(5)]


def test_the_paper_s_ensemble_on_another_scale_plays_as_on_its_own():
    mean = tb.paper_tensor(p=4, seed=0)
    theirs = tb.TensorEnsembleSampling.paper(mean.shape, 2, seed=3)
    ours = StandardisedEnsemble(mean.shape, 2, centre=8.0, scale=4.0, seed=3)
    played = tb.simulate(theirs, tb.TensorEnvironment(mean, seed=0), 40).cells
    scaled = tb.TensorEnvironment(8.0 + 4.0 * mean, noise=4.0, seed=0)
    assert np.array_equal(tb.simulate(ours, scaled, 40).cells, played)
    assert ours.estimate([(0, 1, 2)]) == pytest.approx(8.0 + 4.0 * theirs.estimate([(0, 1, 2)]))


def test_a_quick_run_reports_every_line_and_is_kept(tmp_path):
    arguments = ["beds", "--quick", "--beds", "campaign-main", "--only", "arms,ucb", "--out", str(tmp_path)]
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    numbers = json.loads((tmp_path / "results.json").read_text())["beds"]
    (lines,) = numbers["beds"].values()
    assert {line["line"] for line in lines} == {"arms", "ucb"}
    assert all(0 < line["share"] < 1 and line["rounds"] == beds.QUICK_ROUNDS for line in lines)
    assert (numbers["requirements"], numbers["seed"]) == ([], SEEN)
    assert (tmp_path / "figures" / "beds.png").stat().st_size > 10_000
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert len(kept) == 4
    assert run(*arguments).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == kept


def test_runs_of_other_policies_are_kept_when_asked_whatever_the_code_was(tmp_path):
    arguments = ["beds", "--quick", "--beds", "flights", "--only", "ucb", "--out", str(tmp_path)]
    assert run(*arguments).exit_code == 0
    place = tmp_path / "beds" / "flights" / "others"
    assert len(beds.read_kept(place, ["ucb"], beds.QUICK_ROUNDS, 1, seed=SEEN)) == 1
    assert beds.read_kept(place, ["ucb", "ensemble"], beds.QUICK_ROUNDS, 1, seed=SEEN) == []
    assert beds.read_kept(place, ["ucb"], beds.QUICK_ROUNDS, 3, seed=SEEN) == []
    assert beds.read_kept(place, ["ucb"], beds.QUICK_ROUNDS, 1, seed=SEEN + 1) == []
    assert beds.read_kept(tmp_path / "nowhere", ["ucb"], 1, 1, seed=SEEN) == []
    assert run(*arguments, "--keep").exit_code == 0
    assert "earlier version of the code" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["beds", "--beds", "nowhere"], "--beds: nowhere unknown"),
        (["beds", "--only", "nobody"], "--only: nobody unknown"),
        (["beds", "--beds", "flights", "--only", "arms"], "leaves nothing to play in flights"),
        (["regret", "--beds", "flights"], "--beds is for the suite beds"),
        (["beds", "--rounds", "5"], "--rounds is for the suite regret"),
        (["beds", "--quick", "--menu-replications", "5"], "--quick sets --menu-replications itself"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_played(arguments, words, tmp_path):
    result = run(*arguments, "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", " ").split())
    assert not (tmp_path / "out").exists()


def test_menus_and_long_beds_may_be_played_less_often():
    options = Options(replications=30, menu_replications=10, slow_replications=5)
    assert beds.replications_of("flights", OURS, options) == 30
    assert beds.replications_of("flights", MENU[0], options) == 10
    assert beds.replications_of("campaign-main", OURS, options) == 5
    assert set(beds.choose(options)) == {name for name, bed in BEDS.items() if bed.usual}
    assert list(beds.choose(Options(beds="campaign-main-rare"))) == ["campaign-main-rare"]


def test_the_time_of_a_round_is_estimated_for_every_kind_of_reward():
    table = beds.cost({"flights": ["ucb"], "campaign-main": ["arms"]}, Options(), jobs=2)
    assert [row[:4] for row in table.rows] == [
        ["flights", "ucb", "30", "10,000"],
        ["campaign-main", "arms", "30", "100,000"],
    ]
    assert all(float(row[4].replace(",", "")) > 0 for row in table.rows)


def fake(bed, **finals):
    """A comparison with these final regrets."""
    rounds = np.array([9_000, 10_000])
    lines = ((line.replace("_", "-"), values) for line, values in finals.items())
    return Comparison(
        tuple(
            Run(bed, line, i, rounds, np.array([0.9, 1.0]) * value, 1.0)
            for line, values in lines
            for i, value in enumerate(values)
        )
    )


def test_what_is_required_is_judged_by_intervals():
    ours = np.linspace(1_190, 1_210, 12)
    comparison = fake("flights", thompson=ours, ensemble=1.2 * ours, ucb=0.5 * ours, tucker_1=ours, affine_1=0.9 * ours)
    verdicts = {line["requirement"]: line for line in bed_findings.judged(comparison, "flights", seed=5_000)}
    assert {words.partition(": told nothing, ")[2]: line["verdict"] for words, line in verdicts.items()} == {
        "over ensemble": "holds",
        "over ucb": "does not hold here",
        "over the best of the menu (affine-1)": "holds",
        "mean": "holds",
    }
    assert verdicts["flights: told nothing, over the best of the menu (affine-1)"]["value"] == pytest.approx(1 / 0.9)


def test_the_true_rank_is_judged_beside_what_it_was_on_the_same_worlds(tmp_path, monkeypatch):
    before = [{"bed": "paper-15-0.5", "policy": "told", "seed": 70 + i, "final": 100.0 + i} for i in range(12)]
    file = tmp_path / "beds.jsonl"
    file.write_text("\n".join(map(json.dumps, before)))
    monkeypatch.setattr(bed_findings, "REFERENCE", file)
    told = np.array([0.8 * line["final"] for line in before])
    told[0] = 400.0
    comparison = fake("paper-15-0.5", told=told)
    lines = bed_findings.judged(comparison, "paper-15-0.5", seed=70)
    assert [line["requirement"].partition(", ")[2] for line in lines] == ["over the same before", "worst over median"]
    assert [line["verdict"] for line in lines] == ["not decided", "does not hold here"]
    assert [line["value"] for line in lines] == pytest.approx([told.mean() / 105.5, 400 / np.median(told)])
    (tail,) = bed_findings.judged(comparison, "paper-15-0.5", seed=71)  # the reference lacks a world
    assert tail["requirement"].endswith("worst over median")


def test_shares_are_of_what_the_best_cells_earn_in_the_contexts_that_came():
    env = BEDS["campaign-main"].world(3)
    best = np.array([env.best_mean(env.context()) for _ in range(10_000)])
    comparison = fake("campaign-main", thompson=[0.0, 0.0, 0.0, 100.0])
    whole, last = bed_findings.shares(comparison, "campaign-main", OURS, seed=0)
    assert whole == pytest.approx([1, 1, 1, 1 - 100 / best.sum()])
    assert last == pytest.approx([1, 1, 1, 1 - 10 / best[9_000:].sum()])


def test_a_bed_is_reported_lowest_first_beside_ours():
    comparison = fake("bikes", thompson=[4.0, 4.0], ucb=[2.0, 2.0], ensemble=[9.0])
    rows = bed_findings.numbers(comparison, "bikes", seed=0)
    assert [(row["line"], row.get("ratio")) for row in rows] == [("ucb", 0.5), (OURS, None), ("ensemble", 2.25)]
    shown = bed_findings.table("bikes", rows).rows
    assert [line[-1] for line in shown] == ["0.50 (0.50 to 0.50)", "–", "2.25"]
    assert shown[2][3] == "–"  # a single replication has no interval


def test_the_trade_of_a_lower_temperature_is_beside_the_median_at_one(tmp_path):
    runs = [
        *fake("bikes", **{"1": [10.0, 20.0, 60.0], "0.5": [5.0, 10.0, 90.0]}).runs,
        *fake("flights", **{"1": [1.0, 1.0, 1.0], "0.5": [2.0, 2.0, 2.0]}).runs,
    ]
    rows = exploration.trade(Comparison(tuple(runs)))
    assert [(row["bed"], row["exploration"], row["median_ratio"], row["worst_ratio"]) for row in rows] == [
        ("bikes", 1.0, 1.0, 3.0),
        ("bikes", 0.5, 0.5, 4.5),
        ("flights", 1.0, 1.0, 1.0),
        ("flights", 0.5, 2.0, 2.0),
        (exploration.ALL, 1.0, 1.0, pytest.approx(3**0.5)),
        (exploration.ALL, 0.5, 1.0, pytest.approx(3.0)),
    ]
    parts, _ = exploration.section(Comparison(tuple(runs)), Options())
    assert [line[-1] for line in parts[-1].rows[:2]] == ["3.00", "4.50"]
    parts[2].draw(tmp_path / "trade.png")
    assert (tmp_path / "trade.png").stat().st_size > 10_000


def test_the_reference_has_the_true_rank_on_thirty_worlds_of_each_setting():
    kept = list(read_lines(bed_findings.REFERENCE))
    settings = [name for name in BEDS if name.startswith("paper")]
    assert {(line["bed"], line["seed"]) for line in kept} == {
        (name, first_seed(Options.fresh_seed) + i) for name in settings for i in range(30)
    }
    assert len(kept) == 30 * len(settings)


def test_a_quick_run_of_the_trade_plays_every_temperature(tmp_path):
    result = run("exploration", "--quick", "--beds", "flights", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "results.json").read_text())["exploration"]["rows"]
    shown = [(row["bed"], row["exploration"]) for row in rows]
    assert shown == [(bed, value) for bed in ("flights", exploration.ALL) for value in exploration.TEMPERATURES]
