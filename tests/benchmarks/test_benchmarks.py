"""What the benchmarks conclude from numbers; the numbers themselves are for a run of them."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import tensorbandits as tb
from benchmarks.__main__ import main
from benchmarks.library import (
    against,
    application,
    calibration,
    change,
    cost,
    deciding,
    evaluation,
    feedback,
    kinds,
    studies,
)
from benchmarks.library.claims import Claim
from benchmarks.paper import locking, regret, sensitivity, stuck
from benchmarks.store import Options, Store
from benchmarks.timing import median_interval
from tensorbandits.policies.registry import records
from tensorbandits.report.page import Text


def run(*arguments):
    import typer

    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(main)
    return CliRunner().invoke(app, list(arguments))


def test_regrets_are_those_of_the_reference_to_the_digit_and_are_kept(tmp_path):
    arguments = ["regret", "--only", "ucb", "--replications", "1", "--jobs", "1", "--out", str(tmp_path)]
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    numbers = json.loads((tmp_path / "results.json").read_text())["regret"]
    assert [(line["policy"], line["same"], line["replications"]) for line in numbers["previous"]] == [("ucb", 1, 1)]
    assert [line["verdict"] for line in numbers["requirements"]] == ["not decided"]  # of one replication
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert len(kept) == 1
    assert run(*arguments, "--docs", str(tmp_path / "docs")).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == kept
    assert (tmp_path / "docs" / "index.md").read_text() == (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("statistic", "values", "verdict"),
    [
        ("mean", [1.0, 1.1, 0.9], "holds"),
        ("mean", [3.0, 3.1, 2.9], "does not hold here"),
        ("mean", [1.0, 2.9, 1.5], "not decided"),
        ("median", list(range(100, 130)), "does not hold here"),
        ("median", [1.0] * 25 + [9.0] * 5, "holds"),
        ("median", [1.0] * 16 + [9.0] * 14, "not decided"),
        ("median", [1.0] * 5, "not decided"),
        ("tail", [1.0] * 9 + [1.9], "holds"),
        ("tail", [1.0] * 9 + [2.1], "does not hold here"),
        ("tail", [1.0] * 3, "not decided"),
    ],
)
def test_requirements_are_judged_by_intervals(statistic, values, verdict):
    requirement = regret.Requirement("words", "a", statistic, most=2.0)
    _, interval = requirement.measure({"a": np.array(values, dtype=float)})
    assert requirement.verdict(interval) == verdict


def test_a_requirement_may_have_a_lower_bound_or_be_over_another_policy():
    within = regret.Requirement("words", "a", "mean", most=3.0, least=2.0)
    assert [within.verdict(interval) for interval in ((2.1, 2.9), (1.0, 1.9), (1.9, 2.5))] == [
        "holds",
        "does not hold here",
        "not decided",
    ]
    over = regret.Requirement("words", "a", "mean", most=0.6, over="b")
    value, interval = over.measure({"a": np.array([1.0, 1.0, 1.0]), "b": np.array([2.0, 2.0])})
    assert (value, over.verdict(interval)) == (0.5, "holds")


def test_the_interval_of_a_median_covers_it_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(1000):
        low, high = median_interval(rng.normal(5.0, 1.0, 30))
        hits += low <= 5.0 <= high
    assert 940 <= hits <= 975  # 957 expected: between the 10th and the 21st of 30
    assert math.isnan(median_interval(np.arange(5.0))[0])


def test_a_mean_of_seeds_is_judged_by_its_interval_and_a_number_as_it_is():
    share = Claim("c", "words", "scale", lambda result: result, least=0.9, unit="%")
    sure, unsure, low = (np.array(values) for values in ([0.95, 0.96, 0.94], [0.95, 0.99, 0.85], [0.5, 0.51, 0.49]))
    assert [share.verdict(values) for values in (sure, unsure, low)] == ["holds", "not decided", "does not hold here"]
    assert [share.verdict(value) for value in (0.9, 0.89)] == ["holds", "does not hold here"]
    assert share.show(sure) == "95.0% ± 2.5%"


def test_against_another_commit_every_policy_of_the_registry_is_played():
    cases = list(against.cases())
    assert {case["policy"] for case in cases} == {record.name for record in records()}
    given = {case["policy"] for case in cases if "context" in case["arguments"]}
    assert given == {record.name for record in records() if record.context}
    assert len({json.dumps(case) for case in cases}) == len(cases)


def test_versions_of_the_library_are_played_by_processes_that_wait_for_their_turn(tmp_path):
    case = {"class": "VectorizedUCB", "p": 3, "paper": False, "arguments": {"context": [0]}}
    sources = against.ROOT / "src"
    with against.playing(sources, case) as one, against.playing(sources, case) as two:
        assert all(play(200) > 0 for play in (one, two, two, one))
    with pytest.raises(RuntimeError, match=f"library of {tmp_path} was to be timed"), against.playing(tmp_path, case):
        pass
    with pytest.raises(RuntimeError, match="a player ended"), against.playing(sources, case | {"class": "Nobody"}):
        pass


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["against", "--commit", "no-such-thing"], "there is no commit 'no-such-thing'"),
        (["rounds", "--commit", "HEAD"], "--commit is for the suite against"),
        (["regret", "--only", "nobody"], "nobody unknown"),
        (["regret", "--only", "elimination", "--rounds", "3"], "too few for elimination"),
        (["scale", "--rounds", "3"], "--rounds is for the suite regret"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_measured(arguments, words, tmp_path):
    result = run(*arguments, "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", " ").split())
    assert not (tmp_path / "out").exists()


def test_options_of_a_quick_run_are_shown_in_its_commands():
    assert Options(quick=True).flags == ("--quick",)
    assert Options().flags == ()


@pytest.mark.parametrize(
    ("rules", "time", "verdict"),
    [
        (1_000, 3.0, "holds"),
        (1_000, 3.1, "does not hold here"),
        (100, 3.1, "none: of 100 pairs"),
    ],
)
def test_the_search_among_forbidden_pairs_is_judged_at_the_number_stated(rules, time, verdict):
    settings = {"task": "restricted", "rank": 2, "rules": rules, "size": 1_000, "seed": 0}
    parts, _ = deciding.section([(settings, {"unrestricted": 1.0, "random pairs": time})])
    assert [row[-1] for row in parts[0].rows] == ["reported", verdict]


@pytest.mark.parametrize(("ratio", "verdict"), [(0.9, "holds"), (1.1, "does not hold here")])
def test_a_decision_is_judged_beside_the_line_of_its_own_turn(ratio, verdict):
    lines = np.linspace(10.0, 30.0, 20)  # the machine slows down meanwhile
    settings = {"task": "decide", "policy": "ucb", "p": 20}
    parts, data = deciding.section([(settings, {"decisions": (ratio * lines).tolist(), "lines": lines.tolist()})])
    assert parts[-1].rows[0][-1] == data["decisions"][0]["verdict"] == verdict


def test_a_round_is_judged_by_the_interval_of_the_ratio_to_the_other_commit():
    before = np.linspace(50.0, 90.0, 40)
    noise = np.tile([0.8, 1.0, 1.2, 1.0], 10)
    case = next(against.cases()) | {"task": "rounds"}
    for ratios, verdict in (
        (1.0 + 0 * noise, "holds"),
        (1.2 + 0 * noise, "does not hold here"),
        (1.1 * noise, "not decided"),
    ):
        line = against.compared_line(case, {"before": before.tolist(), "now": (ratios * before).tolist()})
        assert line["verdict"] == verdict


def test_studies_are_judged_by_what_their_logs_were_made_of():
    wanted = studies.plan(Options(quick=True))
    assert {settings["task"] for settings in wanted} == {"verdict", "lucky", "adverts", "play", "time"}
    found = [
        (settings, {"words": f"**{words}**: so.", "suggested": "affine 2", "gain": 0.1, "seconds": 1.0})
        for settings, words in zip(
            [settings for settings in wanted if settings["task"] == "verdict"],
            ["Low rank is worth it here", "Main effects suffice", "Main effects suffice", "Nothing to learn was found"],
        )
    ]
    assert studies.verdict_rows(found)[1] == [True, False, True, False]


def test_lucky_cells_are_best_of_all_unless_they_are_steadied():
    found = studies.measure({"task": "lucky", "seed": 5})
    assert (found["raw"], found["raw best"]) == (4, 1.0)
    assert found["steadied"] == 0


def test_evaluations_are_judged_by_what_holds_and_by_what_any_model_could_gain():
    def results(held, ips, ours, best):
        errors = {"IPS": ips, "SNIPS": ips, "DR": ours, "DR, true means": best}
        return [{name: {"error": error, "held": at < held} for name, error in errors.items()} for at in range(10)]

    assert evaluation.judged_row("low rank", results(9, 2.0, 1.0, 0.9))[2:] == ["holds", "4.00", "at least 2", "holds"]
    wrong = evaluation.judged_row("no structure", results(8, 1.0, 1.05, 1.0))
    assert wrong[1:] == ["80.0% and 80.0%", "does not hold here", "0.91", "at least 0.83", "holds"]
    rare = evaluation.judged_row("clicks", results(10, 1.1, 1.0, 1.0))
    assert rare[2:] == ["does not hold here", "1.21", "at least 2", "does not hold here; no model could, 1.21 at most"]


def test_the_tutorial_is_an_application_of_few_lines():
    lines = feedback.lines()
    assert len(lines) <= feedback.LINES
    for call in ("forbid(", "ask(", "tell(", "add_level(", "retire_level(", "save(", "load(", "evaluate(", "default=0"):
        assert call in "".join(lines)
    assert "delay=600, lost=0.05, twice=0.1" in feedback.program()


def test_feedback_in_every_way_leaves_the_ledger_that_it_should(tmp_path):
    result = run("feedback", "--quick", "--jobs", "1", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    groups = json.loads((tmp_path / "results.json").read_text())["feedback"]["groups"]
    assert set(groups) == set(feedback.WAYS)
    for way, (only,) in groups.items():
        assert only["exact"], way
        assert 0 < only["earned"] < only["possible"]


def test_a_bandit_is_timed_beside_its_policy_and_its_open_decisions_are_weighed():
    timed = application.measure({"case": "normal rewards, rank 2", "slices": 2, "rounds": 5})
    assert all(len(timed[name]) == 2 and min(timed[name]) > 0 for name in ("policy", "bandit"))
    assert application.measure({"case": "open decisions", "count": 50})["count"] == 50
    drawn = application.chances(application.CHANCES["floors, ceiling, holdout"], 20)
    assert min(drawn["values"]) > 1e-6
    assert drawn["least"] > 0


@pytest.mark.slow
def test_change_is_measured_and_reported(tmp_path):
    result = run("change", "--quick", "--jobs", "1", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    numbers = json.loads((tmp_path / "results.json").read_text())["change"]
    assert [(line["switches"], line["half_life"]) for line in numbers["switches"]] == [
        (True, None),
        (True, 40),
        (False, 40),
    ]
    assert numbers["switches"][2]["alarms"] == {"soon": 0, "late": 0}
    assert [line["start"] for line in numbers["levels"]] == list(change.STARTS)
    assert all(line["retired"] == 0 for line in numbers["levels"])
    assert "does not hold" not in (tmp_path / "report.md").read_text()  # nothing is judged by two worlds


def test_a_kind_of_rewards_is_judged_slice_by_slice_beside_the_one_it_is_over():
    times = {kinds.TOLD: [10.0] * 50 + [20.0] * 50, "clicks, told rank 2": [35.0] * 50 + [70.0] * 50}
    line = kinds.compared(times, "clicks, told rank 2", kinds.TOLD, 3.0)
    assert line is not None
    assert (line["ratio"], line["interval"], line["verdict"]) == (3.5, [3.5, 3.5], "does not hold here")
    assert kinds.compared(times, "counts, told rank 2", kinds.TOLD, None) is None
    assert all({name, over} <= set(kinds.KINDS) for name, over, _ in kinds.MOST)


@pytest.mark.parametrize("name", kinds.KINDS)
def test_every_kind_plays_with_rewards_that_it_can_have(name):
    assert kinds.player(6, kinds.KINDS[name]).play(30) > 0


@pytest.mark.parametrize(("shares", "verdict"), [((0.8, 0.92), "holds"), ((0.6, 0.8), "does not hold here")])
def test_intervals_are_judged_by_the_mean_over_worlds(shares, verdict):
    rest = {"held_of_most_played": 0.9, "held_of_unplayed": None, "width": 1.0}
    row = calibration.interval_row("gaussian", "uniform", [{"held": share} | rest for share in shares])
    assert (row[2], row[-1], row[6]) == ("2", verdict, "–")


@pytest.mark.parametrize(("seed", "right"), [(10, False), (4, True)])  # whether the cell played most is the best one
def test_a_look_at_the_posterior_of_a_run_starts_from_its_own_draw_and_from_the_truth(seed, right):
    settings = stuck.plan(Options(quick=True))[0] | {
        "p": 5,
        "signal": 2.0,
        "seed": seed,
        "rounds": 240,
        "look": 200,
        "draws": 40,
    }
    result = stuck.measure(settings)
    assert result["regret"] > 0
    assert (result["short"] == 0.0) == right
    best = result["value"] + result["short"]
    for start in stuck.STARTS:  # most of 5 x 5 x 5 cells are known by then
        assert (result[start]["believed"] > 0.5) == right
        assert abs(result[start]["best"] - best) < 0.2 * best


def test_runs_that_were_lost_are_listed_with_what_was_believed(tmp_path):
    store, options = Store(tmp_path, "stuck"), Options(quick=True)
    for settings, lost_by in zip(stuck.plan(options), (100.0, 1.0, 900.0, 1.0, 110.0, 1.0), strict=True):
        lost = lost_by == 900.0
        found = {start: {"believed": 0.96 if lost else 0.9, "best": 1.5} for start in stuck.STARTS}
        store.add(settings, {"short": 2.0 * lost, "value": 5.0, "regret": lost_by} | found, 1.0)
    data = stuck.section(store, options)[1]
    assert [row[-3:] for row in data["rows"]] == [["1", "0.67", "0.92"], ["0", "1.00", "0.90"]]
    assert [line[1:] for line in data["wrong"]] == [
        ["900 (8.2 medians)", "5.0", "7.0", "0.96", "0.96", "1.5", "1.5"],
    ]


@pytest.mark.parametrize("bed", ["crossed-given", "paper-15-0.8"])
def test_a_run_that_may_lock_is_judged_by_its_last_third_and_by_the_posterior(bed):
    (settings, *_), rounds = locking.plan(Options(beds=bed)), 150
    result = locking.measure(settings | {"rounds": rounds})
    assert result == locking.measure(settings | {"rounds": rounds})
    assert result["regret"] > 0
    assert 0.3 < result["last"] < 2.0  # after so few rounds play is about as good as cells at random
    assert 0.0 <= result["believed"] < 0.9
    assert 0.0 <= result["doubted"] <= 1.0 - result["believed"]
    assert 0.0 < result["share"] <= 1.0


def test_runs_that_lose_much_in_the_end_are_listed(tmp_path):
    store, options = Store(tmp_path, "locking"), Options(quick=True)
    for k, settings in enumerate(locking.plan(options)):
        said = {"share": 0.5, "believed": 0.25, "doubted": 0.4}
        store.add(settings, {"regret": 100.0 + k, "last": 0.3 if k == 3 else 0.02, **said}, 1.0)
    data = locking.section(store, options)[1]
    assert [row[1:] for row in data["rows"]] == [
        ["default", "4", "104", "104", "109", "0.30", "1"],
        ["0.5", "4", "106", "106", "110", "0.02", "0"],
        ["1", "4", "106", "106", "111", "0.02", "0"],
    ]
    assert [line[1:] for line in data["lost"]] == [["103", "0.30", "0.50", "0.25", "0.40"]]


def test_a_bed_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no bed nowhere in locking; allowed are pages, "):
        locking.plan(Options(beds="pages,nowhere"))
    with pytest.raises(ValueError, match=r"--only: 0\.2 unknown in locking; choose from default, 0\.5, 1"):
        locking.plan(Options(only="default,0.2"))


def test_constants_are_halved_and_doubled_where_that_is_allowed():
    usual = tb.Tuning()
    for name in sensitivity.constants(Options()):
        low, high = (sensitivity.changed(name, factor) for factor in sensitivity.FACTORS)
        assert low < getattr(usual, name) < high
    assert [sensitivity.changed("obsolete", factor) for factor in (0.5, 2.0)] == pytest.approx([1.05, 1.2])


def test_a_constant_s_effect_is_told_from_noise_over_all_beds(tmp_path):
    options = Options(only="news,settled,tried", beds="paper,crossed", replications=6)
    store, rng = Store(tmp_path, "sensitivity"), np.random.default_rng(0)
    low, high = (sensitivity.changed("settled", factor) for factor in sensitivity.FACTORS)
    for settings in sensitivity.plan(options):
        world = np.random.default_rng([settings["seed"], len(settings["bed"])]).uniform(80.0, 120.0)
        noise = 1.0 if settings["constant"] in (None, "tried") else rng.normal(1.0, 0.02)
        clear = settings["constant"] == "settled" and settings["value"] == high and settings["bed"] == "crossed"
        seconds = 2.0 if settings["constant"] == "settled" and settings["value"] == low else 1.0
        store.add(settings, {"regret": (1.3 if clear else 1.0) * noise * world, "seconds": seconds}, 1.0)
    parts, data = sensitivity.section(store, options)
    assert [(name, said, where) for name, _, said, where in data["verdicts"]] == [
        ("news", sensitivity.NOISE, ""),
        ("settled", sensitivity.CLEAR, "crossed"),
        ("tried", sensitivity.NOT_REACHED, ""),
    ]
    bold = [row[:2] for row in next(part for part in parts if hasattr(part, "rows")).rows if "**" in "".join(row)]
    assert bold == [["settled", f"{high:g}"]]
    settled = [one for one in data["ratios"] if (one["constant"], one["bed"]) == ("settled", "crossed")]
    assert settled[1]["ratio"] == pytest.approx(1.3, rel=0.05)
    assert 0.0 < settled[1]["error"] < 0.05
    assert [one["work"] for one in settled] == [2.0, 1.0]


def test_a_quick_run_of_constants_is_kept_and_one_world_decides_nothing(tmp_path):
    arguments = ["sensitivity", "--quick", "--only", "judged_from", "--jobs", "1", "--out", str(tmp_path)]
    assert run(*arguments).exit_code == 0
    lines = (tmp_path / "sensitivity.jsonl").read_text()
    assert run(*arguments).exit_code == 0
    assert (tmp_path / "sensitivity.jsonl").read_text() == lines
    (said,) = json.loads((tmp_path / "results.json").read_text())["sensitivity"]["verdicts"]
    assert said[0] == "judged_from"
    effect = sensitivity.Effect("paper", 2.0, np.array([3.0]), np.array([2.0]), (1.0, 1.0))
    assert (sensitivity.verdict([effect]), str(effect)) == (sensitivity.OPEN, "1.50")


@pytest.mark.parametrize(
    ("options", "words"),
    [({"beds": "nowhere"}, "no bed nowhere"), ({"only": "news,nothing"}, "no constant nothing")],
)
def test_beds_and_constants_that_are_not_there_are_refused(options, words):
    with pytest.raises(ValueError, match=f"{words} in sensitivity; allowed are "):
        sensitivity.plan(Options(**options))


def test_the_constants_of_costs_are_found_again_from_what_they_predict(tmp_path):
    store, options = Store(tmp_path, "cost"), Options()
    for settings in cost.plan(options):
        predicted = cost.microseconds(settings["policy"], cost.workload(settings))
        store.add(
            settings, {"microseconds": predicted * (3.0 if settings in cost.UNSEEN[:2] else 1.0), "cells": 1}, 1.0
        )
    parts, data = cost.section(store, options)
    for policy, constants in cost.MICROSECONDS.items():
        found = data["constants"][policy]
        assert {**dict.fromkeys(found, 0.0), **constants} == pytest.approx(found, rel=0.02, abs=1e-9)
    pasted: dict = {}
    exec(cost.to_paste(data["constants"]), pasted)
    assert pasted["MICROSECONDS"] == data["constants"]
    said = [part.markdown() for part in parts if isinstance(part, Text) and "within a factor" in part.markdown()]
    assert said[0] == f"{len(cost.UNSEEN) - 2} of {len(cost.UNSEEN)} within a factor of 2, the farthest off by 3.0."
    assert said[-1].startswith(f"{len(cost.CALIBRATION)} of {len(cost.CALIBRATION)} within")


def test_problems_on_which_constants_are_found_are_not_those_that_check_them():
    assert not [one for one in cost.CHECKS if cost._group(one) == "calibration"]
    assert not [one for one in cost.CALIBRATION if cost._group(one) != "calibration"]


@pytest.mark.parametrize("settings", [cost.CALIBRATION[0], cost.UNSEEN[6], cost.UNSEEN[8]], ids=cost.problem)
def test_what_a_reward_costs_is_measured(settings):
    found = cost.measure(settings | {"rounds": 40})
    assert found["microseconds"] > 1.0
    assert 1 <= found["cells"] <= 40
