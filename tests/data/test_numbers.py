"""Columns of numbers as modes of a log: the same regions as requests fall into, in every engine."""

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tensorbandits as tb
from tensorbandits.data import from_log, read_log
from tensorbandits.data.numbers import with_regions
from tensorbandits.data.source import open_frame
from tensorbandits.space.regions import Regions


def table(count=80):
    rng = np.random.default_rng(0)
    age, tenure = rng.uniform(18, 70, count), rng.exponential(4.0, count)
    age[:5], tenure[3:9] = np.nan, np.nan
    rows = {"age": age, "tenure": tenure, "offer": rng.choice(["a", "b"], count), "click": rng.integers(0, 2, count)}
    return pa.table({name: pa.array(column, from_pandas=True) for name, column in rows.items()})


ENGINES = {
    "pandas": lambda rows: rows.to_pandas(),
    "pyarrow": lambda rows: rows,
    "polars": lambda rows: pl.from_arrow(rows),
    "lazy": lambda rows: pl.from_arrow(rows).lazy(),
    "duckdb": lambda rows: duckdb.from_arrow(rows),
    "dask": lambda rows: dd.from_pandas(rows.to_pandas(), npartitions=2),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("names", [["age"], ["age", "tenure"]], ids="+".join)
def test_every_engine_places_numbers_as_requests_are_placed(engine, names):
    rows = table()
    numbers = np.column_stack([rows[name].to_numpy(zero_copy_only=False) for name in names])
    learned = Regions.start(names, 4, 100)
    learned = learned.learned(learned.fit(numbers[~np.isnan(numbers).any(axis=1)][:60]))
    learned = learned.split(learned.labels[3], None, names[0])
    for regions in (learned, Regions.start(names, 4, 100)):
        placed = with_regions(open_frame(ENGINES[engine](rows)), "region", regions, names)
        assert set(placed.collect_schema().names()) == {*rows.column_names, "region"}
        placed = placed.collect() if hasattr(placed, "collect") else placed
        assert placed["region"].to_list() == regions.place(numbers).tolist()


def test_logs_are_read_with_regions_that_are_learned_from_them(tmp_path):
    rows = table()
    log = from_log(rows, ["age:3 regions", "age+tenure:2 regions", "offer"], "click")
    assert log.ledger.rounds == len(rows)
    assert all(label.startswith("age ") for label in log.levels[0])
    assert log.levels[0][-1] == "age missing"
    assert [one.partition is not None for one in log.numeric.values()] == [True, True]
    rows.to_pandas().to_csv(tmp_path / "log.csv", index=False)
    again = read_log(tmp_path / "log.csv", ["age:3 regions", "offer"], "click")
    assert again.numeric["age:3 regions"] == log.numeric["age:3 regions"]
    assert again.ledger.rounds == len(rows)


def test_regions_that_are_known_are_those_of_a_bandit():
    rows, ages = table(), tb.Numeric(cuts=[18, 30, 45, 70])
    log = from_log(rows, ["age", "offer"], "click", numeric={"age": ages})
    assert log.levels[0] == ("age 18 to 30", "age 30 to 45", "age 45 to 70", "age missing")
    bandit = tb.Bandit(tb.Space({"age": ages, "offer": ["a", "b"]}, ["age"]), "ucb", seed=0)
    bandit.tell_log(log)
    other = tb.Bandit(tb.Space({"age": ages, "offer": ["a", "b"]}, ["age"]), "ucb", seed=0)
    other.tell_log(rows, "click")
    assert bandit.policy.copy_ledger() == other.policy.copy_ledger()
    late = tb.Bandit(tb.Space({"age": tb.Numeric(), "offer": ["a", "b"]}, ["age"]), rank=1, seed=0)
    late.tell_log(log)
    assert late.space.regions["age"].labels[2:5] == log.levels[0][:3]
    propensities = rows.append_column("p", pa.array([0.5] * len(rows)))
    logged = from_log(propensities, ["age", "offer"], "click", numeric={"age": ages}, propensity="p")
    result = tb.evaluate(logged, {"ours": bandit, "a": {"offer": "a"}}, space=bandit.space)
    assert "ours" in str(result)


@pytest.mark.parametrize(
    ("modes", "numeric", "words"),
    [
        (["ages:3 regions", "offer"], None, "number 'ages' is not a column of the log.*did you mean 'age'"),
        (["offer:3 regions", "age:2 regions"], None, "column 'offer' is of type String"),
        (["age", "offer"], {"tenure": tb.Numeric()}, "numeric says what 'tenure' is, but the modes are"),
        (["age", "offer"], {"age": 3}, "give a tb.Numeric"),
        (["age:1 regions", "offer"], None, "regions"),
    ],
)
def test_wrong_modes_of_numbers_are_refused(modes, numeric, words):
    with pytest.raises((TypeError, ValueError), match=words):
        from_log(table(), modes, "click", numeric=numeric)


def test_a_frame_without_the_numbers_says_which_lacks():
    bandit = tb.Bandit(tb.Space({"who": tb.Numeric("age", "years"), "offer": ["a", "b"]}, ["who"]), rank=1, seed=0)
    with pytest.raises(ValueError, match="no column 'years'"):
        bandit.tell_log(table(), "click")
    bandit.tell_log(table(), "click", columns={"years": "tenure"})
    assert bandit.policy.ledger.rounds == 80
    with pytest.raises(ValueError, match="'year' is no mode"):
        bandit.tell_log(pd.DataFrame(table().to_pandas()), "click", columns={"year": "tenure"})
