"""Suite ``change``: worlds that change at half time, because a channel's effects switch or because a new offer comes.

A bandit decides among offers and channels for a segment that is given. Rewards have a standard deviation of 1 about
means that have one of 1 from cell to cell.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import tensorbandits as tb
from benchmarks import figures
from benchmarks.report import Findings, command
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Picture, Table, Text

NAME = "change"
ALONE = False
TITLE = "Change: channels that switch, offers that come and go"
MEASURED = "tensorbandits.bandit.bandit"

SHAPE, REPLICATIONS, ROUNDS, QUICK_ROUNDS = (4, 10, 5), 20, 6_000, 400
HALF_LIFE, RANK = 600, 2  # rewards, and what the bandit is told
POINTS = 40  # of a curve
RECOVERED, AWHILE = 0.9, 200  # of what the new best pays beyond a cell drawn at random, over so many decisions
MOST, SOON = 0.5, 0.05  # of its context's traffic, within so much of all rounds
STARTS = ("added", "like another", "all anew")
RETIRED = "offer 1"


def plan(options: Options) -> list[Settings]:
    seeds = range(options.fresh_seed, options.fresh_seed + (2 if options.quick else REPLICATIONS))
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    half_life = HALF_LIFE * rounds // ROUNDS
    worlds = [(True, None), (True, half_life), (False, half_life)]
    return [
        {"task": "switch", "switches": switches, "half_life": given, "rounds": rounds, "seed": seed}
        for seed in seeds
        for switches, given in worlds
    ] + [{"task": "level", "start": start, "rounds": rounds, "seed": seed} for seed in seeds for start in STARTS]


def label(settings: Settings) -> str:
    what = settings["start"] if settings["task"] == "level" else f"half-life {settings['half_life']}"
    return f"{settings['task']}, {what}, seed {settings['seed']}"


def measure(settings: Settings) -> Result:
    return switch(settings) if settings["task"] == "switch" else level(settings)


def switch(settings: Settings) -> Result:
    """Let the effects of the channel that is best most often turn around; return what is earned then, and named."""
    rounds, rng = settings["rounds"], np.random.default_rng([settings["seed"], 11])
    before = _means(rng)
    channel = int(np.bincount(before.reshape(SHAPE[0], -1).argmax(axis=1) % SHAPE[2]).argmax())
    after = before.copy()
    if settings["switches"]:
        after[:, :, channel] = 2.0 * before.mean() - before[:, :, channel]
    bandit = _bandit(_space(SHAPE[1]), settings["seed"], half_life=settings["half_life"])
    first = _play(bandit, before, rounds // 2, rng)
    then = _play(bandit, after, rounds // 8, rng)
    soon = bandit.diagnose(max_rank=1)
    then = np.concatenate([then, _play(bandit, after, rounds - rounds // 2 - len(then), rng)])
    late = bandit.diagnose(max_rank=1)
    earned = _earned(then, after)
    rolling = np.convolve(earned, np.ones(AWHILE) / AWHILE, "valid")
    back = np.flatnonzero(rolling >= RECOVERED)
    halves = np.concatenate([_earned(first, before), earned])
    return {
        "curve": [float(part.mean()) for part in np.array_split(halves, POINTS)],
        "recovered": int(back[0]) + AWHILE if len(back) else None,
        "moved": f"channel {channel}",
        "soon": [one.label for one in soon.moved],
        "late": [one.label for one in late.moved],
        "evidence": min(late.evidence, 1e300),
    }


def level(settings: Settings) -> Result:
    """Bring an offer that is better than the best, and retire another; return how soon it carries the traffic."""
    rounds, rng = settings["rounds"], np.random.default_rng([settings["seed"], 13])
    means = _means(rng)
    like = int(means.max(axis=(0, 2)).argmax())
    better = np.concatenate([means, 1.3 * means[:, like : like + 1]], axis=1)
    new, anew = f"offer {SHAPE[1]}", settings["start"] == "all anew"
    bandit = _bandit(_space(SHAPE[1] + anew), settings["seed"])
    if not anew:
        _play(bandit, better, rounds // 2, rng)
        start = {} if settings["start"] == "added" else {"like": f"offer {like}"}
        bandit.add_level("offer", new, **start)
    bandit.retire_level("offer", RETIRED)
    cells = _play(bandit, better, rounds - rounds // 2, rng)
    best = np.array([np.unravel_index(some.argmax(), some.shape)[0] for some in better])
    its = np.flatnonzero(best == SHAPE[1])  # segments in which the new offer is best
    here = np.isin(cells[:, 0], its)
    carried = (cells[here, 1] == SHAPE[1]).astype(float)
    window = np.convolve(carried, np.ones(20) / 20, "valid") > MOST
    most = np.flatnonzero(window)
    gaps = np.array([some.max() for some in better])[cells[:, 0]] - better[tuple(cells.T)]
    return {
        "segments": len(its),
        "most": int(np.flatnonzero(here)[most[0] + 19]) + 1 if len(most) else None,
        "share": float(carried[np.flatnonzero(here) < SOON * rounds].mean()) if len(its) else None,
        "wasted": int((gaps > 0).sum()),
        "regret": float(gaps.sum()),
        "retired": int((cells[:, 1] == int(RETIRED.split()[1])).sum()),
    }


def _means(rng: np.random.Generator) -> np.ndarray:
    """Means of rank 2: what a segment likes of an offer, and an offer of a channel, mostly has the same sign."""
    factors = [1.0 + rng.standard_normal((size, 2)) for size in SHAPE]
    values = np.einsum("ia,ja,ka->ijk", *factors)
    return np.asarray(values / values.std())


def _space(offers: int) -> tb.Space:
    sizes = {"segment": SHAPE[0], "offer": offers, "channel": SHAPE[2]}
    levels = {mode: [f"{mode} {at}" for at in range(size)] for mode, size in sizes.items()}
    return tb.Space(levels, context=["segment"])


def _bandit(space: tb.Space, seed: int, **settings: Any) -> tb.Bandit:
    return tb.Bandit(space, rank=RANK, **{"seed": seed} | settings)


def _play(bandit: tb.Bandit, means: np.ndarray, rounds: int, rng: np.random.Generator) -> np.ndarray:
    """Play some rounds; return the cells, (rounds, 3)."""
    cells = np.empty((rounds, 3), dtype=np.int64)
    for t in range(rounds):
        decision = bandit.ask(segment=f"segment {rng.integers(SHAPE[0])}")
        cells[t] = bandit.space.cell({**decision.arm, **decision.context})
        bandit.tell(decision, float(means[tuple(cells[t])] + rng.standard_normal()))
    return cells


def _earned(cells: np.ndarray, means: np.ndarray) -> np.ndarray:
    """What cells (n, 3) pay, where 0 is a random arm of the segment and 1 its best, (n,)."""
    best, usual = means.max(axis=(1, 2))[cells[:, 0]], means.mean(axis=(1, 2))[cells[:, 0]]
    return np.asarray((means[tuple(cells.T)] - usual) / (best - usual).mean())


def section(store: Store, options: Options) -> Findings:
    found = [(settings, result) for settings in plan(options) if (result := store.get(settings)) is not None]
    switches = [one for one in found if one[0]["task"] == "switch"]
    levels = [one for one in found if one[0]["task"] == "level"]
    lines = [line for line in (_switched(switches, *world) for world in _worlds(switches)) if line]
    starts = [line for line in (_started(levels, start) for start in STARTS) if line]
    parts: list[Part] = [
        Text(
            f"Thompson sampling, told rank {RANK}, decides among {SHAPE[1]} offers x {SHAPE[2]} channels for one of "
            f"{SHAPE[0]} segments. At half time the effects of the channel that is best most often turn around. What "
            "is earned is 0 for an arm drawn at random and 1 for the best of the time. A world has recovered when "
            f"{AWHILE} decisions in a row earn {RECOVERED:.0%} of it for the first time, which luck makes early; so "
            "beside it is when the average over all worlds does."
        ),
        command(NAME, *options.flags),
        Picture("change", partial(figures.change, lines), "What is earned of the best, before and after a switch."),
        _switch_table(lines),
        Text(
            "At half time an offer comes that pays 1.3 times what the best one does, and another is retired. It "
            f"carries most of the traffic of the segments in which it is best when over {MOST:.0%} of 20 decisions "
            "in a row are for it. All anew is a bandit that knows nothing and has all offers."
        ),
        _level_table(starts, options),
    ]
    return parts, {"switches": lines, "levels": starts}


def _worlds(found: list[tuple[Settings, Result]]) -> list[tuple[bool, int | None]]:
    return list(dict.fromkeys((settings["switches"], settings["half_life"]) for settings, _ in found))


def _switched(found: list[tuple[Settings, Result]], switches: bool, half_life: int | None) -> dict[str, Any]:
    here = [one for settings, one in found if (settings["switches"], settings["half_life"]) == (switches, half_life)]
    times = [np.inf if one["recovered"] is None else one["recovered"] for one in here]
    median = float(np.median(times))
    curve, rounds = np.mean([one["curve"] for one in here], axis=0), found[0][0]["rounds"]
    return {
        "switches": switches,
        "half_life": half_life,
        "worlds": len(here),
        "rounds": rounds,
        "curve": curve.tolist(),
        "recovered": median if np.isfinite(median) else None,
        "average": _average(curve, rounds) if switches else None,
        "never": int(np.isinf(times).sum()),
        "named": {when: sum(one[when] == [one["moved"]] for one in here) for when in ("soon", "late")},
        "alarms": {
            when: sum(bool(set(one[when]) - ({one["moved"]} if switches else set())) for one in here)
            for when in ("soon", "late")
        },
    }


def _average(curve: np.ndarray, rounds: int) -> float | None:
    """After how many rounds from half time on the mean curve of all worlds is back, if it is."""
    back = np.flatnonzero(curve[POINTS // 2 :] >= RECOVERED)
    return float((back[0] + 1) * rounds / POINTS) if len(back) else None


def _switch_table(lines: list[dict[str, Any]]) -> Table:
    header = ["world", "half-life", "worlds", "recovered after (median)", "never", "on average after"]
    header += ["named after 1/8 of the rounds", "named at the end", "other levels named"]
    rows = []
    for line in lines:
        switches = line["switches"]
        recovered, average = (
            "" if not switches else "–" if line[name] is None else f"{line[name]:,.0f} rounds"
            for name in ("recovered", "average")
        )
        named = [str(line["named"][when]) if switches else "" for when in ("soon", "late")]
        given = "none" if line["half_life"] is None else f"{line['half_life']:,} rewards"
        alarms = "{soon} and {late}".format(**line["alarms"])
        world = "switches" if switches else "stays"
        never = str(line["never"]) if switches else ""
        rows.append([world, given, str(line["worlds"]), recovered, never, average, *named, alarms])
    return Table(header, rows, "A channel that switches")


def _started(found: list[tuple[Settings, Result]], start: str) -> dict[str, Any]:
    here = [one for settings, one in found if settings["start"] == start and one["segments"]]
    if not here:
        return {}
    rounds = found[0][0]["rounds"]
    times = [np.inf if one["most"] is None else one["most"] / rounds for one in here]
    median = float(np.median(times))
    means = {name: float(np.mean([one[name] for one in here])) for name in ("share", "wasted", "regret", "retired")}
    return {"start": start, "worlds": len(here), "most": median if np.isfinite(median) else None} | means


def _level_table(lines: list[dict[str, Any]], options: Options) -> Table:
    header = ["start", "worlds", "most of its traffic after (median)", "required", "verdict"]
    header += ["its share within that", "decisions for other arms", "regret", "decisions for the retired one"]
    rows = []
    for line in lines:
        anew = line["start"] == "all anew"
        held = line["most"] is not None and line["most"] <= SOON
        verdict = (
            "reported" if anew else "none: too few" if options.quick else "holds" if held else "does not hold here"
        )
        most = "–" if line["most"] is None else f"{line['most']:.1%} of rounds"
        required = "" if anew else f"at most {SOON:.0%}"
        numbers = [f"{line['share']:.0%}", f"{line['wasted']:,.0f}", f"{line['regret']:,.0f}", f"{line['retired']:g}"]
        rows.append([line["start"], str(line["worlds"]), most, required, verdict, *numbers])
    return Table(header, rows, "An offer that comes at half time")
