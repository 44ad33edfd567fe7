"""Stores that earlier versions wrote can be opened, say what they said, and go on."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from tensorbandits.store import FoldedError, Head, New, Store

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def make():
    spec = importlib.util.spec_from_file_location("golden_make_store", GOLDEN / "make_store.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("store-*.db")), ids=lambda path: path.name)
@pytest.mark.parametrize("back_end", ["sqlite", "postgres"])
def test_a_store_is_what_it_was_and_goes_on(path, back_end, make, tmp_path, request):
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    with Store.open(copy) as store:
        if back_end == "sqlite":
            holds_what_was_written(store, make)
        else:
            with Store.open(request.getfixturevalue("postgres_url")) as restored:
                restored.copy_from(store)
                holds_what_was_written(restored, make)


def holds_what_was_written(store, make):
    whole, folded = store.bandits()
    count = len(make.EVENTS)
    assert (whole.name, folded.name, whole.created) == ("campaign", "folded", 1000.0)
    assert store.heads() == {whole.id: count, folded.id: count}
    assert [New(e.kind, e.time, e.body, e.decision, e.key) for e in store.events(whole.id)] == make.EVENTS
    assert [event.seq for event in store.events(whole.id)] == list(range(1, count + 1))
    assert [event.kind for event in store.of_decisions(whole.id, ["d1"])["d1"]] == ["Decided", "Rewarded", "Amended"]
    assert store.snapshot(whole.id) == (9, b"state after 9")
    assert store.snapshot(whole.id, until=8) == (5, b"state after 5")
    assert (store.base(folded.id), store.snapshot(folded.id)) == (7, (7, b"base after 7"))
    assert [event.seq for event in store.events(folded.id, after=7)] == list(range(8, count + 1))
    with pytest.raises(FoldedError, match="up to 7 were folded into the base"):
        next(store.events(folded.id, after=3))
    assert store.find("gone") is None
    assert [event.kind for event in store.events(folded.id + 1)] == ["Created", "Deleted"]
    assert store.keys() == make.KEYS
    assert store.keyed(whole.id, ["k1", "k2"]).keys() == {"k1", "k2"}
    for bandit in (whole.id, folded.id):
        [added] = store.append(bandit, Head(count), [New("Rewarded", 1020.0, {"reward": 1}, "d3")])
        assert list(store.events(bandit))[-1] == added
    assert store.create("gone", []).id == folded.id + 2


def test_the_files_are_small_and_have_every_kind(make):
    assert all(path.stat().st_size < 100_000 for path in GOLDEN.glob("store-*.db"))
    assert len({event.kind for event in make.EVENTS}) == 14  # and Deleted
