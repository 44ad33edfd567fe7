"""A service and deciders beside it: snapshots out, tokens in, and one bandit that has counted everything once."""

import contextlib
import threading
import time

import numpy as np
import pytest

from tensorbandits.bandit.commands import Ask
from tensorbandits.bandit.published import DRAWS, PublishedSnapshot
from tensorbandits.bandit.publishing import POINTER, place_of
from tensorbandits.decider.tokens import TokenKeys, token_head
from tensorbandits.service.engine.deciders import DAY
from tests.service.served import Service, until

SECRET = "2026-11=0123456789abcdef0123456789abcdef"
KEYS = TokenKeys.of(SECRET)
RNG = np.random.default_rng(0)


class Elsewhere:
    """Decides from the snapshot of a served bandit, as a decider does, and signs what it decided."""

    def __init__(self, bandit, keys=KEYS):
        answer = bandit.send("GET", "/snapshot")
        assert answer.status_code == 200, answer.text
        self.tag, self.content, self.keys = answer.headers["etag"], answer.content, keys
        self.published = PublishedSnapshot.from_bytes(answer.content)
        self.snapshot = self.published.snapshot()

    def ask(self, level=0, *, ago=0.0):
        """Return a token of a decision, and what was drawn."""
        drawn = self.snapshot.decide(Ask((level,)), RNG)
        head = token_head(self.keys, self.published.uid, self.published.version, drawn)
        return head.token(time.time() - ago), drawn

    def tokens(self, count, **given):
        return [self.ask(at % 2, **given)[0] for at in range(count)]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Service(tmp_path_factory.mktemp("deciders") / "own.db", token_keys=SECRET, publish_every=0.2) as service:
        yield service


@pytest.fixture
def bandit(served):
    return served.create(reward="bernoulli", holdout=0.2, floors=[{"labels": {"offer": "a"}, "share": 0.1}])


def adopt(bandit, *tokens, **more):
    return bandit.post("/decisions", {"decisions": list(tokens), **more})


def sums(bandit):
    """How many rewards the policy has learned, and their sum."""
    with bandit.core.learner.still():
        found = bandit.core.policy.copy_ledger()
    return int(found.rounds), float(found.totals.sum())


def test_a_reward_by_token_adopts_the_decision_and_counts_once(bandit):
    there = Elsewhere(bandit)
    token, drawn = there.ask()
    assert bandit.tell(token, 1) == {"id": token, "status": "rewarded", "reward": 1.0, "changed": True}
    assert bandit.tell(token, 1)["changed"] is False
    assert adopt(bandit, token) == {"adopted": 0, "known": 1, "refused": []}
    assert bandit.kinds() == ["Created", "Decided", "Rewarded"]
    found = bandit.look_up(token)
    assert (found["propensity"], found["by"], found["status"]) == (drawn.propensity, drawn.by, "rewarded")
    assert [part["kind"] for part in found["story"]] == ["Decided", "Rewarded"]
    assert sums(bandit) == (1, 1.0)
    assert bandit.detail()["decisions"] == 1
    bandit.refused("/tell", {"id": token, "reward": 0}, 409, "closed_decision")
    assert bandit.tell(token, 0, amend=True)["changed"]
    assert sums(bandit) == (1, 0.0)


def test_a_batch_is_adopted_once_and_what_is_no_token_is_refused(bandit):
    there = Elsewhere(bandit)
    tokens = there.tokens(5)
    bad = tokens[0][:-2] + ("AA" if tokens[0][-2:] != "AA" else "BB")
    found = adopt(bandit, *tokens[:3], bad, "order 17", tokens[0], decider="web-1")
    assert (found["adopted"], found["known"]) == (3, 0)
    assert [(one["at"], one["code"]) for one in found["refused"]] == [(3, "refused_token"), (4, "refused_token")]
    assert adopt(bandit, *tokens) == {"adopted": 2, "known": 3, "refused": []}
    assert adopt(bandit) == {"adopted": 0, "known": 0, "refused": []}
    assert bandit.detail()["waiting"] == 5
    assert bandit.kinds().count("Decided") == 5


def test_tokens_that_are_forged_foreign_old_or_of_another_bandit_are_refused(served, bandit):
    there, other = Elsewhere(bandit), Elsewhere(served.create(reward="bernoulli"))
    forged = Elsewhere(bandit, TokenKeys({"2026-11": bytes(32)})).ask()[0]
    unknown = Elsewhere(bandit, TokenKeys({"2020-01": bytes(32)})).ask()[0]
    altered = there.ask()[0]
    altered = altered[:20] + ("A" if altered[20] != "A" else "B") + altered[21:]
    for token in (forged, unknown, altered, other.ask()[0]):
        bandit.refused("/tell", {"id": token, "reward": 1}, 422, "refused_token")
        bandit.refused("/cancel", {"id": token}, 422, "refused_token")
    assert "another bandit" in bandit.refused("/tell", {"id": other.ask()[0], "reward": 1}, 422, "refused_token")
    bandit.refused("/tell", {"id": there.ask(ago=31 * DAY)[0], "reward": 1}, 410, "expired_token")
    bandit.refused("/tell", {"id": "nobody", "reward": 1}, 404, "unknown_decision")
    results = bandit.post("/tell-many", {"rewards": [{"id": forged, "reward": 1}, {"id": there.ask()[0], "reward": 1}]})
    assert results["results"][0]["error"]["code"] == "refused_token"
    assert results["results"][1]["changed"]
    assert bandit.kinds() == ["Created", "Decided", "Rewarded"]


def test_a_service_without_keys_says_so(service):
    bandit = service.create(reward="bernoulli")
    token = Elsewhere(bandit).ask()[0]
    assert "TENSORBANDITS_TOKEN_KEYS" in bandit.refused("/tell", {"id": token, "reward": 1}, 422, "refused_token")
    [refused] = adopt(bandit, token)["refused"]
    assert refused["code"] == "refused_token"


def test_windows_begin_when_the_decision_was_made_and_defaults_apply(served):
    bandit = served.create(reward="bernoulli", window="10 min", default=0)
    there = Elsewhere(bandit)
    old, young = there.ask(ago=700.0)[0], there.ask(ago=500.0)[0]
    late, twice = there.ask(ago=800.0)[0], there.ask()[0]
    adopt(bandit, old, young, late)
    until(lambda: bandit.kinds().count("TimedOut") == 2)
    assert {bandit.look_up(one)["status"] for one in (old, late)} == {"timed out"}
    assert bandit.look_up(young)["status"] == "open"
    assert sums(bandit) == (2, 0.0)
    assert bandit.tell(late, 1)["changed"]  # late, it takes the default's place
    assert bandit.tell(twice, 1)["changed"]  # its decision was lost: its token says what it was
    assert sums(bandit) == (3, 2.0)
    assert bandit.look_up(young)["time"] == pytest.approx(time.time() - 500.0, abs=60.0)


def test_keys_of_requests_go_with_tokens(bandit):
    there = Elsewhere(bandit)
    token, other = there.ask()[0], there.ask()[0]
    first = bandit.tell(token, 1, key="k1")
    assert first["changed"]
    assert bandit.tell(token, 1, key="k1") == first | {"changed": False}
    bandit.refused("/tell", {"id": other, "reward": 1}, 409, "key_reused", key="k1")
    assert bandit.post("/activate", {"id": other}, key="k2")["status"] == "open"
    assert bandit.post("/activate", {"id": other}, key="k2")["status"] == "open"
    assert bandit.post("/cancel", {"id": other}, key="k3")["status"] == "cancelled"
    bandit.refused("/tell", {"id": other, "reward": 1}, 409, "cancelled_decision")
    assert bandit.kinds() == ["Created", "Decided", "Rewarded", "Decided", "Cancelled"]


def test_what_memory_has_forgotten_the_log_still_knows(served):
    bandit = served.create(reward="bernoulli", remember=2)
    there = Elsewhere(bandit)
    tokens = there.tokens(8)
    for token in tokens:
        bandit.tell(token, 1)
    assert tokens[0] not in bandit.core.state.book
    assert bandit.tell(tokens[0], 1) == {"id": tokens[0], "status": "rewarded", "reward": 1.0, "changed": False}
    bandit.refused("/tell", {"id": tokens[0], "reward": 0, "amend": True}, 410, "expired_decision")
    assert adopt(bandit, *tokens) == {"adopted": 0, "known": 8, "refused": []}
    assert sums(bandit) == (8, 8.0)
    folded = bandit.post("/fold")  # which leaves what says that tokens were told
    assert folded["folded"] == 0
    assert bandit.tell(tokens[0], 1)["changed"] is False


def test_the_log_is_folded_as_far_as_tokens_have_expired(tmp_path):
    with Service(tmp_path / "own.db", token_keys=SECRET, token_days=2e-5) as service:  # less than two seconds
        bandit = service.create(reward="bernoulli", remember=1)
        there = Elsewhere(bandit)
        tokens = there.tokens(3)
        for token in tokens:
            bandit.tell(token, 1)
        time.sleep(2.0)
        fresh = there.ask()[0]
        bandit.tell(fresh, 1)
        assert bandit.post("/fold")["folded"] == 7  # all but the last decision and its reward
        bandit.refused("/tell", {"id": tokens[0], "reward": 1}, 410, "expired_token")
        assert bandit.tell(fresh, 1)["changed"] is False
        assert sums(bandit) == (4, 4.0)


def test_somebody_who_was_forgotten_stays_so(bandit):
    there = Elsewhere(bandit)
    token = there.ask()[0]
    bandit.tell(token, 1)
    assert bandit.post("/forget", {"decision": token, "why": "asked"})["decisions"] == 1
    bandit.refused("/tell", {"id": token, "reward": 1}, 404, "unknown_decision")
    [refused] = adopt(bandit, token)["refused"]
    assert refused["code"] == "unknown_decision"
    assert sums(bandit) == (1, 1.0)


def test_somebody_who_was_forgotten_stays_so_though_a_decider_s_clock_was_ahead(bandit):
    there = Elsewhere(bandit)
    token = there.ask(ago=-90.0)[0]
    bandit.tell(token, 1)
    assert bandit.post("/forget", {"decision": token, "why": "asked"})["decisions"] == 1
    bandit.refused("/tell", {"id": token, "reward": 1}, 404, "unknown_decision")
    [change] = [one for one in bandit.send("GET", "/changes").json()["changes"] if one["kind"] == "Forgotten"]
    assert "1 decision forgotten" in str(change)
    waiting = there.ask(ago=-90.0)[0]
    adopt(bandit, waiting)
    assert bandit.post("/forget", {"decision": waiting, "why": "asked"})["cancelled"] == 1
    assert sums(bandit) == (1, 1.0)


def test_a_token_told_at_two_servers_at_once_counts_once(served, bandit):
    with served.restarted() as second:
        there, twin = Elsewhere(bandit), second.bandit(bandit.name)
        tokens = there.tokens(60)
        until(lambda: twin.send("GET").status_code == 200)
        failed = []

        def tell(one, some):
            for token in some:
                try:
                    one.tell(token, 1)
                    adopt(one, *some[:3])
                except AssertionError as error:
                    failed.append(error)

        threads = [threading.Thread(target=tell, args=pair) for pair in ((bandit, tokens), (twin, tokens[::-1]))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert bandit.kinds().count("Decided") == bandit.kinds().count("Rewarded") == 60
        until(lambda: twin.core.state.seq == bandit.core.state.seq)
        assert sums(bandit) == sums(twin) == (60, 60.0)


# Snapshots.


def test_a_snapshot_has_a_tag_and_is_sent_once(bandit):
    there = Elsewhere(bandit)
    assert there.published.name == bandit.name
    again = bandit.send("GET", "/snapshot")
    assert again.headers["etag"] == there.tag
    head = bandit.send("HEAD", "/snapshot")
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", there.tag)
    for tags in (there.tag, f'W/{there.tag}, "other"', "*"):
        known = bandit.service.http.get(f"/v1/bandits/{bandit.name}/snapshot", headers={"If-None-Match": tags})
        assert (known.status_code, known.content) == (304, b"")
    other = bandit.service.http.get(f"/v1/bandits/{bandit.name}/snapshot", headers={"If-None-Match": '"1-00"'})
    assert other.status_code == 200


def test_who_waits_gets_the_next_snapshot_as_soon_as_it_is_there_or_none_in_time(bandit):
    there = Elsewhere(bandit)
    path, headers = f"/v1/bandits/{bandit.name}/snapshot", {"If-None-Match": there.tag}
    began = time.monotonic()
    none = bandit.service.http.get(path, params={"wait": 0.6}, headers=headers)
    assert none.status_code == 304
    assert time.monotonic() - began >= 0.6
    timer = threading.Timer(0.3, lambda: bandit.post("/rules", {"forbid": {"offer": "c"}}, status=200))
    timer.start()
    found = bandit.service.http.get(path, params={"wait": 30}, headers=headers | {"X-Decider": "web-7"})
    timer.join()
    assert found.status_code == 200
    published = PublishedSnapshot.from_bytes(found.content)
    assert published.version > there.published.version
    assert len(published.space.rules) == 1
    for wrong in (-1, 61, "soon"):
        assert bandit.send("GET", "/snapshot", params={"wait": wrong}).status_code == 422
    [seen] = [one for one in deciders(bandit)["deciders"] if one["name"] == "web-7"]
    assert seen["version"] == there.published.version


def deciders(bandit):
    answer = bandit.send("GET", "/view/deciders")
    assert answer.status_code == 200, answer.text
    return answer.json()


def drawn_in(bandit):
    """The models of the newest snapshot, as they were drawn."""
    found = Elsewhere(bandit).published
    return found.version, [draw.line().tolist() for _, draw in found.draws.entries]


def test_snapshots_have_many_draws_new_ones_where_rewards_came_and_the_same_under_another_rule(bandit):
    for number in range(30):
        bandit.tell(bandit.ask()["id"], number % 2)
    until(lambda: not bandit.core.learner.stale)
    drawn_in(bandit)
    time.sleep(0.5)  # until what was learned is published
    version, first = drawn_in(bandit)
    assert len(first) == DRAWS
    assert (
        len({tuple(one) for one in first}) > DRAWS / 2
    )  # a service decides from 16, of which one is renewed at a time
    bandit.post("/rules", {"forbid": {"offer": "c"}}, status=200)
    until(lambda: drawn_in(bandit)[0] > version)
    assert drawn_in(bandit)[1] == first
    bandit.tell(bandit.ask()["id"], 1)
    until(lambda: drawn_in(bandit)[1] != first)
    assert not {tuple(one) for one in drawn_in(bandit)[1]} & {tuple(one) for one in first}


def test_a_policy_that_does_not_sample_is_not_published(served):
    bandit = served.create(policy="ucb", rank=None)
    answer = bandit.send("GET", "/snapshot")
    assert answer.status_code == 422
    assert "posterior draws" in answer.json()["detail"]


def newest(place):
    """The snapshot that the pointer of a place names, unless newer ones were put there meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return PublishedSnapshot.from_bytes(place.content(place.pointer()))


def test_snapshots_are_put_at_an_address_also_by_two_servers_and_for_a_bandit_made_anew(tmp_path):
    address = f"{tmp_path}/published/{{name}}"
    with Service(tmp_path / "own.db", token_keys=SECRET, publish=address, publish_every=0.2) as service:
        bandit = service.create("offers", reward="bernoulli")
        place = place_of(f"{tmp_path}/published/offers")
        first = until(place.pointer)
        with service.restarted() as second:
            until(lambda: second.bandit("offers").send("GET").status_code == 200)
            for _ in range(30):
                bandit.tell(bandit.ask()["id"], 1)
            later = until(lambda: (found := place.pointer()).event > 30 and found)
        assert later.version > first.version
        snapshot = until(lambda: newest(place))
        assert (snapshot.name, snapshot.uid) == ("offers", first.uid)
        (tmp_path / "published" / "offers" / POINTER).write_text("{}")  # is not kept for ever
        bandit.post("/rules", {"forbid": {"offer": "c"}}, status=200)
        until(lambda: (tmp_path / "published" / "offers" / POINTER).read_text() != "{}")
        assert place.pointer().uid == first.uid
        assert bandit.send("DELETE").status_code == 204
        service.create("offers", reward="bernoulli")
        until(lambda: place.pointer().uid != first.uid)


def test_an_address_that_fails_is_told_and_holds_nothing_up(tmp_path):
    (tmp_path / "published").write_text("no folder")
    with Service(tmp_path / "own.db", publish=f"{tmp_path}/published/{{name}}", publish_every=0.2) as service:
        bandit = service.create(reward="bernoulli")
        failed = until(lambda: deciders(bandit)["failed"])
        assert "Error" in failed
        bandit.tell(bandit.ask()["id"], 1)
        assert Elsewhere(bandit).published.name == bandit.name
        text = service.http.get("/metrics").text
        assert f'tensorbandits_publish_errors_total{{bandit="{bandit.name}"}}' in text
        (tmp_path / "published").unlink()
        until(lambda: deciders(bandit)["failed"] is None)
        assert place_of(f"{tmp_path}/published/{bandit.name}").pointer() is not None


def test_the_page_and_prometheus_know_what_deciders_do(served, bandit):
    there = Elsewhere(bandit)
    adopt(bandit, *there.tokens(4), decider="web-1")
    found = deciders(bandit)
    assert found["version"] == there.published.version
    assert found["decisions"] == {"here": 0, "elsewhere": 4}
    [seen] = [one for one in found["deciders"] if one["name"] == "web-1"]
    assert (seen["decisions"], seen["version"]) == (4, there.published.version)
    assert found["age"] >= 0.0
    assert found["learning_lag"] >= 0.0
    until(lambda: adopt(bandit, *there.tokens(1)) and deciders(bandit)["events_a_second"] > 0.0)
    text = until(
        lambda: (
            (found := served.http.get("/metrics").text)
            and f'tensorbandits_deciders{{bandit="{bandit.name}"}}' in found
            and found
        )
    )
    adopted = bandit.core.state.adopted
    assert f'tensorbandits_decisions_adopted_total{{bandit="{bandit.name}"}} {adopted}.0' in text
    assert f'tensorbandits_snapshot_age_seconds{{bandit="{bandit.name}"}}' in text
    assert f'tensorbandits_learning_lag_seconds{{bandit="{bandit.name}"}}' in text
