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
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes, start_new_session=True, preexec_fn=hearing)


def hearing():
    """Hear an interrupt, even if these tests run in the background of a script, where it is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


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


def children(parent, name):
    """The children of a process whose command line has a name in it."""
    listed = subprocess.run(["ps", "-ww", "-eo", "ppid=,pid=,args="], capture_output=True, text=True, check=True).stdout
    lines = [line.split(None, 2) for line in listed.splitlines()]
    return [int(pid) for ppid, pid, line in lines if ppid == str(parent) and name in line]


def wait_until_all_ended(group):
    end = time.monotonic() + 30
    while living(group):
        assert time.monotonic() < end, f"still running: {living(group)}"
        time.sleep(0.1)


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


@pytest.fixture(scope="module")
def whole():
    """The final regrets of a run that was not stopped."""
    runs = tb.compare({"thompson": tb.PolicyRecipe("thompson")}, tb.PaperWorld(p=8), horizon=1500, replications=6).runs
    return [run.final for run in runs]


FROM_A_TERMINAL = pytest.param(signal.SIGINT, marks=pytest.mark.slow)  # handled as SIGTERM is
TOLD_TO_END = pytest.param(signal.SIGTERM, marks=pytest.mark.slow)  # as again and again, below


@pytest.mark.parametrize("how", [signal.SIGKILL, FROM_A_TERMINAL, TOLD_TO_END])
def test_stopped_half_way_it_goes_on_with_the_same_numbers(how, whole, tmp_path):
    process = start(*LONG, "--jobs", 2, "--out", tmp_path)
    wait_for(tmp_path, 2)
    if how == signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, how)  # as a terminal does, to the workers too
    _, errors = process.communicate(timeout=60)
    before = files(tmp_path)
    assert 2 <= len(before) < 6
    if how != signal.SIGKILL:
        word = "interrupted" if how == signal.SIGINT else "terminated"
        assert process.returncode == 128 + how
        assert errors.strip().splitlines()[-1].startswith(f"{word}: what is finished is in {tmp_path}; the same")
        assert "Traceback" not in errors
        assert "leaked" not in errors
    wait_until_all_ended(process.pid)
    assert not set(files(tmp_path)) - set(before), "a worker wrote"
    again = invoke(*LONG, "--jobs", 1, "--out", tmp_path)
    assert again.exit_code == 0, again.output
    assert f"{len(before)} of 6 runs kept" in again.stdout
    assert {name: files(tmp_path)[name] for name in before} == before
    assert [run.final for run in tb.Comparison.read(tmp_path).runs] == whole


@pytest.mark.slow  # what workers hear is in every run, in the tests of back ends
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_workers_do_not_hear_the_signals_of_a_terminal_even_as_they_start(how, tmp_path):
    """A worker that is still importing would answer with a traceback."""
    process = start("--policy", "ucb", "--environment", "paper:p=2", "--rounds", 9, "--jobs", 2, "--out", tmp_path)
    end = time.monotonic() + 90
    while not (workers := children(process.pid, "LokyProcess")):
        assert process.poll() is None
        assert time.monotonic() < end, "no worker within 90 s"
    for worker in workers:
        os.kill(worker, how)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors


@pytest.mark.slow  # a killed run is guarded above
@pytest.mark.parametrize("how", [FROM_A_TERMINAL, signal.SIGTERM])
def test_told_to_stop_again_and_again_it_stops_once(how, tmp_path):
    process = start(*LONG, "--jobs", 2, "--out", tmp_path)
    wait_for(tmp_path, 1)
    while process.poll() is None:
        process.send_signal(how)
        time.sleep(0.01)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + how
    assert errors.count("the same command again goes on from there") == 1
    assert "Traceback" not in errors
    assert "leaked" not in errors
    wait_until_all_ended(process.pid)


def test_a_signal_that_is_ignored_stays_so(tmp_path):
    """As in the background of a script, whose terminal is somebody else's."""
    arguments = [
        "--policy",
        "ucb",
        "--environment",
        "paper:p=2",
        "--rounds",
        "9",
        "--jobs",
        "1",
        "--out",
        str(tmp_path),
    ]
    code = "import os, signal, sys; from tensorbandits.cli import main; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    code += f"sys.argv = ['tensorbandits', 'simulate', *{arguments}]; os.kill(os.getpid(), signal.SIGINT); main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
        (["--address", "tcp://x:1"], "--address is 'tcp://x:1', but the backend is 'local', which has none; name the"),
        (["--policy", "elimination:rank=2", "--rounds", "1"], "with --rounds 1: --rounds"),
    ],
)
def test_wrong_options_get_one_clear_line(arguments, message, tmp_path):
    result = invoke("--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


OURS = """
import tensorbandits as tb
import beside

class Mine(tb.VectorizedUCB):
    def __init__(self, shape, *, context=(), seed=None, scale=1.0, steps=1):
        super().__init__(shape, context=context, seed=seed, scale=beside.TWICE * scale)
        self.steps = steps
"""


@pytest.mark.parametrize(
    "where",
    [
        ["--backend", "dask", "--jobs", "1"],
        pytest.param(["--backend", "dask", "--jobs", "2"], marks=pytest.mark.slow),
        pytest.param(["--jobs", "2"], marks=pytest.mark.slow),
    ],
)
def test_a_policy_of_the_current_folder_plays_too(where, tmp_path):
    """Started as an installed program is: by a script of another folder, so that the current one is not on its path."""
    if "dask" in where:
        pytest.importorskip("distributed")
    (tmp_path / "ours.py").write_text(OURS)
    (tmp_path / "beside.py").write_text("TWICE = 2.0")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "program.py").write_text(
        "from tensorbandits.cli import main\nif __name__ == '__main__':\n    main()\n"
    )
    options = ["--policy", "ours:Mine:scale=2,steps=3", "--policy", "ucb:scale=4", "--environment", "paper:p=3"]
    command = [sys.executable, "bin/program.py", "simulate", *options, "--rounds", "200", "--replications", "2", *where]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    mine, ucb = tb.Comparison.read(tmp_path / "out" / "simulate").table()
    assert mine.policy == "ours:Mine:scale=2,steps=3"
    assert (mine.mean, mine.worst) == (ucb.mean, ucb.worst)


@pytest.mark.parametrize(
    ("source", "message"),
    [("class Mine", "SyntaxError"), ("1 / 0", "ZeroDivisionError: division by zero"), ("Mine = 3", "give a class")],
)
def test_a_module_that_cannot_be_used_gets_one_line(source, message, tmp_path, monkeypatch):
    name = f"broken_{len(source)}"
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    result = invoke("--policy", f"{name}:Mine")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: --policy {name}:Mine: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("below", ["", "deeper"])
def test_an_out_that_is_a_file_is_refused(below, tmp_path):
    (tmp_path / "out").write_text("precious")
    result = invoke("--out", tmp_path / "out" / below)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --out is ")
    assert (tmp_path / "out").read_text() == "precious"
