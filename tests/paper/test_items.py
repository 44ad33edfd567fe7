"""Settings that can be run, and verdicts that follow the numbers; what the policies really do is for the full run."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from tensorbandits.paper import table1
from tensorbandits.paper.evaluation import ITEMS, choose_items
from tensorbandits.paper.item import (
    ELIMINATION,
    ENSEMBLE,
    EPOCH_GREEDY,
    ESTR,
    MULTIPLIERS,
    OURS,
    THOMPSON,
    TUNED,
    UCB,
    Results,
    best_multiplier,
    merge,
    tuned,
    with_hindsight,
)
from tensorbandits.policies.registry import records
from tensorbandits.report.page import Claims, Picture, Table, Text
from tensorbandits.sim.compare import Comparison
from tensorbandits.sim.environment import paper_tensor
from tensorbandits.sim.jobs import Job, Run

GOOD = {
    THOMPSON: 10,
    ENSEMBLE: 20,
    ENSEMBLE + OURS: 20,
    ELIMINATION: 40,
    ELIMINATION + OURS: 40,
    EPOCH_GREEDY: 80,
    EPOCH_GREEDY + OURS: 80,
    UCB: 160,
    ESTR: 320,
    tuned(MULTIPLIERS[0]): 60,
    tuned(MULTIPLIERS[1]): 50,
}


@functools.cache
def experiments(name, quick=True):
    """The experiments of an item, made once: the open data take seconds to read."""
    return ITEMS[name].experiments(quick)


def read(name, *comparisons, quick=True, seed=0):
    """The section that an item makes of comparisons, one for each of its experiments."""
    known = {experiment.name: experiment for experiment in experiments(name, quick)}
    return ITEMS[name].analyse(Results(known, dict(zip(known, comparisons, strict=True)), seed))


def pretend(experiment, finals, replications=5, early=None):
    """Runs of an experiment with given final regrets, a little different in each replication and reached linearly."""
    rounds = np.unique(np.geomspace(1, experiment.horizon, 40).round().astype(int))
    shape = rounds / experiment.horizon
    runs = []
    for environment in experiment.environments:
        for policy in experiment.policies:
            for i in range(replications):
                final = finals.get(policy, 100) * (1 + 0.01 * i)
                curve = final * shape ** ((early or {}).get(policy, 1.0))
                runs.append(Run(environment, policy, i, rounds, curve, 0.1))
    return Comparison(tuple(runs))


def verdicts(section):
    return {c.words: c.verdict for part in section.parts if isinstance(part, Claims) for c in part.claims}


@pytest.mark.parametrize("quick", [True, False])
def test_every_policy_of_every_item_can_be_made_for_its_environments(quick):
    for experiment in (experiment for name in ITEMS for experiment in experiments(name, quick)):
        for world, make in experiment.environments.items():
            for name, recipe in experiment.policies.items():
                job = Job(world, name, 0, make, recipe, experiment.horizon)
                assert job.player(job.world()).shape == job.world().shape


def test_items_are_found_by_name_and_unknown_ones_refused():
    assert list(choose_items([])) == list(ITEMS)
    assert list(choose_items(["all", "table1"])) == list(ITEMS)
    assert list(ITEMS) == ["figure2", "figure3", "figure4", "figureS1", "table1"]
    with pytest.raises(ValueError, match=r"no item 'figure5'; choose from figure2, .* and all"):
        choose_items(["figure5"])


def test_names_of_experiments_are_their_own():
    names = [experiment.name for name in ITEMS for experiment in experiments(name)]
    assert len(names) == len(set(names))


def test_the_quick_form_is_far_smaller():
    def rounds(quick):
        return sum(
            len(s.policies) * len(s.environments) * s.horizon for name in ITEMS for s in experiments(name, quick)
        )

    assert rounds(True) < rounds(False) / 5


@pytest.mark.parametrize("name", list(ITEMS))
def test_every_item_draws_its_figures(name, tmp_path):
    section = read(name, *(pretend(experiment, GOOD) for experiment in experiments(name)))
    pictures = [part for part in section.parts if isinstance(part, Picture)]
    assert pictures
    for picture in pictures:
        picture.draw(tmp_path / f"{picture.name}.png")
        assert (tmp_path / f"{picture.name}.png").stat().st_size > 20_000
    assert len({picture.name for picture in pictures}) == len(pictures)
    assert verdicts(section)


def figure2_verdicts(**changes):
    finals = GOOD | {globals()[key]: value for key, value in changes.items()}
    return verdicts(read("figure2", *(pretend(experiment, finals) for experiment in experiments("figure2"))))


ORDER = "Ensemble sampling outperforms all other methods in all settings"
SECOND = "Elimination is second: better than the others at a long horizon"
SHARE = "Thompson sampling's mean is at most 0.6 of that of ensemble sampling with the paper's values"
TAIL = "Thompson sampling's worst replication is at most 3 times its median"
EARLY = "Epoch-greedy is better early: below elimination"
LARGER = "Epoch-greedy has an early advantage over elimination, and more of it for larger p"


def test_figure_2_reads_the_order_of_the_policies():
    found = figure2_verdicts()
    assert (found[ORDER], found[SECOND], found[SHARE]) == ("holds",) * 3
    assert figure2_verdicts(THOMPSON=13)[SHARE] == "does not hold here"


@pytest.mark.parametrize("rival", ["ELIMINATION", "EPOCH_GREEDY", "ESTR", "UCB"])
def test_every_rival_of_ensemble_sampling_counts(rival):
    assert figure2_verdicts(**{rival: 1})[ORDER] == "does not hold here"


@pytest.mark.parametrize("rival", ["EPOCH_GREEDY", "ESTR", "UCB"])
def test_every_rival_of_elimination_counts(rival):
    assert figure2_verdicts(**{rival: 30})[SECOND] == "does not hold here"


@pytest.mark.parametrize(
    ("exponents", "verdict"),
    [
        ({15: 1.5, 20: 3.0}, "holds"),
        ({15: 3.0, 20: 1.5}, "does not hold here"),  # less of an advantage for larger p
        ({15: 0.5, 20: 0.7}, "does not hold here"),  # no advantage
    ],
)
def test_figure_2_looks_for_an_early_advantage_that_grows(exponents, verdict):
    short, long = experiments("figure2")
    parts = []
    for world, make in short.environments.items():
        one = replace(short, environments={world: make})
        parts.append(pretend(one, GOOD | {EPOCH_GREEDY: 40}, early={EPOCH_GREEDY: exponents[make.p]}))
    found = verdicts(read("figure2", merge(*parts), pretend(long, GOOD)))
    assert found[LARGER] == verdict


def test_figure_2_notices_a_heavy_tail():
    short, long = experiments("figure2")
    even = pretend(long, GOOD, replications=10)
    runs = list(even.runs)
    at = next(i for i, run in enumerate(runs) if run.policy == THOMPSON)
    runs[at] = Run(runs[at].environment, THOMPSON, 0, runs[at].rounds, 4 * runs[at].regret, 0.1)
    for comparison, verdict in ((even, "holds"), (Comparison(tuple(runs)), "does not hold here")):
        section = read("figure2", pretend(short, GOOD, replications=10), comparison)
        assert verdicts(section)[TAIL] == verdict
    assert figure2_verdicts()[TAIL] == "not decided"  # 5 replications have no tail


def test_figure_2_looks_early_for_epoch_greedy():
    short, long = experiments("figure2")
    section = read("figure2", pretend(short, GOOD, early={EPOCH_GREEDY: 3.0}), pretend(long, GOOD))
    assert verdicts(section)[EARLY] == "holds"
    assert figure2_verdicts()[EARLY] == "does not hold here"


def test_figure_3_measures_how_far_below():
    (experiment,) = experiments("figure3")
    found = verdicts(read("figure3", pretend(experiment, GOOD | {ENSEMBLE: 41})))
    assert found[f"{ENSEMBLE} is 75% below {UCB} at the end"] == "does not hold here"
    assert found[f"{THOMPSON} is 75% below {UCB} at the end"] == "holds"
    assert found[f"{THOMPSON} is 85.6% below {EPOCH_GREEDY} at the end"] == "holds"


def figure4_verdicts(**changes):
    (experiment,) = experiments("figure4")
    finals = GOOD | {globals()[key]: value for key, value in changes.items()}
    return verdicts(read("figure4", pretend(experiment, finals)))


@pytest.mark.parametrize("data", ["bikes", "flights"])
def test_figure_4_judges_each_claim_of_each_data_set(data):
    low = "has low regret at a long horizon: below epoch-greedy, UCB and ESTR"
    worst = "ESTR has the worst performance:"
    good = figure4_verdicts()
    assert len(good) == 16
    assert {verdict for words, verdict in good.items() if "short horizon" not in words} == {"holds"}
    for rival in ("EPOCH_GREEDY", "UCB", "ESTR"):
        bad = figure4_verdicts(**{rival: 1})
        for policy in ("Ensemble sampling", "Elimination"):
            assert bad[f"{policy} {low} ({data})"] == "does not hold here"
    bad = figure4_verdicts(ESTR=1)
    for other in (ENSEMBLE, ELIMINATION, EPOCH_GREEDY, UCB):
        assert bad[f"{worst} {other} is below it ({data})"] == "does not hold here"
    slightly = f"Ensemble sampling is slightly better than elimination ({data})"
    assert figure4_verdicts(ELIMINATION=1)[slightly] == "does not hold here"
    short = f"Epoch-greedy is better than UCB at a short horizon ({data}, not contextual)"
    assert (good[short], figure4_verdicts(UCB=1)[short]) == ("holds", "does not hold here")


def test_no_two_claims_of_a_report_have_the_same_words():
    words = []
    for name in ITEMS:
        section = read(name, *(pretend(experiment, GOOD) for experiment in experiments(name)))
        words += [c.words for part in section.parts if isinstance(part, Claims) for c in part.claims]
    assert len(words) == len(set(words))


def test_figure_s1_calls_a_constant_that_matters_sensitive():
    some = experiments("figureS1")
    flat = read("figureS1", *(pretend(experiment, {}) for experiment in some))
    assert set(verdicts(flat).values()) == {"holds"}
    steep = read("figureS1", *(pretend(experiment, {next(iter(experiment.policies)): 300}) for experiment in some))
    assert set(verdicts(steep).values()) == {"does not hold here"}


def test_figure_s1_does_not_decide_on_what_one_replication_did():
    """Means differ by a factor of 1.45, all of it from one run in ten."""
    some = []
    for experiment in experiments("figureS1"):
        runs = list(pretend(experiment, {}, replications=10).runs)
        runs[0] = replace(runs[0], regret=5.5 * runs[0].regret)
        some.append(Comparison(tuple(runs)))
    assert set(verdicts(read("figureS1", *some)).values()) == {"not decided"}


def test_slopes_are_those_of_powers():
    x = [2.0, 4.0, 16.0]
    regrets = np.array([[3 * value**0.5, 7 * value**2] for value in x])
    assert table1.slopes(regrets, x) == pytest.approx([0.5, 2.0])


def table1_verdicts(in_n, in_p):
    """Verdicts when each policy's regret grows with given exponents."""
    some = []
    for experiment in experiments("table1"):
        runs = []
        for name, make in experiment.environments.items():
            for policy in experiment.policies:
                c, b = in_n.get(policy, 0.3), in_p.get(policy, 1.0)
                for i in range(5):
                    horizon = experiment.horizon
                    rounds = np.unique(np.concatenate([np.arange(1, horizon + 1, 10), [horizon // 5]]))
                    rounds = np.append(rounds[rounds < horizon], horizon)
                    runs.append(Run(name, policy, i, rounds, (1 + 0.01 * i) * make.p**b * rounds**c, 0.1))
        some.append(Comparison(tuple(runs)))
    return verdicts(read("table1", *some))


def test_table_1_compares_slopes_with_the_exponents_of_the_paper():
    growth = "Regret grows in n with the exponents of Table 1 at most"
    assert table1_verdicts({}, {})[growth] == "holds"
    for policy in (EPOCH_GREEDY, ELIMINATION, UCB, ESTR):
        assert table1_verdicts({policy: 0.9}, {})[growth] == "does not hold here"


def test_table_1_compares_how_regret_depends_on_p():
    words = "The regret of elimination and epoch-greedy depends less on p than that of UCB and ESTR"
    assert table1_verdicts({}, {UCB: 2.0, ESTR: 2.0})[words] == "holds"
    assert table1_verdicts({}, {UCB: 0.5, ESTR: 2.0})[words] == "does not hold here"
    assert table1_verdicts({}, {UCB: 2.0, ESTR: 0.5})[words] == "does not hold here"
    assert table1_verdicts({}, {UCB: 2.0, ESTR: 2.0, EPOCH_GREEDY: 3.0})[words] == "does not hold here"


def test_hindsight_takes_the_best_multiplier_of_each_environment():
    experiment = experiments("figure4")[0]
    comparison = with_hindsight(pretend(experiment, GOOD))
    for environment in comparison.environments:
        assert best_multiplier(comparison, environment) == MULTIPLIERS[1]
        assert np.array_equal(comparison.at(TUNED, environment), comparison.at(tuned(MULTIPLIERS[1]), environment))


def test_merging_cuts_runs_at_a_round():
    experiment = experiments("figure2")[1]
    cut = merge(pretend(experiment, GOOD), until=100)
    assert all(run.rounds[-1] <= 100 and len(run.rounds) == len(run.regret) for run in cut.runs)


def test_names_are_those_of_the_registry():
    labels = {record.name: record.label for record in records()}
    for experiment in (experiment for name in ("figure2", "figure4", "table1") for experiment in experiments(name)):
        for name, recipe in experiment.policies.items():
            assert name.startswith(labels[recipe.policy])


def captions(section):
    return [part.caption for part in section.parts if isinstance(part, Picture) and "cumulative regret" in part.caption]


@pytest.mark.parametrize("name", ["figure2", "figure3", "figure4", "figureS1"])
def test_captions_promise_bands_only_where_they_are_drawn(name):
    for count, words in ((3, "without confidence bands, which need 4 replications"), (4, "with 95 % confidence bands")):
        section = read(name, *(pretend(experiment, GOOD, replications=count) for experiment in experiments(name)))
        assert captions(section) == [f"Mean cumulative regret {words}."]


@pytest.mark.parametrize(
    ("quick", "words"), [(True, "With 1,000 rounds a cell gets 2.4"), (False, "With 10,000 rounds")]
)
def test_reasons_in_figure_4_quote_the_rounds_that_were_played(quick, words):
    (experiment,) = experiments("figure4", quick)
    section = read("figure4", pretend(experiment, GOOD | {ELIMINATION: 1000}), quick=quick)
    reasons = {c.why for part in section.parts if isinstance(part, Claims) for c in part.claims}
    assert any(why.startswith(words) for why in reasons)


def test_table_1_plays_uniformly_on_the_tensors_that_were_played():
    comparisons = [pretend(experiment, GOOD, replications=2) for experiment in experiments("table1")]
    tables = []
    for seed in (0, 5):
        section = read("table1", *comparisons, seed=seed)
        assert any(isinstance(part, Text) and f"seeds {seed} to {seed + 1}:" in part.words for part in section.parts)
        tables.append(next(part for part in section.parts if isinstance(part, Table)))
    assert tables[0].rows[0][-1] != tables[1].rows[0][-1]
    uniform = 2_000 * np.mean([t.max() - t.mean() for t in (paper_tensor(15, 0.5, seed=i) for i in (5, 6))])
    assert tables[1].rows[0][-1] == f"{uniform:,.0f}"


def test_the_caption_of_table_1_promises_intervals_only_where_there_are_some():
    for count, words in ((1, "Mean final regret by n and by p."), (2, "by p with 95 % confidence intervals.")):
        comparisons = [pretend(experiment, GOOD, replications=count) for experiment in experiments("table1")]
        (picture,) = [part for part in read("table1", *comparisons).parts if isinstance(part, Picture)]
        assert picture.caption.endswith(words)
