"""``tensorbandits evaluate``: files in, an answer and a report out, errors in one line."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import tensorbandits as tb
from tensorbandits.cli import application

ROLES = ["--modes", "segment,offer,channel", "--context", "segment", "--reward", "paid", "--propensity", "p"]


def invoke(*arguments):
    return CliRunner().invoke(application(), ["evaluate", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A log that pays the index of the offer, as CSV and as Parquet, and a policy that knows nothing."""
    place, rng = tmp_path_factory.mktemp("logs"), np.random.default_rng(0)
    segment, offer, channel = rng.integers(2, size=400), rng.integers(3, size=400), rng.integers(2, size=400)
    columns = {"segment": segment, "offer": offer, "channel": channel, "paid": offer * 1.0, "p": np.full(400, 1 / 6)}
    pa.csv.write_csv(pa.table(columns), place / "log.csv")
    pa.parquet.write_table(pa.table(columns), place / "log.parquet")
    tb.VectorizedUCB((2, 3, 2), context=(0,)).save(place / "saved")
    return place


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_an_evaluation_of_a_file_writes_a_report(folder, tmp_path, name):
    chosen = ["--arm", "offer=2,channel=1", "--policy", folder / "saved"]
    result = invoke(folder / name, *ROLES, *chosen, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "offer=2,channel=1: 2 (2 to 2) by DR; above the log by" in result.stdout
    words = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert "| offer=2,channel=1 | SNIPS | 2 |" in words
    assert "saved" in words
    assert (tmp_path / "out" / "report.html").stat().st_size > 20_000


def test_wrong_options_are_named_in_one_line(folder):
    log = folder / "log.csv"
    for arguments, words in (
        ([*ROLES, "--arm", "offer"], "--arm is 'offer'"),
        ([*ROLES, "--arm", "offer=9,channel=1"], "'9' is no level of mode 'offer'"),
        ([*ROLES, "--arm", "offr=1,channel=1"], "did you mean 'offer'"),
        ([*ROLES, "--level", "90"], "--level is 90"),
        ([*ROLES, "--logged", "uniform"], "leave out --logged uniform"),
        ([*ROLES[:-1], "q"], "propensity 'q' is not a column"),
        ([*ROLES, "--policy", "thomson"], "allowed are thompson"),
        ([*ROLES, "--policy", "uniform", "--policy", "uniform"], "given twice"),
        ([*ROLES, "--seed", "-1"], "--seed is -1"),
    ):
        result = invoke(log, *arguments)
        assert result.exit_code == 2, arguments
        assert words in result.stderr
        assert len(result.stderr.splitlines()) == 1
