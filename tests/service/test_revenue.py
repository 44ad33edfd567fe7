"""Revenue over HTTP: made, asked, told, amended, imported, looked at, and read again after a restart."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.service.served import Service

MODES = {"segment": ["new", "old"], "offer": ["a", "b", "c"], "channel": ["mail", "sms"]}


def test_a_bandit_of_revenue_is_served(service):
    bandit, rng = service.create(reward="revenue", window="1 h", default=0), np.random.default_rng(0)
    told = 0.0
    for visit in range(60):
        decision = bandit.ask("new" if visit % 2 else "old")
        amount = float(np.round(rng.lognormal(3.0, 0.8), 2)) if rng.random() < 0.3 else 0.0
        bandit.tell(decision["id"], amount)
        told += amount
    last = bandit.ask()
    bandit.tell(last["id"], 0)
    bandit.tell(last["id"], 12.5, amend=True)
    message = bandit.refused("/tell", {"id": bandit.ask()["id"], "reward": -1}, 422, "invalid")
    assert 'with "reward": "revenue" allowed are 0 and amounts above 0' in message
    believed = bandit.post("/explain", {"context": {"segment": "new"}})
    assert "log-odds of a conversion" in str(believed)
    ledger = service.engine.find(bandit.name).core.policy.copy_ledger()
    assert ledger.totals.sum() <= told + 12.5 + 1e-6
    assert type(ledger).__name__ == "RevenueLedger"
    for view in ("overview", "effects", "heat", "arms", "reward", "drift"):
        answer = bandit.send("GET", f"/view/{view}")
        assert answer.status_code == 200, answer.text
    assert "log-odds of a conversion" in bandit.send("GET", "/view/effects").json()["scale"]


def test_a_log_of_amounts_is_imported_and_read_again_after_a_restart(tmp_path):
    rng = np.random.default_rng(1)
    names = {mode: [labels[i] for i in rng.integers(len(labels), size=300)] for mode, labels in MODES.items()}
    paid = np.where(rng.random(300) < 0.2, rng.lognormal(3.0, 0.8, 300), 0.0)
    out = io.BytesIO()
    pq.write_table(pa.table(names | {"paid": paid}), out)
    with Service(tmp_path / "own.db") as service:
        bandit = service.create(name="shop", reward="revenue")
        answer = bandit.send("POST", "/import", params={"reward": "paid"}, content=out.getvalue())
        assert answer.status_code == 200, answer.text
        assert answer.json()["rewards"] == 300
        out = io.BytesIO()
        pq.write_table(pa.table(names | {"paid": -paid}), out)
        refused = bandit.send("POST", "/import", params={"reward": "paid"}, content=out.getvalue())
        assert refused.status_code == 422
        assert "revenue is 0 or an amount above 0" in refused.json()["error"]["message"]
        decision = bandit.ask()
        bandit.tell(decision["id"], 20.0)
        again = service.restarted()
    with again as service:
        bandit = service.bandit("shop")
        assert bandit.detail()["rewards"] == 301
        assert set(bandit.ask()["arm"]) == {"offer", "channel"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"reward": "sales"}, "revenue, revenue-signed"),
        ({"reward": "revenue", "policy": "ensemble"}, 'the policy "thompson"'),
    ],
)
def test_what_cannot_be_made_is_refused(service, settings, words):
    body = {"name": "no-shop", "modes": MODES, "context": ["segment"], "rank": 1} | settings
    answer = service.http.post("/v1/bandits", json=body)
    assert answer.status_code == 422
    assert words in answer.json()["error"]["message"]
