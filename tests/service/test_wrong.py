"""Wrong requests: each gets a clear answer of the 400s, and nothing happens."""

import json

import pytest

from tests.service.served import MODES, Service

NEW = {"context": {"segment": "new"}}
ARM = {"arm": {"offer": "a", "channel": "sms"}, "context": {"segment": "new"}}


@pytest.fixture(scope="module")
def bandit(service):
    return service.create("wrong", reward="bernoulli")


@pytest.fixture(autouse=True)
def nothing_happens(bandit):
    before = bandit.detail()
    yield
    assert bandit.detail() == before


def test_what_is_not_there(service, bandit):
    nobody = service.bandit("nobody")
    paths = {
        "/ask": NEW, "/ask-many": {"requests": []}, "/tell": {"id": "x", "reward": 1}, "/tell-many": {"rewards": []},
        "/activate": {"id": "x"}, "/cancel": {"id": "x"}, "/best": NEW, "/explain": {}, "/diagnose": {}, "/fold": {},
        "/levels": {"mode": "offer", "label": "d"}, "/rules": {"forbid": {"offer": "a"}},
    }  # fmt: skip
    for path, body in paths.items():
        assert "nobody" in nobody.refused(path, body, 404, "unknown_bandit")
    for path in ("", "/events", "/export", "/view/space", "/decisions/x"):
        answer = nobody.send("GET", path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_bandit")
    assert nobody.send("DELETE").status_code == nobody.send("PATCH", json={"holdout": 0}).status_code == 404
    bandit.refused("/tell", {"id": "x", "reward": 1}, 404, "unknown_decision")
    bandit.refused("/cancel", {"id": "x"}, 404, "unknown_decision")
    bandit.refused("/activate", {"id": "x"}, 404, "unknown_decision")
    assert bandit.send("GET", "/decisions/x").json()["error"]["code"] == "unknown_decision"
    assert service.http.get("/v2").json()["error"]["code"] == "not_found"
    assert service.http.get("/v1/bandits/a/b/c").json()["error"]["code"] == "not_found"
    assert service.http.put("/v1/bandits").json()["error"]["code"] == "method"


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/ask", {"context": {"segment": "newest"}}, "did you mean 'new'?"),
        ("/ask", {"context": {"segments": "new"}}, "did you mean 'segment'?"),
        ("/ask", {}, "no label is given for 'segment'"),
        ("/ask", {"context": {"segment": "new", "offer": "a"}}, "'offer' is decided, not given"),
        ("/ask", NEW | {"allowed": {"offer": []}}, "offer"),
        ("/ask", NEW | {"allowed": {"offer": ["z"]}}, "'z'"),
        ("/ask", NEW | {"allowed": {"segment": ["old"]}}, "is given, not decided"),
        ("/ask", NEW | {"allowd": {}}, "allowd is not known here"),
        ("/ask", NEW | {"activate": "yes"}, "activate"),
        ("/ask", NEW | {"id": ""}, "id"),
        ("/ask", NEW | {"id": "x" * 201}, "id"),
        ("/ask", NEW | {"id": 7}, "id"),
        ("/ask", NEW | {"id": "a\0b"}, "id"),
        ("/ask", NEW | {"played": {"offer": "a", "channel": "sms"}}, "no apprentice"),
        ("/ask", NEW | {"propensity": 0.5}, "goes with played"),
        ("/tell", {"reward": 1}, "tell either the id of a decision"),
        ("/tell", {"id": "x"}, "reward is missing"),
        ("/tell", ARM | {"id": "x", "reward": 1}, "tell either"),
        ("/tell", {"id": "x", "reward": 1, "context": {}}, "leave them out"),
        ("/tell", ARM | {"reward": 0.5}, "0.5"),
        ("/tell", ARM | {"reward": "1"}, "reward"),
        ("/tell", ARM | {"reward": True}, "reward"),
        ("/tell", ARM | {"reward": None}, "reward"),
        ("/tell", ARM | {"reward": 10**400}, "reward"),
        ("/tell", ARM | {"reward": 1, "amend": True}, "give its id"),
        ("/tell", ARM | {"reward": 3, "trials": 2}, "3"),
        ("/tell", ARM | {"reward": 1, "trials": 0}, "trials"),
        ("/tell", ARM | {"reward": 1, "trials": 2**60}, "trials"),
        ("/tell", {"arm": {"offer": "a"}, "reward": 1}, "no label is given for"),
        ("/best", {"context": {"segment": 3}}, "3"),
        ("/explain", {"level": 1}, "level"),
        ("/explain", {"arms": 0}, "arms"),
        ("/explain", {"context": {"segment": "x"}}, "'x'"),
        ("/levels", {"mode": "offer"}, "label is missing"),
        ("/levels", {"mode": "offer", "label": None}, "label"),
        ("/levels", {"mode": "offer", "label": ["x"]}, "label"),
        ("/levels", {"mode": "offer", "label": {"date": "tomorrow"}}, "tomorrow"),
        ("/levels", {"mode": "offer", "label": {"time": "2024-02-30T00:00:00"}}, "2024-02-30"),
        ("/levels", {"mode": "offer", "label": "z", "like": "y"}, "'y'"),
        ("/levels", {"mode": "offer", "label": "z", "rewards": 5}, "like"),
        ("/levels/retire", {"mode": "offer", "label": "z"}, "'z'"),
        ("/rules", {"forbid": {"segment": "new"}}, "none of which is decided"),
        ("/rules", {"allow": {"offer": []}}, "offer"),
        ("/rules", {"deny": {"offer": "a"}}, "deny is not known here"),
        ("/fold", {"before": 0}, "before"),
        ("/ask-many", {"requests": [NEW] * 1001}, "more than 1,000"),
        ("/tell-many", {"rewards": {}}, "rewards"),
    ],
)
def test_what_is_refused(bandit, path, body, words):
    assert words in bandit.refused(path, body, 422, "invalid")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "with space"}, "name"),
        ({"name": ""}, "name"),
        ({"name": ".hidden"}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "ümlaut"}, "name"),
        ({"name": "line\n"}, "name"),
        ({"modes": {}}, "modes"),
        ({"modes": {"offer": []}}, "offer"),
        ({"modes": {"offer": ["a", "a"]}}, "'a'"),
        ({"modes": {"offer": ["a", None]}}, "offer"),
        ({"modes": {"": ["a", "b"]}}, "mode"),
        ({"modes": {f"m{at}": ["a", "b"] for at in range(21)}}, "modes"),
        ({"context": ["segments"]}, "did you mean 'segment'?"),
        ({"context": list(MODES)}, "context"),
        ({"context": ["segment", "segment"]}, "names a mode twice"),
        ({"policy": "unheard-of"}, "policy is 'unheard-of'"),
        ({"policy": "os:system"}, "policy is 'os:system'"),
        ({"reward": "poisson?"}, "reward"),
        ({"rank": 0}, "rank"),
        ({"rank": 1000}, None),  # which is more than the levels allow, and so the same as what they do
        ({"rank": [1, 2]}, "rank"),
        ({"rank": "much"}, "rank"),
        ({"structure": "heap"}, "structure"),
        ({"settings": {"seed": 1}}, "settings has 'seed'"),
        ({"settings": {"engine": "os.system"}}, "settings has 'engine'"),
        ({"ring": 0}, "ring"),
        ({"ring": 10**9}, "ring"),
        ({"capacity": 0}, "capacity"),
        ({"window": "soon"}, "window"),
        ({"window": -1}, "window"),
        ({"window": "-5 min"}, "window"),
        ({"half_life": 0}, "half_life"),
        ({"half_life": "never"}, "half_life"),
        ({"default": 0}, "window"),
        ({"default": 0.5, "window": "1 h"}, "0.5"),
        ({"holdout": 1}, "holdout"),
        ({"holdout": -0.1}, "holdout"),
        ({"floors": 1.5}, "floors"),
        ({"floors": [{"labels": {"offer": "a"}, "share": 0.9}, {"labels": {"offer": "b"}, "share": 0.9}]}, "floors"),
        ({"ceilings": [{"labels": {"offer": "z"}, "share": 0.5}]}, "'z'"),
        ({"baseline": "nobody"}, "baseline"),
        ({"baseline": {"offer": "a"}, "holdout": 0.1}, None),
        ({"rules": [{"forbid": {"offer": "a"}}, {"allow": {"offer": ["a"]}}]}, "nothing would be left"),
        ({"rules": [{}]}, "rule"),
        ({"rules": [{"forbid": {"offer": "z"}}]}, "'z'"),
    ],
)
def test_bandits_that_cannot_be(service, changes, words):
    body = {"name": "impossible", "modes": MODES, "context": ["segment"], "reward": "bernoulli", "rank": 1} | changes
    answer = service.http.post("/v1/bandits", json=body)
    if words is None:
        assert answer.status_code == 201, answer.text
        assert service.bandit("impossible").ask()["id"]
        assert service.http.delete("/v1/bandits/impossible").status_code == 204
        return
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid"), answer.text
    assert words in answer.json()["error"]["message"]
    assert service.bandit("impossible").send("GET").status_code == 404


BODIES = {
    "nothing": b"",
    "half": b'{"context": {"segment": "new"',
    "a list": b"[]",
    "a number": b"3",
    "null": b"null",
    "text": b'"x"',
    "no JSON": b"context=new",
    "not UTF-8": b'{"context": {"segment": "\xff"}}',
    "half of a character": b'{"context": {"segment": "\\ud800"}}',
    "twice": b'{"context": {}} {}',
    "deep": b'{"context": {"segment": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "a long number": b'{"context": {"segment": ' + b"9" * 5_000 + b"}}",
    "NaN": b'{"context": {"segment": NaN}}',
    "Infinity": b'{"context": {"segment": -Infinity}}',
}


@pytest.mark.parametrize("what", BODIES)
def test_bodies_that_cannot_be_read(bandit, what):
    answer = bandit.send("POST", "/ask", content=BODIES[what])
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid"), answer.text
    url = f"/v1/bandits/{bandit.name}/ask"
    answer = bandit.service.http.post(url, content=BODIES[what], headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid"), answer.text
    assert len(answer.text) < 3_000


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_numbers_that_are_none(bandit, value):
    url, headers = f"/v1/bandits/{bandit.name}", {"Content-Type": "application/json"}
    arm = json.dumps(ARM)[:-1]
    sent = {
        "/tell": f'{arm}, "reward": {value}}}',
        "/explain": f'{{"level": {value}}}',
        "/ask": f'{{"context": {{"segment": "new"}}, "propensity": {value}}}',
        "/levels": f'{{"mode": "offer", "label": "inf", "like": "a", "rewards": {value}}}',
    }
    for path, body in sent.items():
        answer = bandit.service.http.post(url + path, content=body, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid"), (path, answer.text)
    for field in ("holdout", "floors", "default", "window"):
        answer = bandit.service.http.patch(url, content=f'{{"{field}": {value}}}', headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid"), (field, answer.text)
    modes = json.dumps(MODES)
    for more in (f'"modes": {modes}, "half_life": {value}', f'"modes": {{"a": [1, {value}, 2]}}'):
        made = bandit.service.http.post("/v1/bandits", content=f'{{"name": "nan", {more}}}', headers=headers)
        assert made.status_code == 422, (more, made.text)
    more = f'"modes": {modes}, "settings": {{"noise": {value}}}'
    made = bandit.service.http.post("/v1/bandits", content=f'{{"name": "nan", {more}}}', headers=headers)
    assert made.status_code == 422, made.text


def test_bodies_that_are_too_large(tmp_path):
    with Service(tmp_path / "own.db", body_limit=2048, import_limit=4096) as service:
        bandit = service.create("small", MODES)
        answer = bandit.send("POST", "/ask", json={"context": {"segment": "x" * 3000}})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        chunks = (b"[" + b" " * 1000 for _ in range(4))
        answer = bandit.send("POST", "/ask", content=chunks)
        assert answer.status_code == 413
        log = b"segment,offer,channel,click\n" + b"new,a,sms,1\n" * 200
        assert bandit.send("POST", "/import", params={"reward": "click"}, content=log).status_code == 200
        answer = bandit.send("POST", "/import", params={"reward": "click"}, content=log * 3)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        assert bandit.ask()["id"]


def test_wrong_keys(tmp_path):
    with Service(tmp_path / "own.db") as service:
        service.create("offers")
        key = service.http.post("/v1/keys", json={"name": "me", "role": "admin"}).json()["key"]
        other = f"{key[:-1]}{'y' if key.endswith('x') else 'x'}"
        for header in ({}, {"Authorization": "Bearer tb_wrong"}, {"Authorization": f"Bearer {other}"}):
            answer = service.http.get("/v1/bandits/offers", headers=header)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
            assert key not in answer.text
        good = {"Authorization": f"Bearer {key}"}
        assert service.http.get("/v1/bandits/offers", headers=good).status_code == 200
