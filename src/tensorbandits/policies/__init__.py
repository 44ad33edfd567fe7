"""The policies, which decide which combination to try next: one file per algorithm; ``base`` states the contract."""

from tensorbandits.policies.approximate import ApproximateThompsonSampling
from tensorbandits.policies.base import Policy
from tensorbandits.policies.elimination import TensorElimination
from tensorbandits.policies.ensemble import TensorEnsembleSampling
from tensorbandits.policies.epoch_greedy import TensorEpochGreedy
from tensorbandits.policies.estr import MatricizedESTR
from tensorbandits.policies.query import Choice, Query
from tensorbandits.policies.thompson import TensorThompsonSampling
from tensorbandits.policies.traits import Traits
from tensorbandits.policies.tuning import Tuning
from tensorbandits.policies.ucb import VectorizedUCB

__all__ = [
    "ApproximateThompsonSampling",
    "Choice",
    "MatricizedESTR",
    "Policy",
    "Query",
    "TensorElimination",
    "TensorEnsembleSampling",
    "TensorEpochGreedy",
    "TensorThompsonSampling",
    "Traits",
    "Tuning",
    "VectorizedUCB",
]
