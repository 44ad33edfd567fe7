"""The OpenAPI document: every route is in it and in the table of who may do what, with examples that work."""

import jsonschema
import pytest

from tensorbandits.service.http import examples
from tensorbandits.service.http.access import ACCESS
from tensorbandits.service.http.errors import CODES
from tests.service.served import Service

WITHOUT_A_KEY = ("healthz", "readyz")
NOT_FOR_PROGRAMS = ("page", "docs", "static", "openapi")
BINARY = ("export", "report", "snapshot")


@pytest.fixture(scope="module")
def document(service):
    answer = service.http.get("/openapi.json")
    assert answer.status_code == 200
    return answer.json()


@pytest.fixture(scope="module")
def operations(document):
    found = {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert len(found) == sum(len(methods) for methods in document["paths"].values())
    return found


def checked(document, schema, value):
    jsonschema.validate(value, {**schema, "components": document["components"]})


def test_every_route_is_in_the_table(service, operations):
    assert {_route(name) for name in operations} == set(ACCESS) - set(NOT_FOR_PROGRAMS)
    for name, (method, path, operation) in operations.items():
        access = ACCESS[_route(name)]
        path = path.replace(name.removeprefix("view_"), "{what}") if name.startswith("view_") else path
        assert (method, path) == (access.method, access.path.replace(":path", "")), name
        assert ("security" in operation) == bool(access.roles), name
        assert operation["description"], name
        assert operation["tags"], name
    routes = {route.name for route in _routes(service.app.routes)}
    assert routes == set(ACCESS)


def _route(name):
    """The route of an operation; each view is one."""
    return "view" if name.startswith("view_") else name


def _routes(routes):
    """Yield all routes, those of routers too."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from _routes(inner.routes)
        else:
            yield route


def test_every_answer_is_described(document, operations):
    for name, (_, path, operation) in operations.items():
        answers = operation["responses"]
        wanted = {"403", "413", "429", "500"}
        if name not in WITHOUT_A_KEY:
            wanted |= {"401", "422", "503"}
        if "{" in path and name != "revoke_key":
            wanted |= {"404"}
        if any(one["name"] == "Idempotency-Key" for one in operation.get("parameters", [])):
            wanted |= {"404", "409"} if "{name}" in path else {"409"}
        assert wanted - set(answers) <= ({"409"} if name == "delete_bandit" else set()), name
        for status, answer in answers.items():
            assert answer["description"], (name, status)
            if int(status) < 400:
                continue
            [content] = answer["content"].values()
            for code, example in content["examples"].items():
                assert CODES[code][0] == int(status), (name, code)
                checked(document, content["schema"], example["value"])


def test_every_body_and_answer_has_an_example(document, operations):
    for name, (_, _, operation) in operations.items():
        if "requestBody" in operation:
            contents = operation["requestBody"]["content"]
            for kind, content in contents.items():
                if kind == "application/vnd.apache.parquet":
                    continue
                assert content["examples"], (name, kind)
                for example in content["examples"].values():
                    checked(document, content["schema"], example["value"])
        else:
            assert name not in examples.BODIES
        for status in ("200", "201"):
            for content in operation["responses"].get(status, {}).get("content", {}).values():
                if name not in BINARY and (not name.startswith("view_") or name in examples.ANSWERS):
                    checked(document, content["schema"], content["example"])
    assert set(examples.BODIES) | set(examples.ANSWERS) <= set(operations)


def test_every_example_works(tmp_path, document, operations):
    """In the order of the document, with a decision of each id that examples have."""
    with Service(tmp_path / "own.db") as service:
        sent = []

        def send(name, body=None, status=(200, 201)):
            method, path, operation = operations[name]
            given = {"content": body} if isinstance(body, str) else {} if body is None else {"json": body}
            params = {"reward": "click"} if name == "import_log" else {}
            params = {"mode": "offer"} if name.endswith("_features") else params
            place = path.format(name="ages" if name == "split_region" else "offers", id="x")
            answer = service.http.request(method, place, params=params, **given)
            assert answer.status_code in status, (name, answer.text)
            sent.append(name)
            content = operation["responses"][str(answer.status_code)].get("content", {})
            for kind, described in content.items():
                if kind == "application/json":
                    checked(document, described["schema"], answer.json())
            return answer

        for name in ("create_bandit", "ask"):
            for body in examples.BODIES[name].values():
                send(name, body)
        for id in (examples._ID, "order-18"):
            send("ask", {"context": {"segment": "new"}, "id": id})
        for name, bodies in examples.BODIES.items():
            if name in sent or name == "create_key" or name in examples.RANK_BODIES:  # which has tests of its own
                continue
            for body in bodies.values():
                if name == "restore_level":
                    send("retire_level", body)
                send(name, body)
        for name in (
            "healthz",
            "readyz",
            "metrics",
            "list_bandits",
            "get_bandit",
            "history",
            "list_events",
            "export",
            "report",
        ):
            send(name)
        send("me")
        send("stream")
        send("snapshot")
        send("overviews")
        send("list_keys")
        send("diagnose")
        send("list_changes")
        send("export_changes")
        send("get_features")
        send("export_features")
        for name in [name for name in operations if name.startswith("view_")]:
            send(name)
        send("create_key", {"name": "first", "role": "admin"})
        apart = {name for name in operations if "rank" in name}
        assert set(operations) - set(sent) - apart == {"get_decision", "revoke_key", "delete_bandit"}


def test_every_view_is_as_described(service, document, operations):
    """Of a bandit with a holdout, before and after rewards, and of an apprentice."""
    new = service.create(reward="bernoulli", holdout=0.3, window="1 h", default=0)
    held = service.create(reward="bernoulli", holdout=0.3)
    beside = service.create(reward="bernoulli", apprentice=True, rollout=0.3)
    played = {"played": {"offer": "a", "channel": "sms"}, "propensity": 0.5}
    new.ask()
    for bandit, more in ((held, {}), (beside, played)):
        made = bandit.post("/ask-many", {"requests": [{"context": {"segment": "new"}, **more}] * 120})["decisions"]
        bandit.post("/tell-many", {"rewards": [{"id": one["id"], "reward": at % 2} for at, one in enumerate(made)]})
    for bandit in (new, held, beside):
        for name, (_, path, operation) in operations.items():
            if name.startswith("view_"):
                answer = service.http.get(path.format(name=bandit.name))
                assert answer.status_code == 200, (name, answer.text)
                checked(document, operation["responses"]["200"]["content"]["application/json"]["schema"], answer.json())
        for mode in ("", "?mode=offer"):
            answer = bandit.send("GET", f"/history{mode}").json()
            checked(document, {"$ref": "#/components/schemas/HistoryAnswer"}, answer)
        for body in ({}, {"context": {"segment": "new"}}):
            checked(document, {"$ref": "#/components/schemas/BeliefsAnswer"}, bandit.post("/explain", body))
