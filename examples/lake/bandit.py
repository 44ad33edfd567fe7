"""Makes the bandit, and publishes it for the first time; does nothing if it is there already."""

import os
from pathlib import Path

import tensorbandits as tb

MODES = {
    "segment": ["new", "returning", "member"],
    "offer": ["shipping", "ten percent", "gift", "early access", "nothing"],
    "banner": ["top", "side", "popup"],
}


def make(path: Path, publish: str) -> None:
    """Save a new bandit, and publish it."""
    if path.exists():
        return
    space = tb.Space(MODES, context=["segment"])
    space.forbid(offer="nothing", banner="popup")
    # A visitor who has not clicked within a minute did not like it. One in twenty sees an offer by chance.
    bandit = tb.Bandit(space, reward="bernoulli", window="1 min", default=0, holdout=0.05)
    bandit.publish(publish, name="offers")
    bandit.save(path)
    print(f"made {path}, and published it to {publish}")


if __name__ == "__main__":
    make(Path("offers.safetensors"), os.environ.get("SNAPSHOTS", "published"))
