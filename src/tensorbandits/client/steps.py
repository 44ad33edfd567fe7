"""An operation as steps: what to send and how long to pause, without doing either.

An operation of the client is a generator. It yields what is to be done, gets the answer back, and returns its result.
So everything but sending and sleeping is written once, for the client that blocks and for the one that is awaited.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")


class Request(NamedTuple):
    """A request of the service; every try of a write carries the same ``key``, by which the service knows it again."""

    method: str
    path: str
    body: bytes | None = None
    kind: str = "application/json"  # of the body
    key: str | None = None
    into: Path | None = None  # the file to write the answer to, rather than to hold it in memory


class Answer(NamedTuple):
    """What the service answered; the names of headers are in lower case.

    ``again`` says whether the service may have got an earlier try already.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    again: bool = False


class Send(NamedTuple):
    """A step: send a request, and wait for its answer so many seconds at most."""

    request: Request
    seconds: float


class Pause(NamedTuple):
    """A step: do nothing for so many seconds."""

    seconds: float


class Lost(Exception):  # noqa: N818  (the operation decides whether it is an error)
    """No answer came. ``reached`` says whether the service may have got the request all the same."""

    def __init__(self, why: str, *, reached: bool) -> None:
        super().__init__(why)
        self.reached = reached


Step: TypeAlias = Send | Pause
Steps: TypeAlias = Generator[Step, Any, T]


def advance(steps: Steps[T], outcome: Answer | Lost | None, *, first: bool) -> Step:
    """Return the next step, given what became of the one before; at the end, StopIteration has the result."""
    if first:
        return next(steps)
    return steps.throw(outcome) if isinstance(outcome, Lost) else steps.send(outcome)


def described(wrapper: Callable[..., Any], method: Callable[..., Any]) -> None:
    """Give the function that runs an operation its signature, with the result in place of the steps to it."""
    signature = inspect.signature(method)
    result = str(signature.return_annotation).removeprefix("Steps[").removesuffix("]")
    wrapper.__signature__ = signature.replace(return_annotation=result)  # type: ignore[attr-defined]
