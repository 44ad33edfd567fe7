"""The files in which compiled kernels are kept: whatever happens to them, a kernel gives the same numbers."""

import errno
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import numba
import numpy as np
import pytest

from tensorbandits.base import compiled


def double(x):
    return 2 * x


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of this test's own, in a process that has said nothing yet and whose log nobody reads."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiled._notices, "said", set())
    log = logging.getLogger("tensorbandits")
    level = log.level
    log.setLevel(logging.WARNING)  # a server that an earlier test ran in this process has its log read
    yield tmp_path
    log.setLevel(level)


def run(function=double):
    """Call a kernel as a new process would, for two signatures; return how many of them were found on disk."""
    fresh = compiled.kernel(function)
    assert (fresh(21), fresh(1.5)) == (42, 3.0)
    return sum(fresh.stats.cache_hits.values())


def files(cache, ending):
    return sorted(cache.rglob(f"*{ending}"))


def test_what_was_compiled_is_kept(cache, capsys):
    assert [run(), run()] == [0, 2]
    assert [len(files(cache, ending)) for ending in (".nbi", ".nbc")] == [1, 2]
    assert capsys.readouterr().err == ""


DAMAGES = {
    "emptied": lambda content: b"",
    "cut short": lambda content: content[: len(content) // 2],
    "cut by one": lambda content: content[:-1],
    "zeros": lambda content: bytes(len(content)),
    "not a pickle": lambda content: b"\x89PNG\r\n\x1a\n" * 20,
    "another pickle": lambda content: b"\x80\x04K\x01.\x80\x04K\x01.",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("ending", [".nbi", ".1.nbc"])
def test_a_damaged_file_is_compiled_again_and_mended(cache, capsys, ending, damage):
    run()
    (path,) = files(cache, ending)
    path.write_bytes(damage(path.read_bytes()))
    assert run() < 2
    assert run() == 2
    said = capsys.readouterr().err
    if said or (ending, damage) != (".nbi", DAMAGES["another pickle"]):  # to Numba that is one of another version
        assert said.count("tensorbandits: ") == said.count("\n") == 1
        assert str(path.parent) in said
        assert "set NUMBA_CACHE_DIR to a folder" in said


@pytest.mark.parametrize("ending", [".nbi", ".1.nbc"])
def test_a_flipped_byte_changes_no_number(cache, ending):
    run()
    (path,) = files(cache, ending)
    whole, rng = {file: file.read_bytes() for file in path.parent.iterdir()}, np.random.default_rng(0)
    for position in rng.choice(len(whole[path]), 12, replace=False):
        for file, content in whole.items():
            file.write_bytes(content)
        damaged = bytearray(whole[path])
        damaged[position] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        run()


def test_code_of_another_signature_is_not_run(cache, capsys):
    """Two processes that each add a signature at once may give both files one name."""
    run()
    first, second = files(cache, ".nbc")
    second.write_bytes(first.read_bytes())
    run()
    assert "of another kernel" in capsys.readouterr().err
    run()
    assert run() == 2


def test_code_of_older_source_is_not_run(tmp_path, monkeypatch):
    """The index of the new source is written first; when its code cannot be, the old code has the right name."""
    compiled._SealedFile(str(tmp_path), "kernel", "old source").save("signature", "old code")
    new = compiled._SealedFile(str(tmp_path), "kernel", "new source")
    with monkeypatch.context() as patch:
        patch.setattr(compiled._SealedFile, "_save_data", full)
        with pytest.raises(OSError, match="No space"):
            new.save("signature", "new code")
    with pytest.raises(ValueError, match="of another kernel"):
        new.load("signature")
    new.save("signature", "new code")
    assert new.load("signature") == "new code"


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("step", ["_save_index", "_save_data"])
def test_a_full_disk_costs_time_only(cache, capsys, monkeypatch, step):
    monkeypatch.setattr(compiled._SealedFile, step, full)
    assert [run(), run()] == [0, 0]
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "No space left on device')); compiling it again" in said
    assert "set NUMBA_CACHE_DIR to a folder with space" in said
    monkeypatch.undo()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(cache))
    run()
    assert run() == 2


@pytest.mark.parametrize("how", ["a file", "closed"])
def test_a_folder_that_cannot_be_used_costs_time_only(cache, capsys, monkeypatch, how):
    fresh = compiled.kernel(double)
    folder = Path(fresh.stats.cache_path)
    if how == "a file":
        folder.rmdir()
        folder.touch()
    else:  # permissions would not stop the tests of a superuser

        def closed(*_):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

        monkeypatch.setattr(compiled._SealedFile, "_load_index", closed)
    assert (fresh(21), fresh(1.5)) == (42, 3.0)
    assert capsys.readouterr().err.count("set NUMBA_CACHE_DIR") == 1


def test_compiling_is_announced_once(cache, capsys, monkeypatch):
    monkeypatch.setattr(double, "__module__", compiled.__name__)
    run()
    run()
    said = capsys.readouterr().err
    assert said == (
        "tensorbandits: compiling for this machine; this takes up to a minute in all, once, and is then kept on disk\n"
    )


def test_compiling_is_logged_where_somebody_reads_the_log(cache, capsys, caplog, monkeypatch):
    monkeypatch.setattr(double, "__module__", compiled.__name__)
    with caplog.at_level("INFO", logger="tensorbandits"):
        run()
    assert capsys.readouterr().err == ""
    ((name, _, words),) = caplog.record_tuples
    assert name == "tensorbandits.compile"
    assert words.startswith("compiling for this machine")


def test_without_any_folder_it_is_compiled_each_time(cache, capsys):
    names = {"__name__": "tensorbandits.example"}
    exec("def triple(x): return 3 * x", names)  # no file, so no place beside it
    assert compiled.kernel(names["triple"])(2) == 6
    assert "up to a minute in all, each time: set NUMBA_CACHE_DIR to a folder" in capsys.readouterr().err


def test_threads_that_compile_one_kernel_at_once(cache, capsys):
    fresh, start, results = compiled.kernel(double), threading.Barrier(8), []

    def work(i):
        start.wait()
        results.append(fresh(i) == 2 * i and fresh(i + 0.5) == 2 * i + 1)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8
    assert len(fresh.signatures) == 2
    assert run() == 2
    assert capsys.readouterr().err == ""


def test_processes_that_compile_one_kernel_at_once(tmp_path):
    (tmp_path / "example.py").write_text(
        "from tensorbandits.base.compiled import kernel\n@kernel\ndef double(x): return 2 * x\n"
        "print(double(21), double(1.5), sum(double.stats.cache_hits.values()))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, str(tmp_path / "example.py")]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0][:6] for process in running] == ["42 3.0"] * 2
    last = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (last.stdout, last.stderr) == ("42 3.0 2\n", "")
