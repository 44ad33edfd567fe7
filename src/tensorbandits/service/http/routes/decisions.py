"""Routes that decide and learn: the ones that are called all the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import Path, Response
from starlette.concurrency import run_in_threadpool

from tensorbandits.bandit.book import ExpiredDecisionError, UnknownDecisionError
from tensorbandits.bandit.settings import named
from tensorbandits.base.pieces import gently
from tensorbandits.decider.tokens import Token
from tensorbandits.service.engine import orders
from tensorbandits.service.engine.host import Host, became
from tensorbandits.service.engine.orders import Order
from tensorbandits.service.engine.writer import TOGETHER
from tensorbandits.service.http import schemas
from tensorbandits.service.http.errors import explain
from tensorbandits.service.http.routes.router import Name, Router
from tensorbandits.service.http.security import Caller
from tensorbandits.service.http.serving import (
    Key,
    Served,
    Serving,
    all_of,
    allowed_labels,
    ask_order,
    fingerprint_of,
    reply,
    tell_order,
)
from tensorbandits.space.labels import written

router = Router("decisions")

_ADOPTED_TOGETHER, _READ_TOGETHER = 200, 50  # decisions of a transaction, and tokens between which others have a turn

_DECISION = ("unknown_decision", "expired_decision", "cancelled_decision", "closed_decision", "key_reused")


@router.route_of("ask", "closed_decision", "key_reused", response_model=schemas.DecisionAnswer)
async def ask(name: Name, body: schemas.AskBody, service: Served, key: Key = None) -> Response:
    """Decide. The answer comes once the decision is durable."""
    return reply(await service.carry_out(await service.host(name), ask_order, body, key))


@router.route_of("ask_many", "closed_decision", "key_reused", response_model=schemas.DecisionsAnswer)
async def ask_many(name: Name, body: schemas.AskManyBody, service: Served, key: Key = None) -> Response:
    """Decide several times at once; all requests are checked before the first decision is made, and all are or none."""
    host = await service.host(name)
    asks = list(enumerate(body.requests))
    made = await service.made(host, lambda: [ask_order(host, one, _part(key, at)) for at, one in asks])
    return reply({"decisions": await service.write_together(made)})


@router.route_of("tell", *_DECISION, response_model=schemas.StatusAnswer)
async def tell(name: Name, body: schemas.TellBody, service: Served, key: Key = None) -> Response:
    """Tell the reward of a decision, once; the same again changes nothing. Or that of an arm, without a decision."""
    return reply(await service.carry_out(await service.host(name), tell_order, body, key))


@router.route_of("tell_many", "key_reused", response_model=schemas.ResultsAnswer)
async def tell_many(name: Name, body: schemas.TellManyBody, service: Served, key: Key = None) -> Response:
    """Tell several rewards; each is taken or refused by itself."""
    host = await service.host(name)

    async def one(at: int, reward: schemas.TellBody) -> Any:
        try:
            return await service.carry_out(host, tell_order, reward, _part(key, at))
        except Exception as error:
            problem = explain(error)
            if problem.status >= 500:
                raise
            return {"error": {"code": problem.code, "message": problem.message}}

    results: list[Any] = []
    for start in range(0, len(body.rewards), TOGETHER):  # decisions come in between
        some = body.rewards[start : start + TOGETHER]
        results += await all_of(one(at, reward) for at, reward in enumerate(some, start))
    return reply({"results": results})


@router.route_of("activate", *_DECISION, response_model=schemas.StatusAnswer)
async def activate(name: Name, body: schemas.Which, service: Served, key: Key = None) -> Response:
    """Say that a decision was shown: its window begins now."""
    host = await service.host(name)
    return reply(await service.carry_out(host, _about(orders.activate, "activate"), body, key))


@router.route_of("cancel", *_DECISION, response_model=schemas.StatusAnswer)
async def cancel(name: Name, body: schemas.Which, service: Served, key: Key = None) -> Response:
    """Say that a decision was not carried out: it takes no reward."""
    host = await service.host(name)
    return reply(await service.carry_out(host, _about(orders.cancel, "cancel"), body, key))


def _about(order: Callable[..., Order], route: str) -> Callable[[Host, schemas.Which, str | None], Order]:
    """Return what makes the order of a request about a decision."""

    def made(host: Host, body: schemas.Which, key: str | None) -> Order:
        return order(host, body.id, key, fingerprint_of(route, body, key), host.token_of(body.id))

    return made


@router.route_of("adopt", response_model=schemas.AdoptedAnswer)
async def adopt(name: Name, body: schemas.AdoptBody, service: Served, grant: Caller) -> Response:
    """Take in decisions that a decider made elsewhere, by their ids, so that windows and defaults apply to them.

    Each is taken or refused by itself, and once however often it is sent, so that a request can be repeated without a
    key. The answer comes once they are durable.
    """
    host = await service.host(name)
    tokens, refused = await run_in_threadpool(read_tokens, host, body.decisions)
    adopted = known = 0
    for start in range(0, len(tokens), _ADOPTED_TOGETHER):  # decisions come in between
        some = dict(list(tokens.items())[start : start + _ADOPTED_TOGETHER])
        found = await service.write(orders.adopt(host, some))
        adopted, known, refused = adopted + found["adopted"], known + found["known"], refused | found["refused"]
    newest = max((token.version for token in tokens.values()), default=None)
    host.deciders.note(body.decider or grant.name, newest, adopted)
    return reply({"adopted": adopted, "known": known, "refused": _refusals(body.decisions, refused)})


def read_tokens(host: Host, ids: Sequence[str]) -> tuple[dict[str, Token], dict[str, Exception]]:
    """Return what ids say that are good tokens, and why others are refused; each once."""
    tokens: dict[str, Token] = {}
    refused: dict[str, Exception] = {}
    for number in gently(list(dict.fromkeys(ids)), _READ_TOGETHER):
        try:
            tokens[number] = host.tokens.read(number, host.uid)
        except (LookupError, ValueError) as error:
            refused[number] = error
    return tokens, refused


def _refusals(ids: Sequence[str], refused: dict[str, Exception]) -> list[dict[str, Any]]:
    problems = {number: explain(error) for number, error in refused.items()}
    return [
        {"at": at, "code": problems[number].code, "message": problems[number].message}
        for at, number in enumerate(ids)
        if number in problems
    ]


@router.route_of("get_decision", "unknown_decision", "expired_decision", response_model=schemas.KnownDecision)
async def get_decision(
    name: Name, id: Annotated[str, Path(description="The id of the decision.")], service: Served
) -> Response:
    """Return a decision, what became of it, and its story: asked, shown, rewarded, amended, timed out, by whom."""
    host = await service.host(name)
    return reply(await run_in_threadpool(_known, service, host, id))


def _known(service: Serving, host: Host, number: str) -> dict[str, Any]:
    events = service.store.of_decisions(host.id, [number]).get(number, [])
    if not events or events[0].kind != "Decided":
        host.status(number)  # says why not
        raise ExpiredDecisionError(f"decision {number!r} was made long ago, and its events were folded")
    decision = host.decision(events[0])
    try:
        state = host.status(number)
    except (UnknownDecisionError, ExpiredDecisionError):
        state = {"id": number, **became(events), "changed": False}
    if state["status"] not in (became(events)["status"], "inactive"):  # something has just happened to it
        events = service.store.of_decisions(host.id, [number]).get(number, [])
    shown = {part: decision[part] for part in ("arm", "context", "propensity", "by", "time")}
    return {**state, **shown, "story": host.story(events)}


@router.route_of("best", response_model=schemas.ArmAnswer)
async def best(name: Name, body: schemas.Best, service: Served) -> Response:
    """Return the arm believed best; explores and changes nothing. It takes longer than a decision."""
    host = await service.host(name)
    given = body.given()
    request, space = host.request(named(given.get("context")), allowed_labels(given)), host.core.space
    labels = space.labels(await run_in_threadpool(host.core.best, request))
    free = [mode for at, mode in enumerate(space.modes) if at not in space.context]
    return reply({"arm": {mode: written(labels[mode]) for mode in free}})


def _part(key: str | None, at: int) -> str | None:
    """The key of one of many, which no caller can send, as keys have no spaces."""
    return None if key is None else f"{key} {at}"
