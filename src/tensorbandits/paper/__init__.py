"""The paper's evaluation: one file per figure or table, its settings as data and its analysis as a function."""

from tensorbandits.paper.evaluation import ITEMS, reproduce

__all__ = ["ITEMS", "reproduce"]
