"""Compiled steps of what features say of the rows of a mode. The plain twins are in ``tests/plain/features.py``.

Notation
--------
G (p, k)    features along axes in which those of rewarded levels are uncorrelated; T (k, p) the same, turned
s (k,)      squares of its columns over rewarded levels   told        axes along which these have features, the first
C (q, k)    coefficients along the axes                   M (q, p)    what rows are about, C T
place       where the mode's rows start, how wide they are, how many columns are fixed, where its columns start
numbers     tau, phi; how many features there are; the least tau and phi; the shape of the share's prior; whether it is
            learned
x           the logarithm of phi^2 / tau^2, where both squares add up to 1

The last axis, which ``told`` does not count, is the constant 1: its coefficients are the average row, of prior
deviation 1.

Rows are divided by the ``sizes`` (q,) of their free columns.
"""

from __future__ import annotations

import numpy as np

from tensorbandits.base.compiled import F1, F2, F3, FLOAT, I1, I2, INT, entry, part
from tensorbandits.model._solve_kernels import draw
from tensorbandits.tensor.tucker import Floats, Ints

TAU, PHI, COUNT, LEAST, SHAPE, LEARNED = range(6)
START, WIDTH, FIXED, COLUMN = range(4)


@part
def scales_at(x: float) -> tuple[float, float]:
    """Return tau and phi."""
    return 1.0 / np.sqrt(1.0 + np.exp(x)), 1.0 / np.sqrt(1.0 + np.exp(-x))


@part
def step(numbers: Floats, owns: int, own: float, guides: int, guided: float, noise: Floats, tries: Floats) -> None:
    """Redraw tau and phi by three Metropolis steps, given so many numbers of each and their sums of squares."""
    for k in range(3 if numbers[LEARNED] > 0.0 else 0):
        tau, phi = numbers[TAU], numbers[PHI]
        x = 2.0 * np.log(phi / tau)
        t, f = scales_at(x + 3.0**k * 2.0 / np.sqrt(owns + guides + 1.0) * noise[k])
        gain = (2.0 * numbers[SHAPE] - owns) * np.log(t / tau) + (2.0 * numbers[SHAPE] - guides) * np.log(f / phi)
        gain -= 0.5 * (own * (t**-2.0 - tau**-2.0) + guided * (f**-2.0 - phi**-2.0))
        if min(t, f) >= numbers[LEAST] and gain > -tries[k]:
            numbers[TAU], numbers[PHI] = t, f


@entry((F1, I1, F1, I1, F2, F2, F1, INT, F1, F2, F1, F1, F1, F1, F1))
def redraw_coefficients(
    rows: Floats,
    place: Ints,
    sizes: Floats,
    levels: Ints,
    G: Floats,
    T: Floats,
    s: Floats,
    told: int,
    numbers: Floats,
    C: Floats,
    noise: Floats,
    steps: Floats,
    tries: Floats,
    prior_rows: Floats,
    prior_precision: Floats,
) -> None:
    """Redraw coefficients, tau and phi given the rows of rewarded ``levels``; then set what all rows are about.

    ``rows`` and ``prior_rows`` are flat, those of the mode from ``place`` on; ``noise`` (q k), ``steps`` (3,) standard
    normal, ``tries`` (3,) standard exponential.
    """
    q, k = C.shape
    width, first, last = place[WIDTH], place[START] + place[FIXED], k - 1
    for a in range(q):
        for c in range(last):
            C[a, c] = 0.0
    for i in levels:
        for a in range(q):
            u = rows[first + i * width + a] / sizes[a] - C[a, last]
            for c in range(last):
                C[a, c] += G[i, c] * u
    own, loose = 1.0 / numbers[TAU] ** 2.0, numbers[COUNT] / numbers[PHI] ** 2.0
    squares = 0.0
    for c in range(told):
        variance = 1.0 / (s[c] * own + loose)
        for a in range(q):
            C[a, c] = variance * own * C[a, c] + np.sqrt(variance) * noise[a * k + c]
            squares += C[a, c] * C[a, c]
    M, variance = means(T, C, 0), 1.0 / (own * len(levels) + 1.0)
    rests = 0.0
    for a in range(q):
        rest = 0.0
        for i in levels:
            rest += rows[first + i * width + a] / sizes[a] - M[a, i] + C[a, last]
        moved = variance * own * rest + np.sqrt(variance) * noise[a * k + last] - C[a, last]
        C[a, last] += moved
        for i in range(M.shape[1]):
            M[a, i] += moved
        for i in levels:
            x = rows[first + i * width + a] / sizes[a] - M[a, i]
            rests += x * x
    step(numbers, len(levels) * q, rests, told * q, numbers[COUNT] * squares, steps, tries)
    spread = numbers[PHI] / np.sqrt(numbers[COUNT])
    for c in range(told, last):
        for a in range(q):
            C[a, c] = spread * noise[a * k + c]
    follow(place, sizes, T, numbers, C, prior_rows, prior_precision)


@part
def means(T: Floats, C: Floats, without: int) -> Floats:
    """Return what all rows are about, (q, p), without so many of the last axes."""
    q, k = C.shape
    M = np.zeros((q, T.shape[1]))
    for a in range(q):
        for c in range(k - without):
            x = C[a, c]
            for i in range(T.shape[1]):
                M[a, i] += T[c, i] * x
    return M


@part
def follow(
    place: Ints, sizes: Floats, T: Floats, numbers: Floats, C: Floats, prior_rows: Floats, prior_precision: Floats
) -> None:
    """Set what the rows of all levels are about, and how precisely."""
    M = means(T, C, 0)
    q, p = M.shape
    width, first, column = place[WIDTH], place[START] + place[FIXED], place[COLUMN] + place[FIXED]
    for a in range(q):
        prior_precision[column + a] = 1.0 / (numbers[TAU] * sizes[a]) ** 2.0
        for i in range(p):
            prior_rows[first + i * width + a] = M[a, i] * sizes[a]


@entry((I1, F1, F2, F1, F2, F1, F1))
def set_prior(
    place: Ints, sizes: Floats, T: Floats, numbers: Floats, C: Floats, prior_rows: Floats, prior_precision: Floats
) -> None:
    """Do the same, called from outside."""
    follow(place, sizes, T, numbers, C, prior_rows, prior_precision)


@entry((INT, I2, F1, F1, FLOAT, FLOAT, I2, F1, F1, INT, F1, F3, F2))
def equations(
    mode: int,
    cells: Ints,
    N: Floats,
    Y: Floats,
    offset: float,
    tau: float,
    dims: Ints,
    rows: Floats,
    core: Floats,
    fixed: int,
    sizes: Floats,
    A: Floats,
    b: Floats,
) -> None:
    """Add to ``A`` (p, q, q) and ``b`` (p, q) what rewards say of the free rows of a mode of a Tucker tensor.

    ``tau`` is the precision of a reward; rows are in units of their columns' ``sizes`` (q,).
    """
    d, q = len(dims[0]), b.shape[1]
    x = np.empty(len(core))
    for n in range(len(cells)):
        for k in range(len(core)):
            x[k] = core[k]
        left, lead, start = len(core), 1, 0
        for j in range(d):
            r = dims[1, j]
            left //= r
            if j == mode:
                lead = r
            else:
                at = start + cells[n, j] * r
                for i in range(lead):
                    for c in range(left):
                        total = 0.0
                        for a in range(r):
                            total += rows[at + a] * x[(i * r + a) * left + c]
                        x[i * left + c] = total
            start += dims[0, j] * r
        i, precision = cells[n, mode], tau * N[n]
        target = tau * (Y[n] - offset * N[n])
        if fixed:
            target -= precision * x[0]
        for a in range(q):
            z = sizes[a] * x[fixed + a]
            b[i, a] += target * z
            for c in range(a + 1):
                A[i, a, c] += precision * z * sizes[c] * x[fixed + c]
    for i in range(len(A)):
        for a in range(q):
            for c in range(a):
                A[i, c, a] = A[i, a, c]


@part
def stretch(
    numbers: Floats,
    own: Floats,
    guided: Floats,
    base: Floats,
    A: Floats,
    b: Floats,
    levels: Ints,
    noise: Floats,
    tries: Floats,
) -> None:
    """Redraw tau and phi by three Metropolis steps, given the rewards, with the parts (q, p) of rows that they scale.

    The ratios in each part stay, and so does the average row ``base`` (q,).
    """
    if numbers[LEARNED] <= 0.0:
        return
    q = len(own)
    both, square_own, square_guided, slope_own, slope_guided = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in levels:
        for a in range(q):
            y, u, v = b[i, a], 0.0, 0.0
            for c in range(q):
                y -= A[i, a, c] * base[c]
                u += A[i, a, c] * own[c, i]
                v += A[i, a, c] * guided[c, i]
            square_own += own[a, i] * u
            both += guided[a, i] * u
            square_guided += guided[a, i] * v
            slope_own += own[a, i] * y
            slope_guided += guided[a, i] * y
    tau, phi = numbers[TAU], numbers[PHI]
    here = slope_own + slope_guided - 0.5 * (square_own + square_guided) - both
    for k in range(3):
        x = 2.0 * np.log(numbers[PHI] / numbers[TAU])
        t, f = scales_at(x + (0.2, 1.0, 5.0)[k] * noise[k])
        g, h = t / tau, f / phi  # what both parts are multiplied with
        there = g * slope_own + h * slope_guided - 0.5 * (g * g * square_own + h * h * square_guided) - g * h * both
        gain = there - here + 2.0 * numbers[SHAPE] * np.log(t * f / (numbers[TAU] * numbers[PHI]))
        if min(t, f) >= numbers[LEAST] and gain > -tries[k]:
            numbers[TAU], numbers[PHI], here = t, f, there
    g, h = numbers[TAU] / tau, numbers[PHI] / phi
    for a in range(q):
        for c in range(own.shape[1]):
            own[a, c] *= g
            guided[a, c] *= h


@entry((F1, I1, F1, F3, F2, I1, F2, F2, F1, F2, I1, F1, F1, F1, F1))
def move_rows(
    rows: Floats,
    place: Ints,
    sizes: Floats,
    A: Floats,
    b: Floats,
    levels: Ints,
    G: Floats,
    T: Floats,
    numbers: Floats,
    C: Floats,
    axes: Ints,
    noise: Floats,
    tries: Floats,
    prior_rows: Floats,
    prior_precision: Floats,
) -> None:
    """Redraw tau, phi, and coefficients along some ``axes`` together with the rows of rewarded ``levels``.

    ``A`` (p, q, q) and ``b`` (p, q) are the normal equations of rows in units of their ``sizes``. What is each level's
    own keeps its ratios as tau moves, and stays as coefficients move. ``noise`` has 3 numbers for the scales, then q
    for each axis, ``tries`` (3,) standard exponential ones. Then it is set what all rows are about.
    """
    q = len(C)
    width, first = place[WIDTH], place[START] + place[FIXED]
    last = C.shape[1] - 1
    M, base = means(T, C, 1), C[:, last]
    own = np.zeros(M.shape)
    for i in levels:
        for a in range(q):
            own[a, i] = rows[first + i * width + a] / sizes[a] - M[a, i] - base[a]
    phi = numbers[PHI]
    stretch(numbers, own, M, base, A, b, levels, noise, tries)
    factor = numbers[PHI] / phi
    for a in range(q):
        for c in range(last):
            C[a, c] *= factor
    M = means(T, C, 0)
    shift(own, M, A, b, levels, G, numbers[COUNT] / numbers[PHI] ** 2.0, C, axes, noise)
    M = means(T, C, 0)
    for i in levels:
        for a in range(q):
            rows[first + i * width + a] = (own[a, i] + M[a, i]) * sizes[a]
    follow(place, sizes, T, numbers, C, prior_rows, prior_precision)


@part
def shift(
    own: Floats,
    M: Floats,
    A: Floats,
    b: Floats,
    levels: Ints,
    G: Floats,
    loose: float,
    C: Floats,
    axes: Ints,
    noise: Floats,
) -> None:
    """Redraw coefficients along some axes given what is each level's own; ``loose`` is their prior precision."""
    q, count = len(C), len(axes)
    size, left = count * q, np.empty(q)
    E, h = np.zeros((size, size)), np.zeros(size)
    for i in levels:
        for a in range(q):
            left[a] = own[a, i] + M[a, i]
            for c in axes:
                left[a] -= G[i, c] * C[a, c]
        for c in range(count):
            g = G[i, axes[c]]
            for a in range(q):
                y = b[i, a]
                for e in range(q):
                    y -= A[i, a, e] * left[e]
                h[c * q + a] += g * y
                for f in range(c + 1):
                    y = g * G[i, axes[f]]
                    for e in range(q):
                        E[c * q + a, f * q + e] += y * A[i, a, e]
    for c in range(size):
        E[c, c] += loose if axes[c // q] < len(G[0]) - 1 else 1.0
    draw(E, h, noise[3:], np.empty((size + 4, size)))
    for c in range(count):
        for a in range(q):
            C[a, axes[c]] = h[c * q + a]
