"""Visitors of the shop, who click more often on what their segment likes; says every few seconds how often."""

import argparse
import json
import random
import time
import urllib.request

from bandit import MODES

LIKES = {"new": {"ten percent": 0.3, "gift": 0.1}, "returning": {"shipping": 0.25}, "member": {"early access": 0.35}}
SEEN = {"top": 1.0, "side": 0.5, "popup": 0.8}


def get(address: str) -> str:
    """Return what an address answers."""
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode()


def visit(shop: str, rng: random.Random) -> bool:
    """Look at an offer, and click on it or not."""
    segment = rng.choice(MODES["segment"])
    offer = json.loads(get(f"{shop}/offer?segment={segment}"))
    if rng.random() >= LIKES[segment].get(offer["offer"], 0.02) * SEEN[offer["banner"]]:
        return False
    get(f"{shop}/click/{offer['id']}")
    return True


def main() -> None:
    """Send visitors, so many a second, until so many came."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("shop", nargs="?", default="http://127.0.0.1:8080")
    words.add_argument("--visits", type=int, default=100_000)
    words.add_argument("--rate", type=float, default=50.0, help="visitors a second")
    words.add_argument("--report", type=float, default=10.0, help="seconds between two lines")
    given = words.parse_args()
    rng, clicks, visits, due = random.Random(), 0, 0, time.monotonic() + given.report
    for number in range(given.visits):
        clicks, visits = clicks + visit(given.shop, rng), visits + 1
        if time.monotonic() >= due or number == given.visits - 1:
            version = json.loads(get(f"{given.shop}/status"))["version"]
            print(f"{clicks / visits:.3f} clicks per visit of the last {visits}; snapshot {version}", flush=True)
            clicks, visits, due = 0, 0, time.monotonic() + given.report
        time.sleep(1.0 / given.rate)


if __name__ == "__main__":
    main()
