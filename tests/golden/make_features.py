"""Write a golden space whose levels have features of every kind, and their columns: ``make_features.py 1``."""

import json
import sys
from pathlib import Path

import tensorbandits as tb

HERE = Path(__file__).parent
OFFERS = {
    "a": {"price": 2.0, "sale": True, "brand": "Acme", "about": "red summer shoes", "image": [0.5, 1.0, -2.0]},
    "b": {"price": 4.0, "sale": False, "brand": "Acme", "about": "blue shoes", "image": [0.0, 3.0, 1.0]},
    "c": {"price": 1e9, "brand": "Bolt", "about": "a red hat", "image": [1.5, -1.0, 0.5]},
    "d": {"sale": True, "brand": "Bolt"},
}


def space():
    """A space of which a level came later, with words and a category that were not there at first."""
    made = tb.Space({"offer": list(OFFERS), "channel": ["mail", "sms"]}, features={"offer": OFFERS})
    made.add_level("offer", "e", {"price": -3.0, "brand": "Core", "about": "grüne Schuhe"})
    made.describe("offer", {"b": {"price": None, "image": [9.0, 9.0, 9.0]}})
    return made


def main(number):
    """Write the space, and the columns of its levels."""
    path, made = HERE / f"features-{number}.json", space()
    if path.exists():
        raise SystemExit(f"{path} is there already; golden files are never replaced: give another number")
    found = {"space": made.state(), "numbers": made.features["offer"].numbers.tolist()}
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
