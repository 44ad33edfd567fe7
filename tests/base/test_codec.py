"""The codec: every state comes back as it was, every other file is refused, and no failure leaves half a file."""

import errno
import json
import os
import struct
import subprocess
import sys
import threading
from collections import OrderedDict
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file, save_file

from tensorbandits.base import codec

arrays = st.sampled_from(["?", "i1", "i2", "i4", "i8", "u1", "u4", "u8", "f2", "f4", "f8", ">i4", ">f8"]).flatmap(
    lambda kind: hnp.arrays(
        np.dtype(kind),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
        elements={"allow_nan": False, "allow_infinity": False} if "f" in kind else None,
    )
)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=5)  # lone surrogates too
    | arrays
    | arrays.map(lambda a: a.T[..., ::-1] if a.ndim else a)
)
keys = st.text(st.characters(), max_size=4) | st.sampled_from(
    ["a", "a.b", "b", "0", "$tuple", "$array", "$int", "$", "__metadata__", "state", 'a["b"]', "é", "\ud800"]
)
states = st.dictionaries(
    keys,
    st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(keys, inner, max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=4,
)

STATE = {
    "shape": (3, 4),
    "rng": np.random.PCG64(3).state,
    "chain": {"core": np.arange(6.0).reshape(2, 3), "factors": [np.ones((3, 2)), np.ones((4, 3))]},
    "seen": np.array([True, False]),
    "name": "Zoë",
    "rank": None,
}


def same(a, b):
    """Equal to the bit and of the same types, numbers of NumPy taken for plain ones, byte orders for one."""
    if isinstance(a, np.ndarray):
        return (
            type(b) is np.ndarray
            and a.dtype.newbyteorder("=") == b.dtype
            and a.shape == b.shape
            and np.ascontiguousarray(a).astype(b.dtype).tobytes() == b.tobytes()
        )
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return repr(a) == repr(b)  # tells -0.0 from 0.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.safetensors"


@pytest.fixture
def file(path):
    codec.save(path, "example", 3, STATE)
    return path


def header(path):
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def rewrite(path, head, body):
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def forge(path, **changes):
    """Change what the JSON of a file says."""
    head, body = header(path)
    content = json.loads(head["__metadata__"]["tensorbandits"])
    head["__metadata__"]["tensorbandits"] = json.dumps({**content, **changes})
    rewrite(path, head, body)


@given(states)
def test_a_state_comes_back_as_it_was(tmp_path_factory, state):
    path = tmp_path_factory.getbasetemp() / "round.safetensors"
    codec.save(path, "example", 7, state)
    saved = codec.load(path)
    assert (saved.kind, saved.version) == ("example", 7)
    assert same(state, saved.state)
    assert codec.checksum(saved.state) == codec.checksum(state)


def test_what_comes_back_can_be_written_to(file):
    core = codec.load(file).state["chain"]["core"]
    core += 1
    assert same(codec.load(file).state, STATE)


def test_a_generator_goes_on(path):
    rng = np.random.default_rng(5)
    rng.random(3)
    codec.save(path, "rng", 1, {"rng": rng.bit_generator.state})
    again = np.random.default_rng()
    again.bit_generator.state = codec.load(path).state["rng"]
    assert again.random(5).tolist() == rng.random(5).tolist()


def test_numbers_of_numpy_become_plain_and_mappings_dicts(path):
    given = {
        "int": np.int32(3),
        "float": np.float32(0.1),
        "bool": np.True_,
        "text": np.str_("a"),
        "map": OrderedDict(b=1, a=MappingProxyType({"c": 2})),
    }
    codec.save(path, "example", np.int64(1), MappingProxyType(given))
    saved = codec.load(path)
    wanted = {"int": 3, "float": float(np.float32(0.1)), "bool": True, "text": "a", "map": {"b": 1, "a": {"c": 2}}}
    assert same(saved.state, wanted)
    assert type(saved.version) is int


def test_arrays_are_tensors_named_by_their_place(file):
    assert set(load_file(file)) == {
        "state.chain.core",
        "state.chain.factors[0]",
        "state.chain.factors[1]",
        "state.seen",
    }


def test_places_never_meet(path):
    state = {"a.b": np.zeros(1), "a": {"b": np.ones(1)}, 'a["b"]': np.full(1, 2.0), "a[0]": np.full(1, 3.0)}
    codec.save(path, "example", 1, state)
    assert same(codec.load(path).state, state)


def test_numbers_of_any_length(path):
    state = {"long": 7**9000, "negative": -(2**64), "edges": [2**63, -(2**63), 2**64 - 1, 2**64]}
    codec.save(path, "example", 1, state)
    assert codec.load(path).state == state


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        (float("nan"), ValueError, r"state\.a\.b is nan; .*finite"),
        (np.float32("-inf"), ValueError, r"state\.a\.b is -inf"),
        (np.array([[1.0, 2], [3, np.nan]]), ValueError, r"state\.a\.b holds nan at \(1, 1\)"),
        (np.array(np.inf), ValueError, r"state\.a\.b holds inf at \(\)"),
        ([0, (1, np.array([np.inf]))], ValueError, r"state\.a\.b\[1\]\[1\] holds inf at \(0,\)"),
        (
            np.random.SeedSequence(1),
            TypeError,
            r"state\.a\.b is a numpy\.random\..*SeedSequence, which cannot be saved",
        ),
        (len, TypeError, r"state\.a\.b is a builtins\.builtin_function_or_method"),
        (codec.Saved("a", 1, {}), TypeError, r"state\.a\.b is a tensorbandits\.base\.codec\.Saved"),
        (errno, TypeError, r"state\.a\.b is a builtins\.module"),
        (b"bytes", TypeError, r"state\.a\.b is a builtins\.bytes"),
        ({1, 2}, TypeError, r"state\.a\.b is a builtins\.set"),
        (1j, TypeError, r"state\.a\.b is a builtins\.complex"),
        (np.complex128(1), TypeError, r"state\.a\.b is a numpy\.complex128"),
        (np.longdouble(1), TypeError, r"state\.a\.b is a numpy\.longdouble"),
        (np.datetime64("2020"), TypeError, r"state\.a\.b is a numpy\.datetime64"),
        (np.zeros(1, complex), TypeError, r"state\.a\.b is an array of type complex128"),
        (np.zeros(1, np.longdouble), TypeError, r"state\.a\.b is an array of type "),
        (np.array([None]), TypeError, r"state\.a\.b is an array of type object"),
        (np.array(["a"]), TypeError, r"state\.a\.b is an array of type <U1"),
        (np.zeros(1, "M8[s]"), TypeError, r"state\.a\.b is an array of type datetime64"),
        (np.zeros(1, "f8,i8"), TypeError, r"state\.a\.b is an array of type "),
        (np.ma.masked_array([1.0], mask=[True]), TypeError, r"state\.a\.b is a numpy\.ma\..*MaskedArray"),
        ({1: 2}, TypeError, r"state\.a\.b has the key 1, a int; keys are text"),
        ({"c d": {None: 2}}, TypeError, r'state\.a\.b\["c d"\] has the key None'),
    ],
)
def test_what_cannot_be_saved_is_named(path, value, error, said):
    for act in (codec.checksum, lambda state: codec.save(path, "example", 1, state)):
        with pytest.raises(error, match=said):
            act({"a": {"b": value}})
    assert not list(path.parent.iterdir())


def test_a_state_that_holds_itself_is_refused():
    state = {}
    state["a"] = [state]
    with pytest.raises(ValueError, match="lies 100 containers deep, or the state holds itself"):
        codec.checksum(state)


@pytest.mark.parametrize(
    ("kind", "version", "state", "said"),
    [
        ("", 1, {}, "kind is ''"),
        (3, 1, {}, "kind is 3"),
        ("a", 0, {}, "version is 0"),
        ("a", 1.5, {}, "version is 1.5"),
        ("a", True, {}, "version is True"),
        ("a", 1, [], "the state is a list; give a dict"),
        ("a", 1, None, "the state is a NoneType; give a dict"),
    ],
)
def test_wrong_arguments(path, kind, version, state, said):
    with pytest.raises((TypeError, ValueError), match=said):
        codec.save(path, kind, version, state)
    assert not path.exists()


def test_too_much_beside_the_arrays_is_refused(path, monkeypatch):
    monkeypatch.setattr(codec, "_LONGEST", 1000)
    codec.save(path, "example", 1, {"a": np.zeros(10_000)})
    with pytest.raises(ValueError, match="keep long lists of numbers as arrays"):
        codec.save(path, "example", 1, {"a": [0.5] * 1000})
    assert codec.load(path).state["a"].shape == (10_000,)


# Checksums.


def test_a_checksum_tells_states_apart():
    states = [
        {},
        {"a": 1},
        {"a": 1.0},
        {"a": True},
        {"a": "1"},
        {"a": [1]},
        {"a": (1,)},
        {"a": {"$tuple": [1]}},
        {"a": -0.0},
        {"a": 0.0},
        {"b": 1},
        {"a": np.zeros(2)},
        {"a": np.zeros((2, 1))},
        {"a": np.zeros(2, np.int64)},
        {"a": np.zeros(4, np.float32)},
        {"a": -np.zeros(2)},
        {"b": np.zeros(2)},
        {"a": np.zeros(1), "b": np.zeros(1)},
    ]
    assert len({codec.checksum(state) for state in states}) == len(states)


def test_a_checksum_is_the_same_for_equal_states_however_they_lie_in_memory():
    array = np.arange(12.0).reshape(3, 4)
    wide = np.repeat(array, 2, axis=1)
    sums = {codec.checksum({"a": a, "b": 1}) for a in (array, np.asfortranarray(array), wide[:, ::2])}
    assert sums == {codec.checksum({"b": np.int8(1), "a": array.astype(">f8")})}


def test_a_checksum_is_the_same_in_every_process_and_release():
    code = "from tensorbandits.base import codec; print(codec.checksum({'b': (1, 2.5), 'a': {'é': None}}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = codec.checksum({"a": {"é": None}, "b": (1, 2.5)})
    assert run.stdout.strip() == here == "bf6086ac19bb250277b4a521a390fcf718f99f3b134bb4961102637ca83bd601"


# Files that are damaged or of others.


def test_a_flipped_byte_is_noticed(file):
    """Or it changes nothing: a space of the padding, say."""
    whole, rng = file.read_bytes(), np.random.default_rng(0)
    noticed = 0
    for position in rng.choice(len(whole), min(300, len(whole)), replace=False):
        damaged = bytearray(whole)
        damaged[position] ^= int(rng.integers(1, 256))
        file.write_bytes(damaged)
        try:
            saved = codec.load(file)
        except ValueError as error:
            assert str(file) in str(error)  # noqa: PT017
            noticed += 1
        else:
            assert (saved.kind, saved.version) == ("example", 3)
            assert codec.checksum(saved.state) == codec.checksum(STATE)
    assert noticed > 250


def test_a_file_cut_short_is_noticed(file):
    whole = file.read_bytes()
    for length in [*range(0, 20), *range(20, len(whole), 37), len(whole) - 1]:
        file.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="damaged, cut short"):
            codec.load(file)
    file.write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match="damaged, cut short"):
        codec.load(file)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b'{"a": 1}',
        b"\x80\x04\x95" + bytes(30),
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 99_999_999) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        bytes(1000),
    ],
    ids=["empty", "png", "json", "pickle", "header of 2**63", "header of 10**8", "list", "zeros"],
)
def test_another_file_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"state\.safetensors is damaged, cut short, or not a file"):
        codec.load(path)


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt"}])
def test_tensors_of_another_program_are_refused(path, metadata):
    save_file({"x": np.zeros(3)}, path, metadata=metadata)
    with pytest.raises(ValueError, match="of another program"):
        codec.load(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "3",
        "{}",
        '{"codec": "1"}',
        '{"codec": 0}',
        '{"codec": true}',
        '{"codec": 1}',
        "[" * 10**6,
    ],
)
def test_json_that_is_not_ours_is_refused(path, text):
    save_file({}, path, metadata={"tensorbandits": text})
    with pytest.raises(ValueError, match="damaged"):
        codec.load(path)


def test_a_newer_layout_asks_for_an_upgrade(file):
    forge(file, codec=2, state={"$new": []})
    with pytest.raises(ValueError, match="written by a newer release; upgrade tensorbandits"):
        codec.load(file)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "other"},
        {"kind": {}},
        {"version": 4},
        {"version": 3.0},
        {"checksum": None},
        {"state": {}},
        {"state": None},
        {"state": {"a": {"$array": "state.nowhere"}}},
        {"state": {"a": {"$array": []}}},
        {"state": {"a": {"$int": "os.system"}}},
        {"state": {"a": float("inf")}},
        {"state": json.loads('{"a":' * 900 + "1" + "}" * 900)},
    ],
    ids=lambda changes: str(changes)[:30],
)
def test_a_forged_file_is_refused(file, changes):
    forge(file, **changes)
    with pytest.raises(ValueError, match="damaged"):
        codec.load(file)


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": "I64"},
        {"dtype": "F32", "shape": [2, 6]},
        {"dtype": "BF16", "shape": [4, 6]},
        {"dtype": "F8_E4M3", "shape": [8, 6]},
        {"dtype": "C64"},
        {"dtype": "U8", "shape": [48]},
        {"shape": [3, 2]},
        {"shape": [2**62, 2**62]},
        {"shape": [10**12]},
        {"shape": [1] * 99 + [6]},
        {"shape": [0, 2**62], "data_offsets": [0, 0]},
        {"data_offsets": [0, 2**60]},
        {"data_offsets": [2**60, 2**60 + 48]},
    ],
    ids=str,
)
def test_a_forged_tensor_is_refused(path, changes):
    codec.save(path, "example", 1, {"core": np.arange(6.0).reshape(2, 3)})
    head, body = header(path)
    head["state.core"].update(changes)
    rewrite(path, head, body)
    with pytest.raises(ValueError, match="damaged"):
        codec.load(path)


def test_a_tensor_more_or_used_twice_is_refused(path):
    codec.save(path, "example", 1, {"a": np.zeros(2)})
    head, body = header(path)
    rewrite(path, {**head, "more": {"dtype": "U8", "shape": [1], "data_offsets": [16, 17]}}, body + b"1")
    with pytest.raises(ValueError, match="damaged"):
        codec.load(path)
    codec.save(path, "example", 1, {"a": np.zeros(2)})
    forge(path, state={"a": {"$array": "state.a"}, "b": {"$array": "state.a"}})
    with pytest.raises(ValueError, match="damaged"):
        codec.load(path)


def test_nan_with_a_right_checksum_is_refused(path, monkeypatch):
    monkeypatch.setattr(codec, "_check_array", lambda array, place: array)
    codec.save(path, "example", 1, {"a": np.array([np.nan])})
    monkeypatch.undo()
    with pytest.raises(ValueError, match="damaged"):
        codec.load(path)


def test_a_byte_that_is_no_bool_does_not_get_in(path, monkeypatch):
    odd = np.array([7, 0], np.uint8).view(bool)
    codec.save(path, "example", 1, {"a": odd})
    with pytest.raises(ValueError, match="damaged"):
        codec.load(path)


# Places that cannot be read or written.


def test_what_is_no_file_is_not_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere cannot be read .*; mend the name"):
        codec.load(tmp_path / "nowhere")
    with pytest.raises(IsADirectoryError, match="give the name of a file in that folder"):
        codec.load(tmp_path)
    with pytest.raises(OSError, match="cannot be read"):
        codec.load(os.devnull)
    for wrong in (None, 3, b"x"):
        with pytest.raises(TypeError, match=r"path is .*; give the name of a file"):
            codec.load(wrong)
        with pytest.raises(TypeError, match=r"path is .*; give the name of a file"):
            codec.save(wrong, "example", 1, {})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(path):
    os.mkfifo(path)
    with pytest.raises(OSError, match="cannot be read"):
        codec.load(path)


def test_what_cannot_be_written_leaves_nothing(tmp_path, file):
    before = file.read_bytes()
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match=r"folder cannot be written .*; give the name of a file in that folder"):
        codec.save(tmp_path / "folder", "example", 1, {})
    with pytest.raises(FileNotFoundError, match="make its folder first"):
        codec.save(tmp_path / "missing" / "a", "example", 1, {})
    with pytest.raises(NotADirectoryError, match="does not go through a file"):
        codec.save(file / "a", "example", 1, {})
    with pytest.raises(OSError, match="give a shorter name"):
        codec.save(tmp_path / ("a" * 300), "example", 1, {})
    with pytest.raises(IsADirectoryError):
        codec.save("/", "example", 1, {})
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", file.name]
    assert file.read_bytes() == before


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EROFS, "a place that can be written to"),
        (errno.EACCES, "a place that you may use"),
        (errno.EIO, "give another place"),
    ],
)
def test_a_failure_on_the_way_keeps_the_old_file(file, monkeypatch, step, number, said):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(codec.os, step, fail)
    with pytest.raises(OSError, match=said) as caught:
        codec.save(file, "example", 4, {"new": np.ones(5)})
    monkeypatch.undo()
    assert caught.value.errno == number
    assert codec.load(file).version == 3
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on the size of files there")
def test_a_write_that_stops_in_the_middle_keeps_the_old_file(file):
    code = (
        "import resource, signal, sys, numpy as np; from tensorbandits.base import codec\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "codec.save(sys.argv[1], 'example', 4, {'new': np.ones(5000)})"
    )
    run = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True)
    assert "cannot be written (File too large); give another place" in run.stderr
    assert codec.load(file).version == 3
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


def test_an_interrupt_leaves_nothing(file, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(codec.os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        codec.save(file, "example", 4, {})
    monkeypatch.undo()
    assert codec.load(file).version == 3
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


def test_a_link_is_written_through(file):
    link = file.with_name("latest")
    link.symlink_to(file)
    codec.save(link, "example", 9, {})
    assert link.is_symlink()
    assert codec.load(file).version == codec.load(link).version == 9


def test_the_file_has_the_rights_of_any_new_file(file):
    plain = file.with_name("plain")
    plain.touch()
    assert file.stat().st_mode == plain.stat().st_mode


def test_threads_that_save_and_load_one_file(file):
    seen, errors = [], []

    def work(number):
        try:
            for i in range(20):
                codec.save(file, "example", 1 + number, {"all": np.full(3000, number), "i": i})
                state = codec.load(file).state
                seen.append(len(set(state["all"].tolist())))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert seen == [1] * 80
    assert codec.load(file).state["i"] == 19
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


def test_processes_that_save_one_file(file):
    code = (
        "import sys, numpy as np; from tensorbandits.base import codec\n"
        "for _ in range(20): codec.save(sys.argv[1], 'example', 1, {'all': np.full(3000, int(sys.argv[2]))})"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(file), str(number)]) for number in (1, 2)]
    while any(process.poll() is None for process in running):
        codec.load(file)
    assert [process.returncode for process in running] == [0, 0]
    assert len(set(codec.load(file).state["all"].tolist())) == 1
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


def test_importing_the_codec_does_not_import_safetensors():
    code = "import sys, tensorbandits.base.codec; print('safetensors' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
