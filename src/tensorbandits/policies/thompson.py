"""Tensor Thompson sampling: exact conditionals, a Gibbs sweep or two per reward, nothing to tune."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from tensorbandits.checks import (
    Cell,
    Rank,
    check_array,
    check_count,
    check_noise,
    check_positive,
    check_shape,
)
from tensorbandits.ledger import Ledger
from tensorbandits.policies.approximate import ModelSampling, sampling_rank
from tensorbandits.tensor.gibbs import Chain, Units
from tensorbandits.tensor.likelihood import Likelihood
from tensorbandits.tensor.rewards import Reward, likelihood_of
from tensorbandits.tensor.sweep import Model
from tensorbandits.tensor.tucker import Tucker

_AUTO_DECAY = 0.6
_ONE_SWEEP = 500  # with more entries in all factors, one sweep per reward
_AT_ONCE = 2**20  # random numbers drawn at once
_RIVAL_SWEEPS = 60  # after which a rival chain is compared
_RIVAL_GROWTH = 1.1  # a new rival starts after so much more data


class GibbsOracle:
    """Draws from the posterior by a Gibbs chain that goes on from decision to decision, and rivals of it.

    Row by row a chain cannot leave a mode of the posterior that play has made steep, however poor its fit. So from
    time to time a rival starts from the prior, sweeps once per new reward, and after some sweeps takes the chain's
    place with probability min(1, ratio of their likelihoods).
    """

    def __init__(
        self, shape: Cell, rank: Cell, *, likelihood: Likelihood, decay: float, sweeps: int | None, max_sweeps: int
    ) -> None:
        self.likelihood = likelihood  # of which each chain has its own draw
        self.decay = decay
        self._sweeps, self.max_sweeps = sweeps, max_sweeps
        self._size(shape, rank)
        self.chain: Chain | None = None
        self.seen = 0.0  # rewards that had been received at the last sweep
        self.rival: Chain | None = None
        self.rival_sweeps = 0  # so far
        self.rival_due = float(self._numbers)  # rewards at which the next one starts; fewer settle nothing

    def _size(self, shape: Cell, rank: Cell) -> None:
        self.shape, self.rank = shape, rank
        entries = sum(p * r for p, r in zip(shape, rank, strict=True))
        self.sweeps = self._sweeps or (1 if entries > _ONE_SWEEP else 2)
        self._numbers = entries + 1 + math.prod(rank)
        self._at_once = max(1, _AT_ONCE // self._numbers)  # sweeps

    def __call__(self, ledger: Ledger, rng: np.random.Generator) -> Tucker:
        """Sweep ``sweeps`` times per new reward, up to ``max_sweeps`` times, and return the draw."""
        return self.advance(ledger, rng).tensor()

    def advance(self, ledger: Ledger, rng: np.random.Generator) -> Model:
        """Do the same, and return the model itself, which the next sweep will change."""
        units = self.likelihood.units(ledger)
        received = ledger.received
        sweeps = int(min(self.sweeps * max(received - self.seen, 1), self.max_sweeps)) if received else 0
        if self.chain is None or not self.seen:
            self.chain = self._start(units, rng)
        while sweeps:
            some = min(sweeps, self._at_once)
            self.chain.sweep(ledger, units, rng, sweeps=some, learn_noise=self.likelihood.learned)
            sweeps -= some
        if received > self.seen and received >= self.rival_due:
            self._challenge(ledger, units, rng, int(min(max(received - self.seen, 1), self.max_sweeps)))
        self.seen = received
        return self.chain.model

    def _challenge(self, ledger: Ledger, units: Units, rng: np.random.Generator, sweeps: int) -> None:
        """Let the rival catch up by some sweeps, and when it has had enough of them decide which chain goes on."""
        assert self.chain is not None
        if self.rival is None:
            self.rival, self.rival_sweeps = self._start(units, rng), 0
        sweeps = min(sweeps, _RIVAL_SWEEPS - self.rival_sweeps, self._at_once)
        self.rival.sweep(ledger, units, rng, sweeps=sweeps, learn_noise=self.likelihood.learned)
        self.rival_sweeps += sweeps
        if self.rival_sweeps < _RIVAL_SWEEPS:
            return
        gain = self.rival.log_likelihood(ledger) - self.chain.log_likelihood(ledger)
        if gain > -rng.standard_exponential():
            self.chain = self.rival
        self.rival, self.rival_due = None, _RIVAL_GROWTH * ledger.rounds + (ledger.received - ledger.rounds)

    def _start(self, units: Units, rng: np.random.Generator) -> Chain:
        """Return a chain drawn from the prior."""
        return Chain.from_prior(self.shape, self.rank, units, rng, likelihood=self.likelihood, decay=self.decay)

    def more(self, ledger: Ledger, rng: np.random.Generator, count: int) -> Iterator[Model]:
        """Yield ``count`` further draws given the same ledger, as calling that often would, sharing work."""
        if not self.seen:
            yield from (self.advance(ledger, rng) for _ in range(count))
            return
        assert self.chain is not None
        units = self.likelihood.units(ledger)
        learn = self.likelihood.learned
        per_draw = min(self.sweeps, self.max_sweeps)
        while count:
            some = min(count, max(1, self._at_once // per_draw))
            lines = self.chain.sweep(ledger, units, rng, sweeps=some * per_draw, learn_noise=learn, keep=some)
            for line in lines:
                yield self.chain.model.with_numbers(line)
            count -= some

    def model(self) -> Model | None:
        """Return the model of the last draw."""
        return self.chain.model if self.chain else None

    def grow(self, shape: Cell, rank: Cell, rng: np.random.Generator) -> None:
        """Draw the rows of new levels from the prior; where the rank is another one, all starts from the prior."""
        if rank != self.rank:
            self.chain, self.seen = None, 0.0
        elif self.chain is not None:
            self.chain.grow(shape, rng)
        self.rival, self.rival_sweeps = None, 0
        self._size(shape, rank)

    def state(self) -> dict[str, Any]:
        """Return the draws of the chain and of its rival, and how far they are."""
        rival = {"sweeps": self.rival_sweeps, "due": self.rival_due, "chain": self.rival.state() if self.rival else {}}
        return {"seen": self.seen, "chain": self.chain.state() if self.chain else {}, "rival": rival}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` returned."""
        rival = state["rival"]
        self.seen, self.rival_due = (
            check_array(value, name, ()).item() for name, value in (("seen", state["seen"]), ("due", rival["due"]))
        )
        self.rival_sweeps = check_count(rival["sweeps"], "the rival's sweeps", 0)
        self.chain, self.rival = (
            Chain.from_state(chain, self.shape, self.rank, self.likelihood) if chain else None
            for chain in (state["chain"], rival["chain"])
        )


class TensorThompsonSampling(ModelSampling):
    """Draw a low-rank tensor from its posterior given all rewards, and play its best cell.

    The prior is scale-free (it is stated in units of the rewards seen), the noise is learned unless given, rewards
    need not be centred, no horizon is needed. After a batch of rewards the sampler catches up. Rewards that are clicks
    or counts are drawn for as such: then the tensor holds the log-odds of rates, or the logarithms of means.

    Parameters
    ----------
    shape, context, seed : as for every policy.
    rank : an int (a cap, lowered for smaller modes), a tuple, or ``"auto"``: a generous rank that the prior prunes.
    reward : what a reward is. ``"gaussian"``: any number; ``"bernoulli"``: 0 or 1; ``"binomial"``: clicks out of
        trials; ``"count"``: a whole number, that may vary far more than a Poisson count.
    noise : the standard deviation of a single Gaussian reward about its mean, when it is known; ``None`` learns it.
    decay : prior size of each column of a factor relative to the one before it; 1 makes all columns alike. ``None``
        is 1 for a given rank and 0.6 for ``"auto"``, where it is what prunes the columns that are not needed.
    sweeps : Gibbs sweeps per new reward; more of them mix better and cost more. ``None`` is 2, or 1 when the factors
        have more than 500 entries: then each of them changes little, and the second sweep bought nothing.
    max_sweeps : at most this many sweeps for one decision, however many rewards came since the last.
    draws : how many posterior draws ``best``, ``estimate`` and ``propensity`` average over.

    >>> policy = TensorThompsonSampling((3, 4, 5), rank=2, context=(0,), seed=0)
    >>> cell = policy.ask((1,))
    >>> policy.tell(cell, 0.7)
    >>> cell[0], len(policy.best((2,))), policy.estimate([cell]).shape
    (1, 3, (1,))
    """

    def __init__(
        self,
        shape: Sequence[int],
        rank: Rank = "auto",
        *,
        context: Sequence[int] = (),
        reward: Reward = "gaussian",
        noise: float | None = None,
        decay: float | None = None,
        sweeps: int | None = None,
        max_sweeps: int = 100,
        draws: int = 64,
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        self.rank = rank
        self.reward: Reward = reward
        self.noise = check_noise(noise)
        self.decay = None if decay is None else check_positive(decay, "decay")
        if decay is not None and decay > 1:
            raise ValueError(f"decay is {decay}; it must be above 0 and at most 1 (1: all columns alike)")
        self.sweeps = None if sweeps is None else check_count(sweeps, "sweeps")
        self.max_sweeps = check_count(max_sweeps, "max_sweeps")
        sizes = check_shape(shape)
        ranks = sampling_rank(rank, sizes)
        oracle = GibbsOracle(
            sizes,
            ranks,
            likelihood=likelihood_of(reward, noise=self.noise),
            decay=self.decay or (_AUTO_DECAY if isinstance(rank, str) else 1.0),
            sweeps=self.sweeps,
            max_sweeps=self.max_sweeps,
        )
        super().__init__(sizes, oracle, context=context, draws=draws, seed=seed)

    @classmethod
    def paper(cls, shape: Sequence[int], rank: Rank, **arguments: Any) -> Self:
        """Return the policy in the paper's setting: known noise of standard deviation 1, one sweep a round.

        The paper leaves the sampling oracle of its Algorithm 4 open; this is ours with its section 4's Gaussian rows.
        """
        return cls(shape, rank, **({"noise": 1.0, "decay": 1.0, "sweeps": 1} | arguments))
