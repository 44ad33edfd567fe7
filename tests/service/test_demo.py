"""The demonstration: people come, click, and are learned from, by a bandit that decides and by an apprentice."""

import time

from tensorbandits.service.engine.demo import CAMPAIGNS, Demo
from tensorbandits.service.engine.engine import Engine
from tensorbandits.service.metrics import Metrics
from tensorbandits.store import Store


def test_people_click_in_every_campaign(tmp_path):
    with Store.open(tmp_path / "demo.db") as store:
        engine = Engine(store, Metrics(), snapshots=0)
        engine.start()
        demo = Demo(engine, pace=0.001, delay=0.01)
        demo.start()
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found = {host.name: float(host.core.policy.ledger.totals.sum()) for host in engine.all()}
            if set(found) == set(CAMPAIGNS) and min(found.values()) >= 5:
                break
            time.sleep(0.05)
        demo.stop()
        apprentice = engine.find("apprentice").core.state
        played = {
            event.body["by"] for event in store.events(engine.find("apprentice").id, after=1) if "by" in event.body
        }
        engine.stop()
    assert demo.lost == 0
    assert min(found.values()) >= 5
    assert played == {"caller"}
    assert apprentice.decisions > 0
