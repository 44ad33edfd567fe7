"""What a client and the service say to each other, and what carries it: requests, answers, transports.

Every operation of the client is a coroutine that sends and sleeps through a :class:`Transport`, and so is written once:
the awaited client awaits it, and the blocking client runs it over a transport that blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol


class HttpRequest(NamedTuple):
    """A request of the service; every try of a write carries the same ``key``, by which the service knows it again."""

    method: str
    path: str
    body: bytes | None = None
    kind: str = "application/json"  # of the body
    key: str | None = None
    into: Path | None = None  # the file to write the answer to, rather than to hold it in memory


class HttpAnswer(NamedTuple):
    """What the service answered; the names of headers are in lower case.

    ``again`` says whether the service may have got an earlier try already.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    again: bool = False


class Lost(Exception):  # noqa: N818  (the operation decides whether it is an error)
    """No answer came. ``reached`` says whether the service may have got the request all the same."""

    def __init__(self, why: str, *, reached: bool) -> None:
        super().__init__(why)
        self.reached = reached


class Transport(Protocol):
    """What sends requests, and sleeps between them."""

    async def send(self, request: HttpRequest, seconds: float) -> HttpAnswer:
        """Send a request and return its answer, for which it waits so many seconds; raise :class:`Lost` without one."""

    async def sleep(self, seconds: float) -> None:
        """Do nothing for so many seconds."""

    async def close(self) -> None:
        """Close the connections."""
