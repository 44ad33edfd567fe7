"""Asking and telling a bandit of the service: the interface of :class:`tensorbandits.Bandit`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tensorbandits.bandit.book import ClosedDecisionError
from tensorbandits.bandit.decision import Decision, DecisionList
from tensorbandits.bandit.rows import label_rows, one_each, reward_rows
from tensorbandits.base.checks import check_reward
from tensorbandits.client import wire
from tensorbandits.client.errors import KeyReusedError, ServerAwayError, ServerError
from tensorbandits.client.exchange import Exchange, Fallback, refusals
from tensorbandits.client.messages import HttpRequest
from tensorbandits.space.labels import Label

_MOST = 1000  # decisions, or rewards, of one request


class Decisions:
    """Decides and takes rewards.

    Parameters
    ----------
    exchange : how to reach the service.
    name : of the bandit.
    fallback : the arm of decisions while the service is away, or a function of the context that returns it.
    """

    def __init__(self, exchange: Exchange, name: str, fallback: Fallback | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"name is {name!r}; give the name of a bandit, which is text")
        self._exchange, self._name, self._fallback = exchange, name, _check_fallback(fallback)

    @property
    def name(self) -> str:
        """The name of the bandit."""
        return self._name

    def _path(self, *parts: str) -> str:
        """Return a path of the bandit."""
        return wire.place("bandits", self.name, *parts)

    async def ask(
        self,
        context: Mapping[str, Label | None] | None = None,
        /,
        *,
        allowed: Mapping[str, Sequence[Label]] | None = None,
        activate: bool = True,
        id: str | None = None,
        played: Mapping[str, Label] | None = None,
        propensity: float | None = None,
        subject: str | None = None,
        fallback: Fallback | None = None,
        **labels: Label | None,
    ) -> Decision:
        """Decide, given the labels of the context modes: as keywords, or as a mapping.

        ``allowed``, ``activate``, ``id`` and ``subject`` are those of :meth:`tensorbandits.Bandit.ask`. An apprentice
        is told what is ``played``, and with which ``propensity`` if that is known; its decision has what it ``would``
        have played, see :class:`~tensorbandits.client.Advice`. With a ``fallback``, an arm or a function of the
        context, there is a decision also while the service is away: its ``by`` is ``"fallback"``, its propensity
        ``None``. Modes that have the name of an argument are given in the mapping.
        """
        plan = self._fallback if fallback is None else _check_fallback(fallback)
        number = wire.new_key() if id is None and plan is not None else id
        body = self._question(context, labels, allowed, activate, number, played, propensity)
        if subject is not None:
            body["subject"] = subject
        try:
            said = await self._exchange.call(wire.write(self._path("ask"), body), spared=plan is not None)
        except (ServerAwayError, ServerError) as away:
            if plan is None:
                raise
            return self._exchange.fall_back(self.name, played or plan, body, away)
        return wire.decision(said)

    async def ask_many(
        self,
        contexts: Any,
        *,
        allowed: Mapping[str, Sequence[Label]] | None = None,
        activate: bool = True,
        ids: Iterable[str] | None = None,
        played: Any = None,
        propensities: Iterable[float | None] | None = None,
        subjects: Iterable[str | None] | None = None,
        fallback: Fallback | None = None,
    ) -> DecisionList:
        """Decide for many contexts, in their order; a thousand of them go in one request, which makes all or none.

        ``contexts`` and ``played`` are lists of mappings, or data frames, all of whose columns are modes. ``ids``,
        ``played``, ``propensities`` and ``subjects`` have one entry for each context, the other arguments are those of
        :meth:`ask`.
        """
        plan = self._fallback if fallback is None else _check_fallback(fallback)
        given = label_rows(contexts, None, "contexts")
        numbers = one_each("ids", ids, len(given))
        if ids is None and plan is not None:
            numbers = [wire.new_key() for _ in given]
        arms = one_each("played", None if played is None else label_rows(played, None, "played"), len(given))
        shares = one_each("propensities", propensities, len(given))
        bodies = [
            self._question(context, {}, allowed, activate, number, arm, share)
            for context, number, arm, share in zip(given, numbers, arms, shares, strict=True)
        ]
        for body, person in zip(bodies, one_each("subjects", subjects, len(given)), strict=True):
            body |= {} if person is None else {"subject": person}
        made = DecisionList()
        for start in range(0, len(bodies), _MOST):
            some = bodies[start : start + _MOST]
            request = wire.write(self._path("ask-many"), {"requests": some})
            try:
                said = await self._exchange.call(request, spared=plan is not None)
            except (ServerAwayError, ServerError) as away:
                if plan is None:
                    raise
                chosen = zip(some, arms[start:], strict=False)
                made += [self._exchange.fall_back(self.name, arm or plan, body, away) for body, arm in chosen]
            else:
                made += map(wire.decision, said["decisions"])
        return made

    def _question(
        self,
        context: Mapping[str, Any] | None,
        labels: Mapping[str, Any],
        allowed: Mapping[str, Iterable[Label]] | None,
        activate: bool,
        number: str | None,
        played: Mapping[str, Label] | None,
        propensity: float | None,
    ) -> dict[str, Any]:
        body: dict[str, Any] = {"context": wire.merged(context, labels, numbers=True)}
        optional = {
            "allowed": wire.listed(allowed),
            "activate": None if activate else False,
            "id": number,
            "played": None if played is None else wire.merged(played, {}),
            "propensity": propensity,
        }
        return body | {name: value for name, value in optional.items() if value is not None}

    async def tell(
        self,
        decision: str | Decision | None = None,
        reward: Any = None,
        *,
        amend: bool = False,
        add: bool = False,
        arm: Mapping[str, Label] | None = None,
        context: Mapping[str, Label] | None = None,
        trials: int | None = None,
    ) -> None:
        """Learn the reward of a decision, by its id; the same again changes nothing.

        Another reward is refused, unless it is to ``amend`` the first or to ``add`` to it. Those who keep no ids tell
        ``arm`` and ``context`` instead, each time for one more reward, or for the clicks of so many ``trials``.

        The reward of a decision that a fallback made is told as one of its arm and context: once, and not to be
        amended. Of such a decision the client knows the last 10,000 by id; give the decision itself where it may be
        older, or was made by another process.
        """
        request = self._telling(decision, reward, amend=amend, add=add, arm=arm, context=context, trials=trials)
        local = self._exchange.local(decision)
        try:
            said = await self._exchange.write(request)
            closed = local is not None and said is not None and said["reward"] != check_reward(reward)
        except KeyReusedError:
            if local is None:
                raise
            closed = True
        if local is not None and closed:
            raise ClosedDecisionError(
                f"decision {local.id!r} has another reward already; as a fallback made it, that cannot be amended"
            )

    async def tell_many(
        self, rewards: Any, *, amend: bool = False, add: bool = False, id: str = "id", reward: str = "reward"
    ) -> None:
        """Learn many rewards: pairs of a decision, or its id, and its reward; or a data frame with these two columns.

        They are taken one by one, as by :meth:`tell`. If some are refused, the others are taken all the same, unlike by
        :meth:`tensorbandits.Bandit.tell_many`, and an ``ExceptionGroup`` says which and why.
        """
        pairs = reward_rows(rewards, id, reward)
        plain = [pair for pair in pairs if self._exchange.local(pair[0]) is None]
        refused: list[Exception] = []
        bodies = [self._told(decision, value, amend, add) for decision, value in plain]
        for start in range(0, len(bodies), _MOST):
            some = bodies[start : start + _MOST]
            said = await self._exchange.write(wire.write(self._path("tell-many"), {"rewards": some}), len(some))
            refused += refusals(said, some)
        for decision, value in pairs:
            if self._exchange.local(decision) is not None:  # each has a key of its own
                try:
                    await self.tell(decision, value, amend=amend, add=add)
                except ValueError as error:
                    refused.append(error)
        if refused:
            raise ExceptionGroup(f"of {len(pairs):,} rewards {len(refused):,} were refused, the others taken", refused)

    def _telling(
        self, decision: Any, reward: Any, *, amend: bool, add: bool, arm: Any, context: Any, trials: Any
    ) -> HttpRequest:
        """Return the request that tells a reward."""
        if (decision is None) == (arm is None):
            raise TypeError("tell either the id of a decision and its reward, or arm=..., context=... and reward=...")
        if decision is None and (amend or add):
            raise ValueError("amend and add change the reward of a decision; give its id rather than an arm")
        if decision is not None and context is not None:
            raise TypeError("context is given beside the id of a decision, which has one already; leave it out")
        if decision is not None and trials is not None:
            raise TypeError("trials are given beside the id of a decision, which is one trial; leave them out")
        if decision is None:
            more = {} if trials is None else {"trials": trials}
            return wire.write(self._path("tell"), _told_of_arm(arm, context, reward) | more)
        local = self._exchange.local(decision)
        if local is None:
            return wire.write(self._path("tell"), self._told(decision, reward, amend, add))
        if amend or add:
            raise ValueError(
                f"decision {local.id!r} was made by a fallback, and its reward is told as one of its arm: it can be "
                "neither amended nor added to; leave out amend and add"
            )
        key = f"fallback-{local.id}"  # the same whoever tells it, so that it counts once
        return wire.write(self._path("tell"), _told_of_arm(local.arm, local.context, reward), key=key)

    def _told(self, decision: Any, reward: Any, amend: bool, add: bool) -> dict[str, Any]:
        changes = {name: True for name, value in (("amend", amend), ("add", add)) if value}
        return {"id": number_of(decision), "reward": check_reward(reward), **changes}

    async def activate(self, decision: str | Decision) -> None:
        """Say that a decision was shown: its window begins now."""
        if self._exchange.local(decision) is None:
            await self._exchange.write(wire.write(self._path("activate"), {"id": number_of(decision)}))

    async def cancel(self, decision: str | Decision) -> None:
        """Say that a decision was not carried out: it takes no reward, and none is told of it."""
        if (local := self._exchange.local(decision)) is None:
            await self._exchange.write(wire.write(self._path("cancel"), {"id": number_of(decision)}))
        else:
            self._exchange.forget(local.id)

    async def status(self, decision: str | Decision) -> str:
        """Return the state of a decision: inactive, open, rewarded, timed out or cancelled."""
        said = await self.look_up(decision)
        return str(said["status"])

    async def reward(self, decision: str | Decision) -> float | None:
        """Return the reward of a decision as it is now, the default after its window, or ``None`` if it has none."""
        said = await self.look_up(decision)
        return None if said["reward"] is None else float(said["reward"])

    async def look_up(self, decision: str | Decision) -> dict[str, Any]:
        """Return all that the service knows of a decision: its arm, context, propensity, state and reward."""
        said = await self._exchange.call(wire.get(self._path("decisions", number_of(decision))))
        labels = {name: wire.unwritten(said[name]) for name in ("arm", "context") if said.get(name) is not None}
        return {**said, **labels}

    async def best(
        self,
        context: Mapping[str, Label | None] | None = None,
        /,
        *,
        allowed: Mapping[str, Sequence[Label]] | None = None,
        **labels: Label | None,
    ) -> dict[str, Label]:
        """Return the allowed arm believed best, given the labels of the context modes; explores and changes nothing."""
        body: dict[str, Any] = {"context": wire.merged(context, labels, numbers=True)}
        if (chosen := wire.listed(allowed)) is not None:
            body["allowed"] = chosen
        said = await self._exchange.call(wire.post(self._path("best"), body))
        return wire.unwritten(said["arm"])


def _told_of_arm(arm: Any, context: Any, reward: Any) -> dict[str, Any]:
    return {
        "arm": wire.merged(arm, {}),
        "context": wire.merged(context, {}, numbers=True),
        "reward": check_reward(reward),
    }


def number_of(decision: Any) -> str:
    """Return the id of a decision, given as itself or by its id."""
    number = decision.id if isinstance(decision, Decision) else decision
    if not isinstance(number, str):
        raise TypeError(f"the id is {number!r}; give the id of a decision, which is text: decision.id")
    return number


def _check_fallback(fallback: Fallback | None) -> Fallback | None:
    if fallback is None or callable(fallback) or (isinstance(fallback, Mapping) and fallback):
        return fallback
    raise TypeError(f"fallback is {fallback!r}; give an arm, such as {{'offer': 'a'}}, or a function of the context")
