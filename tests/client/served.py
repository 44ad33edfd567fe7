"""The service itself, in a thread of this process, at a port that is free."""

import contextlib
import threading

import uvicorn

from tensorbandits.service.http.app import create_app
from tensorbandits.service.settings import Settings


@contextlib.contextmanager
def served(directory, **settings):
    """Serve with an SQLite store in a directory, and yield the address."""
    given = {"store": f"sqlite:///{directory / 'service.db'}", "log_level": "error", "snapshot_interval": 0}
    app = create_app(Settings(**(given | settings)))
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.02)
            assert thread.is_alive(), "the service did not start"
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
