"""Digests: equal for equal values in every process, and other ones for whatever could give other numbers."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tensorbandits as tb
from tensorbandits.sim.digests import digest
from tensorbandits.sim.sources import bare, modules_below, source_digest


class Mine(tb.VectorizedUCB):
    bonus = 1.0


def described():
    """Digests of everything that a run may depend on, one per line."""
    world = tb.TensorEnvironment(tb.paper_tensor(4, seed=1), context=(0,), context_weights=[np.arange(1, 5)], seed=1)
    policy = Mine((4, 4, 4), context=(0,), seed=np.random.SeedSequence(3, spawn_key=(1,)))
    values = [
        world,
        policy,
        {"b", "a", "c"},
        {"y": 1, "x": (2.5, None, b"z")},
        lambda x: {x, "u", "v"},
        Mine,
        np.eye(3),
    ]
    return [digest(value) for value in values] + [source_digest()]


HASH_SEEDS = pytest.mark.parametrize("seed", ["1", pytest.param("2", marks=pytest.mark.slow)])


@HASH_SEEDS
def test_digests_are_the_same_in_another_process(seed):
    root = Path(__file__).resolve().parents[2]
    code = "from tests.sim.test_digests import described; print(described())"
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"[0-9a-f]{32}", done.stdout) == described()


def test_digests_tell_values_apart():
    def make(bonus):
        return type("Other", (tb.VectorizedUCB,), {"bonus": bonus, "__module__": __name__})

    pairs = [
        (1, 1.0),
        (1, True),
        ("1", b"1"),
        ((1, 2), [1, 2]),
        ([1, [2]], [[1], 2]),
        (["ab", "c"], ["a", "bc"]),
        (np.zeros(4), np.zeros((2, 2))),
        (np.zeros(2), np.zeros(2, dtype=np.float32)),
        (np.random.default_rng(1), np.random.default_rng(2)),
        (np.random.SeedSequence(1), np.random.SeedSequence(1, spawn_key=(1,))),
        (lambda x: x + 1, lambda x: x + 2),
        (make(1.0), make(2.0)),
        (tb.PaperWorld(p=3)(0), tb.PaperWorld(p=3)(1)),
    ]
    for one, two in pairs:
        assert digest(one) != digest(two), (one, two)
    loop: list = []
    loop.append(loop)
    assert digest(loop) == digest(loop)


def test_comments_and_docstrings_do_not_count_as_code():
    assert bare('"""a"""\nx = 1  # b\n') == bare("x   =  1")
    assert bare('def f():\n    """only this"""\n') == bare("def f(): pass")
    assert bare("x = 1") != bare("x = 2")


def test_a_run_depends_on_what_its_code_imports_and_on_nothing_else():
    names = modules_below()
    below = ("base.checks", "ledger", "base.compiled", "theory", "model.gibbs", "model._sweep_kernels")
    for name in (
        *below,
        "policies.thompson",
        "policies.design",
        "policies.registry",
        "sim.jobs",
        "sim.loop",
        "sim.environment",
    ):
        assert f"tensorbandits.{name}" in names
    for name in ("report", "study", "sim.plots", "sim.compare", "sim.results", "cli.demo", "paper.figure2"):
        assert f"tensorbandits.{name}" not in names


def test_every_file_of_policies_tensors_and_environments_decides_unless_nothing_imports_it():
    """A file that is added there counts by being imported; there is no list to forget it in."""
    root = Path(tb.__file__).parent
    files = [path for folder in ("policies", "model", "tensor") for path in (root / folder).glob("*.py")]
    names = {f"tensorbandits.{path.parent.name}.{path.stem}" for path in files if path.stem != "__init__"}
    beside = {"kernels", "worth"}  # one only compiles ahead, the other is asked by studies
    assert names - {f"tensorbandits.model.{name}" for name in beside} <= set(modules_below())


def test_a_class_of_the_package_that_jobs_do_not_import_counts_with_its_own_imports(monkeypatch):
    from tensorbandits.sim import digests, sources

    assert "tensorbandits.sim.plots" not in modules_below()
    before = digest(tb.sim.plots.Panel)
    monkeypatch.setattr(digests, "source_digest", lambda module: "other")
    assert digest(tb.sim.plots.Panel) != before
    assert digest(tb.VectorizedUCB) == digest(tb.VectorizedUCB)
    assert sources.source_digest("tensorbandits.sim.plots") != sources.source_digest()


HELPERS = """
import numpy as np
{other}
SCALE = {scale}
SIZES = frozenset(({scale}, 2))
LIMITS = {{"low": [0, {scale}]}}

def helper(x):
    return deeper(x) + 1

def deeper(x, again=False):
    return helper(x) if again else SCALE * x

class Bonus:
    table = np.array([{scale}, 1.0])

    def __init__(self, size):
        self.size = size

BONUS = Bonus({scale})
"""

POLICY = """
import functools, importlib, threading
import numpy as np
import tensorbandits as tb
{imports}

LOCK, COUNT = threading.Lock(), 0

def counted():
    global COUNT
    COUNT += 1

class Mine(tb.VectorizedUCB):
    def _score(self, x):
        counted()
        with LOCK:
            return {read}
"""

READS = {
    "a constant": ("from {helpers} import SCALE", "SCALE * x"),
    "a set": ("from {helpers} import SIZES", "x in SIZES"),
    "a table": ("from {helpers} import LIMITS", "LIMITS['low'][1]"),
    "a helper that calls others": ("from {helpers} import helper", "helper(x)"),
    "an object": ("from {helpers} import BONUS", "BONUS.size"),
    "a class": ("from {helpers} import Bonus", "Bonus.table[0]"),
    "a module": ("import {helpers}", "{helpers}.SCALE"),
    "a module under another name": ("import {helpers} as h", "h.deeper(x)"),
    "an import inside": ("", "__import__('math').pi and (lambda: inside())()"),
    "a function inside a function": ("from {helpers} import helper", "[(lambda y: helper(y))(i) for i in range(3)]"),
    "a partial": ("from {helpers} import helper\npart = functools.partial(helper, 2)", "part()"),
    "a cached function": ("from {helpers} import helper\nkept = functools.cache(helper)", "kept(x)"),
}


def made(folder, monkeypatch, what, scale, name):
    """A policy's class in a module that reads something of another module, where that depends on ``scale``."""
    imports, read = (text.format(helpers=name) for text in READS[what])
    if what == "an import inside":
        imports = f"def inside():\n    from {name} import SCALE\n    return SCALE"
    (folder / f"{name}.py").write_text(HELPERS.format(scale=scale, other=""))
    (folder / f"{name}_policy.py").write_text(POLICY.format(imports=imports, read=read))
    monkeypatch.syspath_prepend(folder)
    for module in (name, f"{name}_policy"):
        sys.modules.pop(module, None)
    return __import__(f"{name}_policy").Mine


@pytest.mark.parametrize("what", READS)
def test_what_code_reads_of_its_modules_is_part_of_its_digest(what, tmp_path, monkeypatch):
    name = f"read_{list(READS).index(what)}"
    one, two, again = (digest(made(tmp_path / str(i), monkeypatch, what, i % 2, name)) for i in folders(tmp_path, 3))
    assert one != two
    assert one == again


def folders(root, count):
    for i in range(count):
        (root / str(i)).mkdir()
        yield i


def test_a_changed_constant_is_no_reason_to_serve_old_results(tmp_path, monkeypatch):
    """A policy plays the cell that a module's constant names: after a change, another one."""
    source = """
import numpy as np
import tensorbandits as tb

CELL = {cell}

def favourite():
    return CELL

class Fixed(tb.VectorizedUCB):
    def _choose(self, query, rng):
        return favourite()
"""
    regrets = []
    for i, cell in zip(folders(tmp_path, 2), [(0, 0), (1, 1)]):
        (tmp_path / str(i) / "fixed_policy.py").write_text(source.format(cell=cell))
        monkeypatch.syspath_prepend(tmp_path / str(i))
        sys.modules.pop("fixed_policy", None)
        kind = __import__("fixed_policy").Fixed
        comparison = tb.compare(
            {"fixed": lambda seed, kind=kind: kind((2, 2), seed=seed)},
            lambda seed: tb.TensorEnvironment(np.diag([0.0, 1.0]), noise=0.0, seed=seed),
            horizon=160,
            replications=1,
            folder=tmp_path / "results",
        )
        regrets.append(comparison.runs[0].final)
    assert regrets == [160.0, 0.0]


def test_code_that_changed_after_it_was_imported_is_taken_for_neither_text(tmp_path, monkeypatch):
    """What runs is the old text, what would be digested the new one: nothing that is kept so is found again."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    kind = made(tmp_path, monkeypatch, "a constant", 1, "edited")
    before, file = digest(kind), tmp_path / "edited.py"
    text = file.read_text()
    file.write_text(text.replace("SCALE = 1", "SCALE = 200"))
    between = digest(kind)
    assert between != before
    file.write_text(text)
    os.utime(file, (1, 1))
    again = made(tmp_path, monkeypatch, "a constant", 200, "edited")
    assert digest(again) not in (before, between)


def script_of_a_class(folder):
    return f"""
import tensorbandits as tb

class Mine(tb.VectorizedUCB):
    pass

world = lambda seed: tb.TensorEnvironment(tb.paper_tensor(3, seed=seed), seed=seed)
tb.compare({{"mine": lambda seed: Mine((3, 3, 3), seed=seed)}}, world, horizon=9, folder={str(folder)!r})
"""


def test_code_without_a_file_is_refused_with_the_remedy(tmp_path):
    code = script_of_a_class(tmp_path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "put it into a module" in done.stderr


@pytest.mark.slow  # a policy of a script plays in the tests of comparisons too
def test_the_same_code_in_a_file_is_taken(tmp_path):
    (tmp_path / "script.py").write_text(script_of_a_class(tmp_path))
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_mutable_things_that_are_no_constants_do_not_count(tmp_path, monkeypatch):
    """What code assigns itself, a lock: a run does not depend on them, and they are others each time."""
    kind = made(tmp_path, monkeypatch, "a constant", 1, "mutable")
    before = digest(kind)
    sys.modules["mutable_policy"].COUNT = 5
    sys.modules["mutable_policy"].LOCK = threading.Lock()
    assert digest(kind) == before


@HASH_SEEDS
def test_what_code_reads_is_the_same_in_another_process(seed, tmp_path, monkeypatch):
    kind = made(tmp_path, monkeypatch, "a helper that calls others", 3, "elsewhere")
    code = "from elsewhere_policy import Mine; from tensorbandits.sim.digests import digest; print(digest(Mine))"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.strip() == digest(kind), done.stderr
