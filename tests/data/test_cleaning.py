"""Labels that are one but for case and spaces: read as one, and found where they are not."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tensorbandits as tb
from tensorbandits.data import clean_label, from_log
from tensorbandits.study.remarks import alike, alike_words, remarks
from tests.lake import spark_session

COUNTRIES = ("Germany", "France", "Italy", "Spain", "Poland", "Norway", "Sweden", "Ireland", "Austria", "Greece")
COUNTRIES += ("Portugal", "United Kingdom")
SPELLINGS = (str, lambda name: f"{name.upper()} ", lambda name: f" {name.lower()}".replace(" ", "  "))


def columns(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    country, spelling = rng.integers(0, 12, rows), rng.integers(0, 3, rows)
    return {
        "country": [SPELLINGS[how](COUNTRIES[which]) for which, how in zip(country, spelling)],
        "offer": rng.integers(0, 3, rows).tolist(),
        "paid": np.where(rng.random(rows) < 0.4, rng.integers(1, 5, rows), 0).astype(float).tolist(),
    }


def plainly(table):
    """The plain twin: labels cleaned by hand, one by one, before the log is read."""
    return table | {"country": [" ".join(label.split()).lower() for label in table["country"]]}


ENGINES = {
    "pyarrow": pa.table,
    "pandas": pd.DataFrame,
    "polars": lambda table: pl.LazyFrame(table),
    "duckdb": lambda table: duckdb.from_arrow(pa.table(table)),
    "spark": lambda table: spark_session.frame(pa.table(table)),
}


@pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=pytest.mark.slow if name == "spark" else ()) for name in ENGINES]
)
@pytest.mark.parametrize("options", [{}, {"top": {"country": 5}}, {"kind": "revenue"}], ids=["all", "top", "revenue"])
def test_a_cleaned_log_is_that_of_cleaned_labels(engine, options):
    table = columns()
    log = from_log(ENGINES[engine](table), ["country", "offer"], "paid", clean="strip,casefold", **options)
    twin = from_log(pa.table(plainly(table)), ["country", "offer"], "paid", **options)
    assert log.levels == twin.levels
    assert log.ledger == twin.ledger
    assert log.dropped == twin.dropped
    for mine, theirs in zip(log.values(), twin.values(), strict=True):
        assert np.array_equal(mine, theirs)
    assert log.options["clean"] == "strip,casefold"
    if engine not in ("duckdb", "spark"):  # whose rows come in any order
        for mine, theirs in zip(log.decisions()[:2], twin.decisions()[:2], strict=True):
            assert np.array_equal(mine, theirs)


def test_what_was_merged_is_said_by_mode_and_level():
    log = from_log(pa.table(columns()), ["country", "offer"], "paid", clean={"country": ["casefold", "strip"]})
    assert set(log.merged) == {"country"}
    assert len(log.merged["country"]) == 12
    assert set(log.merged["country"]["united kingdom"]) == {how("United Kingdom") for how in SPELLINGS}
    assert from_log(pa.table(columns()), ["country", "offer"], "paid").merged == {}


def test_each_step_mends_its_own():
    table = pa.table({"a": ["x", "X", "x ", "y"] * 3, "b": [1, 2] * 6, "paid": [1.0] * 12})
    levels = {how: from_log(table, ["a", "b"], "paid", clean=how).levels[0] for how in ("strip", "casefold")}
    assert levels == {"strip": ("X", "x", "y"), "casefold": ("x", "x ", "y")}
    assert [clean_label(label) for label in (" Straße ", 7, True, "A  b")] == ["strasse", 7, True, "a b"]


@pytest.mark.parametrize(
    ("clean", "kind", "words"),
    [
        ("lower", ValueError, "'lower' is no way to clean labels; allowed are 'strip' and 'casefold'"),
        ("", ValueError, "'' is no way"),
        (7, TypeError, "clean is 7"),
        ({"land": "strip"}, ValueError, "clean names the mode 'land'"),
        ({"country": 7}, TypeError, "clean is 7"),
        (["strip", None], ValueError, "None is no way"),
    ],
)
def test_other_ways_to_clean_are_refused(clean, kind, words):
    with pytest.raises(kind, match=words):
        from_log(pa.table(columns(60)), ["country", "offer"], "paid", clean=clean)


def test_what_cleaning_makes_one_level_is_nothing_to_decide():
    table = pa.table({"a": ["x", "X"] * 3, "b": [1, 2] * 3, "paid": [1.0] * 6})
    with pytest.raises(ValueError, match="mode 'a' has one level only, 'x'"):
        from_log(table, ["a", "b"], "paid", clean="casefold")


def test_twelve_levels_in_three_spellings_are_one_finding():
    log = from_log(pa.table(columns(3_000)), ["country", "offer"], "paid")
    words = alike_words(log)
    assert words.startswith("**Clean the log first**: levels differ by case or spaces only")
    assert "country has 36 levels and would have 12." in words
    assert "' austria' and 'AUSTRIA ' and 'Austria' would be 'austria'" in words.replace("  austria", " austria")
    assert "and so on for 9 more. `--clean strip,casefold` reads them as one" in words
    assert not [line for line in remarks(log, []) if "country" in line]  # rare or not, they are to be merged
    cleaned = from_log(pa.table(columns(3_000)), ["country", "offer"], "paid", clean="strip,casefold")
    assert alike_words(cleaned) == ""


def test_the_least_that_mends_is_offered():
    def steps(*labels):
        table = pa.table(
            {"a": [*labels, "other"] * 2, "b": [0, 1] * (len(labels) + 1), "paid": [1.0] * 2 * (len(labels) + 1)}
        )
        return alike(from_log(table, ["a", "b"], "paid"))

    assert steps("x", "x ")[0] == ("strip",)
    assert steps("x", "X")[0] == ("casefold",)
    assert steps("x", "X", "x ")[0] == ("strip", "casefold")
    assert steps("x", "x  y", "x y")[1][0].labels == ("x  y", "x y")
    assert steps("x", "y")[1] == []


def test_a_bandit_is_told_a_log_as_it_was_read_or_cleaned():
    table = columns()
    log = from_log(pa.table(table), ["country", "offer"], "paid", clean="strip,casefold")
    space = tb.Space(dict(zip(log.modes, log.levels)), ["country"])
    one, two = (tb.Bandit(space.copy(), "ucb", seed=0) for _ in range(2))
    assert one.tell_log(log).rewards == two.tell_log(pa.table(table), "paid", clean="strip,casefold").rewards
    assert one.policy.ledger == two.policy.ledger == log.ledger
    with pytest.raises(ValueError, match="clean is given beside a log that is read already"):
        one.tell_log(log, clean="strip")
    with pytest.raises(ValueError, match="reward is given beside a log"):
        one.tell_log(log, "clicks")
    with pytest.raises(TypeError, match="reward is not given; name the column"):
        one.tell_log(pa.table(table))
