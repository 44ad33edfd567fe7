"""The whole app, every route of it, with every kind of key: the table of who may do what, cell by cell."""

import asyncio
import itertools
import re

import httpx
import pytest

from tensorbandits.service.http.access import ACCESS, ROLES
from tensorbandits.service.http.app import create_app
from tensorbandits.service.http.keyring import make_key
from tensorbandits.service.settings import Settings
from tensorbandits.store import Store

LIMITED = tuple(f"{role} of shop" for role in ROLES)
CALLERS = ("nobody", *ROLES, *LIMITED)
BANDITS = ("shop", "news")  # both there; the limited keys are for one


@pytest.fixture(scope="module")
def app():
    with Store.open("sqlite://") as store:
        yield create_app(Settings(store="sqlite://", log_level="error", rate=0), store)


@pytest.fixture(scope="module")
def answers(app):
    """The answer to each caller at each route, of both bandits."""
    store, tokens = app.state.serving.store, {"nobody": None}
    for caller in CALLERS[1:]:
        role, _, bandit = caller.partition(" of ")
        row, tokens[caller] = make_key(caller, role, [bandit] if bandit else None)
        store.add_key(row)

    async def all_of_them():
        found = {}
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://x") as web:
            for what, caller, bandit in itertools.product(ACCESS, CALLERS, BANDITS):
                body = {"name": bandit, "modes": {"offer": ["a", "b"]}}
                await web.post("/v1/bandits", json=body, headers=bearer(tokens["admin"]))  # if it was deleted
                found[what, caller, bandit] = await send(web, what, tokens[caller], bandit)
        return found

    return asyncio.run(all_of_them())


def bearer(token):
    return {} if token is None else {"Authorization": f"Bearer {token}"}


async def send(web, what, token, bandit):
    access = ACCESS[what]
    path = re.sub(r"\{[^}]+\}", "none", access.path.replace("{name}", bandit))
    body = {"json": {}} if access.method in ("POST", "PATCH") else {}
    response = await web.request(access.method, path, headers=bearer(token), **body)
    return response.status_code, "" if response.is_success else response.json()["error"]["code"]


def served(app):
    """The name, path and methods of each route."""
    for route in app.routes:
        many = route.effective_route_contexts() if hasattr(route, "effective_route_contexts") else [route]
        for one in many:
            yield one.name, one.path, set(one.methods)


def test_the_app_has_the_routes_of_the_table_and_no_others(app):
    found = {name: (path, methods) for name, path, methods in served(app)}
    assert found.keys() == ACCESS.keys()
    for name, (path, methods) in found.items():
        assert path == ACCESS[name].path
        assert methods - {"HEAD"} == {ACCESS[name].method}


@pytest.mark.parametrize(("what", "caller"), list(itertools.product(ACCESS, CALLERS)))
def test_each_cell(answers, what, caller):
    access, role = ACCESS[what], caller.partition(" of ")[0]
    own, other = (answers[what, caller, bandit] for bandit in BANDITS)
    assert own[0] < 500
    if not access.roles:
        assert own[0] not in (401, 403)
    elif caller == "nobody":
        assert own == other == (401, "unauthorized")
    elif role not in access.roles or (caller in LIMITED and not access.limited):
        assert own == other == (403, "forbidden")
    else:
        assert own[0] not in (401, 403)
        assert own[1] != "unknown_bandit"
        if caller in LIMITED and "{name}" in access.path:
            assert other == (404, "unknown_bandit")
        else:
            assert other[1] != "unknown_bandit"
