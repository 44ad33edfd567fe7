import subprocess
import sys
from dataclasses import replace

import narwhals as nw
import numpy as np
import pytest
from scipy import stats

import tensorbandits as tb
from tensorbandits.base import frames
from tensorbandits.policies import registry
from tensorbandits.policies.base import Policy
from tensorbandits.policies.ucb import VectorizedUCB
from tensorbandits.sim.backends import run_jobs
from tensorbandits.sim.compare import Comparison, compare
from tensorbandits.sim.environment import TensorEnvironment, paper_tensor
from tensorbandits.sim.jobs import Job, Run, run_job
from tensorbandits.sim.plots import plot_regret
from tensorbandits.sim.where import Where


class Random(Policy):
    def _choose(self, query, rng):
        return query.cell(int(rng.choice(query.arms())))

    def _best(self, query):
        return self._choose(query, self._rng)

    def _estimate(self, cells):
        return np.zeros(len(cells))


SHAPE = (4, 4, 4)
POLICIES = {"random": lambda seed: Random(SHAPE, seed=seed), "ucb": lambda seed: VectorizedUCB(SHAPE)}


def environment(seed):
    return TensorEnvironment(paper_tensor(4, seed=seed), seed=seed)


@pytest.fixture(scope="module")
def comparison():
    worlds = {
        "strong": lambda i: TensorEnvironment(paper_tensor(4, 0.8, seed=i), seed=i),
        "weak": environment,
    }
    return compare(POLICIES, worlds, horizon=700, replications=4)


def test_runs_come_in_order_with_about_500_points(comparison):
    assert [(r.environment, r.policy, r.replication) for r in comparison.runs] == [
        (world, name, i) for world in ("strong", "weak") for name in ("random", "ucb") for i in range(4)
    ]
    for run in comparison.runs:
        assert 300 < len(run.rounds) <= 500
        assert (run.rounds[0], run.rounds[-1]) == (1, 700)
        assert (np.diff(run.regret) >= 0).all()


def test_a_policy_name_and_its_place_do_not_change_its_results(comparison):
    alone = compare({"other name": POLICIES["random"]}, environment, horizon=700, replications=2)
    for one, two in zip(alone.runs, comparison.select("random", "weak"), strict=False):
        assert np.array_equal(one.regret, two.regret)


@pytest.mark.slow  # the files that two processes write are compared in every run, in test_backends.py
def test_processes_do_not_change_the_results():
    one, two = (compare(POLICIES, environment, horizon=50, replications=3, n_jobs=n) for n in (1, 2))
    for a, b in zip(one.runs, two.runs, strict=True):
        assert (a.policy, a.replication) == (b.policy, b.replication)
        assert np.array_equal(a.regret, b.regret)


def test_replication_i_plays_on_the_environment_of_seed_plus_i():
    seen = []

    def recorded(seed):
        seen.append(seed)
        return environment(seed)

    compare(POLICIES, recorded, horizon=5, replications=3, seed=7)
    assert sorted(seen) == [7, 7, 8, 8, 9, 9]


def test_policies_of_different_replications_draw_differently():
    runs = compare({"random": POLICIES["random"]}, lambda seed: environment(0), horizon=30, replications=3).runs
    assert len({run.final for run in runs}) == 3


def test_the_table_summarises_final_regrets(comparison):
    rows = {(row.environment, row.policy): row for row in comparison.table(baseline="ucb")}
    assert list(rows) == [("strong", "random"), ("strong", "ucb"), ("weak", "random"), ("weak", "ucb")]
    row = rows["weak", "random"]
    finals = [run.final for run in comparison.select("random", "weak")]
    assert row.replications == 4
    assert row.mean == pytest.approx(np.mean(finals))
    assert row.standard_error == pytest.approx(stats.sem(finals))
    assert row.median == pytest.approx(np.median(finals))
    assert row.worst == max(finals)
    assert row.ratio == pytest.approx(row.mean / rows["weak", "ucb"].mean)
    assert rows["weak", "ucb"].ratio == 1.0
    assert 0.1 < row.microseconds < 1e5
    assert {row.ratio for row in comparison.table()} == {None}


def test_curves_have_a_student_band(comparison):
    rounds, mean, half = comparison.curves("random", "weak")
    finals = [run.final for run in comparison.select("random", "weak")]
    low, high = stats.t.interval(0.95, 3, loc=np.mean(finals), scale=stats.sem(finals))
    assert rounds[-1] == 700
    assert (mean[-1] - half[-1], mean[-1] + half[-1]) == pytest.approx((low, high))


def test_one_replication_has_no_standard_error_and_no_band():
    one = compare({"ucb": POLICIES["ucb"]}, environment, horizon=5, replications=1)
    assert np.isnan(one.table()[0].standard_error)
    assert np.isnan(one.curves("ucb")[2]).all()


def test_progress_sees_each_run_once():
    seen = []
    compare(POLICIES, environment, horizon=5, replications=2, progress=seen.append)
    assert sorted((run.policy, run.replication) for run in seen) == [
        (name, i) for name in ("random", "ucb") for i in range(2)
    ]


def test_jobs_can_be_streamed_without_a_collector():
    jobs = [Job("weak", "ucb", i, environment, POLICIES["ucb"], 10) for i in range(3)]
    assert {run.replication for run in run_jobs(jobs)} == {0, 1, 2}
    assert run_job(jobs[1]).final == run_job(jobs[1]).final


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_names_the_job(n_jobs):
    wrong = {"wrong shape": lambda seed: VectorizedUCB((2, 2))}
    with pytest.raises(ValueError, match="same shape") as caught:
        compare(wrong, environment, horizon=5, replications=1, n_jobs=n_jobs)
    assert any("'wrong shape'" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"policies": {}}, TypeError, "at least one by name"),
        ({"policies": {"ucb": VectorizedUCB((4, 4, 4))}}, TypeError, "'ucb'.*cannot start anew.*lambda seed"),
        ({"policies": {"env": TensorEnvironment}}, TypeError, "'env'.*give a function, a recipe, a class or a name"),
        (
            {"policies": {"typo": "thomson"}},
            ValueError,
            r"policies\['typo'\]: policy is 'thomson'; allowed are thompson",
        ),
        ({"policies": {"far": "nowhere:Mine"}}, ValueError, r"policies\['far'\].*cannot be imported"),
        ({"policies": {3: "ucb"}}, TypeError, "the name 3 is no string"),
        ({"policies": [VectorizedUCB]}, TypeError, "by name"),
        ({"environments": TensorEnvironment(np.zeros(3))}, TypeError, "lambda seed"),
        ({"environments": {}}, TypeError, "give a function"),
        ({"horizon": 0}, ValueError, "horizon is 0"),
        ({"replications": 0}, ValueError, "replications is 0"),
        ({"n_jobs": 0}, ValueError, "n_jobs is 0"),
        ({"n_jobs": 1.0}, ValueError, r"n_jobs is 1\.0"),
        ({"seed": -1}, ValueError, "seed is -1"),
    ],
)
def test_bad_input_is_refused(arguments, error, message):
    good = {"policies": POLICIES, "environments": environment, "horizon": 5, "replications": 1}
    with pytest.raises(error, match=message):
        compare(**(good | arguments))


def test_a_class_a_name_a_text_and_advice_make_the_policy_that_a_function_does():
    advice = tb.recommend(SHAPE, 2, 50, goal="compute")
    ways = {
        "function": lambda seed: tb.TensorEpochGreedy(SHAPE, "auto", seed=seed),
        "class": tb.TensorEpochGreedy,
        "name": "epoch-greedy",
        "recipe": tb.PolicyRecipe("epoch-greedy"),
    }
    runs = compare(ways, environment, horizon=50, replications=2).runs
    assert len({(run.replication, run.final) for run in runs}) == 2
    told = {"text": f"{tb.PolicyRecipe(advice)}", "advice": advice, "function": lambda seed: advice.make(seed)}
    runs = compare(told, environment, horizon=50, replications=2).runs
    assert len({(run.replication, run.final) for run in runs}) == 2


def test_a_policy_that_was_registered_is_known_by_its_name_in_every_process():
    tb.register(Random, "at-random")
    try:
        runs = compare(
            {"a": "at-random", "b": POLICIES["random"]}, environment, horizon=20, replications=2, n_jobs=2
        ).runs
    finally:
        del registry._RECORDS["at-random"]
    assert [run.final for run in runs[:2]] == [run.final for run in runs[2:]]


SCRIPT = """
import sys
import numpy as np
import tensorbandits as tb

class Mine(tb.VectorizedUCB):
    def _score(self):
        return CONSTANT

CONSTANT = 2

if __name__ == "__main__":
    tb.register(Mine, "mine")
    policies = {"class": Mine, "name": "mine", "function": lambda seed: Mine((3, 3, 3), seed=seed)}
    found = tb.compare(policies, tb.PaperWorld(p=3), horizon=30, replications=2, **eval(sys.argv[1]))
    print(sorted({run.final for run in found.runs}))
"""


TWO = pytest.param({"n_jobs": 2}, marks=pytest.mark.slow)  # as with a folder, but for what is written there
DASK = pytest.param({"backend": "dask", "n_jobs": 2}, marks=pytest.mark.slow)


@pytest.mark.parametrize("where", [TWO, {"n_jobs": 2, "folder": "results"}, DASK])
def test_a_policy_of_a_script_plays_in_other_processes(where, tmp_path):
    if where.get("backend") == "dask":
        pytest.importorskip("distributed")
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", repr(where)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    alone = compare({"ucb": "ucb"}, tb.PaperWorld(p=3), horizon=30, replications=2)
    assert done.stdout.strip() == str(sorted({run.final for run in alone.runs}))


def test_where_to_run_is_said_in_one_way():
    two = compare(POLICIES, environment, horizon=5, replications=1, where=Where(2))
    assert len(two.runs) == 2
    with pytest.raises(ValueError, match="give one or the other"):
        compare(POLICIES, environment, horizon=5, where=Where(2), n_jobs=1)
    with pytest.raises(TypeError, match=r"where is 2; give a Where"):
        compare(POLICIES, environment, horizon=5, where=2)


def test_numpy_integers_are_numbers_of_processes():
    assert len(compare(POLICIES, environment, horizon=np.int64(5), replications=1, n_jobs=np.int64(1)).runs) == 2


@pytest.mark.parametrize("missing", ["joblib", "threadpoolctl"])
def test_a_comparison_without_the_extra_names_the_remedy(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError, match=rf"needs {missing}.*pip install 'tensorbandits\[experiments\]'"):
        compare(POLICIES, environment, horizon=5, replications=1)


def test_a_figure_without_the_extra_names_the_remedy(comparison, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs matplotlib.*pip install 'tensorbandits\[experiments\]'"):
        plot_regret(comparison, tmp_path / "regret.png")
    assert list(tmp_path.iterdir()) == []


def test_unknown_names_are_refused(comparison):
    with pytest.raises(ValueError, match="several environments"):
        comparison.curves("ucb")
    with pytest.raises(ValueError, match=r"'ucb1'.*\['random', 'ucb'\]"):
        comparison.curves("ucb1", "weak")
    with pytest.raises(ValueError, match="'nowhere'"):
        comparison.table(baseline="nowhere")


def test_a_baseline_without_regret_gives_no_ratio():
    runs = tuple(Run("e", name, 0, np.array([1]), np.array([x]), 1.0) for name, x in (("a", 0.0), ("b", 2.0)))
    assert all(np.isnan(row.ratio) for row in Comparison(runs).table(baseline="a"))


AWKWARD = [
    "usd_$_per_$_click",
    "one $ only",
    r"back\slash\$ \alpha",
    "_hidden",
    "two\nlines\tand a tab",
    "emoji \N{PILE OF POO} \N{GRINNING FACE}",
    "long " * 100,
    "null \0 and \ud800 surrogate",
    "{braces} ^caret_ %s & <b>",
    "",
]


def test_names_of_any_letters_are_drawn_as_they_are(tmp_path):
    runs = tuple(Run("e", name, i, np.array([1, 2]), np.array([1.0, 2.0 + i]), 1.0) for name in AWKWARD for i in (0, 1))
    worlds = tuple(Run(name, "ucb", 0, np.array([1, 2]), np.array([1.0, 2.0]), 1.0) for name in AWKWARD[:8:3])
    plot_regret(Comparison(worlds), tmp_path / "worlds.svg")
    for suffix in ("png", "svg"):
        figure = plot_regret(Comparison(runs), tmp_path / f"awkward.{suffix}", title=" ".join(AWKWARD))
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(shown) == len(AWKWARD)
    for name, text in zip(AWKWARD[:4], shown):
        assert text.strip().replace(r"\$", "$") == name


def test_a_policy_with_an_underscore_or_with_a_name_like_another_is_in_the_legend():
    names = ["_one", "x" * 100 + "a" + "y" * 100, "x" * 100 + "b" + "y" * 100]
    runs = tuple(Run("e", name, 0, np.array([1, 2]), np.array([1.0, 2.0]), 1.0) for name in names)
    assert len(plot_regret(Comparison(runs)).legends[0].get_texts()) == 3


def test_a_figure_is_returned_and_drawn_into_axes_that_are_given(comparison, tmp_path):
    from matplotlib.figure import Figure

    assert len(plot_regret(comparison).axes) == 4
    weak = Comparison(tuple(run for run in comparison.runs if run.environment == "weak"))
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_regret(weak, tmp_path / "both.png", "weak", axes=left) is figure
    assert (len(left.lines), len(right.lines), left.get_title()) == (2, 0, "weak")
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["random", "ucb"]
    with pytest.raises(ValueError, match="the comparison has 2; leave out axes"):
        plot_regret(comparison, axes=right)
    assert list(tmp_path.iterdir()) == [tmp_path / "both.png"]


def test_results_are_shown_in_one_line(comparison):
    trace = tb.simulate(VectorizedUCB(SHAPE), environment(0), 1000)
    for value in (comparison, comparison.runs[0], trace, Comparison(()), replace(trace, rewards=np.zeros(0))):
        assert len(repr(value)) < 150
        assert "\n" not in repr(value)
    assert repr(comparison).startswith("Comparison(16 runs of at most 700 rounds: policies 'random', 'ucb'")
    many = Comparison(tuple(replace(comparison.runs[0], policy=str(i)) for i in range(500)))
    assert "'7' and 492 more" in repr(many)


@pytest.mark.parametrize("missing", [(), ("pandas",), ("pandas", "polars")])
def test_results_become_data_frames_of_what_is_installed(comparison, missing, monkeypatch):
    real = frames.find_spec
    monkeypatch.setattr(frames, "find_spec", lambda name: None if name in missing else real(name))
    frame = comparison.to_frame()
    assert type(frame).__module__.split(".")[0] == ("pandas", "polars", "pyarrow")[len(missing)]
    rows = nw.from_native(frame).rows(named=True)
    assert len(rows) == sum(len(run.rounds) for run in comparison.runs)
    assert list(rows[-1].values()) == ["weak", "ucb", 3, 700, comparison.runs[-1].final]
    trace = tb.simulate(VectorizedUCB(SHAPE), environment(0), 5)
    rows = nw.from_native(trace.to_frame()).rows()
    assert rows[-1] == (5, *trace.cells[-1], trace.rewards[-1], trace.regret[-1])


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_figure_is_written_without_touching_global_state(comparison, tmp_path, suffix):
    before = "matplotlib.pyplot" in sys.modules
    path = tmp_path / f"regret.{suffix}"
    plot_regret(comparison, path, title="Two environments")
    start = path.read_bytes()[:8]
    assert start == b"\x89PNG\r\n\x1a\n" if suffix == "png" else start.startswith(b"<?xml")
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_the_figure_of_one_replication_without_regret_is_drawn(tmp_path):
    run = Run("e", "perfect", 0, np.array([1, 2]), np.array([0.0, 0.0]), 1.0)
    plot_regret(Comparison((run,)), tmp_path / "flat.png")
    assert (tmp_path / "flat.png").stat().st_size > 10_000


def test_a_rehearsal_changes_nothing_of_a_run():
    """What is measured starts with everything loaded, and plays what the policy alone would."""
    mean = np.random.default_rng(0).standard_normal((3, 4))
    job = Job(
        "world",
        "thompson",
        0,
        lambda seed: tb.TensorEnvironment(mean, context=(0,), seed=seed),
        lambda seed: tb.TensorThompsonSampling((3, 4), 1, context=(0,), seed=seed),
        horizon=50,
    )
    alone = tb.simulate(job.make_policy(np.random.SeedSequence(0, spawn_key=(0,))), job.make_environment(0), 50)
    assert run_job(job).final == alone.regret[-1]
