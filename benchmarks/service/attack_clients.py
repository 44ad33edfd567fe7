"""Clients that send commands at random: right ones, repeated ones, and wrong ones of all kinds."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

from benchmarks.service import attack_stories, attack_wrong
from benchmarks.service.attack_records import Exchange, Json
from benchmarks.service.attack_tenants import STRICT, Sender

PAUSE = 0.06  # seconds between two commands of a client, on average
_KEPT = 150  # decisions of a tenant that rewards may be told of
_TINY = (5e-324, 1e-308, 1e-300, 1e-16, 0.5, 1.0)
_HUGE = (1e308, -1e308, 1.7e308, 1e-320, 1e200, 2.0)


class Client(Sender):
    """One thread that asks and tells for a tenant."""

    def work(self, over: threading.Event) -> None:
        """Send commands until it is over."""
        strict = self.tenant.kind in STRICT
        steps: list[Callable[[], Any]] = [self.ask] * 6 + [self.tell] * 6 + [self.ask_many, self.tell_many, self.look]
        if not strict:
            steps += [self.tell_arm, self.tell_other, self.activate, self.cancel, self.repeat] * 2 + [self.wrong] * 3
            steps += [self.story] * 2
        else:
            steps += [self.repeat, self.tell_arm]
        try:
            while not over.wait(PAUSE * 2 * self.rng.random()):
                with self.tenant.gate.passing():
                    self.rng.choice(steps)()
        finally:
            self.close()

    # Decisions.

    def request(self) -> Json:
        """Return a request for a decision."""
        rng, modes = self.rng, self.tenant.modes
        body: Json = {"context": {"segment": rng.choice(modes["segment"])}}
        if self.tenant.kind == "apprentice" and (self.tenant.apprentice or rng.random() < 0.2):
            body["played"] = {mode: rng.choice(modes[mode]) for mode in ("offer", "channel")}
            if rng.random() < 0.7:
                body["propensity"] = rng.choice(_TINY)
        if rng.random() < 0.15:
            body["allowed"] = {"offer": rng.sample(modes["offer"], 2)}
        if self.tenant.kind not in STRICT and rng.random() < 0.15:
            body["activate"] = False
        return body

    def statuses(self, body: Json) -> tuple[int, ...]:
        """Return how a request for a decision may be answered."""
        sure = self.tenant.kind != "apprentice" and ("allowed" not in body or self.tenant.kind in STRICT)
        return (200,) if sure else (200, 422)

    def ask(self) -> Exchange:
        """Ask, half of the time with a key, and sometimes with an id; repeat it if no answer came."""
        body, key = self.request(), None
        if self.rng.random() < 0.3:
            body["id"] = self.fresh("own-")
        if self.rng.random() < 0.5:
            key = self.fresh("ask-")
        group = key or (f"id {body['id']}" if "id" in body else None)
        one = self.send("ask", "POST", self.tenant.path("ask"), body, key=key, group=group, expects=self.statuses(body))
        for _ in range(4):
            if not one.lost or group is None or self.rng.random() < 0.3:
                break
            time.sleep(0.3 * self.rng.random())
            more = {"key": key, "group": group, "first": one.first, "expects": self.statuses(body)}
            one = self.send("ask again", "POST", self.tenant.path("ask"), body, **more)
        self.learn(one, [one.answer] if one.status == 200 else [])
        return one

    def learn(self, one: Exchange, answers: list[Json]) -> None:
        """Remember decisions, so that rewards are told of them."""
        known = self.tenant.decisions
        known += [answer["id"] for answer in answers]
        del known[:-_KEPT]

    def ask_many(self) -> None:
        """Ask for several decisions at once."""
        bodies = [self.request() for _ in range(self.rng.randint(1, 5))]
        expects = (200,) if all(self.statuses(body) == (200,) for body in bodies) else (200, 422)
        more = {"key": self.fresh("many-") if self.rng.random() < 0.5 else None, "expects": expects}
        path = self.tenant.path("ask-many")
        one = self.send("ask-many", "POST", path, {"requests": bodies}, **more)
        self.learn(one, one.answer["decisions"] if one.status == 200 else [])

    def repeat(self) -> None:
        """Ask with a key, and again with the same at another server, perhaps later: the answer is the same."""
        one = self.ask()
        if one.key is not None and one.done:
            more = {"key": one.key, "first": one.first, "expects": (200,)}
            self.send("ask again", "POST", one.path, one.body, **more)

    def look(self) -> None:
        """Look at a decision, at the best arm, at the list of bandits."""
        what = self.rng.randrange(3)
        if what == 0 and self.tenant.decisions:
            number = self.rng.choice(self.tenant.decisions)
            self.send("look at a decision", "GET", self.tenant.path(f"decisions/{number}"), expects=(200, 404, 410))
        elif what == 1:
            body = {"context": {"segment": self.tenant.modes["segment"][0]}}
            self.send("best", "POST", self.tenant.path("best"), body, expects=(200,), keep=False)
        else:
            self.send("list", "GET", "/v1/bandits", expects=(200,))

    # Rewards.

    def reward(self) -> float:
        """Return a reward of the tenant's kind."""
        if self.tenant.kind == "reckless":
            return self.rng.choice(_HUGE)
        return self.rng.randint(1, 9) if self.tenant.kind in ("adding", "forgetful") else self.rng.randrange(2)

    def telling(self, number: str | None = None) -> Json:
        """Return the body of a reward of some decision."""
        number = number or self.rng.choice(self.tenant.decisions)
        if self.tenant.kind in STRICT:  # the same whoever tells it, so that it is never refused
            return {"id": number, "reward": zlib.crc32(number.encode()) & 1}
        body: Json = {"id": number, "reward": self.reward()}
        if self.tenant.kind == "adding":
            body["add"] = True
        elif self.rng.random() < 0.3:
            body["amend"] = True
        return body

    def tell(self) -> None:
        """Tell the reward of a decision that nobody else tells one of, and often tell it again."""
        try:
            number = self.tenant.decisions.pop(self.rng.randrange(len(self.tenant.decisions) or 1))
        except IndexError:  # others were quicker
            return
        body = self.telling(number)
        own = (200,) if self.tenant.kind in STRICT else (200, 404, 409, 410, 422)
        one = self.patiently("tell", "POST", self.tenant.path("tell"), body, expects=own, tries=self.rng.randint(1, 5))
        if self.rng.random() < 0.3:
            first = one.first
            self.send("tell again", "POST", one.path, body, key=one.key, first=first, expects=own)
        if self.rng.random() < 0.5:
            self.tenant.decisions.append(number)

    def tell_many(self) -> None:
        """Tell several rewards at once: of the newest decisions, doubled ones, and some that are not there."""
        if len(self.tenant.decisions) < 3:
            return
        some = [self.telling() for _ in range(self.rng.randint(1, 6))]
        if self.rng.random() < 0.3 and self.tenant.kind not in STRICT:
            some += [some[0], {"id": self.fresh("nobody-"), "reward": 1}]
        key = self.fresh("tells-") if self.rng.random() < 0.5 else None
        self.send("tell-many", "POST", self.tenant.path("tell-many"), {"rewards": some}, key=key, expects=(200,))

    def tell_arm(self) -> None:
        """Tell a reward without a decision."""
        arm = {mode: self.rng.choice(self.tenant.modes[mode]) for mode in ("offer", "channel")}
        context = {"segment": self.rng.choice(self.tenant.modes["segment"])}
        body = {"arm": arm, "context": context, "reward": self.reward()}
        expects = (200, 422) if self.tenant.kind == "reckless" else (200,)
        self.patiently("tell an arm", "POST", self.tenant.path("tell"), body, expects=expects, tries=3)

    def tell_other(self) -> None:
        """Tell another reward of a decision that may have one, without a key."""
        if self.tenant.decisions:
            expects = (200, 404, 409, 410, 422)
            self.send("tell", "POST", self.tenant.path("tell"), self.telling(), expects=expects)

    def activate(self) -> None:
        """Say that a decision was shown."""
        self._about("activate")

    def cancel(self) -> None:
        """Say that a decision was not carried out."""
        self._about("cancel")

    def _about(self, what: str) -> None:
        if self.tenant.decisions:
            body = {"id": self.rng.choice(self.tenant.decisions)}
            self.send(what, "POST", self.tenant.path(what), body, expects=(200, 404, 409, 410))

    # The rest.

    def wrong(self) -> None:
        """Send something that must be refused."""
        attack_wrong.send(self)

    def story(self) -> None:
        """Go through a few commands whose answers are known beforehand."""
        attack_stories.tell(self)
