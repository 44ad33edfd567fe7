"""The examples of a lake: their compose files hold together, and what these start does what it should."""

import contextlib
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.lake.needs import missing
from tests.lake.redis_server import redis_address

__all__ = ["redis_address"]
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "lake"
FILES = sorted(path.name for path in FOLDER.glob("compose.*.yaml"))
KEYS = {"build", "image", "volumes", "read_only", "tmpfs", "cap_drop", "security_opt", "command", "depends_on"}
KEYS |= {"environment", "ports", "restart", "profiles", "healthcheck"}


def compose(name):
    return yaml.safe_load((FOLDER / name).read_text())


@pytest.mark.parametrize("name", FILES)
def test_compose_files_hold_together(name):
    found = compose(name)
    services = found["services"]
    assert {"bandit", "shop", "learner", "visitors"} <= set(services)
    for one in services.values():
        assert set(one) <= KEYS
        for other, how in one.get("depends_on", {}).items():
            ends = services[other].get("restart") is None
            assert how["condition"] == ("service_completed_successfully" if ends else "service_healthy")
            assert ends or "healthcheck" in services[other]
        assert all(volume.split(":")[0] in found["volumes"] for volume in one.get("volumes", []))
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))
        if "build" in one:
            dockerfile = FOLDER / one["build"]["context"] / one["build"]["dockerfile"]
            assert dockerfile.is_file()
            given = set(re.findall(r"^ARG (\w+)", dockerfile.read_text(), re.MULTILINE))
            assert set(one["build"].get("args", {})) <= given
        program = next((word for word in one["command"] if word.startswith("/app/")), None)
        assert program is None or (FOLDER / program.removeprefix("/app/")).is_file()
    secret = services["shop"]["environment"]["TENSORBANDITS_TOKEN_KEYS"]
    assert re.fullmatch(r"\$\{TENSORBANDITS_TOKEN_KEYS:\?.+\}", secret)


def test_the_image_gets_what_its_recipe_copies():
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    copied = [part for line in lines if line.startswith("COPY") for part in line.split()[1:-1]]
    kept = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    for part in copied:
        assert (ROOT / part).exists()
        assert f"!{part.removeprefix('./')}" in kept


class Composed:
    """What a compose file starts, as processes of this machine: the same commands, in one folder."""

    def __init__(self, name, folder, **settings):
        self.services, self.folder, self.settings = compose(name)["services"], folder, settings
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.shop = f"http://127.0.0.1:{self.port}"
        secret = f"first={secrets.token_hex(32)}"
        self._own = {"TENSORBANDITS_TOKEN_KEYS": secret, "HOST": "127.0.0.1", "PORT": str(self.port)}
        self._running = {}

    def _words(self, text):
        """A word of a command, or a value of the environment, as it is here."""
        text = text.replace("/app/", f"{FOLDER}/").replace("http://shop:8080", self.shop)
        text = text.replace("redis://redis:6379/0", self.settings.get("redis", ""))
        return self.settings.get(text, text)

    def start(self, name, *more):
        """Start a service."""
        command = [self._words(word) for word in self.services[name]["command"]]
        command = {"python": [sys.executable], "tensorbandits": [sys.executable, "-m", "tensorbandits"]}[
            command[0]
        ] + command[1:]
        given = {key: self._words(value) for key, value in self.services[name].get("environment", {}).items()}
        given |= {key: value for key, value in self._own.items() if key in given}
        with open(self.folder / f"{name}.log", "ab") as log:
            self._running[name] = subprocess.Popen(
                [*command, *more], cwd=self.folder, env=os.environ | given, stdout=log, stderr=log
            )
        return self._running[name]

    def run(self, name, *more):
        """Start a service, and wait for its end."""
        assert self.start(name, *more).wait(120) == 0, self.said(name)

    def stop(self, name):
        """Stop a service in order."""
        process = self._running.pop(name)
        process.terminate()
        process.wait(60)

    def said(self, name):
        """What a service has said."""
        return (self.folder / f"{name}.log").read_text()

    def wait(self, name, words, seconds=500):
        """Wait until a service has said some words."""
        end = time.monotonic() + seconds
        while not re.search(words, self.said(name)):
            ended = self._running[name].poll()
            assert ended in (None, 0), self.said(name)
            assert time.monotonic() < end, f"{name} said: {self.said(name)}"
            time.sleep(0.1)

    def close(self):
        """End everything."""
        for process in self._running.values():
            process.kill()
            process.wait()

    def status(self):
        """What the shop says of its decider, as soon as it answers."""
        end = time.monotonic() + 500
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.shop}/status", timeout=10) as answer:
                return json.loads(answer.read())
            assert time.monotonic() < end, self.said("shop")
            time.sleep(0.1)


@pytest.fixture
def composed(tmp_path):
    made = []

    def make(name, **settings):
        made.append(Composed(name, tmp_path, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


def learned(found, version, words):
    """Let visitors come until a snapshot that knows them is decided from."""
    found.run("bandit")
    found.start("shop")
    assert found.status()["version"] == 1
    for name in ("mover", "learner"):
        if name in found.services:
            found.start(name)
    found.run("visitors", "--visits=150", "--rate=1000", "--report=1")
    assert "clicks per visit" in found.said("visitors")
    found.wait("learner", words)
    end = time.monotonic() + 500
    while found.status()["version"] < version:
        assert time.monotonic() < end, found.said("learner")
        time.sleep(0.2)
    found.stop("shop")  # which hands over what waits


@pytest.mark.slow
def test_a_shop_and_duckdb(composed):
    found = composed("compose.duckdb.yaml", **{"60": "1"})
    learned(found, 3, r"150 decisions, [1-9]\d* rewards")


@pytest.mark.slow
def test_a_shop_and_redis_streams(composed, redis_address):
    import redis

    with redis.Redis.from_url(redis_address) as client:
        client.flushall()
    found = composed("compose.redis.yaml", redis=redis_address, **{"60": "1"})
    learned(found, 3, r"150 decisions, [1-9]\d* rewards")
    assert "moved" in found.said("mover")


@pytest.mark.slow
def test_a_shop_and_spark(composed):
    if shutil.which("java") is None:
        missing("Java is not installed (Debian: apt-get install openjdk-17-jre-headless); Spark was not tested")
    found = composed("compose.spark.yaml", **{"60": "2", "3600": "30"})
    learned(found, 2, r"150 decisions, [1-9]\d* rewards")
