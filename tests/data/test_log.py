"""Logs: the same ledger from every engine, levels in order, rows left out and counted, rewards by value."""

import datetime
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorbandits as tb
from tensorbandits.data import from_log
from tensorbandits.data.columns import Mode
from tests.lake import spark_session

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

ENGINES = {
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "polars lazy": lambda table: pl.from_arrow(table).lazy(),
    "pyarrow": lambda table: table,
    "duckdb": lambda table: duckdb.from_arrow(table),
    "dask": lambda table: pytest.importorskip("dask.dataframe").from_pandas(table.to_pandas(), npartitions=3),
    "spark": spark_session.frame,
}
every_engine = pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=pytest.mark.slow if name == "spark" else ()) for name in ENGINES]
)


def said(words, engine):
    """Words of a message as an engine has them that does not number rows, and shows the row instead."""
    if engine != "spark":
        return words
    return re.sub(r"row \d+( \\\(counted from 0\\\))?( (?=\.\*))?", r".*\\(this engine does not number rows\\)", words)


def events(n=400, seed=0, whole=True):
    """A log with times, text, numbers, and clicks of impressions."""
    rng = np.random.default_rng(seed)
    hours = rng.integers(0, 24 * 40, n)
    shown = rng.integers(0, 9, n)
    return {
        "time": [datetime.datetime(2024, 1, 29) + datetime.timedelta(hours=int(hour), minutes=7) for hour in hours],
        "station": rng.choice(["Ås", "a", "B", "b9", "b10", ""], n, p=[0.1, 0.3, 0.2, 0.2, 0.15, 0.05]).tolist(),
        "line": rng.choice([10, 9, -2], n).tolist(),
        "reward": (rng.integers(-5, 6, n) if whole else rng.standard_normal(n)).tolist(),
        "shown": shown.tolist(),
        "clicks": rng.binomial(shown, 0.3).tolist(),
    }


def plain(columns, modes, reward, trials=None):
    """The same by a loop: rewards by labelled cell."""
    names = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    label = {
        "station": lambda i: columns["station"][i],
        "line": lambda i: columns["line"][i],
        "time:weekday": lambda i: names[columns["time"][i].weekday()],
        "time:month": lambda i: columns["time"][i].strftime("%b"),
        "time:hour": lambda i: columns["time"][i].hour,
        "time:6h": lambda i: ["00-06", "06-12", "12-18", "18-24"][columns["time"][i].hour // 6],
    }
    cells: dict = {}
    for i, value in enumerate(columns[reward]):
        rewards = [value] if trials is None else [1] * value + [0] * (columns[trials][i] - value)
        cells.setdefault(tuple(label[mode](i) for mode in modes), []).extend(rewards)
    return {cell: rewards for cell, rewards in cells.items() if rewards}


def labelled(log):
    return {tuple(log.label(entry.cell).values()): (entry.rounds, entry.total, entry.squares) for entry in log.ledger}


# Engines.


@every_engine
@pytest.mark.parametrize("trials", [None, "shown"])
@pytest.mark.parametrize("modes", [["time:weekday", "time:6h", "station"], ["line", "time:month", "time:hour"]])
def test_every_engine_gives_the_sums_of_a_plain_loop(engine, modes, trials):
    columns, reward = events(), "reward" if trials is None else "clicks"
    log = from_log(ENGINES[engine](pa.table(columns)), modes, reward, trials=trials)
    expected = plain(columns, modes, reward, trials)
    assert labelled(log) == {
        cell: (len(rewards), sum(rewards), sum(value**2 for value in rewards)) for cell, rewards in expected.items()
    }
    idle = {"no trials": columns["shown"].count(0)} if trials else {}
    assert (log.modes, log.rows, log.dropped) == (tuple(modes), 400, idle)
    assert log.ledger.order.tolist() == list(range(len(log.ledger)))  # sorted
    cells, values, counts = log.values()
    found: dict = {}
    for cell, value, count in zip(cells, values, counts):
        found.setdefault(tuple(log.label(tuple(cell.tolist())).values()), []).extend([value] * count)
    assert found == {cell: sorted(rewards) for cell, rewards in expected.items()}


@every_engine
@pytest.mark.parametrize("trials", [None, "kept"])
def test_columns_may_have_the_names_that_are_used_within(engine, trials):
    """Read under such names, and under others, a log is the same."""
    columns = events()
    plainly = from_log(
        pa.table(columns), ["station", "line", "time:weekday"], "clicks", trials=trials and "shown", top={"line": 2}
    )
    names = {"station": "reward", "line": "mode0", "time": "rows", "clicks": "square", "shown": "kept"}
    table = pa.table({names.get(name, name + " of old"): values for name, values in columns.items()})
    modes = ["reward", "mode0", "rows:weekday"]
    log = from_log(ENGINES[engine](table), modes, "square", trials=trials, top={"mode0": 2})
    assert log.levels == plainly.levels
    assert log.ledger == plainly.ledger
    assert [part.tolist() for part in log.values()] == [part.tolist() for part in plainly.values()]


@every_engine
def test_float_rewards_agree_up_to_rounding(engine):
    columns = events(whole=False)
    log = from_log(ENGINES[engine](pa.table(columns)), ["station", "line"], "reward")
    other = from_log(pa.table(columns), ["station", "line"], "reward")
    np.testing.assert_array_equal(log.ledger.cells, other.ledger.cells)
    for name in ("counts", "totals", "squares"):
        np.testing.assert_allclose(getattr(log.ledger, name), getattr(other.ledger, name), rtol=1e-12)
    assert [part.tolist() for part in log.values()] == [part.tolist() for part in other.values()]


@every_engine
def test_the_spread_within_cells_survives_a_large_mean(engine):
    """Sums of squares about 0 would lose it: 1 beside (1e9)^2 = 1e18."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, (2, 4_000))
    noise = rng.standard_normal(4_000)
    log = from_log(ENGINES[engine](pa.table({"a": a, "b": b, "r": 1e9 + 5 * a + noise})), ["a", "b"], "r")
    for ledger in (log.ledger, *log.split()):
        within, freedom = ledger.repeats()
        assert within / freedom == pytest.approx(1.0, rel=0.1)
    direct = tb.Ledger((3, 3))
    direct.add(np.column_stack([a, b]), 1e9 + 5 * a + noise)
    assert log.ledger.repeats()[0] == pytest.approx(direct.repeats()[0], rel=1e-3)


@every_engine
@pytest.mark.parametrize("wrong", [1e101, -1e120, 1e-101, float("inf")])
def test_rewards_of_impossible_size_are_found(engine, wrong):
    table = pa.table({"a": [0, 1, 0, 1, 1], "b": [0, 0, 1, 1, 0], "r": [1.0, 0.0, -1.0, wrong, -wrong]})
    with pytest.raises(ValueError, match=said(r"column 'r' is .* in row 3 .*from 1e-100 to 1e100", engine)):
        from_log(ENGINES[engine](table), ["a", "b"], "r")


@every_engine
def test_levels_are_in_natural_order(engine):
    log = from_log(ENGINES[engine](pa.table(events())), ["station", "line", "time:weekday", "time:month"], "reward")
    assert log.levels == (
        ("", "B", "a", "b10", "b9", "Ås"),
        (-2, 9, 10),
        ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
        ("Jan", "Feb", "Mar"),
    )
    assert all(type(level) is int for level in log.levels[1])


@every_engine
def test_top_keeps_the_levels_with_most_rewards(engine):
    columns = events()
    log = from_log(ENGINES[engine](pa.table(columns)), ["station", "line"], "reward", top={"station": 3})
    assert log.levels == (("B", "a", "b9"), (-2, 9, 10))
    kept = sum(station in ("B", "a", "b9") for station in columns["station"])
    assert (log.dropped, log.ledger.rounds) == ({"not in top": 400 - kept}, kept)
    assert log.values()[2].sum() == kept


def test_top_breaks_ties_by_label_and_weighs_trials():
    table = pa.table({"a": list("zzxxyw"), "b": [1, 2, 1, 2, 1, 2], "won": [0] * 6, "of": [1, 1, 1, 1, 9, 0]})
    assert from_log(table, ["a", "b"], "won", top=2).levels[0] == ("x", "z")
    assert from_log(table, ["a", "b"], "won", trials="of", top=2).levels[0] == ("x", "y")
    assert from_log(table, ["a", "b"], "won", trials="of").levels[0] == ("w", "x", "y", "z")


@every_engine
@pytest.mark.parametrize("trials", [None, "shown"])
def test_rows_with_missing_values_are_dropped_and_counted(engine, trials):
    columns = events()
    reward = "reward" if trials is None else "clicks"
    holes = {"station": (3, 50), "line": (50, 51), reward: (3, 99), "shown": (7, 200), "time": (12,)}
    gone = {row for name, rows in holes.items() if name != "shown" or trials for row in rows}
    modes = ["time:weekday", "station", "line"]
    expected = from_log(
        pa.table({name: [v for i, v in enumerate(column) if i not in gone] for name, column in columns.items()}),
        modes, reward, trials=trials,
    )  # fmt: skip
    for name, rows in holes.items():
        for row in rows:
            columns[name][row] = None
    log = from_log(ENGINES[engine](pa.table(columns)), modes, reward, trials=trials, missing="drop")
    assert log.ledger == expected.ledger
    assert log.levels == expected.levels
    assert (log.rows, log.dropped) == (400, {"missing value": len(gone)} | expected.dropped)
    assert [part.tolist() for part in log.values()] == [part.tolist() for part in expected.values()]


@every_engine
def test_nan_is_missing(engine):
    nan = float("nan")
    table = pa.table({"a": [0.5, 1.0, nan, 1.0], "b": [1, 2, 1, 1], "r": [1.0, 2.0, 3.0, nan]})
    log = from_log(ENGINES[engine](table), ["a", "b"], "r", missing="drop")
    assert (log.levels, log.dropped, log.ledger.rounds) == (((0.5, 1), (1, 2)), {"missing value": 2}, 2)
    words = said(r"column 'a' has no value.*row 2 \(counted from 0\).*missing='drop'", engine)
    with pytest.raises(ValueError, match=words):
        from_log(ENGINES[engine](table), ["a", "b"], "r")


@every_engine
def test_flags_and_categories(engine):
    table = pa.table(
        {
            "flag": [True, False, True, False],
            "kind": pa.array(["v", "u", "u", "v"]).dictionary_encode(),
            "won": [True, False, True, True],
        }
    )
    log = from_log(ENGINES[engine](table), ["flag", "kind"], "won")
    assert log.levels == ((False, True), ("u", "v"))
    assert log.ledger.dense()[1].tolist() == [[0, 1], [1, 1]]


def test_large_integers_of_duckdb_are_numbers():
    frame = duckdb.sql("select (i % 2)::hugeint a, i % 3 b, i::hugeint r from range(12) t(i)")
    log = from_log(frame, ["a", "b"], "r")
    assert log.levels == ((0, 1), (0, 1, 2))
    assert type(log.levels[0][0]) is int


def test_nullable_and_arrow_columns_of_pandas():
    frame = pd.DataFrame({"a": ["x", "y", "x", "y"], "b": [1, 2, 2, 1], "r": [1, 2, 3, None]})
    expected = from_log(frame, ["a", "b"], "r", missing="drop")
    for kind in ("numpy_nullable", "pyarrow"):
        log = from_log(frame.convert_dtypes(dtype_backend=kind), ["a", "b"], "r", missing="drop")
        assert (log.ledger, log.levels, log.dropped) == (expected.ledger, expected.levels, expected.dropped)


def test_sunday_is_the_last_day_whether_it_is_0_or_7():
    mode = Mode("time:weekday", "time", "weekday")
    assert [mode.label(key) for key in sorted([0, 1, 6], key=mode.position)] == ["Mon", "Sat", "Sun"]
    assert mode.label(7) == "Sun"


def test_zeros_of_either_sign_are_one_level():
    log = from_log(pa.table({"a": [0.0, -0.0, 1.0], "b": [1, 1, 2], "r": [1, 2, 3]}), ["a", "b"], "r")
    assert (log.shape, log.ledger[0, 0].total) == ((2, 2), 3.0)


def test_a_column_may_have_a_colon_in_its_name():
    log = from_log(pa.table({"a:hour": ["x", "y"], "b": [1, 2], "r": [1, 2]}), ["a:hour", "b"], "r")
    assert log.levels[0] == ("x", "y")


def test_a_lazy_log_is_read_from_its_file(tmp_path):
    columns = events()
    pl.DataFrame(columns).write_parquet(tmp_path / "log.parquet")
    path = str(tmp_path / "log.parquet")
    for frame in (pl.scan_parquet(path), duckdb.read_parquet(path)):
        log = from_log(frame, ["station", "line"], "reward")
        assert log.ledger == from_log(pa.table(columns), ["station", "line"], "reward").ledger


def test_what_a_log_says_of_itself():
    log = from_log(pa.table({"a": [0, 1, 1], "b": ["x", "x", "y"], "r": [1, 2, 3]}), ["a", "b"], "r")
    assert repr(log) == "Log(a: 2, b: 2; 3 rewards in 3 of 4 cells, from 3 rows)"
    assert (log.density, log.reward, log.trials, log.shape) == (0.75, "r", None, (2, 2))
    assert log.label((1, 0)) == {"a": 1, "b": "x"}


# Values and splits.


def test_a_log_that_changed_is_noticed():
    connection = duckdb.connect()
    connection.execute("create table events as select * from (values (0, 0, 1), (1, 1, 2)) as rows(a, b, r)")
    log = from_log(connection.table("events"), ["a", "b"], "r")
    connection.execute("insert into events values (1, 1, 2)")
    with pytest.raises(RuntimeError, match=r"now has 3 rewards, but had 2.*read it again"):
        log.values()


def test_too_many_distinct_rewards_are_refused(monkeypatch):
    monkeypatch.setattr("tensorbandits.data.log._MOST_VALUES", 100)
    log = from_log(pa.table(events(whole=False)), ["station", "line"], "reward")
    with pytest.raises(ValueError, match=r"more than 100 distinct rewards.*round"):
        log.values()


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(-3, 3)), min_size=4, max_size=60),
    st.floats(0.2, 0.8),
    st.integers(0, 5),
)
def test_the_parts_of_a_split_add_up(rows, fraction, seed):
    rows = [(0, 0, 1), (1, 1, 2), *rows]
    a, b, r = (list(column) for column in zip(*rows))
    log = from_log(pa.table({"a": a, "b": b, "r": r}), ["a", "b"], "r")
    train, held_out = log.split(fraction, seed)
    assert train + held_out == log.ledger
    assert train.rounds == round(fraction * len(rows))
    assert train == log.split(fraction, seed)[0]


def test_a_split_is_one_of_rows():
    """Of 4 rewards, 2 of them alike, each pair is drawn equally often."""
    log = from_log(pa.table({"a": [0, 0, 0, 1], "b": [0, 0, 0, 1], "r": [5, 5, 7, 9]}), ["a", "b"], "r")
    sums = [log.split(0.5, seed)[0].totals.sum() for seed in range(3_000)]
    expected = {10: 1, 12: 2, 14: 2, 16: 1}
    for total, pairs in expected.items():
        assert abs(sums.count(total) / 3_000 - pairs / 6) < 0.035


def test_more_rewards_than_can_be_drawn_without_replacement():
    table = pa.table({"a": [0, 1], "b": [0, 1], "won": [10**9, 5], "of": [2 * 10**9, 10]})
    train, held_out = from_log(table, ["a", "b"], "won", trials="of").split(0.25)
    assert train.rounds + held_out.rounds == 2 * 10**9 + 10
    assert train.rounds == pytest.approx(5 * 10**8, rel=1e-3)


@pytest.mark.parametrize("fraction", [0, 1, -0.5, True, "half", float("nan")])
def test_fractions_out_of_range_are_refused(fraction):
    log = from_log(pa.table({"a": [0, 1], "b": [0, 1], "r": [1, 2]}), ["a", "b"], "r")
    with pytest.raises(ValueError, match="above 0 and below 1"):
        log.split(fraction)
    with pytest.raises(ValueError, match="one part is empty"):
        log.split(0.01)


# What is refused.

GOOD = {
    "time": [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2, 5)],
    "day": [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)],
    "ad": ["x", "y"],
    "site": [1, 2],
    "same": ["z", "z"],
    "clicks": [1, 2],
    "shown": [2, 3],
    "text": ["1", "2.5"],
}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"modes": ["ad", "sites"]}, ValueError, r"mode 'sites' is not a column.*'site', .*did you mean 'site'"),
        ({"modes": ["ad", "tim:hour"]}, ValueError, r"mode 'tim:hour': column 'tim'.*did you mean 'time'"),
        ({"modes": ["ad", "time:week"]}, ValueError, r"bin 'week'; allowed are weekday, hour.*3h"),
        ({"modes": ["ad", "time:5h"]}, ValueError, r"bin '5h'.*divide 24"),
        ({"modes": ["ad", "time:24h"]}, ValueError, r"bin '24h'.*divide 24"),
        ({"modes": ["ad", "time:0h"]}, ValueError, r"bin '0h'"),
        ({"modes": ["ad", "site:hour"]}, TypeError, r"'site:hour' bins column 'site', which is of type Int64, not a"),
        ({"modes": ["ad", "day:hour"]}, TypeError, r"of type Date, not a time"),
        ({"modes": ["ad", "time"]}, TypeError, r"level of its own; bin it, as in 'time:weekday'"),
        ({"modes": ["ad", "ad"]}, ValueError, r"'ad' is given twice"),
        ({"modes": ["ad"]}, ValueError, r"at least 2"),
        ({"modes": "ad"}, TypeError, r"list of column names"),
        ({"modes": ["ad", 3]}, TypeError, r"list of column names"),
        ({"modes": ["ad", "same"]}, ValueError, r"'same' has one level only, 'z'.*nothing to decide.*leave the mode"),
        ({"reward": "click"}, ValueError, r"reward 'click' is not a column.*did you mean 'clicks'"),
        ({"reward": None}, ValueError, r"reward None is not a column"),
        ({"reward": "ad"}, ValueError, r"'ad' is both reward and a mode"),
        ({"reward": "text"}, TypeError, r"'text' is of type String, though each is a number; convert"),
        ({"reward": "same"}, TypeError, r"of type String: 'z' in row 0 \(counted from 0\) is no number; convert"),
        ({"reward": "time"}, TypeError, r"'time' is of type Datetime.*convert"),
        ({"trials": "show"}, ValueError, r"trials 'show' is not a column.*did you mean 'shown'"),
        ({"trials": "site"}, ValueError, r"'site' is both trials and a mode"),
        ({"trials": "clicks"}, ValueError, r"both reward and trials"),
        ({"trials": "clicks", "reward": "shown"}, ValueError, r"'shown' is 2 and column 'clicks' is 1 in row 0 \(c"),
        ({"top": 1}, ValueError, r"top is 1 for mode 'ad'; keep at least 2"),
        ({"top": {"ads": 3}}, ValueError, r"top names the mode 'ads'; the modes are \['ad', 'site'\]"),
        ({"top": {"ad": 2.5}}, TypeError, r"top is 2.5 for mode 'ad'; give a whole number"),
        ({"missing": "ignore"}, ValueError, r"missing is 'ignore'; allowed are 'error' and 'drop'"),
        ({"frame": "log.parquet"}, TypeError, r"the log is a str, not a data frame.*open the file first"),
        ({"frame": [1, 2]}, TypeError, r"the log is a list, not a data frame"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        from_log(**({"frame": pa.table(GOOD), "modes": ["ad", "site"], "reward": "clicks"} | arguments))


BAD_ROWS = [
    ({"a": None}, None, r"column 'a' has no value \(null or NaN\) in row 3 \(counted from 0\)"),
    ({"r": None}, None, r"column 'r' has no value"),
    ({"r": float("inf")}, None, r"column 'r' is inf in row 3 \(counted from 0\); rewards are finite"),
    ({"r": -1e200}, None, r"column 'r' is -1e\+200 in row 3"),
    ({"n": None}, "n", r"column 'n' has no value"),
    ({"r": 9.0}, "n", r"column 'r' is 9.0 and column 'n' is 5.0 in row 3.*at most the trials"),
    ({"r": -1.0}, "n", r"column 'r' is -1.0 and .*at least 0"),
    ({"r": -1.0, "n": -1.0}, "n", r"column 'n' is -1.0 in row 3"),
    ({"r": 0.5}, "n", r"column 'r' is 0.5 .*whole numbers"),
    ({"n": float("inf")}, "n", r"column 'n' is inf in row 3"),
]


@every_engine
@pytest.mark.parametrize(("change", "trials", "message"), BAD_ROWS)
def test_the_first_bad_row_is_named(engine, change, trials, message):
    columns = {"a": list("xyxyxy"), "b": [1, 1, 2, 2, 1, 2], "r": [1.0, 2, 0, 1, 2, 3], "n": [5.0] * 6}
    for name, value in change.items():
        columns[name][3] = columns[name][5] = value
    with pytest.raises(ValueError, match=said(message, engine)):
        from_log(ENGINES[engine](pa.table(columns)), ["a", "b"], "r", trials=trials)


@every_engine
def test_text_among_the_rewards_is_shown(engine):
    table = pa.table({"a": ["x", "y", "x"], "b": [1, 2, 2], "r": ["1", " -2.5e3 ", "n/a"]})
    with pytest.raises(TypeError, match=said(r"'n/a' in row 2 \(counted from 0\) is no number; convert", engine)):
        from_log(ENGINES[engine](table), ["a", "b"], "r")


def test_columns_that_cannot_be_told_apart_are_refused():
    frame = pd.DataFrame([[1, 2, 3]], columns=["a", "a", "r"])
    with pytest.raises(ValueError, match=r"columns of the same name.*'a' 2 times.*rename"):
        from_log(frame, ["a", "b"], "r")
    with pytest.raises(ValueError, match=r"mode '0' is not a column of the log, which has \[0, 1\]"):
        from_log(pd.DataFrame([[1, 2]]), ["0", "1"], "r")


@every_engine
def test_an_empty_log_is_refused(engine):
    table = pa.table(GOOD).slice(0, 0)
    with pytest.raises(ValueError, match=r"the log is empty; give one with"):
        from_log(ENGINES[engine](table), ["ad", "site"], "clicks")


def test_mixed_columns_are_refused():
    frame = pd.DataFrame({"a": ["x", "y"], "b": [1, 2], "r": pd.Series([1, "two"], dtype=object)})
    with pytest.raises(TypeError, match=r"'two' in row 1 \(counted from 0\) is no number"):
        from_log(frame, ["a", "b"], "r")
    with pytest.raises(TypeError, match=r"'r' is of type Object.*text or of numbers"):
        from_log(frame, ["a", "r"], "b")


@every_engine
def test_a_bad_row_that_is_left_out_is_no_trouble(engine):
    table = pa.table({"a": ["x", "y", None], "b": [1, 2, 2], "r": [1.0, 2.0, float("inf")]})
    assert from_log(ENGINES[engine](table), ["a", "b"], "r", missing="drop").ledger.rounds == 2


@every_engine
def test_nothing_left_is_an_error(engine):
    table = pa.table({"a": ["x", "y"], "b": [1, 2], "r": pa.array([None, None], pa.float64())})
    with pytest.raises(ValueError, match=r"each of the log's 2 rows lacks a value in 'a', 'b', 'r'.*check"):
        from_log(ENGINES[engine](table), ["a", "b"], "r", missing="drop")


def test_top_that_leaves_no_cell():
    """The most frequent levels need not meet."""
    a = [0, 0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 7]
    b = [2, 3, 4, 5, 6, 7, 0, 0, 0, 1, 1, 1]
    with pytest.raises(ValueError, match="no reward is left of the log's 12 rows"):
        from_log(pa.table({"a": a, "b": b, "r": a}), ["a", "b"], "r", top=2)


def test_trials_of_zero_everywhere():
    with pytest.raises(ValueError, match=r"no reward is left of the log's 2 rows \(2: no trials\)"):
        from_log(pa.table({"a": [0, 1], "b": [0, 1], "r": [0, 0], "n": [0, 0]}), ["a", "b"], "r", trials="n")


@every_engine
def test_rows_without_trials_are_counted(engine):
    table = pa.table({"a": [0, 1, 0, 1], "b": [0, 1, 1, 1], "r": [0, 1, 0, 0], "n": [0, 2, 3, 0]})
    log = from_log(ENGINES[engine](table), ["a", "b"], "r", trials="n")
    assert (log.dropped, log.ledger.rounds, log.options) == ({"no trials": 2}, 5, {})


def test_successes_out_of_trials_are_numbers_of_them():
    table = pa.table({"a": [0, 1], "b": [0, 1], "r": [True, False], "n": [3, 3]})
    with pytest.raises(TypeError, match="'r' holds true and false; with trials='n' it must hold numbers"):
        from_log(table, ["a", "b"], "r", trials="n")


def test_policies_learn_from_a_ledger_of_a_log():
    log = from_log(pa.table(events()), ["station", "line"], "reward")
    assert isinstance(log.ledger, tb.Ledger)
    assert tb.complete(log.ledger, 1).full().shape == log.shape


def decided(**changes):
    columns = {"a": [0, 1, 1, 0], "b": [1, 0, 1, 0], "reward": [1.0, 2.0, 3.0, 4.0], "p": [0.5, 0.2, 1.0, 0.3]}
    return pa.table(columns | changes)


@every_engine
def test_decisions_come_in_the_order_of_the_rows(engine):
    frame = ENGINES[engine](decided())
    cells, rewards, propensities = from_log(frame, ["a", "b"], "reward", propensity="p").decisions()
    assert cells.tolist() == [[0, 1], [1, 0], [1, 1], [0, 0]]
    assert rewards.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert propensities.tolist() == [0.5, 0.2, 1.0, 0.3]
    assert from_log(frame, ["a", "b"], "reward").decisions()[2] is None


@every_engine
@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.5])
def test_a_propensity_that_cannot_be_names_its_row(engine, wrong):
    frame = ENGINES[engine](decided(p=[0.5, 0.2, wrong, 0.3]))
    with pytest.raises(ValueError, match=said(rf"column 'p' is {wrong} in row 2 .*above 0 and at most 1", engine)):
        from_log(frame, ["a", "b"], "reward", propensity="p")


@every_engine
def test_a_missing_propensity_is_a_missing_value(engine):
    table = ENGINES[engine](decided(p=[0.5, None, 1.0, 0.3]))
    with pytest.raises(ValueError, match=said(r"column 'p' has no value .* in row 1", engine)):
        from_log(table, ["a", "b"], "reward", propensity="p")
    log = from_log(table, ["a", "b"], "reward", propensity="p", missing="drop")
    assert log.dropped == {"missing value": 1}
    assert log.decisions()[2].tolist() == [0.5, 1.0, 0.3]


def test_decisions_of_one_channel_can_be_read():
    table = pa.table({"a": ["x", "y"], "b": ["mail", "mail"], "reward": [1.0, 0.0], "p": [0.5, 0.5]})
    assert from_log(table, ["a", "b"], "reward", propensity="p").shape == (2, 1)
    with pytest.raises(ValueError, match="'b' has one level only"):
        from_log(table, ["a", "b"], "reward")


def test_propensities_of_other_kinds_are_refused():
    for options, words in (
        ({"propensity": "q"}, "propensity 'q' is not a column"),
        ({"propensity": "a"}, "both propensity and a mode"),
        ({"propensity": "reward"}, "both reward and propensity"),
        ({"propensity": "p", "trials": "n"}, "one row per decision"),
    ):
        with pytest.raises(ValueError, match=words):
            from_log(decided(n=[5, 5, 5, 5]), ["a", "b"], "reward", **options)
    with pytest.raises(ValueError, match="a row is many decisions"):
        from_log(decided(n=[5, 5, 5, 5]), ["a", "b"], "reward", trials="n").decisions()
