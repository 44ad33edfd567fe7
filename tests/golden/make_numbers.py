"""Write a golden space whose context is numbers, and where it places some: ``make_numbers.py 1``."""

import json
import sys
from pathlib import Path

import tensorbandits as tb

HERE = Path(__file__).parent
NUMBERS = [(18, 0), (21.5, 3), (40, 1.5), (61, 30), (90, 1), (None, 1), (30, None), (33, 12)]


def space():
    """A space with regions of two numbers, of which one was split, of one number by cuts, and one to be learned."""
    people = {"age": [20, 22, 21, 60, 64, 58, 18, 33], "tenure": [1.0, 0.0, 2.0, 30.0, 31.0, 29.0, 0.5, 12.0]}
    made = tb.Space(
        {
            "who": tb.Numeric("age", "tenure", regions=3).learn(people),
            "hour": tb.Numeric(cuts=[0, 6, 12, 18, 24]),
            "basket": tb.Numeric(regions=4, requests=50),
            "offer": ["a", "b"],
        },
        ["who", "hour", "basket"],
    )
    made.learn_regions("basket", made.regions["basket"].fit([[1], [2], [5], [8], [9.5], [20]]))
    made.split_region("hour", "hour 12 to 18", 15)
    made.split_region("who", made.levels[0][0], 21, "age")
    made.forbid(hour="hour 0 to 6", offer="b")
    return made


def main(number):
    """Write the space, and the labels of some numbers."""
    path, made = HERE / f"numbers-{number}.json", space()
    if path.exists():
        raise SystemExit(f"{path} is there already; golden files are never replaced: give another number")
    rows = [
        [age, tenure, made.labels((*made.given(age=age, tenure=tenure, hour=15, basket=age), 0))]
        for age, tenure in NUMBERS
    ]
    path.write_text(json.dumps({"space": made.state(), "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]))
