"""Handling keys over HTTP and from the command line."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tensorbandits.cli import application
from tensorbandits.service.http.access import ACCESS
from tensorbandits.store import Store
from tests.service.calls import placed

ASK = "/v1/bandits/shop/ask"


@pytest.fixture
def place():
    with placed() as place:
        yield place


def made(place, key=None, **body):
    response = place.call("POST", "/v1/keys", key, json=body)
    assert response.status_code == 201, response.text
    return response.json()


def test_keys_from_the_first_to_the_revoked_one(place):
    assert place.call("GET", "/v1/me").json()["open"] is True
    boss = made(place, name="boss", role="admin")
    assert boss["key"].startswith(f"tb_{boss['id']}_")
    assert place.call("GET", "/v1/me").status_code == 401
    me = place.call("GET", "/v1/me", boss["key"]).json()
    assert (me["role"], me["bandits"], me["open"], me["name"]) == ("admin", None, False, "boss")
    assert me["version"]
    web = made(place, boss["key"], name="web", role="decide", bandits=["shop"])
    assert place.call("GET", "/v1/me", web["key"]).json()["bandits"] == ["shop"]
    assert place.call("POST", ASK, web["key"], json={"reward": 1}).status_code == 200
    assert place.call("POST", "/v1/bandits/news/ask", web["key"], json={"reward": 1}).status_code == 404
    listed = place.call("GET", "/v1/keys", boss["key"])
    assert [row["name"] for row in listed.json()["keys"]] == ["boss", "web"]
    assert "argon2" not in listed.text
    assert "tb_" not in listed.text
    assert place.call("DELETE", f"/v1/keys/{web['id']}", boss["key"]).status_code == 204
    assert place.call("DELETE", f"/v1/keys/{web['id']}", boss["key"]).status_code == 204
    assert place.call("POST", ASK, web["key"], json={"reward": 1}).status_code == 401
    assert place.call("GET", "/v1/keys", boss["key"]).json()["keys"][1]["revoked"] > 0
    assert place.call("DELETE", "/v1/keys/nobody", boss["key"]).json()["error"]["code"] == "not_found"


def test_the_first_key_must_be_an_admins(place):
    refused = place.call("POST", "/v1/keys", json={"name": "web", "role": "decide"})
    assert refused.status_code == 422
    assert "make one of role admin first" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"role": "read"}, "name is missing"),
        ({"name": "web", "role": "king"}, "it should be 'decide', 'read' or 'admin'"),
        ({"name": "", "role": "read"}, "at least 1 character"),
        ({"name": "a\nb", "role": "admin"}, "printable"),
        ({"name": "web", "role": "read", "bandits": []}, "give at least 1"),
        ({"name": "web", "role": "read", "bandits": ["no name"]}, "bandits[0]"),
        ({"name": "web", "role": "read", "hash": "x"}, "hash is not known here"),
    ],
)
def test_keys_that_cannot_be_are_refused(place, body, words):
    key = place.key()
    response = place.call("POST", "/v1/keys", key, json=body)
    assert response.status_code == 422
    assert words in response.json()["error"]["message"]


@pytest.mark.parametrize("role", ["decide", "read", "limited admin"])
def test_only_an_unlimited_admin_handles_keys(place, role):
    key = place.key(role.split()[-1], ["shop"] if "limited" in role else None)
    for call in (("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", "/v1/keys/x")):
        given = {"json": {"name": "a", "role": "read"}} if call[0] == "POST" else {}
        response = place.call(*call, key, **given)
        assert (response.status_code, response.json()["error"]["code"]) == (403, "forbidden")


def test_openapi_shows_the_need_of_a_key_and_examples(place):
    spec = place.app.openapi()
    assert spec["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    for what in ("me", "list_keys", "create_key", "revoke_key", "ask"):
        access = ACCESS[what]
        route = spec["paths"][access.path][access.method.lower()]
        assert route["security"] == [{"key": []}]
    for name in ("NewKey", "KeyAnswer", "MadeKey", "Me"):
        assert spec["components"]["schemas"][name]["examples"]


def invoke(*arguments, store=None):
    more = [] if store is None else ["--store", str(store)]
    return CliRunner().invoke(application(), ["keys", *arguments, *more])


def test_keys_from_the_command_line(tmp_path):
    store = tmp_path / "bandits.db"
    assert "has no keys" in invoke("list", store=store).output
    first = invoke("add", "the shop", "--role", "decide", "--bandit", "shop", "--bandit", "news", store=store)
    assert first.exit_code == 0, first.output
    key = first.stdout.strip()
    assert key.startswith("tb_")
    assert "\n" not in key, "so that a script can take it"
    assert "an admin key is needed too" in first.stderr
    boss = invoke("add", "boss", "--role", "admin", store=store)
    assert "it is the first" not in boss.stderr
    with Store.open(str(store)) as opened:
        rows = opened.keys()
        assert [row.bandits for row in rows] == [["news", "shop"], None]
        assert all(key not in str(row) for row in rows)
        with placed(store=opened) as place:
            assert place.call("GET", "/v1/me", key).json()["role"] == "decide"
    shown = invoke("list", store=store).output
    assert key.split("_")[1] in shown
    assert key not in shown
    assert "revoked" in invoke("revoke", key.split("_")[1], store=store).output
    assert "was revoked before" in invoke("revoke", key, store=store).output
    assert key.split("_")[2] not in invoke("revoke", key, store=store).output


def test_the_store_may_come_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORBANDITS_STORE", f"sqlite:///{tmp_path / 'there.db'}")
    assert invoke("add", "boss", "--role", "admin").exit_code == 0
    assert (tmp_path / "there.db").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "web", "--role", "king"), 'error: role is "king"; give one of decide, read, admin'),
        (("add", "", "--role", "read"), "error: name is"),
        (("revoke", "nobody"), "error: there is no key 'nobody'"),
    ],
)
def test_mistakes_are_one_line(tmp_path, arguments, words):
    result = invoke(*arguments, store=tmp_path / "bandits.db")
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


COUNTING = """
import sys
from tensorbandits.service.metrics import Metrics
metrics = Metrics()
metrics.decided("shop", int(sys.argv[1]))
metrics.behind("shop", int(sys.argv[1]))
metrics.request("GET", "/healthz", 200, 0.01)
if sys.argv[2] == "show":
    print(metrics.text().decode())
"""


def test_several_processes_count_together(tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))

    def run(*arguments):
        done = subprocess.run([sys.executable, "-c", COUNTING, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("40", "hide")
    text = run("2", "show")
    assert 'tensorbandits_decisions_total{bandit="shop"} 42.0' in text
    assert 'tensorbandits_request_seconds_count{method="GET",route="/healthz",status="200"} 2.0' in text
    assert 'tensorbandits_lag_events{bandit="shop"} 2.0' in text, "what a process that is gone lagged is of no interest"
