"""The contract of every policy: ask for a cell, tell its reward, in any order, at any time, or never.

A policy sees integer cells only. A subclass implements ``_choose``, ``_best`` and ``_estimate``, each of a
:class:`~tensorbandits.policies.query.Query`. When it learns apart from deciding, it sets ``learns`` and implements
``_learn``, which publishes something finished that ``_choose`` reads, and ``_ready``. When it holds more than the
ledger: ``_observe``, ``_correct``, ``_fade``, ``_grow``, ``_state`` and ``_restore``. When a batch can share work:
``_choose_many``. Each argument of its constructor is kept under its own name, which is how a saved policy is made
again. These hooks are called when nobody else changes the policy, and must not call its public methods.
"""

from __future__ import annotations

import copy
import inspect
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
    check_levels,
    check_probability,
    check_reward,
    check_rewards,
    check_seed,
    check_shape,
    check_weight,
    is_sequence,
)
from tensorbandits.ledger import Ledger
from tensorbandits.policies import saving
from tensorbandits.policies.query import Choice, Notes, Query
from tensorbandits.policies.turns import Turns
from tensorbandits.tensor.allowed import Allowed

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

    learns: ClassVar[bool] = False  # whether learning is apart from deciding
    forgets: ClassVar[bool] = True  # whether it follows means that change, while the past fades
    takes_logs: ClassVar[bool] = True  # whether it learns from rewards of cells that it did not choose
    deterministic: ClassVar[bool] = False  # whether a decision follows from what was told and asked, without chance
    state_version: ClassVar[int] = 1  # of what `_state` returns
    older_versions: ClassVar[tuple[int, ...]] = ()  # that `_upgraded` reads
    _kinds: ClassVar[dict[str, type[Policy]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Policy._kinds[saving.kind_name(cls)] = cls

    def __init__(
        self,
        shape: Sequence[int],
        *,
        context: Sequence[int] = (),
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        self.shape = check_shape(shape)
        self.context = check_context(context, self.shape)
        self.decided: Cell = tuple(j for j in range(len(self.shape)) if j not in self.context)
        self._ledger = Ledger(self.shape)
        self.reseed(seed)
        self._turns = Turns(self.learns)
        self._notes = Notes(_NOTES)
        self._standing: Allowed | None = None
        self._free = np.full(len(self.shape), -1)

    def reseed(self, seed: int | np.random.SeedSequence | None = None) -> None:
        """Draw from other random numbers from now on; ``None`` is for fresh ones."""
        # An int is salted: a policy and a world that are given the same seed must not draw the same numbers.
        checked = check_seed(seed)
        self._rng = np.random.default_rng([checked, _SALT] if isinstance(checked, int) else checked)

    # What a subclass implements.

    def _learn(self) -> None:  # noqa: B027  (most policies have nothing to learn apart from deciding)
        """Bring what is believed up to date with the ledger, and publish it."""

    def _ready(self) -> bool:
        """Say whether there is something to decide from; else an ask waits for what another thread learns."""
        return True

    @abstractmethod
    def _choose(self, query: Query, rng: np.random.Generator) -> Choice | Cell:
        """Return the decision: a cell, or a choice if its note shall be told again with the reward."""

    def _choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        """Return the decisions; a policy that can share work does so here."""
        choices = []
        for query in queries:
            self._learn()
            choices.append(_as_choice(self._choose(query, self._rng)))
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

    def _check_reward(self, reward: float) -> None:  # noqa: B027
        """Refuse a finite number that cannot be a reward here."""

    def _check_rewards(  # noqa: B027
        self,
        counts: NDArray[np.float64],
        totals: NDArray[np.float64],
        squares: NDArray[np.float64],
        *,
        faded: bool = False,
    ) -> None:
        """Refuse sums of rewards and of their squares, all (n,), that no rewards here can have."""

    def _check_note(self, note: Any) -> None:  # noqa: B027
        """Refuse a note that no decision of this policy has."""

    def _fade(self, factor: float) -> None:  # noqa: B027
        """Let what was observed so far count less; the ledger did so already."""

    def _grow(self, shape: Cell) -> None:
        """Follow modes that gain levels; ``self.shape`` and the ledger's are still the old ones."""
        raise ValueError(
            f"{type(self).__name__} cannot follow a mode that gains levels; make a new policy of shape {shape} and "
            "give it what was learned with tell_ledger"
        )

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

    def _interval(self, cells: NDArray[np.int64], level: float) -> NDArray[np.float64]:
        """Return believed bounds (n, 2) of the mean rewards of valid cells, without changing anything."""
        raise ValueError(
            f"{type(self).__name__} has no posterior to take intervals from; use TensorThompsonSampling, "
            "TensorEnsembleSampling or ApproximateThompsonSampling, which do"
        )

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
        shape = self.shape
        valid = check_levels(levels, self.context, shape)
        fixed = self._free
        if valid:
            fixed = fixed.copy()
            fixed[list(self.context)] = valid
        standing = self._standing
        if standing is not None and standing.shape != shape:  # another thread gives a mode more levels just now
            standing = Allowed.of(standing, shape)
        if allowed is not None or standing is not None:
            return Query(valid, fixed, Allowed.of(allowed, shape, standing), shape, allowed)
        return Query(valid, fixed, None, shape)

    def learn(self) -> None:
        """Bring what is believed up to date with all rewards told; others may ask, decide and tell meanwhile."""
        if self.learns:
            with self._turns.still():
                self._learn()

    def decide(self, query: Query, rng: np.random.Generator | None = None) -> Choice:
        """Return a decision from what was learned last, in microseconds, whatever another thread learns meanwhile.

        A note that comes with it is told again with the reward.
        """
        if not isinstance(query, Query):
            raise TypeError(f"{query!r} is no Query; give what policy.query(levels, allowed) returns")
        with self._turns.gate:
            if query.shape != self.shape:  # a mode has gained levels since
                query = self.query(query.levels, query.given)
            return _as_choice(self._choose(query, rng or self._rng))

    def ask(self, levels: Sequence[int] = (), allowed: Any = None) -> Cell:
        """Return the cell to play, a tuple of ints, given the levels of the context modes in order.

        ``allowed`` maps modes to the levels that may be chosen, or to masks; or is an :class:`~tensorbandits.Allowed`.
        Learns first, unless another thread does so at the moment: then it decides from what was learned before.
        """
        choice = self.choose(self.query(levels, allowed))
        if choice.note is not None:
            self._turns.submit(self._notes.put, choice.cell, choice.note)
        return choice.cell

    def choose(self, query: Query) -> Choice:
        """Return what :meth:`ask` would, for those who keep the note that comes with it and tell it again."""
        if self.learns and self._turns.begin(wait=not self._ready()):
            try:
                self._learn()
            finally:
                self._turns.end()
        return self.decide(query)

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
        if note is not None:
            self._check_note(note)
        valid = check_cell(cell, self.shape)
        if trials is not None:
            (clicks,), (count,) = check_clicks([reward], [trials], 1)
            self._turns.submit(self._take_trials, valid, float(clicks), float(count), note)
            return
        self._turns.submit(self._take, valid, self.check_reward(reward), note)

    def correct(self, cell: Sequence[int], old: float, new: float, note: Any = None, *, weight: float = 1.0) -> None:
        """Replace a reward that was told by another, as if that had been told; ``note`` is that of the decision.

        What was decided and learned from the old one meanwhile stays, and is learned over. A reward that was never
        told is refused, as far as the sums of its cell tell. Of one that has faded, ``weight`` is what it still counts
        for: the product of all factors since.

        >>> from tensorbandits import VectorizedUCB
        >>> policy = VectorizedUCB((2, 3))
        >>> policy.tell((0, 1), 0.0)
        >>> policy.correct((0, 1), 0.0, 1.0)
        >>> policy.ledger.rounds, policy.estimate([(0, 1)]).tolist()
        (1.0, [1.0])
        """
        if note is not None:
            self._check_note(note)
        valid, before, after = check_cell(cell, self.shape), check_reward(old, "the old reward"), check_reward(new)
        self._check_reward(after)
        with self._turns.frozen():  # all that was told before is taken in then
            self._ledger.replace(valid, before, after, weight)
            self._correct(valid, before, after, note, weight)

    def check_reward(self, reward: Any) -> float:
        """Return a reward as a number, if it can be one here; else say what can."""
        value = check_reward(reward)
        self._check_reward(value)
        return value

    def ask_many(self, levels: ArrayLike | int, allowed: Any = None) -> list[Cell]:
        """Return one cell per row of context levels (n, number of context modes), as asking one by one would.

        A policy without context takes the number of cells wanted. What is ``allowed`` holds for all of them.
        """
        rows = self._check_many(levels)
        with self._turns.still():
            choices = self._choose_many([self.query(row, allowed) for row in rows])
            for choice in choices:
                if choice.note is not None:
                    self._notes.put(*choice)
        return [choice.cell for choice in choices]

    def tell_many(self, cells: ArrayLike, rewards: ArrayLike, *, trials: ArrayLike | None = None) -> None:
        """Learn many rewards, as telling one by one would; one invalid row refuses them all.

        With ``trials``, one number per cell, ``rewards`` are numbers of successes.
        """
        valid = check_cells(cells, self.shape)
        if trials is not None:
            self._turns.submit(self._take_many_trials, valid, *check_clicks(rewards, trials, len(valid)))
            return
        values = check_rewards(rewards, len(valid))
        self._check_rewards(np.ones(len(values)), values, values**2)
        self._turns.submit(self._take_many, valid, values)

    def tell_ledger(self, ledger: Ledger) -> None:
        """Learn many rewards that are added up already: those of a log, or of another process.

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
        self._turns.submit(self._take_ledger, ledger.copy())

    def check_ledger(self, ledger: Ledger) -> None:
        """Refuse a ledger whose sums no rewards here can have; its shape may be another."""
        self._check_rewards(ledger.counts, ledger.totals, ledger.squares, faded=ledger.log_faded < 0.0)

    def copy_ledger(self) -> Ledger:
        """Return a copy of all rewards told, as they are at one moment, whatever other threads tell meanwhile."""
        with self._turns.still():
            return self._ledger.copy()

    def fade(self, factor: float) -> None:
        """Let all rewards so far count ``factor`` times what they did; see :meth:`Ledger.fade`."""
        self._turns.submit(self._fade_all, check_weight(factor, "factor"))

    def keeps(self) -> str | None:
        """Return why a past that fades would not be forgotten, or ``None``."""
        kind = type(self)
        holds_more = kind._observe is not Policy._observe or kind._observe_ledger is not Policy._observe_ledger
        if kind.forgets and (kind._fade is not Policy._fade or not holds_more):
            return None
        why = "plans its exploration once" if not kind.forgets else "does not say how what it observed fades (_fade)"
        return f"{kind.__name__} {why}; use TensorThompsonSampling, or another policy that follows means that change"

    def grow(self, mode: int, count: int = 1) -> None:
        """Give a mode more levels, after those that it has; what was learned of the others stays.

        >>> from tensorbandits import VectorizedUCB
        >>> policy = VectorizedUCB((2, 3))
        >>> policy.grow(1); policy.shape
        (2, 4)
        """
        at, more = check_level(mode, len(self.shape), "mode"), check_count(count, "count")
        with self._turns.frozen():
            self._grow_to(at, more)

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

        ``level`` is the probability that a mean lies between its two bounds.
        """
        share, valid = check_probability(level, "level"), check_cells(cells, self.shape)
        with self._turns.still():
            return self._interval(valid, share)

    def diagnose(self, *, max_rank: int = 3, seed: int = 0) -> Diagnosis:
        """Return how well structures, main effects and raw cell means predict this policy's own rewards when held out.

        It takes some seconds, changes nothing, and says which structure the rewards speak for.
        """
        from tensorbandits.policies.diagnosis import diagnose

        return diagnose(self.copy_ledger(), getattr(self, "reward", None), max_rank=max_rank, seed=seed)

    def _check_many(self, levels: Any) -> list[Cell]:
        if isinstance(levels, (int, np.integer)) and not isinstance(levels, bool):
            if self.context:
                raise ValueError(
                    f"{levels} is a number; this policy has context modes {self.context}: "
                    f"give an array of shape (n, {len(self.context)}), one row of levels per cell wanted"
                )
            if levels < 0:
                raise ValueError(f"cannot ask for {levels} cells; ask for 0 or more")
            return [()] * int(levels)
        if not is_sequence(levels):
            raise TypeError(
                f"levels is {levels!r}; give one row of context levels per cell wanted, or a number of cells"
            )
        return [check_levels(row, self.context, self.shape) for row in levels]

    # Changes, each made while nobody else reads or changes the policy.

    def _take(self, cell: Cell, reward: float, note: Any) -> None:
        self._ledger.record(cell, reward)
        self._observe(cell, 1.0, reward, self._notes.take(cell) if note is None else note)

    def _take_many(self, cells: NDArray[np.int64], rewards: NDArray[np.float64]) -> None:
        for cell, reward in zip(cells.tolist(), rewards.tolist(), strict=True):
            self._take(tuple(cell), reward, None)

    def _take_trials(self, cell: Cell, clicks: float, trials: float, note: Any) -> None:
        self._ledger.record_trials(cell, clicks, trials)
        self._observe(cell, trials, clicks, self._notes.take(cell) if note is None else note)

    def _take_many_trials(
        self, cells: NDArray[np.int64], clicks: NDArray[np.float64], trials: NDArray[np.float64]
    ) -> None:
        for cell, ones, count in zip(cells.tolist(), clicks.tolist(), trials.tolist(), strict=True):
            self._take_trials(tuple(cell), ones, count, None)

    def _take_ledger(self, ledger: Ledger) -> None:
        for mode, (size, given) in enumerate(zip(self.shape, ledger.shape, strict=True)):
            if size > given:  # a mode has gained levels since it was told
                ledger.grow(mode, size - given)
        self._ledger.merge(ledger)
        self._observe_ledger(ledger)

    def _fade_all(self, factor: float) -> None:
        self._ledger.fade(factor)
        self._fade(factor)

    def _grow_to(self, mode: int, count: int) -> None:
        shape = tuple(size + count * (j == mode) for j, size in enumerate(self.shape))
        if (why := self.refusal(shape, getattr(self, "rank", "auto"))) is not None:
            raise ValueError(why)
        self._grow(check_shape(shape))
        self._ledger.grow(mode, count)
        self.shape = shape
        if self._standing is not None:
            self._standing = Allowed.of(Allowed(forbidden=self._standing.forbidden), shape)

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

    def _arguments(self) -> dict[str, Any]:
        names = [name for name in inspect.signature(type(self).__init__).parameters if name not in ("self", "seed")]
        if missing := [name for name in names if not hasattr(self, name)]:
            raise TypeError(
                f"{type(self).__name__} does not keep its arguments {missing} under their names, so that it could not "
                "be made again; set self.<name> = <name> for each, and name each argument by itself"
            )
        return {name: copy.deepcopy(getattr(self, name)) for name in names}

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


def _as_choice(chosen: Choice | Cell) -> Choice:
    return chosen if isinstance(chosen, Choice) else Choice(chosen)


def refuse_context(policy: str, context: Sequence[int]) -> None:
    """Raise the error of a policy that cannot take context."""
    if not is_sequence(context) or len(context):
        raise ValueError(
            f"{policy} takes no context, but context={context!r} was given; use TensorThompsonSampling, "
            "TensorEnsembleSampling, TensorEpochGreedy or VectorizedUCB, which do"
        )
