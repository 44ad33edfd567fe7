"""Settings that can be run, and verdicts that follow the numbers; what the policies really do is for the full run."""

import functools
from dataclasses import replace

import numpy as np
import pytest

from tensorbandits.paper import figure2, figure3, figure4, figure_s1, table1
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
    best_multiplier,
    merge,
    tuned,
    with_hindsight,
)
from tensorbandits.report import Claims, Picture
from tensorbandits.sim.compare import Comparison
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
def studies(name, quick=True):
    """The studies of an item, made once: the open data take seconds to read."""
    return ITEMS[name].studies(quick)


def pretend(study, finals, replications=5, early=None):
    """Runs of a study with given final regrets, a little different in each replication and reached linearly."""
    rounds = np.unique(np.geomspace(1, study.horizon, 40).round().astype(int))
    shape = rounds / study.horizon
    runs = []
    for environment in study.environments:
        for policy in study.policies:
            for i in range(replications):
                final = finals.get(policy, 100) * (1 + 0.01 * i)
                curve = final * shape ** ((early or {}).get(policy, 1.0))
                runs.append(Run(environment, policy, i, rounds, curve, 0.1))
    return Comparison(tuple(runs))


def verdicts(section):
    return {c.words: c.verdict for part in section.parts if isinstance(part, Claims) for c in part.claims}


@pytest.mark.parametrize("quick", [True, False])
def test_every_policy_of_every_item_can_be_made_for_its_environments(quick):
    for study in (study for name in ITEMS for study in studies(name, quick)):
        for world, make in study.environments.items():
            for name, recipe in study.policies.items():
                job = Job(world, name, 0, make, recipe, study.horizon)
                assert job.player(job.world()).shape == job.world().shape


def test_items_are_found_by_name_and_unknown_ones_refused():
    assert [item.name for item in choose_items([])] == list(ITEMS)
    assert [item.name for item in choose_items(["all", "table1"])] == list(ITEMS)
    assert list(ITEMS) == ["figure2", "figure3", "figure4", "figureS1", "table1"]
    with pytest.raises(ValueError, match=r"no item 'figure5'; choose from figure2, .* and all"):
        choose_items(["figure5"])


def test_names_of_studies_are_their_own():
    names = [study.name for name in ITEMS for study in studies(name)]
    assert len(names) == len(set(names))


def test_the_quick_form_is_far_smaller():
    def rounds(quick):
        return sum(len(s.policies) * len(s.environments) * s.horizon for name in ITEMS for s in studies(name, quick))

    assert rounds(True) < rounds(False) / 5


@pytest.mark.parametrize("name", list(ITEMS))
def test_every_item_draws_its_figures(name, tmp_path):
    item = ITEMS[name]
    section = item.analyse({study.name: pretend(study, GOOD) for study in studies(item.name)})
    pictures = [part for part in section.parts if isinstance(part, Picture)]
    assert pictures
    for picture in pictures:
        picture.draw(tmp_path / f"{picture.name}.png")
        assert (tmp_path / f"{picture.name}.png").stat().st_size > 20_000
    assert len({picture.name for picture in pictures}) == len(pictures)
    assert verdicts(section)


def figure2_verdicts(**changes):
    short, long = studies("figure2")
    finals = GOOD | {globals()[key]: value for key, value in changes.items()}
    return verdicts(figure2.analyse({"figure2": pretend(short, finals), "figure2-long": pretend(long, finals)}))


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
    short, long = studies("figure2")
    parts = []
    for world, make in short.environments.items():
        one = replace(short, environments={world: make})
        parts.append(pretend(one, GOOD | {EPOCH_GREEDY: 40}, early={EPOCH_GREEDY: exponents[make.p]}))
    found = verdicts(figure2.analyse({"figure2": merge(*parts), "figure2-long": pretend(long, GOOD)}))
    assert found[LARGER] == verdict


def test_figure_2_notices_a_heavy_tail():
    short, long = studies("figure2")
    even = pretend(long, GOOD, replications=10)
    runs = list(even.runs)
    at = next(i for i, run in enumerate(runs) if run.policy == THOMPSON)
    runs[at] = Run(runs[at].environment, THOMPSON, 0, runs[at].rounds, 4 * runs[at].regret, 0.1)
    for comparison, verdict in ((even, "holds"), (Comparison(tuple(runs)), "does not hold here")):
        results = {"figure2": pretend(short, GOOD, replications=10), "figure2-long": comparison}
        assert verdicts(figure2.analyse(results))[TAIL] == verdict
    assert figure2_verdicts()[TAIL] == "not decided"  # 5 replications have no tail


def test_figure_2_looks_early_for_epoch_greedy():
    short, long = studies("figure2")
    results = {"figure2": pretend(short, GOOD, early={EPOCH_GREEDY: 3.0}), "figure2-long": pretend(long, GOOD)}
    assert verdicts(figure2.analyse(results))[EARLY] == "holds"
    assert figure2_verdicts()[EARLY] == "does not hold here"


def test_figure_3_measures_how_far_below():
    (study,) = studies("figure3")
    found = verdicts(figure3.analyse({"figure3": pretend(study, GOOD | {ENSEMBLE: 41})}))
    assert found[f"{ENSEMBLE} is 75% below {UCB} at the end"] == "does not hold here"
    assert found[f"{THOMPSON} is 75% below {UCB} at the end"] == "holds"
    assert found[f"{THOMPSON} is 85.6% below {EPOCH_GREEDY} at the end"] == "holds"


def figure4_verdicts(**changes):
    (study,) = studies("figure4")
    finals = GOOD | {globals()[key]: value for key, value in changes.items()}
    return verdicts(figure4.analyse({"figure4": pretend(study, finals)}))


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
    for item in ITEMS.values():
        section = item.analyse({study.name: pretend(study, GOOD) for study in studies(item.name)})
        words += [c.words for part in section.parts if isinstance(part, Claims) for c in part.claims]
    assert len(words) == len(set(words))


def test_figure_s1_calls_a_constant_that_matters_sensitive():
    flat = {study.name: pretend(study, {}) for study in studies("figureS1")}
    assert set(verdicts(figure_s1.analyse(flat)).values()) == {"holds"}
    steep = {study.name: pretend(study, {next(iter(study.policies)): 300}) for study in studies("figureS1")}
    assert set(verdicts(figure_s1.analyse(steep)).values()) == {"does not hold here"}


def test_slopes_are_those_of_powers():
    x = [2.0, 4.0, 16.0]
    regrets = np.array([[3 * value**0.5, 7 * value**2] for value in x])
    assert table1.slopes(regrets, x) == pytest.approx([0.5, 2.0])


def table1_verdicts(in_n, in_p):
    """Verdicts when each policy's regret grows with given exponents."""
    results = {}
    for study in studies("table1"):
        runs = []
        for name, make in study.environments.items():
            for policy in study.policies:
                c, b = in_n.get(policy, 0.3), in_p.get(policy, 1.0)
                for i in range(5):
                    rounds = np.unique(np.concatenate([np.arange(1, study.horizon + 1, 10), [study.horizon // 5]]))
                    rounds = np.append(rounds[rounds < study.horizon], study.horizon)
                    runs.append(Run(name, policy, i, rounds, (1 + 0.01 * i) * make.p**b * rounds**c, 0.1))
        results[study.name] = Comparison(tuple(runs))
    return verdicts(table1.analyse(results))


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
    study = studies("figure4")[0]
    comparison = with_hindsight(pretend(study, GOOD))
    for environment in comparison.environments:
        assert best_multiplier(comparison, environment) == MULTIPLIERS[1]
        assert np.array_equal(comparison.at(TUNED, environment), comparison.at(tuned(MULTIPLIERS[1]), environment))


def test_merging_cuts_runs_at_a_round():
    study = studies("figure2")[1]
    cut = merge(pretend(study, GOOD), until=100)
    assert all(run.rounds[-1] <= 100 and len(run.rounds) == len(run.regret) for run in cut.runs)
