"""Clients that remember every answer they got, and what a log must hold after that: for the suite ``durability``."""

from __future__ import annotations

import threading
import time
import uuid
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import tensorbandits as tb
from benchmarks.service.served import MODES, Caller, LostError, RefusedError, path
from tensorbandits.store import Event

PATIENCE = 180.0  # seconds until clients must have finished what they are at
GIVES_UP, AMENDED = 0.1, 10  # the share of requests that are sent once only; one decision of so many is amended
Cell = tuple[int, ...]
_LEVELS = {mode: {label: at for at, label in enumerate(labels)} for mode, labels in MODES.items()}


def cell_of(labels: dict[str, str]) -> Cell:
    return tuple(_LEVELS[mode][labels[mode]] for mode in MODES)


def reward_of(decision: str) -> int:
    """The reward of a decision: the same whoever tells it."""
    return zlib.crc32(decision.encode()) & 1


def amends(decision: str) -> bool:
    """Whether the reward of a decision is changed later."""
    return zlib.crc32(decision.encode()) % AMENDED == 0


class Record:
    """What was sent, and what was acknowledged."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sent: set[str] = set()  # keys
        self.decisions: dict[str, tuple[Cell, str]] = {}  # acknowledged: cell and key
        self.rewards: dict[str, set[int]] = {}  # sent, by decision
        self.rewarded: dict[str, int] = {}  # acknowledged
        self.told: dict[str, tuple[Cell, int]] = {}  # acknowledged, by key
        self.waiting: list[str] = []  # decisions to be rewarded
        self.wrong: list[str] = []  # answers that cannot be
        self.acknowledged = 0
        self.errors = 0


class Field:
    """Clients at work, who can be paused."""

    def __init__(self, ports: Sequence[int], clients: int = 8, seed: int = 0) -> None:
        self.record = Record()
        self.open = threading.Event()
        self.open.set()
        self.over = False
        self._names = [f"{seed}-{at}" for at in range(clients)]
        self.clients = [Client(self, ports, seed * 1_000 + at, name) for at, name in enumerate(self._names)]
        self._threads = [threading.Thread(target=client.work, daemon=True) for client in self.clients]
        for thread in self._threads:
            thread.start()

    def pause(self) -> None:
        """Let nobody begin anything, and return when everybody has finished."""
        self.open.clear()
        end = time.monotonic() + PATIENCE
        while any(client.busy for client in self.clients):
            if time.monotonic() > end:
                raise RuntimeError(f"clients still wait for answers after {PATIENCE:g} seconds")
            time.sleep(0.005)
        if self.failed:
            raise RuntimeError(f"a client failed: {self.failed[0]!r}")

    def stop(self) -> None:
        """Let clients end."""
        self.over = True
        self.open.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        if self.failed:
            raise RuntimeError(f"a client failed: {self.failed[0]!r}")

    @property
    def failed(self) -> list[Exception]:
        return [client.failure for client in self.clients if client.failure is not None]


class Client:
    """Asks and tells: with keys and without, with ids of its own and without, again, amended, and giving up."""

    def __init__(self, field: Field, ports: Sequence[int], seed: int, name: str) -> None:
        self._field, self._record = field, field.record
        self.caller = Caller(ports, seed)
        self._rng, self._name, self._count = self.caller.rng, name, 0
        self.busy = False
        self.failure: Exception | None = None

    def work(self) -> None:
        field = self._field
        while not field.over:
            field.open.wait()
            self.busy = True
            try:
                if field.open.is_set() and not field.over:
                    self._step()
            except Exception as error:
                self.failure = error
                break
            finally:
                self.busy = False
        self.caller.close()

    def _step(self) -> None:
        draw = self._rng.random()
        if draw < 0.45 or not self._record.waiting:
            self.ask()
        elif draw < 0.85:
            self._tell()
        elif draw < 0.93:
            self._tell_again()
        else:
            self._tell_arm()

    def _send(self, what: str, body: dict[str, Any], key: str | None) -> Any:
        """Send a request until it is answered, or once; None if nobody answered."""
        try:
            if key is None or self._rng.random() < GIVES_UP:
                answer = self.caller.once("POST", path(what), body, key)
            else:
                answer = self.caller.patiently("POST", path(what), body, key)
        except LostError:
            with self._record.lock:
                self._record.errors += 1
            return None
        with self._record.lock:
            self._record.acknowledged += 1
        return answer

    def ask(self, patient: bool = False) -> None:
        """Ask; half of the ids are the client's."""
        record, key = self._record, uuid.uuid4().hex
        body: dict[str, Any] = {"context": {"segment": self._rng.choice(MODES["segment"])}}
        if self._rng.random() < 0.5:
            self._count += 1
            body["id"] = f"own-{self._name}-{self._count}"
        with record.lock:
            record.sent.add(key)
        send = self.caller.patiently if patient else None
        answer = send("POST", path("ask"), body, key) if send else self._send("ask", body, key)
        if answer is None:
            return
        with record.lock:
            record.decisions[answer["id"]] = (cell_of({**answer["context"], **answer["arm"]}), key)
            record.waiting.append(answer["id"])
            if "id" in body and body["id"] != answer["id"]:
                record.wrong.append(f"asked for the id {body['id']}, got {answer['id']}")

    def _tell(self) -> None:
        """Tell the reward of any decision, mine or another's; some are told by two at once."""
        record = self._record
        with record.lock:
            at = self._rng.randrange(len(record.waiting)) if record.waiting else None
            if at is None:
                return
            record.waiting[at], record.waiting[-1] = record.waiting[-1], record.waiting[at]
            decision = record.waiting[-1] if self._rng.random() < 0.1 else record.waiting.pop()
            reward = reward_of(decision)
            record.rewards.setdefault(decision, set()).add(reward)
        key = uuid.uuid4().hex if self._rng.random() < 0.8 else None
        try:
            answer = self._send("tell", {"id": decision, "reward": reward}, key)
        except RefusedError as error:
            if error.code != "closed_decision" or not amends(decision):
                raise
            return  # it was told, and amended, by others
        if answer is None:
            if self._rng.random() < 0.5:
                with record.lock:
                    record.waiting.append(decision)
            return
        with record.lock:
            record.rewarded.setdefault(decision, reward)

    def _tell_again(self) -> None:
        """Tell what was told already, which must change nothing; or amend it."""
        record = self._record
        with record.lock:
            decision = next(reversed(record.rewarded), None) if self._rng.random() < 0.3 else None
            decision = decision or (self._rng.choice(list(record.rewarded)[-2_000:]) if record.rewarded else None)
            if decision is None:
                return
            amended = amends(decision)
            reward = reward_of(decision) ^ amended
            record.rewards[decision].add(reward)
        body = {"id": decision, "reward": reward} | ({"amend": True} if amended else {})
        answer = self._send("tell", body, uuid.uuid4().hex)
        if answer is None:
            return
        with record.lock:
            if amended:
                record.rewarded[decision] = reward
            elif answer["changed"]:
                record.wrong.append(f"the reward of {decision}, which was acknowledged, was new to the service")

    def _tell_arm(self) -> None:
        """Tell a reward without a decision."""
        record, key = self._record, uuid.uuid4().hex
        labels = {mode: self._rng.choice(some) for mode, some in MODES.items()}
        reward = self._rng.randrange(2)
        with record.lock:
            record.sent.add(key)
        context = {"segment": labels["segment"]}
        arm = {mode: label for mode, label in labels.items() if mode != "segment"}
        if self._send("tell", {"arm": arm, "context": context, "reward": reward}, key) is not None:
            with record.lock:
                record.told[key] = (cell_of(labels), reward)


class Tally:
    """What a log says, read without any of the service's code."""

    def __init__(self) -> None:
        self.seq = 0
        self.decided: dict[str, tuple[Cell, str | None]] = {}
        self.rewarded: dict[str, int] = {}
        self.told: dict[str | None, tuple[Cell, int]] = {}
        self.wrong: list[str] = []

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.seq != self.seq + 1:
                self.wrong.append(f"event {event.seq} follows event {self.seq}")
            self.seq = event.seq
            self._one(event)

    def _one(self, event: Event) -> None:
        number, body = event.decision or "", event.body
        if event.kind == "Decided":
            if number in self.decided:
                self.wrong.append(f"{number} was decided twice")
            self.decided[number] = (tuple(body["cell"]), event.key)
        elif event.kind in ("Rewarded", "Amended"):
            if (number in self.rewarded) != (event.kind == "Amended"):
                self.wrong.append(f"{number}: {event.kind}, but rewarded before: {number in self.rewarded}")
            self.rewarded[number] = int(body["reward"])
        elif event.kind == "Told":
            if event.key in self.told:
                self.wrong.append(f"{event.key} was told twice")
            self.told[event.key] = (tuple(body["cell"]), int(body["reward"]))
        elif event.kind == "Unchanged":  # a keyed request that said what was known
            if body["reward"] is not None and self.rewarded.get(number) != int(body["reward"]):
                self.wrong.append(f"{number} was left at {body['reward']}; it is {self.rewarded.get(number)}")
        elif event.kind != "Created":
            self.wrong.append(f"nobody asked for {event.kind}")

    def ledger(self) -> tb.Ledger:
        """Return the ledger that follows: each decision's last reward once, and each that came without one."""
        ledger = tb.Ledger(tuple(len(labels) for labels in MODES.values()))
        entries = [(self.decided[number][0], reward) for number, reward in self.rewarded.items()]
        entries += list(self.told.values())
        if entries:
            cells, rewards = zip(*entries, strict=True)
            ledger.add(list(cells), list(rewards))
        return ledger

    def check(self, record: Record) -> list[str]:
        """Return what is wrong: acknowledged, but not in the log; or in the log, but never sent."""
        wrong = self.wrong + record.wrong
        wrong += [f"lost decision {one}" for one, what in record.decisions.items() if self.decided.get(one) != what]
        wrong += [
            f"reward of {one} is {self.rewarded.get(one)}, acknowledged was {reward}"
            for one, reward in record.rewarded.items()
            if self.rewarded.get(one) != reward
            and not (amends(one) and self.rewarded.get(one) in record.rewards[one])  # an amendment without an answer
        ]
        wrong += [f"lost reward {key}" for key, what in record.told.items() if self.told.get(key) != what]
        extra = [key for _, key in self.decided.values()] + list(self.told)
        wrong += [f"nobody sent {key}" for key in extra if key not in record.sent]
        wrong += [
            f"nobody sent {reward} for {one}"
            for one, reward in self.rewarded.items()
            if reward not in record.rewards.get(one, ())
        ]
        return wrong

    def unacknowledged(self, record: Record) -> int:
        """Return how many events of the log nobody got an answer about."""
        decisions = len(self.decided) - len(record.decisions)
        return decisions + len(self.rewarded) - len(record.rewarded) + len(self.told) - len(record.told)
