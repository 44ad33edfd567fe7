import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from tensorbandits.cli import application
from tensorbandits.paper.evaluation import reproduce

ARGUMENTS = ["reproduce", "figure3", "--quick", "--replications", "1", "--jobs", "1"]


def numbers(folder):
    words = (folder / "report.md").read_text(encoding="utf-8")
    return words[: words.index("## How this was run")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    result = CliRunner().invoke(application(), [*ARGUMENTS, "--out", str(folder)])
    assert result.exit_code == 0, result.output
    assert "verdicts on 8 claims: holds 0, does not hold here 0, not decided 8" in result.output  # of one replication
    return folder


def test_the_report_has_summary_figures_verdicts_and_how_it_was_run(whole):
    words = (whole / "report.md").read_text(encoding="utf-8")
    for expected in (
        "## Summary",
        "No verdict below should be believed",
        "## Figure 3: contextual real data",
        "(figures/figure3.png)",
        "ensemble sampling is 75% below vectorized UCB at the end",
        "regret after 1,000 rounds, 1 replications",
        "`SeedSequence(0)`",
        "| vectorized UCB | ucb:paper=true | figure3 |",
    ):
        assert expected in words


def test_the_same_again_reads_what_is_there(whole):
    made = {path: path.stat().st_mtime_ns for path in whole.rglob("*.parquet")}
    before = numbers(whole)
    reproduce(["figure3"], whole, quick=True, replications=1)
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*.parquet")} == made
    assert numbers(whole) == before


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_to_the_same_numbers(whole, tmp_path):
    command = [sys.executable, "-m", "tensorbandits", *ARGUMENTS, "--out", str(tmp_path)]
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 120
    while len(list(tmp_path.rglob("*.parquet"))) < 2 and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert 2 <= len(kept) < 6, "killed too late, or never began"
    assert not (tmp_path / "report.md").exists()
    subprocess.run(command, check=True, capture_output=True)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert numbers(tmp_path) == numbers(whole)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["figure9"], "no item 'figure9'"),
        (["figure2", "--replications", "0"], "--replications is 0"),
        (["figure2", "--jobs", "0"], "--jobs is 0"),
        (["figure2", "--seed", "-1"], "--seed is -1"),
    ],
)
def test_wrong_input_gets_one_clear_line(arguments, words, tmp_path):
    result = CliRunner().invoke(application(), ["reproduce", *arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_settings_are_listed_for_each_experiment_that_has_them():
    from tensorbandits.paper.evaluation import _how, choose_items, plan
    from tensorbandits.paper.item import Results
    from tensorbandits.sim.compare import Comparison

    experiments = plan(choose_items(["figure2", "figure4"]).values(), quick=True)
    section = _how(Results(experiments, dict.fromkeys(experiments, Comparison(()))), 1, 60.0, "")
    rows = section.parts[-1].rows
    assert ["elimination", "elimination:rank=2,paper=true", "figure2"] in rows
    assert ["elimination", "elimination:rank=3,paper=true", "figure4"] in rows


def test_replications_of_0_are_refused(tmp_path):
    with pytest.raises(ValueError, match="replications is 0"):
        reproduce(["figure3"], tmp_path, replications=0)
