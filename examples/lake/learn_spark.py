"""Learns with Spark as files come into the lake, by Structured Streaming; once an hour from all that lies there."""

import logging
import os

from tensorbandits.lake.learning import LakeLearner
from tensorbandits.lake.spark import LakeStream, SparkEngine

EVERY = float(os.environ.get("EVERY", "60"))
BATCH = float(os.environ.get("BATCH", "3600"))


def main() -> None:
    """Learn until stopped; started again it goes on."""
    logging.basicConfig(format="%(asctime)s %(message)s")
    logging.getLogger("tensorbandits.lake").setLevel(logging.INFO)  # which says what each round found
    learner = LakeLearner(
        "offers.safetensors",
        name="offers",
        decisions="lake/decisions",
        rewards="lake/rewards",
        publish=os.environ.get("SNAPSHOTS", "published"),
        engine=SparkEngine(),
    )
    stream = LakeStream(learner, lateness="2 hours", checkpoint="checkpoint")
    query = stream.start(every=EVERY)
    while not query.awaitTermination(BATCH):
        stream.learn_all()  # what came later, and windows that ended while nothing came


if __name__ == "__main__":
    main()
