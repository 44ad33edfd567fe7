"""An attack on the service: commands of several tenants at random, while servers, database and clock are made to fail.

``python -m benchmarks.service.attack --seconds 3600 --seed 0 --store postgres --replicas 2`` attacks for an hour, in
rounds with a new store each, and prints what was done and which promises were broken; it ends with 1 if any was.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.service.attack_clients import Client
from benchmarks.service.attack_end import check_end
from benchmarks.service.attack_faults import LONGEST, Faults
from benchmarks.service.attack_managers import Manager
from benchmarks.service.attack_records import BOUND, Diary, Findings, Json
from benchmarks.service.attack_servers import Place, command, placed
from benchmarks.service.attack_tenants import KINDS, Sender, Tenant, tenants

ROUND = 300.0  # seconds of a round at most


@dataclass(frozen=True)
class Settings:
    """How a round is attacked."""

    store: str = "sqlite"  # or postgres
    seconds: float = 60.0
    seed: int = 0
    replicas: int = 2
    clients: int = 2  # threads of each tenant, beside its manager
    copies: int = 1  # that are damaged and served
    kinds: tuple[str, ...] = tuple(KINDS)  # the tenants
    faults: bool = True  # whether anything is made to fail
    patience: float = 1.0  # times the limits of waiting, for machines that others use too


def attack(settings: Settings, diary: Diary | None = None) -> Diary:
    """Attack one store, and return what was done and found, which is written into a diary meanwhile."""
    diary = Diary() if diary is None else diary
    diary.patience = settings.patience
    new = tempfile.TemporaryDirectory(prefix="tb-attack-", ignore_cleanup_errors=True)
    with new as folder, placed(settings.store, Path(folder), settings.replicas) as place:
        root = command("keys", "add", "root", "--role", "admin", "--store", place.url).stdout.split()[0]
        everybody = tenants(settings.kinds)
        for server in place.servers:
            server.start()
        if not all(server.wait() for server in place.servers):
            raise RuntimeError(f"a server does not start: {place.servers[0].words()}")
        _make(diary, place, everybody, root)
        _load(diary, place, everybody, root, settings)
        check_end(diary, place, everybody)
        diary.servers = [server.words() for server in place.servers]
    return diary


def _make(diary: Diary, place: Place, everybody: Sequence[Tenant], root: str) -> None:
    """Make a bandit and two keys for each tenant, which all servers know."""
    for tenant in everybody:
        sender = Sender(diary, tenant, place.ports, "make")
        for role in ("decide", "admin"):
            body = {"name": f"{tenant.name} {role}", "role": role, "bandits": [tenant.name]}
            made = sender.send("make a key", "POST", "/v1/keys", body, secret=root, expects=(201,), keep=False)
            setattr(tenant, "decide" if role == "decide" else "manage", made.answer["key"])
        sender.send("create", "POST", "/v1/bandits", tenant.settings, secret=root, expects=(201,), keep=False)
        _known(sender, time.monotonic() + 20)
        sender.close()


def _known(sender: Sender, end: float) -> None:
    """Wait until all servers know a tenant's keys, which takes them seconds."""
    for at in range(sender.servers):
        for secret in (sender.tenant.decide, sender.tenant.manage):
            while not sender.send("me", "GET", "/v1/me", secret=secret, replica=at).done and time.monotonic() < end:
                time.sleep(0.1)


def _load(diary: Diary, place: Place, everybody: Sequence[Tenant], root: str, settings: Settings) -> None:
    """Let everybody work, and do harm meanwhile; return when all have ended."""
    over, harmless, seed = threading.Event(), threading.Event(), settings.seed
    faults = Faults(diary, place, root, f"faults {seed}", settings.seconds / 6, settings.copies)
    workers: list[Callable[[], None]] = [lambda: _pulse(diary, over)]
    for tenant in everybody:
        for at in range(settings.clients):
            client = Client(diary, tenant, place.ports, f"client {seed} {tenant.name} {at}")
            workers.append(lambda client=client: client.work(over))
        late = 10 + 3 * min(settings.seconds / 6, LONGEST)
        manager = Manager(diary, tenant, place.ports, f"manager {seed} {tenant.name}", root, late)
        workers.append(lambda manager=manager: manager.work(over))
    threads = [_thread(diary, work) for work in workers]
    harm = _thread(diary, lambda: faults.work(harmless) if settings.faults else None)
    try:
        faults.broken.wait(settings.seconds)
    finally:
        harmless.set()
        harm.join(150)  # it puts everything right before it ends
        over.set()
    end = time.monotonic() + 4 * BOUND
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0))
    stuck = sum(thread.is_alive() for thread in threads)
    if stuck:
        diary.findings.add("every client comes to an end", f"{stuck} threads still wait after {4 * BOUND:g} s")


def _thread(diary: Diary, work: Callable[[], None]) -> threading.Thread:
    """Start a thread whose failure is a finding, since nothing else would show it."""

    def run() -> None:
        try:
            work()
        except Exception:
            diary.findings.add("the attack itself works", traceback.format_exc(limit=-4))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _pulse(diary: Diary, over: threading.Event) -> None:
    """Note when this process itself did not get to run, so that nobody is blamed for it."""
    before = time.monotonic()
    while not over.wait(0.05):
        now = time.monotonic()
        if now - before > 0.5:
            diary.starved.append((before, now))
        before = now


# What is shown.


def report(diaries: Sequence[Diary]) -> Json:
    """Return what was done and found in all rounds, as plain data."""
    commands, faults, findings = Counter[Any](), Counter[str](), Findings()
    for diary in diaries:  # each numbers its seconds from its own beginning
        commands.update(diary.commands)
        faults.update(diary.faults)
        findings.counts.update(diary.findings.counts)
        for check, examples in diary.findings.examples.items():
            findings.examples[check] += examples[: 40 - len(findings.examples[check])]
    rows: dict[str, Json] = {}
    for (what, outcome), number in sorted(commands.items()):
        rows.setdefault("wrong requests" if what.startswith("wrong: ") else what, Counter())[outcome] += number
    soonest = sorted(findings.counts, key=lambda check: min(one["at"] for one in findings.examples[check]))
    return {
        "commands": {what: dict(counts) for what, counts in rows.items()},
        "faults": dict(sorted(faults.items())),
        "servers": [diary.servers for diary in diaries],
        "violations": {
            check: {
                "count": findings.counts[check],
                "examples": sorted(findings.examples[check], key=lambda one: one["at"]),
            }
            for check in soonest
        },
    }


def show(found: Json) -> None:
    """Print a report as plain tables."""
    outcomes = ("acknowledged", "refused", "unknown outcome")
    print(f"{'command':30}" + "".join(f"{outcome:>18}" for outcome in outcomes))
    for what, counts in found["commands"].items():
        print(f"{what[:30]:30}" + "".join(f"{counts.get(outcome, 0):18,}" for outcome in outcomes))
    totals = [sum(counts.get(outcome, 0) for counts in found["commands"].values()) for outcome in outcomes]
    print(f"{'all':30}" + "".join(f"{total:18,}" for total in totals))
    print(f"\n{'fault':30}{'times':>18}")
    for what, number in found["faults"].items():
        print(f"{what:30}{number:18,}")
    print(f"\n{sum(one['count'] for one in found['violations'].values()):,} violations; what came first stands first")
    for check, one in found["violations"].items():
        print(f"\n{one['count']:,} x broken: {check}")
        for example in one["examples"][:3]:
            print(f"  {example['at']} s, {example['tenant'] or 'all'}: {example['words'][:600]}")
            if example["request"]:
                print(f"    {example['request'][:700]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack for some time, and say what was found."""
    faulthandler.register(signal.SIGUSR1)  # shows where all threads are
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--round", type=float, default=ROUND, help="seconds of a round, after which all is checked")
    parser.add_argument("--tenants", default=",".join(KINDS), help="which kinds of tenants there are")
    parser.add_argument("--calm", action="store_true", help="commands only: nothing is made to fail")
    parser.add_argument("--out", type=Path, default=Path("out/attack.json"), help="the file for the report")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rounds = max(round(given.seconds / given.round), 1)
    diaries: list[Diary] = []
    try:
        for at in range(rounds):
            began, seconds = time.monotonic(), given.seconds / rounds
            copies = max(int(seconds / 60), 1)
            settings = Settings(
                given.store, seconds, given.seed + at, given.replicas, copies=copies,
                kinds=tuple(given.tenants.split(",")), faults=not given.calm,
            )  # fmt: skip
            diaries.append(Diary())
            attack(settings, diaries[-1])
            words = f"round {at + 1} of {rounds}: {time.monotonic() - began:.0f} s, seed {settings.seed}, "
            print(words + f"{diaries[-1].findings.total} violations", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    found = report(diaries)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1))
    show(found)
    return 1 if found["violations"] or not diaries else 0


if __name__ == "__main__":
    sys.exit(main())
