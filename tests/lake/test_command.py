"""``tensorbandits learn`` and ``move``: a lake is learned by command, and what is wrong is said in one line."""

import shutil
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import tensorbandits as tb
from tensorbandits.cli import application
from tests.lake import lakes
from tests.lake.redis_server import redis_address

__all__ = ["redis_address"]
LATER = lakes.START + 3 * 3600  # which is over whenever this runs


def run(*words):
    result = CliRunner().invoke(application(), [str(word) for word in words])
    return result.exit_code, result.output


def learning(place, *more):
    """The words of a command that learns the bandit of a place."""
    folders = [f"--{kind}={place}/lake/{kind}" for kind in ("decisions", "rewards")]
    return ["learn", str(place / f"{lakes.NAME}.safetensors"), *folders, *more]


@pytest.fixture
def made(tmp_path):
    """A folder with a bandit and a lake, and what lies in it."""
    _, uid = lakes.bandit(tmp_path)
    found = lakes.history(41, 100)
    lakes.write(tmp_path / "lake", found, uid)
    return tmp_path, found


def test_a_lake_is_learned_and_published_by_command(made):
    place, found = made
    code, words = run(*learning(place, f"--publish={place}/published", "--threads=1", "--draws=2"))
    assert code == 0
    assert "joined 2 of 2 hours" in words
    assert "published version 1" in words
    bandit = tb.Bandit.load(place / f"{lakes.NAME}.safetensors")
    assert lakes.counted(bandit.policy.ledger) == lakes.exact(found.wanted(LATER))
    with tb.Decider(f"{place}/published", keys={"k": bytes(16)}) as decider:
        assert (decider.snapshot.version, len(decider.ask().arm)) == (1, 3)
    code, words = run(*learning(place))
    assert (code, "joined 0 of 2 hours" in words) == (0, True)


def test_files_that_are_left_out_are_said(made):
    place, _ = made
    hour = place / "lake" / "rewards" / "bandit=offers" / "hour=2026-11-19T04"
    (hour / "part-x-00000000.parquet").write_bytes(b"no file")
    code, words = run(*learning(place))
    assert code == 0
    assert "1 files left out" in words
    assert f"left out rewards/bandit=offers/{hour.name}/part-x-00000000.parquet: it is damaged" in words
    shutil.rmtree(place / "lake" / "decisions")
    assert "files of 2026-11-19T04 are gone; what was learned of that hour stays" in run(*learning(place))[1]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--every=0"], "--every is 0; give seconds above 0"),
        (["--engine=hadoop"], "engine is 'hadoop'; give 'duckdb' or 'spark'"),
        (["--look-back=5"], "--look-back is '5'; give a duration"),
        (["--name=a/b"], "error: the bandit's name is 'a/b'"),
        (["--threads=0"], "--threads is 0"),
        (["--kept={place}/lake"], None),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(made, more, words):
    place, _ = made
    code, said = run(*learning(place, *(word.format(place=place) for word in more)))
    assert (code == 0) == (words is None)
    assert words is None or words in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_it_learns_again_and_again_until_it_is_told_to_stop(made):
    place, _ = made
    program = [sys.executable, "-m", "tensorbandits", *learning(place, "--every=0.2", "--threads=1")]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as learner:
        try:
            assert "joined 2 of 2 hours" in learner.stdout.readline()
            assert "joined 0 of 2 hours" in learner.stdout.readline()
            lakes.write(place / "lake", lakes.history(42, 20), tb.Bandit.load(place / "offers.safetensors").uid,
                        writer="more")  # fmt: skip
            end = time.monotonic() + 60
            while "joined 2 of 2 hours" not in learner.stdout.readline():
                assert time.monotonic() < end
            learner.send_signal(signal.SIGTERM)
            assert learner.wait(60) == 0
        finally:
            learner.kill()


def test_events_are_moved_by_command(made, redis_address):
    import redis

    from tests.lake.test_streams import add, ids

    place, found = made
    name = "by-command"
    with redis.Redis.from_url(redis_address) as client:
        add(client, found, "00" * 8, name)
    code, words = run("move", redis_address, name, place / "moved", "--once", "--rows=60")
    assert code == 0
    assert "moved 60 decisions and 60 rewards into" in words
    assert ids(place / "moved", "decisions", name) == sorted(row[0] for row in found.decisions)
    assert run("move", redis_address, name, place / "moved", "--once") == (0, "")
    code, words = run("move", "redis://127.0.0.1:1/0", name, place / "moved", "--once")
    assert (code, words.startswith("error: Redis at redis://127.0.0.1:1/0 cannot be used")) == (2, True)
