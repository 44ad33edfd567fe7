"""The campaign of ``tensorbandits demo``: simulated people, named combinations, clicks that come late."""

from collections.abc import Sequence

from tensorbandits.bandit.bandit import Bandit
from tensorbandits.sim.audience import Audience
from tensorbandits.space import Space

HEADER = ["visitors", "decided", "held out", "possible", "learned"]
_SEGMENTS = ("new", "young", "family", "student", "senior", "business", "returning", "vip")
_CHANNELS = ("mail", "sms", "push", "web", "call", "letter")
_OFFERS = 30
_HOLDOUT = 0.1
_SHOWN = ("new", "student", "vip")


def space() -> Space:
    """Return 8 segments, which are given, and 30 offers x 6 channels, of which one pair is forbidden."""
    offers = [f"offer {number}" for number in range(1, _OFFERS + 1)]
    found = Space({"segment": _SEGMENTS, "offer": offers, "channel": _CHANNELS}, context=["segment"])
    found.forbid(offer="offer 7", channel="sms")
    return found


def play(visitors: int, seed: int, parts: int = 4) -> tuple[Bandit, list[Sequence[str]]]:
    """Run a campaign; return its bandit and, for each part of the visitors, the expected clicks of 100 of them.

    A visitor comes every 30 seconds, and clicks come 10 minutes later on average, one in ten of them twice.
    """
    people = Audience(space(), delay=600.0, lost=0.05, twice=0.1, pace=30.0, seed=seed)
    bandit = Bandit(
        people.space,
        reward="bernoulli",
        window="30 min",
        default=0,
        holdout=_HOLDOUT,
        seed=seed,
        clock=lambda: people.now,
    )
    lines: list[Sequence[str]] = []
    for part in range(parts):
        rates: dict[str, list[float]] = {"policy": [], "holdout": [], "possible": []}
        for _ in range(part * visitors // parts, (part + 1) * visitors // parts):
            decision = bandit.ask(people.visit())
            people.show(decision)
            rates[decision.by].append(people.rate({**decision.context, **decision.arm}))
            rates["possible"].append(people.best_rate(decision.context))
            for clicked in people.clicks():
                bandit.tell(clicked, 1)
        per_hundred = [f"{100 * sum(found) / len(found):.1f}" if found else "–" for found in rates.values()]
        lines.append([f"{(part + 1) * visitors // parts:,}", *per_hundred, f"{bandit.policy.ledger.rounds:,.0f}"])
    return bandit, lines


def beliefs(bandit: Bandit) -> list[str]:
    """Return what is believed best for some segments, a sentence each."""
    found = [(segment, bandit.best(segment=segment)) for segment in _SHOWN]
    return [f"{segment}: {arm['offer']} by {arm['channel']}" for segment, arm in found]
