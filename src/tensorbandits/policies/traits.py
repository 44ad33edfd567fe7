"""What a policy can do, as data: whether it takes context, follows new levels, forgets, samples, and so on.

Every policy class says it in its attribute ``traits``. Nobody asks which class a policy is of.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What a policy can do; what is not said is not promised.

    Parameters
    ----------
    contextual : modes may be given rather than decided.
    samples : decisions are made from draws of the mean tensor: there are ``fresh_draws``, ``samples``, ``shares``,
        ``propensity`` and ``interval``.
    models : these draws are low-rank models with a reward kind: there are ``explain`` and ``still`` as well.
    grows : it follows a mode that gains levels.
    featured : features of levels say something of their rewards: there is ``describe``.
    fades : it follows means that change, while rewards of the past fade.
    plans : it plans its exploration once, for a number of rounds that is given beforehand.
    learns_from_logs : it learns from rewards of cells that it did not choose.
    learns_apart : learning is apart from deciding, which reads what was learned last while another thread learns.
    deterministic : a decision follows from what was told and issued, without chance.
    rewards_need_notes : a reward is told with the note of its decision, which ``ask`` keeps for those who do not.

    >>> from tensorbandits import TensorElimination, VectorizedUCB
    >>> VectorizedUCB.traits.deterministic, VectorizedUCB.traits.samples
    (True, False)
    >>> TensorElimination.traits.contextual, TensorElimination.traits.grows
    (False, False)
    """

    contextual: bool = True
    samples: bool = False
    models: bool = False
    grows: bool = False
    featured: bool = False
    fades: bool = False
    plans: bool = False
    learns_from_logs: bool = True
    learns_apart: bool = False
    deterministic: bool = False
    rewards_need_notes: bool = True
