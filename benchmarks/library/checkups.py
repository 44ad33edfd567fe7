"""Suite ``checkup``: what is said of drift and of structure, beside the truth of simulated worlds."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.report import Findings, command
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Table, Text

NAME = "checkup"
MEASURED = "tensorbandits.bandit.checkup"
ALONE = False
TITLE = "Checkup: what is said of drift and structure beside what is true"

SHAPE = {"segment": "abcd", "offer": "efghij", "channel": "xyz"}
TRUTHS = {
    "nothing differs": "every combination earns the same",
    "main effects": "levels differ, and add up",
    "interactions": "two thirds of what combinations differ by is due to segment and offer acting together",
}
KINDS = ("bernoulli", "gaussian")
AFTER = (0, 100, 1_000, 10_000)
SEEDS = 3
TOGETHER = 25  # decisions that are made before their rewards are told
VERDICTS = ("too few", "nothing", "open", "alone", "together")
RIGHT = {  # what may be said of a truth; that there are too few rewards always
    "nothing differs": ("too few", "nothing"),
    "main effects": ("too few", "open", "alone"),
    "interactions": ("too few", "open", "together"),
}
HALF = {"bernoulli": math.log(2.0), "gaussian": 0.5}  # by which a level falls: to about half, half of the spread


def plan(options: Options) -> list[Settings]:
    """The runs: each truth, still or with an offer that falls, for clicks and for normal rewards."""
    seeds, after = (1, AFTER[:2]) if options.quick else (SEEDS, AFTER)
    return [
        {"truth": truth, "kind": kind, "moves": moves, "seeds": seeds, "after": list(after)}
        for truth in TRUTHS
        for kind in KINDS
        for moves in (False, True)
    ]


def label(settings: Settings) -> str:
    return f"{settings['truth']}, {settings['kind']}" + (", an offer falls" if settings["moves"] else "")


def values(truth: str, rng: np.random.Generator) -> np.ndarray:
    """What combinations are worth, on the scale of log-odds or of rewards, with a standard deviation of 0.6."""
    sizes = [len(labels) for labels in SHAPE.values()]
    if truth == "nothing differs":
        return np.zeros(sizes)
    effects = [rng.standard_normal(size) for size in sizes]
    main = sum(np.expand_dims(one, tuple(j for j in range(3) if j != at)) for at, one in enumerate(effects))
    main = main - main.mean()
    rows = [one - one.mean() for one in (rng.standard_normal(size) for size in sizes[:2])]
    both = np.broadcast_to(np.multiply.outer(*rows)[..., None], sizes)
    parts = [(main, 1.0)] if truth == "main effects" else [(main, 1 / 3), (both, 2 / 3)]
    return 0.6 * sum(math.sqrt(share) * one / one.std() for one, share in parts)


def measure(settings: Settings) -> Result:
    """Count what is said after so many rewards; where an offer falls, it does so half way."""
    said: dict[str, dict[str, int]] = {str(n): {} for n in settings["after"]}
    for seed in range(settings["seeds"]):
        for end in settings["after"]:
            for word in _played(settings, seed, end):
                said[str(end)][word] = said[str(end)].get(word, 0) + 1
    return {"said": said}


def _played(settings: Settings, seed: int, end: int) -> list[str]:
    """What a bandit says after so many rewards: of structure, of drift, and whether the latter is wrong."""
    import tensorbandits as tb

    kind, rng = settings["kind"], np.random.default_rng([5, seed, list(TRUTHS).index(settings["truth"])])
    before = values(settings["truth"], rng)
    space = tb.Space({mode: list(labels) for mode, labels in SHAPE.items()}, context=["segment"])
    bandit = tb.Bandit(space, reward=kind, floors=0.3, seed=seed)  # all are played: what is not cannot be known
    fallen, after = "h", before.copy()
    after[:, 3] -= HALF[kind] * settings["moves"]
    for first in range(0, end, TOGETHER):
        times = range(first, min(first + TOGETHER, end))
        for t, decision in [(t, bandit.ask(segment=SHAPE["segment"][rng.integers(4)])) for t in times]:
            value = (before if t < end // 2 else after)[space.cell({**decision.context, **decision.arm})]
            click = rng.random() < 1.0 / (1.0 + math.exp(1.5 - value))
            bandit.tell(decision, int(click) if kind == "bernoulli" else float(value + rng.standard_normal()))
    found = bandit.diagnose()
    named = [(one.mode, one.label) for one in found.moved]
    words = [found.matters.verdict, f"drift: {found.drift.verdict}"]
    if settings["moves"]:
        judged = fallen not in found.drift.unjudged.get("offer", ())
        if (found.drift.verdict == "still" and judged) or (named and named != [("offer", fallen)]):
            words.append("drift: wrong")
    elif named:
        words.append("drift: wrong")
    return words


def _wrong(truth: str, moves: bool, said: dict[str, int]) -> int:
    """How often what is said of structure is wrong; an offer that fell differs from the others by itself."""
    fell = ("nothing", "open", "alone") if moves and truth == "nothing differs" else ()
    return sum(said.get(word, 0) for word in VERDICTS if word not in (*RIGHT[truth], *fell))


def section(store: Store, options: Options) -> Findings:
    wanted = [(settings, store.get(settings)) for settings in plan(options)]
    rows = [(settings, result["said"]) for settings, result in wanted if result is not None]
    acting = ["truth", "rewards", "after", *VERDICTS, "wrong"]
    first: list[list[str]] = []
    for truth in TRUTHS:
        for kind in KINDS:
            some = [(s, said) for s, said in rows if (s["truth"], s["kind"]) == (truth, kind)]
            for end in sorted({end for s, _ in some for end in s["after"]}):
                counts = [sum(said[str(end)].get(word, 0) for _, said in some) for word in VERDICTS]
                wrong = sum(_wrong(truth, s["moves"], said[str(end)]) for s, said in some)
                runs = sum(s["seeds"] for s, _ in some)
                first.append([truth, kind, f"{end:,}", *map(str, counts), f"{wrong} of {runs}"])
    moving = ["world", "rewards", "after", "too few", "still", "moved", "wrong"]
    second: list[list[str]] = []
    for moves in (False, True):
        for kind in KINDS:
            some = [(s, said) for s, said in rows if (s["moves"], s["kind"]) == (moves, kind)]
            for end in sorted({end for s, _ in some for end in s["after"]}):
                names = ("too few", "still", "moved", "wrong")
                counts = [sum(said[str(end)].get(f"drift: {word}", 0) for _, said in some) for word in names]
                runs = sum(s["seeds"] for s, _ in some)
                world = "an offer falls" if moves else "nothing moves"
                second.append([world, kind, f"{end:,}", *map(str, counts[:3]), f"{counts[3]} of {runs}"])
    parts: list[Part] = [
        command(NAME, *options.flags),
        Text(
            "What is said of structure, on the page's views of effects and of drift alike, by bandits of "
            "4 x 6 x 3 combinations: "
            + "; ".join(f"{name}: {words}" for name, words in TRUTHS.items())
            + ". Wrong is that modes act together, or that levels differ, where they do not, and that main effects "
            "suffice, or that there is nothing to learn, where modes act together or levels differ."
        ),
        Table(acting, first),
        Text(
            "What is said of drift. Half way through its rewards one of six offers falls: of clicks its odds to half, "
            "of normal rewards its mean by half of the spread of single ones; or nothing moves. Wrong is an alarm "
            "where nothing moved, another level than the one that fell, and that nothing has moved, unless this offer "
            "is listed as one that cannot be judged: a fall of just this size is to be missed in at most one of five."
        ),
        Table(moving, second),
    ]
    tables = {
        "structure": [dict(zip(acting, row)) for row in first],
        "drift": [dict(zip(moving, row)) for row in second],
    }
    return parts, tables
