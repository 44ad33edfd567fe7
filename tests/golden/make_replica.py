"""Write a snapshot of a bandit of the service, as this version keeps it: ``python tests/golden/make_replica.py 2``.

Events that were folded are nowhere else, so that such a file must be read for ever. It refuses to replace any.
"""

import json
import sys
from pathlib import Path

import numpy as np

from tensorbandits.bandit import commands as c
from tensorbandits.service.engine import loading
from tensorbandits.store import Event

HERE = Path(__file__).parent
SETTINGS = {
    "modes": {"segment": ["new", "old"], "offer": ["a", "b"], "channel": ["mail", "sms"]},
    "context": ["segment"],
    "reward": "bernoulli",
    "rank": 1,
    "window": "10 min",
    "default": 0,
    "half_life": 100,
    "apprentice": True,
    "rules": [{"forbid": {"offer": "b", "channel": "sms"}}],
}


def main(number):
    path = HERE / f"replica-{number}.safetensors"
    if path.exists():
        raise SystemExit(f"{path} is there already; golden files are never replaced: give another number")
    core = loading.step(None, Event(1, 1, 0.0, "Created", None, None, {"settings": SETTINGS}, "a" * 16))
    core.learner.refresh(wait=True)

    def do(command, time):
        for event in core.state.plan(command, time):
            seq = core.state.seq + 1
            written = event.time, event.kind, event.decision, None, event.body()
            loading.step(core, Event(1, seq, *written, f"{seq:016x}"))

    ask = c.Ask((0,), played=(0, 0, 0), propensity=0.5)
    for at in range(6):
        drawn = core.current().decide(ask, np.random.default_rng(at))
        do(c.Decide(drawn, f"order {at}", at != 5), float(at))
    do(c.Tell("order 0", 1), 10.0)
    do(c.Tell("order 2", 1), 11.0)
    do(c.Cancel("order 3"), 12.0)
    do(c.TellCell((1, 0, 1), 3, 10), 13.0)
    do(c.AddLevel("offer", "c"), 14.0)
    path.write_bytes(loading.pack(core)[1])
    ledger = core.policy.ledger
    said = {"seq": core.state.seq, "rounds": ledger.rounds, "total": float(ledger.totals.sum())}
    path.with_suffix(".json").write_text(json.dumps(said) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]))
