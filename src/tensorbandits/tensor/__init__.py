"""Low-rank tensors: Tucker algebra, completion from a ledger, rank choice, best cell. Knows no bandits."""

from tensorbandits.tensor.allowed import Allowed
from tensorbandits.tensor.completion import Completion, choose_rank, complete, second_moment
from tensorbandits.tensor.tucker import Tucker, best_cell

__all__ = ["Allowed", "Completion", "Tucker", "best_cell", "choose_rank", "complete", "second_moment"]
