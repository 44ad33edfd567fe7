"""Measure what policies do otherwise than the paper's words, on 30 worlds each, and print the numbers as a table.

    python -m docs.measure_departures             # all rows, ten minutes or so on one core
    python -m docs.measure_departures passes      # only the rows whose name contains a word

Worlds are the paper's tensors (order 3, rank 2, noise 1, p = 15 and w = 0.5 unless said otherwise) of the seeds 0 to
29, each with rewards and a policy of the same seed. A number after +- is the standard error over the 30.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from unittest.mock import patch

import numpy as np
from docs.measure_deviations import explored, main, relative, row_in
from threadpoolctl import threadpool_limits

import tensorbandits as tb
from tensorbandits import theory
from tensorbandits.model.likelihood import Units
from tensorbandits.model.solve import row_equations, solve_spd
from tensorbandits.policies.lengths import ExplorationLength
from tensorbandits.tensor.completion import complete
from tests.plain.sweep import core_equations

ROWS: dict[str, Callable[[], str]] = {}
row = row_in(ROWS)
SEEDS = 30
SHAPE = (15, 15, 15)


class Played:
    """Thirty runs of a policy: final regrets, time, and the policies and the cells that were played."""

    def __init__(
        self,
        make: Callable[[int], tb.Policy],
        n: int,
        world: Callable[[int], np.ndarray] = lambda seed: tb.paper_tensor(15, 0.5, seed=seed),
    ) -> None:
        start = time.process_time()
        self.policies = [make(seed) for seed in range(SEEDS)]
        traces = [
            tb.simulate(policy, tb.TensorEnvironment(world(seed), noise=1.0, seed=seed), n)
            for seed, policy in enumerate(self.policies)
        ]
        self.milliseconds = 1e3 * (time.process_time() - start) / (SEEDS * n)
        self.regret = np.array([trace.regret[-1] for trace in traces])
        self.cells = np.array([trace.cells for trace in traces])

    def __str__(self) -> str:
        return f"{stated(self.regret)}, worst {self.regret.max():,.0f}"


def stated(values: np.ndarray | list[float], form: str = ",.0f") -> str:
    """A mean and its standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):{form}} +- {error:{form}}"


def less(one: Played, other: Played) -> str:
    """The difference of two policies on the same worlds."""
    return f"difference {stated(one.regret - other.regret)}"


# ---------------------------------------------------------------------------------- epoch-greedy, completion


@row("epoch-greedy: start of a completion")
def start_of_completion() -> str:
    n, parts = 2000, []
    for name, paper in (("paper's values", True), ("our defaults", False)):
        make = tb.TensorEpochGreedy.paper if paper else tb.TensorEpochGreedy
        anew, warm = (Played(lambda s, make=make, a=a: make(SHAPE, 2, anew=a, seed=s), n) for a in (True, False))
        parts.append(
            f"{name}: {anew} from the spectra ({anew.milliseconds:.2f} ms a round), {warm} from the last factors "
            f"({warm.milliseconds:.2f} ms); {less(warm, anew)}"
        )
        if paper:  # the uniform rounds of both, and so all data, are the same
            s_1 = anew.policies[0]._s_1  # type: ignore[attr-defined]
            other = (anew.cells[:, s_1::2] != warm.cells[:, s_1::2]).any(axis=2).mean()
            parts[-1] += f"; {100 * other:.0f} % of greedy rounds play another cell"
    return f"n = {n:,}. " + ". ".join(parts)


@row("completion: tolerance")
def tolerance() -> str:
    found: dict[str, list[tuple[float, float, bool]]] = {}
    for seed in range(SEEDS):
        mean, ledger = explored(15, 0.5, 2000, seed)
        fits = {"a share of 1e-6 (ours)": complete(ledger, 2)}
        norm = float(np.linalg.norm(fits["a share of 1e-6 (ours)"].core))
        for epsilon in (1e-1, 1e-3, 1e-6, 1e-9):
            fits[f"{epsilon:g}"] = complete(ledger, 2, tolerance=epsilon / norm, max_iterations=1000)
        best = fits["1e-09"].best()
        for name, fit in fits.items():
            found.setdefault(name, []).append((fit.info.iterations, relative(fit.full(), mean), fit.best() == best))
    parts = []
    for name, rows in found.items():
        steps, errors, same = np.array(rows, dtype=float).T
        parts.append(
            f"{name}: {steps.mean():.1f} iterations, relative error {stated(errors, '.3f')}, the best cell of 1e-9 in "
            f"{same.sum():.0f} of {SEEDS}"
        )
    return "T = 2,000 uniform rewards, core of norm about 50. Increment at most " + "; ".join(parts)


# ------------------------------------------------------------------------------------------- ensembles


@row("ensemble: passes")
def passes() -> str:
    n, parts, runs = 2000, [], {}
    for sweeps in (1, 3, 10, 50):
        runs[sweeps] = Played(lambda s, k=sweeps: tb.TensorEnsembleSampling.paper(SHAPE, 2, sweeps=k, seed=s), n)
        parts.append(f"{sweeps}: {runs[sweeps]} ({runs[sweeps].milliseconds:.2f} ms a round), {moved(runs[sweeps])}")
    return (
        f"n = {n:,}, paper's values, regret by passes. " + "; ".join(parts) + f". 3 less 50: {less(runs[3], runs[50])}"
    )


def moved(played: Played) -> str:
    """By how much a further pass over the same rewards moves a model's tensor, as a share of its norm."""
    shares = []
    for policy in played.policies[:10]:
        oracle, ledger = policy.oracle, policy.ledger  # type: ignore[attr-defined]
        for index in list(oracle.members)[:20]:
            model = oracle.update(index, ledger, np.random.default_rng(index))
            before = model.tensor().full()
            member, oracle.sweeps = oracle.members[index], 1
            oracle._size(oracle.shape, oracle.rank)
            oracle._fit(model, member.prior, ledger, np.sqrt(0.1) * member.perturbation, Units(0.0, 1.0))
            shares.append(relative(model.tensor().full(), before))
            oracle.sweeps = policy.sweeps  # type: ignore[attr-defined]
            oracle._size(oracle.shape, oracle.rank)
    return f"a further pass moves a model by {np.median(shares):.1g} of its norm (median)"


@row("ensemble: variance of the prior")
def prior_variance() -> str:
    n = 2000
    one, spread = (
        Played(lambda s, v=v: tb.TensorEnsembleSampling.paper(SHAPE, 2, prior_variance=v, seed=s), n)
        for v in (1.0, None)
    )
    return f"n = {n:,}, otherwise the paper's values: {one} with 1, {spread} with 1/p; {less(spread, one)}"


@row("ensemble: factors of the same pass")
def newest_factors() -> str:
    def fit(seed: int, newest: bool, steps: int) -> float:
        mean, ledger = explored(15, 0.5, 3000, seed)
        rng = np.random.default_rng(seed)
        start = [U / np.linalg.norm(U, axis=0) for U in (rng.standard_normal((15, 2)) for _ in range(3))]
        core, factors = np.ones((2, 2, 2)), list(start)
        data = ledger.cells, ledger.counts, ledger.totals
        for _ in range(steps):
            held = factors if newest else list(factors)
            for k in range(3):
                A, b = row_equations(core, held, k, *data)
                factors[k] = solve_spd(A + np.eye(2), b + start[k])
            A, b = core_equations(factors, *data)
            core = solve_spd(A[1:, 1:] + 0.01 * np.eye(8), b[1:] + 0.01).reshape(2, 2, 2)
        return relative(tb.Tucker(core, tuple(factors)).full(), mean)

    parts = []
    for steps in (3, 10, 30, 100):
        ours, theirs = ([fit(seed, newest, steps) for seed in range(SEEDS)] for newest in (True, False))
        parts.append(f"{steps} passes {stated(ours, '.2f')} with the newest, {stated(theirs, '.2f')} with those before")
    return "3,000 uniform rewards, relative error of the fit after " + "; ".join(parts)


# ----------------------------------------------------------------------------------------- elimination


def norms(policy: tb.TensorElimination, mean: np.ndarray) -> tuple[float, float]:
    """The true norms inside and outside the subspaces that a policy works with."""
    out = mean
    for j, U in enumerate(policy._ridge.factors):  # type: ignore[union-attr]
        out = np.moveaxis(np.tensordot(np.eye(len(U)) - U @ U.T, out, axes=(1, j)), 0, j)
    outside = float(np.linalg.norm(out))
    return float(np.sqrt(np.linalg.norm(mean) ** 2 - outside**2)), outside


@row("xi: what theory is given")
def theory_xi() -> str:
    p, n = 10, 5000

    def world(seed: int) -> np.ndarray:
        return tb.paper_tensor(p, 0.5, seed=seed)

    ours = Played(lambda s: tb.TensorElimination.paper((p,) * 3, 2, horizon=n, confidence="theory", seed=s), n, world)
    plugged, true, union, inside, outside, core = [], [], [], [], [], []
    for seed, policy in enumerate(ours.policies):
        assert isinstance(policy, tb.TensorElimination)
        ridge = policy._ridge
        assert ridge is not None
        light, heavy = norms(policy, world(seed))
        known = {"lambda_1": policy.lambda_1, "lambda_2": ridge.lambda_2, "norm_inside": light}
        plugged.append(policy._radius(ridge))
        true.append(theory.confidence_multiplier(delta=1 / n, norm_perpendicular=heavy, **known))
        each = 1 / n / (p**3 * np.log2(n))
        union.append(theory.confidence_multiplier(delta=each, norm_perpendicular=heavy, **known))
        inside.append(light)
        outside.append(heavy)
        core.append(policy._norm)
    given = Played(lambda s: tb.TensorElimination.paper((p,) * 3, 2, horizon=n, confidence=true[s], seed=s), n, world)
    left = [np.median([len(policy._active) for policy in runs.policies]) for runs in (ours, given)]  # type: ignore[attr-defined]
    return (
        f"p = {p}, n = {n:,}. Norm inside {stated(core, '.1f')} as completed, {stated(inside, '.1f')} in truth; "
        f"outside 0 against {stated(outside, '.1f')}. xi {stated(plugged, '.1f')} as plugged in, "
        f"{stated(true, '.1f')} with the true norms, {stated(union, '.1f')} for all arms and phases at once. "
        f"Regret {ours} and {given} with the first two; "
        f"{left[0]:,.0f} and {left[1]:,.0f} of {p**3:,} arms left (median)"
    )


@row("n_1: estimated, and at most half of the horizon")
def half() -> str:
    sigma, parts = [0.5 * 15**1.5] * 3, []

    def limit(self: ExplorationLength, rank: tuple[int, ...]) -> int:
        return self.horizon - 1

    for n, rank in ((500, 2), (2000, 2), (2000, 4)):

        def make(s: int, n: int = n, rank: int = rank) -> tb.Policy:
            return tb.TensorElimination.paper(SHAPE, rank, horizon=n, seed=s)

        capped = Played(make, n)
        with patch.object(ExplorationLength, "_limit", limit):
            free = Played(make, n)
        rounds = [[p._explored.rounds for p in runs.policies] for runs in (capped, free)]  # type: ignore[attr-defined]
        text = (
            f"n = {n:,}, rank {rank}: {np.mean(rounds[0]):,.0f} rounds explored, regret {capped}; without the cap "
            f"{np.mean(rounds[1]):,.0f} and {free}"
        )
        if rank == 2 and n > 500:
            known = Played(lambda s, n=n: tb.TensorElimination.paper(SHAPE, 2, horizon=n, sigma=sigma, seed=s), n)
            text += f"; with the true sigma_j {known.policies[0]._target:,} and {known}"  # type: ignore[attr-defined]
        parts.append(text)
    return ". ".join(parts)


@row("reused data: nothing eliminated before q rewards")
def first_q() -> str:
    p, n = 10, 5000

    class AtOnce(tb.TensorElimination):
        def _fewest(self, ridge: object) -> int:
            return 10

    runs, kept = [], []
    for kind in (tb.TensorElimination, AtOnce):
        runs.append(
            Played(lambda s, k=kind: k((p,) * 3, 2, horizon=n, seed=s), n, lambda s: tb.paper_tensor(p, 0.5, seed=s))
        )
        best = [int(tb.paper_tensor(p, 0.5, seed=seed).argmax()) for seed in range(SEEDS)]
        kept.append(sum(one in policy._active for one, policy in zip(best, runs[-1].policies)))  # type: ignore[attr-defined]
    return (
        f"p = {p}, n = {n:,}, our defaults: {runs[0]}, the best arm kept in {kept[0]} of {SEEDS}; eliminating at once "
        f"{runs[1]}, kept in {kept[1]}; {less(runs[0], runs[1])}"
    )


# ---------------------------------------------------------------------------- unequal sizes, and the baseline


@row("sizes: geometric mean or maximum")
def sizes() -> str:
    shape, n = (5, 10, 30), 2000
    cells = int(np.prod(shape))

    def world(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        factors = tuple(np.linalg.qr(rng.standard_normal((p, 2)))[0] for p in shape)
        core = np.zeros((2, 2, 2))
        core[(np.arange(2),) * 3] = 0.5 * np.sqrt(cells)
        return tb.Tucker(core, factors).full()

    largest = (max(shape),) * 3
    sigma = [0.5 * np.sqrt(cells)] * 3
    s_1 = [theory.initial_rounds(one, 2) for one in (shape, largest)]
    n_1 = [theory.exploration_rounds(one, 2, n, sigma) for one in (shape, largest)]
    s_2 = [theory.exploitation_rounds(10_000, one, 2, s_1=first) for one, first in zip((shape, largest), s_1)]
    greedy = [Played(lambda s, k=k: tb.TensorEpochGreedy.paper(shape, 2, initial=k, seed=s), n, world) for k in s_1]
    longest = min(s_1[1] + n_1[1], n - 1)
    plans = [(s_1[0], n_1[0]), (s_1[1], longest - s_1[1])]
    arms = [
        Played(
            lambda s, a=a, b=b: tb.TensorElimination.paper(shape, 2, horizon=n, initial=a, exploration=b, seed=s),
            n,
            world,
        )
        for a, b in plans
    ]
    return (
        f"{shape}, n = {n:,}: s_1 {s_1[0]} and {s_1[1]}, n_1 {n_1[0]:,} and {n_1[1]:,}, s_2k at epoch 10,000 {s_2[0]} "
        f"and {s_2[1]} with the geometric mean and the maximum. Epoch-greedy {greedy[0]} and {greedy[1]}; elimination "
        f"{arms[0]} and {arms[1]}, where the exploration is cut at the horizon"
    )


class DrawnEntries(tb.MatricizedESTR):
    """Stage 1 draws entries at random, each as likely as another, with replacement."""

    def _spread(self, t: int) -> tuple[int, int]:
        rng = np.random.default_rng((t, int(self._order[0][0]), int(self._order[1][0])))
        return int(rng.integers(self._sizes[0])), int(rng.integers(self._sizes[1]))


class FreshStage(tb.MatricizedESTR):
    """Stage 2 starts from nothing but the subspaces."""

    def _matrix_ledger(self) -> tb.Ledger:
        return super()._matrix_ledger() if self._stage_2 is None else tb.Ledger(self._sizes)


@row("ESTR: stage 1")
def stage_1() -> str:
    n, parts = 2000, []
    true_norm = 0.5 * 15**1.5 * np.sqrt(2)
    variants: dict[str, tuple[type[tb.MatricizedESTR], dict[str, object]]] = {
        "as it is": (tb.MatricizedESTR, {}),
        "entries drawn at random": (DrawnEntries, {}),
        "spectral recovery": (tb.MatricizedESTR, {"recovery": "spectral"}),
        "stage 1 not replayed into stage 2": (FreshStage, {}),
        "true norm of the matrix": (tb.MatricizedESTR, {"norm": true_norm}),
    }
    for name, (kind, more) in variants.items():
        played = Played(lambda s, k=kind, more=more: k.paper(SHAPE, 2, horizon=n, multiplier=0.01, seed=s, **more), n)
        parts.append(f"{name} {played}")
    return f"n = {n:,}, multiplier 0.01: " + "; ".join(parts)


@row("ESTR: c_0")
def estr_c_0() -> str:
    n, parts = 2000, []
    for multiplier in (1.0, 0.01):
        for c_0 in (0.1, 0.3, 0.5, 0.7, 0.9):
            played = Played(
                lambda s, c=c_0, m=multiplier: tb.MatricizedESTR.paper(
                    SHAPE, 2, horizon=n, multiplier=m, c_0=c, seed=s
                ),
                n,
            )
            parts.append(f"{c_0:g} {played}" if c_0 > 0.1 else f"multiplier {multiplier:g}: c_0 = {c_0:g} {played}")
    return f"n = {n:,}. " + "; ".join(parts)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main(sys.argv[1:], ROWS)
