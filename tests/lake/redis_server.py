"""A Redis server for tests, started where it is installed; tests that need it say so when they are skipped."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def redis_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of this session; its data end with it."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed (Debian: apt-get install redis-server); Redis was not tested")
    redis = pytest.importorskip(
        "redis", reason="the redis package is not installed: pip install 'tensorbandits[redis]'"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("redis")
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    address = f"redis://127.0.0.1:{port}/0"
    client = redis.Redis.from_url(address)
    try:
        for _ in range(400):
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.02)
        client.close()
        yield address
    finally:
        server.terminate()
        server.wait(10)
