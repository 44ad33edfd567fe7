"""Low-rank tensor bandits: find the best combination online, from each reward, by asking and telling.

>>> import tensorbandits as tb
>>> policy = tb.TensorThompsonSampling((4, 5, 6), rank=2, seed=0)
>>> cell = policy.ask()
>>> policy.tell(cell, 1.0)
"""

import logging
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from tensorbandits import data, theory
from tensorbandits.advice import recommend
from tensorbandits.amounts import RevenueLedger, SignedRevenueLedger
from tensorbandits.bandit.bandit import Bandit
from tensorbandits.bandit.decision import Decision
from tensorbandits.base.errors import TensorbanditsError
from tensorbandits.decider.decider import Decider
from tensorbandits.evaluate import Evaluation, evaluate
from tensorbandits.ledger import Ledger
from tensorbandits.policies import (
    ApproximateThompsonSampling,
    Choice,
    MatricizedESTR,
    Policy,
    Query,
    TensorElimination,
    TensorEnsembleSampling,
    TensorEpochGreedy,
    TensorThompsonSampling,
    Traits,
    Tuning,
    VectorizedUCB,
)
from tensorbandits.policies.registry import register
from tensorbandits.sim import (
    Audience,
    Comparison,
    PaperWorld,
    PolicyRecipe,
    TensorEnvironment,
    Trace,
    Where,
    compare,
    paper_tensor,
    plot_regret,
    simulate,
)
from tensorbandits.space import Numeric, Space
from tensorbandits.tensor import Allowed, Tucker, complete

if TYPE_CHECKING:
    from tensorbandits.client import AsyncClient, Client
    from tensorbandits.lake.sinks import FunctionSink, HttpSink, ParquetSink, RedisSink

__version__ = version("tensorbandits")

logging.getLogger(__name__).addHandler(logging.NullHandler())  # whoever wants to read it adds another one

__all__ = [
    "Allowed",
    "ApproximateThompsonSampling",
    "AsyncClient",
    "Audience",
    "Bandit",
    "Choice",
    "Client",
    "Comparison",
    "Decider",
    "Decision",
    "Evaluation",
    "FunctionSink",
    "HttpSink",
    "Ledger",
    "MatricizedESTR",
    "Numeric",
    "PaperWorld",
    "ParquetSink",
    "Policy",
    "PolicyRecipe",
    "Query",
    "RedisSink",
    "RevenueLedger",
    "SignedRevenueLedger",
    "Space",
    "TensorElimination",
    "TensorEnsembleSampling",
    "TensorEnvironment",
    "TensorEpochGreedy",
    "TensorThompsonSampling",
    "TensorbanditsError",
    "Trace",
    "Traits",
    "Tucker",
    "Tuning",
    "VectorizedUCB",
    "Where",
    "compare",
    "complete",
    "data",
    "evaluate",
    "paper_tensor",
    "plot_regret",
    "recommend",
    "register",
    "simulate",
    "theory",
]


_LATER = dict.fromkeys(("AsyncClient", "Client"), "client")
_LATER |= dict.fromkeys(("FunctionSink", "HttpSink", "ParquetSink", "RedisSink"), "lake.sinks")


def __getattr__(name: str) -> Any:
    """Import the client and the sinks when they are first used, as most who use the library do without them."""
    if name in _LATER:
        return getattr(import_module(f"tensorbandits.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
