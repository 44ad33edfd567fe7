"""Tries, their pauses, and their keys: nothing counts twice, and nothing is tried for ever."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tensorbandits.client import ServerAwayError, ServerError
from tensorbandits.client.blocking import run
from tensorbandits.client.messages import HttpRequest, Lost
from tensorbandits.client.retries import Retries
from tests.client.fake import Listening, error


def busy(status=503, **headers):
    return error(status, "unavailable", "the store is full", {name.replace("_", "-"): v for name, v in headers.items()})


@pytest.mark.parametrize("trouble", ["away", "lost", "slow", busy(503), busy(429), (502, {}, b"<html>bad gateway")])
def test_a_reward_is_told_once_whatever_happens_on_the_way(client, fake, trouble):
    bandit = client().bandit("offers")
    decision = bandit.ask(segment="new")
    fake.troubles.extend([trouble, trouble])
    bandit.tell(decision, 0.5)
    assert fake.rewards == {decision.id: 0.5}
    assert fake.paths == ["ask", "tell", "tell", "tell"]
    assert len(set(fake.keys[1:])) == 1


@pytest.mark.parametrize("trouble", ["lost", "slow"])
def test_what_adds_up_is_added_once_and_an_ask_decides_once(client, fake, trouble):
    bandit = client().bandit("offers")
    fake.troubles.append(trouble)
    decision = bandit.ask(segment="new")
    assert list(fake.rewards) == [decision.id]
    for _ in range(3):
        fake.troubles.append(trouble)
        bandit.tell(decision, 1, add=True)
    fake.troubles.append(trouble)
    bandit.tell(arm={"offer": "a"}, context={"segment": "new"}, reward=1)
    assert fake.rewards == {decision.id: 3.0}
    assert fake.told == [({"offer": "a"}, {"segment": "new"}, 1.0)]


def test_each_write_has_a_key_of_its_own_and_what_only_reads_has_none(client, fake):
    bandit = client().bandit("offers")
    decision = bandit.ask(segment="new")
    bandit.tell(decision, 1)
    bandit.tell(decision, 1)
    bandit.activate(decision)
    assert len(set(fake.keys)) == 4
    assert None not in fake.keys
    bandit.status(decision)
    bandit.best(segment="new")
    assert fake.keys[4:] == [None, None]
    assert {headers["authorization"] for _, _, headers, _ in fake.seen} == {"Bearer tb_secret"}


def test_pauses_double_with_some_chance_and_all_together_stay_in_the_budget(client, fake, clock):
    fake.always = "away"
    started = clock.now
    with pytest.raises(ServerAwayError, match="after 8 tries within the budget of 15 s; the last time: ConnectError"):
        client(retries=7).bandits()
    assert len(clock.pauses) == 7
    assert all(0.5 * 0.1 * 2**at <= pause <= 0.1 * 2**at for at, pause in enumerate(clock.pauses[:6]))
    assert all(pause <= 5 for pause in clock.pauses)
    clock.pauses.clear()
    started = clock.now
    with pytest.raises(ServerAwayError):
        client(retries=1000, budget=30).bandits()
    assert clock.now - started <= 30
    assert 7 < len(clock.pauses) < 30


def test_a_client_without_retries_tries_once(client, fake, clock):
    fake.always = "away"
    with pytest.raises(ServerAwayError, match="after one try"):
        client(retries=0).bandits()
    assert clock.pauses == []
    assert len(fake.seen) == 1


def test_the_service_may_ask_for_a_longer_pause(client, fake, clock):
    fake.troubles.extend([busy(429, retry_after="3"), busy(503, retry_after="soon")])
    client().bandits()
    assert 3 <= clock.pauses[0] <= 3.1
    assert clock.pauses[1] <= 0.2


def test_a_pause_beyond_the_budget_is_not_made(client, fake, clock):
    fake.troubles.append(busy(503, retry_after="60"))
    with pytest.raises(ServerAwayError, match="the store is full") as raised:
        client().bandits()
    assert clock.pauses == []
    assert raised.value.__notes__ == ["the service knows this request as r-17"]


def test_a_try_takes_no_longer_than_its_timeout_or_what_is_left(client, fake, kind, monkeypatch, clock):
    waits = []
    transport = httpx.Client if kind == "blocking" else httpx.AsyncClient
    stream = transport.stream

    def noting(self, method, url, **given):
        waits.append(given["timeout"])
        clock.now += given["timeout"]
        return stream(self, method, url, **given)

    monkeypatch.setattr(transport, "stream", noting)
    fake.always = "slow"
    with pytest.raises(ServerAwayError, match="ReadTimeout: it took too long"):
        client(timeout=4, budget=10).bandits()
    assert waits[:2] == [4, 4]
    assert waits[2] < 2
    assert len(waits) == 3


@pytest.mark.parametrize("status", [400, 404, 409, 422, 500])
def test_what_another_try_cannot_help_is_not_tried_again(client, fake, status):
    fake.always = error(status, "internal", "something is wrong")
    with pytest.raises(ServerError, match="something is wrong"):
        client().bandits()
    assert len(fake.seen) == 1


def test_settings_that_cannot_be_are_refused(client):
    for wrong in ({"timeout": 0}, {"budget": -1}, {"retries": 1.5}, {"rest": -1}, {"buffer": -1}, {"budget": None}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} is"):
            client(**wrong)


@pytest.mark.parametrize("lost", [0, 7])
def test_many_threads_share_a_client_and_its_connections(fake, lost):
    """Answers that do not come after the service has acted, at every so many requests, count nothing twice."""
    import tensorbandits as tb

    threads, rounds = 6, 20
    if lost:
        fake.troubles.extend("lost" if at % lost == 0 else None for at in range(2 * threads * rounds))
    with Listening(fake) as listening, tb.Client(listening.url, retries=50, budget=300, timeout=60) as client:
        bandit = client.bandit("offers")

        def visit(number):
            for _ in range(rounds):
                decision = bandit.ask(segment=f"s{number}")
                assert decision.context == {"segment": f"s{number}"}
                bandit.tell(decision, 1, add=True)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(visit, range(threads)))
        assert list(fake.rewards.values()) == [1.0] * (threads * rounds)
        if not lost:
            assert listening.connections <= threads


def test_tries_over_real_connections_that_break(fake, connect):
    with Listening(fake) as listening, connect(listening.url, retries=20, budget=300, timeout=60) as client:
        bandit = client.bandit("offers")
        fake.troubles.extend(["lost", None, "lost", "lost"])
        decision = bandit.ask(segment="new")
        bandit.tell(decision, 1, add=True)
        assert fake.rewards == {decision.id: 1.0}
    with pytest.raises(ServerAwayError, match=r"Connect|refused"):
        connect(listening.url, retries=0).bandit("offers").ask(segment="new")


def test_a_quarantined_bandit_is_not_asked_again_and_again(client, fake):
    bandit = client().bandit("offers")
    fake.troubles.append(error(503, "quarantined", "event 7 of its log cannot be applied", {}))
    with pytest.raises(ServerAwayError, match=r"one try.*event 7"):
        bandit.ask(segment="new")
    assert fake.paths == ["ask"]


def test_a_pause_that_took_too_long_leaves_a_try_some_time():
    """On a busy machine a pause may end after the budget; a try with less than no time was an error of its own."""
    now, given = [0.0], []

    class Slow:
        async def send(self, request, seconds):
            given.append(seconds)
            raise Lost("refused", reached=False)

        async def sleep(self, seconds):
            now[0] += seconds + 20.0  # far beyond what was asked for

    retries = Retries(timeout=5.0, retries=3, budget=10.0, rest=0.0, clock=lambda: now[0], chance=lambda: 0.0)
    with pytest.raises(ServerAwayError, match="got no answer after 2 tries"):
        run(retries.answer(Slow(), HttpRequest("GET", "/v1/me")))
    assert len(given) == 2
    assert all(seconds > 0 for seconds in given)
