"""What a decide server is told: where snapshots are, where events go, and whose API keys are good."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from tensorbandits.bandit.publishing import without_password
from tensorbandits.base.checks import check_count, check_positive
from tensorbandits.decider.decider import Decider
from tensorbandits.decider.sending import Sink
from tensorbandits.decider.sources import source_of
from tensorbandits.lake.sinks import sink_of
from tensorbandits.service.http.access import DECIDE, ROLES
from tensorbandits.service.http.keyring import FORM, HASHER
from tensorbandits.service.settings import PREFIX, Settings
from tensorbandits.store.events import KeyRow

_FROM, _SINK, _KEYS = f"{PREFIX}DECIDE_FROM", f"{PREFIX}SINK", f"{PREFIX}API_KEYS"
_EVERY, _BUFFER, _SERVICE_KEY = f"{PREFIX}LOOK_EVERY", f"{PREFIX}BUFFER", f"{PREFIX}SERVICE_KEY"
_NAME = f"{PREFIX}DECIDER"
_HOW = "write name=tb_ID_SECRET or name:role=tb_ID_SECRET, with commas between several"


@dataclass(frozen=True)
class DecideOptions:
    """The options of a decide server beside the settings that it shares with the service.

    Parameters
    ----------
    sources : addresses of snapshots, one for each bandit.
    sink : the address that events go to, if any: a lake, Redis, or a bandit of a service.
    every, buffer, name : as for :class:`~tensorbandits.Decider`.
    service_key : the API key by which a service is asked for snapshots and told of events.
    api_keys : the API keys of callers, as text.
    """

    sources: tuple[str, ...]
    sink: str | None = None
    every: float = 1.0
    buffer: int = 100_000
    name: str | None = None
    service_key: str | None = None
    api_keys: str = ""

    @classmethod
    def read(
        cls,
        sources: Sequence[str] = (),
        sink: str | None = None,
        every: float | None = None,
        buffer: int | None = None,
        name: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Return options of arguments, of ``TENSORBANDITS_*`` variables, and defaults, checked."""
        known = os.environ if environment is None else environment
        try:
            pause = float(known.get(_EVERY) or 1.0) if every is None else every
            room = int(known.get(_BUFFER) or 100_000) if buffer is None else buffer
        except ValueError as error:
            raise ValueError(
                f"{_EVERY} or {_BUFFER} is no number ({error}); give seconds, and a whole number"
            ) from None
        found = cls(
            sources=tuple(sources) or tuple(known.get(_FROM, "").split()),
            sink=sink or known.get(_SINK) or None,
            every=check_positive(pause, "every"),
            buffer=check_count(room, "buffer"),
            name=name or known.get(_NAME) or None,
            service_key=known.get(_SERVICE_KEY) or None,
            api_keys=known.get(_KEYS, ""),
        )
        if not found.sources:
            raise ValueError(f"no snapshots are named; give --from ADDRESS, or set {_FROM}")
        for source in found.sources:
            source_of(source)
        if len(found.sources) > 1 and (found.sink or "").startswith(("http://", "https://")):
            raise ValueError(
                f"the sink {without_password(found.sink or '')} takes events of one bandit, and {len(found.sources)} "
                "are decided for; give a lake or Redis, or run a decide server for each"
            )
        return found

    def environment(self) -> dict[str, str]:
        """Return the variables by which another process reads the same options."""
        given = {
            _FROM: " ".join(self.sources),
            _SINK: self.sink,
            _EVERY: str(self.every),
            _BUFFER: str(self.buffer),
            _NAME: self.name,
        }
        return {name: value for name, value in given.items() if value is not None}

    def make_sink(self) -> Sink | None:
        """Return a new sink, for one decider."""
        return None if self.sink is None else sink_of(self.sink, api_key=self.service_key, name=self.name)

    def deciders(self, settings: Settings) -> list[Decider]:
        """Return a decider for each source, none of which has waited for its first snapshot."""
        expires = f"{settings.token_days * 24:g} h"
        return [
            Decider(
                source,
                keys=settings.token_keys or None,
                sink=self.make_sink(),
                every=self.every,
                wait=0,
                expires=expires,
                buffer=self.buffer,
                api_key=self.service_key,
                name=self.name,
            )
            for source in self.sources
        ]


class GivenKeys:
    """API keys that are given as text, ``name=tb_ID_SECRET``, in the place of those that a store keeps.

    >>> GivenKeys("").keys()
    []
    """

    def __init__(self, text: str) -> None:
        self._rows: list[KeyRow] = []
        for part in filter(None, (part.strip() for part in text.split(","))):
            who, sign, key = part.partition("=")
            name, _, role = who.partition(":")
            found = FORM.fullmatch(key.encode())
            if not sign or not name.strip() or (role or DECIDE) not in ROLES or found is None:
                raise ValueError(
                    f"{_KEYS} has a key for {name[:40]!r} that cannot be read; {_HOW}: roles are {', '.join(ROLES)}, "
                    "and tensorbandits decide --new-key makes a key"
                )
            self._rows.append(
                KeyRow(found[1].decode(), name.strip(), HASHER.hash(key), role or DECIDE, None, time.time(), None)
            )
        if len({row.id for row in self._rows}) < len(self._rows):
            raise ValueError(f"{_KEYS} has a key twice; give each once")

    def keys(self) -> list[KeyRow]:
        """Return all keys, which are hashed."""
        return self._rows

    def add_key(self, row: KeyRow) -> None:
        """Refuse a key: they are given when the server starts."""
        raise ValueError(f"a decide server keeps no keys; give it all of them in {_KEYS}")

    def revoke_key(self, key: str, time: float) -> bool:
        """Refuse to revoke a key: they are given when the server starts."""
        raise ValueError(f"a decide server keeps no keys; leave the key out of {_KEYS}, and start it again")
