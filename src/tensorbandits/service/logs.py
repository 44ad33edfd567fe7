"""The log of the service: a line per request and per event worth knowing, as JSON or for people, without secrets."""

from __future__ import annotations

import atexit
import json
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from tensorbandits.service.http.redact import redact

_NUMBERS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_PAUSE = 0.05  # seconds until lines of requests are written
OWN = "tensorbandits.service"  # the name by which those who run an engine in their own process hear of it
MOST = 20_000  # of them that may wait
_encode = json.JSONEncoder(default=repr).encode


def configure(level: str = "info", format: str = "json", stream: TextIO | None = None) -> None:
    """Let the log go to a stream, standard error by default, from a level on; that of other libraries too."""
    number = _NUMBERS[level]
    last: list[Processor]
    if format == "console":
        colors = (stream or sys.stderr).isatty()
        plain = structlog.dev.plain_traceback  # the default shows local variables, and so secrets
        last = [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain), _strike]
    else:
        last = [structlog.processors.format_exc_info, _as_json, _strike]
    lines = _Lines(stream)
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    structlog.configure(
        processors=[structlog.processors.add_log_level, stamp, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *names: lines,
        cache_logger_on_first_use=False,
    )
    atexit.unregister(flush)
    atexit.register(flush)
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, _Bridge)]:
        root.removeHandler(handler)
    root.addHandler(_Bridge())
    root.setLevel(max(number, logging.INFO))  # what libraries debug is not ours
    for name in ("uvicorn", "uvicorn.error", "uvicorn.asgi"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    logging.getLogger("uvicorn.access").disabled = True  # the guard writes these lines, without query strings
    for name in ("alembic", "sqlalchemy", "httpx", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)


def flush() -> None:
    """Write what was put aside to be written soon."""
    if (lines := structlog.get_config()["logger_factory"]()) and isinstance(lines, _Lines):
        lines.flush()


def get(part: str) -> FilteringBoundLogger:
    """Return the log of a part of the service."""
    log: FilteringBoundLogger = structlog.get_logger(part=part)
    return log.bind()  # once, rather than with each line


class Requests:
    """The access log. A line is written for every request, so that its JSON is put together by hand."""

    def __init__(self) -> None:
        config, self._log = structlog.get_config(), get("access")
        self._by_hand = _as_json in config["processors"]
        self._lines = config["logger_factory"]()
        self._wanted = {level for level in ("debug", "info", "error") if self._log.is_enabled_for(_NUMBERS[level])}
        self._second, self._time = 0, ""

    def write(
        self,
        level: str,
        request: str,
        method: str,
        route: str,
        status: int,
        seconds: float,
        key: str,
        trace: str = "",
    ) -> None:
        """Write a request down; nothing here can hold what JSON has to escape, nor a secret, but the method."""
        if level not in self._wanted:
            return
        if self._by_hand and method.isalpha():
            self._lines.later(self._line, (time.time(), level, request, method, route, status, seconds, key, trace))
        else:
            more = {"request": request, "method": method[:20], "route": route, "status": status, "key": key}
            more |= {"trace": trace} if trace else {}
            self._log.log(_NUMBERS[level], "request", ms=round(1000 * seconds, 3), **more)

    def _line(
        self,
        now: float,
        level: str,
        request: str,
        method: str,
        route: str,
        status: int,
        seconds: float,
        key: str,
        trace: str,
    ) -> str:
        second = int(now)
        if second != self._second:
            self._second, self._time = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return (
            f'{{"time": "{self._time}.{int(1e6 * (now - second)):06d}Z", "level": "{level}", "event": "request", '
            f'"part": "access", "request": "{request}", "method": "{method[:20]}", "route": "{route}", '
            f'"status": {status}, "ms": {1000 * seconds:.3f}, "key": "{key}"'
            + (f', "trace": "{trace}"}}' if trace else "}")
        )


def _as_json(log: WrappedLogger, method: str, event: EventDict) -> str:
    first = {"time": event.pop("timestamp"), "level": event.pop("level"), "event": event.pop("event")}
    return _encode({**first, **event})


def _strike(log: WrappedLogger, method: str, line: Any) -> str:
    return redact(line)


class _Lines:
    """Writes lines to a stream. A log that cannot be written stops nothing, and one that is slow delays nothing.

    Lines of requests are put aside, and a thread writes them a moment later, many at once: a call of the system for
    each would cost as much as all else that is done around a request.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self._aside: deque[tuple[Callable[..., str], tuple[Any, ...]]]  # what makes a line, and of what
        self._aside = deque(maxlen=MOST)  # the oldest are dropped when the stream is stuck
        self._some = threading.Event()
        self._thread: threading.Thread | None = None

    def later(self, make: Callable[..., str], of: tuple[Any, ...]) -> None:
        """Make a line soon, and write it."""
        self._aside.append((make, of))
        if not self._some.is_set():
            self._some.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._follow, name="log", daemon=True)
                self._thread.start()

    def _follow(self) -> None:
        while True:
            self._some.wait()
            time.sleep(_PAUSE)
            self._some.clear()
            self.flush()

    def flush(self) -> None:
        """Write what was put aside."""
        with self._lock:
            aside = [self._aside.popleft() for _ in range(len(self._aside))]
            if aside:
                self._write("\n".join([make(*of) for make, of in aside]))

    def msg(self, line: str) -> None:
        """Write a line now, after those that were put aside."""
        self.flush()
        with self._lock:
            self._write(line)

    def _write(self, text: str) -> None:
        stream = self._stream or sys.stderr
        try:
            stream.write(f"{text}\n")
            stream.flush()
        except (OSError, ValueError):
            pass

    debug = info = warning = error = critical = exception = msg


class _Bridge(logging.Handler):
    """Hands what libraries log to our log."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == OWN:  # which has its line already
            return
        try:
            get(record.name).log(record.levelno, record.getMessage(), exc_info=record.exc_info or None)
        except Exception:
            self.handleError(record)
