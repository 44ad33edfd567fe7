"""A server that is ready compiles nothing any more, whatever it is asked."""

import re
import time

import pytest

from tensorbandits.model import kernels
from tests.service import processes
from tests.service.processes import Server
from tests.service.served import Service

KINDS = {
    "gaussian": (0.5, -1.0),
    "bernoulli": (1, 0),
    "binomial": (1, 0),
    "count": (3, 0),
    "revenue": (12.5, 0),
    "revenue-signed": (-2.5, 0),
}
STRUCTURES = ("tucker", "affine", "additive", "pairs")
MANY = {f"m{at}": ["x", "y", "z"] for at in range(5)}


def shapes():
    """Modes of two to five levels: the compiler knows some numbers of modes by heart."""
    return [dict(list(MANY.items())[:count]) for count in (2, 3, 4, 5)]


def learn(bandit, context, rewards, rounds=12):
    for at in range(rounds):
        made = bandit.post("/ask", {"context": context})
        bandit.tell(made["id"], rewards[at % len(rewards)])


def use(service):
    """Use every kind of reward, structure, policy and rule, and the routes that need kernels."""
    for at, (kind, rewards) in enumerate(KINDS.items()):
        for structure in STRUCTURES:
            if kind.startswith("revenue") and structure == "pairs":
                continue  # refused
            modes = shapes()[at % len(shapes())]
            bandit = service.create(
                f"{kind}-{structure}",
                modes,
                context=("m0",),
                reward=kind,
                rank="auto",
                settings={"structure": structure},
            )
            learn(bandit, {"m0": "x"}, rewards)
            everything(bandit, rewards)
    for at, more in enumerate(
        ({"policy": "ensemble"}, {"policy": "thompson", "rank": 2}, {"settings": {"residual": True}})
    ):
        for modes in shapes():
            bandit = service.create(f"more-{at}-{len(modes)}", modes, context=(), **more)
            learn(bandit, {}, (1.0, 0.0), 6)
            everything(bandit, (1.0, 0.0))


def everything(bandit, rewards):
    """What can be done to a bandit: rules, levels, amendments, many at once, looking at it."""
    bandit.post("/rules", {"forbid": {"m0": "x", "m1": "x"}}, status=200)
    context = {"m0": "x"} if bandit.detail()["context"] else {}
    for allowed in (None, {"m1": ["y", "z"]}):
        made = bandit.post("/ask", {"context": context} | ({} if allowed is None else {"allowed": allowed}))
        bandit.tell(made["id"], rewards[0])
    bandit.post("/tell", {"id": made["id"], "reward": rewards[1], "amend": True})
    bandit.post("/levels", {"mode": "m1", "label": "new", "like": "y"})
    bandit.post("/levels/retire", {"mode": "m1", "label": "z"})
    learn(bandit, context, rewards, 3)
    many = bandit.post("/ask-many", {"requests": [{"context": context}] * 20})["decisions"]
    told = [{"id": one["id"], "reward": rewards[at % 2]} for at, one in enumerate(many)]
    bandit.post("/tell-many", {"rewards": told})
    bandit.post("/best", {"context": context})
    bandit.send("POST", "/explain", json={})
    bandit.send("POST", "/diagnose", json={})
    for what in ("effects", "heat", "drift", "arms", "traffic", "reward", "health"):
        bandit.send("GET", f"/view/{what}")


@pytest.mark.slow
def test_all_types_that_kernels_are_called_with_were_compiled_ahead(tmp_path):
    with Service(tmp_path / "store.db", learning_share=1.0) as service:
        use(service)
        assert kernels.undeclared() == []


@pytest.mark.slow
def test_a_server_with_an_empty_cache_compiles_before_it_answers_and_never_after(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    server = Server(tmp_path / "store.db", log_level="info")
    try:
        monkeypatch.setattr(processes, "PATIENCE", 600.0)
        server.ready()
        assert '"waits_for": "compiled ' in server.words()
        use(server)
        time.sleep(2)  # which the next look at what was compiled comes within
        text = server.http.get("/metrics").text
        assert re.search(r"^tensorbandits_compilations_total 0\.0$", text, flags=re.MULTILINE)
    finally:
        server.stop()
