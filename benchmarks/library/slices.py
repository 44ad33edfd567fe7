"""A policy that plays in slices, in a process of its own: told how many rounds to play, it answers with their time.

It uses only names of the library that are stable, so that it can play with the sources of another commit: the suite
``against`` runs it twice, with two sets of sources, and lets them take turns.
"""

from __future__ import annotations

import json
import sys
from time import process_time
from typing import Any

import numpy as np

import tensorbandits as tb

SIGNAL, NOISE = 0.5, 1.0
SMALL, PLENTY, FEW = 6, 2_000, 400  # levels, horizon and rounds of the game that has everything compiled


def paper_tucker(p: int, signal: float, order: int, rank: int, seed: int) -> tb.Tucker:
    """The tensor of ``tb.paper_tensor``, by its core and factors."""
    rng = np.random.default_rng(seed)
    factors = tuple(np.linalg.qr(rng.standard_normal((p, rank)))[0] for _ in range(order))
    core = np.zeros((rank,) * order)
    core[(np.arange(rank),) * order] = signal * p ** (order / 2)
    return tb.Tucker(core, factors)


class Player:
    """A policy on the paper's problem: ``case`` has its class, ``p``, whether with the paper's values, arguments."""

    def __init__(self, case: dict[str, Any]) -> None:
        kind, p = getattr(tb, case["class"]), case["p"]
        make = kind.paper if case["paper"] else kind
        self.policy = make((p, p, p), seed=0, **case["arguments"])
        mean = paper_tucker(p, SIGNAL, 3, 2, seed=0)
        self.env = tb.TensorEnvironment(mean, noise=NOISE, context=case["arguments"].get("context", ()), seed=0)

    def play(self, rounds: int) -> float:
        """Play on; return the seconds of the processor inside ask and tell, which no other process lengthens."""
        seconds = 0.0
        for _ in range(rounds):
            levels = self.env.context()
            start = process_time()
            cell = self.policy.ask(levels)
            asked = process_time()
            reward = self.env.pull(cell)
            told = process_time()
            self.policy.tell(cell, reward)
            seconds += asked - start + process_time() - told
        return seconds - 2 * rounds * CLOCK


def clock() -> float:
    """The seconds that looking at the clock takes, as it adds them to what is timed."""
    looks = [-process_time() + process_time() for _ in range(1_000)]
    return float(np.median(looks))


CLOCK = clock()


def main() -> None:
    """Read a case, then numbers of rounds, one per line; write where the library is, then seconds."""
    case = json.loads(sys.stdin.readline())
    small = case["arguments"] | ({"horizon": PLENTY} if "horizon" in case["arguments"] else {})
    Player(case | {"p": SMALL, "arguments": small}).play(FEW)
    player = Player(case)
    print(json.dumps(tb.__file__), flush=True)
    for line in sys.stdin:
        print(json.dumps(player.play(int(line))), flush=True)


if __name__ == "__main__":
    main()
