"""Write a golden published snapshot, and tokens of decisions made from it: ``python tests/golden/make_snapshot.py 2``.

What was published once is read by later releases, and a reward may be told a month after its decision by whoever has
been upgraded since. Like all golden files they are never replaced.
"""

import importlib.util
import json
import sys
from pathlib import Path

import tensorbandits as tb
from tensorbandits.bandit.commands import Ask

HERE = Path(__file__).parent
KEYS = {"2026-11": b"a secret of the golden files"}
NOW = 1_795_000_000.0


def chances(snapshot):
    """The probabilities of all arms that are allowed, by segment."""
    space, ready = snapshot.space, snapshot.snapshot()
    found = {}
    for segment, label in enumerate(space.levels[0]):
        query = ready.query(Ask((segment,)))
        cells = [(segment, offer, channel) for offer in range(space.shape[1]) for channel in range(space.shape[2])]
        cells = [cell for cell in cells if query.allowed is None or query.allowed.permits(cell)]
        for cell, chance in zip(cells, ready.chances(Ask((segment,)), cells), strict=True):
            found[f"{label} {'-'.join(map(str, cell))}"] = chance
    return found


def main(number):
    """Write the snapshot, and beside it what it says and tokens with what they say."""
    spec = importlib.util.spec_from_file_location("golden_make", HERE / "make.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    bandit, _ = make.bandit(lambda: NOW)
    snapshot = bandit.snapshot(name="offers", draws=3)
    path = HERE / f"snapshot-{number}.safetensors"
    if path.exists():
        raise SystemExit(f"{path} is there already; golden files are never replaced: give another number")
    path.write_bytes(snapshot.to_bytes())
    with tb.Decider(snapshot, keys=KEYS, clock=lambda: NOW, seed=0) as decider:
        made = {one.by: one for one in (decider.ask(segment="new") for _ in range(2_000))}
    tokens = {
        one.id: {"by": one.by, "arm": one.arm, "propensity": one.propensity, "draw": one.draw, "time": one.time}
        for one in made.values()
    }
    said = {"uid": snapshot.uid, "version": snapshot.version, "event": snapshot.event, "chances": chances(snapshot)}
    path.with_suffix(".json").write_text(json.dumps(said | {"tokens": tokens}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]))
