"""Suite ``application``: what names, ids and known chances cost beside the policy, and what open decisions take."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np

import tensorbandits as tb
from benchmarks.report import Findings, command
from benchmarks.run import peak_megabytes
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.bandit.commands import Ask, TellCell
from tensorbandits.bandit.core import Core
from tensorbandits.bandit.making import new_state
from tensorbandits.report.page import Part, Table, Text

NAME = "application"
MEASURED = "tensorbandits.bandit.bandit"
ALONE = True
TITLE = "A bandit: time of a decision beside its policy, memory of open ones, chances that are kept"

P, MOST, CONTEXTS, RING = 20, 1.5, 20, 16
CHANCES = {
    "plain": {},
    "floors": {"floors": [({}, 0.05), ({"channel": "sms"}, 0.1)]},
    "floors, ceiling, holdout": {"floors": 0.05, "ceilings": [({"channel": "sms"}, 0.1)], "holdout": 0.1},
}
CASES = {
    "normal rewards, rank 2": {"rank": 2},
    "normal rewards, told nothing": {},
    "clicks, rank 2": {"rank": 2, "reward": "bernoulli"},
    "clicks, told nothing": {"reward": "bernoulli"},
}


def plan(options: Options) -> list[Settings]:
    """Each kind of policy, and open decisions."""
    slices, rounds, count, each = (3, 20, 1_000, 50) if options.quick else (20, 100, 1_000_000, 20_000)
    timed = [{"case": case, "slices": slices, "rounds": rounds} for case in CASES]
    drawn = [{"case": "chances", "shares": name, "decisions": each} for name in CHANCES]
    return [*timed, {"case": "open decisions", "count": count}, *drawn]


def label(settings: Settings) -> str:
    """A measurement in words."""
    return f"{settings['case']} {settings.get('shares', '')}".strip()


def measure(settings: Settings) -> Result:
    """Time rounds of a bandit and of its policy in turns, or hold open decisions."""
    if settings["case"] == "open decisions":
        return _open(settings["count"])
    if settings["case"] == "chances":
        return chances(CHANCES[settings["shares"]], settings["decisions"])
    policy, bandit = _players(CASES[settings["case"]])
    for play in (policy, bandit):
        play(300)
    times = [(policy(settings["rounds"]), bandit(settings["rounds"])) for _ in range(settings["slices"])]
    return {"policy": [one for one, _ in times], "bandit": [other for _, other in times]}


def _players(arguments: Settings) -> tuple[Callable[[int], float], Callable[[int], float]]:
    """Return two functions of a number of rounds that play these and return the processor time of one, in seconds."""
    rng = np.random.default_rng(0)
    levels = [str(level) for level in range(P)]
    space = tb.Space({"a": levels, "b": levels, "c": levels}, context=["a"])
    policy = tb.TensorThompsonSampling(space.shape, context=space.context, seed=0, **arguments)
    bandit = tb.Bandit(space, seed=0, window=1_000, default=0, **arguments)

    def bare(rounds: int) -> float:
        start = process_time()
        for _ in range(rounds):
            cell = policy.ask((int(rng.integers(P)),))
            policy.tell(cell, float(rng.random() < 0.1))
        return (process_time() - start) / rounds

    def whole(rounds: int) -> float:
        start = process_time()
        for _ in range(rounds):
            decision = bandit.ask(a=levels[int(rng.integers(P))])
            bandit.tell(decision.id, float(rng.random() < 0.1))
        return (process_time() - start) / rounds

    return bare, whole


def _open(count: int) -> Result:
    """Return how many million bytes the process held before and with so many decisions that wait."""
    space = tb.Space({"a": range(100), "b": range(100)}, context=["a"])
    bandit = tb.Bandit(space, "ucb", capacity=count, seed=0)
    bandit.ask(a=0)
    before = peak_megabytes()
    for k in range(count - 1):
        bandit.ask(a=k % 100)
    return {"count": bandit.waiting, "before": before, "with": peak_megabytes()}


def chances(shares: Settings, decisions: int) -> Result:
    """Return the p-value of each context: are arms drawn as often as the probabilities say, which change all the time?

    How often each arm is drawn, less the sum of its probabilities, has the covariance ``sum(diag(p) - p p')`` whatever
    the policy learned from before; its quadratic form is chi-square with one degree less than there are arms.
    """
    from scipy import stats

    modes = {"segment": range(CONTEXTS), "offer": list("abcd"), "channel": ["mail", "sms", "web"]}
    space = tb.Space(modes, context=["segment"])
    core = Core(new_state(space, rank=1, reward="bernoulli", seed=0, time=0.0, **shares), RING)
    chance, rng = np.random.default_rng(0), np.random.default_rng(1)
    arms = [(offer, channel) for offer in range(4) for channel in range(3)]
    least, values = 1.0, []
    for segment in range(CONTEXTS):
        off, spread = np.zeros(len(arms)), np.zeros((len(arms), len(arms)))
        for _ in range(decisions):
            core.learner.refresh(wait=True)
            snapshot, ask = core.current(), Ask((segment,))
            decision, law = snapshot.decide(ask, chance), snapshot.law(ask)
            p = np.array([law.probability(snapshot.draws, (segment, *arm)) for arm in arms])
            drawn = arms.index(decision.cell[1:])
            assert decision.propensity is not None
            assert abs(decision.propensity - p[drawn]) < 1e-12
            off -= p
            off[drawn] += 1.0
            spread += np.diag(p) - np.outer(p, p)
            least = min(least, float(p.min()))
            if rng.random() < 0.05:
                core.apply(core.state.plan(TellCell(decision.cell, float(rng.random() < 0.1)), 0.0))
        statistic = float(off @ np.linalg.pinv(spread) @ off)
        values.append(float(stats.chi2.sf(statistic, np.linalg.matrix_rank(spread))))
    return {"values": values, "least": least}


def section(store: Store, options: Options) -> Findings:
    """Report the ratios and the bytes of an open decision."""
    found = {label(settings): store.get(settings) for settings in plan(options)}
    held, drawn = found.pop("open decisions"), {name: found.pop(f"chances {name}") for name in CHANCES}
    rows = [_row(case, result) for case, result in found.items() if result is not None]
    parts: list[Part] = [
        Text(
            f"A round, ask and tell, of a bandit over {P} x {P} x {P} labels, one mode given, and of its policy alone, "
            f"in alternating slices of one process: median processor time of a slice. At most {MOST} is wanted."
        ),
        command(NAME, *options.flags),
        Table(["policy", "alone, microseconds", "in a bandit", "ratio", "verdict"], rows),
    ]
    if held is not None:
        each = (held["with"] - held["before"]) * 1e6 / held["count"]
        parts.append(
            Text(f"{held['count']:,} open decisions take {each:,.0f} bytes each, {held['with']:,.0f} MB in all.")
        )
    if rows := [_chances_row(name, result) for name, result in drawn.items() if result is not None]:
        parts.append(
            Text(
                f"{plan(options)[-1]['decisions']:,} decisions in each of {CONTEXTS} contexts, while it learns: "
                "are arms drawn as often as the logged probabilities say? The least and the mean of the p-values of "
                "the contexts; of right ones the least is below 0.0005 once in 100 times, and the mean about 0.5."
            )
        )
        parts.append(Table(["shares", "least p-value", "mean p-value", "least probability of an arm"], rows))
    return parts, {"rounds": found, "open": held, "chances": drawn}


def _row(case: str, result: Result) -> list[str]:
    alone, whole = (float(np.median(result[name])) * 1e6 for name in ("policy", "bandit"))
    verdict = "holds" if whole <= MOST * alone else "does not hold here"
    return [case, f"{alone:,.0f}", f"{whole:,.0f}", f"{whole / alone:.2f}", verdict]


def _chances_row(name: str, result: Result) -> list[str]:
    return [name, f"{min(result['values']):.4f}", f"{np.mean(result['values']):.2f}", f"{result['least']:.4f}"]
