"""Settings that can be run, and verdicts that follow the numbers; what the policies really do is for the full run."""

import numpy as np
import pytest

from tensorbandits.paper import figure2, figure3, figure4, figure_s1, table1
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
from tensorbandits.paper.reproduce import ITEMS, choose_items, plan
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
    for study in plan(choose_items(["all"]), quick):
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
    studies = [study.name for item in ITEMS.values() for study in item.studies(True)]
    assert len(studies) == len(set(studies))


def test_the_quick_form_is_far_smaller():
    def rounds(quick):
        return sum(len(s.policies) * len(s.environments) * s.horizon for s in plan(choose_items([]), quick))

    assert rounds(True) < rounds(False) / 5


@pytest.mark.parametrize("name", list(ITEMS))
def test_every_item_draws_its_figures(name, tmp_path):
    item = ITEMS[name]
    section = item.analyse({study.name: pretend(study, GOOD) for study in item.studies(True)})
    pictures = [part for part in section.parts if isinstance(part, Picture)]
    assert pictures
    for picture in pictures:
        picture.draw(tmp_path / f"{picture.name}.png")
        assert (tmp_path / f"{picture.name}.png").stat().st_size > 20_000
    assert len({picture.name for picture in pictures}) == len(pictures)
    assert verdicts(section)


def figure2_verdicts(**changes):
    short, long = figure2.studies(True)
    finals = GOOD | {globals()[key]: value for key, value in changes.items()}
    return verdicts(figure2.analyse({"figure2": pretend(short, finals), "figure2-long": pretend(long, finals)}))


ORDER = "Ensemble sampling outperforms all other methods in all settings"
SECOND = "Elimination is second: better than the others at a long horizon"
SHARE = "Thompson sampling's mean is at most 0.6 of ensemble sampling's"
TAIL = "Thompson sampling's worst replication is at most 3 times its median"


def test_figure_2_reads_the_order_of_the_policies():
    found = figure2_verdicts()
    assert (found[ORDER], found[SECOND], found[SHARE], found[TAIL]) == ("holds",) * 4
    assert figure2_verdicts(UCB=1)[ORDER] == "does not hold here"
    assert figure2_verdicts(ESTR=30)[SECOND] == "does not hold here"
    assert figure2_verdicts(THOMPSON=13)[SHARE] == "does not hold here"


def test_figure_2_notices_a_heavy_tail():
    short, long = figure2.studies(True)
    runs = list(pretend(long, GOOD).runs)
    at = next(i for i, run in enumerate(runs) if run.policy == THOMPSON)
    runs[at] = Run(runs[at].environment, THOMPSON, 0, runs[at].rounds, 4 * runs[at].regret, 0.1)
    found = verdicts(figure2.analyse({"figure2": pretend(short, GOOD), "figure2-long": Comparison(tuple(runs))}))
    assert found[TAIL] == "does not hold here"


def test_figure_2_looks_early_for_epoch_greedy():
    short, long = figure2.studies(True)
    results = {"figure2": pretend(short, GOOD, early={EPOCH_GREEDY: 3.0}), "figure2-long": pretend(long, GOOD)}
    assert verdicts(figure2.analyse(results))["Epoch-greedy is better early: below elimination"] == "holds"
    assert figure2_verdicts()["Epoch-greedy is better early: below elimination"] == "does not hold here"


def test_figure_3_measures_how_far_below():
    (study,) = figure3.studies(True)
    found = verdicts(figure3.analyse({"figure3": pretend(study, GOOD | {ENSEMBLE: 41})}))
    assert found[f"{ENSEMBLE} is 75% below {UCB} at the end"] == "does not hold here"
    assert found[f"{THOMPSON} is 75% below {UCB} at the end"] == "holds"
    assert found[f"{THOMPSON} is 85.6% below {EPOCH_GREEDY} at the end"] == "holds"


def test_figure_4_judges_each_data_set():
    (study,) = figure4.studies(True)
    claims = [
        claim
        for part in figure4.analyse({"figure4": pretend(study, GOOD)}).parts
        if isinstance(part, Claims)
        for claim in part.claims
    ]
    assert len(claims) == 12
    assert sum(claim.measured.startswith("bikes") for claim in claims) == 6


def test_figure_s1_calls_a_constant_that_matters_sensitive():
    studies = figure_s1.studies(True)
    flat = {study.name: pretend(study, {}) for study in studies}
    assert set(verdicts(figure_s1.analyse(flat)).values()) == {"holds"}
    steep = {study.name: pretend(study, {next(iter(study.policies)): 300}) for study in studies}
    assert set(verdicts(figure_s1.analyse(steep)).values()) == {"does not hold here"}


def test_slopes_are_those_of_powers():
    x = [2.0, 4.0, 16.0]
    regrets = np.array([[3 * value**0.5, 7 * value**2] for value in x])
    assert table1.slopes(regrets, x) == pytest.approx([0.5, 2.0])


def test_table_1_compares_slopes_with_the_exponents_of_the_paper():
    results = {study.name: pretend(study, GOOD) for study in table1.studies(True)}  # linear in n
    assert verdicts(table1.analyse(results))["Regret grows in n with the exponents of Table 1 at most"] != "holds"


def test_hindsight_takes_the_best_multiplier_of_each_environment():
    study = figure4.studies(True)[0]
    comparison = with_hindsight(pretend(study, GOOD))
    for environment in comparison.environments:
        assert best_multiplier(comparison, environment) == MULTIPLIERS[1]
        assert np.array_equal(comparison.at(TUNED, environment), comparison.at(tuned(MULTIPLIERS[1]), environment))


def test_merging_cuts_runs_at_a_round():
    study = figure2.studies(True)[1]
    cut = merge(pretend(study, GOOD), until=100)
    assert all(run.rounds[-1] <= 100 and len(run.rounds) == len(run.regret) for run in cut.runs)
