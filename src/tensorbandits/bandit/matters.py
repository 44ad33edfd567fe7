"""What matters: how much modes do alone and together, as far as rewards tell; the one source of all that is said of it.

Two things are known. Held-out rewards say whether combinations of levels are better or worse than their levels say
(:func:`~tensorbandits.policies.diagnosis.diagnose`): that is seldom fooled, but it sees only what is played. And the
posterior says how much of what *all* combinations differ by modes have together: before there are rewards that is what
was assumed, and where little is played it is wide. So main effects suffice only where both say so, and shares are said
only where held-out rewards show that there is anything to share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorbandits.base.checks import Cell
from tensorbandits.model.curve import Verdict
from tensorbandits.model.effects import Kind
from tensorbandits.model.enough import at_first, rounded
from tensorbandits.model.scores import structures
from tensorbandits.policies.diagnosis import Diagnosis

MOST_ALONE = 1 / 3  # what modes may have together, at most, where main effects are said to suffice
_LEVEL = 0.9  # of the bounds
_NONE = 1e-6  # share that a model without interactions has, but for rounding
_AGAIN = 4.0  # times as many rewards halve what is not known


@dataclass(frozen=True)
class Matters:
    """How much modes matter alone and together.

    ``verdict`` is ``"too few"`` rewards to tell anything, ``"nothing"`` to learn, ``"alone"`` where main effects
    suffice, ``"together"`` where combinations of levels are surely better or worse than their levels say, or ``"open"``
    where only main effects are known so far. ``together`` is the share of what combinations differ by that is due to
    modes acting together, with bounds for 90 %; ``None`` where nothing is known, or the policy has no model. ``needed``
    is about how many rewards it takes to know more, 0 where nothing lacks. ``words`` says it.
    """

    verdict: Verdict
    together: tuple[float, float, float] | None
    needed: float
    words: str

    @property
    def known(self) -> bool:
        """Whether anything is known of what matters."""
        return self.verdict not in ("too few", "nothing")

    @classmethod
    def of(cls, found: Diagnosis, together: NDArray[np.float64] | None, rewards: float) -> Matters:
        """Return it for a diagnosis, and for the share with bounds (3,) that a policy believes in, if it does."""
        verdict, needed = found.verdict, found.needed
        if verdict in ("too few", "nothing"):
            return cls(verdict, None, needed, found.words)
        share = None if together is None else (float(together[0]), float(together[1]), float(together[2]))
        if verdict == "alone" and share is not None and share[2] > MOST_ALONE:
            verdict, needed = "open", _AGAIN * rewards
        if verdict != "together" and share is not None and share[2] < _NONE:
            share = None  # a model that has no interactions does not tell whether there are any
        return cls(verdict, share, needed, f"{_said(verdict, share, needed, found)}{_played(found)}")


def too_few(shape: Cell, kind: Kind, rewards: float, least: int) -> Matters:
    """Return what is known of so few rewards that none could be held out."""
    have = f"{rewards:,.0f} reward{'' if rewards == 1 else 's'} so far, and nothing is said of fewer than {least}"
    needed = at_first(shape, len(structures(shape)) + 2)
    what = {"gaussian": "rewards", "bernoulli": "clicks"}.get(kind, "rewards other than 0")
    more = f" Come back with about {rounded(needed)} {what}." if math.isfinite(needed) else ""
    return Matters("too few", None, max(needed, float(least)), f"Too few to tell: {have}.{more}")


def _played(found: Diagnosis) -> str:
    most = max(found.playing, key=lambda name: found.playing[name], default=None)
    if most is None:
        return ""
    return f" The policy weighs structures by itself, and plays {most} in {found.playing[most]:.0%} of its decisions."


def _said(verdict: Verdict, share: tuple[float, float, float] | None, needed: float, found: Diagnosis) -> str:
    part = "" if share is None else f"{share[0]:.0%} ({_LEVEL:.0%}: {share[1]:.0%} to {share[2]:.0%})"
    learned = found.learned.get("main effects", 0.0)
    if verdict == "alone":
        words = "Main effects suffice: what levels do by themselves predicts rewards as well as combinations do"
        return (
            f"{words}, and what modes do together beyond that is {part} of what combinations differ by."
            if part
            else f"{words}."
        )
    if verdict == "together":
        words = f"Modes act together: what levels do by themselves is {max(learned, 0.0):.0%} of what can be predicted"
        if share is not None and share[2] < _NONE:
            return f"{words}; the model of this bandit has main effects only, and cannot learn the rest."
        return (
            f"{words}; of what all combinations differ by, {part} is due to modes acting together."
            if part
            else f"{words}."
        )
    words = "Main effects are known, but whether modes act together beyond that cannot be told yet"
    words += f": of what combinations differ by it may be {share[1]:.0%} to {share[2]:.0%}" if share is not None else ""
    return f"{words}. Come back with about {rounded(needed)} rewards; until then nothing need be set."
