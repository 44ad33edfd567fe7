"""Every policy can be served: it decides, learns, follows another server, and goes on after a restart."""

import pytest

from tensorbandits.policies import registry
from tests.service.served import MODES, Service, until

SETTINGS = {"elimination": {"horizon": 500}, "estr": {"horizon": 500}}


@pytest.mark.parametrize("record", registry.records(), ids=lambda record: record.name)
def test_a_policy_is_served_followed_and_restarted(record, tmp_path):
    context = ("segment",) if record.context else ()
    given = {"segment": "new"} if context else {}
    more = {"policy": record.name, "settings": SETTINGS.get(record.name, {})}
    more |= {} if record.takes("rank") else {"rank": None}
    place = tmp_path / "store.db"
    with Service(place) as one, Service(place) as two:
        one.create("offers", MODES, context=context, floors=0.1, **more)
        first, second = one.bandit("offers"), two.bandit("offers")
        for at in range(60):
            decision = (first, second)[at % 2].post("/ask", {"context": given})
            assert decision["context"] == given
            assert decision["propensity"] is None or 0 < decision["propensity"] <= 1
            (second, first)[at % 2].tell(decision["id"], float(decision["arm"]["channel"] == "sms"))
        assert first.post("/best", {"context": given})["arm"]["channel"] in ("mail", "sms")
        refused = first.send("PATCH", json={"apprentice": True})
        assert refused.status_code == (200 if record.kind.traits.samples else 422), refused.text
        if refused.status_code == 200:
            assert first.send("PATCH", json={"apprentice": False}).status_code == 200
        until(lambda: [bandit.detail()["rewards"] for bandit in (first, second)] == [60, 60])
    with Service(place) as again:
        bandit = again.bandit("offers")
        assert (bandit.detail()["rewards"], bandit.detail()["decisions"]) == (60, 60)
        bandit.tell(bandit.post("/ask", {"context": given})["id"], 1.0)
