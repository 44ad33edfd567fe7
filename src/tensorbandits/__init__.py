"""Low-rank tensor bandits: find the best combination online, from each reward, by asking and telling.

>>> import tensorbandits as tb
>>> policy = tb.TensorThompsonSampling((4, 5, 6), rank=2, seed=0)
>>> cell = policy.ask()
>>> policy.tell(cell, 1.0)
"""

import logging
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from tensorbandits import data, theory
from tensorbandits.advice import recommend
from tensorbandits.amounts import RevenueLedger, SignedRevenueLedger
from tensorbandits.bandit.bandit import Bandit
from tensorbandits.bandit.decision import Decision
from tensorbandits.base.errors import TensorbanditsError
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
from tensorbandits.space import Space
from tensorbandits.tensor import Allowed, Tucker, complete

if TYPE_CHECKING:
    from tensorbandits.client import AsyncClient, Client

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
    "Decision",
    "Evaluation",
    "Ledger",
    "MatricizedESTR",
    "PaperWorld",
    "Policy",
    "PolicyRecipe",
    "Query",
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


def __getattr__(name: str) -> Any:
    """Import the client when it is first used, as most who use the library do without it."""
    if name in ("AsyncClient", "Client"):
        from tensorbandits import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
