"""Connections of callers: how long one may be idle, how many may be open, and half-closed ones, which are answered.

The server underneath, uvicorn, keeps a connection that never sends a request for ever, and drops one whose caller has
said all (a half-closed socket) before its answer is ready. :class:`Connection` mends both, on either of its parsers.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol
else:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as _Protocol

_ROOM = 10  # one in so many waiting connections is closed when there are too many


class Connection(_Protocol):
    """One connection of a caller. It takes the place of uvicorn's own: ``uvicorn.run(..., http=Connection)``.

    ``timeout_keep_alive`` is the number of seconds that a caller may keep it waiting: for the first byte of a request,
    from there on for the whole of its head, for each next byte of its body, or for room to write the answer.
    ``limit_concurrency`` is the number of connections that may be open: beyond it those that wait longest for a request
    are closed, rather than that the newest is refused.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._seconds: float = self.timeout_keep_alive
        self._most, self.limit_concurrency = self.limit_concurrency, None
        self._last = self.loop.time()  # when the caller was last heard, or answered
        self._head: float | None = None  # when the first byte came of a head that is not whole yet
        self._stuck: float | None = None  # since when the caller does not take the answer
        self._timer: asyncio.TimerHandle | None = None
        self._said_all = False

    # -- called by the event loop

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(self._seconds, self._look)
        if self._most is not None and len(self.connections) > self._most:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        before, self._last = self.cycle, self.loop.time()
        if self._head is None:
            self._head = self._last
        super().data_received(data)
        if self.cycle is not before or self._at_work():
            self._head = None

    def shutdown(self) -> None:
        """Close when the server stops; who listens to events is not waited for, as that would never end."""
        if self.cycle is not None and not self.cycle.response_complete and self.scope["path"].endswith("/stream"):
            self.transport.close()
        else:
            super().shutdown()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Take word that the caller sends no more: what was asked for is still answered, if it was asked for whole."""
        super().eof_received()
        self._said_all = True
        return self._at_work() and not self.cycle.more_body

    def pause_writing(self) -> None:
        """Take word that the caller does not read fast enough."""
        self._stuck = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Take word that the caller reads on."""
        self._stuck = None
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Put the timer away."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    # -- called when an answer is whole

    def on_response_complete(self) -> None:
        """Wait for the next request, or close if there will be none."""
        self._last = self.loop.time()
        super().on_response_complete()
        if self._said_all and not self._at_work():
            self.transport.close()

    # -- whether it still waits with reason

    def _at_work(self) -> bool:
        """Whether a request is being read or answered whose answer is not whole."""
        return self.cycle is not None and not self.cycle.response_complete

    def _waits_since(self) -> float | None:
        """When the caller began to keep this connection waiting; ``None`` if it does not."""
        if self._stuck is not None:
            return self._stuck
        if not self._at_work():
            return self._last if self._head is None else self._head
        return self._last if self.cycle.more_body and not self.flow.read_paused else None

    def _look(self) -> None:
        """Close the connection if its caller is silent for too long; look again when that may be."""
        since, now = self._waits_since(), self.loop.time()
        left = self._seconds if since is None else since + self._seconds - now
        if left > 0:
            self._timer = self.loop.call_later(left, self._look)
        else:
            self._end()

    def _end(self) -> None:
        """Close at once if the caller does not even read."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _make_room(self) -> None:
        """Close some of the connections that have waited longest for a request, never this one."""
        others = [one for one in self.connections if isinstance(one, Connection) and one is not self]
        others = [one for one in others if not one.transport.is_closing()]
        if self._most is not None and len(others) < self._most:
            return  # some are being closed already
        waiting = sorted((one for one in others if not one._at_work()), key=lambda one: one._last)
        for one in waiting[: max(1, len(waiting) // _ROOM)]:
            one._end()
