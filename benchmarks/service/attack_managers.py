"""Managers: one thread for each tenant that changes settings, levels and rules, imports, folds, deletes and looks.

A change is repeated with its key until it is answered. What was acknowledged is claimed from then on: decisions that
are asked for later, at any server, have to obey it.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.service.attack_checks import check_life
from benchmarks.service.attack_log import read_log
from benchmarks.service.attack_records import BOUND, Diary, Exchange, Json, Life
from benchmarks.service.attack_tenants import Sender, Tenant

PAUSE = 0.7  # seconds between two changes of a tenant, on average
ALMOST_ALL = 1 - 1e-7  # a holdout beside which the policy decides nothing during an attack
_VIEWS = ("space", "overview", "reward", "effects", "arms", "decisions", "drift", "apprentice", "events", "health")
_LOOKS = ("explain", "diagnose", "history", "view", "export", "detail")


class Manager(Sender):
    """One thread that manages a tenant's bandit."""

    def __init__(
        self, diary: Diary, tenant: Tenant, ports: Sequence[int], seed: str, root: str, late: float
    ) -> None:  # fmt: skip
        super().__init__(diary, tenant, ports, seed)
        self._root, self._late = root, late  # seconds after which no request of before comes any more
        self._begin()

    def _begin(self) -> None:
        self._forbidden: list[tuple[str, str]] = []
        self._retired: list[str] = []
        self._added: list[str] = []
        self._seen: list[tuple[float, int]] = []  # when the log ended where

    def work(self, over: threading.Event) -> None:
        """Manage until it is over."""
        kind = self.tenant.kind
        steps: list[Callable[[], Any]] = [self.look] * 2
        if kind == "apprentice":
            steps += [self.switch] * 4
        elif kind not in ("aloof", "polite"):
            steps += [self.rule, self.retire, self.shares] * 3 + [self.wrong, self.import_log, self.add_level]
            steps += [self.window] * 2 * (kind == "hasty")
        if kind not in ("aloof", "polite", "patient"):
            steps += [self.fold, self.anew]
        try:
            while not over.wait(PAUSE * 2 * self.rng.random()):
                self.rng.choice(steps)()
        finally:
            self.close()

    # Changes that decisions have to obey.

    def change(self, what: str, method: str, route: str, body: Json, kinds: Sequence[str], about: Any = None) -> bool:
        """Send a change until it is answered; say whether it was acknowledged."""
        life = self.tenant.life
        for kind in kinds:
            life.suspend(kind, about)
        one = self._managed(what, method, route, body, expects=(200,))
        if one.lost:
            life.unsure |= set(kinds)
        return one.done

    def _managed(self, what: str, method: str, route: str, body: Any = None, **more: Any) -> Exchange:
        return self.patiently(what, method, self.tenant.path(route), body, secret=self.tenant.manage, **more)

    def _try(self) -> None:
        """Ask at once, at every server, so that a change that is not obeyed is seen."""
        for at in self.rng.sample(range(len(self._ports)), len(self._ports)) * 3:
            body: Json = {"context": {"segment": self.rng.choice(self.tenant.modes["segment"])}}
            if not self.diary.trouble.now(at):
                expects = (200,) if self.tenant.kind != "apprentice" else (200, 422)
                self.send("ask", "POST", self.tenant.path("ask"), body, replica=at, expects=expects)

    def rule(self) -> None:
        """Forbid an offer in a channel, or take that back; the first offer and the first channel stay."""
        life, modes = self.tenant.life, self.tenant.modes
        pair = (self.rng.choice(modes["offer"][1:]), self.rng.choice(modes["channel"]))
        add = pair not in self._forbidden
        body = {"forbid": {"offer": pair[0], "channel": pair[1]}}
        if not self.change("rule", "POST", "rules" if add else "rules/remove", body, ["forbid"], pair):
            return
        if add:
            life.claim("forbid", pair, f"forbid {pair}")
            self._forbidden.append(pair)
        else:
            self._forbidden.remove(pair)
        self._try()

    def retire(self) -> None:
        """Retire an offer that is not the first, or restore one."""
        label = self.rng.choice([*self.tenant.modes["offer"][1:], *self._added])
        add = label not in self._retired
        route, body = f"levels/{'retire' if add else 'restore'}", {"mode": "offer", "label": label}
        if not self.change("retire" if add else "restore", "POST", route, body, ["retired"], label):
            return
        if add:
            self.tenant.life.claim("retired", label, f"retire {label}")
            self._retired.append(label)
        else:
            self._retired.remove(label)
        self._try()

    def shares(self) -> None:
        """Change what the policy may decide: nothing of one channel, hardly anything at all, or everything."""
        modes, life = self.tenant.modes, self.tenant.life
        channel = self.rng.choice(modes["channel"][1:])
        plain: Json = {"holdout": 0, "floors": None, "ceilings": None}
        first = {mode: modes[mode][0] for mode in ("offer", "channel")}
        bodies: list[tuple[str, Json]] = [
            ("", {**plain, "floors": 0.05}),
            ("ceiling", {**plain, "ceilings": [{"labels": {"channel": channel}, "share": 0}]}),
            ("holdout", {**plain, "holdout": ALMOST_ALL, "baseline": first}),
        ]
        kind, body = self.rng.choice(bodies)
        if self.change("settings", "PATCH", "", body, ["ceiling", "holdout"]):
            if kind:
                life.claim(kind, channel if kind == "ceiling" else first, f"PATCH {body}")
            self._try()

    def switch(self) -> None:
        """Let an apprentice decide, or no more."""
        on = not self.tenant.apprentice
        if self.change("settings", "PATCH", "", {"apprentice": on}, ["apprentice"]):
            self.tenant.apprentice = on
            self.tenant.life.claim("apprentice", on, f"PATCH apprentice={on}")
            self._try()

    def window(self) -> None:
        """Let decisions wait for one second or for two."""
        self.change("settings", "PATCH", "", {"window": self.rng.choice(["1 s", "2 s"]), "default": 0}, [])

    def add_level(self) -> None:
        """Add an offer, perhaps like another one."""
        if len(self._added) < 4:
            label = f"offer {self.fresh('new-')}"
            body: Json = {"mode": "offer", "label": label}
            if self.tenant.kind == "fading":
                body |= {"like": self.tenant.modes["offer"][0], "rewards": 2.0}
            if self.change("add a level", "POST", "levels", body, []):
                self._added.append(label)

    # What decisions do not see.

    def import_log(self) -> None:
        """Learn from a small file, CSV or Parquet; every reward in it is 1."""
        modes = self.tenant.modes
        rows = [
            {**{mode: self.rng.choice(labels) for mode, labels in modes.items()}, "reward": 1.0}
            for _ in range(self.rng.randint(1, 20))
        ]
        content = _csv(rows) if self.rng.random() < 0.5 else _parquet(rows)
        one = self._managed("import", "POST", "import?reward=reward", content, expects=(200,))
        if one.done and one.answer["changed"] and one.answer["rewards"] != len(rows):
            promise = "an import learns every row once"
            self.diary.findings.add(promise, f"{len(rows)} rows were sent", self.tenant.name, one)

    def fold(self) -> None:
        """Fold old events, after they were read.

        With events their keys are forgotten, so only those go that are older than any request that may still come: one
        that a server took just before it was stopped is carried out when it goes on.
        """
        life, now = self.tenant.life, time.monotonic()
        events = read_log(self, after=life.archive[-1]["seq"] if life.archive else 0)
        if not events:
            return
        self._seen.append((now, events[-1]["seq"]))
        settled = max((seq for when, seq in self._seen if when < now - self._late), default=0)
        old = [event for event in events if event["seq"] <= settled]
        if old:
            one = self._managed("fold", "POST", "fold", {"before": old[-1]["seq"]}, expects=(200, 422))
            if one.done or one.lost:
                life.archive += old

    def look(self) -> None:
        """Look at something that takes longer than a decision."""
        what = self.rng.choice(_LOOKS)
        secret = self.tenant.manage
        if what in ("explain", "diagnose"):
            expects = (200,) if what == "explain" else (200, 422)  # a few rewards are too few for a diagnosis
            self.send(what, "POST", self.tenant.path(what), {}, secret=secret, expects=expects, keep=False)
            return
        route = {"view": f"view/{self.rng.choice(_VIEWS)}", "detail": ""}.get(what, what)
        self.send(what, "GET", self.tenant.path(route), secret=secret, expects=(200,))

    def wrong(self) -> None:
        """Send changes that must be refused."""
        bodies: list[tuple[str, str, Any]] = [
            ("PATCH", "", {"holdout": 1}),
            ("PATCH", "", b'{"holdout": NaN}'),
            ("PATCH", "", {"default": "x"}),
            ("PATCH", "", {"window": "soon"}),
            ("PATCH", "", {"window": -1}),
            ("PATCH", "", {"ceilings": [{"labels": {"offer": "nobody"}, "share": 0.5}]}),
            ("PATCH", "", {"floors": [{"labels": {}, "share": 0.7}, {"labels": {}, "share": 0.7}]}),
            ("POST", "rules", {"forbid": {"offer": "nobody"}}),
            ("POST", "rules", {"forbid": {}}),
            ("POST", "rules", {"allow": {"segment": self.tenant.modes["segment"][0], "offer": []}}),
            ("POST", "levels", {"mode": "offer", "label": self.tenant.modes["offer"][0]}),
            ("POST", "levels", {"mode": "moon", "label": "full"}),
            ("POST", "levels/retire", {"mode": "offer", "label": "nobody"}),
            ("POST", "import?reward=reward", b"PAR1 this is no file"),
            ("POST", "import?reward=reward", b"offer,reward\na,1\n"),
            ("POST", "fold", {"before": 0}),
        ]
        method, route, body = self.rng.choice(bodies)
        path, secret = self.tenant.path(route), self.tenant.manage
        self.send("wrong change", method, path, body, secret=secret, expects=range(400, 500), keep=False)

    def anew(self) -> None:
        """Delete the bandit and make another of the same name, after its log was checked; one time in three.

        A request that got no answer may still come, and would be carried out by the new one: then it is left.
        """
        tenant, now = self.tenant, time.monotonic()
        if now - tenant.life.begun < 5 or self.rng.random() < 0.67:
            return
        with tenant.gate.closed(BOUND + 5) as alone:
            lost = any(one.lost and now - one.sent < self._late for one in tenant.life.exchanges)
            if not alone or lost or not check_life(self):
                return
            ended = self._managed("delete", "DELETE", "", expects=(204, 404), tries=20)
            if ended.lost:
                tenant.life.unsure |= {"everything"}
                return
            made = self.patiently("create", "POST", "/v1/bandits", tenant.settings, secret=self._root,
                                  expects=(201, 409), tries=20)  # fmt: skip
            if made.done or made.status == 409:
                self._begin()
                tenant.life, tenant.decisions = Life(tenant.life.number + 1), []
                tenant.apprentice = bool(tenant.settings.get("apprentice"))


def _csv(rows: list[Json]) -> bytes:
    lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


def _parquet(rows: list[Json]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()
