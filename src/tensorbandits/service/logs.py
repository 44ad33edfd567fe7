"""The log of the service: a line per request and per event worth knowing, as JSON or for people, without secrets."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from tensorbandits.service.redact import redact

_NUMBERS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
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
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    structlog.configure(
        processors=[structlog.processors.add_log_level, stamp, *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *names: _Lines(stream),
        cache_logger_on_first_use=False,
    )
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

    def write(self, level: str, request: str, method: str, route: str, status: int, seconds: float, key: str) -> None:
        """Write a request down; none of these can hold what JSON has to escape, nor a secret, but the method."""
        if level not in self._wanted:
            return
        ms = round(1000 * seconds, 3)
        if not self._by_hand or not method.isalpha():
            more = {"request": request, "method": method[:20], "route": route, "status": status, "ms": ms, "key": key}
            self._log.log(_NUMBERS[level], "request", **more)
            return
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second, self._time = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        self._lines.msg(
            f'{{"time": "{self._time}.{int(1e6 * (now - second)):06d}Z", "level": "{level}", "event": "request", '
            f'"part": "access", "request": "{request}", "method": "{method[:20]}", "route": "{route}", '
            f'"status": {status}, "ms": {ms}, "key": "{key}"}}'
        )


def _as_json(log: WrappedLogger, method: str, event: EventDict) -> str:
    first = {"time": event.pop("timestamp"), "level": event.pop("level"), "event": event.pop("event")}
    return _encode({**first, **event})


def _strike(log: WrappedLogger, method: str, line: Any) -> str:
    return redact(line)


class _Lines:
    """Writes lines to a stream. A log that cannot be written stops nothing."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def msg(self, line: str) -> None:
        stream = self._stream or sys.stderr
        try:
            with self._lock:
                stream.write(f"{line}\n")
                stream.flush()
        except (OSError, ValueError):
            pass

    debug = info = warning = error = critical = exception = msg


class _Bridge(logging.Handler):
    """Hands what libraries log to our log."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            get(record.name).log(record.levelno, record.getMessage(), exc_info=record.exc_info or None)
        except Exception:
            self.handleError(record)
