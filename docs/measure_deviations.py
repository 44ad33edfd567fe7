"""Measure what each deviation from the paper changes, and print the numbers as a Markdown table.

    python -m docs.measure_deviations            # all rows, a few minutes on one core
    python -m docs.measure_deviations rotation   # only the rows whose name contains a word

Every row runs on the paper's tensors (order 3, rank 2, noise 1) with the seeds 0, 1, .. and is repeatable.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

import tensorbandits as tb
from tensorbandits import theory
from tensorbandits.model.likelihood import Observations
from tensorbandits.model.solve import row_equations, solve_spd
from tensorbandits.model.sweep import Model, Prior, sweep
from tensorbandits.tensor.completion import _Draws, _leading, _project_others, _weigh
from tensorbandits.tensor.tucker import rotation
from tests.plain.completion import project
from tests.plain.sweep import core_equations

ROWS: dict[str, Callable[[], str]] = {}


Measure = Callable[[], str]


def row_in(rows: dict[str, Measure]) -> Callable[[str], Callable[[Measure], Measure]]:
    """Return what puts a function among the rows, under a name."""

    def row(name: str) -> Callable[[Measure], Measure]:
        def keep(measure: Measure) -> Measure:
            rows[name] = measure
            return measure

        return keep

    return row


row = row_in(ROWS)


def explored(p: int, w: float, rounds: int, seed: int, stream: int = 0) -> tuple[np.ndarray, tb.Ledger]:
    """A mean tensor of the paper and a ledger of uniform rounds on it; another stream gives other rounds."""
    mean = tb.paper_tensor(p, w, seed=seed)
    rng = np.random.default_rng((1000 + seed, stream))
    cells = rng.integers(mean.shape, size=(rounds, mean.ndim))
    ledger = tb.Ledger(mean.shape)
    ledger.add(cells, mean[tuple(cells.T)] + rng.standard_normal(rounds))
    return mean, ledger


def relative(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def regrets(make: Callable[[int], tb.Policy], *, p: int, n: int, seeds: int, w: float = 0.5) -> np.ndarray:
    """Final regrets of a policy on the tensors of seeds 0, 1, .."""
    finals = []
    for seed in range(seeds):
        env = tb.TensorEnvironment(tb.paper_tensor(p, w, seed=seed), noise=1.0, seed=seed)
        finals.append(tb.simulate(make(seed), env, n).regret[-1])
    return np.array(finals)


def spread(finals: np.ndarray) -> str:
    return f"mean {finals.mean():,.0f}, median {np.median(finals):,.0f}, worst {finals.max():,.0f}"


def in_turn(values: list[int]) -> str:
    return ", ".join(f"{value:,}" for value in values)


# ------------------------------------------------------------------------------------------- formulas


@row("n_1: exponent of Theorem 1")
def n_1() -> str:
    sigma = [0.8 * 20**1.5] * 3
    whole, horizon = (
        theory.exploration_rounds((20, 20, 20), 2, 100_000, sigma, c_0=1.0, power=power)
        for power in ("whole", "horizon")
    )
    return f"p = 20, w = 0.8, n = 100,000, c_0 = 1: {whole:,} rounds with the proof's exponent, {horizon:,} as printed"


@row("s_1: exponent of S.5")
def s_1() -> str:
    parts = []
    for p in (15, 20):
        ours, printed = (
            theory.initial_rounds((p,) * 3, 2, exponent=exponent)  # type: ignore[arg-type]
            for exponent in ("theory", "appendix")
        )
        errors = []
        for rounds in (ours, printed):
            fits = [explored(p, 0.8, rounds, seed) for seed in range(10)]
            errors.append(np.mean([relative(tb.complete(ledger, 2).full(), mean) for mean, ledger in fits]))
        parts.append(f"p = {p}: {ours} rounds against {printed} (error {errors[0]:.1f} and {errors[1]:.1f})")
    return "; ".join(parts) + "; relative error of the completion, where 1 is to know nothing; w = 0.8, 10 seeds"


@row("xi: parts of Lemma 1")
def xi_parts() -> str:
    norm = float(np.linalg.norm(tb.paper_tensor(15, 0.5, seed=0)))

    def xi(lambda_1: float, inside: float) -> float:
        return theory.confidence_multiplier(
            delta=1e-4, lambda_1=lambda_1, lambda_2=1.0, norm_inside=inside, norm_perpendicular=0.0
        )

    return (
        f"p = 15, w = 0.5, delta = 1/10,000: noise term {xi(0.1, 0.0):.2f}; with lambda_1 = 1/p^3 in all "
        f"{xi(15**-3, norm):.2f}; with lambda_1 = 0.1 in all {xi(0.1, norm):.2f}, of which "
        f"{xi(0.1, norm) - xi(0.1, 0.0):.2f} from the norm of the tensor"
    )


@row("Theorem 1: first term")
def first_term() -> str:
    printed, assumption = 2**1.5 * 20**1.5, 2**0.5 * 20**1.5
    return f"p = 20, r = 2: {printed:.0f} as in the theorem, {assumption:.0f} from Assumption 3 (a factor r)"


@row("Theorem 1: denominator in the proof")
def denominator() -> str:
    sigma = 0.8 * 20**1.5
    n, delta = 1e5, 8 / sigma**3 * 20**6 * math.log(20) ** 1.5
    return (
        f"p = 20, w = 0.8, n = 100,000: minimising n_1 + delta n / n_1^(3/2) gives about {(n * delta) ** 0.4:,.0f} "
        f"rounds; with n_1 in place of n_1^(3/2), as the proof is written, {math.sqrt(n * delta):,.0f}"
    )


@row("Theorem 2: s_1 in the proof")
def theorem_2() -> str:
    s = theory.initial_rounds((20,) * 3, 2)
    whole = theory.epoch_greedy_bound((20,) * 3, 2, 100_000)
    return f"p = 20, n = 100,000: {s} against {2 * s} rounds in a bound of {whole:,.0f}; no practical effect"


@row("Table 1: middle term of Theorem 1")
def middle_term() -> str:
    p, n = 20, 100_000
    sigma = 0.8 * p**1.5
    middle = (n * 8 / sigma**3 * math.log(p) ** 1.5 * p**6) ** 0.4
    table = theory.table1_bound("elimination", (p,) * 3, n)
    return f"p = 20, w = 0.8, n = 100,000: {middle:,.0f}, beside {table:,.0f} for both terms that Table 1 keeps"


@row("Table 1: n <= p^(d-5)")
def short_horizons() -> str:
    limits = [f"d = {d}: {20 ** (d - 5):,.4g}" for d in (3, 4, 5, 6)]
    ratio = theory.table1_bound("epoch-greedy", (20,) * 3, 1000) / theory.table1_bound("elimination", (20,) * 3, 1000)
    return (
        f"p = 20, the longest n: {', '.join(limits)}; at d = 3, n = 1,000 the rate of epoch-greedy is {ratio:.1f} "
        "times that of elimination"
    )


@row("s_2k: C_2 = 1")
def s_2k() -> str:
    values = [theory.exploitation_rounds(k, (15,) * 3, 2, s_1=83) for k in (0, 10_000, 1_000_000)]
    reach = 4 * 2 * math.log(15) * 15**4
    paper = regrets(lambda s: tb.TensorEpochGreedy.paper((10,) * 3, 2, seed=s), p=10, n=3000, seeds=3)
    ours = regrets(lambda s: tb.TensorEpochGreedy((10,) * 3, 2, seed=s), p=10, n=3000, seeds=3)
    return (
        f"p = 15: s_2k is {in_turn(values)} at epoch 0, 10,000, 1,000,000, and stays below 3 for {reach:,.0f} epochs; "
        f"p = 10, w = 0.5, n = 3,000, 3 seeds: regret {spread(paper)} (paper), {spread(ours)} (adaptive)"
    )


@row("epoch-greedy: centring")
def centring() -> str:
    parts = []
    for offset in (0.0, 5.0):
        finals = {}
        for centre in (False, True):
            finals[centre] = []
            for seed in range(8):
                mean = offset + tb.paper_tensor(6, 1.0, seed=seed)
                policy = tb.TensorEpochGreedy(mean.shape, 2, centre=centre, seed=seed)
                trace = tb.simulate(policy, tb.TensorEnvironment(mean, seed=seed), 1500)
                finals[centre].append(trace.regret[-1] / (1500 * (mean.max() - mean.mean())))
        parts.append(
            f"mean reward {offset:g}: {np.mean(finals[False]):.2f} as it is, {np.mean(finals[True]):.2f} centred"
        )
    return "p = 6, w = 1, n = 1,500, 8 seeds, regret as a share of random play's. " + "; ".join(parts)


# ----------------------------------------------------------------------------------------- elimination


def rotations(p: int, rounds: int, seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
    mean, ledger = explored(p, 0.5, rounds, seed)
    return mean, [rotation(U) for U in tb.complete(ledger, 2).factors]


def rotate(tensor: np.ndarray, matrices: list[np.ndarray]) -> np.ndarray:
    return np.einsum("abc,ia,jb,kc->ijk", tensor, *matrices, optimize=True)


@row("rotation: transpose")
def transpose() -> str:
    wrong, right = [], []
    for seed in range(5):
        mean, R = rotations(15, 2000, seed)
        # The arm of cell i has the i-th row of each R, so reading the means of all arms applies R to a tensor.
        right.append(relative(rotate(rotate(mean, [Q.T for Q in R]), R), mean))
        wrong.append(relative(rotate(rotate(mean, R), R), mean))
    return (
        f"p = 15, 5 seeds: relative error of all arm means {np.mean(wrong):.2f} without the transpose, "
        f"{np.max(right):.0e} with it"
    )


@row("mask: first q entries in C order")
def mask() -> str:
    parts = []
    for p in (15, 20):
        inside = np.ones((p, p, p), dtype=bool)
        inside[2:, 2:, 2:] = False
        q = int(inside.sum())
        wrong = int((~inside.ravel()[:q]).sum())
        parts.append(f"p = {p}: {wrong} of q = {q} ({100 * wrong / q:.0f} %) are outside")
    return "; ".join(parts)


@row("lambda_1: first prod r_j entries")
def light() -> str:
    core, inside, outside = [], [], []
    for seed in range(5):
        mean, R = rotations(15, 2000, seed)
        Y = rotate(mean, [Q.T for Q in R]) ** 2 / (mean**2).sum()
        core.append(Y[:2, :2, :2].sum())
        outside.append(Y[2:, 2:, 2:].sum())
        inside.append(1 - core[-1] - outside[-1])
    return (
        f"p = 15: 8 coordinates against q = {theory.inside_coordinates((15,) * 3, 2):,}. After 2,000 uniform rounds "
        f"(5 seeds) the 8 hold {100 * np.mean(core):.0f} % of the squared norm of the tensor, the rest of the q hold "
        f"{100 * np.mean(inside):.0f} %, those outside {100 * np.mean(outside):.1f} %"
    )


@row("ridge: norms, not squared")
def norms() -> str:
    """The penalty lambda ||b|| is ridge regression with lambda / ||b||, so a fixed point of that is its minimum."""
    p, light, heavy, errors = 8, [], [], []
    for seed in range(5):
        _, R = rotations(p, 1500, seed)
        mean, ledger = explored(p, 0.5, 400, seed, stream=1)
        N, Y, _ = (part.ravel() for part in ledger.dense())
        inside = np.ones((p, p, p), dtype=bool)
        inside[2:, 2:, 2:] = False
        B = np.kron(np.kron(R[0], R[1]), R[2])
        q = int(inside.sum())
        penalties = 0.1, theory.perpendicular_penalty(5000, q)
        weights = list(penalties)
        for step in range(200):
            lam = np.where(inside.ravel(), *weights)
            b = np.linalg.solve((B.T * N) @ B + np.diag(lam), B.T @ Y)
            if step == 0:
                errors.append([relative(B @ b, mean.ravel())])
            sizes = np.linalg.norm(b[inside.ravel()]), np.linalg.norm(b[~inside.ravel()])
            weights = [penalty / max(size, 1e-9) for penalty, size in zip(penalties, sizes, strict=True)]
        errors[-1].append(relative(B @ b, mean.ravel()))
        light.append(weights[0] / penalties[0])
        heavy.append(weights[1] / penalties[1])
    squared, plain = np.mean(errors, axis=0)
    return (
        f"p = 8, 400 rewards, 5 seeds: plain norms act like a lambda_1 {1 / np.mean(light):.0f} times smaller and a "
        f"lambda_2 {1 / np.mean(heavy):.0f} times smaller, both of them unknown beforehand; relative error "
        f"{plain:.2f} against {squared:.2f} with squares"
    )


P, N, SEEDS = 10, 5000, 5


def eliminate(name: str, **arguments: object) -> tuple[str, str]:
    """Final regrets, and what became of the arms and of the best of them."""
    left, kept = [], 0
    policies: list[tb.TensorElimination] = []

    def make(seed: int) -> tb.Policy:
        make_policy = tb.TensorElimination.paper if name == "paper" else tb.TensorElimination
        policies.append(make_policy((P,) * 3, 2, horizon=N, seed=seed, **arguments))  # type: ignore[operator]
        return policies[-1]

    finals = regrets(make, p=P, n=N, seeds=SEEDS)
    for seed, policy in enumerate(policies):
        active = np.array(policy.state_dict()["state"]["active"])
        left.append(len(active))
        kept += int(tb.paper_tensor(P, 0.5, seed=seed).argmax()) in active
    return spread(
        finals
    ), f"{np.median(left):,.0f} of {P**3:,} arms left (median), the best among them in {kept} of {SEEDS}"


SETTING = f"p = {P}, w = 0.5, n = {N:,}, {SEEDS} seeds"


@row("xi: theory or a number")
def xi() -> str:
    parts = []
    for confidence in ("theory", 2.0, 1.5, 1.0, 0.5):
        regret, fate = eliminate("paper", confidence=confidence)
        parts.append(f"xi = {confidence}: {regret}; {fate}")
    ucb = regrets(lambda s: tb.VectorizedUCB((P,) * 3, seed=s), p=P, n=N, seeds=SEEDS)
    return f"{SETTING}, otherwise as in the paper. " + ". ".join(parts) + f". For scale, UCB: {spread(ucb)}"


@row("data between phases")
def reuse() -> str:
    thrown, kept, ours = (
        eliminate("paper")[0],
        eliminate("paper", reuse_data=True)[0],
        eliminate("ours")[0],
    )
    return f"{SETTING}: thrown away (paper) {thrown}; reused, all else as in the paper {kept}; our defaults {ours}"


@row("lambda_1: 0.1 or 1/p^d")
def lambda_1() -> str:
    parts = []
    for value, text in ((0.1, "0.1"), (P**-3, "1/p^3")):
        paper, ours = eliminate("paper", lambda_1=value), eliminate("ours", lambda_1=value)
        parts.append(f"{text}: paper's values {paper[0]} ({paper[1]}); our defaults {ours[0]} ({ours[1]})")
    return f"{SETTING}. " + ". ".join(parts)


# ------------------------------------------------------------------------------------------- ensembles


def fit_rows(indicator: bool, weight: bool, variance: float, rounds: int, seed: int) -> float:
    """Relative error of the fit after 20 passes, with the printed faults of the row update put in by choice."""
    p, noise_variance = 10, 1.0
    mean, ledger = explored(p, 0.5, rounds, seed)
    rng = np.random.default_rng(seed)
    start = [rng.standard_normal((p, 2)) for _ in range(3)]
    start = [U / np.linalg.norm(U, axis=0) for U in start]
    model = tb.Tucker(np.ones((2, 2, 2)), tuple(start))
    fit, kind = Model.of(model), np.zeros(8, dtype=np.int64)
    prior = Prior(fit.rows.copy(), fit.core.copy(), 0.0, np.full(6, 1 / variance), kind, np.array([0.01]))
    data = ledger.cells, ledger.counts / noise_variance, ledger.totals / noise_variance
    for _ in range(20):
        if not indicator and not weight:
            sweep(
                *(fit, prior, Observations.of(ledger, ledger.totals, 0.0), np.zeros((1, 6 * p + 9))),
                variance=noise_variance,
                offset_precision=None,
            )
            model = fit.tensor()
            continue
        factors = list(model.factors)
        for k in range(3):
            A, b = row_equations(model.core, factors, k, *data)
            if indicator:  # the sum on the right runs over rounds with i_1 = i, whatever the mode
                Z = multipliers(model.core, factors, k, ledger.cells)
                first = ledger.cells[:, 0]
                b = np.stack([np.bincount(first, weights=z * data[2], minlength=p) for z in Z.T], axis=1)
            A += np.eye(2) / variance
            factors[k] = solve_spd(A, b + start[k] / (noise_variance if weight else variance))
        A, b = core_equations(factors, *data)
        A, b = A[1:, 1:] + 0.01 * np.eye(8), b[1:] + 0.01
        model = tb.Tucker(solve_spd(A, b).reshape(2, 2, 2), tuple(factors))
    return relative(model.full(), mean)


def multipliers(core: np.ndarray, factors: list[np.ndarray], mode: int, cells: np.ndarray) -> np.ndarray:
    """What multiplies the row of a mode at each cell, the paper's v, shape (n, r)."""
    names, others = "abc", [j for j in range(3) if j != mode]
    spec = ",".join(["n" + names[j] for j in others])
    return np.einsum(f"abc,{spec}->n{names[mode]}", core, *(factors[j][cells[:, j]] for j in others))


@row("row update: indicator and weight")
def row_update() -> str:
    def error(indicator: bool, weight: bool, variance: float, rounds: int) -> float:
        return float(np.mean([fit_rows(indicator, weight, variance, rounds, seed) for seed in range(10)]))

    return (
        "p = 10, w = 0.5, uniform rewards, 10 seeds, relative error of the fit. Indicator, 3,000 rewards: "
        f"{error(False, False, 1.0, 3000):.2f} as corrected, {error(True, False, 1.0, 3000):.2f} as printed. Weight, "
        f"sigma_k^2 = 0.1 and sigma = 1: {error(False, False, 0.1, 3000):.2f} as corrected and "
        f"{error(False, True, 0.1, 3000):.2f} as printed with 3,000 rewards, {error(False, False, 0.1, 300):.2f} and "
        f"{error(False, True, 0.1, 300):.2f} with 300 (the weights agree at the paper's sigma = sigma_k = 1)"
    )


@row("core: no prior")
def core_prior() -> str:
    parts = []
    for rounds in (4, 16, 64, 256):
        smallest, singular = [], 0
        for seed in range(10):
            mean, ledger = explored(15, 0.5, rounds, seed)
            rng = np.random.default_rng(seed)
            factors = [np.linalg.qr(rng.standard_normal((15, 2)))[0] for _ in mean.shape]
            A, _ = core_equations(factors, ledger.cells, ledger.counts, ledger.totals)
            eigenvalues = np.linalg.eigvalsh(A[1:, 1:])
            smallest.append(eigenvalues[0])
            singular += bool(eigenvalues[0] < 1e-12 * eigenvalues[-1])
        parts.append(f"{rounds} rewards {max(np.median(smallest), 0):.0e} ({singular} of 10 singular)")
    return f"p = 15, 10 seeds, smallest eigenvalue (median): {', '.join(parts)}; with the ridge at least 1e-02"


@row("perturbation: 0.1 or the noise")
def perturbation() -> str:
    parts = []
    for name, arguments in (("sigma_tilde^2 = 0.1", {}), ("the noise variance", {"perturbation": "noise"})):
        finals = regrets(
            lambda s, a=arguments: tb.TensorEnsembleSampling.paper((P,) * 3, 2, seed=s, **a), p=P, n=2000, seeds=8
        )
        parts.append(f"{name}: {spread(finals)}")
    finals = regrets(lambda s: tb.TensorEnsembleSampling((P,) * 3, 2, seed=s), p=P, n=2000, seeds=8)
    parts.append(f"our defaults (scale-free prior and intercept besides): {spread(finals)}")
    finals = regrets(lambda s: tb.TensorThompsonSampling((P,) * 3, 2, seed=s), p=P, n=2000, seeds=8)
    parts.append(f"for scale, Thompson sampling: {spread(finals)}")
    return f"p = {P}, w = 0.5, n = 2,000, 8 seeds. " + "; ".join(parts)


# ------------------------------------------------------------------------------------------ completion


@row("completion: X_ini summed to n")
def x_ini() -> str:
    mean, ledger = explored(15, 0.8, 20_000, 0)
    fit = tb.complete(ledger, 2).full()
    return (
        f"p = 15, w = 0.8, T = 20,000: relative error {relative(fit, mean):.2f} with T; if a sum over n = 50,000 "
        f"rounds were divided by T, {relative(2.5 * fit, mean):.2f}"
    )


@row("completion: factors of the same pass")
def passes() -> str:
    def jacobi(draws: _Draws) -> tuple[int, float]:
        factors = [_leading(draws, j, 2)[1] for j in range(3)]
        norm = float(np.linalg.norm(project(draws.cells, draws.values, factors)))
        steps = 0
        while True:
            steps += 1
            sides = [_project_others(draws, factors, j) for j in range(3)]
            factors = [np.linalg.svd(side, full_matrices=False)[0][:, :2] for side in sides]
            grown = float(np.linalg.norm(project(draws.cells, draws.values, factors)))
            if grown - norm <= 1e-6 * grown or steps == 100:
                break
            norm = grown
        full = tb.Tucker(project(draws.cells, draws.values, factors), tuple(factors)).full()
        return steps, relative(full, mean)

    results = []
    for seed in range(10):
        mean, ledger = explored(15, 0.8, 5000, seed)
        fit = tb.complete(ledger, 2)
        results.append((fit.info.iterations, relative(fit.full(), mean), *jacobi(_weigh(ledger, None))))
    ours, error, theirs, error_theirs = np.mean(results, axis=0)
    return (
        f"p = 15, w = 0.8, T = 5,000, 10 seeds: {ours:.1f} iterations and relative error {error:.3f} with the newest "
        f"factors, {theirs:.1f} and {error_theirs:.3f} with those of the pass before"
    )


@row("completion: skewed draws")
def skewed() -> str:
    plain, weighted = [], []
    for seed in range(5):
        mean = tb.paper_tensor(15, 0.8, seed=seed)
        rng = np.random.default_rng(seed)
        share = 1.0 / np.arange(1, 16)
        share /= share.sum()
        cells = rng.integers(15, size=(20_000, 3))
        cells[:, 0] = rng.choice(15, size=20_000, p=share)
        ledger = tb.Ledger(mean.shape)
        ledger.add(cells, mean[tuple(cells.T)] + rng.standard_normal(20_000))
        plain.append(relative(tb.complete(ledger, 2).full(), mean))
        weights = share[ledger.cells[:, 0]] / 15**2
        weighted.append(relative(tb.complete(ledger, 2, probabilities=weights).full(), mean))
    return (
        f"p = 15, w = 0.8, T = 20,000, first mode drawn with weights 1, 1/2, 1/3, .., 5 seeds: relative error "
        f"{np.mean(plain):.2f} when taken as uniform, {np.mean(weighted):.2f} with inverse probabilities"
    )


def main(words: list[str], rows: dict[str, Measure]) -> None:
    start = time.perf_counter()
    print("| deviation | measured effect |\n|:--|:--|")
    for name, measure in rows.items():
        if not words or any(word in name for word in words):
            before = time.perf_counter()
            print(f"| {name} | {measure()} |", flush=True)
            print(f"{name}: {time.perf_counter() - before:.0f} s", file=sys.stderr)
    print(f"in all {time.perf_counter() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main(sys.argv[1:], ROWS)
