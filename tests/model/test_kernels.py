"""Kernels are compiled ahead: all of them, for the types that they are called with, from where it was stopped."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tensorbandits
from tensorbandits.base import compiled
from tensorbandits.model import kernels


def test_every_file_with_kernels_is_compiled_ahead():
    package = Path(tensorbandits.__file__).parent
    files = {f"tensorbandits.{path.parent.name}.{path.stem}" for path in package.glob("*/_*_kernels.py")}
    assert set(kernels.FILES) == files


@pytest.mark.medium
def test_what_is_kept_is_loaded_and_never_compiled_again():
    kernels.compile_ahead()
    before, said = len(compiled.compilations()), []
    assert kernels.compile_ahead(said.append) == 0
    assert all(one.loaded() for one in kernels.entries())
    assert compiled.compilations()[before:] == said == []


_STOPPED = """
import os, signal
from tensorbandits.model import kernels
def first(words):
    print(words, flush=True)
    if words.startswith("compiled"):
        os.kill(os.getpid(), signal.SIGKILL)
kernels.compile_ahead(first)
"""
_AGAIN = """
from tensorbandits.base import compiled
from tensorbandits.model import kernels
print(kernels.compile_ahead(), len(kernels.entries()), kernels.not_kept(), compiled.compilations())
print(kernels.compile_ahead())
"""


@pytest.mark.slow
def test_compiling_goes_on_where_it_was_killed(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def python(program):
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=900, check=False
        )

    killed = python(_STOPPED)
    assert killed.returncode == -signal.SIGKILL
    assert killed.stdout.startswith("compiling ")
    again = python(_AGAIN)
    assert again.returncode == 0, again.stderr
    first, second = again.stdout.splitlines()
    compiled_now, every, *lost = first.split(" ", 2)
    assert 0 < int(compiled_now) < int(every)
    assert lost == ["[] []"], "all were compiled by other processes, and kept"
    assert second == "0"
