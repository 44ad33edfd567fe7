"""Running a decide server: one process, or several on one port, until it is stopped."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from starlette.types import ASGIApp

from tensorbandits.decider.tokens import TokenKeys
from tensorbandits.model.kernels import DECIDING
from tensorbandits.service import logs
from tensorbandits.service.deciding.app import DecideApp
from tensorbandits.service.deciding.options import DecideOptions, GivenKeys
from tensorbandits.service.http.guard import Guard
from tensorbandits.service.http.keyring import Keys
from tensorbandits.service.metrics import Metrics, several_processes
from tensorbandits.service.run import check_free, compile_kernels, server_options, settle
from tensorbandits.service.settings import CONFIG, Settings, check_exposed, is_loopback

_SWITCH = 0.001  # seconds after which Python lets another thread go on: answers must not wait for a new snapshot


def make() -> ASGIApp:
    """Return the application, with what the environment says; each process calls it."""
    sys.setswitchinterval(_SWITCH)
    gc.disable()  # until all is loaded, of which nothing is garbage
    return create_decide_app(Settings.read(), DecideOptions.read(), started=settle)


def create_decide_app(settings: Settings, options: DecideOptions, started: Callable[[], None] | None = None) -> ASGIApp:
    """Return the application of a decide server. ``started`` is called before anything is answered."""
    logs.configure(settings.log_level, settings.log_format)
    metrics = Metrics(version("tensorbandits"))
    keys = Keys(
        GivenKeys(options.api_keys),
        seconds=settings.key_seconds,
        exposed=not is_loopback(settings.host),
        metrics=metrics,
    )
    app = DecideApp(options.deciders(settings), keys, metrics, started)
    return Guard(app, keys=keys, settings=settings, metrics=metrics)


def run_decide(settings: Settings, options: DecideOptions, ready: Callable[[], Any] | None = None) -> None:
    """Serve until stopped. ``ready`` is called before it begins, when nothing can go wrong any more."""
    import uvicorn

    TokenKeys.of(settings.token_keys or None)
    options.make_sink()
    check_exposed(settings.host, bool(GivenKeys(options.api_keys).keys()))
    check_free(settings.host, settings.port)
    os.environ.update({**settings.environment(), **options.environment()})
    os.environ.pop(CONFIG, None)  # which these came from, too
    compile_kernels(settings, DECIDING)
    if ready is not None:
        ready()
    with several_processes(settings.workers):
        uvicorn.run(
            "tensorbandits.service.deciding.run:make",
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            **server_options(settings),
        )
