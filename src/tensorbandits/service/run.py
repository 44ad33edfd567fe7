"""Running the service: one process, or several on one port, until it is stopped."""

from __future__ import annotations

import gc
import os
import resource
import socket
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tensorbandits.model.kernels import compile_ahead
from tensorbandits.service import logs
from tensorbandits.service.metrics import several_processes
from tensorbandits.service.settings import CONFIG, Settings, check_exposed
from tensorbandits.store import Store

if TYPE_CHECKING:
    from fastapi import FastAPI

_SWITCH = 0.001  # seconds after which Python lets another thread go on: decisions must not wait for learning
_FILES = 256  # that a process has open beside its connections
_YOUNG = 5_000  # new objects after which Python looks for garbage among them, which stops all threads for a millisecond


def make() -> FastAPI:
    """Return the application, with the settings that the environment says; each process calls it."""
    from tensorbandits.service.http.app import create_app

    sys.setswitchinterval(_SWITCH)
    gc.disable()  # until all is loaded, of which nothing is garbage
    return create_app(Settings.read(), started=settle)


def settle() -> None:
    """Have Python never look again for garbage among all that was loaded: each look stops every thread for long."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
    gc.enable()


def check_free(host: str, port: int) -> None:
    """Refuse an address at which nobody can listen, or where somebody does already."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except OSError as error:
        raise ValueError(
            f"nobody can listen at {host}, port {port} ({error.strerror}); stop what listens there, or give another "
            "with --port or --host"
        ) from None


def open_connections(wanted: int) -> int:
    """Have the system let this process open so many connections; return how many it does, at least one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted + _FILES:
        soft = wanted + _FILES if hard == resource.RLIM_INFINITY else min(wanted + _FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - _FILES))


def server_options(settings: Settings) -> dict[str, Any]:
    """Return what uvicorn is told of connections, of logs and of proxies."""
    from tensorbandits.service.http.connections import Connection

    return {
        "http": Connection,
        "ws": "none",  # a connection that became a web socket would be out of its sight
        "timeout_keep_alive": settings.idle_seconds,
        "limit_concurrency": open_connections(settings.connections),
        "timeout_graceful_shutdown": 10,
        "backlog": 2048,
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": bool(settings.proxy),
        "forwarded_allow_ips": settings.proxy or None,
    }


def compile_kernels(settings: Settings, files: Sequence[str] | None = None) -> None:
    """Compile what is not compiled yet, before anybody can connect: callers go elsewhere meanwhile."""
    logs.configure(settings.log_level, settings.log_format)
    log = logs.get("start")
    compile_ahead(lambda words: log.info("not ready yet", waits_for=words), files=files)


def run(settings: Settings, ready: Callable[[], Any] | None = None) -> None:
    """Serve until stopped. ``ready`` is called before it begins, when nothing can go wrong any more."""
    import uvicorn

    with Store.open(settings.store) as store:  # which makes its tables, or says why it cannot
        check_exposed(settings.host, bool(store.keys()))
    check_free(settings.host, settings.port)
    os.environ.update(settings.environment())
    os.environ.pop(CONFIG, None)  # which these came from, too
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # more threads than cores slow everything down
    compile_kernels(settings)
    if ready is not None:
        ready()
    with several_processes(settings.workers):
        uvicorn.run(
            "tensorbandits.service.run:make",
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            **server_options(settings),
        )
