"""The run through a lake, from end to end: deciders, Redis, a mover and a learner, killed at random on their way."""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tensorbandits as tb
from benchmarks.run import ONE_THREAD, ROOT
from benchmarks.service import lake_count
from benchmarks.service.lake_worker import LIVES, MODES, NAME, Run, learner_of, place_of
from benchmarks.store import Result, Settings

WINDOW, DEFAULT = 600.0, 0.0
_PATIENCE = 600.0  # seconds without any progress after which something must be wrong
VICTIMS = {"decider": 8, "learner": 5, "redis": 5, "mover": 2}  # of twenty kills


def measure(settings: Settings) -> Result:
    """Run it, count it, and compare."""
    with tempfile.TemporaryDirectory(prefix="tb-lake-") as place:
        folder = Path(place)
        with Running(folder, settings) as running:
            running.go()
        found = verdict(running.run, settings)
        return found | running.said()


class Running:
    """The processes of a run."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        from tests.servers import Redis

        self.rng = random.Random(settings["seed"])
        self.kills = kills_of(settings["kills"], self.rng)
        self.redis = Redis(durable=True)
        given = {
            **{name: settings[name] for name in ("deciders", "on_redis", "seed", "speed", "every")},
            "began": time.time(),
            "share": settings["decisions"] // settings["deciders"],
            "redis": self.redis.url,
            "rows": 50_000,
            "seconds": 3.0,
        }
        (folder / "run.json").write_text(json.dumps(given))
        self.run = Run(folder)
        _bandit(self.run)
        self.counters = self.run.counters()
        self.lives = [0] * settings["deciders"]
        self.killed: list[str] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.seconds = 0.0

    def __enter__(self) -> Running:
        self.redis.start()
        self._start("learner")
        self._start("mover")
        for decider in range(len(self.lives)):
            self._start_decider(decider)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.redis.close()

    def go(self) -> None:
        """Let deciders decide, kill and start again, and end in order."""
        began = time.monotonic()
        total = self.run.settings["share"] * len(self.lives)
        marks = sorted(self.rng.uniform(0.02, 0.97) * total for _ in self.kills)
        victims = list(self.kills)
        last, moved = 0, time.monotonic()
        while any(self._runs(decider) for decider in range(len(self.lives))):
            made = self.numbers()[0]
            if marks and made >= marks[0]:
                marks.pop(0)
                self._kill(victims.pop(0))
                print(
                    f"{made:,} decisions, {time.monotonic() - began:.0f} s: killed {self.killed[-1]}", file=sys.stderr
                )
            if made > last:
                last, moved = made, time.monotonic()
            self._watch()
            if time.monotonic() > moved + _PATIENCE:
                raise RuntimeError(f"no decision for {_PATIENCE:g} s, at {made:,} of {total:,}: {self._errors()}")
            time.sleep(0.05)
        for role in ("mover", "learner"):
            self.processes[role].send_signal(signal.SIGTERM)
        if self.processes["mover"].wait(_PATIENCE):
            raise RuntimeError(f"the mover failed: {self._errors()}")
        self.processes["learner"].wait(_PATIENCE)
        self.seconds = time.monotonic() - began

    def _watch(self) -> None:
        """Raise if a process ended that was not killed."""
        for name, process in self.processes.items():
            if process.poll() not in (None, 0):
                raise RuntimeError(f"{name} failed: {self._errors()}")

    def _kill(self, what: str) -> None:
        if what == "redis":
            self.redis.kill()
            time.sleep(self.rng.uniform(0.0, 1.0))
            self.redis.start()
        elif what == "decider":
            alive = [at for at in range(len(self.lives)) if self._runs(at)]
            at = self.rng.choice(alive)
            what = f"decider {at}"
            self._end(f"decider-{at}")
            self.lives[at] += 1
            self._start_decider(at)
        else:
            self._end(what)
            self._start(what)
        self.killed.append(what)

    def _end(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def _runs(self, decider: int) -> bool:
        return self.processes[f"decider-{decider}"].poll() is None

    def _start_decider(self, at: int) -> None:
        self._start("decider", str(at), str(self.lives[at]), name=f"decider-{at}")

    def _start(self, role: str, *more: str, name: str | None = None) -> None:
        command = [sys.executable, "-m", "benchmarks.service.lake_worker", str(self.run.folder), role, *more]
        with open(self.run.folder / "errors", "ab") as errors:
            self.processes[name or role] = subprocess.Popen(
                command, cwd=ROOT, env=os.environ | ONE_THREAD, stdout=errors, stderr=errors
            )

    def _errors(self) -> str:
        return (self.run.folder / "errors").read_text(errors="replace")[-3_000:]

    def numbers(self) -> tuple[int, int]:
        """How many decisions were made, and rewards told, by all."""
        places = [place_of(at, life) for at in range(len(self.lives)) for life in range(LIVES)]
        pairs = [struct.unpack_from("<qq", self.counters, place) for place in places]
        return sum(made for made, _ in pairs), sum(told for _, told in pairs)

    def said(self) -> Result:
        """What is known of the processes."""
        made, told = self.numbers()
        rounds = self.rounds
        return {
            "killed": {what: sum(one.startswith(what) for one in self.killed) for what in VICTIMS},
            "made": made,
            "told": told,
            "seconds": self.seconds,
            "rounds": len(rounds),
            "round_seconds": sum(one[0] for one in rounds),
            "versions": max([one[3] or 0 for one in rounds], default=0),
        }

    @property
    def rounds(self) -> list[Any]:
        """What rounds of the learner said: seconds, hours that were joined, decisions, version."""
        lines = (self.run.folder / "rounds").read_text().splitlines()
        return [json.loads(line) for line in lines if line.endswith("]")]  # a kill may cut the last one


def kills_of(count: int, rng: random.Random) -> list[str]:
    """What is killed, in which order: of each kind its share, and one at least."""
    whole = [what for what, many in VICTIMS.items() for _ in range(max(1, round(many * count / 20)))]
    rng.shuffle(whole)
    return whole[:count] if count < len(whole) else whole


def _bandit(run: Run) -> None:
    """Make the bandit, and publish it for the first time."""
    space = tb.Space(MODES, context=["segment"])
    settings = {"rank": 2, "reward": "gaussian", "holdout": 0.05, "floors": 0.02}
    bandit = tb.Bandit(space, window=f"{WINDOW:g} s", default=DEFAULT, seed=0, **settings)  # type: ignore[arg-type]
    bandit.publish(run.published, name=NAME, draws=16)
    bandit.save(run.bandit)


def verdict(run: Run, settings: Settings) -> Result:
    """Learn what is left, anew and by each engine, and compare with the independent count."""
    now = run.clock() + 86_400.0  # all windows have ended
    began = time.monotonic()
    wanted, facts = lake_count.count(run, now, WINDOW, DEFAULT)
    count_seconds = time.monotonic() - began
    gone_on = learner_of(run)
    last = gone_on.learn(now)
    print(json.dumps(facts | {"counts": dict(last.counts)}), file=sys.stderr, flush=True)
    said: dict[str, Any] = {"gone on": {"exact": lake_count.learned(gone_on.ledger) == wanted}}
    for engine in settings["engines"]:
        try:
            said[engine] = _anew(run, engine, now, wanted, gone_on.total)
        except RuntimeError as error:
            said[engine] = {"exact": False, "failed": " ".join(str(error).split())[:300]}
        print(json.dumps(said), file=sys.stderr, flush=True)
    return {
        "facts": facts,
        "counts": dict(last.counts),
        "refused": len(last.refused),
        "learned": said,
        "hours": last.hours,
        "cells": len(wanted),
        "rewards_counted": sum(int(count) for count, _, _ in wanted.values()),
        "count_seconds": count_seconds,
        "bytes": {kind: lake_count.size_of(run.lake / kind) for kind in ("decisions", "rewards")},
    }


def _anew(run: Run, engine: str, now: float, wanted: lake_count.Sums, total: Any) -> dict[str, Any]:
    """Learn all of the lake with an engine, and compare it with the count, and with what was learned in rounds."""
    from tensorbandits.lake.engines import engine_of

    learner = learner_of(run, engine_of(engine, threads=2), kept=run.folder / f"kept-{engine}")
    try:
        done = learner.learn(now)
        exact = lake_count.learned(learner.ledger) == wanted
        return {"exact": exact, "same bits": _same(learner.total, total), "seconds": done.seconds}
    finally:
        learner.close()


def _same(one: Any, other: Any) -> bool:
    return bool(one.sums == other.sums and one.makers == other.makers and one.counts == other.counts)
