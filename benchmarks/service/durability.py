"""Suite ``durability``: servers and databases are killed while clients ask and tell; then the log is looked at.

Eight clients ask and tell with idempotency keys, repeat what was not answered, and remember every answer. After each
kill everything that was acknowledged must be in the log, nothing twice and nothing that nobody sent, and the state that
is served must be the one that follows from the log.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.report import Findings, command
from benchmarks.service import telling
from benchmarks.service.folded import fold, ledger_of
from benchmarks.service.served import BANDIT, SHARED, Place, Service, call, path, placed, serving
from benchmarks.service.witnesses import Client, Field, Tally
from benchmarks.store import Options, Result, Settings, Store
from tensorbandits.report.page import Part, Table, Text
from tensorbandits.service.engine.loading import pages
from tensorbandits.store import Store as Events

NAME = "durability"
ALONE, ONE_CORE = True, False
TITLE = "Durability: kill -9 under load"
MEASURED = "tensorbandits.service.run"

SOON = 5.0  # seconds within which it serves again
CLIENTS = 8
REMEMBER = 10_000_000  # decisions: clients amend rewards of long ago
TASKS = {
    "a server on SQLite": ("sqlite", 1, 100),
    "a server on PostgreSQL": ("postgresql", 1, 100),
    "one of two servers on PostgreSQL": ("postgresql", 2, 100),
    "PostgreSQL itself": ("postgresql", 1, 20),
}
_WAIT = 60.0  # seconds for a server to have folded what others wrote


def plan(options: Options) -> list[Settings]:
    kills = [
        {"task": "kill", "what": what, "store": store, "servers": servers, "kills": 2 if options.quick else kills}
        for what, (store, servers, kills) in TASKS.items()
    ]
    tells = {"sqlite": 1_000_000, "postgresql": 100_000}
    return kills + [
        {"task": "tells", "store": store, "tells": 6_000 if options.quick else count} for store, count in tells.items()
    ]


def label(settings: Settings) -> str:
    return settings.get("what", f"{settings['task']} on {settings['store']}")


def measure(settings: Settings) -> Result:
    return kill(settings) if settings["task"] == "kill" else telling.measure(settings)


def kill(settings: Settings, load: tuple[float, float] = (0.2, 1.0)) -> Result:
    """Kill again and again under load; return what was found, and how long it took to serve again."""
    rng = random.Random(settings.get("seed", 0))
    with placed(settings["store"]) as place, serving(place, settings["servers"]) as services:
        call(services[0], "POST", "/v1/bandits", BANDIT | {"remember": REMEMBER}, "made-once")
        field = Field([service.port for service in services], settings.get("clients", CLIENTS))
        trial = Trial(place, services, field)
        try:
            for at in range(settings["kills"]):
                time.sleep(rng.uniform(*load))
                trial.kill(database=_is_database(settings, at), which=rng.randrange(len(services)))
                print(f"kill {at + 1}: {trial.times[-1]:.2f} s, {trial.tally.seq} events", file=sys.stderr, flush=True)
        finally:
            field.stop()
        return trial.end()


def _is_database(settings: Settings, at: int) -> bool:
    """Whether it is PostgreSQL's turn; in the short form servers and PostgreSQL take turns."""
    return settings["what"] == "PostgreSQL itself" or (settings["what"] == "both" and at % 2 == 1)


class Trial:
    """Servers under load, what their log was found to say, and how long they were away."""

    def __init__(self, place: Place, services: Sequence[Service], field: Field) -> None:
        self._place, self._services, self._field = place, services, field
        self.tally, self.fold = Tally(), None  # the log in our words, and in the service's, without snapshots
        self.times: list[float] = []
        self._ran: list[float] = []
        self._waited: list[float] = []
        self._meanwhile: list[int] = []
        self.wrong: list[str] = []
        self._checks = 0

    def kill(self, database: bool, which: int) -> None:
        """Kill, start again, wait for an answer, and look at everything."""
        service, record = self._services[which], self._field.record
        before, began = record.acknowledged, time.monotonic()
        if database:
            self._place.postgres.kill()
            self._place.postgres.start()
        else:
            service.kill()
            service.start()
        if not database:
            service.wait()
        probe = Client(self._field, [service.port], len(self.times), f"probe-{len(self.times)}")
        probe.ask(patient=True)
        probe.caller.close()
        self.times.append(time.monotonic() - began)
        ran, waited = service.spent()
        self._ran.append(ran)
        self._waited.append(waited)
        self._meanwhile.append(record.acknowledged - before)
        for each in self._services:
            each.check()
        self._field.pause()
        self.check()
        self._field.open.set()

    def check(self) -> None:
        """Compare the log with what was acknowledged, and with what is served."""
        with Events.open(self._place.url) as store:  # opened after the server was, so that it had to recover by itself
            self._read(store)
        self._checks += 1
        self.wrong = self.tally.check(self._field.record)
        if ledger_of(self.fold) != self.tally.ledger():
            self.wrong.append("the folded ledger is not that of the acknowledged rewards")
        for service in self._services:
            self.wrong += self._served(service)
        if self.wrong:
            raise AssertionError(f"{len(self.wrong)} things are wrong: {self.wrong[:5]}")

    def _read(self, store: Events) -> None:
        bandit = store.find(BANDIT["name"])
        for page in pages(store.events(bandit.id, after=self.tally.seq)):
            self.fold = fold(self.fold, page)
            self.tally.take(page)

    def _served(self, service: Service) -> list[str]:
        """Compare what a server says of its state with the log; another's events may need a moment to arrive."""
        end = time.monotonic() + _WAIT
        tally, fold = self.tally, self.fold
        expected = {"seq": tally.seq, "decisions": len(tally.decided), "waiting": fold.waiting}
        expected["rewards"] = len(tally.rewarded) + len(tally.told)
        while True:
            found = call(service, "GET", path())
            if all(found[name] == value for name, value in expected.items()):
                return []
            if time.monotonic() > end:
                return [f"served { ({name: found[name] for name in expected}) }, but the log says {expected}"]
            time.sleep(0.02)

    def end(self) -> Result:
        """Stop the servers in order, and compare what each of them knew with the log folded from its beginning."""
        self.check()
        ledger, states = self.tally.ledger(), 0
        for service in self._services:
            service.stop()
            with Events.open(self._place.url) as store:
                bandit = store.find(BANDIT["name"])
                seq, state = store.snapshot(bandit.id)
                if seq != self.tally.seq or ledger_of(state) != ledger:
                    raise AssertionError(f"the state that was served, of event {seq}, is not that of the log")
                states += 1
        with Events.open(self._place.url) as store:
            whole, again = Tally(), None
            for page in pages(store.events(bandit.id)):
                again = fold(again, page)
                whole.take(page)
        if ledger_of(again) != ledger or whole.ledger() != ledger or whole.check(self._field.record):
            raise AssertionError("the log folded from its beginning says something else than before")
        record = self._field.record
        return {
            "times": self.times,
            "ran": self._ran,
            "waited": self._waited,
            "meanwhile": self._meanwhile,
            "checks": self._checks,
            "states": states,
            "acknowledged": record.acknowledged,
            "unanswered": record.errors + sum(client.caller.tries for client in self._field.clients),
            "decisions": len(record.decisions),
            "rewards": len(record.rewarded) + len(record.told),
            "events": self.tally.seq,
            "unacknowledged": self.tally.unacknowledged(record),
            "wrong": len(self.wrong),
        }


def section(store: Store, options: Options) -> Findings:
    found = [(settings, result) for settings in plan(options) if (result := store.get(settings)) is not None]
    killed = [one for one in found if one[0]["task"] == "kill"]
    told = [one for one in found if one[0]["task"] == "tells"]
    parts: list[Part] = [
        Text(
            f"{CLIENTS} clients ask and tell while what is named is ended with `kill -9` at a random moment, and "
            "started again at once. A tenth of the requests are given up after one try, the others repeated with their "
            "idempotency key until they are answered; rewards are told twice, by two clients at once, amended, and "
            "told without a decision. After every kill the log must hold all that was acknowledged, nothing twice and "
            "nothing that nobody sent; the ledger folded from all events without snapshots must be that of the "
            "rewards in the log, counted by code of the suite's own; and the servers must say the same of themselves. "
            "At the end each server is stopped in order, and the state that it served is compared entry by entry."
        ),
        command(NAME, *options.flags),
        Table(
            ["killed", "times", "acknowledged", "lost, doubled or made up", "in the log without an answer", "checks"],
            [_row(settings, result) for settings, result in killed],
            "What was found",
        ),
        Text(
            f"It serves again when an ask is acknowledged after the kill; {SOON:g} seconds are required. {SHARED} So "
            "beside the time is what of it the server ran, and how long it stood ready but waited for a core that "
            "others had; without that wait it is about what a machine of its own would show."
        ),
        Table(
            ["killed", "median s", "largest s", "within 5 s", "server ran s", "waited for a core s", "median without"],
            [_times(settings, result) for settings, result in killed],
            "Time from the kill to the next acknowledged ask",
        ),
        *(telling.parts(told) if told else ()),
    ]
    return parts, {"kills": [{**settings, **result} for settings, result in killed], "tells": [b for _, b in told]}


def _row(settings: Settings, result: Result) -> list[str]:
    counts = [f"{result['acknowledged']:,}", str(result["wrong"]), f"{result['unacknowledged']:,}"]
    return [settings["what"], str(settings["kills"]), *counts, f"{result['checks']} and {result['states']} states"]


def _times(settings: Settings, result: Result) -> list[str]:
    times = np.array(result["times"])
    if settings["what"] == "PostgreSQL itself":  # the server is not started again
        more: list[Any] = ["–", "–", "–"]
    else:
        ran, waited = np.array(result["ran"]), np.array(result["waited"])
        more = [f"{np.median(ran):.2f}", f"{np.median(waited):.2f}", f"{np.median(times - waited):.2f}"]
    shown = [f"{np.median(times):.2f}", f"{times.max():.2f}", f"{(times <= SOON).sum()} of {len(times)}"]
    return [settings["what"], *shown, *more]
