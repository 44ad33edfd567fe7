"""``tensorbandits serve --demo``: two campaigns whose simulated people click live, so that the page moves.

The first decides by itself, with a holdout. The second is an apprentice beside a rule that sends everybody much the
same, until somebody switches it on.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from tensorbandits.bandit.decision import Decision
from tensorbandits.bandit.snapshot import NotLearnedError
from tensorbandits.service import logs
from tensorbandits.service.engine import orders
from tensorbandits.service.engine.actor import ACTOR
from tensorbandits.service.engine.engine import Engine
from tensorbandits.service.engine.host import Host
from tensorbandits.sim.audience import Audience
from tensorbandits.store import NameTakenError, StoreError

_SEGMENTS = ["new", "young", "family", "student", "senior", "business"]
_OFFERS = ["spring sale", "free shipping", "bundle", "trial month", "gift card", "upgrade", "bring a friend", "video"]
_CHANNELS = ["mail", "sms", "push", "web"]
_PACE = 0.04  # seconds from one visit to the next
_DELAY = 4.0  # seconds until a click, on average
_RULE = {"offer": "spring sale", "channel": "mail"}
_VARIED = 0.2  # the share of people to whom the rule sends another offer, all alike
SETTINGS: dict[str, Any] = {
    "modes": {"segment": _SEGMENTS, "offer": _OFFERS, "channel": _CHANNELS},
    "context": ["segment"],
    "reward": "bernoulli",
    "window": "20 s",
    "default": 0,
    "rules": [{"forbid": {"offer": "video", "channel": "sms"}}],
}
CAMPAIGNS: dict[str, dict[str, Any]] = {
    "campaign": SETTINGS | {"holdout": 0.1},
    "apprentice": SETTINGS | {"apprentice": True},
}


class Demo(threading.Thread):
    """People of all campaigns, in one thread, until it is stopped."""

    def __init__(self, engine: Engine, *, pace: float = _PACE, delay: float = _DELAY) -> None:
        super().__init__(name="demo", daemon=True)
        self._engine, self._pace, self._delay, self._stop_it = engine, pace, delay, threading.Event()
        self.lost = 0  # visits that came to nothing, as while somebody changes the campaign
        self._rng = np.random.default_rng(0)
        self._log = logs.get("demo")

    def run(self) -> None:
        """Let people come, and click."""
        ACTOR.set("the demo")
        campaigns = [(self._hosted(name, given), people_of(name, self._delay)) for name, given in CAMPAIGNS.items()]
        begun = {host.name: time.time() for host, _ in campaigns}
        while not self._stop_it.wait(self._pace):
            for host, people in campaigns:
                if host.closed:
                    continue
                people.wait(max(time.time() - begun[host.name] - people.now, 1e-6))
                try:
                    self._visit(host, people)
                except StoreError as error:
                    self._log.warning("the store cannot be used; waiting", error=str(error))
                    self._stop_it.wait(1.0)
                except (ValueError, LookupError, NotLearnedError) as error:
                    self.lost += 1
                    self._log.warning("a visit came to nothing", bandit=host.name, error=str(error))

    def stop(self) -> None:
        """Let nobody come any more."""
        self._stop_it.set()
        self.join()

    def _hosted(self, name: str, settings: dict[str, Any]) -> Host:
        try:
            host = self._engine.create(name, settings, None)
        except NameTakenError:
            host = self._engine.find(name)
        host.refresh(wait=True)
        return host

    def _visit(self, host: Host, people: Audience) -> None:
        context = people.visit()
        played = rule_of(self._rng) if host.core.state.settings.get("apprentice") else (None, None)
        answer = self._engine.submit(
            orders.ask(host, host.request(context, played=played[0], propensity=played[1]))
        ).result()
        answer.pop("would", None)
        people.show(Decision.from_dict(answer))
        for clicked in people.clicks():
            self._engine.submit(orders.tell(host, {"id": clicked, "reward": 1})).result()


def rule_of(rng: np.random.Generator) -> tuple[dict[str, Any], float]:
    """Return what a caller's own rule plays, and how likely that was."""
    usual = (1.0 - _VARIED) + _VARIED / len(_OFFERS)
    if rng.random() >= _VARIED:
        return dict(_RULE), usual
    offer = _OFFERS[int(rng.integers(len(_OFFERS)))]
    return {**_RULE, "offer": offer}, usual if offer == _RULE["offer"] else _VARIED / len(_OFFERS)


def people_of(name: str, delay: float) -> Audience:
    """Return the people of a campaign."""
    from tensorbandits.bandit.settings import arguments

    space = arguments(CAMPAIGNS[name])["space"]
    return Audience(
        space, rate=0.12, effects=0.7, interaction=0.6, delay=delay, lost=0.05, twice=0.1, pace=1e-6, seed=7
    )
