"""Schedules and regret bounds, as plain functions.

Notation, after the paper:

========  ============================================================================================
``d``     order: the number of modes
``p_j``   size of mode ``j``; ``p`` is the geometric mean of the sizes (Table 1: the largest size)
``r_j``   Tucker rank of mode ``j``; ``r`` is the geometric mean of the ranks
``K``     number of cells, ``prod p_j``
``n``     horizon: the number of rounds
``s_1``   rounds of uniform play that start every low-rank policy (Assumption 3)
``n_1``   further uniform rounds of tensor elimination (Theorem 1)
``s_2k``  greedy rounds of epoch ``k`` of tensor epoch-greedy (Theorem 2)
``q``     rotated coordinates with at least one index inside an estimated subspace
``xi``    width of a confidence interval in units of ``||a||`` in the norm of ``V^-1`` (Lemma 1)
``sigma`` ``sigma_j`` is the smallest non-zero singular value of the mode-``j`` unfolding of the mean
========  ============================================================================================

The paper states its results for equal sizes and equal ranks. Geometric means keep ``p^d = prod p_j`` and
``r^d = prod r_j`` when they differ. ``log p`` is ``log max(p, 2)``, so that modes of size 1 are allowed.
A ``rank`` is an int (a cap, lowered where the shape cannot have it) or a tuple (taken as given).
"""

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal

from tensorbandits.base.checks import Cell, Rank, check_count, check_positive, check_shape, resolve_rank

# Exponents of Table 1, by policy, as functions of d: p^first + p^second * n^third.
_TABLE_1: dict[str, Callable[[int], tuple[float, float, float]]] = {
    "epoch-greedy": lambda d: (d / 2, (d + 1) / 3, 2 / 3),
    "elimination": lambda d: (d / 2, (d - 1) / 2, 1 / 2),
    "ucb": lambda d: (d, d / 2, 1 / 2),
    "estr": lambda d: (d - 1, 3 * (d - 1) / 2, 1 / 2),
}


# ---------------------------------------------------------------------------------------------- schedules


def initial_rounds(
    shape: Sequence[int],
    rank: Rank,
    *,
    C_0: float = 1.0,
    exponent: Literal["theory", "appendix"] = "theory",
) -> int:
    """``s_1 = ceil(C_0 r^((d-2)/2) p^(d/2))``, at least 1: the fewest uniform rounds completion needs.

    ``exponent="appendix"`` has ``p^(d-2)`` instead, as printed in Section S.5 of the paper.

    >>> initial_rounds((20, 20, 20), 2)
    127
    >>> initial_rounds((20, 20, 20), 2, exponent="appendix")
    29
    """
    sizes = check_shape(shape)
    check_positive(C_0, "C_0")
    _one_of("exponent", exponent, ("theory", "appendix"))
    d, p, r = _means(sizes, _ranks(rank, sizes))
    power = d / 2 if exponent == "theory" else d - 2
    return max(1, _ceil(C_0 * r ** ((d - 2) / 2) * p**power))


def exploration_rounds(
    shape: Sequence[int],
    rank: Rank,
    horizon: int,
    sigma: Sequence[float],
    *,
    c_0: float = 0.5,
    power: Literal["whole", "horizon"] = "whole",
) -> int:
    """``n_1``, the uniform rounds of tensor elimination after the first ``s_1`` (Theorem 1 and S.5).

    ``n_1 = c_0 ceil((n r^d / prod(sigma_j) * p^((d^2+d)/2) * log(p)^(d/2))^(2/(d+2)))``, rounded up.
    ``sigma`` has one positive number per mode. ``power="horizon"`` raises only ``n`` to ``2/(d+2)``, as the
    theorem is printed; its proof raises the whole product, and as printed ``n_1`` often exceeds ``n``.

    >>> sigma = [0.8 * 20**1.5] * 3
    >>> exploration_rounds((20, 20, 20), 2, 100_000, sigma)
    1750
    >>> exploration_rounds((20, 20, 20), 2, 100_000, sigma, power="horizon") > 100_000
    True
    """
    sizes = check_shape(shape)
    ranks = _ranks(rank, sizes)
    n = check_count(horizon, "horizon")
    check_positive(c_0, "c_0")
    _one_of("power", power, ("whole", "horizon"))
    log_delta = _log_delta(sizes, ranks, sigma)
    share = 2 / (len(sizes) + 2)
    log_rounds = share * (math.log(n) + log_delta) if power == "whole" else share * math.log(n) + log_delta
    return max(1, _ceil(c_0 * _ceil(math.exp(log_rounds))))


def exploitation_rounds(k: int, shape: Sequence[int], rank: Rank, *, s_1: int, C_2: float = 1.0) -> int:
    """``s_2k = ceil(C_2 p^(-(d+1)/2) r^(-1/2) log(p)^(-1/2) (k + s_1)^(1/2))``: greedy rounds of epoch ``k``.

    With ``C_2 = 1`` this is 1 at any practical size, so that half of all rounds explore.

    >>> exploitation_rounds(10_000, (20, 20, 20), 2, s_1=127)
    1
    >>> exploitation_rounds(10_000, (20, 20, 20), 2, s_1=127, C_2=100.0)
    11
    """
    sizes = check_shape(shape)
    check_count(k, "k", least=0)
    check_count(s_1, "s_1")
    check_positive(C_2, "C_2")
    d, p, r = _means(sizes, _ranks(rank, sizes))
    return max(1, _ceil(C_2 * p ** (-(d + 1) / 2) * math.sqrt((k + s_1) / (r * _log(p)))))


def inside_coordinates(shape: Sequence[int], rank: Rank) -> int:
    """``q = prod p_j - prod (p_j - r_j)``: the coordinates that get the light penalty ``lambda_1``.

    >>> inside_coordinates((20, 20, 20), 2)
    2168
    """
    sizes = check_shape(shape)
    ranks = _ranks(rank, sizes)
    return math.prod(sizes) - math.prod(size - r for size, r in zip(sizes, ranks, strict=True))


def perpendicular_penalty(horizon: int, q: int, *, lambda_1: float = 0.1) -> float:
    """``lambda_2 = n / (q log(1 + n/lambda_1))``: the penalty on the coordinates outside all subspaces.

    Theorem 1 asks for ``lambda_1 <= 1/p^d``; the paper's experiments, and this default, use 0.1.

    >>> round(perpendicular_penalty(10_000, 2168), 4)
    0.4006
    """
    n = check_count(horizon, "horizon")
    check_count(q, "q")
    check_positive(lambda_1, "lambda_1")
    return n / (q * math.log1p(n / lambda_1))


def confidence_multiplier(
    *, delta: float, lambda_1: float, lambda_2: float, norm_inside: float, norm_perpendicular: float
) -> float:
    """``xi = 2 sqrt(14 log(2/delta)) + sqrt(lambda_1) ||b_inside|| + sqrt(lambda_2) ||b_perpendicular||``.

    Lemma 1: one fixed arm's estimate is within ``xi ||a||`` of its mean with probability ``1 - delta``. For
    all arms and phases at once, divide ``delta`` by the number of arms times the number of phases.
    The first term alone is about 23 at ``delta = 1/10_000``: safe, and too wide to eliminate anything.

    >>> round(confidence_multiplier(delta=1e-4, lambda_1=1 / 15**3, lambda_2=0.7, norm_inside=41.1,
    ...                             norm_perpendicular=0.0), 2)
    24.26
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is {delta!r}; it must be above 0 and below 1; give for example 1/horizon")
    check_positive(lambda_1, "lambda_1")
    check_positive(lambda_2, "lambda_2")
    _not_negative("norm_inside", norm_inside)
    _not_negative("norm_perpendicular", norm_perpendicular)
    noise = 2 * math.sqrt(14 * math.log(2 / delta))
    return noise + math.sqrt(lambda_1) * norm_inside + math.sqrt(lambda_2) * norm_perpendicular


# ------------------------------------------------------------------------------------------ regret bounds


def table1_exponents(policy: str, order: int) -> tuple[float, float, float]:
    """The exponents ``(a, b, c)`` of a row of Table 1, ``p^a + p^b n^c``, for tensors of an order ``d``.

    >>> table1_exponents("elimination", 3)
    (1.5, 1.0, 0.5)
    """
    _one_of("policy", policy, list(_TABLE_1))
    return _TABLE_1[policy](check_count(order, "order"))


def table1_bound(policy: str, shape: Sequence[int], horizon: int) -> float:
    """The rate of Table 1 with every constant, logarithm and rank set to 1, and ``p = max p_j``.

    ``policy`` is ``"epoch-greedy"``, ``"elimination"``, ``"ucb"`` or ``"estr"``. A rate orders policies as
    ``n`` or ``p`` grow; it does not predict a regret. The table is for ``d >= 3`` and leaves out the
    middle term of Theorem 1.

    >>> table1_bound("ucb", (100, 100, 100), 10_000)
    1100000.0
    >>> table1_bound("elimination", (100, 100, 100), 10_000)
    11000.0
    """
    sizes = check_shape(shape)
    n = check_count(horizon, "horizon")
    first, second, third = table1_exponents(policy, len(sizes))
    p = float(max(sizes))
    return float(p**first + p**second * n**third)


def elimination_bound(
    shape: Sequence[int], rank: Rank, horizon: int, sigma: Sequence[float], *, C: float = 1.0
) -> float:
    """Theorem 1: regret of tensor elimination, up to a constant ``C`` that the paper does not give.

    ``C (r^(d/2) p^(d/2) + (n r^d / prod(sigma_j) * log(p)^(d/2) * p^((d^2+d)/2))^(2/(d+2))
    + (d log p + log n) sqrt(p^(d-1) n))``; it needs ``lambda_1 <= 1/p^d``.

    >>> round(elimination_bound((20, 20, 20), 2, 100_000, [0.8 * 20**1.5] * 3))
    133407
    """
    sizes = check_shape(shape)
    ranks = _ranks(rank, sizes)
    n = check_count(horizon, "horizon")
    check_positive(C, "C")
    d, p, r = _means(sizes, ranks)
    exploration = math.exp(2 / (d + 2) * (math.log(n) + _log_delta(sizes, ranks, sigma)))
    elimination = (d * _log(p) + math.log(n)) * math.sqrt(p ** (d - 1) * n)
    return float(C * ((r * p) ** (d / 2) + exploration + elimination))


def epoch_greedy_bound(shape: Sequence[int], rank: Rank, horizon: int, *, C_0: float = 1.0) -> float:
    """Theorem 2: ``C_0 r^((d-2)/2) p^(d/2) + 8 n^(2/3) p^((d+1)/3) (r log p)^(1/3)``, for ``n >= s_1``.

    >>> round(epoch_greedy_bound((20, 20, 20), 2, 100_000))
    1699574
    """
    sizes = check_shape(shape)
    n = check_count(horizon, "horizon")
    check_positive(C_0, "C_0")
    d, p, r = _means(sizes, _ranks(rank, sizes))
    epochs = n ** (2 / 3) * p ** ((d + 1) / 3) * (r * _log(p)) ** (1 / 3)
    return float(C_0 * r ** ((d - 2) / 2) * p ** (d / 2) + 8 * epochs)


def thompson_bayes_bound(
    shape: Sequence[int], horizon: int, *, entropy: float | None = None, hellinger: float = 0.0
) -> float:
    """Theorem 3: ``sqrt(K H n / 2) + 2 hellinger``, the Bayes regret of approximate Thompson sampling.

    Rewards lie in ``[0, 1]``. ``entropy`` is that of the best cell under the prior, in nats; ``None`` is its
    largest value, ``log K``. ``hellinger`` is the expected Hellinger distance between the sampled and the
    exact law of the best cell, summed over the rounds; 0 for exact Thompson sampling.

    >>> round(thompson_bayes_bound((20, 20, 20), 10_000))
    18960
    """
    cells = math.prod(check_shape(shape))
    n = check_count(horizon, "horizon")
    largest = math.log(cells)
    H = largest if entropy is None else entropy
    if not 0 <= H <= largest * (1 + 1e-12):
        raise ValueError(
            f"entropy is {entropy!r}; for {cells} cells it lies between 0 and log({cells}) = {largest:.6g}; "
            f"give it in nats, or None for the largest value"
        )
    _not_negative("hellinger", hellinger)
    return math.sqrt(cells * H * n / 2) + 2 * hellinger


# ----------------------------------------------------------------------------------------------- numerics


def _means(sizes: Sequence[int], ranks: Sequence[int]) -> tuple[int, float, float]:
    """``d, p, r``: the order and the geometric means."""
    d = len(sizes)
    return d, math.exp(sum(map(math.log, sizes)) / d), math.exp(sum(map(math.log, ranks)) / d)


def _log(p: float) -> float:
    return math.log(max(p, 2.0))


def _ceil(value: float) -> int:
    """Ceiling that forgives rounding: 64.00000000000003 is 64."""
    return math.ceil(value * (1 - 1e-12))


def _log_delta(sizes: Sequence[int], ranks: Sequence[int], sigma: Any) -> float:
    """Logarithm of ``delta_{p,r} = r^d / prod(sigma_j) * p^((d^2+d)/2) * log(p)^(d/2)``; cannot overflow."""
    d, p, r = _means(sizes, ranks)
    values = [] if isinstance(sigma, Real) else list(sigma)
    if len(values) != d or not all(math.isfinite(value) and value > 0 for value in values):
        raise ValueError(
            f"sigma is {sigma!r}; it must hold {d} finite numbers above 0, one per mode; give the smallest "
            f"non-zero singular value of each unfolding"
        )
    logs = d * math.log(r) + (d * d + d) / 2 * math.log(p) + d / 2 * math.log(_log(p))
    return logs - sum(map(math.log, values))


# ------------------------------------------------------------------------------------------------- checks


def _not_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} is {value!r}; it must be finite and at least 0; give 0 to leave it out")


def _one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(map(repr, allowed))}")


def _ranks(rank: Rank, sizes: Cell) -> Cell:
    """One rank per mode; a schedule or a bound needs numbers, so "auto" is refused."""
    ranks = resolve_rank(rank, sizes)
    if ranks is None:
        raise ValueError('rank is "auto"; schedules and bounds need a number: give an int or one rank per mode')
    return ranks
