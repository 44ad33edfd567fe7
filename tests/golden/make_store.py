"""Write the golden store: an SQLite file with events of every kind, as this version writes it.

It stays as it is for ever, so that what was written once can be read. When the tables change, add one of the new
revision beside it: ``python tests/golden/make_store.py 2`` (it refuses to replace any).
"""

import sys
from pathlib import Path

from tensorbandits.store import KeyRow, New, Store

HERE = Path(__file__).parent

EVENTS = [
    New("Created", 1000.0, {"settings": {"name": "campaign", "modes": {"offer": ["a", "ü"]}}}, key="create"),
    New("Decided", 1001.25, {"cell": [0, 1], "p": 0.25, "by": "policy", "active": True}, "d1", "k1"),
    New("Decided", 1002.5, {"cell": [1, 0], "p": None, "by": "caller", "active": False}, "d2"),
    New("Decided", 1002.75, {"cell": [1, 1], "p": 0.5, "by": "holdout", "active": True}, "d3"),
    New("Decided", 1002.875, {"cell": [0, 0], "p": 0.5, "by": "floor", "active": True}, "d4"),
    New("Activated", 1003.0, {}, "d2"),
    New("Rewarded", 1004.0, {"reward": 1.0}, "d1", "k2"),
    New("Amended", 1005.0, {"reward": 0.1}, "d1"),
    New("Cancelled", 1006.0, {}, "d3"),
    New("TimedOut", 1007.0, {"reward": 0}, "d2"),
    New("TimedOut", 1007.5, {"reward": None}, "d4"),
    New("Told", 1008.0, {"cell": [0, 0], "reward": 3, "trials": 10}),
    New("LevelAdded", 1009.0, {"mode": "offer", "label": "summer", "like": "a"}),
    New("LevelRetired", 1010.0, {"mode": "offer", "label": "ü"}),
    New("LevelRestored", 1011.0, {"mode": "offer", "label": "ü"}),
    New("RuleChanged", 1012.0, {"rule": {"forbid": {"offer": "a"}}, "add": True}),
    New("Imported", 1013.0, {"ledger": "AAEC", "added": {}, "rows": 3}),
    New("Changed", 1014.0, {"settings": {"holdout": 0.05}}),
]
KEYS = [
    KeyRow("a1", "ann", "$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$aGFzaA", "admin", None, 1000.0),
    KeyRow("b2", "shop", "$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$aGFzaA", "decide", ["campaign"], 1001.0, 1002.0),
]


def fill(store):
    """Put in something of everything: a log, one that is folded, one that ended, snapshots, keys."""
    whole = store.create("campaign", EVENTS)
    store.put_snapshot(whole.id, 5, b"state after 5")
    store.put_snapshot(whole.id, 9, b"state after 9")
    folded = store.create("folded", EVENTS)
    store.fold(folded.id, 7, b"base after 7")
    gone = store.create("gone", EVENTS[:1])
    store.delete(gone.id, New("Deleted", 1015.0))
    for key in KEYS:
        store.add_key(key)


if __name__ == "__main__":
    with Store.open("sqlite://") as made:
        fill(made)
        made.backup(HERE / f"store-{int(sys.argv[1])}.db")
