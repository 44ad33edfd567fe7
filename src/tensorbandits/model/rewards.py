"""Which rewards there are, and the likelihood of each."""

from __future__ import annotations

from typing import Literal, get_args

from tensorbandits.model.clicks import Clicks
from tensorbandits.model.counts import Counts
from tensorbandits.model.likelihood import Gaussian, Likelihood
from tensorbandits.model.revenue import revenue_of
from tensorbandits.model.uneven import Uneven

Noise = float | Literal["varying"] | None
Reward = Literal["gaussian", "bernoulli", "binomial", "count", "revenue", "revenue-signed"]


def likelihood_of(reward: str, *, noise: Noise = None) -> Likelihood:
    """Return the likelihood of a kind of rewards; ``noise`` is the standard deviation of Gaussian ones, if known.

    ``"bernoulli"`` rewards are 0 or 1, ``"binomial"`` ones clicks out of trials, ``"count"`` ones whole numbers. Of
    revenue there are two, of whether there is an amount and of how large it is: see ``model/revenue.py``.

    >>> likelihood_of("gaussian", noise=0.5).variance, likelihood_of("count").learned
    (0.25, False)
    """
    if not isinstance(reward, str) or reward not in get_args(Reward):
        raise ValueError(f"reward is {reward!r}; allowed are {', '.join(get_args(Reward))}")
    if (revenue := revenue_of(reward, noise)) is not None:
        raise ValueError(
            f"reward is {revenue.name!r}, which is learned as two tensors; use TensorThompsonSampling, which does so"
        )
    if reward == "gaussian":
        if noise == "varying":
            return Uneven(1.0, learned=True)
        return Gaussian(1.0 if noise is None else noise**2, learned=noise is None)
    if noise is not None:
        raise ValueError(f"noise is {noise!r}, but {reward} rewards have none of their own; leave it out")
    return Counts() if reward == "count" else Clicks()
