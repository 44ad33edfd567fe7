import re
import subprocess
import sys
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import tensorbandits as tb
from tensorbandits.cli import application
from tensorbandits.cli.study import _names, _top
from tensorbandits.data import from_log, profile, read_log
from tensorbandits.policies import registry
from tensorbandits.policies.registry import find, records
from tensorbandits.sim import PolicyRecipe
from tensorbandits.study import LARGEST_RANK, _too_few, lineup, study, verdict

ELIMINATION, UCB = find("elimination").label, find("ucb").label
ROUNDS = ["--rounds", "150", "--replications", "2", "--jobs", "1"]


def invoke(*arguments):
    return CliRunner().invoke(application(), ["study", *map(str, arguments)])


def columns(rows=2_000, seed=0):
    """A log of clicks whose rates are the sum of two products."""
    rng = np.random.default_rng(seed)
    sizes = (4, 5, 3)
    cells = [rng.integers(size, size=rows) for size in sizes]
    factors = [rng.normal(size=(size, 2)) for size in sizes]
    signal = np.prod([U[c] for U, c in zip(factors, cells)], axis=0).sum(axis=1)
    impressions = rng.integers(1, 20, rows)
    clicks = rng.binomial(impressions, 1 / (1 + np.exp(1.5 - signal)))
    names = ["segment", "offer", "channel"]
    labels = {name: [f"{name} {level}" for level in c] for name, c in zip(names, cells)}
    return labels | {"impressions": impressions, "clicks": clicks}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("logs")
    table = pa.table(columns())
    pa.csv.write_csv(table, place / "log.csv")
    pa.parquet.write_table(table, place / "log.parquet")
    return place


def test_a_study_of_a_csv_file_writes_a_report(folder, tmp_path):
    options = ["--modes", "segment,offer,channel", "--context", "segment", "--reward", "clicks"]
    result = invoke(folder / "log.csv", *options, "--trials", "impressions", "--out", tmp_path / "out", *ROUNDS)
    assert result.exit_code == 0, result.output
    words = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    for expected in (
        "# A study of clicks by segment, offer, channel",
        "from 2,000 rows; rows left out: none",
        "| segment | 4 | segment 0, segment 1, segment 2, segment 3 |",
        "Suggested rank: **",
        "given segment",
        "150 rounds, 2 replications",
    ):
        assert expected in words
    assert ELIMINATION not in words
    assert "Elimination is left out: TensorElimination takes no context" in words
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2
    assert (tmp_path / "out" / "figures" / "profile.png").stat().st_size > 20_000


def test_the_same_study_again_runs_nothing_and_says_the_same(folder, tmp_path):
    def table():
        log = read_log(folder / "log.parquet", ["segment", "offer", "channel"], "clicks", trials="impressions")
        _, twin = study(log, tmp_path, rounds=400, replications=2, rank=2)
        words = twin.read_text(encoding="utf-8")
        return words[words.index("## How the policies fare") : words.index("## How this was run")]

    first = table()
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert len(made) == 2 * len(records())  # elimination too, as nothing is given
    assert table() == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == made


def test_regrets_are_in_units_of_the_log(tmp_path):
    """A log in cents has a hundred times the regret of the same log in dollars, and the same ratios."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, (2, 3_000))
    dollars = np.cos(a) * np.sin(b) + 0.1 * rng.standard_normal(3_000)

    def ucb(unit):
        log = from_log(pa.table({"a": a, "b": b, "paid": unit * dollars}), ["a", "b"], "paid")
        _, twin = study(log, tmp_path / str(unit), rounds=300, replications=2, rank=1)
        row = next(line for line in twin.read_text().splitlines() if line.startswith(f"| {UCB} | ") and "." in line)
        return float(row.split("|")[2].replace(",", ""))

    assert ucb(100) == pytest.approx(100 * ucb(1), rel=0.05)  # tables round


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({}, {"--modes": "segment,ofer"}, ["'ofer'", "offer"]),
        ({}, {"--reward": "click"}, ["--reward 'click'", "clicks"]),
        ({}, {"--trials": "shown"}, ["--trials 'shown'"]),
        ({}, {"--reward": "segment", "--trials": None, "--modes": "offer,channel"}, ["segment", "number"]),
        ({}, {"--context": "weather"}, ["--context names the mode 'weather'", "segment"]),
        ({}, {"--context": "offer,offer"}, ["--context is ['offer', 'offer'], which names a mode twice"]),
        ({}, {"--policy": "thompson:rank=x"}, ["--policy 'thompson:rank=x' cannot play this log: rank is 'x'"]),
        ({}, {"--missing": "ignore"}, ["--missing is 'ignore'"]),
        ({}, {"--min-count": "0"}, ["--min-count is 0"]),
        ({}, {"--min-count": "999999"}, ["lower --min-count"]),
        ({}, {"--shrinkage": "-1"}, ["--shrinkage is -1"]),
        ({}, {"--top": "1"}, ["--top is 1"]),
        ({}, {"--top": "ofer=3"}, ["--top names the mode 'ofer'"]),
        ({}, {"--policy": "thomson"}, ["--policy is 'thomson'", "thompson"]),
        ({}, {"--policy": "no.such:Policy"}, ["--policy is 'no.such:Policy'", "imported"]),
        ({}, {"--policy": "elimination", "--context": "offer"}, ["'elimination:rank=", "cannot play", "no context"]),
        ({}, {"--policy": "elimination", "--rounds": "2"}, ["cannot play this log: --rounds is 2"]),
        ({}, {"--modes": "segment"}, ["segment"]),
        ({}, {"--top": "many"}, ["--top", "many"]),
        ({}, {"--rounds": "0"}, ["--rounds", "0"]),
        ({}, {"--backend": "slurm"}, ["slurm"]),
        ({"offer": ["only one"] * 2_000}, {}, ["offer", "one level"]),
        ({"clicks": [1] * 7 + [99] + [1] * 1_992, "impressions": [5] * 2_000}, {}, ["impressions", "row 7", "99"]),
        ({"clicks": [1.0] * 3 + [None] + [1.0] * 1_996}, {}, ["clicks", "row 3", "with --missing drop"]),
    ],
)
def test_wrong_input_gets_one_clear_line(changes, options, words, tmp_path):
    pa.parquet.write_table(pa.table(columns() | changes), tmp_path / "log.parquet")
    given = {"--modes": "segment,offer,channel", "--reward": "clicks", "--trials": "impressions"} | options
    pairs = [part for pair in given.items() if pair[1] is not None for part in pair]
    result = invoke(tmp_path / "log.parquet", *pairs, "--out", tmp_path / "out")
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.strip().splitlines()) == 1
    for word in words:
        assert word in result.stderr
    assert not list(tmp_path.rglob("*.html"))


def test_an_empty_log_is_refused(tmp_path):
    pa.parquet.write_table(pa.table(columns()).slice(0, 0), tmp_path / "log.parquet")
    result = invoke(tmp_path / "log.parquet", "--modes", "segment,offer", "--reward", "clicks")
    assert result.exit_code == 2
    assert "empty" in result.stderr or "no rows" in result.stderr


def test_policies_are_told_no_more_than_the_largest_rank():
    assert LARGEST_RANK == 4
    log = noise(500)
    policies, refused = lineup(log.world(), 2, 5_000)
    assert ELIMINATION in policies
    assert not refused
    policies, refused = lineup(log.world(), 2, 10)
    assert ELIMINATION not in policies  # too short for it
    assert "horizon is 10" in refused[ELIMINATION]
    policies, refused = lineup(log.world(["a"]), 2, 5_000)
    assert list(policies)[-1] == UCB
    assert "takes no context" in refused[ELIMINATION]


class Ours(tb.VectorizedUCB):
    """A policy of one's own."""


def test_policies_of_ones_own_play_beside_the_baseline(tmp_path):
    world = noise(500).world()
    asked = [Ours, "thompson:rank=3", PolicyRecipe("thompson", {"rank": 1}), "epoch-greedy"]
    policies, refused = lineup(world, 2, 5_000, asked)
    assert list(policies) == ["Ours", "thompson:rank=3", "thompson:rank=1", "epoch-greedy", UCB]
    assert policies["epoch-greedy"].settings == {"rank": 2}
    assert not refused
    _, twin = study(noise(300), tmp_path, policies=[f"{Ours.__module__}:Ours"], rounds=30, replications=2)
    words = twin.read_text(encoding="utf-8")
    assert "| Ours | " in words
    assert f"Ours has lower regret than {UCB}" in words
    assert "Thompson" not in words


def test_a_policy_beside_the_log_is_found_from_the_command_line(folder, tmp_path):
    """By the program itself, in a folder that is on no path, with processes of its own."""
    (tmp_path / "mine.py").write_text("import tensorbandits\n\n\nclass Mine(tensorbandits.VectorizedUCB):\n    pass\n")
    options = [
        "--modes",
        "segment,offer",
        "--reward",
        "clicks",
        "--policy",
        "mine:Mine",
        "--rounds",
        "20",
        "--jobs",
        "2",
    ]
    command = [sys.executable, "-P", "-m", "tensorbandits", "study", str(folder / "log.csv"), *options]
    result = subprocess.run([*command, "--out", "out"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "| Mine | mine:Mine |" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_context_is_named_in_the_report_however_it_is_given(tmp_path):
    _, twin = study(noise(300), tmp_path, context=[1], policies=["ucb"], rounds=5, replications=1)
    assert "rewards, given b, rank" in twin.read_text(encoding="utf-8")
    with pytest.raises(TypeError, match="context is 'a'; give a list of modes"):
        study(noise(300), tmp_path, context="a")


def test_a_study_of_the_baseline_alone_claims_nothing(tmp_path):
    _, twin = study(noise(300), tmp_path, policies=["ucb"], rounds=30, replications=2)
    assert "lower regret" not in twin.read_text(encoding="utf-8")


def test_registered_policies_join_every_study(monkeypatch):
    monkeypatch.setattr(registry, "_RECORDS", dict(registry._RECORDS))
    tb.register(Ours, "ours", label="our policy")
    policies, _ = lineup(noise(500).world(), 2, 5_000)
    assert "our policy" in policies


@pytest.mark.parametrize(("policies", "words"), [("ucb", "give a list"), ([3], "policy is 3")])
def test_what_is_no_policy_is_refused(policies, words):
    with pytest.raises(TypeError, match=words):
        lineup(noise(500).world(), 2, 50, policies)


HOSTILE = ["usd_$_per_$_click", "_name", "a|b", "x,y", 'the "best"', "été ö", "reward", "rows", "mode0"]
HOSTILE += ["tensorbandits_row"]  # what rows are numbered in


def test_columns_and_levels_may_have_any_name(tmp_path):
    """Each name is a mode and a reward once, beside columns with the names that are used within."""
    rng = np.random.default_rng(0)
    table = {name: rng.integers(0, 3, 200).tolist() for name in [*HOSTILE, "n" * 300, "kept", "total", "missing"]}
    table["a|b"] = [("<b>", "`c`\n**d**", "_e_")[i] for i in table["a|b"]]
    pa.csv.write_csv(pa.table(table), tmp_path / "log.csv")
    for reward, modes in (
        ("usd_$_per_$_click", ["_name", "a|b", "x,y"]),
        ("n" * 300, ['the "best"', "été ö", "rows"]),
    ):
        listed = ",".join('"' + name.replace('"', '""') + '"' for name in modes)
        options = ["--modes", listed, "--reward", reward, "--policy", "ucb", "--rounds", 20, "--replications", 1]
        result = invoke(tmp_path / "log.csv", *options, "--jobs", 1, "--out", tmp_path / reward[:5])
        assert result.exit_code == 0, result.output
    words = (tmp_path / "usd_$" / "report.md").read_text(encoding="utf-8")
    assert r"# A study of usd\_\$\_per\_\$\_click by \_name, a\|b, x,y" in words
    assert r"| a\|b | 3 | \<b\>, \_e\_, \`c\` \*\*d\*\* |" in words
    page = (tmp_path / "usd_$" / "report.html").read_text(encoding="utf-8")
    assert "<td class=words>&lt;b&gt;, _e_, `c` **d**</td>" in page


@pytest.mark.parametrize("reward", HOSTILE)
def test_rows_to_complain_of_are_found_whatever_columns_are_called(reward, tmp_path):
    modes = [name for name in HOSTILE if name != reward][:3]
    table = {name: ["a", "b", "a", "b"] for name in modes} | {reward: [1.0, 2.0, None, 3.0]}
    for frame in (pa.table(table), duckdb.from_arrow(pa.table(table)), pa.table(table).to_pandas()):
        with pytest.raises(ValueError, match=rf"column {re.escape(repr(reward))} has no value.*row 2 "):
            from_log(frame, modes, reward)


def test_names_on_the_command_line_may_hold_commas():
    assert _names('a, "x,y",b,') == ["a", "x,y", "b"]
    assert _names("") == []


def test_levels_to_keep_are_read_from_text():
    assert _top("time:3h=4") == {"time:3h": 4}
    with pytest.raises(ValueError, match="--top is 'offer'"):
        _top("offer")


def noise(rows, seed=0, signal=0.0):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 10, (2, rows))
    reward = signal * np.cos(a) * np.sin(b) + rng.standard_normal(rows)
    return from_log(pa.table({"a": a, "b": b, "reward": reward}), ["a", "b"], "reward")


def test_a_log_of_noise_speaks_for_no_rank():
    assert "Low rank is worth it" not in verdict(profile(noise(3_000)))
    assert "Low rank is worth it here" in verdict(profile(noise(3_000, signal=2.0)))


def test_few_rewards_per_cell_are_warned_of(tmp_path):
    _, twin = study(noise(300), tmp_path / "thin", rounds=1, replications=2)  # a single round is enough for a report
    assert "Read this with care" in twin.read_text(encoding="utf-8")
    _, twin = study(noise(300), tmp_path / "mixed", rounds=30, replications=2, shrinkage=10.0)
    assert "Read this with care" not in twin.read_text(encoding="utf-8")


def test_logs_without_differences_or_repetitions_are_reported_without_nan(tmp_path):
    cells = {"a": [0, 1, 0, 1], "b": [0, 0, 1, 1]}
    constant = {name: values * 5 for name, values in cells.items()} | {"reward": [3.0] * 20}
    once = cells | {"reward": [1.0, 2.0, 3.0, 4.0]}
    words = {}
    for name, columns in (("constant", constant), ("once", once)):
        log = from_log(pa.table(columns), ["a", "b"], "reward")
        _, twin = study(log, tmp_path / name, rounds=20, replications=2)
        words[name] = twin.read_text(encoding="utf-8")
        assert "nan" not in words[name]
    assert "not decided" in words["constant"]
    assert "unknown: no cell has two rewards" in words["once"]
    assert "No cell has two rewards" in words["once"]


def test_a_rank_that_is_told_though_it_is_too_low_is_warned_of():
    facts = profile(noise(3_000, signal=2.0))
    high = replace(facts, suggested_rank=3, errors=facts.errors | {"rank 1": 9.0, "rank 2": 0.0})
    assert "fewer than the log asks for" in _too_few(high, 1)
    assert not _too_few(high, 2)
    assert not _too_few(high, 3)
    assert not _too_few(high, 9)
