"""Compiled steps of what features say of the rows of a mode. The plain twins are in ``tests/plain/features.py``.

Notation
--------
G (p, k)    features along axes in which those of rewarded levels are uncorrelated; T (k, p) the same, turned
s (k,)      squares of its columns over rewarded levels   told        axes along which these have features, the first
C (q, k)    coefficients along the axes                   M (q, p)    what rows are about, C T
place       where the mode's rows start, how wide they are, how many columns are fixed, where its columns start
numbers     tau, phi; how many features there are; the least tau and phi that are learned; the shapes of the prior of
            the share, at 0 and at 1; tau where features determine the rows, and the log odds of that, over the density
            of the share's logit but for powers of tau and phi; whether all this is learned
x           the logarithm of phi^2 / tau^2, the share's logit: both squares add up to 1

The last axis, which ``told`` does not count, is the constant 1: its coefficients are the average row, of prior
deviation 1.

Rows are divided by the ``sizes`` (q,) of their free columns.
"""

from __future__ import annotations

import numpy as np

from tensorbandits.base.compiled import F1, F2, F3, FLOAT, I1, I2, INT, entry, part
from tensorbandits.model._solve_kernels import draw
from tensorbandits.tensor.tucker import Floats, Ints

TAU, PHI, COUNT, LEAST, GUIDED, OWN, NONE, ODDS, LEARNED = range(9)
START, WIDTH, FIXED, COLUMN = range(4)


@part
def scales_at(x: float) -> tuple[float, float]:
    """Return tau and phi."""
    return 1.0 / np.sqrt(1.0 + np.exp(x)), 1.0 / np.sqrt(1.0 + np.exp(-x))


@part
def step(numbers: Floats, owns: int, own: float, guides: int, guided: float, noise: Floats, tries: Floats) -> None:
    """Redraw tau and phi by three Metropolis steps, given so many numbers of each and their sums of squares.

    Rows that features determine say nothing but that: these leave it only when they are averaged out.
    """
    for k in range(3 if numbers[LEARNED] > 0.0 and numbers[TAU] > numbers[NONE] else 0):
        tau, phi = numbers[TAU], numbers[PHI]
        x = 2.0 * np.log(phi / tau)
        t, f = scales_at(x + 3.0**k * 2.0 / np.sqrt(owns + guides + 1.0) * noise[k])
        gain = (2.0 * numbers[OWN] - owns) * np.log(t / tau) + (2.0 * numbers[GUIDED] - guides) * np.log(f / phi)
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
def level_given(
    i: int, tau: float, times: float, guided: Floats, left: Floats, A: Floats, L: Floats, y: Floats
) -> float:
    """Return the log density of a level's rewards, with its row averaged out, but for what all scales have in common.

    The row is about ``times`` what features say. ``left`` are its equations with the average row taken off; ``L`` is
    overwritten by the Cholesky factor of the precision of what is the level's own, and ``y`` by its solution with that.
    """
    q = len(y)
    value: float = -q * np.log(tau)
    for a in range(q):
        y[a] = left[i, a]
        for c in range(q):
            y[a] -= times * A[i, a, c] * guided[c, i]
        value += 0.5 * times * guided[a, i] * (left[i, a] + y[a])
    for a in range(q):
        for c in range(a + 1):
            x = A[i, a, c]
            if c == a:
                x += 1.0 / (tau * tau)
            for e in range(c):
                x -= L[a, e] * L[c, e]
            L[a, c] = np.sqrt(x) if c == a else x / L[c, c]
        for c in range(a):
            y[a] -= L[a, c] * y[c]
        y[a] /= L[a, a]
        value += 0.5 * y[a] * y[a] - np.log(L[a, a])
    return value


@part
def evidence(
    tau: float, times: float, guided: Floats, left: Floats, A: Floats, levels: Ints, L: Floats, y: Floats
) -> float:
    """Return the log density of the rewards of all levels, with their rows averaged out."""
    total = 0.0
    for i in levels:
        total += level_given(i, tau, times, guided, left, A, L, y)
    return total


@part
def weigh(
    numbers: Floats,
    own: Floats,
    guided: Floats,
    base: Floats,
    A: Floats,
    b: Floats,
    levels: Ints,
    learned: bool,
    noise: Floats,
    tries: Floats,
) -> None:
    """Redraw tau and phi, if they are ``learned``, given the rewards, rows averaged out; then what is levels' own.

    What features say, ``guided`` (q, p), keeps its ratios, and the average row ``base`` (q,) stays. There are three
    Metropolis steps on the logit of the share, and one to rows that features determine, or from these to a logit drawn
    between those of 3/4 and of the largest share that is learned. Numbers for what is levels' own follow in ``noise``.
    """
    q, phi = len(own), numbers[PHI]
    left, L, y = np.empty((len(A), q)), np.empty((q, q)), np.empty(q)
    for i in levels:
        for a in range(q):
            left[i, a] = b[i, a]
            for c in range(q):
                left[i, a] -= A[i, a, c] * base[c]
    if learned:
        here = evidence(numbers[TAU], 1.0, guided, left, A, levels, L, y)
        lowest, highest = np.log(3.0), np.log(numbers[LEAST] ** -2.0 - 1.0)
        for k in range(4):
            none, x = numbers[TAU] <= numbers[NONE], 2.0 * np.log(numbers[PHI] / numbers[TAU])
            gain = 0.0
            if k == 3 and none:
                x = lowest + (highest - lowest) * np.exp(-tries[4])
                t, f = scales_at(x)
                gain = slab(numbers, t, f) + np.log(highest - lowest)
            elif k == 3:
                if x < lowest or x > highest:
                    continue
                t = numbers[NONE]
                f = np.sqrt(1.0 - t * t)
                gain = -slab(numbers, numbers[TAU], numbers[PHI]) - np.log(highest - lowest)
            else:
                t, f = scales_at(x + (0.2, 1.0, 5.0)[k] * noise[k])
                if none or min(t, f) < numbers[LEAST]:
                    continue
                gain = slab(numbers, t, f) - slab(numbers, numbers[TAU], numbers[PHI])
            there = evidence(t, f / phi, guided, left, A, levels, L, y)
            if gain + there - here > -tries[k]:
                numbers[TAU], numbers[PHI], here = t, f, there
    for i in levels:
        level_given(i, numbers[TAU], numbers[PHI] / phi, guided, left, A, L, y)
        for a in range(q - 1, -1, -1):
            x = y[a] + noise[3 + i * q + a]
            for c in range(a + 1, q):
                x -= L[c, a] * own[c, i]
            own[a, i] = x / L[a, a]
    factor = numbers[PHI] / phi
    for a in range(q):
        for c in range(guided.shape[1]):
            guided[a, c] *= factor


@part
def slab(numbers: Floats, tau: float, phi: float) -> float:
    """Return the log prior density of the share's logit over the probability that features determine the rows."""
    density: float = 2.0 * (numbers[OWN] * np.log(tau) + numbers[GUIDED] * np.log(phi)) - numbers[ODDS]
    return density


@entry((F1, I1, F1, F3, F2, I1, F2, F2, F1, F2, I1, INT, F1, F1, F1, F1))
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
    scales: int,
    noise: Floats,
    tries: Floats,
    prior_rows: Floats,
    prior_precision: Floats,
) -> None:
    """Redraw ``scales``, and coefficients along some ``axes`` together with the rows of rewarded ``levels``.

    ``A`` (p, q, q) and ``b`` (p, q) are the normal equations of rows in units of their ``sizes``. What is each level's
    own is averaged out as tau moves, and stays as coefficients move. ``noise`` has 3 numbers for the scales, q for each
    level, then q for each axis, ``tries`` (5,) standard exponential ones. Then it is set what all rows are about.
    """
    q = len(C)
    width, first = place[WIDTH], place[START] + place[FIXED]
    last = C.shape[1] - 1
    M, base = means(T, C, 1), C[:, last]
    own = np.zeros(M.shape)
    phi = numbers[PHI]
    weigh(numbers, own, M, base, A, b, levels, scales > 0 and numbers[LEARNED] > 0.0, noise, tries)
    factor = numbers[PHI] / phi
    for a in range(q):
        for c in range(last):
            C[a, c] *= factor
    M = means(T, C, 0)
    shift(own, M, A, b, levels, G, numbers[COUNT] / numbers[PHI] ** 2.0, C, axes, noise[3 + M.size :])
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
    draw(E, h, noise, np.empty((size + 4, size)))
    for c in range(count):
        for a in range(q):
            C[a, axes[c]] = h[c * q + a]
