"""Rows in pieces: the same as all at once, and never more than a piece in one call."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import tensorbandits as tb
from tensorbandits.bandit import warm_start
from tensorbandits.bandit.commands import Import
from tensorbandits.bandit.making import new_state
from tensorbandits.base import pieces

nw = pytest.importorskip("narwhals")


@pytest.mark.parametrize("count", [0, 1, pieces.PIECE - 1, pieces.PIECE, pieces.PIECE + 1, 3 * pieces.PIECE + 7])
def test_pieces_list_what_one_call_lists(count: int) -> None:
    numbers = np.random.default_rng(0).standard_normal((count, 3))
    assert list(pieces.rows(numbers)) == numbers.tolist()
    assert list(pieces.rows(numbers[:, 1])) == numbers[:, 1].tolist()
    column = nw.new_series("x", [None, *range(count)], nw.Int64, backend="pyarrow")
    assert list(pieces.entries(column)) == column.to_list()
    assert np.array_equal(pieces.floats(column), np.array(column.to_list(), dtype=float), equal_nan=True)


def test_other_threads_go_on_between_pieces(monkeypatch) -> None:
    """Someone who waits for Python's lock is given the time to wake up; alone, nobody is waited for."""
    paused: list[float] = []
    monkeypatch.setattr(pieces.time, "sleep", paused.append)
    for threads, pauses in ((1, 0), (2, 3)):
        monkeypatch.setattr(pieces.threading, "active_count", lambda threads=threads: threads)
        assert len(list(pieces.rows(np.zeros(2 * pieces.PIECE + 1)))) == 2 * pieces.PIECE + 1
        assert len(paused) == pauses
    assert list(pieces.gently(range(10), every=4)) == list(range(10))
    assert len(paused) == 3 + 2


@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_cells_are_numbered_as_unique_does(count: int) -> None:
    cells = np.random.default_rng(count).integers(-3, 3, size=(count, 3))
    expected = np.unique(cells, axis=0, return_inverse=True)[1].ravel() if count else np.zeros(0)
    assert np.array_equal(pieces.numbered(cells), expected)


def _table(count: int = 9_000) -> pa.Table:
    rng = np.random.default_rng(1)
    labels = {mode: [f"{mode}{at}" for at in rng.integers(40, size=count)] for mode in "abc"}
    return pa.table(labels | {"reward": rng.standard_normal(count)})


def _imported(table: pa.Table) -> tuple[str, dict[str, object]]:
    """What the log of a bandit keeps of an import, and what the policy has afterwards."""
    modes = {mode: [f"{mode}{at}" for at in range(40)] for mode in "abc"}
    state = new_state(tb.Space(modes), rank=1, time=0.0)
    past = warm_start.past_of_log(state.space, state.policy, table, "reward", None, None, None, "error")
    [event] = state.plan(Import(past), 1.0)
    for lesson in state.apply(event):
        lesson(state.policy)
    return str(event.body()["ledger"]), state.policy.copy_ledger().state()


def test_an_import_lists_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[int] = []
    plain = nw.Series.to_list

    def spied(column: object) -> object:
        listed.append(len(column))  # type: ignore[arg-type]
        return plain(column)

    monkeypatch.setattr(nw.Series, "to_list", spied)
    _imported(_table())
    assert max(listed) == pieces.PIECE
    assert sum(listed) > 9_000


def test_an_import_is_the_same_however_large_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    text, learned = _imported(_table())
    for size in (7, 10**9):
        monkeypatch.setattr(pieces, "PIECE", size)
        other, state = _imported(_table())
        assert other == text
        for name, value in state.items():
            assert np.array_equal(value, learned[name]), name


def test_the_text_of_a_ledger_is_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    from tensorbandits.bandit import events

    ledger = tb.Ledger((50, 50))
    ledger.add(np.random.default_rng(2).integers(50, size=(1_000, 2)), np.arange(1_000.0))
    text = events._packed(ledger)
    monkeypatch.setattr(events, "_BYTES", 3 * 100)
    assert events._packed(ledger) == text
    for letters in (4, 400, 4 * 2**20):
        monkeypatch.setattr(events, "_LETTERS", letters)
        assert events._unpacked(text) == ledger
