"""Flags that bandits decide, through the SDK of OpenFeature: values, metadata, errors, and rewards by tracking."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from openfeature import api
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason
from openfeature.track import TrackingEventDetails

import tensorbandits as tb
from tensorbandits.client.openfeature import BanditProvider
from tests.client.served import served

MODES = {"device": ["phone", "pc"], "layout": ["wide", "compact"], "columns": [1, 2], "ads": [True, False]}
NOBODY = EvaluationContext(attributes={"device": "phone", "plan": "free"})


def visitor(name, **attributes):
    return EvaluationContext(name, {"device": "phone"} | attributes)


@pytest.fixture
def shop():
    return tb.Bandit(tb.Space(MODES, ["device"]), reward="bernoulli", rank=1, window="10 min", default=0, seed=0)


@pytest.fixture
def flags(shop, request):
    """A function that registers a provider of bandits, and returns a client of the SDK."""

    def flags(bandits=None, **settings):
        api.set_provider_and_wait(BanditProvider({"shop": shop} if bandits is None else bandits, **settings), "test")
        return api.get_client("test")

    yield flags
    api.clear_providers()


def test_every_kind_of_flag_is_decided(flags, shop):
    values = {"shop.layout": {"wide": {"columns": 3}, "compact": {"columns": 1}}}
    client, ann = flags(values=values), visitor("ann")
    whole = client.get_object_details("shop", {}, ann)
    decided = whole.value
    assert set(decided) == {"layout", "columns", "ads"}
    assert client.get_boolean_value("shop.ads", False, ann) is decided["ads"]
    assert client.get_integer_value("shop.columns", 0, ann) == decided["columns"]
    assert client.get_float_value("shop.columns", 0.0, ann) == float(decided["columns"])
    layout = client.get_object_details("shop.layout", {}, ann)
    assert (layout.variant, layout.value) == (decided["layout"], values["shop.layout"][decided["layout"]])
    assert (whole.reason, layout.reason) == (Reason.SPLIT, Reason.CACHED)  # all of one decision
    assert layout.flag_metadata == whole.flag_metadata
    number = whole.flag_metadata["decision_id"]
    assert {**whole.flag_metadata} == {
        "decision_id": number,
        "bandit": "shop",
        "by": "policy",
        "propensity": whole.flag_metadata["propensity"],
    }
    assert 0 < whole.flag_metadata["propensity"] <= 1
    shop.tell(number, 1)
    assert shop.reward(number) == 1
    assert shop.policy.ledger.rounds == 1


def test_a_bandit_of_one_mode_is_a_flag_by_its_name(flags):
    bandit = tb.Bandit(tb.Space({"text": ["Buy", "Get it"]}), rank=1, seed=0)
    client = flags({"cta.v2": bandit})
    details = client.get_string_details("cta.v2", "Buy")
    assert details.value == details.variant
    assert details.value in ("Buy", "Get it")
    assert client.get_string_value("cta.v2.text", "none") in ("Buy", "Get it")


def test_a_visitor_keeps_a_decision_for_a_while_and_in_the_same_context(flags, shop):
    client = flags()
    with ThreadPoolExecutor(4) as pool:
        ids = set(pool.map(lambda _: number(client, visitor("ann")), range(20)))
    assert len(ids) == 1
    assert number(client, visitor("ann", plan="paid")) in ids  # which is no context of the bandit
    assert number(client, visitor("ann", device="pc")) not in ids
    assert number(client, visitor("bob")) not in ids
    assert len({number(client, NOBODY) for _ in range(3)}) == 3
    brief = flags(hold=0.0)
    assert len({number(brief, visitor("ann")) for _ in range(3)}) == 3


def number(client, context):
    return client.get_boolean_details("shop.ads", False, context).flag_metadata["decision_id"]


def test_what_is_wrong_gives_the_default_and_a_code(flags, shop):
    client = flags(values={"shop.layout": {"wide": 1}})
    cases = [
        (
            client.get_string_details("shop.lay", "mine", visitor("a")),
            ErrorCode.FLAG_NOT_FOUND,
            "did you mean 'layout'",
        ),
        (client.get_string_details("shp", "mine", visitor("a")), ErrorCode.FLAG_NOT_FOUND, "did you mean 'shop'"),
        (client.get_string_details("shop", "mine", visitor("a")), ErrorCode.TYPE_MISMATCH, "several modes"),
        (client.get_string_details("shop.ads", "mine", visitor("a")), ErrorCode.TYPE_MISMATCH, "text is wanted"),
        (client.get_string_details("shop.layout", "mine", visitor("a")), None, ""),
        (client.get_string_details("shop.ads", "mine"), ErrorCode.INVALID_CONTEXT, "'device'"),
        (client.get_string_details("shop.ads", "mine", visitor("a", device="tv")), ErrorCode.INVALID_CONTEXT, "'tv'"),
        (client.get_string_details("shop.ads", "mine", visitor("a", device=["pc"])), ErrorCode.INVALID_CONTEXT, "pc"),
    ]
    for details, code, words in cases:
        assert details.value == "mine"
        assert details.reason == Reason.ERROR
        assert details.error_code == code if code else details.error_code is not None
        assert words in details.error_message
    beside = tb.Bandit(tb.Space({"ads": [True, False]}), rank=1, apprentice=True, seed=0)
    details = flags({"ads": beside}).get_boolean_details("ads", True)
    assert (details.value, details.error_code) == (True, ErrorCode.GENERAL)
    assert "this bandit is an apprentice" in details.error_message


class Watched(tb.Bandit):
    """A bandit that knows what was cancelled."""

    cancelled = ()

    def cancel(self, decision):
        super().cancel(decision)
        self.cancelled += (self.status(decision),)


def test_what_is_not_shown_is_cancelled(flags):
    shop = Watched(tb.Space(MODES, ["device"]), rank=1, seed=0)
    client = flags({"shop": shop})
    for context in (NOBODY, visitor("ann")):
        assert client.get_integer_details("shop.layout", 7, context).error_code == ErrorCode.TYPE_MISMATCH
    assert shop.cancelled == ("cancelled", "cancelled")
    first = number(client, visitor("ann"))
    client.get_integer_details("shop.layout", 7, visitor("ann"))
    assert shop.status(first) == "open"  # other flags of it are shown


def test_values_that_are_missing_or_unknown_are_other(flags):
    space = tb.Space({"device": ["phone", "other"], "ads": [True, False]}, ["device"])
    bandit = tb.Bandit(space, rank=1, seed=0)
    client = flags({"ads": bandit})
    for context in (None, EvaluationContext(attributes={"device": "tv"})):
        details = client.get_boolean_details("ads", False, context)
        assert details.error_code is None
    bandit.add_level("device", "tv")
    bandit.space.forbid(device="tv", ads=False)
    assert client.get_boolean_value("ads", False, EvaluationContext(attributes={"device": "tv"})) is True


def test_tracking_tells_rewards(flags, shop, caplog):
    client = flags(rewards={"purchase": "shop", "click": ["shop"]})
    first, second = number(client, visitor("ann")), number(client, visitor("bob"))
    loose = number(client, NOBODY)
    client.track("purchase", visitor("ann"))
    client.track("click", visitor("bob"), TrackingEventDetails(0.0))
    client.track("click", None, TrackingEventDetails(attributes={"decision_id": loose}))
    client.track("scrolled", visitor("ann"))
    assert [shop.reward(one) for one in (first, second, loose)] == [1.0, 0.0, 1.0]
    with caplog.at_level(logging.WARNING, "tensorbandits.client"):
        client.track("purchase", visitor("nobody"))
        client.track("purchase", visitor("ann"), TrackingEventDetails(5.0))
    assert "no decision is known for the targeting key 'nobody'" in caplog.text
    assert "allowed are 0 and 1" in caplog.text
    assert shop.reward(first) == 1.0


def test_no_provider_without_bandits():
    with pytest.raises(TypeError, match=r"give a tensorbandits\.Client"):
        BanditProvider("http://127.0.0.1:8000")


@pytest.mark.medium
def test_bandits_of_a_service_decide_flags(flags, tmp_path):
    with served(tmp_path) as url, tb.Client(url) as service:
        bandit = service.create("shop.front", MODES, context=["device"], reward="bernoulli", rank=1)
        client = flags(service, rewards={"click": "shop.front"})
        context = visitor("ann")
        whole = client.get_object_details("shop.front", {}, context)
        assert asyncio.run(client.get_boolean_value_async("shop.front.ads", False, context)) is whole.value["ads"]
        client.track("click", context)
        assert bandit.reward(whole.flag_metadata["decision_id"]) == 1.0
        missing = client.get_boolean_details("shop.none", True, context)
        assert (missing.value, missing.error_code) == (True, ErrorCode.FLAG_NOT_FOUND)
        service.delete("shop.front")
        gone = client.get_boolean_details("shop.front.ads", True, visitor("bob"))
        assert (gone.value, gone.error_code) == (True, ErrorCode.FLAG_NOT_FOUND)
        service.create("text", {"text": ["Buy", "Get it"]}, rank=1)
        brief = tb.Client(url, budget=0.2, buffer=10)
        flags({"text": brief.bandit("text", fallback={"text": "Buy"})}, rewards={"click": "text"})
        assert client.get_string_details("text", "none").reason == Reason.SPLIT
    for _ in range(2):  # the service is away: no decision of a fallback is kept
        lost = client.get_string_details("text", "none", visitor("ann"))
        assert (lost.value, lost.reason, lost.flag_metadata["by"]) == ("Buy", Reason.DEFAULT, "fallback")
    client.track("click", visitor("ann"))
    assert brief.waiting == 1
    with pytest.warns(RuntimeWarning, match="1 writes that could not be sent"):
        brief.close()
    with tb.Client("http://127.0.0.1:9", budget=0.2) as away:
        lost = flags(away).get_string_details("shop", "mine")
    assert (lost.value, lost.error_code) == ("mine", ErrorCode.GENERAL)


def test_numbers_come_as_attributes(flags):
    space = tb.Space({"age": tb.Numeric(cuts=[18, 30, 65]), "layout": ["wide", "compact"]}, ["age"])
    space.forbid(age="age 18 to 30", layout="wide")
    space.forbid(age="age missing", layout="compact")
    client = flags({"shop": tb.Bandit(space, rank=1, window="10 min", default=0, seed=0)})
    for attributes, layout in (({"age": 22.5}, "compact"), ({}, "wide"), ({"age": 18}, "compact")):
        given = EvaluationContext(attributes=attributes)
        assert {client.get_string_value("shop.layout", "", given) for _ in range(6)} == {layout}
    wrong = client.get_string_details("shop.layout", "", EvaluationContext(attributes={"age": "22"}))
    assert wrong.error_code == ErrorCode.INVALID_CONTEXT
    assert "give a number" in wrong.error_message
