"""The contract of every policy: ask for a cell, tell its reward, in any order, at any time, or never.

A policy sees integer cells only. A subclass says what it can do in ``traits`` and implements ``_choose``, ``_best`` and
``_estimate``, each of a :class:`~tensorbandits.policies.query.Query`. Deciding changes nothing: what a decision changes
(a count of pulls, a phase) is in ``_issue``, which is also called where another process has decided. When the policy
learns apart from deciding, it implements ``_learn``, which publishes something finished that ``_choose`` reads, and
``_ready``. When it holds more than the ledger: ``_observe``, ``_correct``, ``_fade``, ``_grow``, ``_state`` and
``_restore``. When a batch can share work: ``_choose_many``. Each argument of its constructor is kept under its own
name, which is how a saved policy is made again. These hooks are called when nobody else changes the policy, and must
not call its public methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorbandits.base.checks import (
    Cell,
    Rank,
    check_cell,
    check_cells,
    check_clicks,
    check_context,
    check_count,
    check_level,
    check_reward,
    check_rewards,
    check_seed,
    check_shape,
    check_weight,
    is_sequence,
)
from tensorbandits.ledger import Ledger
from tensorbandits.policies import saving
from tensorbandits.policies.changes import Correction, Fade, Issued, Reward, RewardSums, apply
from tensorbandits.policies.query import Choice, Notes, Query, check_rows
from tensorbandits.policies.traits import Traits
from tensorbandits.policies.turns import Turns
from tensorbandits.tensor.allowed import Allowed
from tensorbandits.tensor.tucker import Floats

if TYPE_CHECKING:
    from tensorbandits.policies.diagnosis import Diagnosis

_SALT = 0x7E9507
_NOTES = 20_000  # decisions whose notes are kept for those who tell a cell and a reward alone


class Policy(ABC):
    """What every policy can do; many threads may use one at the same time.

    Parameters
    ----------
    shape : the number of levels of each mode.
    context : positions of the modes that are given rather than decided; ``()`` means none.
    seed : an int, a ``SeedSequence``, or ``None`` for fresh randomness.

    >>> from tensorbandits import VectorizedUCB
    >>> policy = VectorizedUCB((2, 3), context=(0,))
    >>> cell = policy.ask((1,))  # the whole cell; its first level is the context's
    >>> policy.tell(cell, 0.5)
    >>> policy.tell_many([(0, 0), (0, 2)], [0.1, 0.9])
    >>> policy.best((0,)), policy.best((0,), allowed={1: [0, 1]}), policy.estimate([(0, 2), (1, 0)]).tolist()
    ((0, 2), (0, 1), [0.9, 0.5])
    >>> again = Policy.from_state_dict(policy.state_dict())
    >>> again.ask((1,)) == policy.ask((1,))
    True
    """

    traits: ClassVar[Traits] = Traits()  # what it can do
    state_version: ClassVar[int] = 1  # of what `_state` returns
    older_versions: ClassVar[tuple[int, ...]] = ()  # that `_upgraded` reads
    _kinds: ClassVar[dict[str, type[Policy]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if former := [name for name in ("learns", "forgets", "takes_logs", "deterministic") if name in vars(cls)]:
            raise TypeError(
                f"{cls.__name__} sets {former}; what a policy can do is said in one place: traits = "
                "Traits(learns_apart=.., fades=.., learns_from_logs=.., deterministic=..)"
            )
        Policy._kinds[saving.kind_name(cls)] = cls

    def __init__(
        self,
        shape: Sequence[int],
        *,
        context: Sequence[int] = (),
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        self.shape = check_shape(shape)
        if not self.traits.contextual and (not is_sequence(context) or len(context)):
            raise ValueError(
                f"{type(self).__name__} takes no context, but context={context!r} was given; use "
                "TensorThompsonSampling, TensorEnsembleSampling, TensorEpochGreedy or VectorizedUCB, which do"
            )
        self.context = check_context(context, self.shape)
        self.decided: Cell = tuple(j for j in range(len(self.shape)) if j not in self.context)
        self._ledger = Ledger(self.shape)
        self._pseudo = Ledger(self.shape)  # what of it nobody ever earned
        self.reseed(seed)
        self._turns = Turns(self.traits.learns_apart)
        self._notes = Notes(_NOTES)
        self._standing: Allowed | None = None

    def reseed(self, seed: int | np.random.SeedSequence | None = None) -> None:
        """Draw from other random numbers from now on; ``None`` is for fresh ones."""
        # An int is salted: a policy and a world that are given the same seed must not draw the same numbers.
        checked = check_seed(seed)
        self._rng = np.random.default_rng([checked, _SALT] if isinstance(checked, int) else checked)

    def own_again(self) -> None:
        """Be of use in a child process, where no thread of the parent goes on: with locks and randomness of its own."""
        self._turns = Turns(self.traits.learns_apart)
        self.reseed(None)

    # What a subclass implements.

    def _learn(self) -> None:  # noqa: B027  (most policies have nothing to learn apart from deciding)
        """Bring what is believed up to date with the ledger, and publish it for ``_choose``."""

    def _ready(self) -> bool:
        """Say whether there is something to decide from; else an ask waits for what another thread learns."""
        return True

    @abstractmethod
    def _choose(self, query: Query, rng: np.random.Generator) -> Choice | Cell:
        """Return the decision: a cell, or a choice with a note for ``_issue`` and ``_observe``.

        Nothing is changed but the generator.
        """

    def _issue(self, cell: Cell, note: Any) -> None:  # noqa: B027
        """Take note that a decision was made, perhaps by another process; ``note`` is ``None`` if it is not known."""

    def _choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        """Return the decisions, each issued; a policy that can share work does so here."""
        choices = []
        for query in queries:
            self._learn()
            choices.append(Choice.of(self._choose(query, self._rng)))
            self._issue(*choices[-1])
        return choices

    def _observe(self, cell: Cell, count: float, total: float, note: Any) -> None:  # noqa: B027
        """Take note of ``count`` rewards of a cell that add up to ``total``; the ledger already holds them.

        ``note`` is that of the decision, if one is known.
        """

    def _observe_ledger(self, ledger: Ledger) -> None:
        """Take note of many rewards that are added up; the ledger already holds them."""
        for entry in ledger:
            self._observe(entry.cell, entry.rounds, entry.total, None)

    def _correct(self, cell: Cell, old: float, new: float, note: Any, weight: float) -> None:  # noqa: B027
        """Take note that one reward of a cell is another one; the ledger already holds it instead.

        ``note`` is that of the decision, if one is known; ``weight`` is what fading has left of the reward.
        """

    def _check_rewards(  # noqa: B027
        self, counts: Floats, totals: Floats, squares: Floats, *, faded: bool = False
    ) -> None:
        """Refuse sums of rewards and of their squares, all (n,), that no rewards here can have."""

    def _check_note(self, note: Any) -> None:  # noqa: B027
        """Refuse a note that no decision of this policy has."""

    def _fade(self, factor: float) -> None:  # noqa: B027
        """Let what was observed so far count less; the ledger did so already."""

    def _grow(self, shape: Cell) -> None:  # noqa: B027
        """Follow modes that gain levels; ``self.shape`` and the ledger's are still the old ones."""

    def _describe(self, mode: int, features: Floats | None) -> None:  # noqa: B027
        """Go on with other features of the levels of a mode, (p_j, numbers), or with none."""

    def _state(self) -> dict[str, Any]:
        """Return what the policy holds beyond its ledger and generator: arrays, numbers, strings, nested dicts."""
        return {}

    def _restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Take back what ``_state`` returned, and refuse what it cannot have returned."""

    @classmethod
    def _upgraded(cls, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the whole state of an older version as this one would have written it."""
        return state

    @abstractmethod
    def _best(self, query: Query) -> Cell:
        """Return the cell believed best, without changing anything."""

    @abstractmethod
    def _estimate(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the believed mean rewards of valid cells (n, d), shape (n,), without changing anything."""

    # What a caller uses.

    @classmethod
    def refusal(cls, shape: Sequence[int], rank: Rank = "auto") -> str | None:
        """Return why no such policy can be made for a problem of this size, or ``None``."""
        return None

    @property
    def ledger(self) -> Ledger:
        """All rewards told; to be read only. To add another ledger to it, use :meth:`tell_ledger`."""
        return self._ledger

    @ledger.setter
    def ledger(self, ledger: Any) -> None:
        raise AttributeError(
            "the ledger of a policy cannot be replaced, since what it has learned would no longer fit; add rewards "
            "with tell_ledger, or make a new policy and give it the ledger with tell_ledger"
        )

    def query(self, levels: Sequence[int] = (), allowed: Any = None) -> Query:
        """Return a request, checked, for :meth:`decide`: the levels of the context modes and what may be chosen."""
        return Query.of(levels, allowed, self.shape, self.context, self._standing)

    def learn(self) -> None:
        """Bring what is believed up to date with all rewards told; others may ask, decide and tell meanwhile.

        A policy that does not learn apart from deciding prepares its next decision, so that it takes no longer than
        others do.
        """
        with self._turns.still():
            self._learn()

    def propose(self, query: Query, rng: np.random.Generator | None = None) -> Choice:
        """Return a decision from what was learned last, and change nothing but the generator.

        Whoever carries it out says so with :meth:`issued`, in this process and in all others that follow it.

        >>> from tensorbandits import VectorizedUCB
        >>> policy, rng = VectorizedUCB((2, 3)), np.random.default_rng(0)
        >>> policy.propose(policy.query(), rng).cell, policy.propose(policy.query(), rng).cell
        ((0, 0), (0, 0))
        >>> policy.issued((0, 0))
        >>> policy.propose(policy.query(), rng).cell
        (0, 1)
        """
        with self._turns.gate:
            return _proposed(self, query, rng or self._rng)

    def issued(self, cell: Sequence[int], note: Any = None) -> None:
        """Take note that a decision was made, also if another process made it; ``note`` is what came with it.

        A policy that is told of all decisions and rewards in the order of a log goes through the same phases as the one
        that decided.
        """
        self._turns.submit(apply, self, Issued(self._check_decision(cell, note), note))

    def _check_decision(self, cell: Sequence[int], note: Any) -> Cell:
        """Return the cell of a decision, valid; refuse a note that no decision of this policy has."""
        if note is not None:
            self._check_note(note)
        return check_cell(cell, self.shape)

    def decide(self, query: Query, rng: np.random.Generator | None = None) -> Choice:
        """Return a decision from what was learned last, issued; waits for no other thread that learns.

        A note that comes with it is told again with the reward.
        """
        with self._turns.gate:
            choice = _proposed(self, query, rng or self._rng)
            self._issue(*choice)
            return choice

    def ask(self, levels: Sequence[int] = (), allowed: Any = None) -> Cell:
        """Return the cell to play, a tuple of ints, given the levels of the context modes in order.

        ``allowed`` maps modes to the levels that may be chosen, or to masks; or is an :class:`~tensorbandits.Allowed`.
        Learns first, unless another thread does so at the moment: then it decides from what was learned before.
        """
        query = self.query(levels, allowed)
        if self.traits.learns_apart and self._turns.begin(wait=not self._ready()):
            try:
                self._learn()
            finally:
                self._turns.end()
        choice = self.decide(query)
        if choice.note is not None and self.traits.rewards_need_notes:
            self._turns.submit(self._notes.put, *choice)
        return choice.cell

    def tell(self, cell: Sequence[int], reward: float, note: Any = None, *, trials: int | None = None) -> None:
        """Learn the reward of a cell: any time later, in any order, or never.

        ``note`` is that of the decision, for those who used :meth:`decide`. With ``trials``, the cell was tried so many
        times, and ``reward`` is how many of them were a success: that many rewards of 1, the others 0.

        >>> from tensorbandits import VectorizedUCB
        >>> policy = VectorizedUCB((2, 3))
        >>> policy.tell((0, 1), 3, trials=1000)
        >>> policy.ledger.rounds, policy.estimate([(0, 1)]).tolist()
        (1000.0, [0.003])
        """
        valid = self._check_decision(cell, note)
        if trials is None:
            told = Reward(valid, self.check_reward(reward), None, note)
        else:
            (clicks,), (count,) = counted = check_clicks([reward], [trials], 1)
            self._check_rewards(counted[1], counted[0], counted[0])
            told = Reward(valid, float(clicks), float(count), note)
        self._turns.submit(apply, self, told)

    def correct(
        self,
        cell: Sequence[int],
        old: float,
        new: float,
        note: Any = None,
        *,
        weight: float = 1.0,
        known: bool = False,
    ) -> None:
        """Replace a reward that was told by another, as if that had been told; ``note`` is that of the decision.

        What was decided and learned from the old one meanwhile stays, and is learned over. A reward that was never
        told is refused, as far as the sums of its cell tell, also while another thread learns: nobody waits for that.
        Of one that has faded, ``weight`` is what it still counts for: the product of all factors since. Whoever keeps
        a list of what was told says that it is ``known``: it is refused only if the cell has no such weight then.

        >>> from tensorbandits import VectorizedUCB
        >>> policy = VectorizedUCB((2, 3))
        >>> policy.tell((0, 1), 0.0)
        >>> policy.correct((0, 1), 0.0, 1.0)
        >>> policy.ledger.rounds, policy.estimate([(0, 1)]).tolist()
        (1.0, [1.0])
        """
        valid, before = self._check_decision(cell, note), check_reward(old, "the old reward")
        change = Correction(valid, before, self.check_reward(new), note, check_weight(weight), known)
        self._turns.submit(apply, self, change, check=lambda waiting: change.check(self._ledger, waiting))

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a number, if it can be one here; else say what can."""
        return check_reward(reward)

    def ask_many(self, levels: ArrayLike | int, allowed: Any = None) -> list[Cell]:
        """Return one cell per row of context levels (n, number of context modes), as asking one by one would.

        A policy without context takes the number of cells wanted. What is ``allowed`` holds for all of them.
        """
        rows = check_rows(levels, self.context, self.shape)
        with self._turns.still():
            choices = self._choose_many([self.query(row, allowed) for row in rows])
            for choice in choices if self.traits.rewards_need_notes else ():
                if choice.note is not None:
                    self._notes.put(*choice)
        return [choice.cell for choice in choices]

    def tell_many(self, cells: ArrayLike, rewards: ArrayLike, *, trials: ArrayLike | None = None) -> None:
        """Learn many rewards, as telling one by one would; one invalid row refuses them all.

        With ``trials``, one number per cell, ``rewards`` are numbers of successes.
        """
        valid = check_cells(cells, self.shape)
        if trials is not None:
            columns: tuple[Floats, ...] = check_clicks(rewards, trials, len(valid))
            self._check_rewards(columns[1], columns[0], columns[0])
        else:
            columns = (check_rewards(rewards, len(valid)),)
            self._check_rewards(np.ones(len(valid)), columns[0], columns[0] ** 2)
        told = zip(valid.tolist(), *(column.tolist() for column in columns), strict=True)
        self._turns.submit(apply, self, *(Reward(tuple(cell), *numbers) for cell, *numbers in told))

    def tell_ledger(self, ledger: Ledger, *, pseudo: bool = False) -> None:
        """Learn many rewards that are added up already: those of a log, or of another process.

        ``pseudo`` says that nobody earned them, such as those of another level as which a new one starts: they are
        learned alike, and told apart where rewards are counted.

        >>> from tensorbandits import VectorizedUCB
        >>> policy, log = VectorizedUCB((2, 3)), Ledger((2, 3))
        >>> log.add([(0, 2), (1, 1), (0, 2)], [3.0, 1.0, 5.0])
        >>> policy.tell_ledger(log)
        >>> policy.best(), policy.ledger.rounds
        ((0, 2), 3.0)
        """
        if not isinstance(ledger, Ledger):
            raise TypeError(f"{ledger!r} is no Ledger; add rewards to one of shape {self.shape}, and give that")
        if ledger.shape != self.shape:
            raise ValueError(f"the ledger has shape {ledger.shape}, the policy {self.shape}; both must be the same")
        self.check_ledger(ledger)
        self._turns.submit(apply, self, RewardSums(ledger.copy(), pseudo))

    def replace_ledger(self, ledger: Ledger) -> None:
        """Learn from other sums in the place of all rewards told so far; what is believed goes on from there.

        For those who add rewards up elsewhere, again and again: some come, some are corrected. Policies that sample
        take them, as they keep nothing of rewards but the ledger.
        """
        raise ValueError(
            f"{type(self).__name__} keeps more of its rewards than their sums, which cannot be replaced; use a policy "
            "that samples, such as TensorThompsonSampling, or tell it all rewards once with tell_ledger"
        )

    @property
    def pseudo(self) -> Ledger:
        """How many of the rewards in the ledger nobody earned, by cell; to be read only. Its sums say nothing."""
        return self._pseudo

    def earned_counts(self) -> NDArray[np.float64]:
        """Return how many rewards of each cell of the ledger were earned, shape (n,): all but pseudo-rewards."""
        counts = self._ledger.counts.copy()
        if len(self._pseudo):
            places = {tuple(cell): at for at, cell in enumerate(self._ledger.cells.tolist())}
            for cell, count in zip(self._pseudo.cells.tolist(), self._pseudo.counts.tolist(), strict=True):
                at = places[tuple(cell)]
                counts[at] = max(counts[at] - count, 0.0)
        return counts

    def check_ledger(self, ledger: Ledger) -> None:
        """Refuse a ledger whose sums no rewards here can have, or say too little; its shape may be another."""
        if not (ledger.kind and self._ledger.kind):
            self._check_rewards(ledger.counts, ledger.totals, ledger.squares, faded=ledger.log_faded < 0.0)
        self._ledger.taken(ledger)

    def copy_ledger(self) -> Ledger:
        """Return a copy of all rewards told, as they are at one moment, whatever other threads tell meanwhile."""
        with self._turns.still():
            return self._ledger.copy()

    def fade(self, factor: float) -> None:
        """Let all rewards so far count ``factor`` times what they did; see :meth:`Ledger.fade`."""
        self._turns.submit(apply, self, Fade(check_weight(factor, "factor")))

    def keeps(self) -> str | None:
        """Return why a past that fades would not be forgotten, or ``None``."""
        if self.traits.fades:
            return None
        why = "plans its exploration once" if self.traits.plans else "does not say how what it observed fades (traits)"
        name = type(self).__name__
        return f"{name} {why}; use TensorThompsonSampling, or another policy that follows means that change"

    def grow(self, mode: int, count: int = 1) -> None:
        """Give a mode more levels, after those that it has; what was learned of the others stays.

        Waits for another thread that learns: when it returns, the new levels can be asked for and told.

        >>> from tensorbandits import VectorizedUCB
        >>> policy = VectorizedUCB((2, 3))
        >>> policy.grow(1); policy.shape
        (2, 4)
        """
        at, more = check_level(mode, len(self.shape), "mode"), check_count(count, "count")
        with self._turns.frozen():
            shape = tuple(size + more * (j == at) for j, size in enumerate(self.shape))
            if (why := self.refusal_to_grow(shape)) is not None:
                raise ValueError(why)
            self._grow(shape)
            self._ledger.grow(at, more)
            self._pseudo.grow(at, more)
            self.shape = shape
            if self._standing is not None:
                self._standing = Allowed.of(Allowed(forbidden=self._standing.forbidden), shape)

    def refusal_to_grow(self, shape: Sequence[int]) -> str | None:
        """Return why this policy cannot follow its modes to a larger shape, or ``None``; changes and copies nothing.

        >>> from tensorbandits import TensorElimination, VectorizedUCB
        >>> VectorizedUCB((2, 3)).refusal_to_grow((2, 4)) is None
        True
        >>> TensorElimination((2, 3), 1, horizon=100).refusal_to_grow((2, 4))[:60]
        'TensorElimination cannot follow a mode that gains levels; ma'
        """
        sizes = check_shape(shape)
        if len(sizes) != len(self.shape) or any(new < old for new, old in zip(sizes, self.shape, strict=True)):
            return f"the policy has shape {self.shape}; modes neither lose levels nor are added: {sizes} is not larger"
        if not self.traits.grows:
            return (
                f"{type(self).__name__} cannot follow a mode that gains levels; make a new policy of shape {sizes} and "
                "give it what was learned with tell_ledger"
            )
        return self.refusal(sizes, getattr(self, "rank", "auto"))

    def describe(self, mode: int, features: ArrayLike | None) -> None:
        """Go on with other features of the levels of a mode, or with none; waits for another thread that learns.

        With as many numbers as before, what was learned of them stays; with another number of them, it is learned anew
        from the rewards.

        >>> from tensorbandits import TensorThompsonSampling
        >>> policy = TensorThompsonSampling((2, 3), features={1: [[1.0], [0.0], [-1.0]]}, seed=0)
        >>> policy.grow(1); policy.describe(1, [[1.0], [0.0], [-1.0], [0.9]])
        >>> policy.features["1"].shape
        (4, 1)
        """
        from tensorbandits.model.features import check_described

        at = check_level(mode, len(self.shape), "mode")
        if not self.traits.featured:
            raise ValueError(f"{type(self).__name__} takes no features; use TensorThompsonSampling, which does")
        with self._turns.frozen():
            self._describe(at, None if features is None else check_described(features, at, self.shape[at]))

    def forbid(self, *cells: Mapping[int, int]) -> None:
        """Never choose these combinations again: partial cells, each a mapping from modes to levels.

        >>> from tensorbandits import VectorizedUCB
        >>> policy = VectorizedUCB((2, 3))
        >>> policy.forbid({0: 0, 1: 0}, {1: 1})  # one combination, and one level altogether
        >>> policy.ask(), policy.forbidden
        ((0, 2), [{0: 0, 1: 0}, {1: 1}])
        """
        with self._turns.gate:
            standing = self._standing or Allowed()
            self._standing = Allowed.of(standing.with_forbidden(cells), self.shape)

    def permit(self, *cells: Mapping[int, int]) -> None:
        """Take back what :meth:`forbid` was told, in the same words."""
        with self._turns.gate:
            if self._standing is not None:
                self._standing = Allowed.of(self._standing.without_forbidden(cells), self.shape)

    @property
    def forbidden(self) -> list[dict[int, int]]:
        """The combinations that are never chosen."""
        return [] if self._standing is None else self._standing.forbidden

    def best(self, levels: Sequence[int] = (), allowed: Any = None) -> Cell:
        """Return the allowed cell believed best given the context levels; explores nothing and changes nothing."""
        with self._turns.still():  # no mode gains levels between the request and its answer
            return self._best(self.query(levels, allowed))

    def estimate(self, cells: ArrayLike) -> NDArray[np.float64]:
        """Return the believed mean rewards of cells (n, d), shape (n,)."""
        valid = check_cells(cells, self.shape)
        with self._turns.still():
            return self._estimate(valid)

    def interval(self, cells: ArrayLike, level: float = 0.9) -> NDArray[np.float64]:
        """Return bounds between which the mean rewards of cells (n, d) are believed to be, shape (n, 2).

        ``level`` is the probability that a mean lies between its two bounds. Policies that sample have them.
        """
        raise ValueError(
            f"{type(self).__name__} has no posterior to take intervals from; use TensorThompsonSampling, "
            "TensorEnsembleSampling or ApproximateThompsonSampling, which do"
        )

    def diagnose(self, *, max_rank: int = 3, seed: int = 0) -> Diagnosis:
        """Return how well structures, main effects and raw cell means predict this policy's own rewards when held out.

        It takes some seconds, changes nothing, and says which structure the rewards speak for.
        """
        from tensorbandits.policies.diagnosis import diagnose

        kind, playing = getattr(self, "reward", None), self.playing()
        return diagnose(self.copy_ledger(), kind, max_rank=max_rank, seed=seed, playing=playing)

    def playing(self) -> dict[str, float]:
        """Return how often each structure decides, by name, where several do and their predictions were judged."""
        return {}

    # Saving and making again.

    def __repr__(self) -> str:
        given = {name: getattr(self, name, None) for name in ("rank", "context", "horizon")}
        said = {name: value for name, value in given.items() if value is not None and np.size(value)}
        words = "".join(f", {name}={value!r}" for name, value in said.items())
        return f"{type(self).__name__}({self.shape}{words}; {self._ledger.rounds:g} rewards)"

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on exactly from here: arrays, numbers, strings and nested dicts."""
        with self._turns.frozen():
            return saving.state_of(self)

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> Self:
        """Return the policy that :meth:`state_dict` described; it goes on identically."""
        return saving.policy_of(cls, Policy._kinds, state)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy to a file, whole or not at all; :meth:`load` makes it again, and it goes on identically.

        Arguments that are code, such as an oracle of your own, are left out: they are given again to ``load``.
        """
        saving.write(path, self.state_dict())

    @classmethod
    def load(cls, path: str | PathLike[str], **code: Any) -> Self:
        """Return the policy that :meth:`save` wrote; ``code`` are the arguments that could not be written.

        Nothing of the file is executed. The class of the policy must be known: import its module first.
        """
        return cls.from_state_dict(saving.read(path, code))


def _proposed(policy: Policy, query: Query, rng: np.random.Generator) -> Choice:
    """Return a decision of a policy, for one who holds its gate."""
    if not isinstance(query, Query):
        raise TypeError(f"{query!r} is no Query; give what policy.query(levels, allowed) returns")
    if query.shape != policy.shape:  # a mode has gained levels since
        query = policy.query(query.levels, query.given)
    return Choice.of(policy._choose(query, rng))
