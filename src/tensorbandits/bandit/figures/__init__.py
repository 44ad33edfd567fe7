"""Figures of what a bandit believes and of what it did, one function for each kind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from tensorbandits.bandit.figures.believed import arms, effects, factors, features, interactions
from tensorbandits.bandit.figures.heat import estimate, uncertainty
from tensorbandits.bandit.figures.parts import View
from tensorbandits.bandit.figures.past import reward, traffic
from tensorbandits.base.checks import check_installed, nearest
from tensorbandits.base.drawing import write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["KINDS", "View", "draw"]

KINDS: dict[str, Callable[..., Figure]] = {
    one.__name__: one
    for one in (effects, interactions, features, factors, arms, estimate, uncertainty, traffic, reward)
}


def draw(view: View, kind: str, path: str | PathLike[str] | None, options: Mapping[str, Any]) -> Figure:
    """Return the figure of a kind, with options of that kind, and write it if a path is given."""
    if kind not in KINDS:
        hint = nearest(kind, list(KINDS)) or "name one of them"
        raise ValueError(f"kind is {kind!r}; the kinds are {list(KINDS)}: {hint}")
    known = list(inspect.signature(KINDS[kind]).parameters)[1:]
    if wrong := [name for name in options if name not in known]:
        hint = nearest(wrong[0], known) or "leave it out"
        raise TypeError(f"the figure {kind!r} has no option {wrong[0]!r}, but {known}: {hint}")
    check_installed("drawing a figure", "matplotlib")
    figure = KINDS[kind](view, **options)
    if path is not None:
        write(figure, path)
    return figure
