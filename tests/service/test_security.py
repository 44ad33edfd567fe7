"""Keys: what each role may do, and what happens to wrong, revoked, forgotten and malformed ones."""

import asyncio
import itertools
import threading
import time

import pytest

from tensorbandits.service.http import keyring
from tensorbandits.service.http.access import ACCESS, ROLES, Grant, may, table
from tensorbandits.service.http.errors import Problem
from tensorbandits.service.http.keyring import Keys, bearer, make_key
from tensorbandits.service.http.security import VISIT, Require, Visit, authorise
from tensorbandits.store import Store
from tensorbandits.store.errors import StoreUnavailableError

EXPECTED = {  # as the documentation has it, written down once more by hand: nobody, decide, read, admin
    "page": "ndra",
    "docs": "ndra",
    "static": "ndra",
    "healthz": "ndra",
    "readyz": "ndra",
    "openapi": "ndra",
    "metrics": "ra",
    "me": "dra",
    "list_bandits": "dra",
    "create_bandit": "a",
    "get_bandit": "dra",
    "change_bandit": "a",
    "delete_bandit": "a",
    "ask": "da",
    "ask_many": "da",
    "tell": "da",
    "tell_many": "da",
    "activate": "da",
    "cancel": "da",
    "adopt": "da",
    "get_decision": "dra",
    "best": "dra",
    "explain": "ra",
    "diagnose": "ra",
    "snapshot": "dra",
    "add_level": "a",
    "retire_level": "a",
    "restore_level": "a",
    "split_region": "a",
    "get_features": "ra",
    "export_features": "ra",
    "describe_levels": "a",
    "import_features": "a",
    "add_rule": "a",
    "remove_rule": "a",
    "list_events": "ra",
    "export": "ra",
    "stream": "ra",
    "report": "ra",
    "import_log": "a",
    "fold": "a",
    "forget": "a",
    "view": "ra",
    "history": "ra",
    "list_keys": "a",
    "create_key": "a",
    "revoke_key": "a",
    "overviews": "ra",
    "preview_bandit": "a",
    "preview_change": "a",
    "rank": "da",
    "rank_reward": "da",
    "rank_activate": "da",
    "rank_configuration": "dra",
    "change_rank_configuration": "a",
    "list_changes": "ra",
    "export_changes": "ra",
}
UNLIMITED = {"preview_bandit", "metrics", "create_bandit", "list_keys", "create_key", "revoke_key"}
CALLERS = (None, *ROLES)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def store():
    with Store.open("sqlite://") as store:
        yield store


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def keys(store, clock):
    keys = Keys(store, clock=clock)
    keys.read()
    yield keys
    keys.stop()


def added(store, role="decide", bandits=None):
    row, key = make_key("somebody", role, bandits)
    store.add_key(row)
    return row.id, key.encode()


def granted(keys, *tokens, address="10.0.0.1"):
    async def ask():
        return await asyncio.gather(*(keys.grant(token, address) for token in tokens), return_exceptions=True)

    found = asyncio.run(ask())
    return found[0] if len(tokens) == 1 else found


def bandit_of(what):
    return "shop" if "{name}" in ACCESS[what].path else None


def test_the_table_is_complete():
    assert EXPECTED.keys() == ACCESS.keys()
    assert len({(access.method, access.path) for access in ACCESS.values()}) == len(ACCESS)
    assert len(table()) == len(ACCESS)


@pytest.mark.parametrize(("what", "role"), list(itertools.product(EXPECTED, CALLERS)))
def test_each_role_may_do_what_the_table_says(what, role):
    allowed = "n" if role is None else role[0]
    grant = None if role is None else Grant(role)
    assert may(grant, what, bandit_of(what)) is (allowed in EXPECTED[what])


@pytest.mark.parametrize(("what", "role"), list(itertools.product(EXPECTED, ROLES)))
def test_a_limited_key_may_do_so_for_its_bandits_only(what, role):
    grant, allowed = Grant(role, frozenset({"shop"})), role[0] in EXPECTED[what]
    if not ACCESS[what].roles:
        assert may(grant, what, bandit_of(what))
    elif bandit_of(what) is None:
        assert may(grant, what) is (allowed and what not in UNLIMITED)
    else:
        assert may(grant, what, "shop") is allowed
        assert not may(grant, what, "news")
        assert not may(grant, what)  # a route that forgot to say of which


def test_what_is_not_in_the_table_is_refused():
    assert not may(Grant("admin"), "drop_everything")
    with pytest.raises(ValueError, match="no route 'drop_everything'"):
        Require("drop_everything")


def refused(what, grant, bandit):
    visit = Visit("r1")
    visit.grant = grant
    with pytest.raises(Problem) as caught:
        authorise({VISIT: visit, "path_params": {} if bandit is None else {"name": bandit}}, what)
    return caught.value


def test_a_bandit_of_others_looks_as_if_it_did_not_exist():
    limited = Grant("decide", frozenset({"shop"}), "k1", "web")
    problem = refused("ask", limited, "news")
    assert (problem.status, problem.code) == (404, "unknown_bandit")
    assert "shop" not in problem.message
    assert refused("explain", limited, "news").code == "forbidden"
    assert refused("create_bandit", Grant("admin", frozenset({"shop"})), None).code == "forbidden"
    assert refused("ask", None, "shop").code == "unauthorized"


def test_a_refusal_says_what_is_needed():
    words = refused("fold", Grant("read", None, "k1", "web"), "shop").message
    assert "the key 'web' (k1) has the role read" in words
    assert "POST /v1/bandits/{name}/fold needs a key of role admin" in words


def test_a_key_is_kept_as_a_hash_only():
    row, key = make_key("web", "read", ["b", "a", "b"])
    assert key.startswith(f"tb_{row.id}_")
    assert key.split("_")[2] not in repr(row)
    assert row.hash.startswith("$argon2id$")
    assert row.bandits == ["a", "b"]
    assert len({make_key("web", "read")[1] for _ in range(5)}) == 5


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("", "read"), "name is"),
        (("a" * 101, "read"), "give 1 to 100"),
        (("a\nb", "read"), "printable"),
        ((7, "read"), "name is 7"),
        (("web", "king"), "give one of decide, read, admin"),
        (("web", None), "role is null"),
        (("web", "read", []), "bandits is empty"),
        (("web", "read", [""]), "give names of bandits"),
    ],
)
def test_keys_that_cannot_be_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        make_key(*given)


def test_without_keys_everybody_may_do_everything_until_there_is_one(store, keys):
    assert keys.open
    id, _ = added(store)
    keys.read()
    assert not keys.open
    store.revoke_key(id, 1.0)
    keys.read()
    assert not keys.open, "revoking the last key must not open the service"


def test_an_exposed_service_is_never_open(store):
    keys = Keys(store, exposed=True)
    assert not keys.open
    keys.read()
    assert not keys.open
    keys.stop()


def test_before_the_keys_were_read_nobody_is_let_in(store):
    keys = Keys(store)
    with pytest.raises(Problem, match="starting"):
        _ = keys.open
    keys.stop()


def test_a_good_key_grants_what_it_was_made_for(store, keys):
    id, token = added(store, "read", ["shop"])
    keys.read()
    assert keys.known(token) is None
    grant = granted(keys, token)
    assert (grant.role, grant.bandits, grant.id, grant.name) == ("read", frozenset({"shop"}), id, "somebody")
    assert keys.known(token) == grant


def test_a_key_that_another_process_made_a_moment_ago_is_found(store, keys, clock):
    added(store)
    keys.read()
    _, token = added(store)
    clock.now += 1
    assert granted(keys, token).role == "decide"


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"tb_",
        b"tb__",
        b"hello",
        b"tb_aaaaaaaaaa_short",
        b"tb_aaaaaaaaaa_" + b"x" * 44,
        b"tb_AAAAAAAAAA_" + b"x" * 43,
        b"tb_aaaaaaaaaa_" + b"x" * 42 + b"\n",
        b"\xff\xfe" * 20,
        b"x" * 100_000,
    ],
)
def test_malformed_keys_are_refused_without_hashing(store, keys, token, monkeypatch):
    added(store)
    keys.read()
    monkeypatch.setattr(keys, "verify", None)
    assert granted(keys, token).code == "unauthorized"


def test_wrong_keys_are_refused_and_hashed_once(store, keys, monkeypatch):
    id, token = added(store)
    keys.read()
    verified = []
    real = keyring.HASHER.verify
    monkeypatch.setattr(
        keyring, "HASHER", type("Counted", (), {"verify": lambda self, *of: verified.append(1) or real(*of)})()
    )
    wrong = token[:-1] + (b"a" if token[-1:] != b"a" else b"b")
    problems = [granted(keys, wrong) for _ in range(3)]
    assert {problem.code for problem in problems} == {"unauthorized"}
    assert token[14:].decode() not in str(problems)
    assert len(verified) == 1
    unknown = f"tb_{'z' * 10}_".encode() + token[14:]
    assert granted(keys, unknown).code == "unauthorized"
    assert len(verified) == 1, "a key of an unknown id costs no hash"
    assert granted(keys, token).id == id


def test_many_requests_with_one_new_key_hash_it_once(store, keys, monkeypatch):
    _, token = added(store)
    keys.read()
    verified = []
    real = keys.verify
    monkeypatch.setattr(keys, "verify", lambda *of: verified.append(1) or real(*of))
    assert len({grant.id for grant in granted(keys, *[token] * 50)}) == 1
    assert len(verified) == 1


def test_a_revoked_key_is_refused_after_the_next_reading(store, keys):
    id, token = added(store)
    keys.read()
    granted(keys, token)
    store.revoke_key(id, 1.0)
    assert keys.known(token) is not None
    keys.read()
    assert keys.known(token) is None
    assert granted(keys, token).code == "unauthorized"


def test_revocation_is_noticed_in_the_background(store):
    id, token = added(store)
    keys = Keys(store, seconds=0.05)
    keys.start()
    granted(keys, token)
    store.revoke_key(id, 1.0)
    for _ in range(600):
        if keys.known(token) is None:
            break
        time.sleep(0.05)
    assert keys.known(token) is None
    keys.stop()


def test_a_verified_key_is_verified_again_after_a_while(store, keys, clock):
    _, token = added(store)
    keys.read()
    granted(keys, token)
    clock.now += keyring._SECONDS - 1
    assert keys.known(token) is not None
    clock.now += 2
    assert keys.known(token) is None
    assert granted(keys, token).role == "decide"
    assert keys.known(token) is not None


def test_a_key_whose_hash_was_changed_is_not_taken_from_memory(store, keys):
    id, token = added(store)
    keys.read()
    granted(keys, token)
    _, grant = keys.entries[id]
    keys.entries = {id: (make_key("other", "read")[0].hash, grant)}
    assert keys.known(token) is None
    assert granted(keys, token).code == "unauthorized"


def guess(keys, number, address="10.0.0.1"):
    return granted(keys, f"tb_{number:010d}_{'x' * 43}".encode(), address=address)


def test_who_guesses_has_to_wait(store, keys, clock):
    _, token = added(store)
    keys.read()
    codes = [guess(keys, number).code for number in range(40)]
    assert codes.count("unauthorized") == keyring._WRONG_BURST
    assert codes[-1] == "too_many"
    assert int(guess(keys, 41).headers["Retry-After"]) >= 1
    assert granted(keys, token).code == "too_many", "it could be a guess"
    assert guess(keys, 1, address="10.0.0.2").code == "unauthorized", "others do not wait"
    clock.now += 10
    assert granted(keys, token).role == "decide"


def test_who_has_a_good_key_need_not_wait_for_those_who_guess(store, keys, clock):
    _, token = added(store)
    keys.read()
    granted(keys, token)
    for number in range(40):
        guess(keys, number)
    assert granted(keys, token).role == "decide"
    clock.now += keyring._SECONDS + 1
    for number in range(40):
        guess(keys, number)
    assert granted(keys, token).role == "decide", "also when it has to be verified again"


def test_a_network_of_ipv6_is_one_caller(store, keys):
    added(store)
    keys.read()
    codes = [guess(keys, number, address=f"2001:db8::{number:x}").code for number in range(40)]
    assert codes[-1] == "too_many"


def test_tables_are_bounded(store, keys, monkeypatch):
    monkeypatch.setattr(keyring, "MOST", 3)
    tokens = [added(store)[1] for _ in range(5)]
    keys.read()
    for token in tokens:
        granted(keys, token)
    assert len(keys.good) == 3
    for number in range(10):
        guess(keys, number)
    assert len(keys.wrong) <= 3
    assert granted(keys, tokens[0]).role == "decide"


def test_too_many_new_keys_at_once_are_refused(store, keys, monkeypatch):
    monkeypatch.setattr(keyring, "WAITING", 2)
    tokens = [added(store)[1] for _ in range(4)]
    keys.read()
    found = granted(keys, *tokens)
    assert [getattr(one, "code", "fine") for one in found] == ["fine", "fine", "too_many", "too_many"]
    assert not keys.pending


def test_verifying_does_not_block_the_loop(store, keys, monkeypatch):
    _, token = added(store)
    keys.read()
    entered, release = threading.Event(), threading.Event()
    real = keys.verify

    def slow(*of):
        entered.set()
        assert release.wait(60)
        return real(*of)

    monkeypatch.setattr(keys, "verify", slow)

    async def both():
        waiting = asyncio.create_task(keys.grant(token, "10.0.0.1"))
        leaving = asyncio.create_task(keys.grant(token, "10.0.0.1"))
        while not entered.is_set():
            await asyncio.sleep(0.001)
        leaving.cancel()  # a caller who goes takes nobody along
        release.set()
        return await waiting

    assert asyncio.run(both()).role == "decide"


def test_a_store_that_is_away_is_said_so_and_known_keys_go_on(store, keys, clock, monkeypatch):
    _, token = added(store)
    keys.read()
    granted(keys, token)

    def away():
        raise StoreUnavailableError("the store cannot be reached")

    monkeypatch.setattr(store, "keys", away)
    clock.now += 5
    assert granted(keys, token).role == "decide"
    assert isinstance(guess(keys, 1), StoreUnavailableError)


def test_the_first_key_made_by_a_caller_must_be_one_that_can_make_more(keys):
    for given in (("web", "decide"), ("web", "admin", ["shop"])):
        with pytest.raises(ValueError, match="make one of role admin first"):
            keys.add(*given)
    assert keys.open
    keys.add("boss", "admin")
    assert not keys.open
    row, _ = keys.add("web", "decide")
    keys.revoke(row.id)
    keys.revoke(row.id)
    with pytest.raises(Problem, match="there is no key"):
        keys.revoke("nobody")


def test_headers_that_carry_no_key():
    assert bearer(b"bearer  abc ") == b"abc"
    assert [bearer(header) for header in (b"", b"Basic abc", b"Bearer", b"tb_x")] == [None] * 4
