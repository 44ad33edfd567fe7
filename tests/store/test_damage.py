"""Damaged files: what is read is what was written, or an error says what is wrong."""

import shutil
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorbandits.store import DamagedError, Head, New, Store, StoreError

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store with two logs, one of them folded, and what is in it."""
    path = tmp_path_factory.mktemp("whole") / "store.db"
    with Store.open(path) as store:
        for name in "ab":
            news = [
                New("Decided", at / 7, {"at": at, "text": "x" * (at % 60)}, f"d{at}", f"k{at}") for at in range(700)
            ]
            store.create(name, news)
        store.fold(2, 100, b"base")
        written = {bandit: list(store.events(bandit)) for bandit in (1, 2)}
    return Whole(path, written)


class Whole:
    """A file and what is in it; without fields in its representation, which would be long."""

    def __init__(self, path, written):
        self.path, self.written = path, written


@pytest.fixture
def copy(whole, tmp_path):
    """A copy of it that may be damaged."""
    return shutil.copy(whole.path, tmp_path / "copy.db"), whole.written


def agrees(path, written):
    """Check that what is read is what was written, and return how many logs could be read whole."""
    known = {bandit: Head(events[-1].seq, events[-1].chain) for bandit, events in written.items()}
    read_whole = 0
    for bandit, events in written.items():
        try:
            with Store.open(path) as store:
                read = list(store.events(bandit))
                assert read == events[: len(read)]
                if len(read) < len(events):  # the end is lost, which whoever knows it is told
                    with pytest.raises(StoreError):
                        list(store.events(bandit, known[bandit]))
                    with pytest.raises((StoreError, LookupError)):
                        store.append(bandit, known[bandit], [New("x", 0.0)])
                read_whole += len(read) == len(events)
        except StoreError:
            pass
    return read_whole


def test_a_whole_file_is_read_and_found_in_order(copy):
    path, written = copy
    assert agrees(path, written) == 2
    with Store.open(path) as store:
        assert store.check() == []


damages = st.one_of(
    st.tuples(st.just("flip"), st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), min_size=1, max_size=30)),
    st.tuples(st.just("zero"), st.lists(st.floats(0, 1), min_size=1, max_size=3)),
    st.tuples(st.just("swap"), st.tuples(st.floats(0, 1), st.floats(0, 1))),
    st.tuples(st.just("cut"), st.floats(0, 1)),
)


def damaged(data, how, what):
    """Return the bytes of a file after some damage."""
    data, last = bytearray(data), len(data) - 1
    pages = len(data) // PAGE
    if how == "flip":
        for place, bits in what:
            data[round(place * last)] ^= bits
    elif how == "zero":
        for place in what:
            start = min(int(place * pages), pages - 1) * PAGE
            data[start : start + PAGE] = bytes(PAGE)
    elif how == "swap":
        one, two = (min(int(place * pages), pages - 1) * PAGE for place in what)
        data[one : one + PAGE], data[two : two + PAGE] = data[two : two + PAGE], data[one : one + PAGE]
    else:
        del data[round(what * last) :]
    return bytes(data)


@settings(max_examples=150, deadline=None)
@given(damage=damages)
def test_a_damaged_file_is_never_read_as_something_else(damage, whole, tmp_path_factory):
    with_damage = tmp_path_factory.mktemp("damaged") / "copy.db"
    with_damage.write_bytes(damaged(whole.path.read_bytes(), *damage))
    agrees(with_damage, whole.written)
    shutil.rmtree(with_damage.parent)


CHANGES = {
    "DELETE FROM events WHERE bandit = 1 AND seq = 1": (1, "it is missing"),
    "DELETE FROM events WHERE bandit = 1 AND seq BETWEEN 300 AND 400": (300, "it is missing, and event 401 comes next"),
    "DELETE FROM events WHERE bandit = 1 AND seq < 650": (1, "it is missing, and event 650 comes next"),
    "UPDATE events SET time = 5.5 WHERE bandit = 1 AND seq = 300": (300, "its checksum is wrong"),
    "UPDATE events SET body = '{}' WHERE bandit = 1 AND seq = 300": (300, "its checksum is wrong"),
    "UPDATE events SET decision = NULL WHERE bandit = 1 AND seq = 300": (300, "its checksum is wrong"),
    "UPDATE events SET key = '' WHERE bandit = 1 AND seq = 300": (300, "its checksum is wrong"),
    "UPDATE events SET kind = x'ff' WHERE bandit = 1 AND seq = 300": (300, "its checksum is wrong"),
    "UPDATE events SET chain = NULL WHERE bandit = 1 AND seq = 300": (300, "it has no checksum"),
    "UPDATE events SET chain = NULL WHERE bandit = 1 AND seq <= 300": (301, "its checksum is wrong"),
    "UPDATE events SET chain = NULL, body = '[' WHERE bandit = 1": (1, "its body cannot be read"),
    "UPDATE events SET chain = NULL, body = '[]' WHERE bandit = 1": (1, "its body cannot be read"),
    "DELETE FROM bandits WHERE id = 1": (0, "the bandit itself is missing"),
}


@pytest.mark.parametrize("sql", CHANGES)
def test_what_is_wrong_is_said(sql, copy):
    path, written = copy
    connection = sqlite3.connect(path)
    connection.execute(sql)
    connection.commit()
    connection.close()
    seq, why = CHANGES[sql]
    with Store.open(path) as store:
        with pytest.raises(DamagedError, match=why) as caught:
            list(store.events(1))
        assert (caught.value.bandit, caught.value.seq) == (1, seq)
        assert "tensorbandits repair" in str(caught.value)
        assert list(store.events(2)) == written[2]  # another log is none the worse
        if seq:
            raw = list(store.events(1, verify=False))
            assert {event.seq for event in raw} <= set(range(1, 701))
            assert raw[-1].seq == 700


def test_the_base_of_a_folded_log_is_part_of_the_chain(copy):
    path, _ = copy
    connection = sqlite3.connect(path)
    connection.execute("UPDATE bandits SET folded_chain = '0000000000000000' WHERE id = 2")
    connection.commit()
    connection.close()
    with Store.open(path) as store, pytest.raises(DamagedError, match="damaged at event 101: its checksum is wrong"):
        list(store.events(2))


def test_a_quick_check_says_what_sqlite_finds(copy):
    path, _ = copy
    data = bytearray(path.read_bytes())
    for start in range(10 * PAGE, 20 * PAGE, PAGE):
        data[start : start + 100] = bytes(range(100))
    path.write_bytes(data)
    with Store.open(path) as store:
        assert store.check()
