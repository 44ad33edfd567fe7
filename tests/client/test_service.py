"""Against the real service: the interface of a bandit, the same errors, and lost answers of every write."""

import datetime
import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import pyarrow as pa
import pytest

import tensorbandits as tb
from tensorbandits.bandit.book import CancelledDecisionError, ClosedDecisionError, UnknownDecisionError
from tensorbandits.client import NameTakenError, UnknownBanditError
from tests.client.conftest import client_of
from tests.client.served import served

DAY = datetime.date(2024, 2, 29)
MODES = {"segment": ["new", "old"], "offer": ["a", "b", "video"], "channel": ["mail", "sms", DAY]}
SETTINGS = {"reward": "bernoulli", "rank": 1, "window": "1 h", "default": 0}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with served(tmp_path_factory.mktemp("service")) as url:
        yield url


@pytest.fixture
def open_client(url, connect):
    with connect(url, timeout=120, budget=300) as client:
        yield client


@pytest.fixture(params=["local", "blocking", "awaited"])
def bandit(request, url, runner):
    """One of this process, or of the service through either client, over the same space."""
    space = tb.Space(MODES, ["segment"])
    if request.param == "local":
        yield tb.Bandit(space, seed=0, **SETTINGS)
        return
    with client_of(request.param, runner, url, timeout=120, budget=300) as client:
        name = re.sub(r"\W+", "-", request.node.name)[:90]
        yield client.create(name, space, **SETTINGS)
        client.delete(name)


def test_a_campaign(bandit):
    """The same calls, whoever decides."""
    shown = []
    for at in range(30):
        decision = bandit.ask(segment="new" if at % 2 else "old")
        assert isinstance(decision, tb.Decision)
        assert set(decision.arm) == {"offer", "channel"}
        assert decision.context == {"segment": "new" if at % 2 else "old"}
        assert 0 < decision.propensity <= 1
        assert decision.by == "policy"
        assert decision.policy == ("TensorThompsonSampling" if isinstance(bandit, tb.Bandit) else "thompson")
        assert tb.Decision.from_json(decision.to_json()) == decision
        shown.append(decision)
    for decision in shown[:20]:
        bandit.tell(decision, float(decision.arm["offer"] == "b"))
        bandit.tell(decision.id, float(decision.arm["offer"] == "b"))
    assert len({decision.id for decision in shown}) == 30
    assert [bandit.status(one) for one in shown] == ["rewarded"] * 20 + ["open"] * 10
    assert bandit.reward(shown[0]) == float(shown[0].arm["offer"] == "b")
    assert bandit.reward(shown[-1].id) is None

    first = shown[0]
    with pytest.raises(ClosedDecisionError, match=r'to replace it, use (amend=True|"amend": true)'):
        bandit.tell(first, 1 - bandit.reward(first))
    bandit.tell(first, 1, amend=True)
    assert bandit.reward(first) == 1.0
    bandit.cancel(shown[-1])
    with pytest.raises(CancelledDecisionError):
        bandit.tell(shown[-1], 1)

    later = bandit.ask({"segment": "new"}, allowed={"offer": ["a", "b"]}, activate=False, id="order 17")
    assert (later.id, bandit.status("order 17")) == ("order 17", "inactive")
    bandit.activate(later)
    assert bandit.status(later) == "open"
    bandit.tell(arm={"offer": "b", "channel": DAY}, context={"segment": "old"}, reward=1)


def test_what_is_learned(bandit):
    arms = [(segment, offer) for segment in MODES["segment"] for offer in MODES["offer"]]
    log = {
        "who": [segment for segment, _ in arms for _ in range(40)],
        "offer": [offer for _, offer in arms for _ in range(40)],
        "click": [int(offer == ("a" if segment == "new" else "b")) for segment, offer in arms for _ in range(40)],
    }
    start = bandit.tell_log(pa.table(log), "click", columns={"segment": "who"}, fixed={"channel": DAY})
    assert (start.rewards, start.cells, start.rows) == (240, 6, 240)
    believed = bandit.explain(segment="new", arms=2)
    assert "mean over all combinations" in repr(believed)
    assert believed.arms.shape[0] == 2
    assert believed.effects.shape[0] == 8
    assert "has moved" in repr(bandit.diagnose())
    found = bandit.best(segment="old", allowed={"channel": [DAY]})
    assert found == {"offer": "b", "channel": DAY}


def test_levels_and_rules(bandit):
    bandit.add_level("offer", "summer", like="a")
    bandit.retire_level("offer", "video")
    only = {"offer": ["summer", "video"]}
    assert {bandit.ask(segment="new", allowed=only).arm["offer"] for _ in range(5)} == {"summer"}
    bandit.restore_level("offer", "video")
    rules = bandit.space if isinstance(bandit, tb.Bandit) else bandit
    rules.forbid(offer="summer", segment="new")
    rules.allow(segment="new", channel=[DAY])
    assert bandit.ask(segment="new", allowed=only).arm == {"offer": "video", "channel": DAY}
    rules.remove_rule({"allow": {"segment": "new", "channel": [DAY]}})
    rules.remove_rule({"forbid": {"segment": "new", "offer": "summer"}})
    with pytest.raises(ValueError, match="is no rule here"):
        rules.remove_rule({"forbid": {"offer": "a"}})


MISTAKES = {
    "unknown level": lambda bandit: bandit.ask(segment="newest"),
    "no context": lambda bandit: bandit.ask(),
    "decided, not given": lambda bandit: bandit.ask(segment="new", offer="a"),
    "unknown mode": lambda bandit: bandit.best(segments="new"),
    "unknown label allowed": lambda bandit: bandit.ask(segment="new", allowed={"offer": ["c"]}),
    "nothing allowed": lambda bandit: bandit.ask(segment="new", allowed={"offer": []}),
    "no such decision": lambda bandit: bandit.tell("never-1", 1),
    "no such decision to cancel": lambda bandit: bandit.cancel("never-1"),
    "no such decision to look at": lambda bandit: bandit.status("never-1"),
    "no click": lambda bandit: bandit.tell(bandit.ask(segment="new", id="one"), 0.5),
    "no number": lambda bandit: bandit.tell("one", "much"),
    "not finite": lambda bandit: bandit.tell("one", float("inf")),
    "does not add": lambda bandit: bandit.tell(bandit.ask(segment="new", id="two"), 1, add=True),
    "half an arm": lambda bandit: bandit.tell(arm={"offer": "a"}, reward=1),
    "level twice": lambda bandit: bandit.add_level("offer", "a"),
    "not retired": lambda bandit: bandit.restore_level("offer", "a"),
    "like nobody": lambda bandit: bandit.add_level("offer", "c", like="d"),
    "log of unknown": lambda bandit: bandit.tell_log(pa.table({"offer": ["z"], "click": [1]}), "click"),
    "explain a mode": lambda bandit: bandit.explain(segment="x"),
}


def clauses(error):
    """What an error says was given, and what is allowed, whether in words of HTTP or of Python."""
    return re.sub(r"'(\w+)': ", r"\1=", str(error).replace('"', "'")).replace("True", "true").split("; ")


@pytest.mark.parametrize("bandit", ["blocking", "awaited"], indirect=True)
def test_mistakes_are_answered_as_the_library_does_in_words_of_http(bandit):
    local = tb.Bandit(tb.Space(MODES, ["segment"]), seed=0, **SETTINGS)
    for what, mistake in MISTAKES.items():
        with pytest.raises((ValueError, LookupError, TypeError)) as here:
            mistake(local)
        with pytest.raises((ValueError, LookupError, TypeError)) as there:
            mistake(bandit)
        ours, theirs = clauses(here.value), clauses(there.value)
        for mine, other in zip(ours[:2], theirs[:2], strict=True):
            assert mine.startswith(other), what  # HTTP has no use for a hint that is one of Python
        if not isinstance(here.value, TypeError):
            assert type(there.value) is type(here.value), what
        if there.type is not TypeError and what not in ("not finite",):
            assert "the service knows this request as" in there.value.__notes__[0], what


# Only of the service.


class Losing(httpx.HTTPTransport):
    """Loses the first answer of every request that has a key, after the service has acted."""

    def __init__(self):
        super().__init__()
        self.lost = set()

    def handle_request(self, request):
        response = super().handle_request(request)
        key = request.headers.get("idempotency-key")
        if key is not None and key not in self.lost:
            self.lost.add(key)
            response.read()
            response.close()
            raise httpx.ReadError("the answer is lost", request=request)
        return response


def test_no_write_counts_twice_when_its_answer_is_lost(url):
    transport = Losing()
    with httpx.Client(transport=transport) as own, tb.Client(url, timeout=120, budget=300, http=own) as client:
        bandit = client.create("lost", tb.Space(MODES, ["segment"]), adds=True, reward="gaussian")
        assert [one["name"] for one in client.bandits()].count("lost") == 1
        decision = bandit.ask(segment="new")
        named = bandit.ask(segment="new", id="mine")
        many = bandit.ask_many([{"segment": "old"}] * 5)
        assert bandit.detail()["decisions"] == 7
        for _ in range(3):
            bandit.tell(decision, 1, add=True)
        assert bandit.reward(decision) == 3.0
        bandit.tell(named, 2)
        bandit.tell(named, 4, amend=True)
        bandit.tell_many([(one, 1) for one in many], add=True)
        assert [bandit.reward(one) for one in many] == [1.0] * 5
        bandit.tell(arm={"offer": "a", "channel": "sms"}, context={"segment": "new"}, reward=5)
        assert bandit.detail()["rewards"] == 8
        log = pa.table({"segment": ["new"], "offer": ["b"], "channel": ["sms"], "sold": [3.0]})
        assert bandit.tell_log(log, "sold").rows == 1
        assert bandit.detail()["rewards"] == 9
        bandit.add_level("offer", "summer")
        bandit.retire_level("offer", "summer")
        bandit.restore_level("offer", "summer")
        bandit.forbid(offer="summer", channel="sms")
        bandit.remove_rule({"forbid": {"offer": "summer", "channel": "sms"}})
        assert bandit.change(holdout=0.1)["settings"]["holdout"] == 0.1
        waiting = bandit.ask(segment="new", activate=False)
        bandit.activate(waiting)
        bandit.cancel(waiting)
        kinds = [event["kind"] for event in bandit.events(limit=1000)]
        assert kinds.count("Decided") == 8
        assert kinds.count("Told") == kinds.count("Imported") == kinds.count("Cancelled") == 1
        client.delete("lost")
        with pytest.raises(UnknownBanditError):
            bandit.ask(segment="new")
    assert len(transport.lost) > 20


def test_the_reward_of_a_fallback_is_told_once(url):
    with tb.Client(url, timeout=120, budget=300) as client:
        bandit = client.create("fallen", {"offer": ["a", "b"]}, reward="gaussian")
        with httpx.Client() as http:
            away = tb.Client("http://127.0.0.1:9", retries=0, buffer=10, http=http)  # nobody listens there
            decision = away.bandit("fallen", fallback={"offer": "a"}).ask()
        assert decision.by == "fallback"
        for one in (decision, tb.Decision.from_json(decision.to_json())):
            bandit.tell(one, 2.0)
        detail = bandit.detail()
        assert (detail["decisions"], detail["rewards"]) == (0, 1)
        with pytest.raises(ClosedDecisionError, match="another reward already"):
            bandit.tell(decision, 3.0)
        client.delete("fallen")


def test_threads_tell_what_they_decided(url):
    with tb.Client(url, timeout=120, budget=300) as client:
        bandit = client.create("busy", MODES, context=["segment"], reward="gaussian", adds=True)

        def visit(number):
            for _ in range(10):
                bandit.tell(bandit.ask(segment="new"), 1, add=True)

        with ThreadPoolExecutor(5) as pool:
            list(pool.map(visit, range(5)))
        detail = bandit.detail()
        assert (detail["decisions"], detail["rewards"], detail["waiting"]) == (50, 50, 0)
        client.delete("busy")


def test_bandits_and_what_they_export(open_client, tmp_path):
    client = open_client
    bandit = client.create("exported", {"offer": ["a", DAY]}, reward="gaussian", holdout=0.5)
    with pytest.raises(NameTakenError):
        client.create("exported", {"offer": ["a", "b"]})
    with pytest.raises(UnknownBanditError, match="no bandit has the name 'nobody'"):
        client.bandit("nobody").ask()
    decisions = bandit.ask_many([{}] * 12)
    bandit.tell_many([(one, 1.5) for one in decisions[:7]])
    with pytest.raises(ExceptionGroup) as raised:
        bandit.tell_many([(decisions[8], 1), ("nobody", 1), (decisions[0], 3)])
    assert [type(one) for one in raised.value.exceptions] == [UnknownDecisionError, ClosedDecisionError]
    frame = bandit.export()
    assert len(frame) == 12
    assert bandit.export(tmp_path / "events.parquet", what="events").stat().st_size > 0
    assert {one["name"] for one in client.bandits()} >= {"exported"}
    assert bandit.look_up(decisions[0])["arm"] == decisions[0].arm
    detail = bandit.detail()
    assert detail["settings"]["holdout"] == 0.5
    client.delete("exported")


def test_an_apprentice(open_client):
    bandit = open_client.create(
        "apprentice", {"segment": ["x"], "offer": ["a", "b"]}, context=["segment"], apprentice=True
    )
    decision = bandit.ask(segment="x", played={"offer": "b"}, propensity=0.5)
    assert (decision.arm, decision.by, decision.propensity) == ({"offer": "b"}, "caller", 0.5)
    assert decision.would["offer"] in ("a", "b")
    bandit.tell(decision, 1)
    with pytest.raises(ValueError, match="apprentice"):
        bandit.ask(segment="x")
    assert bandit.change(apprentice=False)["apprentice"] is False
    assert bandit.ask(segment="x").by == "policy"
    open_client.delete("apprentice")


def test_keys(tmp_path, connect):
    with served(tmp_path, key_seconds=0.1) as url:
        with connect(url, timeout=120, budget=300) as open_to_all:
            made = open_to_all.create_key("me", "admin")
        admin = connect(url, made["key"], timeout=120, budget=300)
        assert admin.me()["role"] == "admin"
        bandit = admin.create("offers", {"offer": ["a", "b"]})
        shop = admin.create_key("shop", "decide", bandits=["offers"])
        decide = connect(url, shop["key"], timeout=120, budget=300)
        decide.bandit("offers").tell(decide.bandit("offers").ask(), 1)
        with pytest.raises(PermissionError):
            decide.bandit("offers").export()
        with pytest.raises(PermissionError):
            decide.create("more", {"offer": ["a", "b"]})
        listed = admin.keys()
        assert {one["name"] for one in listed} == {"me", "shop"}
        admin.revoke_key(shop["id"])
        with pytest.raises(PermissionError):
            decide.bandit("offers").ask()
        assert bandit.detail()["decisions"] == 1
        for one in (admin, decide):
            one.close()
        with connect(url, "tb_wrong") as wrong, pytest.raises(PermissionError):
            wrong.bandits()


FEATURES = {"a": {"price": 1.0, "brand": "Acme"}, "b": {"price": 2.5, "brand": "Acme"}, "video": {"brand": "Bolt"}}


@pytest.mark.parametrize("kind", ["blocking", "awaited"])
def test_features_of_levels(kind, url, runner):
    """What levels are like, through either client; the errors are those of the library."""
    space = tb.Space(MODES, ["segment"], features={"offer": FEATURES})
    with client_of(kind, runner, url, timeout=120, budget=300) as client:
        bandit = client.create(f"features-{kind}", space, rank=1)
        assert bandit.features("offer") == FEATURES
        bandit.add_level("offer", "summer", features={"price": 3})
        bandit.describe("offer", pa.table({"offer": ["a", "b"], "price": [1.5, None]}))
        known = bandit.features("offer")
        assert (known["a"], known["b"]) == ({"price": 1.5, "brand": "Acme"}, {"brand": "Acme"})
        assert known["summer"] == {"price": 3.0}
        with pytest.raises(ValueError, match="'price' of mode 'offer' is 'much', but it was a number before"):
            bandit.describe("offer", {"a": {"price": "much"}})
        bandit.describe("channel", [(DAY, {"cost": 1}), ("mail", {"cost": 2})], anew=True)
        assert bandit.features("channel") == {"mail": {"cost": 2.0}, "sms": {}, DAY: {"cost": 1.0}}
        start = bandit.tell_log(
            pa.table({"offer": ["old"], "price": [2.0], "sale": [1.0]}),
            "sale",
            fixed={"segment": "new", "channel": DAY},
            features={"offer": ["price"]},
        )
        assert start.added == {"offer": ("old",)}
        bandit.describe("offer", None)
        assert bandit.features("offer") == {}
        client.delete(f"features-{kind}")
