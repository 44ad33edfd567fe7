import re
import subprocess
import sys

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import tensorbandits as tb
from tensorbandits.cli import application
from tensorbandits.cli.study import names_of, top_of
from tensorbandits.data import from_log, profile, read_log
from tensorbandits.policies import registry
from tensorbandits.policies.registry import find, records
from tensorbandits.sim import PolicyRecipe
from tensorbandits.study import lineup, study
from tensorbandits.study.answer import best_mean, earned, log_earned, start_lines
from tensorbandits.study.lineup import cost_of
from tensorbandits.study.remarks import rare_levels

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
        "## The answer",
        "Over 150 rounds it would have earned **",
        "share of what can be learned, by number of rewards",
        "| cell | rewards in the log | their mean | steadied mean |",
        "given segment",
        "150 rounds, 2 replications",
    ):
        assert expected in words
    assert ELIMINATION not in words
    assert "Elimination is left out: TensorElimination takes no context" in words
    assert "Ensemble sampling plays with rewards that are shifted and divided" in words
    assert "Name it with `reward=bernoulli` to have it told." in words
    assert "To start it:" in result.stdout
    assert "read_log(" in result.stdout
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2
    assert (tmp_path / "out" / "figures" / "profile.png").stat().st_size > 20_000


def test_a_study_says_what_a_reward_costs(folder, tmp_path):
    log = read_log(folder / "log.parquet", ["segment", "offer", "channel"], "clicks", trials="impressions")
    said = []
    study(
        log, tmp_path, policies=["thompson", "ucb"], rounds=150, replications=2, rank=2, rewards=3_000, say=said.append
    )
    assert re.search(r"takes about \d+ microseconds of one core on average over 3,000 rewards", said[0])
    world = log.world(["segment"])
    clicks, told = (
        cost_of(PolicyRecipe("thompson", {"reward": kind}), world, 3_000) for kind in ("bernoulli", "gaussian")
    )
    assert clicks > told > cost_of(PolicyRecipe("ucb"), world, 3_000) > 0.0
    assert cost_of(PolicyRecipe("thompson", {"structure": "additive"}), world, 3_000) < told
    for unknown in (PolicyRecipe("estr"), PolicyRecipe("thompson", {"paper": True, "rank": 2})):
        assert cost_of(unknown, world, 3_000) is None


def test_the_same_study_again_runs_nothing_and_says_the_same(folder, tmp_path):
    def table():
        log = read_log(folder / "log.parquet", ["segment", "offer", "channel"], "clicks", trials="impressions")
        _, twin = study(log, tmp_path, rounds=150, replications=2, rank=2)
        words = twin.read_text(encoding="utf-8")
        return words[words.index("## How the policies fare") : words.index("## How this was run")]

    first = table()
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert len(made) == 2 * (len(records()) + 1)  # elimination too, as nothing is given; Thompson sampling twice
    assert table() == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == made


def test_regrets_are_in_units_of_the_log(tmp_path):
    """A log in cents has a hundred times the regret of the same log in dollars, and the same ratios."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, (2, 3_000))
    dollars = np.cos(a) * np.sin(b) + 0.1 * rng.standard_normal(3_000)

    def ucb(unit):
        log = from_log(pa.table({"a": a, "b": b, "paid": unit * dollars}), ["a", "b"], "paid")
        _, twin = study(log, tmp_path / str(unit), policies=["ucb"], rounds=300, replications=2)
        row = next(line for line in twin.read_text().splitlines() if line.startswith(f"| {UCB} | ") and "±" in line)
        return float(row.split("|")[4].split("±")[0].replace(",", ""))

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


def test_policies_that_cannot_play_are_left_out():
    log = noise(500)
    policies, refused = lineup(log.world(), 2, 5_000)
    assert ELIMINATION in policies
    assert not refused
    policies, refused = lineup(log.world(), 2, 10)
    assert ELIMINATION not in policies  # too short for it
    assert "horizon is 10" in refused[ELIMINATION]
    policies, refused = lineup(log.world(["a"]), 2, 5_000)
    assert UCB in policies
    assert "takes no context" in refused[ELIMINATION]


def test_thompson_sampling_plays_told_nothing_but_the_kind_of_reward_and_told_the_structure():
    policies, _ = lineup(noise(500).world(), 2, 5_000, kind="bernoulli")
    assert policies[find("thompson").label].settings == {"reward": "bernoulli"}
    assert policies["Thompson sampling, tucker 2"].settings == {
        "rank": 2,
        "structure": "tucker",
        "reward": "bernoulli",
    }
    assert policies[find("ensemble").label].settings == {"rank": 2}
    policies, _ = lineup(noise(500).world(), 2, 5_000, ["thompson", "thompson:reward=gaussian"], "bernoulli")
    assert [recipe.settings.get("reward") for recipe in policies.values()] == ["bernoulli", "gaussian", None]


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


@pytest.mark.parametrize("processes", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_a_policy_beside_the_log_is_found_from_the_command_line(processes, folder, tmp_path):
    """By the program itself, in a folder that is on no path; with processes of its own as ``simulate`` does."""
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
        processes,
    ]
    command = [sys.executable, "-P", "-m", "tensorbandits", "study", str(folder / "log.csv"), *options]
    result = subprocess.run([*command, "--out", "out"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "| Mine | mine:Mine |" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")


def test_context_is_named_in_the_report_however_it_is_given(tmp_path):
    _, twin = study(noise(300), tmp_path, context=[1], policies=["ucb"], rounds=5, replications=1)
    words = twin.read_text(encoding="utf-8")
    assert "rewards, given b: a reward" in words
    assert "plays with rewards that are shifted" not in words
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
    assert names_of('a, "x,y",b,') == ["a", "x,y", "b"]
    assert names_of("") == []


def test_levels_to_keep_are_read_from_text():
    assert top_of("time:3h=4") == {"time:3h": 4}
    with pytest.raises(ValueError, match="--top is 'offer'"):
        top_of("offer")


def noise(rows, seed=0, signal=0.0):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 10, (2, rows))
    reward = signal * np.cos(a) * np.sin(b) + rng.standard_normal(rows)
    return from_log(pa.table({"a": a, "b": b, "reward": reward}), ["a", "b"], "reward")


def test_policies_that_are_told_from_the_baseline_are_not_run_again(tmp_path):
    log = noise(3_000, signal=9.0)
    study(log, tmp_path, policies=["thompson:rank=1", "ucb:scale=9.0"], rounds=400, replications=8)
    words = (tmp_path / "report.md").read_text(encoding="utf-8")
    runs = {row.split("|")[1].strip(): int(row.split("|")[2]) for row in words.splitlines() if " ± " in row}
    assert runs[find("thompson").label] == 3
    assert runs[UCB] == 3


def test_what_a_policy_earns_is_what_the_best_cells_pay_less_its_regret(tmp_path):
    log = noise(3_000, signal=3.0)
    world = log.world(["b"])
    comparison = tb.compare({"ucb": "ucb"}, {"log": world}, horizon=100, replications=3)
    weights = np.bincount(log.ledger.cells[:, 1], log.ledger.counts) / log.ledger.rounds
    assert best_mean(world) == pytest.approx(world.mean.max(axis=0) @ weights)
    assert best_mean(log.world(["b", "a"][:1])) == best_mean(world)
    found = earned(comparison, world, "ucb")
    assert found.value == pytest.approx(100 * best_mean(world) - comparison.at("ucb").mean())
    assert log_earned(log, 100).value == pytest.approx(100 * log.ledger.mean)
    assert str(log_earned(log, 100)).count(" to ") == 1


def test_context_in_any_order_pays_the_same():
    rng = np.random.default_rng(0)
    cells = rng.integers((2, 3, 4), size=(5_000, 3))
    table = {name: cells[:, j] for j, name in enumerate("abc")} | {"r": cells @ [1.0, 2.0, 3.0] + rng.random(5_000)}
    log = from_log(pa.table(table), ["a", "b", "c"], "r")
    assert best_mean(log.world(["c", "a"])) == pytest.approx(best_mean(log.world(["a", "c"])))


def test_the_lines_that_start_a_policy_run(folder, tmp_path, monkeypatch, capsys):
    options = ["--modes", "segment,offer,channel", "--context", "segment,channel", "--reward", "clicks"]
    result = invoke(folder / "log.csv", *options, "--trials", "impressions", "--out", tmp_path, *ROUNDS)
    assert result.exit_code == 0, result.output
    lines = result.stdout[result.stdout.index("To start it:") :].splitlines()
    exec("\n".join(line[4:] for line in lines if line.startswith("    ")), {})
    assert "bandit.ask(segment='segment 0', channel='channel 0')" in result.stdout
    assert capsys.readouterr().out.startswith("{'offer': 'offer ")


@pytest.mark.filterwarnings("ignore:a core")
@pytest.mark.parametrize("settings", ["", "rank=auto", "rank=2", "paper=true"])
def test_the_lines_run_for_every_policy_that_can_play(settings):
    rng = np.random.default_rng(0)
    frame = pa.table({"a": rng.integers(0, 4, 400), "b": rng.integers(0, 5, 400), "click": rng.integers(0, 2, 400)})
    log = from_log(frame, ["a", "b"], "click")
    plain, shifted = (log.world(standardise=standardise) for standardise in (False, True))
    asked = [record.name for record in records() if "rank" not in settings or record.takes("rank")]
    playing, _ = lineup(shifted, 1, 5_000, [f"{name}:{settings}" for name in asked], "bernoulli")
    assert len(playing) >= len(asked)
    for recipe in playing.values():
        found = {"frame": frame}
        exec(start_lines(log, plain, recipe, 5_000, None, shifted), found)
        made = recipe.make(shifted(0), 5_000)
        for name in ("rank", "reward", "noise"):
            assert getattr(found["bandit"].policy, name, None) == getattr(made, name, None), (recipe, name)


def test_a_log_with_numbers_is_studied_and_the_lines_ask_with_numbers(tmp_path):
    rng = np.random.default_rng(0)
    age, offer = rng.uniform(18, 80, 600), rng.choice(["a", "b", "c"], 600)
    click = (rng.random(600) < np.where((offer == "a") == (age < 40), 0.7, 0.2)).astype(int)
    csv = tmp_path / "log.csv"
    pyarrow.csv.write_csv(pa.table({"age": age, "offer": offer, "click": click}), csv)
    options = ["--modes", "age:4 regions,offer", "--context", "age:4 regions", "--reward", "click", "--policy", "ucb"]
    result = invoke(csv, *options, "--out", tmp_path / "out", *ROUNDS)
    assert result.exit_code == 0, result.output
    log = read_log(csv, ["age:4 regions", "offer"], "click")
    lines = start_lines(log, log.world(["age:4 regions"]), PolicyRecipe("ucb"), 100, csv)
    assert "| log.numeric, context=['age:4 regions']" in lines
    assert "bandit.ask(age=" in lines
    found = {}
    exec(lines, found)
    assert found["bandit"].policy.ledger.rounds == 601
    assert found["decision"].context["age:4 regions"] == log.levels[0][0]


def test_the_lines_start_what_was_studied(tmp_path):
    """What a policy played on it is told on: the same levels, and rewards of the scale that it expects."""
    rng = np.random.default_rng(0)
    segment, offer = rng.integers(0, 4, 2_000), rng.integers(0, 9, 2_000)
    paid = 0.01 * (np.cos(segment) * np.sin(offer) + rng.standard_normal(2_000))
    frame = pa.table({"segment": [None, *segment.tolist()], "offer": [0, *offer.tolist()], "paid": [0.0, *paid]})
    log = from_log(frame, ["segment", "offer"], "paid", top={"offer": 5}, missing="drop")
    said = []
    study(log, tmp_path, context=["segment"], policies=["ucb"], rounds=100, replications=1, say=said.append)
    lines = said[0][said[0].index("To start it:") :].splitlines()
    found = {"frame": frame}
    exec("\n".join(line[4:] for line in lines if line.startswith("    ")), found)
    assert found["log"].levels == log.levels
    world = log.world(["segment"], standardise=True)
    assert (found["centre"], found["scale"]) == (world.centre, world.scale)
    told = found["bandit"].policy.ledger
    assert told.rounds == log.ledger.rounds + 1
    assert log.ledger.standardised(world.centre, world.scale).variance == pytest.approx(1.0, abs=0.7)


@pytest.mark.parametrize("rewards", [400, pytest.param(10**6, marks=pytest.mark.slow)])  # which is more than it has
def test_a_study_judges_for_as_many_rewards_as_it_is_told(rewards, folder, tmp_path):
    log = read_log(folder / "log.csv", ["segment", "offer", "channel"], "clicks", trials="impressions")
    said = []
    study(log, tmp_path, policies=["ucb"], rounds=20, replications=1, rewards=rewards, say=said.append)
    words, found = said[-1].splitlines(), profile(log, rewards=rewards)
    assert words[0] == found.verdict.replace("**", "")
    most = int(log.ledger.rounds * 3 // 4)
    judged = f"{rewards:,} rewards" if rewards < most else f"{most:,} rewards, the most that this log can tell of"
    assert f"\nStructure after {judged}: " in said[0]
    options = ["--modes", "segment,offer", "--reward", "clicks", "--rewards"]
    assert "--rewards is 0; give 1 or more" in invoke(folder / "log.csv", *options, 0).stderr
    with pytest.raises(ValueError, match="rewards is 0"):
        study(log, tmp_path, rewards=0)


def test_odd_levels_and_idle_columns_are_noticed(tmp_path):
    rng = np.random.default_rng(0)
    n = 6_000
    offer, segment, weekday = rng.integers(0, 4, n), rng.integers(0, 3, n), rng.integers(0, 3, n)
    names = np.array(["new", "New ", "old", "gone"])
    offer[offer == 3] = np.where(rng.random((offer == 3).sum()) < 0.98, 0, 3)
    table = {"offer": names[offer], "segment": segment, "weekday": weekday}
    table["paid"] = (1.0 * (offer == 2) + segment + 0.5 * rng.standard_normal(n)).round(3)
    log = from_log(pa.table(table), ["offer", "segment", "weekday"], "paid")
    said = []
    study(log, tmp_path, policies=["ucb"], rounds=20, replications=1, say=said.append)
    assert said[0].startswith("Clean the log first: levels differ by case or spaces only, and are probably the same. ")
    assert "offer has 4 levels and would have 3. 'New ' and 'new' would be 'new'. --clean strip,casefold" in said[0]
    assert "Rare levels of offer, with their rewards: 'gone'" in said[0]
    assert "No difference was found between the levels of weekday:" in said[0]
    assert rare_levels(log, 1) == []
    assert "of policies over runs alone: the means of the log are taken as they are. A single run has no" in said[0]


def test_main_effects_that_suffice_are_what_is_played_and_started(tmp_path):
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 6, (2, 4_000))
    frame = pa.table({"a": a, "b": b, "paid": a - 2.0 * b + rng.standard_normal(4_000)})
    log = from_log(frame, ["a", "b"], "paid")
    facts = profile(log)
    assert str(facts.suggested) == "additive"
    assert f"suggested {facts.suggested})" in repr(facts)
    assert facts.suggested_rank == facts.low_rank.rank
    policies, _ = lineup(log.world(), facts.suggested_rank, 100, structure=facts.suggested.kind)
    told = policies["Thompson sampling, additive"]
    assert told.settings == {"structure": "additive"}
    lines = start_lines(log, log.world(), told, 100)
    assert "tb.Bandit(space, 'thompson', structure='additive')" in lines
    found = {"frame": frame}
    exec(lines, found)
    assert found["bandit"].policy.structure == "additive"
    said = []
    _, twin = study(log, tmp_path, policies=["ucb"], rounds=20, replications=1, say=said.append)
    assert "Structure after 3,000 rewards, the most that this log can tell of: main effects only (additive)." in said[0]
    assert "is 'additive', as low rank is not surely ahead" in twin.read_text(encoding="utf-8")


def test_a_lucky_impression_is_not_named_best(tmp_path):
    rng = np.random.default_rng(0)
    cells = np.argwhere(np.ones((6, 5, 4)))
    shown = rng.integers(200, 400, len(cells))
    clicks = rng.binomial(shown, 0.02 + 0.02 * (cells[:, 0] == 2))
    shown[7] = clicks[7] = shown[50] = clicks[50] = 1
    table = {name: cells[:, j] for j, name in enumerate("abc")} | {"clicks": clicks, "shown": shown}
    log = from_log(pa.table(table), ["a", "b", "c"], "clicks", trials="shown")
    _, twin = study(log, tmp_path, policies=["ucb"], rounds=20, replications=1)
    words = twin.read_text(encoding="utf-8")
    best = words[words.index("the best cells\n") : words.index("## How the policies fare")]
    assert best.count("\n| 2, ") == 5
    assert "| 1 | 1 |" not in best


def test_logs_without_differences_or_repetitions_are_reported_without_nan(tmp_path):
    cells = {"a": [0, 1, 0, 1], "b": [0, 0, 1, 1]}
    constant = {name: values * 5 for name, values in cells.items()} | {"reward": [3.0] * 20}
    once = {"a": [0, 1] * 4, "b": [0, 0, 1, 1, 2, 2, 3, 3], "reward": [1.0, 2.0, 3.0, 4.0] * 2}
    words = {}
    for name, columns in (("constant", constant), ("once", once)):
        log = from_log(pa.table(columns), ["a", "b"], "reward")
        _, twin = study(log, tmp_path / name, rounds=20, replications=2)
        words[name] = twin.read_text(encoding="utf-8")
        assert "nan" not in words[name]
    assert "Nothing to learn was found" in words["constant"]
    assert "tb.Bandit(space, 'thompson'" in words["constant"]  # whoever had luck
    assert not re.search("Structure|suggestion|lowest regret", words["constant"])
    assert "had the same regret. Over 20 rounds each would have earned **60 (60 to 60) reward**" in words["constant"]
    assert "had the lowest regret" in words["once"]
    assert "unknown: no cell has two rewards" in words["once"]


def test_a_dozen_clicks_of_noise_get_a_number_to_come_back_with(tmp_path):
    rng = np.random.default_rng(0)
    cells = rng.integers((8, 7, 6), size=(4_000, 3))
    columns = dict(zip("abc", cells.T)) | {"click": (np.arange(4_000) % 334 == 0).astype(float)}
    said = []
    log = from_log(pa.table(columns), ["a", "b", "c"], "click")
    _, twin = study(log, tmp_path, policies=["ucb"], rounds=20, replications=2, say=said.append)
    for words in (said[0], twin.read_text(encoding="utf-8")):
        assert re.search(r"Too few to tell(\*\*)?: from 4,000 rewards with 12 other than 0 no model predicts", words)
        assert re.search(r"Come back with about \d+,000 rewards \(\d+ of them other than 0\)", words)
        assert not re.search("suffice:|Structure after|suggestion|% of what can be learned", words)


def offers_log(share, rows=3_000, seed=0):
    """A log of 12 offers whose rates two features explain to a share, and these features."""
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((12, 2))
    offers, segments = rng.integers(12, size=rows), rng.integers(4, size=rows)
    says = numbers @ rng.standard_normal((2, 4))
    signal = np.sqrt(share) * says + np.sqrt(1 - share) * says.std() * rng.standard_normal((12, 4))
    clicks = rng.random(rows) < 1 / (1 + np.exp(-2 * signal[offers, segments]))
    table = {"offer": [f"offer {k}" for k in offers], "segment": [f"s{k}" for k in segments], "clicks": clicks * 1}
    features = {f"offer {k}": {"price": one, "margin": two} for k, (one, two) in enumerate(numbers.tolist())}
    return from_log(pa.table(table), ["offer", "segment"], "clicks"), features


@pytest.mark.parametrize("explained", [True, False])
def test_features_are_worth_collecting_where_they_say_something(explained):
    from tensorbandits.study.features import features_of, features_worth, worth_section, worth_words

    log, features = offers_log(1.0)
    if not explained:
        values = list(features.values())
        features = dict(zip(features, values[5:] + values[:5]))
    features["an offer that the log does not have"] = {"price": 0.0, "margin": 1.0}
    numbers = features_of(log, {"offer": features})
    found = features_worth(log, profile(log, rewards=1_000), numbers, 0)
    (words,) = worth_words(log, found)
    assert ("are worth collecting" in words and "new ones" in words) == explained
    assert "was not found" in words or explained
    assert worth_section(log, found).title == "Are features worth collecting"


def test_features_that_no_level_has_are_refused():
    from tensorbandits.study.features import features_of

    log, _ = offers_log(1.0, rows=50)
    with pytest.raises(ValueError, match="no level of 'offer' in the log has features"):
        features_of(log, {"offer": {"another": {"price": 1.0}}})
    with pytest.raises(ValueError, match="the log has the modes 'offer', 'segment'"):
        features_of(log, {"shop": {"another": {"price": 1.0}}})


def test_the_command_takes_features_from_a_file(folder, tmp_path):
    offers = pa.table({"offer": [f"offer {k}" for k in range(5)], "price": [1.0, 2.0, 3.5, 4.0, 7.0]})
    pa.csv.write_csv(offers, tmp_path / "offers.csv")
    options = ["--modes", "segment,offer,channel", "--context", "segment", "--reward", "clicks", *ROUNDS]
    told = ["--trials", "impressions", "--features", f"offer={tmp_path / 'offers.csv'}", "--out", tmp_path / "out"]
    result = invoke(folder / "log.csv", *options, *told)
    assert result.exit_code == 0, result.output
    assert "Are features worth collecting" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert invoke(folder / "log.csv", *options, "--features", "offers.csv").exit_code == 2
