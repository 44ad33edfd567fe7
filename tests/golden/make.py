"""Write the golden files: one of each policy, of a ledger and of a bandit, as this version saves them.

They stay as they are for ever, so that what was saved once can be loaded. When the version of a format changes, add
files of the new one beside these, under a new number: ``python tests/golden/make.py 2`` (it refuses to replace any).
"""

import json
import sys
from pathlib import Path

import numpy as np

import tensorbandits as tb
from tensorbandits.policies import registry

HERE = Path(__file__).parent
SHAPE = (3, 2, 2)
CELLS = [(0, 0, 0), (1, 1, 0), (2, 0, 1)]


def oracle(ledger, rng):
    """The posterior of unrelated arms; code is not saved, so that loading takes it again."""
    N, Y, _ = ledger.dense()
    return Y / (N + 1) + rng.standard_normal(N.shape) / np.sqrt(N + 1)


def policies():
    """Each policy after some rounds, with an ask that waits, a standing rule, and a past that fades."""
    for record in registry.records():
        settings = {"rank": 1} if record.takes("rank") else {}
        settings |= {"ensemble_size": 3} if record.takes("ensemble_size") else {}
        context = (1,) if record.context else ()
        yield record.name, record.make(SHAPE, context=context, horizon=200, seed=0, **settings)
    yield "own-oracle", tb.ApproximateThompsonSampling(SHAPE, oracle, context=(1,), draws=4, seed=0)


def play(policy, rounds, seed):
    """Play some rounds; return the cells."""
    rng, cells = np.random.default_rng(seed), []
    for _ in range(rounds):
        cell = policy.ask(tuple(int(rng.integers(SHAPE[j])) for j in policy.context))
        policy.tell(cell, float(cell[0] * (cell[1] + 1) + 0.25 * rng.integers(-2, 3)))
        cells.append(cell)
    return cells


def bandit(clock):
    """A bandit with a rule, a retired level, and decisions that are rewarded, wait, wait to be shown, are cancelled."""
    space = tb.Space({"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}, ["segment"])
    space.forbid(offer="c", channel="sms")
    made = tb.Bandit(
        *(space, "thompson"),
        **{"rank": 1, "reward": "bernoulli", "ring": 2, "floors": [({"channel": "sms"}, 0.1)], "holdout": 0.05},
        **{"ceilings": [({"offer": "b"}, 0.5)], "window": "10 min", "default": 0, "adds": True, "capacity": 50},
        **{"clock": clock, "seed": 0},
    )
    made.retire_level("offer", "b")
    names = [None, None, "order 17-03", None, None]  # an id of the caller's; ids were pairs of numbers before version 3
    decisions = [made.ask(segment="new", activate=at != 3, id=name) for at, name in enumerate(names)]
    made.tell(decisions[0], 1)
    made.cancel(decisions[1])
    made.tell(arm={"offer": "a", "channel": "sms"}, context={"segment": "old"}, reward=1)
    return made, [decision.id for decision in decisions]


def main(number):
    """Write the files, and beside them what a loaded policy must say."""
    expected = {}
    for name, policy in policies():
        policy.forbid({0: 2, 2: 0})
        play(policy, 40, 1)
        policy.fade(0.75)
        policy.ask((0,) * len(policy.context))
        path = HERE / f"{name}-{number}.safetensors"
        if path.exists():
            raise SystemExit(f"{path} is there already; golden files are never replaced: give another number")
        policy.save(path)
        expected[path.name] = {
            "rounds": policy.ledger.rounds,
            "total": float(policy.ledger.totals.sum()),
            "estimate": policy.estimate(CELLS).tolist(),
        }
    ledger = tb.Ledger(SHAPE)
    ledger.add([(0, 1, 1), (2, 0, 1), (0, 1, 1)], [1.5, -2.0, 0.25])
    ledger.fade(0.5)
    ledger.grow(2)
    ledger.save(HERE / f"ledger-{number}.safetensors")
    save_bandit(number)
    (HERE / f"expected-{number}.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


def save_bandit(number):
    """Write a bandit, and beside it the ids of its decisions."""
    made, ids = bandit(lambda: 1000.0)
    made.save(HERE / f"bandit-{number}.safetensors")
    (HERE / f"bandit-{number}.json").write_text(json.dumps(ids) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]))
