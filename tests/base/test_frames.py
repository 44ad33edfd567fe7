"""Data frames out, of the library that is wanted."""

import importlib.util

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tensorbandits as tb
from tensorbandits.base import frames
from tensorbandits.client.files import from_parquet, from_records, to_parquet

KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table, None: pd.DataFrame}


@pytest.fixture(scope="module")
def made():
    """What hands out frames, each as a function of the library."""
    rng = np.random.default_rng(0)
    space = tb.Space({"segment": ["new", 2], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}, ["segment"])
    bandit = tb.Bandit(space, rank=1, reward="bernoulli", holdout=0.2, seed=0)
    decisions = bandit.ask_many([{"segment": "new"}, {"segment": 2}] * 60)
    bandit.tell_many([(one, int(rng.random() < 0.3)) for one in decisions])
    beliefs = bandit.explain()
    env = tb.TensorEnvironment(tb.paper_tensor(p=3, signal=1.0, seed=0), seed=0)
    recipes = {"ucb": tb.PolicyRecipe("ucb")}
    cells = rng.integers(0, 3, (300, 2))
    table = pa.table({"a": cells[:, 0], "b": cells[:, 1], "paid": rng.random(300)})
    log = tb.data.from_log(table, ["a", "b"], "paid")
    profile = tb.data.profile(log, max_rank=1)
    evaluation = tb.evaluate(log, "uniform", logged="uniform")
    trace = tb.simulate(tb.VectorizedUCB(env.shape, seed=0), env, horizon=20)
    comparison = tb.compare(recipes, {"w": tb.PaperWorld(p=3)}, horizon=10, replications=1, n_jobs=1)
    return {
        "decisions": decisions.to_frame,
        "history": lambda backend: bandit.history(backend=backend),
        "history of a mode": lambda backend: bandit.history("segment", backend=backend),
        "effects": lambda backend: beliefs.in_frames_of(backend).effects,
        "shares": lambda backend: beliefs.in_frames_of(backend).shares,
        "factors": lambda backend: beliefs.in_frames_of(backend).factors,
        "alike": lambda backend: beliefs.in_frames_of(backend).alike,
        "arms": lambda backend: bandit.explain(segment=2, backend=backend).arms,
        "profile": profile.to_frame,
        "evaluation": evaluation.to_frame,
        "trace": trace.to_frame,
        "comparison": comparison.to_frame,
        "records": lambda backend: from_records([{"level": "a", "effect": 0.5}], backend),
        "parquet": lambda backend: from_parquet(to_parquet(table), backend),
    }


@pytest.mark.parametrize("backend", KINDS)
def test_every_frame_comes_in_the_library_that_is_wanted(made, backend):
    for name, make in made.items():
        frame, usual = make(backend), make(None)
        assert isinstance(frame, KINDS[backend]), name
        columns = frame.column_names if backend == "pyarrow" else list(frame.columns)
        assert columns == list(usual.columns), name
        assert len(frame) == len(usual), name


def test_libraries_that_are_not_there_are_named(made, monkeypatch):
    with pytest.raises(ValueError, match="backend is 'spark'; allowed are 'pandas', 'polars', 'pyarrow'"):
        made["arms"]("spark")
    monkeypatch.setattr(frames, "find_spec", lambda name: None if name == "polars" else importlib.util.find_spec(name))
    with pytest.raises(ModuleNotFoundError, match="pip install polars"):
        made["history"]("polars")
    assert isinstance(made["effects"](None), pd.DataFrame)
