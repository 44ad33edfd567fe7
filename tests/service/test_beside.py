"""A real decider beside a real service: it follows snapshots over HTTP, and hands decisions and rewards back."""

import time

import pytest

import tensorbandits as tb
from tests.service.served import Service, until

SECRET = "2026-11=0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Service(tmp_path_factory.mktemp("beside") / "own.db", token_keys=SECRET, publish_every=0.2) as service:
        yield service


def beside(bandit, **settings):
    """A decider that decides for a served bandit, with the service as its sink."""
    address = f"{bandit.service.url}/v1/bandits/{bandit.name}"
    sink = tb.HttpSink(address, name="web-1", rows=20, seconds=0.02)
    return tb.Decider(address, keys=SECRET, sink=sink, every=0.05, name="web-1", seed=0, **settings)


def test_decisions_and_rewards_come_into_the_log_once_and_snapshots_follow(served):
    bandit = served.create(reward="bernoulli", window="10 min", default=0)
    with beside(bandit) as deciding:
        made = [deciding.ask(segment=("new", "old")[at % 2]) for at in range(50)]
        for one in made[:30]:
            deciding.tell(one, 1)
            deciding.tell(one.id, 1)  # told twice
        assert deciding.flush()
        found = bandit.detail()
        assert (found["decisions"], found["rewards"], found["waiting"]) == (50, 30, 20)
        assert bandit.kinds().count("Decided") == 50
        assert bandit.kinds().count("Rewarded") == 30
        said = bandit.look_up(made[0].id)
        assert (said["arm"], said["propensity"], said["status"]) == (made[0].arm, made[0].propensity, "rewarded")
        first = made[0].snapshot
        until(lambda: deciding.status()["version"] > first)
        bandit.post("/rules", {"forbid": {"offer": "c"}}, status=200)
        until(lambda: {deciding.ask(segment="new").arm["offer"] for _ in range(60)} <= {"a", "b"})
        status = deciding.status()
        assert (status["problem"], status["sink_problem"], status["refused"], status["dropped"]) == (None, None, 0, 0)
    [seen] = [one for one in bandit.send("GET", "/view/deciders").json()["deciders"] if one["name"] == "web-1"]
    assert seen["decisions"] == bandit.detail()["decisions"]


def test_a_team_that_moves_to_deciders_tells_the_ids_of_before_there_too(served):
    bandit = served.create(reward="bernoulli")
    before = [bandit.ask()["id"], bandit.ask(id="order 17")["id"]]
    with beside(bandit) as deciding:
        for one in before:
            deciding.tell(one, 1)
        deciding.tell("nobody", 1)
        assert deciding.flush()
        assert deciding.status()["refused"] == 1
    assert [bandit.look_up(one)["status"] for one in before] == ["rewarded", "rewarded"]


def test_what_the_service_refuses_for_good_is_counted_and_holds_nothing_up(served):
    bandit = served.create(reward="bernoulli")
    address = f"{served.url}/v1/bandits/{bandit.name}"
    keys = {"2020-01": b"a key that the service has not"}
    sink = tb.HttpSink(address, rows=5, seconds=0.02)
    with tb.Decider(address, keys=keys, sink=sink, every=0.05) as deciding:
        made = [deciding.ask(segment="new") for _ in range(7)]
        deciding.tell(made[0], 1)
        assert deciding.flush()
        assert deciding.status()["refused"] == 8
    assert bandit.kinds() == ["Created"]


@pytest.mark.slow
def test_a_service_that_is_away_loses_nothing(tmp_path):
    with Service(tmp_path / "own.db", token_keys=SECRET) as service:
        bandit = service.create("offers", reward="bernoulli")
        deciding = beside(bandit)
        made = [deciding.ask(segment="new")]
        assert deciding.flush()
    try:
        made += [deciding.ask(segment="new") for _ in range(30)]
        deciding.tell(made[-1], 1)
        until(lambda: deciding.status()["sink_problem"])
        assert "is not reached" in deciding.status()["sink_problem"]
        assert deciding.status()["waiting"] == 31
        with service.restarted() as again:
            port = again.url.rpartition(":")[2]
            until(lambda: again.bandit("offers").send("GET").status_code == 200)
            deciding._sender.sink._url = f"http://127.0.0.1:{port}/v1/bandits/offers"  # where it is now
            assert deciding.flush(60.0)
            assert again.bandit("offers").kinds().count("Decided") == 31
            assert again.bandit("offers").look_up(made[-1].id)["status"] == "rewarded"
    finally:
        deciding.close()


def test_a_service_without_snapshots_for_a_policy_says_so_to_the_decider(served):
    bandit = served.create(policy="ucb", rank=None)
    with beside(bandit, wait=0) as deciding:
        until(lambda: deciding.status()["problem"])
        assert "posterior draws" in deciding.status()["problem"]
        assert deciding.status()["version"] is None


def test_a_snapshot_is_new_for_who_asks_after_a_long_time(served):
    bandit = served.create(reward="bernoulli")
    publisher = served.engine.publisher
    host = next(one for one in served.engine.all() if one.name == bandit.name)
    first = publisher.newest(host).snapshot.version
    publisher.of(host).wanted_at = time.monotonic() - 3_600.0  # nobody has asked since
    bandit.post("/rules", {"forbid": {"offer": "c"}}, status=200)
    again = publisher.newest(host).snapshot
    assert again.version > first
    assert len(again.space.rules) == 1
