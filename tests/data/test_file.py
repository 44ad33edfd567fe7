"""Logs in files: labels as written, and one clear line for what cannot be read."""

import numpy as np
import pytest

from tensorbandits.data import from_log, read_log

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")

ROWS = "x,u,1\ny,v,2\n" * 3


def written(folder, content, name="log.csv"):
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / name


def test_levels_of_a_csv_file_are_as_written(tmp_path):
    """Guessing types would merge them: 1E5, 100000 and 1e05 are one number, 007 and 7 too."""
    path = written(tmp_path, "a,b,r\n1E5,true,1\n100000,TRUE,2\n1e05,1,3\n007,1.0,4\n7,yes,5\n")
    log = read_log(path, ["a", "b"], "r")
    assert log.levels == (("007", "100000", "1E5", "1e05", "7"), ("1", "1.0", "TRUE", "true", "yes"))
    assert log.ledger.rounds == 5


def test_times_are_read_as_times_to_be_binned(tmp_path):
    path = written(tmp_path, "time,b,r\n2024-01-01 10:00:00,u,1\n2024-01-02 23:00:00,v,2\n")
    assert read_log(path, ["time:weekday", "time:12h"], "r").levels == (("Mon", "Tue"), ("00-12", "12-24"))
    with pytest.raises(TypeError, match="bin it, as in 'time:weekday'"):
        read_log(path, ["time", "b"], "r")


def test_rewards_that_start_as_whole_numbers_may_go_on_as_fractions(tmp_path):
    path = written(tmp_path, "a,b,r\n" + ROWS * 10_000 + "x,v,1.5\n")
    assert read_log(path, ["a", "b"], "r").ledger.totals.sum() == 3 * 30_000 + 1.5


def test_whole_numbers_may_be_of_any_size(tmp_path):
    """Above 2^63 too: as text in a CSV file, and exactly in a relation of DuckDB."""
    path = written(tmp_path, f"a,b,r\n{2**64},u,{10**24}\n{2**64 + 1},v,2\n9,u,3\n")
    assert read_log(path, ["a", "b"], "r").levels[0] == (str(2**64), str(2**64 + 1), "9")
    log = from_log(duckdb.read_csv(str(path)), ["a", "b"], "r", top={"b": 2})
    assert log.levels[0] == (9, 2**64, 2**64 + 1)
    assert log.values()[1].tolist() == [3.0, 1e24, 2.0]
    unsigned = pa.table({"a": pa.array([2**63, 2**64 - 1], pa.uint64()), "b": [0, 1], "r": [1, 2]})
    for frame in (unsigned, unsigned.to_pandas(), duckdb.from_arrow(unsigned)):
        assert from_log(frame, ["a", "b"], "r").levels[0] == (2**63, 2**64 - 1)


@pytest.mark.parametrize(
    "content",
    [
        "\ufeffa,b,r\n" + ROWS,
        ("a,b,r\n" + ROWS).replace("\n", "\r\n"),
        ("a,b,r\n" + ROWS).replace("\n", "\r"),
        ("a,b,r\n" + ROWS).replace(",", ";"),
        ("a,b,r\n" + ROWS).replace(",", "\t"),
        "\n\na,b,r\n" + ROWS,
        '"a","b","r"\n' + ROWS.replace("x", '"x"'),
    ],
    ids=["mark of UTF-8", "Windows", "old Mac", "semicolons", "tabs", "blank lines", "quotes"],
)
def test_dialects_just_work(content, tmp_path):
    log = read_log(written(tmp_path, content), ["a", "b"], "r")
    assert (log.levels, log.ledger.mean) == ((("x", "y"), ("u", "v")), 1.5)


def test_labels_may_start_with_a_hash(tmp_path):
    assert read_log(written(tmp_path, "a,b,r\n#1,u,1\n#2,v,2\n"), ["a", "b"], "r").levels[0] == ("#1", "#2")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.csv", None, "there is no file"),
        ("log.xlsx", b"x", ".csv nor a .parquet"),
        ("log", b"x", ".csv nor a .parquet"),
        ("log.parquet", b"not parquet", "cannot be read as parquet"),
        ("log.parquet", b"", "log.parquet is empty"),
        ("log.csv", b"", "log.csv is empty"),
        ("log.csv", b"\n\n\n", "blank lines only"),
        ("log.csv", b"a,b,r\n", "the log is empty"),
        ("log.csv", ("a,b,r\n" + ROWS + "x,u\n").encode(), r"in line 8 \(2\) than names in its first line \(3\)"),
        ("log.csv", ("a,b,r\n" + ROWS + "x,u,1,2\n").encode(), r"in line 8 \(4\) than names"),
        ("log.csv", ("a,b\n" + ROWS).encode(), r"in line 2 \(3\) than names in its first line \(2\)"),
        ("log.csv", ("a;b;r\nx;u\n" + ROWS.replace(",", ";")).encode(), r"in line 2 \(2\) than names"),
        ("log.csv", ("a,b,r\n" + ROWS * 10_000 + "x,u\n").encode(), "Line: 60002.*Found: 2. Mend that"),
        ("log.csv", ("a,b,r\n" + ROWS * 10_000 + "x,u,oops\n").encode(), "oops.*Mend that"),
        ("log.csv", "a,b,r\nå,u,1\nø,v,2\n".encode("latin-1"), "not encoded in UTF-8; convert it.*iconv"),
        ("log.csv", ("a,b,r\n" + ROWS).encode("utf-16"), "not encoded in UTF-8"),
        ("log.csv", b"PK\x03\x04" + bytes(range(256)) * 20, "log.csv"),
        ("log.csv", b"\x89PNG\r\n\x1a\n" + bytes(200), "log.csv|is not a column"),
        ("log.csv", b"<!doctype html><html><body><p>gone</p></body></html>", "mode 'a' is not a column"),
        ("log.csv", b"Dear reader,\nthis is a letter, not a table, is it?\n", "in line 2"),
        ("log.csv", b"1,2,3\n4,5,6\n", r"mode 'a' is not a column of the log, which has \['1', '2', '3'\]"),
        ("log.csv", b"a,b,r\nx,u,oops\ny,v,2\n", "'oops' in row 0"),
        ("log.csv", b'a,b,r\nx,u,"1,5"\ny,v,"2,5"\n', "'1,5' in row 0"),
        ("log.csv", b"a,A,b,r\nx,u,v,1\n", r"columns \['a', 'A'\], which differ at most by case; rename"),
        ("log.csv", b"a,a,b,r\nx,u,v,1\n", r"columns \['a', 'a'\], which differ"),
    ],
)
def test_what_cannot_be_read_gets_one_line(name, content, words, tmp_path):
    if content is not None:
        written(tmp_path, content, name)
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=words) as caught:
        read_log(tmp_path / name, ["a", "b"], "r")
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 600


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "log.csv").mkdir()
    with pytest.raises(ValueError, match=r"log.csv is a folder; give the path of one"):
        read_log(tmp_path / "log.csv", ["a", "b"], "r")


def test_columns_that_nobody_asked_for_do_not_matter(tmp_path):
    lines = ["a,b,r,note,Note", *("x,u,1,7,8" if i % 2 else "y,v,2,7,8" for i in range(60_000)), "x,v,3,seven,eight"]
    log = read_log(written(tmp_path, "\n".join(lines) + "\n"), ["a", "b"], "r")
    assert log.rows == 60_001


def test_wide_files_and_long_names_do_not_fill_the_screen(tmp_path):
    names = [f"{'column' * 50} {i}" for i in range(2_000)]
    path = written(tmp_path, ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    with pytest.raises(ValueError, match="and 1,970 more") as caught:
        read_log(path, ["a", "b"], "r")
    assert len(str(caught.value)) < 3_000


def test_a_name_is_no_pattern(tmp_path):
    written(tmp_path, "a,b,r\n" + "1,1,5\n2,1,5\n1,2,5\n2,2,5\n" * 3, "log1.csv")
    written(tmp_path, "a,b,r\n" + "1,1,7\n2,1,7\n1,2,7\n2,2,7\n" * 3, "log[1].csv")
    assert read_log(tmp_path / "log[1].csv", ["a", "b"], "r").ledger.mean == 7


def test_words_for_true_and_false_are_rewards(tmp_path):
    path = written(tmp_path, "a,b,r\n" + "1,1,true\n2,1,false\n1,2,false\n2,2,true\n" * 3)
    assert read_log(path, ["a", "b"], "r").ledger.mean == 0.5


def test_a_parquet_file_keeps_its_types(tmp_path):
    from pyarrow import parquet

    table = pa.table({"a": [10, 9, 10, 9], "b": [True, False, False, True], "r": np.arange(4.0)})
    parquet.write_table(table, tmp_path / "log.parquet")
    assert read_log(tmp_path / "log.parquet", ["a", "b"], "r").levels == ((9, 10), (False, True))


@pytest.mark.parametrize(("modes", "reward"), [([1, 2], "r"), (["a", "b"], 3), (None, "r")])
def test_names_that_are_no_text_are_refused_in_words(modes, reward, tmp_path):
    path = written(tmp_path, "a,b,r\n" + ROWS)
    with pytest.raises((TypeError, ValueError), match=r"give|column"):
        read_log(path, modes, reward)
