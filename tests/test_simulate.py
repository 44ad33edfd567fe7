"""``tensorbandits simulate``: from the command line to the files, also when it is killed half-way."""

import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import tensorbandits as tb
from tensorbandits.cli import application

SMALL = ["--policy", "thompson", "--policy", "ensemble:paper=true,rank=2", "--environment", "paper:p=4"]
SMALL += ["--rounds", "200", "--replications", "2", "--jobs", "1"]
LONG = ["--policy", "thompson", "--environment", "paper:p=8", "--rounds", "1500", "--replications", "6"]


def invoke(*arguments):
    return CliRunner().invoke(application(), ["simulate", *(str(argument) for argument in arguments)])


def start(*arguments):
    command = [sys.executable, "-m", "tensorbandits", "simulate", *(str(argument) for argument in arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def files(folder):
    return {path.relative_to(folder): path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}


def wait_for(folder, count):
    end = time.monotonic() + 90
    while len(files(folder)) < count:
        assert time.monotonic() < end, "no results within 90 s"
        time.sleep(0.02)


def living(group):
    """The processes of a group that have not ended."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.split()[0] == str(group) and "Z" not in line.split()[1]]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    out = tmp_path_factory.mktemp("simulate") / "new" / "folder"
    result = invoke(*SMALL, "--environment", "paper:p=5,signal=0.8", "--out", out)
    assert result.exit_code == 0, result.output
    return out, result


def test_a_table_a_figure_and_every_run_are_there(small):
    out, result = small
    lines = (out / "table.md").read_text(encoding="utf-8").splitlines()
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert rows[0] == [
        "environment",
        "policy",
        "mean",
        "standard error",
        "median",
        "worst",
        "ratio to ensemble:paper=true,rank=2",
        "microseconds per round",
    ]
    assert [row[1] for row in rows[2:]] == ["thompson", "ensemble:paper=true,rank=2"] * 2
    assert [row[6] for row in rows[2:]][1::2] == ["1.000", "1.000"]
    assert (out / "regret.png").read_bytes()[:4] == b"\x89PNG"
    assert len(files(out)) == 8
    assert "paper:p=5,signal=0.8" in result.stdout
    assert "kept" not in result.stdout
    comparison = tb.Comparison.read(out)
    assert rows[2][2] == f"{comparison.table()[0].mean:,.0f}"


def test_the_bar_counts_runs_and_rounds(small):
    _, result = small
    assert "8/8" in result.stderr
    assert "rounds/s" in result.stderr
    assert "elapsed" in result.stderr
    assert "left" in result.stderr


def test_the_same_again_says_what_was_kept(small):
    out, _ = small
    before = files(out)
    result = invoke(*SMALL, "--environment", "paper:p=5,signal=0.8", "--baseline", "thompson", "--out", out)
    assert result.exit_code == 0
    assert "8 of 8 runs kept" in result.stdout
    assert files(out) == before


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_stopped_half_way_it_goes_on_with_the_same_numbers(how, tmp_path):
    process = start(*LONG, "--jobs", 2, "--out", tmp_path)
    wait_for(tmp_path, 2)
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # as a terminal does, to the workers too
    else:
        process.kill()
    _, errors = process.communicate(timeout=60)
    before = files(tmp_path)
    assert 2 <= len(before) < 6
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert errors.strip().splitlines()[-1].startswith("interrupted: ")
        assert "Traceback" not in errors
    end = time.monotonic() + 30
    while living(process.pid):
        assert time.monotonic() < end, f"still running: {living(process.pid)}"
        time.sleep(0.1)
    assert not set(files(tmp_path)) - set(before), "a worker wrote"
    again = invoke(*LONG, "--jobs", 1, "--out", tmp_path)
    assert again.exit_code == 0, again.output
    assert f"{len(before)} of 6 runs kept" in again.stdout
    assert {name: files(tmp_path)[name] for name in before} == before
    whole = tb.compare({"thompson": tb.PolicyRecipe("thompson")}, tb.PaperWorld(p=8), horizon=1500, replications=6)
    assert [run.final for run in tb.Comparison.read(tmp_path).runs] == [run.final for run in whole.runs]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rounds", "0"], "--rounds is 0"),
        (["--replications", "0"], "--replications is 0"),
        (["--seed", "-1"], "--seed is -1"),
        (["--jobs", "0"], "--jobs is 0"),
        (["--policy", "thomson"], "--policy thomson: policy is 'thomson'; allowed are thompson"),
        (["--policy", "ucb", "--policy", "ucb"], "--policy ucb is given twice"),
        (["--policy", "estr", "--rounds", "5"], "--policy estr in --environment paper:p=15,signal=0.5 with --rounds 5"),
        (["--environment", "paper:q=1"], "--environment paper:q=1: 'q' is no setting"),
        (["--baseline", "estr"], "--baseline is 'estr'; give one of the policies: thompson"),
        (["--backend", "spark"], "--backend is 'spark'"),
        (["--address", "tcp://x:1"], "--address is 'tcp://x:1', but the backend is 'local'"),
    ],
)
def test_wrong_options_get_one_clear_line(arguments, message, tmp_path):
    result = invoke("--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("below", ["", "deeper"])
def test_an_out_that_is_a_file_is_refused(below, tmp_path):
    (tmp_path / "out").write_text("precious")
    result = invoke("--out", tmp_path / "out" / below)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --out is ")
    assert (tmp_path / "out").read_text() == "precious"
