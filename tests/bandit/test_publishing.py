"""Snapshots are published whole, under growing numbers, and not over those of another bandit."""

import json
from pathlib import Path

import pytest

import tensorbandits as tb
from tensorbandits.bandit.published import PublishedSnapshot, SnapshotRefusedError
from tensorbandits.bandit.publishing import POINTER, Pointer, checksum_of, place_of, without_password
from tensorbandits.base.folders import Folder


def made(seed: int = 0) -> tb.Bandit:
    return tb.Bandit(tb.Space({"offer": ["a", "b"]}), reward="bernoulli", seed=seed)


@pytest.fixture(params=["folder", "file", "memory"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    named = f"{tmp_path.name}-{request.node.name[:60]}".replace("[", "-").replace("]", "")
    return {
        "folder": f"{tmp_path}/published/offers",
        "file": f"file://{tmp_path}/published/offers",
        "memory": f"memory://{named}",
    }[request.param]


def test_what_is_published_is_read_again(address: str) -> None:
    bandit, place = made(), place_of(address)
    assert place.pointer() is None
    published = bandit.publish(address, name="offers")
    pointer = place.pointer()
    assert pointer is not None
    content = place.content(pointer)
    assert checksum_of(content) == pointer.checksum
    found = PublishedSnapshot.from_bytes(content)
    assert (found.uid, found.version, found.event) == (published.uid, 1, 0)
    assert pointer[:2] == (1, f"offers-1-{pointer.checksum[:8]}.safetensors")


def test_numbers_grow_and_the_last_few_files_stay(address: str) -> None:
    bandit, place = made(), place_of(address)
    pointers = []
    for version in range(1, 8):
        assert bandit.publish(address, name="offers").version == version
        pointers.append(place.pointer())
    assert [pointer.version for pointer in pointers if pointer] == list(range(1, 8))
    for pointer in pointers[4:]:
        assert pointer is not None
        assert PublishedSnapshot.from_bytes(place.content(pointer)).version == pointer.version
    for pointer in pointers[:4]:
        assert pointer is not None
        with pytest.raises(FileNotFoundError):
            place.content(pointer)


def test_two_that_publish_the_same_number_at_once_leave_a_whole_snapshot(tmp_path: Path) -> None:
    bandit, place = made(), place_of(tmp_path)
    one = bandit.snapshot(name="offers")
    for seed in range(50):
        bandit.tell(arm={"offer": "ab"[seed % 2]}, reward=1)
    two = bandit.snapshot(name="offers").with_version(one.version)
    contents = [each.to_bytes() for each in (one, two)]
    pointers = [Pointer.of(each, content) for each, content in zip((one, two), contents, strict=True)]
    folder = Folder(tmp_path)
    for pointer, content in reversed(list(zip(pointers, contents, strict=True))):  # both write, then both point
        folder.write(pointer.file, content)
    for pointer in pointers:
        folder.write(POINTER, pointer.written())
        assert checksum_of(place.content(pointer)) == pointer.checksum


def test_a_bandit_of_an_older_file_publishes_under_larger_numbers_all_the_same(tmp_path: Path) -> None:
    bandit, address = made(), f"{tmp_path}/published"
    bandit.save(tmp_path / "before.safetensors")
    for _ in range(3):
        bandit.publish(address)
    restored = tb.Bandit.load(tmp_path / "before.safetensors")
    assert restored.publish(address).version == 4
    assert restored.publish(address).version == 5


def test_snapshots_of_another_bandit_are_not_replaced_unless_one_asks(tmp_path: Path) -> None:
    first, second = made(), made()
    first.publish(tmp_path, name="offers")
    for other, name in ((second, "offers"), (first, "prices")):
        with pytest.raises(ValueError, match=r"has snapshots of another bandit, 'offers'.*replace=True"):
            other.publish(tmp_path, name=name)
    assert second.publish(tmp_path, name="offers", replace=True).version == 2


def test_a_damaged_pointer_is_replaced_and_said_by_whoever_reads_it(tmp_path: Path) -> None:
    bandit = made()
    bandit.publish(tmp_path)
    good = json.loads((tmp_path / POINTER).read_text())
    for wrong in ("", "{}", "[]", json.dumps(good | {"file": "../x"}), json.dumps(good | {"version": "7"})):
        (tmp_path / POINTER).write_text(wrong)
        with pytest.raises(SnapshotRefusedError, match=r"latest\.json is damaged"):
            place_of(tmp_path).pointer()
    assert bandit.publish(tmp_path).version == 2
    assert place_of(tmp_path).pointer() is not None


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("", "the address is ''; give a folder"),
        (None, "the address is None"),
        ("http://localhost:8000/v1/bandits/offers", "is read by deciders, and cannot be published to"),
        ("nonsense://x", "cannot be opened"),
        ("redis://host/0?key=", "gives key="),
        ("redis://ann:secret@host/0?key=a&key=b", "gives key="),
    ],
)
def test_an_address_that_cannot_be_is_refused_without_its_password(address: object, says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        made().publish(address)  # type: ignore[arg-type]
    assert "secret" not in str(refused.value)


def test_passwords_are_not_shown() -> None:
    assert without_password("redis://:secret@host/0") == "redis://***@host/0"
    assert place_of("redis://:secret@localhost:1/0?key=x").shown == "redis://***@localhost:1/0?key=x"


def test_pointers_are_json() -> None:
    pointer = Pointer(3, "a-3.safetensors", "00", 7, 1.5, "a", "00" * 8)
    assert Pointer.read(pointer.written(), "x") == pointer
