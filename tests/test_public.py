"""The public names: each documented with an example that runs as a doctest, and light to import."""

import ast
import inspect
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tensorbandits as tb
import tensorbandits.testing

PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (tb, tb.data, tb.policies, tb.tensor, tb.sim, tensorbandits.testing)
    for name in module.__all__
} | {
    f"theory.{name}": f
    for name, f in inspect.getmembers(tb.theory, inspect.isfunction)
    if f.__module__ == tb.theory.__name__ and not name.startswith("_")
}


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if callable(value)])
def test_every_public_name_has_an_example(name):
    assert ">>>" in (inspect.getdoc(PUBLIC[name]) or "")


@pytest.mark.parametrize("name", [name for name, value in PUBLIC.items() if inspect.isclass(value)])
def test_every_public_method_is_documented(name):
    methods = inspect.getmembers(PUBLIC[name], lambda m: inspect.isfunction(m) or isinstance(m, property))
    assert not [method for method, f in methods if not method.startswith("_") and not inspect.getdoc(f)]


def test_the_designs_names_exist():
    expected = (
        "TensorElimination TensorEpochGreedy TensorEnsembleSampling TensorThompsonSampling VectorizedUCB "
        "MatricizedESTR paper_tensor TensorEnvironment simulate compare Ledger complete data Space Bandit Decision"
    )
    assert not set(expected.split()) - set(tb.__all__)


def test_importing_brings_in_no_heavy_package():
    heavy = ("matplotlib", "joblib", "typer", "rich", "numba", "pyarrow", "narwhals", "duckdb", "pandas", "dask", "ray")
    code = f"import sys, tensorbandits; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_no_two_classes_share_a_name():
    """But for what two packages call by one word to others: errors of the client, a kind of event and its answer."""
    shared = {"Imported", "KeyReusedError", "NameTakenError", "Report", "Skipped", "UnknownBanditError"}
    source = Path(tb.__file__).parent
    found = Counter(
        node.name
        for file in source.rglob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in found.items() if count > 1} == shared
