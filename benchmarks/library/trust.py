"""Suite ``trust``: what is said of uplift, and of an apprentice, beside the truth of simulated worlds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.report import Findings, command
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Table, Text

NAME = "trust"
MEASURED = "tensorbandits.bandit.bandit"
ALONE = False
TITLE = "Trust: what is said beside what is true"

DECISIONS, RUNS, PART = 20_000, 400, 50  # watched at every decision
WORLDS, LOOKS = 200, 200
VISITS, PERSISTENCE = 8.0, 1.0  # of a visitor on average; how alike visitors are in what they earn
LOOKS_BACK, RUNS_BACK = 60, 200  # at visitors who come back
STEPS = (0.01, 0.05, 0.2, 0.5)  # of a gradual start, a quarter of the decisions each
REWARDS = {
    "clicks": "one decision in ten is clicked",
    "rare clicks": "three in a thousand are",
    "normal": "normal rewards about 100",
    "revenue": "3 % buy, amounts are log-normal with a logarithm of standard deviation 1.5",
    "heavy tails": "10 % buy, amounts have a Pareto tail of index 2.2, just enough for a variance",
}
KINDS = {"clicks": "bernoulli", "rare clicks": "bernoulli", "normal": "gaussian"}
HOLDOUTS = (0.05, 0.5)
RULES = {
    "every arm": "draws one of all arms",
    "some arms": "draws the offer, always by mail, as the example of the documentation does",
    "one arm": "always plays the same arm",
}
WORLDS_OF_RULES, ASKED, ASKED_DEMO = 10, 1_000, 3_000
OVERLAPS = {
    "full": "the rule plays each of 12 arms about as often",
    "poor": "the rule plays what the bandit would in 2 % of cases",
    "partly none": "a third of the arms are never played",
    "none": "the rule always plays one arm",
}
SEEN = 2_000  # decisions of a synthetic apprentice
MOST_WRONG, LEAST_COVERED = 0.05, 0.93


def plan(options: Options) -> list[Settings]:
    parts, worlds, rules = (1, 20, 1) if options.quick else (RUNS // PART, WORLDS, WORLDS_OF_RULES)
    back = 1 if options.quick else RUNS_BACK // PART
    found: list[Settings] = []
    first = options.seed  # of the worlds; what is of the first ones is kept under the settings without it
    other = {"first": first} if first else {}
    for rewards in REWARDS:
        found += [
            {"what": "watched", "rewards": rewards, "holdout": h, "part": first + p}
            for h in HOLDOUTS
            for p in range(parts)
        ]
        found += [
            {"what": "returning", "rewards": rewards, "holdout": h, "part": first + p}
            for h in HOLDOUTS
            for p in range(back)
        ]
        found.append({"what": "covered", "rewards": rewards, "worlds": worlds} | other)
        found += [{"what": "judged", "rewards": rewards, "overlap": one, "worlds": worlds} | other for one in OVERLAPS]
    numbers = range(first + 1, first + rules + 1)
    found += [{"what": "apprentice", "rule": rule, "seed": seed} for rule in RULES for seed in numbers]
    return [*found, {"what": "demo", "asked": 300 if options.quick else ASKED_DEMO} | other]


def label(settings: Settings) -> str:
    return ", ".join(str(one) for one in settings.values())


def measure(settings: Settings) -> Result:
    kinds = {
        "watched": watched,
        "returning": returning,
        "covered": covered,
        "judged": judged,
        "apprentice": beside_a_rule,
        "demo": demo,
    }
    return kinds[settings["what"]](settings)


# Rewards of simulated worlds.


def drawn(rewards: str, shape: Any, lift: Any, rng: np.random.Generator) -> np.ndarray:
    """Rewards whose mean is higher by a share, or of normal ones by as many units."""
    if rewards == "normal":
        return 100.0 + lift + rng.standard_normal(shape)
    rate = {"clicks": 0.1, "rare clicks": 0.003, "revenue": 0.03, "heavy tails": 0.1}[rewards]
    bought = rng.random(shape) < rate * (1.0 + lift)
    if rewards == "revenue":
        return bought * np.exp(1.5 * rng.standard_normal(shape))
    return bought * (1.0 + rng.pareto(2.2, shape)) if rewards == "heavy tails" else bought.astype(float)


def mean_of(rewards: str, lift: Any) -> Any:
    """The mean of what :func:`drawn` draws."""
    usual = {"clicks": 0.1, "rare clicks": 0.003, "revenue": 0.03 * math.exp(1.5**2 / 2), "heavy tails": 0.22 / 1.2}
    return 100.0 + lift if rewards == "normal" else usual[rewards] * (1.0 + np.asarray(lift))


# People who look at every decision.


def watched(settings: Settings) -> Result:
    """How many of some bandits without effect are ever called better, or worse, at any of all decisions."""
    rng = np.random.default_rng([1, list(REWARDS).index(settings["rewards"]), settings["part"]])
    shape, kind = (PART, DECISIONS), KINDS.get(settings["rewards"], "revenue")
    own = rng.random(shape) >= settings["holdout"]
    low, high = sequence(own, drawn(settings["rewards"], shape, 0.0, rng), kind, settings["holdout"], rng)
    fixed = sequence(own, drawn(settings["rewards"], shape, 0.0, rng), kind, settings["holdout"], rng, looks="fixed")
    return {
        "runs": PART,
        "better": int((low > 0).any(axis=1).sum()),
        "worse": int((high < 0).any(axis=1).sum()),
        "fixed": int((fixed[0] > 0).any(axis=1).sum()),
    }


def sequence(
    own: np.ndarray, y: np.ndarray, kind: str, holdout: float, rng: np.random.Generator, looks: Any = "anytime"
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of the uplift after every decision (runs, decisions), many at once; some are held to the library's."""
    from tensorbandits.bandit import intervals
    from tensorbandits.bandit.uplift import _SHARED

    sums = []
    for side in (own, ~own):
        values = [side, side & (y != 0), side * y, side * y * y]
        sums.append([np.cumsum(one, axis=1, dtype=float) for one in values])
    with np.errstate(invalid="ignore", divide="ignore"):
        means = [total / n for n, _, total, _ in sums]
        spread = [np.maximum(s / n - m * m, 0.0) * n for (n, _, _, s), m in zip(sums, means)]
        count = sums[0][0] + sums[1][0]
        middle = (sums[0][2] + sums[1][2]) / count
        between = sum(n * (m - middle) ** 2 for (n, *_), m in zip(sums, means))
        shared = (spread[0] + spread[1] + np.nan_to_num(between)) / np.maximum(count - 1.0, 1.0)
        errors = [np.sqrt(one / (n * (n - 1.0))) for one, (n, *_) in zip(spread, sums)]
        # Of clicks only where a difference is a standard error and a half: else nobody would call it anything.
        near = np.abs(means[0] - means[1]) > 1.5 * np.hypot(*errors) if kind == "bernoulli" else np.ones(y.shape, bool)
        at = np.nonzero(near & (sums[0][0] > 1) & (sums[1][0] > 1))
        sides = []
        for (n, events, _, _), mean, error in zip(sums, means, errors):
            if kind == "bernoulli":
                sides.append(intervals.rate(mean[at], n[at], looks=looks))
                continue
            variance = error[at] ** 2 * n[at]
            pulled = (events[at] * variance + _SHARED * shared[at]) / (events[at] + _SHARED)
            wide = np.sqrt(np.maximum(variance, pulled) / n[at])
            found = intervals.amount(mean[at], wide, events[at], looks=looks)
            sides.append(found._replace(low=np.maximum(found.low, 0.0)) if kind == "revenue" else found)
        gap = intervals.difference(*sides)
    low, high = (np.full(y.shape, end) for end in (-np.inf, np.inf))
    low[at], high[at] = np.where(np.isnan(gap.low), -np.inf, gap.low), np.where(np.isnan(gap.high), np.inf, gap.high)
    for some in rng.integers(len(at[0]), size=20) if len(at[0]) else ():
        run, end = int(at[0][some]), int(at[1][some]) + 1
        plain = of_library([own[run, :end]], [y[run, :end]], [1.0 - holdout], kind, looks)
        np.testing.assert_allclose(
            [low[run, end - 1], high[run, end - 1]], [plain.low, plain.high], rtol=1e-6, atol=1e-12
        )
    return low, high


def of_library(own: list[np.ndarray], y: list[np.ndarray], shares: list[float], kind: str, looks: Any) -> Any:
    """The uplift as the library has it, of decisions by share of the bandit."""
    from tensorbandits.bandit.comparison import Compared
    from tensorbandits.bandit.uplift import uplift

    sums = np.zeros((len(shares), 3, 5))
    for at, (mine, values) in enumerate(zip(own, y)):
        for side, some in ((0, mine), (1, ~mine)):
            here = values[some]
            sums[at, side] = len(here), len(here), np.count_nonzero(here), here.sum(), (here * here).sum()
    chances = np.array([[share, 1.0 - share, 0.0] for share in shares])
    return uplift(Compared(chances, sums, np.zeros((len(shares), 3))), kind, looks=looks)


# Visitors who come back, and stay on the side that was drawn for them once.


_SAID = ("better", "worse", "suspect", "blind")  # blind: better, if decisions were taken to come by themselves


def returning(settings: Settings) -> Result:
    """How many of some bandits without effect are ever called better or worse, where visitors differ and come back."""
    rng = np.random.default_rng([4, list(REWARDS).index(settings["rewards"]), settings["part"]])
    looks = np.unique(np.geomspace(50, DECISIONS, LOOKS_BACK).astype(int))
    kind, found = KINDS.get(settings["rewards"], "revenue"), dict.fromkeys(("runs", *_SAID), 0)
    for _ in range(PART):
        weights = rng.gamma(0.5, size=int(DECISIONS / VISITS))  # some come often, most seldom
        who = rng.choice(len(weights), DECISIONS, p=weights / weights.sum())
        own, part = rng.random(len(weights)) >= settings["holdout"], rng.integers(128, size=len(weights))
        taste = rng.gamma(PERSISTENCE, 1.0 / PERSISTENCE, len(weights))  # of 1 on average
        lift = (taste.clip(max=8.0) - 1.0)[who]
        y = drawn(settings["rewards"], DECISIONS, lift, rng)
        said = {
            of for end, one in by_visitor(own[who], y, part[who], looks, 1.0 - settings["holdout"], kind) for of in one
        }
        found["runs"] += 1
        for name in _SAID:
            found[name] += name in said
    return found


def by_visitor(
    own: np.ndarray, y: np.ndarray, part: np.ndarray, looks: np.ndarray, share: float, kind: str
) -> Iterator[tuple[int, set[str]]]:
    """Yield what is said at each look."""
    from tensorbandits.bandit.comparison import Compared
    from tensorbandits.bandit.uplift import uplift

    chances, sums, parts, begin = (
        np.array([[share, 1.0 - share, 0.0]]),
        np.zeros((1, 3, 5)),
        np.zeros((1, 3, 128, 4)),
        0,
    )
    for end in looks.tolist():
        here = slice(begin, end)
        at, side, values = part[here], np.where(own[here], 0, 1), y[here]
        each = np.stack([np.ones(len(values)), np.ones(len(values)), values != 0, values, values * values], axis=1)
        np.add.at(sums[0], side, each)
        np.add.at(parts[0], (side, at), each[:, [0, 1, 3, 4]])
        begin = end
        known = uplift(Compared(chances, sums, np.zeros((1, 3)), parts), kind)
        blind = uplift(Compared(chances, sums, np.zeros((1, 3))), kind)
        found = (known.low > 0, known.high < 0, known.verdict == "suspect", blind.low > 0)
        yield end, {name for name, one in zip(_SAID, found) if one}


# Worlds with an effect, started gradually.


def covered(settings: Settings) -> Result:
    """Whether intervals hold the true uplift, which grows while both sides' rewards do, and shares are raised."""
    rewards, kind = settings["rewards"], KINDS.get(settings["rewards"], "revenue")
    share = np.repeat(STEPS, DECISIONS // len(STEPS))
    trend, grown = np.linspace(0.0, 1.0, DECISIONS), np.linspace(0.0, 0.5, DECISIONS)
    gap = np.cumsum(share * (mean_of(rewards, trend + grown) - mean_of(rewards, trend))) / np.cumsum(share)
    looks = np.unique(np.geomspace(50, DECISIONS, LOOKS).astype(int))
    result = {"fixed": 0, "anytime": 0, "known": 0, "halves": [], "wide": []}
    for seed in _seeds(settings):
        rng = np.random.default_rng([2, list(REWARDS).index(rewards), seed])
        own = rng.random(DECISIONS) < share
        y = drawn(rewards, DECISIONS, trend + own * grown, rng)

        def at(end: int, looks: str, own: np.ndarray = own, y: np.ndarray = y) -> Any:
            parts = range(0, end, DECISIONS // len(STEPS))
            cuts = [slice(first, min(first + DECISIONS // len(STEPS), end)) for first in parts]
            return of_library([own[c] for c in cuts], [y[c] for c in cuts], list(STEPS[: len(cuts)]), kind, looks)

        last = at(DECISIONS, "fixed")
        result["known"] += math.isfinite(last.low)
        result["fixed"] += not (last.low > gap[-1] or last.high < gap[-1])
        seen = [(end, at(int(end), "anytime")) for end in looks]
        result["anytime"] += all(not (one.low > gap[end - 1] or one.high < gap[end - 1]) for end, one in seen)
        result["halves"].append((last.high - last.low) / 2)
        result["wide"].append((seen[-1][1].high - seen[-1][1].low) / 2)
    return result | {"truth": float(gap[-1]), **{name: float(np.median(result[name])) for name in ("halves", "wide")}}


# Apprentices: synthetic ones, many; and real ones beside rules.


def judged(settings: Settings) -> Result:
    """Whether an apprentice's interval holds the truth; its model is wrong by a third, and its law moves."""
    from tensorbandits.bandit.apprentice import Apprentice, Shadow

    rewards, arms = settings["rewards"], 12
    kind = KINDS.get(rewards, "revenue")
    found = {"held": 0, "fixed": 0, "better": 0, "wrong": 0, "support": 0.0, "none": 0, "none_anytime": 0}
    for seed in _seeds(settings):
        rng = np.random.default_rng([3, list(REWARDS).index(rewards), list(OVERLAPS).index(settings["overlap"]), seed])
        lift = rng.normal(0.0, 0.4, arms).clip(-0.8, 1.5)
        means = np.broadcast_to(mean_of(rewards, lift), (arms,))
        model = (
            means.mean() + (means - means.mean()) * rng.normal(1.0, 0.3, arms) + rng.normal(0, means.std() / 3, arms)
        )
        wanted = np.exp(3.0 * (means - means.mean()) / means.std() * rng.random(arms))
        bandit = 0.9 * wanted / wanted.sum() + 0.1 / arms
        rule = _rule(settings["overlap"], bandit, arms)
        played, own = rng.choice(arms, SEEN, p=rule), rng.choice(arms, SEEN, p=bandit)
        told = drawn(rewards, SEEN, lift[played], rng)
        apprentice = Apprentice()
        for at in range(SEEN):
            shadow = Shadow((int(own[at]),), bandit[played[at]] / rule[played[at]], model[own[at]], model[played[at]])
            apprentice.open(str(at), shadow, (int(played[at]),), SEEN)
            apprentice.reward(str(at), float(told[at]), in_order=False)
        truth = float(bandit @ means - rule @ means)
        one, once = (apprentice.judged(kind, looks=looks) for looks in ("anytime", "fixed"))
        for name, what in (("held", one), ("fixed", once)):
            found[name] += not (what.difference.low > truth or what.difference.high < truth)
        found["none"] += _is_trivial(once, kind)
        found["none_anytime"] += _is_trivial(one, kind)
        found["better"] += one.verdict in ("better", "worse")
        found["wrong"] += (one.verdict == "better" and truth <= 0) or (one.verdict == "worse" and truth >= 0)
        found["support"] += one.support / settings["worlds"]
    return found


def _seeds(settings: Settings) -> range:
    """The seeds of the worlds."""
    first = int(settings.get("first", 0))
    return range(first, first + settings["worlds"])


def _is_trivial(judged: Any, kind: str) -> bool:
    """Whether an interval says nothing but what rewards can be."""
    low, high = judged.difference.low, judged.difference.high
    return not math.isfinite(high - low) if kind != "bernoulli" else high - low > 1.0


def _rule(overlap: str, bandit: np.ndarray, arms: int) -> np.ndarray:
    rule = np.full(arms, 1.0)
    if overlap == "poor":
        rule[np.argsort(-bandit)[:3]] = 0.02 / 3 / (1 - 0.02) * (arms - 3)
    elif overlap == "partly none":
        rule[: arms // 3] = 0.0
    elif overlap == "none":
        rule[:-1] = 0.0
    return rule / rule.sum()


def beside_a_rule(settings: Settings) -> Result:
    """The example of the documentation: an apprentice beside a rule, in a world of its own."""
    import tensorbandits as tb

    modes = {"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}
    space = tb.Space(modes, context=["segment"])
    people, rng = tb.Audience(space, rate=0.2, seed=settings["seed"]), np.random.default_rng(settings["seed"])

    def rule() -> tuple[dict[str, str], float | None]:
        if settings["rule"] == "one arm":
            return {"offer": "a", "channel": "mail"}, None
        offer, every = str(rng.choice(modes["offer"])), settings["rule"] == "every arm"
        channel = str(rng.choice(modes["channel"])) if every else "mail"
        return {"offer": offer, "channel": channel}, 1 / 6 if every else 1 / 3

    bandit = tb.Bandit(space, reward="bernoulli", rank=1, apprentice=True, seed=settings["seed"])
    return _truth_beside(bandit, people, rule, ASKED, rng)


def demo(settings: Settings) -> Result:
    """The demonstration of the service: its people, its settings and its rule."""
    import tensorbandits as tb
    from tensorbandits.bandit.settings import arguments
    from tensorbandits.service.engine.demo import SETTINGS, people_of, rule_of

    seed = int(settings.get("first", 0))
    rng = np.random.default_rng(seed)
    bandit = tb.Bandit(
        **arguments(SETTINGS | {"apprentice": True}) | {"rollout": None}, apprentice=True, seed=settings.get("first", 0)
    )
    return _truth_beside(bandit, people_of("apprentice", 1.0), lambda: rule_of(rng), settings["asked"], rng)


def _truth_beside(bandit: Any, people: Any, rule: Any, asked: int, rng: np.random.Generator) -> Result:
    """Run a bandit beside a rule, and return what it says beside what is true."""
    gaps, never, plays = [], [], set()
    wanted = []
    for _ in range(asked):
        context = people.visit()
        arm, propensity = rule()
        decision = bandit.ask(context, played=arm, propensity=propensity)
        gaps.append(people.rate({**context, **decision.would}) - people.rate({**context, **arm}))
        plays.add(bandit.space.cell({**context, **arm}))
        wanted.append(bandit.space.cell({**context, **decision.would}))
        bandit.tell(decision, int(rng.random() < people.rate({**context, **arm})))
    never = [cell not in plays for cell in wanted]
    found = bandit.judge()
    said = {name: getattr(found.difference, name) for name in ("mean", "low", "high")}
    known = {name: None if not math.isfinite(value) else value for name, value in said.items()}
    return {"truth": float(np.mean(gaps)), "never": float(np.mean(never)), "verdict": found.verdict, **known}


# The page.


def section(store: Store, options: Options) -> Findings:
    wanted = [(settings, store.get(settings)) for settings in plan(options)]
    kept = [(settings, result) for settings, result in wanted if result is not None]
    watch = ["rewards", "holdout", "runs", "ever called better", "ever called worse", "better, if fixed", "verdict"]
    hold = ["rewards", "worlds", "fixed, at the end", "at all looks", "half width, fixed and at every look", "verdict"]
    judge = [
        "rewards",
        "overlap",
        "support",
        "no interval",
        "held, fixed",
        "held, sequence",
        "said",
        "wrong",
        "verdict",
    ]
    back = [
        "rewards",
        "holdout",
        "runs",
        "ever called better",
        "ever called worse",
        "ever suspect",
        "better, if taken one by one",
        "verdict",
    ]
    rules = ["rule", "world", "never played", "true difference", "said: 95 % bounds", "said", "holds"]
    tables = {
        "watched": [_watched_row(kept, rewards, holdout) for rewards in REWARDS for holdout in HOLDOUTS],
        "returning": [_returning_row(kept, rewards, holdout) for rewards in REWARDS for holdout in HOLDOUTS],
        "covered": [_covered_row(settings, result) for settings, result in kept if settings["what"] == "covered"],
        "judged": [_judged_row(settings, result) for settings, result in kept if settings["what"] == "judged"],
        "beside": [_beside_row(s, result) for s, result in kept if s["what"] in ("apprentice", "demo")],
    }
    parts: list[Part] = [
        command(NAME, *options.flags, *(["--seed", str(options.seed)] if options.seed else [])),
        Text(
            f"People look all the time. Bandits without any effect, {DECISIONS:,} decisions each, are looked at after "
            f"every one: how many are ever called better? Wanted are at most {MOST_WRONG:.0%}. Beside it is what fixed "
            "intervals, which are right for one look, make of the same. "
            + "; ".join(f"{name}: {words}" for name, words in REWARDS.items())
            + "."
        ),
        Table(watch, tables["watched"]),
        Text(
            f"Visitors who come back, {VISITS:g} times on average, and stay on the side that was drawn for them; some "
            "earn far more than others. Again there is no effect: how many bandits are ever called better, at "
            f"any of {LOOKS_BACK} looks, and of how many is it said that shares are wrong? Beside it is "
            "what would be said if their decisions were taken to come one by one."
        ),
        Table(back, tables["returning"]),
        Text(
            "Do intervals hold the truth? The bandit starts gradually, for 1, 5, 20 and 50 % of visitors, "
            f"{DECISIONS // len(STEPS):,} decisions each; rewards of both sides double meanwhile, and the uplift grows "
            f"from nothing to half. Fixed intervals are judged at the end, the sequence at {LOOKS} looks together. "
            f"Wanted are at least {LEAST_COVERED:.0%}."
        ),
        Table(hold, tables["covered"]),
        Text(
            f"An apprentice whose model is wrong, beside rules of {SEEN:,} decisions. "
            + "; ".join(f"{name}: {words}" for name, words in OVERLAPS.items())
            + ". Where no honest interval exists there is none, or it is as wide as rewards can be: that is counted as "
            "such, and of the others those that hold the truth. Beside it is how often something was said (better, or "
            "worse), and how often that was wrong."
        ),
        Table(judge, tables["judged"]),
        Text(
            f"The ten worlds of the example of the documentation, {ASKED:,} decisions each, beside three rules, and "
            "the demonstration that comes with the service: the true difference per decision beside what is said. "
            + "; ".join(f"{name}: {words}" for name, words in RULES.items())
            + "."
        ),
        Table(rules, tables["beside"]),
    ]
    headers = {"watched": watch, "returning": back, "covered": hold, "judged": judge, "beside": rules}
    return parts, {name: [dict(zip(headers[name], row)) for row in rows] for name, rows in tables.items()}


def _word(good: bool) -> str:
    return "holds" if good else "does not hold here"


def _watched_row(kept: list[tuple[Settings, Result]], rewards: str, holdout: float) -> list[str]:
    some = [r for s, r in kept if (s["what"], s.get("rewards"), s.get("holdout")) == ("watched", rewards, holdout)]
    runs = sum(one["runs"] for one in some)
    shares = [sum(one[name] for one in some) / max(runs, 1) for name in ("better", "worse", "fixed")]
    return [rewards, f"{holdout:.0%}", str(runs), *(f"{one:.1%}" for one in shares), _word(shares[0] <= MOST_WRONG)]


def _returning_row(kept: list[tuple[Settings, Result]], rewards: str, holdout: float) -> list[str]:
    some = [r for s, r in kept if (s["what"], s.get("rewards"), s.get("holdout")) == ("returning", rewards, holdout)]
    runs = sum(one["runs"] for one in some)
    shares = [sum(one[name] for one in some) / max(runs, 1) for name in _SAID]
    good = shares[0] <= MOST_WRONG and shares[2] <= 0.01
    return [rewards, f"{holdout:.0%}", str(runs), *(f"{one:.1%}" for one in shares), _word(good)]


def _covered_row(settings: Settings, result: Result) -> list[str]:
    worlds = settings["worlds"]
    fixed, always = result["fixed"] / worlds, result["anytime"] / worlds
    widths = f"{result['halves']:.3g} and {result['wide']:.3g} (true {result['truth']:+.3g})"
    good = min(fixed, always) >= LEAST_COVERED
    return [settings["rewards"], str(worlds), f"{fixed:.1%}", f"{always:.1%}", widths, _word(good)]


def _judged_row(settings: Settings, result: Result) -> list[str]:
    worlds = settings["worlds"]
    shares, words = [], []
    for held, none in (("fixed", "none"), ("held", "none_anytime")):
        given = worlds - result[none]
        missed = worlds - result[held]  # an interval that says nothing misses nothing
        shares.append(1.0 - missed / given if given else 1.0)
        words.append(f"{shares[-1]:.1%} of {given}" if given else "none given")
    row = [settings["rewards"], settings["overlap"], f"{result['support']:.0%}", f"{result['none'] / worlds:.0%}"]
    return [*row, *words, f"{result['better'] / worlds:.0%}", str(result["wrong"]), _word(min(shares) >= LEAST_COVERED)]


def _beside_row(settings: Settings, result: Result) -> list[str]:
    demo_ = settings["what"] == "demo"
    low, high = (
        -math.inf if result["low"] is None else result["low"],
        math.inf if result["high"] is None else result["high"],
    )
    said = "not bounded" if math.isinf(low) and math.isinf(high) else f"{100 * low:+.1f} to {100 * high:+.1f} pp"
    return [
        "the demonstration's" if demo_ else settings["rule"],
        "the demonstration" if demo_ else str(settings["seed"]),
        f"{result['never']:.0%}",
        f"{100 * result['truth']:+.1f} pp",
        said,
        result["verdict"],
        "yes" if low <= result["truth"] <= high else "no",
    ]
