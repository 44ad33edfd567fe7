"""Write a snapshot of a bandit of the service, as this version keeps it: ``python tests/golden/make_replica.py 1``.

Events that were folded are nowhere else, so that such a file must be read for ever. It refuses to replace any.
"""

import json
import sys
from pathlib import Path

from tensorbandits.service.engine.replica import Replica
from tensorbandits.store import Event, New

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
    replica = Replica.created(Event(1, 1, 0.0, "Created", None, None, {"settings": SETTINGS}))
    replica.refresh(wait=True)

    def write(*news):
        first = replica.seq + 1
        replica.fold([Event(1, first + at, *_parts(new)) for at, new in enumerate(news)])

    for at in range(6):
        drawing = replica.draw({"segment": "new"}, None, ({"offer": "a", "channel": "mail"}, 0.5))
        write(replica.decided(f"order {at}", drawing, time=float(at), active=at != 5, key=None))
    write(*replica.plan_tell("order 0", 1, amend=False, add=False, time=10.0, key=None))
    write(*replica.plan_tell("order 2", 1, amend=False, add=False, time=11.0, key=None))
    write(*replica.plan_cancel("order 3", time=12.0, key=None))
    write(*replica.plan_told((1, 0, 1), 3, 10, time=13.0, key=None))
    write(*replica.plan_level("LevelAdded", "offer", "c", time=14.0, key=None))
    path.write_bytes(replica.snapshot()[1])
    ledger = replica.policy.ledger
    said = {"seq": replica.seq, "rounds": ledger.rounds, "total": float(ledger.totals.sum())}
    path.with_suffix(".json").write_text(json.dumps(said) + "\n", encoding="utf-8")


def _parts(new: New):
    return new.time, new.kind, new.decision, new.key, new.body


if __name__ == "__main__":
    main(int(sys.argv[1]))
