"""Suite ``features``: what features of offers are worth when offers are new, and what they cost when they say nothing.

Everything is measured on simulated worlds of rank 2, world by world for all ways to use the features: *ignored*,
*guiding* (how much they say is learned), and *determining* (whatever an offer has of its own is left out).
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks.library.features_worlds import CHANNELS, LOG, OFFER, SEGMENTS, WAYS, World
from benchmarks.paper.worlds import Floats
from benchmarks.report import Findings, command
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.bandit import warm_start
from tensorbandits.report.page import Part, Table, Text

NAME = "features"
MEASURED = "tensorbandits.policies.thompson"
ALONE = False
TITLE = "Features of levels: new offers, noise, intervals and time"

SHARES, KNOWN, COUNT = (0.0, 0.3, 0.7, 1.0), 20, 5
NEW = {10: 400, 200: 800}  # new offers, and the rounds that are played then
FEWER = 20  # worlds of as many offers, and of what takes long
AT_MOST = 1.05  # guiding beside the better of the other two
ROLLING = ("prior", "like", "features", "known")
PLAYED, EVERY, ROLLED = 20, 40, (0.7, 1.0)  # offers at a time; rounds after which one is replaced; shares explained
NOISY, HARM_ROUNDS, HARM_WORLDS = {"none": 0, "5 of noise": 5, "20 of noise": 20}, 600, 6
MISLED, PART = ("none", "misleading"), 200
LEVEL, WITHIN, COVER_SHARES = 0.9, (0.86, 0.94), (0.3, 0.7, 1.0)
SHAPES = {"10 x 10 x 10": (10, 10, 10), "20 x 30 x 5": (20, 30, 5), "1,000 x 20 x 5": (1_000, 20, 5)}
TIMED = {"10 x 10 x 10": (0, 20, 300), "20 x 30 x 5": (0, 20, 300), "1,000 x 20 x 5": (0, 50)}
MOST_TIMES = {20: 1.3, 50: None, 300: 2.0}
SPELLS, SPELL = 12, 50


def plan(options: Options) -> list[Settings]:
    """Every way on every world."""
    runs = 1 if options.quick else options.replications
    short = {"rounds": 40} if options.quick else {}
    seeds = range(options.fresh_seed, options.fresh_seed + runs)
    shapes = list(SHAPES)[:1] if options.quick else list(SHAPES)
    wanted = [{"task": "time", "shape": shape, "spells": 2 if options.quick else SPELLS} for shape in shapes]
    for number, seed in enumerate(seeds):
        few = number < FEWER
        for share in SHARES:
            for count, rounds in list(NEW.items())[: 2 if few and not options.quick else 1]:
                each = {"task": "new", "share": share, "new": count, "seed": seed, "rounds": rounds} | short
                wanted += [each | {"way": way} for way in WAYS]
        for share in ROLLED if few else ():
            each = {"task": "rolling", "share": share, "seed": seed, "every": 2 if options.quick else EVERY}
            wanted += [each | {"way": way} for way in ROLLING]
        each = {"task": "misled", "seed": seed, "rounds": 2 * HARM_ROUNDS} | short
        wanted += [each | {"way": way} for way in MISLED if few]
        wanted += [{"task": "covers", "share": share, "seed": seed} for share in COVER_SHARES]
        for more in range(1 if options.quick else HARM_WORLDS):
            each = {"task": "noise", "seed": HARM_WORLDS * seed + more, "rounds": HARM_ROUNDS} | short
            wanted += [each | {"way": way} for way in NOISY]
    return wanted


def label(settings: Settings) -> str:
    """A measurement in words."""
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def measure(settings: Settings) -> Result:
    """Make one measurement."""
    tasks: dict[str, Callable[[Settings], Result]] = {
        "new": new_offers,
        "rolling": rolling,
        "noise": noise,
        "misled": misled,
        "covers": covers,
        "time": times,
    }
    return tasks[settings["task"]](settings)


def new_offers(settings: Settings) -> Result:
    """Regret after a log of known offers, when new ones are there at once."""
    seed, way = settings["seed"], WAYS[settings["way"]]
    rng = np.random.default_rng([seed, 1, settings["new"], round(100 * settings["share"])])
    world = World.drawn(KNOWN + settings["new"], COUNT, settings["share"], rng)
    policy = world.policy(None if way is None else world.features, seed, **(way or {}))
    world.tell_log(policy, KNOWN, LOG, rng)
    losses, _ = world.play(policy, settings["rounds"], rng)
    return {"regret": float(losses.sum()), "first": float(losses[:100].sum())}


def rolling(settings: Settings) -> Result:
    """Regret of a campaign whose offers are replaced one by one until none of the first is left."""
    seed, way, every = settings["seed"], settings["way"], settings["every"]
    rng = np.random.default_rng([seed, 2, round(100 * settings["share"])])
    world = World.drawn(2 * PLAYED, COUNT, settings["share"], rng)
    features, offers_there = world.features if way == "features" else None, 2 * PLAYED if way == "known" else PLAYED
    policy = world.policy(features, seed, offers=offers_there)
    world.tell_log(policy, PLAYED, LOG, rng)
    if way == "known":
        world.tell_log(policy, PLAYED, LOG, np.random.default_rng([seed, 8]), first=PLAYED)
    offers, losses, early = list(range(PLAYED)), [], 0.0
    for fresh in range(PLAYED, 2 * PLAYED):
        if way != "known":
            _add(policy, world, fresh, way, offers)
        offers = [*offers[1:], fresh]
        lost, played = world.play(policy, every, rng, offers)
        losses.append(lost)
        early += float(lost[played == fresh].sum())
    return {"regret": float(np.concatenate(losses).sum()), "of new": early}


def _add(policy: tb.Policy, world: World, fresh: int, way: str, offers: list[int]) -> None:
    """Give a policy a new offer, which starts from the prior, like the nearest one, or with its features."""
    start = None
    if way == "like":
        distances = ((world.features[offers] - world.features[fresh]) ** 2).sum(axis=1)
        start = warm_start.like(policy, OFFER, offers[int(np.argmin(distances))], None)
    policy.grow(OFFER)
    if start is not None:
        policy.tell_ledger(start, pseudo=True)
    if way == "features":
        policy.describe(OFFER, world.features[: fresh + 1])


def noise(settings: Settings) -> Result:
    """Regret of a campaign from the start whose features, if there are any, say nothing."""
    seed, count = settings["seed"], NOISY[settings["way"]]
    rng = np.random.default_rng([seed, 3])
    world = World.drawn(KNOWN, 1, 0.0, rng)
    features = np.random.default_rng([seed, 4]).standard_normal((KNOWN, max(count, 1)))
    policy = world.policy(features if count else None, seed)
    losses, _ = world.play(policy, settings["rounds"], rng)
    return {"regret": float(losses.sum())}


def misled(settings: Settings) -> Result:
    """Regret when features explained the offers of a log, and new ones have those of others."""
    seed = settings["seed"]
    rng = np.random.default_rng([seed, 5])
    world = World.drawn(2 * KNOWN, COUNT, 1.0, rng)
    wrong = np.vstack([world.features[:KNOWN], world.features[KNOWN:][np.roll(np.arange(KNOWN), 1)]])
    policy = world.policy(wrong if settings["way"] == "misleading" else None, seed)
    world.tell_log(policy, KNOWN, LOG, rng)
    losses, _ = world.play(policy, settings["rounds"], rng)
    part = min(PART, settings["rounds"] // 2)
    return {"regret": float(losses.sum()), "first": float(losses[:part].sum()), "last": float(losses[-part:].sum())}


def covers(settings: Settings) -> Result:
    """The share of cells of offers that were never tried whose means are within their intervals."""
    rng = np.random.default_rng([settings["seed"], 6, round(100 * settings["share"])])
    world = World.drawn(2 * KNOWN, COUNT, settings["share"], rng)
    cells = np.argwhere(np.ones(world.mean.shape))
    cells, found = cells[cells[:, OFFER] >= KNOWN], {}
    means = world.mean[tuple(cells.T)]
    for way, features in (("features", world.features), ("none", None)):
        policy = world.policy(features, settings["seed"])
        world.tell_log(policy, KNOWN, LOG, np.random.default_rng([settings["seed"], 7]))
        low, high = policy.interval(cells, LEVEL).T
        found[way] = [float(((low <= means) & (means <= high)).mean()), float(np.median(high - low))]
    return found


def times(settings: Settings) -> Result:
    """Milliseconds of the processor for a round, of policies with features and without, in turns on the same world."""
    shape, rng = SHAPES[settings["shape"]], np.random.default_rng(0)
    rows = [rng.standard_normal((size, 2)) for size in shape]
    mean = np.einsum("abc,ia,jb,kc->ijk", rng.standard_normal((2, 2, 2)), *rows)
    mean /= mean.std()
    players = {}
    for count in TIMED[settings["shape"]]:
        features = {mode: rng.standard_normal((size, count)) for mode, size in enumerate(shape)} if count else None
        policy = tb.TensorThompsonSampling(shape, 2, context=(0,), features=features, residual=False, seed=0)
        players[count] = policy, np.random.default_rng(1)
    spent: dict[str, list[float]] = {str(count): [] for count in players}
    for spell in range(settings["spells"] + 1):
        for count, (policy, own) in players.items():
            start = process_time()
            for _ in range(SPELL):
                cell = policy.ask((int(own.integers(shape[0])),))
                policy.tell(cell, float(mean[cell] + own.standard_normal()))
            if spell:  # the first loads what is compiled
                spent[str(count)].append(1e3 * (process_time() - start) / SPELL)
    return spent


def section(store: Store, options: Options) -> Findings:
    """Report all tasks."""
    found = [(settings, result) for settings in plan(options) if (result := store.get(settings)) is not None]
    parts: list[Part] = [command(NAME, *options.flags)]
    data = {}
    for task, write in (
        ("new", of_new),
        ("rolling", _of_rolling),
        ("noise", _of_noise),
        ("misled", _of_misled),
        ("covers", _of_covers),
        ("time", _of_times),
    ):
        here = [(settings, result) for settings, result in found if settings["task"] == task]
        if here:
            words, header, rows = write(here)
            parts += [Text(words), Table(header, rows)]
            data[task] = [dict(zip(header, row, strict=True)) for row in rows]
    return parts, data


Rows = tuple[str, list[str], list[list[str]]]
Found = list[tuple[Settings, Result]]


def by_way(found: Found, name: str = "regret", **given: Any) -> dict[str, Floats]:
    """Return a number of each way, in the order of worlds, of the measurements with these settings."""
    table: dict[str, dict[int, float]] = {}
    for settings, result in found:
        if all(settings[key] == value for key, value in given.items()):
            table.setdefault(settings["way"], {})[settings["seed"]] = result[name]
    common = sorted(set.intersection(*(set(one) for one in table.values()))) if table else []
    return {way: np.array([one[seed] for seed in common]) for way, one in table.items()}


def ratio(ours: Floats, theirs: Floats) -> tuple[float, float]:
    """Return the ratio of two means of paired numbers, and its standard error."""
    value = float(ours.mean() / theirs.mean()) if theirs.mean() else float("inf")
    if len(ours) < 2 or not np.isfinite(value):
        return value, float("nan")
    return value, float(np.std(ours - value * theirs, ddof=1) / np.sqrt(len(ours)) / theirs.mean())


def _said(value: tuple[float, float]) -> str:
    return f"{value[0]:.2f} ± {value[1]:.2f}" if np.isfinite(value[1]) else f"{value[0]:.2f}"


def _verdict(value: tuple[float, float], most: float) -> str:
    """Whether a ratio is at most so much; where its error allows both, that is said."""
    fine = value[0] <= most
    sure = np.isfinite(value[1]) and abs(value[0] - most) > 1.645 * value[1]
    return ("holds" if fine else "does not hold here") + ("" if sure else ", within the error")


def of_new(found: Found) -> Rows:
    rows = []
    for share in sorted({settings["share"] for settings, _ in found}):
        for new in sorted({settings["new"] for settings, _ in found}):
            ways = by_way(found, share=share, new=new)
            first = by_way(found, "first", share=share, new=new)
            better = min(("ignored", "determining"), key=lambda way: ways[way].mean())
            beside = ratio(ways["guiding"], ways[better])
            means = [f"{ways[way].mean():,.0f}" for way in WAYS]
            early = _said(ratio(first["guiding"], first["ignored"]))
            row = [f"{share:.0%}", str(new), str(len(ways["guiding"])), *means, better, _said(beside), early]
            rows.append([*row, _verdict(beside, AT_MOST)])
    words = (
        f"New offers: {SEGMENTS} segments, which are given, {CHANNELS} channels and {KNOWN} offers of which there is a "
        f"log of {LOG} rewards; then new offers come all at once, and {_rounds(found)} rounds are played. "
        f"{COUNT} features explain a share of the variance of the offers' rows. Mean regrets; guiding beside the "
        "better of the other two, as a ratio of means with its standard error, world by world; and guiding beside "
        f"ignored in the first 100 rounds. At most {AT_MOST} is wanted."
    )
    header = ["explained", "new offers", "worlds", *WAYS, "better", "guiding beside it", "first 100 beside ignored"]
    return words, [*header, "verdict"], rows


def _rounds(found: Found) -> str:
    each = {settings["new"]: settings["rounds"] for settings, _ in found}
    return " or ".join(str(rounds) for _, rounds in sorted(each.items()))


def _of_rolling(found: Found) -> Rows:
    rows = []
    for share in sorted({settings["share"] for settings, _ in found}):
        ways, early = (by_way(found, name, share=share) for name in ("regret", "of new"))
        saved = ratio(ways["prior"] - ways["features"], ways["prior"] - ways["known"])
        beside = ratio(ways["features"], ways["like"])
        means = [f"{ways[way].mean():,.0f}" for way in ROLLING]
        row = [f"{share:.0%}", str(len(ways["prior"])), *means, _said(saved), _said(beside)]
        row += [_said(ratio(early["features"], early["prior"]))]
        rows.append([*row, _verdict((-saved[0], saved[1]), -0.5), _verdict(beside, 1.0)])
    words = (
        f"{PLAYED} offers, of which there is a log; every {found[0][0]['every']} rounds one goes and a new one comes, "
        "until none of the first is left. The new one starts from the prior, like the offer with the nearest features "
        "(`like=`), or with its features; or it is *known* by as many rewards of a log as the others. Mean regrets. "
        "What starting from the prior costs is the regret beyond that with known offers; of this features save a "
        "share, of which half is wanted, and they are to beat `like=`. *Of new* is the regret of rounds that play the "
        "newest offer."
    )
    header = ["explained", "worlds", *ROLLING, "saved by features", "beside like", "of new, beside prior"]
    return words, [*header, "half is saved", "better than like"], rows


def _of_noise(found: Found) -> Rows:
    ways = by_way(found)
    rows = []
    for way, regrets in ways.items():
        beside = ratio(regrets, ways["none"])
        words = "" if way == "none" else _verdict(beside, 1.03)
        rows.append([way, str(len(regrets)), f"{regrets.mean():,.1f}", _said(beside), words])
    said = (
        f"{KNOWN} offers from the start, {found[0][0]['rounds']:,} rounds, with features that say nothing. At most "
        "1.03 is wanted."
    )
    return said, ["features", "worlds", "regret", "beside none", "verdict"], rows


def _of_misled(found: Found) -> Rows:
    rows = []
    for name, words in (("first", "first"), ("last", "last"), ("regret", "all")):
        ways = by_way(found, name)
        beside = ratio(ways["misleading"], ways["none"])
        means = [f"{ways[way].mean():,.1f}" for way in MISLED]
        rows.append([words, str(len(ways["none"])), *means, _said(beside)])
    said = (
        f"Features determined the {KNOWN} offers of a log; {KNOWN} new ones have each the features of another one. "
        f"Mean regrets of the first {PART} rounds, the last {PART}, and all {found[0][0]['rounds']:,}."
    )
    return said, ["rounds", "worlds", *MISLED, "misleading beside none"], rows


def _of_covers(found: Found) -> Rows:
    rows = []
    for share in sorted({settings["share"] for settings, _ in found}):
        results = [result for settings, result in found if settings["share"] == share]
        for way in ("features", "none"):
            held, width = np.array([result[way] for result in results]).T
            error = float(np.std(held, ddof=1) / np.sqrt(len(held))) if len(held) > 1 else float("nan")
            fine = "holds" if WITHIN[0] <= held.mean() <= WITHIN[1] else "does not hold here"
            rows.append(
                [f"{share:.0%}", way, str(len(held)), f"{held.mean():.1%} ± {error:.1%}", f"{width.mean():.2f}"]
            )
            rows[-1].append(fine)
    said = (
        f"The share of cells of {KNOWN} offers that were never tried whose means are within the {LEVEL:.0%} intervals, "
        f"after a log of {KNOWN} others, averaged over worlds with its standard error; {WITHIN[0]:.0%} to "
        f"{WITHIN[1]:.0%} is wanted. The width is the median, where means have a standard deviation of 1."
    )
    return said, ["explained", "features", "worlds", "within", "width", "verdict"], rows


def _of_times(found: Found) -> Rows:
    rows = []
    for settings, result in found:
        alone = np.array(result["0"])
        for count, spent in result.items():
            beside = float(np.median(np.array(spent) / alone))
            most = MOST_TIMES.get(int(count))
            verdict = "" if most is None else "holds" if beside <= most else "does not hold here"
            rows.append([settings["shape"], count, f"{np.median(spent):.3f}", f"{beside:.2f}", verdict])
    said = (
        f"Milliseconds of the processor for a round, medians of spells of {SPELL} rounds in turns from the first on, "
        "with so many features for every mode, where cells do not deviate (`residual=False`); and the median ratio to "
        "those without. At most 1.3 times is wanted for 20 features, and 2 for 300."
    )
    return said, ["shape", "features of each mode", "milliseconds", "beside none", "verdict"], rows
