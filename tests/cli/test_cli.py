import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tensorbandits.cli import application
from tensorbandits.cli.demo import POLICIES, too_short

NAMES = list(POLICIES)


def invoke(*arguments):
    return CliRunner().invoke(application(), [str(argument) for argument in arguments])


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=120)


def png_size(path):
    """Width and height from the header of a PNG."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    result = invoke("demo", "--out", out, "--rounds", 300, "--replications", 2, "--jobs", 1, "--visitors", 400)
    assert result.exit_code == 0, result.output
    return out, result


def test_the_demo_runs_a_campaign_that_learns(demo):
    out, result = demo
    lines = (out / "campaign.md").read_text(encoding="utf-8").splitlines()
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert [row[0] for row in rows[2:]] == ["100", "200", "300", "400"]
    for _, decided, held, possible, learned in rows[2:]:
        assert 0 < float(decided) < float(possible)
        assert 0 < float(held) < float(possible)
        assert float(learned) > 0
    assert png_size(out / "campaign.png")[0] > 1_000
    assert "believed best at the end, for new: offer" in result.stdout.replace("\n", " ")


def test_a_campaign_without_visitors_is_left_out(tmp_path):
    result = invoke("demo", "--out", tmp_path, "--rounds", 300, "--replications", 1, "--jobs", 1, "--visitors", 0)
    assert result.exit_code == 0, result.output
    assert not (tmp_path / "campaign.md").exists()


def test_the_demo_prints_a_row_for_each_policy(demo):
    _, result = demo
    for name in NAMES:
        assert name in result.stdout
    assert "300" in result.stdout


def test_the_demo_writes_the_table(demo):
    out, _ = demo
    lines = (out / "demo.md").read_text(encoding="utf-8").splitlines()
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert rows[0][0] == "policy"
    assert sorted(row[0] for row in rows[2:]) == sorted(NAMES)
    regrets = [float(row[1].replace(",", "")) for row in rows[2:]]
    assert regrets == sorted(regrets)
    assert all(regret > 0 for regret in regrets)
    ratios = {row[0]: float(row[3]) for row in rows[2:]}
    assert ratios["Vectorized UCB"] == 1.0
    assert all(float(row[4].replace(",", "")) > 0 for row in rows[2:])


def test_the_demo_draws_the_figure(demo):
    out, _ = demo
    width, height = png_size(out / "demo.png")
    assert 1_000 < width < 3_000
    assert 500 < height < 2_000
    assert (out / "demo.png").stat().st_size > 30_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rounds", "0"], "--rounds is 0"),
        (["--rounds", "5"], "--rounds is 5"),
        (["--replications", "0"], "--replications is 0"),
        (["--seed", "-1"], "--seed is -1"),
        (["--jobs", "0"], "--jobs is 0"),
        (["--visitors", "-1"], "--visitors is -1"),
    ],
)
def test_wrong_options_get_one_clear_line(arguments, message, tmp_path):
    result = invoke("demo", "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("rounds", [5, 90])
def test_too_few_rounds_get_one_number_that_suffices_for_every_policy(rounds, tmp_path):
    result = invoke("demo", "--out", tmp_path / "out", "--rounds", rounds)
    assert "Matricized ESTR" in result.stderr
    assert ("Tensor elimination" in result.stderr) == (rounds == 5)
    assert "c_0" not in result.stderr
    least = int(re.search(r"give (\d+) or more", result.stderr)[1])
    assert too_short(least) == []
    assert too_short(least - 1) == ["Matricized ESTR"]


@pytest.mark.parametrize("below", ["", "deeper"])
def test_an_out_that_is_a_file_is_refused(below, tmp_path):
    file = tmp_path / "out"
    file.write_text("precious")
    result = invoke("demo", "--out", file / below)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --out is ")
    assert result.stderr.count("\n") == 1
    assert file.read_text() == "precious"


def test_an_unknown_option_is_a_usage_error():
    assert invoke("demo", "--round", "5").exit_code == 2


def test_help_names_the_demo_and_its_options():
    assert "demo" in invoke("--help").stdout
    shown = invoke("demo", "--help").stdout
    for option in ("--out", "--rounds", "--replications", "--seed", "--jobs", "--visitors"):
        assert option in shown


def test_the_package_runs_as_a_module():
    result = python("-m", "tensorbandits", "--version")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("tensorbandits ")


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("typer", "demo"),
        ("matplotlib", "demo"),
        ("joblib", "simulate"),
        ("duckdb", "study log.csv --modes a --reward b"),
    ],
)
def test_a_missing_extra_is_named_with_the_remedy(missing, command):
    code = f"import sys; sys.modules['{missing}'] = None; from tensorbandits.cli import main; main()"
    result = python("-c", code, *command.split())
    assert result.returncode == 2
    assert missing in result.stderr
    assert "pip install 'tensorbandits[experiments]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_commands_of_the_service_need_only_its_own_extra(tmp_path):
    others = "for name in ('duckdb', 'joblib', 'matplotlib'): sys.modules[name] = None"
    code = f"import sys\n{others}\nfrom tensorbandits.cli import main; main()"
    result = python("-c", code, "keys", "add", "boss", "--role", "admin", "--store", f"{tmp_path}/some.db")
    assert result.returncode == 0, result.stderr
    assert "made the key" in result.stderr


def test_importing_the_package_loads_none_of_the_extra():
    extra = {"joblib", "matplotlib", "rich", "typer"}
    code = f"import sys, tensorbandits.cli; print({extra} & set(sys.modules) or 'none')"
    assert python("-c", code).stdout.strip() == "none"
