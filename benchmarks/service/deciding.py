"""A process that decides from snapshots, as fast as it can or at a pace: a JSON line for each slice in, and one out.

``python -m benchmarks.service.deciding ADDRESS LAKE COUNTER``: the counter is a file of 8 bytes that always says how
many decisions were made, also when the process is killed.
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy import stats

import tensorbandits as tb
from benchmarks.run import ONE_THREAD, ROOT
from tensorbandits.bandit.commands import Ask
from tensorbandits.bandit.published import PublishedSnapshot

KEYS = {"2026-11": b"a secret for measurements only"}
SEGMENTS = 20
MODES = {
    "segment": [f"segment {at}" for at in range(SEGMENTS)],
    "offer": [f"offer {at}" for at in range(10)],
    "channel": [f"channel {at}" for at in range(5)],
}
RULE = {"offer": "offer 3", "channel": "channel 1"}  # never together
SHARES = {"floors": 0.05, "holdout": 0.05}
_NOTHING = (bytes(80),) * 8
_FLUSH = 60.0  # seconds that the sink may take at the end of a slice
_MOST = 500_000  # decisions a second at most


def decide(decider: tb.Decider, contexts: Sequence[str], seconds: float, counter: Any) -> dict[str, float]:
    """Decide for so many seconds, one by one; return how many decisions lie in the sink, and how long that took."""
    made, ask, pack = 0, decider.ask, int.to_bytes
    began, ran = time.perf_counter(), time.process_time()
    end = began + seconds
    while time.perf_counter() < end:
        for context in contexts:
            ask(segment=context)
        made += len(contexts)
        counter[:8] = pack(int.from_bytes(counter[:8], "big") + len(contexts), 8, "big")
    decided = time.perf_counter() - began
    flushed = decider.flush(_FLUSH)
    spent = time.perf_counter() - began
    return {"count": made, "seconds": spent, "decided": decided, "ran": time.process_time() - ran, "flushed": flushed}


def timed(decider: tb.Decider, contexts: Sequence[str], seconds: float, pace: float) -> dict[str, Any]:
    """Decide at a pace for so many seconds; return the nanoseconds of each decision, and the snapshots that came."""
    ask, clock = decider.ask, time.perf_counter_ns
    # Written to before: with a list that grows, one time in fifty would be that of the system finding memory for it.
    times, control = (np.ones(int(seconds * _MOST) + 1, dtype=np.int64) for _ in range(2))
    before, end, at = decider.status()["snapshots"], clock() + int(seconds * 1e9), 0
    while clock() < end and at < len(times):
        context = contexts[at % len(contexts)]
        began = clock()
        ask(segment=context)
        times[at] = clock() - began
        began = clock()
        nothing()
        control[at] = clock() - began
        at += 1
        if pace:
            time.sleep(pace)
    swaps = decider.status()["snapshots"] - before
    return {"times": times[:at].tolist(), "control": control[:at].tolist(), "swaps": swaps}


def nothing() -> None:
    """Take about as long as a decision, and decide nothing: what the machine does to its time is the machine's."""
    for at in _NOTHING:
        sha256(at).digest()


def main() -> None:
    """Answer requests for slices until the input ends."""
    address, lake, counted = sys.argv[1:4]
    with open(counted, "r+b") as file:
        counter = mmap.mmap(file.fileno(), 8)
    contexts = MODES["segment"]
    sink = None if lake == "-" else tb.ParquetSink(lake, seconds=1.0)
    with tb.Decider(address, keys=KEYS, sink=sink, every=0.25, name="benchmark", wait=60.0) as decider:
        for context in contexts:
            decider.ask(segment=context)
        counter[:8] = (int.from_bytes(counter[:8], "big") + len(contexts)).to_bytes(8, "big")
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            given = json.loads(line)
            if given["what"] == "decide":
                found: dict[str, Any] = decide(decider, contexts, given["seconds"], counter)
            else:
                found = timed(decider, contexts, given["seconds"], given.get("pace", 0.0))
            status = decider.status()
            print(json.dumps(found | {name: status[name] for name in ("dropped", "version", "problem")}), flush=True)


class Process:
    """Such a process."""

    def __init__(self, address: str, lake: str, folder: Path) -> None:
        self.counter = folder / f"counter-{time.monotonic_ns()}"
        self.counter.write_bytes(bytes(8))
        command = [sys.executable, "-m", "benchmarks.service.deciding", address, lake, str(self.counter)]
        environment = {**os.environ, **ONE_THREAD}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self, what: str, **given: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"what": what, **given}) + "\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a decider ended ({self.process.poll()})")
        return dict(json.loads(line))

    @property
    def made(self) -> int:
        """How many decisions it has made, as far as it could say."""
        return int.from_bytes(self.counter.read_bytes(), "big")

    def end(self) -> None:
        """Let it hand over what waits, and end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(_FLUSH)
        self._close()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # what it was not sent any more
                    pipe.close()


@contextmanager
def processes(count: int, address: str, lake: str, folder: Path) -> Iterator[list[Process]]:
    """Yield processes that are ready; they are ended at the end."""
    some = [Process(address, lake, folder) for _ in range(count)]
    try:
        for one in some:
            one.read()
        yield some
        for one in some:
            one.end()
    finally:
        for one in some:
            one.kill()


def bandit(rounds: int = 0, seed: int = 0, **settings: Any) -> tb.Bandit:
    """Return the bandit of these measurements, with so many rewards of a world of rank 1."""
    space = tb.Space(MODES, context=["segment"])
    space.forbid(RULE)
    made = tb.Bandit(space, **{"reward": "bernoulli", "rank": 2, "seed": seed, **SHARES, **settings})
    tell(made, rounds, seed)
    return made


def tell(made: tb.Bandit, rounds: int, seed: int) -> None:
    """Tell a bandit rewards of random arms."""
    rng, shape = np.random.default_rng([seed, rounds]), made.space.shape
    if not rounds:
        return
    cells = np.column_stack([rng.integers(size, size=rounds) for size in shape])
    rates = 0.05 + 0.1 * (cells[:, 1] % 3 == 0) + 0.1 * (cells[:, 1] % 5 == cells[:, 2] % 5)
    ledger = tb.Ledger(shape)
    ledger.add(cells, (rng.random(rounds) < rates).astype(float))
    made.bring_rewards(ledger)


def records(lake: Path, kind: str = "decisions") -> list[Any]:
    """Return the files of a lake as tables."""
    return [pq.ParquetFile(file).read() for file in sorted(lake.glob(f"{kind}/*/*/part-*.parquet"))]


def fit(tables: list[Any], snapshots: dict[int, PublishedSnapshot]) -> dict[str, float]:
    """Hold how often arms were played in each segment against what each snapshot's own law says of them.

    Returns the chi-square statistic and its degrees of freedom, over all snapshots and segments, the p-value of each
    segment, and the largest difference between a propensity that was logged and the law.
    """
    counts: dict[tuple[int, int], np.ndarray[Any, Any]] = {}
    offers, channels = len(MODES["offer"]), len(MODES["channel"])
    said: dict[tuple[int, int], np.ndarray[Any, Any]] = {}
    for table in tables:
        versions = table["snapshot"].to_numpy()
        cells = np.array(table["cell"].combine_chunks().flatten()).reshape(-1, 3)
        arms, chances = cells[:, 1] * channels + cells[:, 2], table["propensity"].to_numpy()
        for version in np.unique(versions):
            for segment in range(SEGMENTS):
                some = (versions == version) & (cells[:, 0] == segment)
                place = int(version), segment
                counts[place] = counts.get(place, 0) + np.bincount(arms[some], minlength=offers * channels)
                known = said.setdefault(place, np.full(offers * channels, np.nan))
                known[arms[some]] = chances[some]
    wrong, statistic, freedom = 0.0, np.zeros(SEGMENTS), np.zeros(SEGMENTS)
    for (version, segment), seen in counts.items():
        if version not in snapshots:
            continue
        cells = [(segment, offer, channel) for offer in range(offers) for channel in range(channels)]
        law = np.array(snapshots[version].snapshot().chances(Ask((segment,)), cells), dtype=float)
        law[MODES["offer"].index(RULE["offer"]) * channels + MODES["channel"].index(RULE["channel"])] = 0.0
        heard = said[version, segment]
        wrong = max(wrong, float(np.nanmax(np.abs(heard - law), initial=0.0)))
        if seen[law == 0.0].sum():
            raise RuntimeError(f"an arm that is forbidden was played in segment {segment}")
        expected = law * seen.sum()
        many = expected >= 5.0
        pairs = [(seen[many], expected[many])]
        if (~many & (law > 0.0)).any():
            pairs.append((seen[~many].sum(keepdims=True), expected[~many].sum(keepdims=True)))
        one, two = (np.concatenate(each) for each in zip(*pairs, strict=True))
        if len(one) > 1:
            statistic[segment] += float(((one - two) ** 2 / two).sum())
            freedom[segment] += len(one) - 1
    tails = stats.chi2.sf(statistic, np.maximum(freedom, 1.0))
    return {
        "statistic": float(statistic.sum()),
        "freedom": float(freedom.sum()),
        "p": float(stats.chi2.sf(statistic.sum(), freedom.sum())),
        "least": float(tails.min()),
        "wrong": wrong,
        "decisions": float(sum(seen.sum() for seen in counts.values())),
        "compared": float(sum(seen.sum() for (version, _), seen in counts.items() if version in snapshots)),
    }


if __name__ == "__main__":
    main()
