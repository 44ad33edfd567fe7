"""Going on without the service: fallbacks, and writes that wait."""

import asyncio
import logging
import threading
import warnings

import httpx
import pytest

import tensorbandits as tb
from tensorbandits.bandit.book import ClosedDecisionError, UnknownDecisionError
from tensorbandits.client import ServerAwayError
from tests.client.fake import error

ARM = {"offer": "a", "channel": "mail"}


def test_a_fallback_decides_when_the_service_is_away(client, fake):
    bandit = client(retries=2).bandit("offers", fallback=ARM)
    assert bandit.ask(segment="new").by == "policy"
    fake.always = "away"
    decision = bandit.ask(segment="new")
    assert isinstance(decision, tb.Decision)
    assert (decision.arm, decision.context, decision.by) == (ARM, {"segment": "new"}, "fallback")
    assert decision.propensity is None
    assert tb.Decision.from_json(decision.to_json()) == decision
    assert bandit.ask(segment="new").id != decision.id


def test_a_fallback_may_depend_on_the_context_and_be_given_with_the_question(client, fake):
    fake.always = error(500, "internal", "a fault")  # which is no better for a visitor than silence
    bandit = client().bandit("offers")

    def rule(context):
        return {"offer": "b" if context["segment"] == "new" else "c"}

    assert bandit.ask({"segment": "new"}, fallback=rule).arm == {"offer": "b"}
    assert bandit.ask(segment="old", fallback=rule).arm == {"offer": "c"}
    assert [one.arm["offer"] for one in bandit.ask_many([{"segment": "new"}, {"segment": "x"}], fallback=rule)] == [
        *("b", "c")
    ]


def test_what_is_played_is_the_fallback_of_an_apprentice(client, fake):
    fake.always = "away"
    bandit = client(retries=0).bandit("offers", fallback=ARM)
    played = {"offer": "z", "channel": "sms"}
    assert bandit.ask(segment="new", played=played, propensity=0.5).arm == played
    assert [one.arm for one in bandit.ask_many([{}, {}], played=[played, ARM])] == [played, ARM]


def test_a_fallback_that_is_not_allowed_is_not_used(client, fake):
    fake.always = "away"
    bandit = client(retries=0).bandit("offers", fallback=ARM)
    assert bandit.ask(allowed={"offer": ["b", "a"]}).arm == ARM
    with pytest.raises(ServerAwayError) as raised:
        bandit.ask(allowed={"offer": ["b", "c"]})
    assert "allows of mode 'offer' only ['b', 'c']" in raised.value.__notes__[0]


def test_an_error_of_the_caller_is_none_to_fall_back_from(client, fake):
    fake.troubles.append(error(422, "invalid", "'x' is no level of mode 'segment'"))
    with pytest.raises(ValueError, match="no level"):
        client().bandit("offers", fallback=ARM).ask(segment="x")


def test_a_service_that_was_away_is_left_alone_for_a_while(client, fake, clock):
    fake.always = "away"
    bandit = client(retries=1, rest=10).bandit("offers", fallback=ARM)
    bandit.ask()
    assert len(fake.seen) == 2
    bandit.ask()
    assert len(fake.seen) == 2
    with pytest.raises(ServerAwayError):  # a call that cannot do without tries
        bandit.best()
    clock.now += 10.1
    fake.always = None
    assert bandit.ask().by == "policy"
    assert bandit.ask().by == "policy"


def test_what_a_fallback_earned_is_told_as_a_reward_of_its_arm_once(client, fake):
    bandit = client(retries=0, rest=0).bandit("offers", fallback=ARM)
    fake.troubles.append("away")
    decision = bandit.ask(segment="new")
    fake.troubles.append("lost")
    with pytest.raises(ServerAwayError):
        bandit.tell(decision, 1)
    bandit.tell(decision, 1)
    bandit.tell(decision.id, 1.0)
    assert fake.told == [(ARM, {"segment": "new"}, 1.0)]
    with pytest.raises(ClosedDecisionError, match="another reward already"):
        bandit.tell(decision, 2)
    for change in ("amend", "add"):
        with pytest.raises(ValueError, match="neither amended nor added to"):
            bandit.tell(decision, 2, **{change: True})
    bandit.activate(decision)
    bandit.cancel(decision)
    with pytest.raises(UnknownDecisionError):  # of a decision that was not carried out
        bandit.tell(decision.id, 1)
    assert fake.told == [(ARM, {"segment": "new"}, 1.0)]


def test_what_a_fallback_earned_goes_with_other_rewards(client, fake):
    bandit = client(retries=0, rest=0).bandit("offers", fallback=ARM)
    mine, theirs = bandit.ask(), None
    fake.troubles.append("away")
    theirs = bandit.ask()
    bandit.tell_many([(mine, 1), (theirs, 0.5), (theirs, 0.5)])
    assert fake.rewards == {mine.id: 1.0}
    assert fake.told == [(ARM, {}, 0.5)]
    with pytest.raises(ExceptionGroup) as raised:
        bandit.tell_many([(mine, 1), (theirs, 2)])
    assert isinstance(raised.value.exceptions[0], ClosedDecisionError)


@pytest.mark.parametrize("trouble", ["lost", "slow"])
def test_a_decision_that_the_service_made_all_the_same_is_cancelled(client, fake, trouble):
    """Else it would count as shown and not clicked."""
    made = client(retries=1, rest=0, buffer=10)
    bandit = made.bandit("offers", fallback=ARM)
    fake.troubles.extend([trouble, trouble])
    decision = bandit.ask()
    assert (decision.by, list(fake.rewards)) == ("fallback", [decision.id])
    bandit.tell(decision, 1)
    assert fake.cancelled == {decision.id}
    assert fake.told == [(ARM, {}, 1.0)]
    assert made.waiting == 0


def test_nothing_is_cancelled_that_the_service_cannot_have_made(client, fake):
    made = client(retries=0, rest=0, buffer=10)
    fake.troubles.extend(["away", (503, {}, b"")])
    made.bandit("offers", fallback=ARM).ask()
    assert made.waiting == 0
    made.bandit("offers", fallback=ARM).ask()
    assert made.waiting == 1
    assert made.flush() == (0, 0, ())  # that there was nothing to cancel is no news


# Writes that wait.


def test_rewards_wait_while_the_service_is_away_and_are_told_in_order(client, fake, clock):
    made = client(retries=0, rest=5, buffer=10)
    bandit = made.bandit("offers")
    first, second = bandit.ask(), bandit.ask()
    fake.always = "away"
    bandit.tell(first, 1)
    bandit.tell(first, 2, amend=True)
    bandit.tell(second, 1)
    assert made.waiting == 3
    assert fake.paths[2:] == ["tell"]  # the others did not try, as it was away just now
    fake.always = None
    clock.now += 5.1
    bandit.tell(second, 3, amend=True)
    assert made.waiting == 0
    assert fake.rewards == {first.id: 2.0, second.id: 3.0}
    assert made.flush() == (4, 0, ())
    assert made.flush() == (0, 0, ())


def test_what_waits_counts_once_although_it_was_sent_before(client, fake):
    made = client(retries=1, rest=0, buffer=10)
    bandit = made.bandit("offers")
    decision = bandit.ask()
    fake.troubles.extend(["lost", "lost"])  # told, but nobody knows
    bandit.tell(decision, 1, add=True)
    assert (made.waiting, fake.rewards[decision.id]) == (1, 1.0)
    fake.troubles.extend(["lost", "slow"])
    assert made.flush().waiting == 1
    assert made.flush().waiting == 0
    assert fake.rewards == {decision.id: 1.0}


def test_the_buffer_has_a_bound_and_says_when_it_is_full(client, fake):
    made = client(retries=0, rest=60, buffer=3)
    bandit = made.bandit("offers")
    decisions = bandit.ask_many([{}] * 4)
    fake.always = "away"
    bandit.tell_many([(one, 1) for one in decisions[:2]])
    bandit.activate(decisions[3])
    with pytest.raises(ServerAwayError, match="3 writes wait already, of at most 3; this one was not sent"):
        bandit.tell(decisions[2], 1)
    fake.always = None
    assert made.flush() == (3, 0, ())
    assert list(fake.rewards.values()) == [1.0, 1.0, None, None]


def test_without_a_buffer_a_reward_that_cannot_be_told_is_an_error(client, fake):
    bandit = client(retries=0).bandit("offers")
    decision = bandit.ask()
    fake.troubles.append("away")
    with pytest.raises(ServerAwayError, match="a buffer to the client"):
        bandit.tell(decision, 1)
    bandit.tell(decision, 1)


def test_what_is_refused_after_it_waited_is_reported(client, fake, caplog):
    made = client(retries=0, rest=0, buffer=10)
    bandit = made.bandit("offers")
    decision = bandit.ask()
    bandit.tell(decision, 1)
    fake.troubles.append("away")
    bandit.tell_many([(decision, 2), ("nobody", 1), (decision, 1)])
    fake.troubles.append("away")
    bandit.tell("somebody", 1)
    with caplog.at_level(logging.WARNING, "tensorbandits.client"):
        flushed = made.flush()
    assert (flushed.sent, flushed.waiting) == (1, 0)
    assert [type(one) for one in flushed.refused] == [
        *(ClosedDecisionError, UnknownDecisionError, UnknownDecisionError)
    ]
    assert "no decision has the id 'nobody'" in caplog.text
    assert made.flush().refused == ()


def test_a_client_that_closes_sends_what_waits_or_says_what_is_lost(client, fake):
    with client(retries=0, rest=0, buffer=10) as made:
        bandit = made.bandit("offers")
        decision = bandit.ask()
        fake.troubles.append("away")
        bandit.tell(decision, 1)
    assert fake.rewards == {decision.id: 1.0}
    made = client(retries=0, rest=0, buffer=10)
    fake.always = "away"
    made.bandit("offers").tell(decision, 1)
    with pytest.warns(RuntimeWarning, match="1 writes that could not be sent, which are lost"):
        made.close()


def test_a_call_that_is_given_up_leaves_the_buffer_as_it_was(fake):
    """Whoever sends what waits may be cancelled meanwhile; the next one goes on."""
    hanging = threading.Event()

    async def slow(request):
        if hanging.is_set():
            await asyncio.sleep(3600)
        return await fake.awaited(request)

    async def go():
        own = httpx.AsyncClient(transport=httpx.MockTransport(slow))
        async with tb.AsyncClient("http://service.test", retries=0, rest=0, buffer=10, http=own) as client:
            bandit = client.bandit("offers")
            decision = await bandit.ask()
            fake.troubles.append("away")
            await bandit.tell(decision, 1)
            hanging.set()
            sending = asyncio.create_task(client.flush())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            hanging.clear()
            assert client.waiting == 1
            assert await client.flush() == (1, 0, ())

    asyncio.run(go())
    assert list(fake.rewards.values()) == [1.0]


def test_threads_that_tell_while_the_service_comes_and_goes_lose_nothing(fake):
    for _ in range(40):
        fake.troubles.extend([None] * 5 + ["away"] * 3 + ["lost"] * 2)
    own = httpx.Client(transport=httpx.MockTransport(fake))
    with (
        warnings.catch_warnings(),
        tb.Client("http://service.test", retries=0, rest=0, buffer=1000, http=own) as client,
    ):
        bandit = client.bandit("offers")
        rounds, threads = 20, 5

        def visit():
            for _ in range(rounds):
                while True:
                    try:
                        decision = bandit.ask()
                        break
                    except ServerAwayError:
                        pass
                bandit.tell(decision, 1, add=True)
                told.append(decision.id)

        told = []
        workers = [threading.Thread(target=visit) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        fake.troubles.clear()
        client.flush()
    assert len(told) == rounds * threads
    assert [fake.rewards[number] for number in told] == [1.0] * len(told)
    own.close()
