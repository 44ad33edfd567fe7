"""Errors in words of HTTP: no Python in them, each place named, one answer for a value that may be of several kinds."""

import pytest

from tests.service.served import Service

PYTHON = ("=True", "=False", "None", "decision.id", "tell(", "timedelta", "constrained", "__init__", "VectorizedUCB")


@pytest.fixture(scope="module")
def bandit(service):
    bandit = service.create(reward="bernoulli")
    bandit.post("/ask", {"context": {"segment": "new"}, "id": "one"})
    bandit.tell("one", 1)
    return bandit


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        (
            "/rules",
            {"forbid": {"channel": ["sms"]}},
            'forbid.channel is ["sms"]; give a string, true or false, a number',
        ),
        ("/rules", {"allow": {"channel": {"x": 1}}}, 'a time as {"time": "2026-02-28T12:00:00"} or a list'),
        ("/rules/remove", {"forbid": {"channel": "sms"}}, '{"forbid": {"channel": "sms"}} is no rule here'),
        ("/tell", {"id": "one", "reward": 0}, 'to replace it, use "amend": true'),
        (
            "/tell",
            {"id": "one", "reward": 0, "add": True},
            "add is true, but rewards do not add up here; make the bandit",
        ),
        ("/cancel", {"id": "one"}, 'tell its reward again with "amend": true'),
        ("/tell", {"id": "nobody", "reward": 0}, "give one that ask returned, of this bandit"),
        ("/tell", {"id": "one", "reward": "1"}, 'reward is "1"; give a number'),
        ("/tell-many", {"rewards": [{"reward": 1}, {"id": 3, "reward": 1}]}, "rewards[1].id is 3"),
        ("/levels", {"mode": "offer", "label": {"date": "x"}}, "'x' is no day; write it as in 2026-02-28"),
        ("/levels", {"mode": "offer", "label": "True=None", "rewards": 3}, 'name a level: "like": "spring"'),
        ("/ask", {"context": {"segment": "new=True"}}, "'new=True' is no level"),
    ],
)
def test_words_are_those_of_http(bandit, path, body, words):
    problem = bandit.send("POST", path, json=body).json()
    assert words in problem["detail"]
    given = str(body)
    assert not [word for word in PYTHON if word in problem["detail"] and word not in given], problem["detail"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"policy": "elimination"}, "the policy cannot do without 'horizon'; give it in settings"),
        ({"policy": "ucb", "reward": "revenue"}, "'reward' is no setting of the policy \"ucb\""),
        ({"policy": "ucb", "apprentice": True}, 'but the policy "ucb" draws by itself'),
        ({"half_life": "x"}, 'such as "10 min", or a number of rounds'),
        ({"default": 0}, 'give "window": "1 h"'),
        ({"floors": [{"labels": {"offer": "a"}}]}, "floors[0].share is missing; give it"),
        ({"structure": "x"}, "and null, which leaves it open"),
    ],
)
def test_words_of_settings(service, settings, words):
    answer = service.http.post("/v1/bandits", json={"name": "refused", "modes": {"offer": ["a", "b"]}} | settings)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    assert not [word for word in PYTHON if word in answer.json()["detail"]]


def test_every_wrong_place_is_listed(bandit):
    body = {"context": {"a/b": ["no label"]}, "activate": "x", "colour": 1}
    errors = bandit.send("POST", "/ask", json=body).json()["errors"]
    assert {error["pointer"] for error in errors} == {"#/context/a~1b", "#/activate", "#/colour"}
    errors = bandit.send("GET", "/events?limit=x&after=-1").json()["errors"]
    assert [error["parameter"] for error in errors] == ["after", "limit"]


def test_parameters_that_are_not_known_are_refused(bandit):
    for path, words in (
        ("?page=2", "the query parameter page is not known here; this address takes none"),
        ("/events?limt=3", "did you mean 'limit'?"),
        ("/history?offset=3", "known are mode"),
        ("/view/health?page=1", "this view has no parameter 'page'"),
    ):
        answer = bandit.send("GET", path)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
        assert words in answer.json()["detail"]
    assert bandit.send("POST", "/ask?dry=1", json={"context": {"segment": "new"}}).status_code == 422
    assert bandit.service.http.get("/v1/bandits?page=2").status_code == 422
    assert bandit.service.http.get("/healthz?page=2").status_code == 422


def test_head_is_get_without_what_it_sends(bandit):
    place = f"/v1/bandits/{bandit.name}"
    for path in (
        "/",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/v1/me",
        "/v1/bandits",
        "/v1/keys",
        "/nothing",
    ):
        got, head = (bandit.service.http.request(method, path) for method in ("GET", "HEAD"))
        assert (head.status_code, head.headers["content-type"]) == (got.status_code, got.headers["content-type"]), path
        assert not head.content
    for path in ("", "/events", "/history", "/export", "/decisions/one", "/view/health"):
        head = bandit.service.http.head(place + path)
        assert (head.status_code, head.content) == (200, b""), path
    answer = bandit.service.http.request("PUT", place)
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH")
    assert bandit.service.http.head(f"{place}/ask").status_code == 405


def test_a_policy_has_one_name_everywhere(tmp_path):
    with Service(tmp_path / "own.db") as service:
        bandit = service.create("offers", policy="ucb", rank=None)
        decision = bandit.ask()
        names = {bandit.detail()["policy"], decision["policy"], bandit.send("GET", "/view/space").json()["policy"]}
        assert names == {"ucb"}
