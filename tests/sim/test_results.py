"""A results folder: every run once, never mixed, whole or not at all."""

import json
import os
import re
import subprocess
import sys
import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest

import tensorbandits as tb
from tensorbandits.sim import plan
from tensorbandits.sim.jobs import Job
from tensorbandits.sim.results import ResultsFolder

RECIPES = {"thompson": tb.PolicyRecipe("thompson"), "ucb": tb.PolicyRecipe("ucb")}
WORLDS = {"three": tb.PaperWorld(p=3), "four": tb.PaperWorld(p=4)}


def sweep(folder, policies=RECIPES, environments=WORLDS, **settings):
    return tb.compare(policies, environments, folder=folder, **({"horizon": 60, "replications": 2} | settings))


def files(folder):
    return {path.relative_to(folder): path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}


@pytest.fixture
def kept(tmp_path):
    comparison = sweep(tmp_path)
    assert comparison.kept == 0
    return tmp_path, comparison


def same(one, two):
    for a, b in zip(one.runs, two.runs, strict=True):
        assert (a.environment, a.policy, a.replication, a.seconds) == (
            b.environment,
            b.policy,
            b.replication,
            b.seconds,
        )
        assert np.array_equal(a.rounds, b.rounds)
        assert np.array_equal(a.regret, b.regret)


def test_the_same_comparison_again_only_reads(kept):
    folder, first = kept
    before = files(folder)
    again = sweep(folder)
    assert again.kept == 8
    assert files(folder) == before
    same(first, again)
    same(first, tb.Comparison.read(folder))
    same(first, tb.compare(RECIPES, WORLDS, horizon=60, replications=2, folder=folder, n_jobs=2))


def test_any_tool_reads_the_files(kept):
    folder, comparison = kept
    frame = polars.read_parquet(folder / "runs" / "**" / "*.parquet")
    assert frame.columns == ["environment", "policy", "replication", "round", "regret"]
    assert len(frame) == 8 * 60
    last = frame.filter(round=60, policy="ucb", environment="four").sort("replication")["regret"].to_list()
    assert last == [run.final for run in comparison.select("ucb", "four")]


def test_more_replications_only_add(kept):
    folder, _ = kept
    before = files(folder)
    more = sweep(folder, replications=3)
    assert more.kept == 8
    assert {name: files(folder)[name] for name in before} == before
    assert len(files(folder)) == 12
    assert sweep(folder, replications=1).kept == 4
    assert len(tb.Comparison.read(folder).runs) == 4


@pytest.mark.parametrize(
    "changed",
    [
        {"horizon": 61},
        {"seed": 1},
        {"policies": RECIPES | {"ucb": tb.PolicyRecipe("ucb", {"scale": 2.0})}},
        {"environments": {"three": tb.PaperWorld(p=3, noise=0.5), "four": tb.PaperWorld(p=4, noise=0.5)}},
    ],
)
def test_other_settings_are_kept_apart(kept, changed):
    folder, first = kept
    before = files(folder)
    other = sweep(folder, **changed)
    assert other.kept == (4 if "policies" in changed else 0)
    assert {name: files(folder)[name] for name in before} == before
    assert sweep(folder).kept == 8
    same(first, tb.Comparison.read(folder))


def test_other_code_is_kept_apart(kept, monkeypatch):
    folder, _ = kept
    monkeypatch.setattr(plan, "source_digest", lambda: "other")
    assert sweep(folder).kept == 0


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "removed", "of another run"])
def test_a_damaged_file_is_made_again(kept, damage):
    folder, first = kept
    victim, other = sorted(folder.rglob("*.parquet"))[:2]
    whole = victim.read_bytes()
    if damage == "removed":
        victim.unlink()
    else:
        at = len(whole) // 4
        flipped = whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :]
        texts = {"cut": whole[:-200], "empty": b"", "flipped": flipped, "of another run": other.read_bytes()}
        victim.write_bytes(texts[damage])
    with pytest.raises(ValueError, match="1 of the 8 runs"):
        tb.Comparison.read(folder)
    with nullcontext() if damage == "removed" else pytest.warns(match="1 of the 8 runs .* made again"):
        again = sweep(folder)
    assert again.kept == 7
    assert victim.read_bytes() == whole
    assert [run.final for run in again.runs] == [run.final for run in first.runs]


@pytest.mark.parametrize("name", ["*.parquet", "times.jsonl", "comparison.json", "settings.json"])
def test_a_wrong_byte_anywhere_never_gives_a_wrong_number_or_stops_a_comparison(name, tmp_path):
    """Each byte of a class of files, at random: a comparison goes on, and reading it gives the truth or an error."""
    first = sweep(tmp_path, {"ucb": tb.PolicyRecipe("ucb")}, tb.PaperWorld(p=2), horizon=9, replications=2)
    victim, rng = sorted(tmp_path.rglob(name))[0], np.random.default_rng(0)
    whole = victim.read_bytes()
    times = (tmp_path / "times.jsonl").read_bytes()
    for position in rng.integers(len(whole), size=25):
        value = whole[position] ^ int(rng.integers(1, 256))
        victim.write_bytes(whole[:position] + bytes([value]) + whole[position + 1 :])
        try:
            same(first, tb.Comparison.read(tmp_path))
        except ValueError as error:
            words = str(error)
            assert re.search("damaged.* run the same comparison again", words), words
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            again = sweep(tmp_path, {"ucb": tb.PolicyRecipe("ucb")}, tb.PaperWorld(p=2), horizon=9, replications=2)
        assert len(said) == (again.kept < 2)
        for one, two in zip(first.runs, again.runs, strict=True):
            assert np.array_equal(one.rounds, two.rounds)
            assert np.array_equal(one.regret, two.regret)
        victim.write_bytes(whole)
        (tmp_path / "times.jsonl").write_bytes(times)


def test_a_file_that_is_whole_but_too_short_is_no_run(kept):
    """As one that another program cut, with checksums and all."""
    folder, _ = kept
    results = ResultsFolder(folder, [Job("three", "ucb", 0, WORLDS["three"], RECIPES["ucb"], 60)])
    whole = results.kept()[0]
    for shorter in (slice(0, 59), slice(1, 60)):
        results.write(replace(whole, rounds=whole.rounds[shorter], regret=whole.regret[shorter]))
        with pytest.warns(match="1 of the 8 runs"):
            assert sweep(folder).kept == 7
        assert sweep(folder).kept == 8


def test_a_run_whose_time_is_lost_is_made_again(kept):
    folder, first = kept
    lines = (folder / "times.jsonl").read_text().splitlines()
    (folder / "times.jsonl").write_text("\n".join([*lines[:-1], lines[-1][:15]]))
    with pytest.warns(match=r"1 of the 8 runs .* times\.jsonl"):
        again = sweep(folder)  # a new line starts afresh after the broken one
    assert again.kept == 7
    assert [run.final for run in again.runs] == [run.final for run in first.runs]
    assert sweep(folder).kept == 8
    assert all(run.seconds > 0 for run in tb.Comparison.read(folder).runs)


def test_settings_that_are_damaged_are_said_anew(kept):
    folder, _ = kept
    place = next(folder.glob("runs/*/settings.json"))
    said = json.loads(place.read_text())["policy"]
    place.write_text("{")
    sweep(folder)
    assert json.loads(place.read_text())["policy"] == said


def test_what_was_run_is_said_in_words(kept):
    folder, _ = kept
    summary = json.loads((folder / "comparison.json").read_text())
    assert (summary["horizon"], summary["replications"], summary["seed"]) == (60, 2, 0)
    assert [world["made_by"] for world in summary["environments"]] == ["paper:p=3", "paper:p=4"]
    assert summary["environments"][0]["shape"] == [3, 3, 3]
    assert set(summary["versions"]) == {"python", "numpy", "scipy", "numba", "tensorbandits"}
    assert len(summary["runs"]) == 8
    for settings in folder.glob("runs/*/settings.json"):
        said = json.loads(settings.read_text())
        assert said["policy"]["arguments"]["shape"] == said["environment"]["shape"]
    everything = "".join(path.read_text() for path in folder.rglob("*.json"))
    assert os.uname().nodename not in everything
    assert str(Path.home()) not in everything
    assert str(folder) not in everything


def test_runs_are_written_one_by_one(tmp_path):
    """What is finished is there when the next one fails."""

    def breaking(seed):
        if seed == 2:
            raise ValueError("the third world is broken")
        return tb.PaperWorld(p=3)(seed)

    seen = []

    def stop(run):
        seen.append(len(files(tmp_path)))
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(tmp_path, environments=tb.PaperWorld(p=3), progress=stop)
    assert seen == [1, 2, 3]
    assert sweep(tmp_path, environments=tb.PaperWorld(p=3)).kept == 3
    with pytest.raises(ValueError, match="third world"):
        sweep(tmp_path, environments=breaking, replications=3)
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("maker", ["environment", "policy"])
def test_what_ignores_its_seed_is_refused(tmp_path, maker):
    policies = {"ucb": lambda seed: tb.VectorizedUCB((2, 2), seed=None if maker == "policy" else seed)}
    with pytest.raises(ValueError, match=f"the {maker} .* each time it is made"):
        sweep(
            tmp_path,
            policies,
            lambda seed: tb.TensorEnvironment(np.eye(2), seed=None if maker == "environment" else seed),
        )


def test_what_cannot_be_told_apart_is_refused(tmp_path):
    import threading

    def world(seed):
        made = tb.TensorEnvironment(np.eye(2), seed=seed)
        made.lock = threading.Lock()
        return made

    with pytest.raises(TypeError, match=r"the environment 'environment' holds something.*leave out folder"):
        sweep(tmp_path, {"ucb": tb.PolicyRecipe("ucb")}, world)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("precious")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(NotADirectoryError, match="which is or lies in a file"):
            sweep(place)
    with pytest.raises(FileNotFoundError, match="holds no comparison"):
        tb.Comparison.read(tmp_path)


SHARED = """
import sys
import tensorbandits as tb
def play(**more):
    tb.compare({"thompson": tb.PolicyRecipe("thompson")}, tb.PaperWorld(p=3), horizon=300, replications=6, **more)
play()
print("ready", flush=True)
play(folder=sys.argv[1])
"""


@pytest.mark.slow
def test_two_processes_in_one_folder_do_no_harm(tmp_path):
    """This one, and another that has loaded all it needs when both begin."""
    command = [sys.executable, "-c", SHARED, str(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    recipes = {"thompson": tb.PolicyRecipe("thompson")}
    tb.compare(recipes, tb.PaperWorld(p=3), horizon=300, replications=6)
    with subprocess.Popen(command, **pipes) as other:
        assert other.stdout.readline() == "ready\n"
        tb.compare(recipes, tb.PaperWorld(p=3), horizon=300, replications=6, folder=tmp_path)
        assert other.communicate(timeout=120)[1] == ""
    assert other.returncode == 0
    assert len(tb.Comparison.read(tmp_path).runs) == 6


@pytest.mark.slow
def test_two_processes_that_start_in_one_folder_do_no_harm(tmp_path):
    code = (
        "import tensorbandits as tb\n"
        f"tb.compare({{'thompson': tb.PolicyRecipe('thompson')}}, tb.PaperWorld(p=3), horizon=300, replications=6, "
        f"folder={str(tmp_path)!r})"
    )
    both = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        assert process.communicate(timeout=120)[1] == ""
        assert process.returncode == 0
    assert len(tb.Comparison.read(tmp_path).runs) == 6


@pytest.mark.parametrize("changed", ["numpy", "scipy", "numba", "tensorbandits"])
def test_results_of_other_versions_of_what_computes_are_not_mixed(changed, tmp_path, monkeypatch):
    sweep(tmp_path, RECIPES, WORLDS, horizon=5, replications=1)
    assert sweep(tmp_path, RECIPES, WORLDS, horizon=5, replications=1).kept
    real = plan.software
    monkeypatch.setattr(plan, "software", lambda: real() | {changed: "0.0.1"})
    assert not sweep(tmp_path, RECIPES, WORLDS, horizon=5, replications=1).kept
