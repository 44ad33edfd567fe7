"""The short way of ask and tell says what the long way says."""

import re

import pytest

from tensorbandits.service.http import fast_path

JSON = {"Content-Type": "application/json"}
ASK = b'{"context": {"segment": "new"}}'


def both(monkeypatch, send):
    """Return the answers of the short way and of the long way, and whether the short one was taken."""
    taken = []
    answer = fast_path.FastPath.answer

    async def noted(*given):
        taken.append(given)
        return await answer(*given)

    with monkeypatch.context() as patch:
        patch.setattr(fast_path.FastPath, "answer", noted)
        short = send()
    with monkeypatch.context() as patch:
        patch.setattr(fast_path, "PATH", re.compile(r"(?!)"))
        long = send()
    return short, long, bool(taken)


def told(response):
    """What an answer says, but for what differs each time."""
    body = response.json()
    if "error" in body:
        body["error"].pop("request"), body.pop("request"), body.pop("instance")
    else:
        body = sorted(body)
    headers = {name: value for name, value in response.headers.items() if name not in ("x-request-id", "date")}
    if response.status_code == 200:
        headers.pop("content-length")
    return response.status_code, body, headers


@pytest.mark.parametrize(
    ("path", "content", "headers", "short"),
    [
        ("ask", ASK, JSON, True),
        ("ask", ASK, JSON | {"Content-Type": "application/json; charset=UTF-8"}, True),
        ("ask", b'{"context": {"segment": "nobody"}}', JSON, True),
        ("ask", b'{"context": {}}', JSON, True),
        ("ask", b'{"context": {"segment": "new"}, "allowed": {"offer": []}}', JSON, True),
        ("ask", b'{"context": {"segment": "new"}, "played": {"offer": "a", "channel": "sms"}}', JSON, True),
        ("tell", b'{"id": "nobody", "reward": 1}', JSON, True),
        ("tell", b'{"reward": 1}', JSON, True),
        ("tell", b'{"arm": {"offer": "a", "channel": "sms"}, "context": {"segment": "new"}, "reward": 2}', JSON, True),
        ("ask", b'{"context": {"segment": "new"}, "other": 1}', JSON, False),
        ("ask", b'{"context": {"segment": NaN}}', JSON, None),
        ("ask", b'{"context": {"segment": "\\ud800"}}', JSON, None),
        ("tell", b'{"id": "a", "reward": Infinity}', JSON, None),
        ("tell", b'{"id": "a", "reward": "1"}', JSON, False),
        ("ask", b"{", JSON, False),
        ("ask", b"", JSON, False),
        ("ask", b"[]", JSON, False),
        ("ask", b"\xff", JSON, False),
        ("ask", ASK, {}, False),
        ("ask", ASK, {"Content-Type": "text/plain"}, False),
        ("ask", ASK, JSON | {"Idempotency-Key": ""}, False),
        ("ask", ASK, JSON | {"Idempotency-Key": "a b"}, False),
        ("ask", ASK, JSON | {"Idempotency-Key": "x" * 201}, False),
        ("ask?more=1", ASK, JSON, False),
        ("asks", ASK, JSON, False),
    ],
)
def test_what_the_short_way_says_is_what_the_long_way_says(service, monkeypatch, path, content, headers, short):
    bandit = service.create(reward="bernoulli")
    place = f"/v1/bandits/{bandit.name}/{path}"
    one, two, taken = both(monkeypatch, lambda: service.http.post(place, content=content, headers=headers))
    assert told(one) == told(two)
    assert short is None or taken == short


@pytest.mark.parametrize("name", ["nobody", "..", "a%2Fb", "-", "x" * 101])
def test_other_bandits_are_left_to_the_framework(service, monkeypatch, name):
    one, two, taken = both(monkeypatch, lambda: service.http.post(f"/v1/bandits/{name}/ask", content=ASK, headers=JSON))
    assert told(one) == told(two)
    assert not taken


def test_keys_repeat_on_either_way(service, monkeypatch):
    bandit = service.create(reward="bernoulli")
    one, two, taken = both(monkeypatch, lambda: bandit.post("/ask", {"context": {"segment": "new"}}, key="k1"))
    assert taken
    assert one == two
    first, again, taken = both(monkeypatch, lambda: bandit.post("/tell", {"id": one["id"], "reward": 1}, key="k2"))
    assert taken
    assert [first["changed"], again["changed"]] == [True, False]
    first, again, _ = both(
        monkeypatch, lambda: bandit.refused("/tell", {"id": one["id"], "reward": 0}, 409, "key_reused", key="k1")
    )
    assert first == again
