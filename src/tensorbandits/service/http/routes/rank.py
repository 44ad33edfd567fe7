"""Routes of the rank and reward interface: what programs written for a hosted service of that kind go on calling."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response

from tensorbandits.bandit.book import INACTIVE, ClosedDecisionError, InactiveDecisionError
from tensorbandits.bandit.spans import Span
from tensorbandits.service.engine import orders
from tensorbandits.service.engine.host import Host
from tensorbandits.service.engine.orders import Order
from tensorbandits.service.http.fingerprint import fingerprint
from tensorbandits.service.http.rank_schemas import (
    IGNORED,
    RankAnswer,
    RankBody,
    RankConfiguration,
    RankConfigurationAnswer,
    RankRewardBody,
    duration_of,
    seconds_of,
)
from tensorbandits.service.http.ranking import Ranked, answer_of, new_levels, rank_order
from tensorbandits.service.http.routes.router import Name, Router
from tensorbandits.service.http.serving import Key, Served, fingerprint_of, reply

router = Router("rank and reward")

EventId = Annotated[str, Path(max_length=200, description="The event id.", examples=["visit-4711"])]
_EVENT = ("unknown_decision", "expired_decision", "cancelled_decision", "inactive_decision", "key_reused")
_SETTINGS = {"default_reward": "default", "exploration_percentage": "floors", "new_actions": "new_actions"}


@router.route_of("rank", "closed_decision", "key_reused", status_code=201, response_model=RankAnswer)
async def rank(name: Name, body: RankBody, service: Served, key: Key = None) -> Response:
    """Choose one of some actions. The answer comes once the decision is durable."""
    host = await service.host(name)
    for order in new_levels(host, body):
        await service.write(order)
    made: list[tuple[Host, Ranked]] = []

    def order_of(host: Host, body: RankBody, key: str | None) -> Order:
        made.append((host, rank_order(host, body, key)))
        return made[-1][1].order

    decision = await service.carry_out(host, order_of, body, key)
    host, ranked = made[-1]
    return reply(answer_of(host, body, ranked, decision), 201)


@router.route_of("rank_reward", *_EVENT, status_code=204)
async def reward(id: EventId, name: Name, body: RankRewardBody, service: Served, key: Key = None) -> Response:
    """Tell the reward of an event: the earliest counts, or all of them add up, as the configuration says."""
    host = await service.host(name)
    adds = host.core.state.book.adds
    mark = None if key is None else fingerprint("rank_reward", {"id": id, **body.meant()})

    def order_of(host: Host, given: RankRewardBody, key: str | None) -> Order:
        told = orders.tell(host, {"id": id, "reward": given.value, "add": adds}, key, mark)
        return _once_shown(told, id)

    try:
        await service.carry_out(host, order_of, body, key)
    except ClosedDecisionError:
        if adds:
            raise
    return Response(status_code=204)  # a later reward than the earliest does not count, as configured


@router.route_of("rank_activate", *_EVENT, status_code=204)
async def activate(id: EventId, name: Name, service: Served, key: Key = None) -> Response:
    """Say that the event's action was shown: from now on it waits for its reward."""
    host = await service.host(name)
    mark = None if key is None else fingerprint("rank_activate", {"id": id})
    await service.write(orders.activate(host, id, key, mark))
    return Response(status_code=204)


@router.route_of("rank_configuration", response_model=RankConfigurationAnswer)
async def configuration(name: Name, service: Served) -> Response:
    """Return the configuration of the interface, as the settings of the bandit say."""
    return reply(_configuration(await service.host(name)))


@router.route_of("change_rank_configuration", "key_reused", response_model=RankConfigurationAnswer)
async def change_configuration(name: Name, body: RankConfiguration, service: Served, key: Key = None) -> Response:
    """Change the configuration of the interface: settings of the bandit, from the next decision on."""
    host = await service.host(name)
    given = body.given()
    ignored = [RankConfiguration.model_fields[field].alias for field in given if field in IGNORED]
    _refuse_aggregation(host, given.get("reward_aggregation"))
    changes = {setting: given[field] for field, setting in _SETTINGS.items() if field in given}
    if "reward_wait_time" in given:
        wait = given["reward_wait_time"]
        changes["window"] = None if wait is None else f"{seconds_of(wait):.6f}".rstrip("0").rstrip(".") + " s"
    if given.get("learning_mode") is not None:
        changes["apprentice"] = given["learning_mode"] == "Apprentice"
    if changes:
        mark = fingerprint_of("change_rank_configuration", body, key)
        await service.write(orders.settings(host, changes, key, mark))
    return reply(_configuration(host) | {"ignored": ignored})


def _once_shown(order: Order, number: str) -> Order:
    """Let a reward be refused as long as its decision was not activated: it may never have been seen."""
    tell = order.plan

    def plan(now: float) -> Any:
        record = order.host.core.state.book.get(number)
        if record is not None and record.state == INACTIVE:
            raise InactiveDecisionError(
                f"event {number!r} was ranked with deferActivation and is not activated, so that it takes no reward; "
                "activate it first if it was shown"
            )
        return tell(now)

    order.plan = plan
    return order


def _configuration(host: Host) -> dict[str, Any]:
    settings, book = host.core.state.settings, host.core.state.book
    wait, floors = Span.of(settings.get("window"), "window"), settings.get("floors")
    return {
        "rewardWaitTime": None if wait is None or wait.rounds else duration_of(wait.length),
        "defaultReward": settings.get("default"),
        "rewardAggregation": "sum" if book.adds else "earliest",
        "explorationPercentage": None if isinstance(floors, list) and floors else floors or 0.0,
        "learningMode": "Apprentice" if settings.get("apprentice") else "Online",
        "newActions": settings.get("new_actions"),
        "ignored": [],
    }


def _refuse_aggregation(host: Host, wanted: str | None) -> None:
    """Refuse another way to add up rewards than the bandit was made with."""
    adds = host.core.state.book.adds
    if wanted is not None and (wanted == "sum") != adds:
        raise ValueError(
            f"rewardAggregation is {wanted!r}, but this bandit was made with adds={str(adds).lower()}, which cannot be "
            f"changed; make another one with adds={str(not adds).lower()}"
        )
