"""``python -m benchmarks.service.fuzz``: send thousands of made-up requests to the service, and look at every answer.

Requests are made by schemathesis from the OpenAPI document: right ones and wrong ones, of every route, by callers with
every kind of key and with none. Half of the right ones are brought to life: they name bandits, decisions and labels
that exist, as otherwise almost all would end at "there is no such bandit". An answer must have a status, a type and a
body that the document describes, and none may be of the 500s; what the document forbids must be refused.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.failures import Failure, FailureGroup

from benchmarks.service.served import Service

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
MODES = {"segment": ["new", "old"], "offer": ["a", "b", "video", True, 1, {"date": "2026-02-28"}], "channel": ["x", 2]}
BANDITS: dict[str, dict[str, Any]] = {
    "offers": {"modes": MODES, "context": ["segment"], "reward": "bernoulli", "window": "10 min", "default": 0},
    "ranked": {
        "modes": {"segment": ["new", "other"], "offer": ["a", "b", "video"]},
        "context": ["segment"],
        "adds": True,
    },
    "beside": {"modes": MODES, "context": ["segment"], "apprentice": True, "adds": True, "capacity": 5, "remember": 5},
}
SHARES = {"open": 1, "admin": 8, "decide": 4, "read": 2, "limited": 2, "none": 1, "wrong": 1}
_ENDINGS = ("delete_bandit", "create_bandit", "change_bandit", "fold", "revoke_key")  # which leave others less to do
_SLOW = ("diagnose", "explain", "view", "create_key")
_AGAIN = 40  # requests after which the bandits are as they were at first


@dataclass
class Report:
    """What came of it: how many requests got which status, by caller and by route, and what must not be."""

    statuses: Counter[int] = field(default_factory=Counter)
    callers: Counter[str] = field(default_factory=Counter)
    routes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def cases(self) -> int:
        """All requests."""
        return sum(self.statuses.values())

    def words(self) -> str:
        """Return it for people."""
        lines = [f"{self.cases:,} requests, {len(self.failures)} answers that must not be"]
        for what, counts in (("status", self.statuses), ("caller", self.callers), ("route", self.routes)):
            lines.append(f"  by {what}: " + ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items())))
        return "\n".join([*lines, *self.failures[:20]])


class World:
    """A service that is fuzzed: its bandits, its decisions, and the callers' keys."""

    def __init__(self, url: str, keyed: bool, chance: int = 0) -> None:
        self.url, self.random = url, random.Random(chance)
        self.session = requests.Session()
        self.keys: dict[str, str | None] = {"open": None}
        self.ids: list[str] = []
        self.key_ids: list[str] = []
        if keyed:
            self.keys = {"none": None, "wrong": "tb_0123456789_" + "x" * 43}
            self.keys["admin"] = self._post("/v1/keys", {"name": "admin", "role": "admin"})["key"]
            for role, only in (("decide", None), ("read", None), ("limited", ["offers"])):
                given = {"name": role, "role": "decide" if only else role} | ({"bandits": only} if only else {})
                self.keys[role] = self._post("/v1/keys", given)["key"]
        self.renew()

    def headers(self, caller: str) -> dict[str, str]:
        """Return what a caller sends with every request."""
        key = self.keys[caller]
        return {} if key is None else {"Authorization": f"Bearer {key}"}

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = self.headers("admin" if "admin" in self.keys else next(iter(self.keys)))
        answer = self.session.post(self.url + path, json=body, headers=headers)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def renew(self) -> None:
        """Have the bandits as they were at first, with a few decisions."""
        headers = self.headers("admin" if "admin" in self.keys else "open")
        listed = self.session.get(f"{self.url}/v1/bandits", headers=headers).json()["bandits"]
        for bandit in listed:
            self.session.delete(f"{self.url}/v1/bandits/{bandit['name']}", headers=headers)
        self.ids = []
        for name, body in BANDITS.items():
            self._post("/v1/bandits", {"name": name, **body})
            arm = {"offer": "a", "channel": "x"}
            more = {"played": arm, "propensity": 0.5} if body.get("apprentice") else {}
            asks = [{"context": {"segment": "new"}, "id": f"{name}-{at}", **more} for at in range(6)]
            self._post(f"/v1/bandits/{name}/ask-many", {"requests": asks})
            self._post(f"/v1/bandits/{name}/tell-many", {"rewards": [{"id": f"{name}-0", "reward": 1}]})
            self.ids += [one["id"] for one in asks]

    # What exists, so that requests reach more than the first check.

    def live(self, case: Case) -> None:
        """Let a request name what there is; not all that it could."""
        pick = self.random.choice
        parameters = case.path_parameters or {}
        if "name" in parameters:
            ranks = "personalizer" in case.operation.path
            parameters["name"] = "ranked" if ranks else pick([*BANDITS])
        if "id" in parameters:
            parameters["id"] = pick(self.ids) if case.operation.definition.raw["operationId"] != "revoke_key" else "x"
        if "what" in parameters:
            parameters["what"] = pick(["space", "overview", "reward", "traffic", "heat", "arms", "events", "decisions"])
        if isinstance(case.body, dict):
            case.body = self._lively(case.body)
        elif isinstance(case.body, (bytes, str)) and case.media_type == "text/csv":
            case.body = "segment,offer,channel,click\nnew,a,x,1\nold,b,x,0\n"
            case.query = (case.query or {}) | {"reward": "click"}

    def _lively(self, body: dict[str, Any]) -> dict[str, Any]:
        pick = self.random.choice
        made = {
            "id": lambda: pick([*self.ids, f"new-{self.random.random()}"]),
            "context": lambda: {"segment": pick(MODES["segment"])},
            "arm": self._arm,
            "played": self._arm,
            "allowed": lambda: {"offer": MODES["offer"][: self.random.randint(1, 6)]},
            "mode": lambda: pick([*MODES]),
            "label": lambda: pick([*MODES["offer"], "summer"]),
            "like": lambda: pick([*MODES["offer"]]),
            "forbid": self._arm,
            "allow": lambda: {"offer": [pick(MODES["offer"])], "segment": "new"},
            "reward": lambda: pick([0, 1, 1.0, 0.5, -3, 10**20]),
            "requests": lambda: [self._lively({"context": 0}) for _ in range(3)],
            "rewards": lambda: [self._lively({"id": 0, "reward": 0}) for _ in range(3)],
            "modes": lambda: MODES,
            "baseline": self._arm,
            "floors": lambda: pick([0.1, [{"labels": self._arm(), "share": 0.2}]]),
            "window": lambda: pick(["1 h", 10, None]),
            "actions": lambda: [{"id": one} for one in self.random.sample(["a", "b", "video", "new"], 3)],
            "contextFeatures": lambda: [{"user": {"segment": pick(["new", "bus", 3, None])}}, {"x": [1]}],
            "excludedActions": lambda: [pick(["a", "b", "none"])],
            "eventId": lambda: pick([*self.ids, None, f"new-{self.random.random()}"]),
            "value": lambda: pick([0, 1, -1, 0.5, 2]),
        }
        kept = {
            name: made[name]() if name in made and self.random.random() < 0.8 else one for name, one in body.items()
        }
        if "arm" in kept or "played" in kept:
            kept.setdefault("context", {"segment": "new"})
        return kept

    def _arm(self) -> dict[str, Any]:
        return {mode: self.random.choice(MODES[mode]) for mode in ("offer", "channel")}


def operations(url: str) -> list[APIOperation]:
    """Return all routes that the document of a service describes."""
    return _described(requests.get(f"{url}/openapi.json").text)


@cache
def _described(text: str) -> list[APIOperation]:
    document = json.loads(text)
    document["components"].pop("securitySchemes")  # keys are the callers', not made up
    for methods in document["paths"].values():
        for described in methods.values():
            described.pop("security", None)
    schema = schemathesis.openapi.from_dict(document)
    return [found.ok() for found in schema.get_all_operations()]


@cache
def _strategy(operation: APIOperation, mode: GenerationMode) -> Any:
    return operation.as_strategy(generation_mode=mode)


def fuzz(world: World, cases: int, chance: int, report: Report) -> None:
    """Send at least so many requests of all callers to all routes, a third of them wrong ones."""
    routes = operations(world.url)
    weights = [_weight(operation) for operation in routes]
    wanted = report.cases + cases
    while report.cases < wanted:  # some routes have less to make up than others
        left = wanted - report.cases
        for operation, weight in zip(routes, weights, strict=True):
            count = max(3, round(left * weight / sum(weights)))
            wrong = count // 3 if operation.body or operation.query else 0  # any text may be a name or an id
            for mode, some in ((GenerationMode.POSITIVE, count - wrong), (GenerationMode.NEGATIVE, wrong)):
                for size in _batches(some, operation):
                    chance += 1
                    _run(world, operation, mode, size, chance, report)


def _weight(operation: APIOperation) -> float:
    """How many requests a route gets beside the others: fewer where there is little to make up, or it is slow."""
    if operation.definition.raw["operationId"] in _SLOW:
        return 0.2
    return 1.0 if operation.body or operation.query or operation.path_parameters else 0.05


def _batches(count: int, operation: APIOperation) -> Iterator[int]:
    """Split a number of requests, where they take away what the next ones need."""
    size = _AGAIN if operation.definition.raw["operationId"] in _ENDINGS else count
    while count > 0:
        yield min(size, count)
        count -= size


def _run(world: World, operation: APIOperation, mode: GenerationMode, count: int, chance: int, report: Report) -> None:
    try:
        sent = report.cases

        @seed(chance)
        @settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            verbosity=Verbosity.quiet,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=_strategy(operation, mode))
        def run(case: Case) -> None:
            if report.cases - sent < count:
                _send(world, case, mode, report)

        run()
    except Exception as error:
        if type(error).__name__ not in ("Unsatisfiable", "UnsatisfiedAssumption"):  # nothing there can be wrong
            raise
    if operation.definition.raw["operationId"] in _ENDINGS:
        world.renew()


def _send(world: World, case: Case, mode: GenerationMode, report: Report) -> None:
    [caller] = world.random.choices([*world.keys], [SHARES[one] for one in world.keys])
    name = case.operation.definition.raw["operationId"]
    lively = mode is GenerationMode.POSITIVE and world.random.random() < 0.7
    if lively:
        world.live(case)
    elif "name" in (case.path_parameters or {}) and world.random.random() < 0.7:
        case.path_parameters["name"] = world.random.choice([*BANDITS])
    if caller == "open" and isinstance(case.body, dict) and case.body.get("role") == "admin":
        case.body["role"] = "decide"  # with the first key of an admin the service would be open no more
    for header in [one for one in case.headers or () if one.lower() == "x-request-timeout"]:
        del case.headers[header]  # one that has passed is answered 504, as it asked for
    response = case.call(base_url=world.url, session=world.session, headers=world.headers(caller), timeout=120)
    report.statuses[response.status_code] += 1
    report.callers[caller] += 1
    report.routes[name] += 1
    checks = [*CHECKS, *([negative_data_rejection] if mode is GenerationMode.NEGATIVE else [])]
    try:
        case.validate_response(response, checks=checks, headers=world.headers(caller))
        if response.status_code >= 400:
            error = response.json()["error"]
            assert set(error) == {"code", "message", "request"}, error
            assert error["message"], error
            assert response.headers["x-request-id"] == [error["request"]], error
    except (Failure, FailureGroup, AssertionError, ValueError, KeyError) as error:
        words = "; ".join(str(one) for one in getattr(error, "exceptions", [error]))
        shown = case.as_curl_command(headers=world.headers(caller))
        sent = f"{shown[:900]}\n    {response.content[:400]!r}"
        report.failures.append(f"{name} as {caller} ({mode.value}): {words[:900]}\n    {sent}")
        print(report.failures[-1], file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Fuzz an open service and one with keys, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="requests, at least")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    report, began = Report(), perf_counter()
    with tempfile.TemporaryDirectory(prefix="tb-fuzz-") as folder:
        for keyed in (False, True):
            store = f"sqlite:///{Path(folder) / f'{keyed}.db'}"
            service = Service(store, Path(folder), log_level="error", key_seconds=0.1)
            try:
                service.start().wait()
                world = World(f"http://127.0.0.1:{service.port}", keyed, given.seed)
                fuzz(world, given.cases - given.cases // 3 if keyed else given.cases // 3, given.seed, report)
                print(f"{report.cases:,} requests so far, {len(report.failures)} failures", flush=True)
                service.check()
                if errors := [line for line in service.log.read_text().splitlines() if '"error"' in line]:
                    report.failures += [f"in the log: {line[:2000]}" for line in errors[:5]]
            finally:
                service.stop()
    print(report.words())
    print(f"{perf_counter() - began:.0f} seconds")
    return 1 if report.failures or report.cases < given.cases else 0


if __name__ == "__main__":
    sys.exit(main())
