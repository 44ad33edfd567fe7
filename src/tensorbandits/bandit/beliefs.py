"""What a bandit believes, by name: effects, interactions, factors, levels that are alike, best arms, two modes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tensorbandits.amounts import RevenueLedger
from tensorbandits.base import html
from tensorbandits.base.checks import Cell, check_count, is_sequence
from tensorbandits.base.frames import Backend, check_backend, column, to_frame
from tensorbandits.ledger import Ledger
from tensorbandits.policies.approximate import ModelSampling, as_sampling
from tensorbandits.policies.base import Policy
from tensorbandits.policies.explanation import Explanation
from tensorbandits.policies.query import Query
from tensorbandits.space import Space
from tensorbandits.space.labels import Label
from tensorbandits.tensor.allowed import Allowed

Floats = NDArray[np.float64]

MOST_CONTEXTS = 100  # for which best arms are listed without naming one
_LISTED = 100_000  # arms of a context that are compared one by one
_AVERAGED = 200_000  # cells that a table of two modes looks at
_AT_ONCE = 20_000  # of them, in one call
_SCALES = {  # of effects; clicks have log-odds
    "gaussian": "reward",
    "count": "logarithm of the mean reward",
    "revenue": "log-odds of a conversion plus logarithm of its mean amount",
    "revenue-signed": "reward",
}
MISSING = "(missing)"  # what is said of levels of which features are missing
_SHOWN = 5  # rows of each kind in words


class Arms(NamedTuple):
    """Best arms, and what is believed of them: cells (n, d), and estimates with bounds (n, 3)."""

    cells: NDArray[np.int64]
    numbers: Floats
    places: list[int]  # from 1, in each context


class Beliefs:
    """What a bandit believes, as data frames; every number with the bounds between which it is, with ``probability``.

    ``scale`` is that of effects. What is on the scale of rewards is called so. Of revenue, ``rate`` and ``amount`` are
    the same of conversion rates and of amounts, whose "rewards" are rates, or mean amounts; else they are ``None``.
    ``pseudo`` are rewards that nobody earned, of levels that new ones started like: ``rewards`` counts none of them.
    """

    def __init__(
        self,
        space: Space,
        found: Explanation,
        ledger: Ledger,
        arms: Arms | None,
        probability: float,
        reward: str,
        earned: Floats | None = None,
    ) -> None:
        counts = ledger.counts if earned is None else earned
        self.modes, self.levels, self.context = space.modes, space.levels, space.context
        self._features = space.features
        self._regions = space.regions
        self.decided = tuple(mode for mode in range(len(space.modes)) if mode not in space.context)
        self.probability, self.rewards = probability, float(counts.sum())
        self.pseudo = max(ledger.rounds - self.rewards, 0.0) if earned is not None else 0.0
        self.rate: Beliefs | None
        self.amount: Beliefs | None
        self.scale = _SCALES.get(reward, "log-odds")
        self.explanation, self._arms = found, arms
        self.told = [
            np.bincount(ledger.cells[:, mode], counts, minlength=len(labels)) for mode, labels in enumerate(self.levels)
        ]
        told = dict(zip(map(tuple, ledger.cells.tolist()), counts.tolist(), strict=True)) if arms is not None else {}
        self._counts = None if arms is None else [told.get(tuple(cell), 0.0) for cell in arms.cells.tolist()]
        self.rate = self.amount = None
        self.backend: Backend | None = None  # of frames
        if found.rate is not None and found.amount is not None and isinstance(ledger, RevenueLedger):
            self.rate = Beliefs(space, found.rate, ledger.conversions, None, probability, "bernoulli")
            self.amount = Beliefs(space, found.amount, ledger.amounts, None, probability, "gaussian")
            self.amount.scale = "amount" if ledger.signed else "logarithm of the amount"

    def in_frames_of(self, backend: Backend | None) -> Self:
        """Have frames of a library from now on: ``"pandas"``, ``"polars"`` or ``"pyarrow"``; return the same."""
        for part in (self, self.rate, self.amount):
            if part is not None:
                part.backend = check_backend(backend)
        return self

    @property
    def mean(self) -> Floats:
        """The mean over all combinations, on the scale of effects, with its bounds, shape (3,)."""
        return self.explanation.mean

    @property
    def effects(self) -> Any:
        """One row per level: its main effect, and the mean reward that it has with partners that have none.

        ``own`` is the share of what is believed of it that comes from its own rewards, the rest being borrowed from the
        other levels; ``rewards`` is how many it has. Where levels have features the effect is the sum of two:
        ``by_features`` is what these say of it, as far as that was learned from all levels, ``by_itself`` the rest.
        """
        sizes = [len(labels) for labels in self.levels]
        features = self.explanation.features
        apart: dict[str, Floats] = {}
        for part, name in (("said", "by_features"), ("own", "by_itself")) if features else ():
            unknown = [np.full((size, 3), np.nan) for size in sizes]
            known = [getattr(features[j], part) if j in features else none for j, none in enumerate(unknown)]
            apart |= _bounded(name, np.vstack(known), f"{name}_")
        own = self.explanation.own or [np.full(size, np.nan) for size in sizes]
        effects, typical = (np.vstack(part) for part in (self.explanation.effects, self.explanation.typical))
        return to_frame(
            {
                "mode": [mode for mode, size in zip(self.modes, sizes, strict=True) for _ in range(size)],
                "level": column([label for labels in self.levels for label in labels]),
                **_bounded("effect", effects),
                **_bounded("reward", typical, "reward_"),
                "own": np.concatenate(own),
                "borrowed": 1.0 - np.concatenate(own),
                "rewards": np.concatenate(self.told),
                **apart,
            },
            self.backend,
        )

    @property
    def shares(self) -> Any:
        """How much of the variance between combinations is due to single modes, to two beyond them, and to the rest.

        ``modes`` is how many take part, and 0 for all that more than two have together.
        """
        parts = self.parts()
        return to_frame(
            {
                "part": [self.part(modes) for modes in parts],
                "modes": [len(modes) for modes in parts],
                **_bounded("share", np.array([self.explanation.shares[modes] for modes in parts])),
            },
            self.backend,
        )

    def parts(self) -> list[tuple[int, ...]]:
        """Return the sets of modes that shares are of: single ones, pairs, the rest; the largest of each first."""
        shares = self.explanation.shares
        found = [part for part in shares if part or len(self.modes) > 2]
        return sorted(found, key=lambda part: (len(part) or 3, -shares[part][0]))

    def part(self, modes: Sequence[int]) -> str:
        """Return the words for what some modes have together."""
        return " × ".join(self.modes[mode] for mode in modes) if modes else "more than two together"

    @property
    def features(self) -> Any:
        """One row per feature, and one for all of a mode together (``feature`` is ``""``): what they say of its levels.

        ``share`` is how much of what levels differ by a feature explains, the rest being each level's own. The shares
        of features add up to that of all; one of a feature that goes along with others may be a little below 0.
        """
        rows: list[tuple[str, str, Floats]] = []
        for mode, found in sorted(self.explanation.features.items()):
            parts = zip(self.features_of(mode), found.parts, strict=True)
            rows += [(self.modes[mode], "", found.share), *((self.modes[mode], *part) for part in parts)]
        numbers = np.array([part for _, _, part in rows]).reshape(-1, 3)
        names = {"mode": [mode for mode, _, _ in rows], "feature": [name for _, name, _ in rows]}
        return to_frame({**names, **_bounded("share", numbers)}, self.backend)

    def features_of(self, mode: int) -> list[str]:
        """The names of the parts of what features say: features, and that they are missing."""
        if self.modes[mode] in self._regions:
            return [name for name, _ in self._regions[self.modes[mode]].places]
        known = self._features.get(self.modes[mode])
        count = len(self.explanation.features[mode].parts)
        return [str(at) for at in range(count)] if known is None else [*known.names, MISSING][:count]

    @property
    def factors(self) -> Any:
        """One row per level: its coordinates among the levels of its mode, on the scale of effects.

        Levels that are near each other behave alike. ``strength`` is the share that a coordinate has of what levels
        differ by.
        """
        sizes = [len(labels) for labels in self.levels]
        rows = np.vstack(self.explanation.factors)
        strengths = np.repeat(np.array(self.explanation.strengths), sizes, axis=0)
        columns: dict[str, Any] = {
            "mode": [mode for mode, size in zip(self.modes, sizes, strict=True) for _ in range(size)],
            "level": column([label for labels in self.levels for label in labels]),
        }
        for at in range(rows.shape[1]):
            columns |= {f"factor_{at + 1}": rows[:, at], f"strength_{at + 1}": strengths[:, at]}
        return to_frame(columns, self.backend)

    @property
    def alike(self) -> Any:
        """Levels that are interchangeable, as far as is known: one row for each, with the number of its group."""
        rows = [
            (self.modes[mode], number, self.levels[mode][level])
            for mode, groups in enumerate(self.explanation.alike)
            for number, group in enumerate(groups, start=1)
            for level in group
        ]
        return to_frame(
            {
                "mode": [mode for mode, _, _ in rows],
                "group": np.array([number for _, number, _ in rows], dtype=np.int64),
                "level": column([level for _, _, level in rows]),
            },
            self.backend,
        )

    @property
    def arms(self) -> Any:
        """The best arms, of every context or of the one that was named: mean reward with bounds, and rewards so far."""
        best = self.best()
        return to_frame(
            {
                **{
                    _apart(self.modes[mode]): column([self.levels[mode][level] for level in best.cells[:, mode]])
                    for mode in (*self.context, *self.decided)
                },
                "place": best.places,
                **_bounded("estimate", best.numbers),
                "rewards": self._counts,
            },
            self.backend,
        )

    def best(self) -> Arms:
        """Return what :attr:`arms` is made of, by position of the mode and index of the level."""
        if self._arms is None:
            raise ValueError(
                f"there are more than {MOST_CONTEXTS} contexts; name one to see its best arms: "
                f"explain({self.modes[self.context[0]]}=...)"
            )
        return self._arms

    def _borrowed(self) -> str:
        return f" and {self.pseudo:,g} pseudo-rewards of levels that new ones started like" if self.pseudo > 0.5 else ""

    def __repr__(self) -> str:
        share = {self.part(modes): self.explanation.shares[modes][0] for modes in self.parts()}
        lines = [
            f"Beliefs from {self.rewards:,g} rewards{self._borrowed()}, with bounds for {100 * self.probability:.3g} %",
            f"mean over all combinations: {_words(self.mean)} ({self.scale})",
            "variance between combinations: "
            + ", ".join(f"{part} {100 * share[part]:.0f} %" for part in sorted(share, key=lambda part: -share[part])),
        ]
        for mode, found in sorted(self.explanation.features.items()):
            order = np.argsort(-found.parts[:, 0])[:_SHOWN]
            names = self.features_of(mode)
            parts = ", ".join(f"{names[at]} {100 * found.parts[at, 0]:.0f} %" for at in order)
            mean, low, high = 100 * found.share
            words = (
                f"features of {self.modes[mode]} explain {mean:.0f} % ({low:.0f} to {high:.0f} %) of what its levels"
            )
            lines.append(f"{words} differ by: {parts}")
        for mode, (name, labels) in enumerate(zip(self.modes, self.levels, strict=True)):
            typical = self.explanation.typical[mode]
            order = np.argsort(-typical[:, 0])
            shown = [*order[:2], *order[2:][-1:]]
            lines.append(f"{name}: " + ", ".join(f"{labels[at]} {_words(typical[at])}" for at in shown))
            for group in self.explanation.alike[mode][:_SHOWN]:
                listed = [str(labels[level]) for level in group[: 2 * _SHOWN]]
                lines.append(f"    alike: {', '.join(listed)}{', …' if len(group) > len(listed) else ''}")
        if self._arms is not None:
            lines.append("best arms:")
            best = [at for at, place in enumerate(self._arms.places) if place == 1 or not self.context][:_SHOWN]
            lines += [f"    {self.names()[at]}: {_words(self._arms.numbers[at])}" for at in best]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        levels = [
            [name, str(labels[at]), html.bounded(self.explanation.typical[mode][at]), self.told[mode][at]]
            for mode, (name, labels) in enumerate(zip(self.modes, self.levels, strict=True))
            for at in np.argsort(-self.explanation.typical[mode][:, 0])[:_SHOWN]
        ]
        parts = [html.table(["mode", "level", "mean reward", "rewards"], levels, most=len(levels))]
        if self._arms is not None:
            best = zip(self.names(), map(html.bounded, self._arms.numbers), strict=True)
            parts.append(html.table(["best arms", "mean reward"], best, what="arms"))
        words = [
            f"from {self.rewards:,g} rewards{self._borrowed()}, with bounds for {100 * self.probability:.3g} %; of "
            f"each mode the {_SHOWN} best levels"
        ]
        return html.block("Beliefs", *parts, words=words)

    def names(self, *, whole: bool = True) -> list[str]:
        """Return the labels of the best arms, each in one line, after those of their contexts if ``whole``."""
        if self._arms is None:
            return []
        modes = (*self.context, *self.decided) if whole else self.decided
        return [" · ".join(str(self.levels[mode][cell[mode]]) for mode in modes) for cell in self._arms.cells.tolist()]


def believed(
    space: Space, policy: ModelSampling, queries: Sequence[Query] | None, count: int, probability: float
) -> Beliefs:
    """Return what a policy that stands still believes, with so many best arms of each request."""
    wanted = check_count(count, "arms")
    places = {space.position(mode): [place for _, place in one.places] for mode, one in space.features.items()}
    for name, one in space.features.items():
        if one.numbers[:, -1].any():
            places[space.position(name)].append(slice(one.columns - 1, None))
    for name, regions in space.regions.items():
        if regions.features is not None:
            places[space.position(name)] = [place for _, place in regions.places]
    found = policy.explain(probability, places)
    arms = None if queries is None else best_arms(policy, queries, wanted, probability)
    return Beliefs(space, found, policy.ledger, arms, probability, policy.reward, policy.earned_counts())


def best_arms(policy: Policy, queries: Sequence[Query], count: int, probability: float) -> Arms:
    """Return the best allowed arms of each request, so many, with what is believed of their mean rewards."""
    cells: list[Cell] = []
    places: list[int] = []
    for query in queries:
        few = math.prod(policy.shape[mode] for mode in policy.decided) <= _LISTED
        found = _listed_arms(policy, query, count) if few else _searched_arms(policy, query, count)
        cells += found
        places += range(1, len(found) + 1)
    listed = np.array(cells, dtype=np.int64).reshape(-1, len(policy.shape))
    numbers = np.column_stack([policy.estimate(listed), policy.interval(listed, probability)])
    return Arms(listed, numbers, places)


def _listed_arms(policy: Policy, query: Query, count: int) -> list[Cell]:
    levels = [
        [given] if given >= 0 else range(size) for given, size in zip(query.fixed.tolist(), policy.shape, strict=True)
    ]
    cells = np.stack([axis.ravel() for axis in np.meshgrid(*levels, indexing="ij")], axis=1)
    found: list[Cell] = []
    for at in np.argsort(-policy.estimate(cells), kind="stable"):
        cell = tuple(cells[at].tolist())
        if query.allowed is None or query.allowed.permits(cell):
            found.append(cell)
            if len(found) == count:
                break
    return found


def _searched_arms(policy: Policy, query: Query, count: int) -> list[Cell]:
    """The best arm, then the best of the others, and so on."""
    found: list[Cell] = []
    while len(found) < count:
        others = Allowed.of(Allowed(forbidden=[dict(enumerate(cell)) for cell in found]), policy.shape, query.allowed)
        try:
            found.append(policy.best(query.levels, others))
        except ValueError:  # nothing else is allowed
            break
    return found


class LevelTable(NamedTuple):
    """What is believed of the levels of two modes: mean rewards and the widths of their bounds, both (p, q).

    NaN stands for what may not be chosen. ``others`` says in words how the other modes enter.
    """

    modes: tuple[str, str]
    labels: tuple[tuple[Label, ...], tuple[Label, ...]]
    estimate: Floats
    width: Floats | None
    others: str


def table(space: Space, policy: Policy, modes: Any, fixed: Any, probability: float | None) -> LevelTable:
    """Return what is believed of two modes, with the other modes at their ``fixed`` labels or else averaged over."""
    first, second = _two(space, modes)
    chosen = space.partial(fixed or {})
    if both := sorted(set(chosen) & {first, second}):
        raise ValueError(f"mode {space.modes[both[0]]!r} is shown and fixed at one label; leave it out of one of them")
    free = [mode for mode in range(len(space.shape)) if mode not in (first, second, *chosen)]
    kept = [_kept(space, mode) for mode in free]
    size = (len(space.levels[first]), len(space.levels[second]))
    combinations = math.prod(map(len, kept))
    used = min(combinations, max(_AVERAGED // math.prod(size), 1))
    cells = np.zeros((used, *size, len(space.shape)), dtype=np.int64)
    cells[..., first], cells[..., second] = np.arange(size[0])[:, None], np.arange(size[1])
    for mode, level in chosen.items():
        cells[..., mode] = level
    # As many as can be looked at, evenly spread over all combinations of the others.
    picked = np.unravel_index(
        np.linspace(0, combinations - 1, used).astype(np.int64), [len(one) for one in kept] or [1]
    )
    for mode, levels, at in zip(free, kept, picked, strict=False):
        cells[..., mode] = np.array(levels)[at][:, None, None]
    estimate, width = _averages(policy, cells.reshape(used, -1, len(space.shape)), probability)
    barred = _barred(space, first, second, chosen)
    shown = [np.where(barred, np.nan, values.reshape(size)) for values in (estimate, width) if values is not None]
    words = [f"{space.modes[mode]} = {space.levels[mode][level]}" for mode, level in sorted(chosen.items())]
    if free:
        names = ", ".join(space.modes[mode] for mode in free)
        part = "" if used == combinations else f" ({used:,} of {combinations:,} combinations)"
        words.append(f"averaged over {names}{part}")
    labels = (space.levels[first], space.levels[second])
    names_shown = (space.modes[first], space.modes[second])
    return LevelTable(names_shown, labels, shown[0], shown[1] if len(shown) > 1 else None, "; ".join(words))


def _two(space: Space, modes: Any) -> tuple[int, int]:
    if modes is None:
        decided = [mode for mode in range(len(space.shape)) if mode not in space.context]
        modes = [space.modes[mode] for mode in (*decided, *space.context)[:2]]
    if not is_sequence(modes) or len(modes) != 2 or modes[0] == modes[1]:
        raise ValueError(f"modes is {modes!r}; name two of {list(space.modes)}, that for the rows first")
    return space.position(modes[0]), space.position(modes[1])


def _averages(policy: Policy, cells: NDArray[np.int64], probability: float | None) -> tuple[Floats, Floats | None]:
    """Mean rewards, averaged over the first axis of cells (m, n, d), and the widths of their bounds if asked for."""
    # Many at once, as each call takes longer than a few cells do.
    blocks = np.array_split(cells, math.ceil(cells.shape[0] * cells.shape[1] / _AT_ONCE))
    if probability is None:
        added = [_added(policy.estimate(_rows(some)), some) for some in blocks]
        return np.sum(added, axis=0) / len(cells), None
    samples = as_sampling(policy)
    if samples is None:
        policy.interval(cells[0], probability)  # which says that it has none
        raise AssertionError("a policy with intervals draws samples")
    sampled = np.zeros(())
    for some in blocks:
        sampled = sampled + _added(samples.samples(_rows(some)), some) / len(cells)
    low, high = np.quantile(sampled, [0.5 - probability / 2, 0.5 + probability / 2], axis=0, method="weibull")
    return samples.typical(sampled), high - low


def _rows(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cells (m, n, d) as rows (m n, d)."""
    return cells.reshape(-1, cells.shape[-1])


def _added(values: Floats, cells: NDArray[np.int64]) -> Floats:
    """Values (.., m n) of cells (m, n, d), added up over m."""
    added: Floats = values.reshape(*values.shape[:-1], *cells.shape[:2]).sum(axis=-2)
    return added


def _kept(space: Space, mode: int) -> list[int]:
    """The levels of a mode that are not retired."""
    name = space.modes[mode]
    retired = {space.level(name, label) for label in space.retired.get(name, [])}
    return [level for level in range(space.shape[mode]) if level not in retired]


def _barred(space: Space, first: int, second: int, chosen: Mapping[int, int]) -> NDArray[np.bool_]:
    """Which pairs of levels may not be chosen, whatever the modes that are averaged over."""
    barred = np.zeros((len(space.levels[first]), len(space.levels[second])), dtype=bool)
    for rule in space.forbidden:
        rest = {mode: level for mode, level in rule.items() if mode not in (first, second)}
        if all(chosen.get(mode) == level for mode, level in rest.items()):
            barred[rule.get(first, slice(None)), rule.get(second, slice(None))] = True
    return barred


def contexts(space: Space) -> list[Cell] | None:
    """Return the levels of every context that can be given, or ``None`` if they are too many to be listed."""
    kept = [_kept(space, mode) for mode in space.context]
    return None if math.prod(map(len, kept)) > MOST_CONTEXTS else list(product(*kept))


def _bounded(name: str, numbers: Floats, prefix: str = "") -> dict[str, Floats]:
    """Columns of a number and its bounds (n, 3)."""
    return {name: numbers[:, 0], f"{prefix}low": numbers[:, 1], f"{prefix}high": numbers[:, 2]}


def _apart(mode: str) -> str:
    """The name of a mode's column, which is not that of a number's."""
    return f"{mode}_level" if mode in ("place", "estimate", "low", "high", "rewards") else mode


def _words(numbers: Floats) -> str:
    mean, low, high = numbers
    return f"{mean:.3g} ({low:.3g} to {high:.3g})"
