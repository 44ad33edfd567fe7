"""What pages show for curl and JavaScript runs as it stands there."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.client.served import served

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "use-the-client.md"
SERVICE = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with served(tmp_path_factory.mktemp("service")) as address:
        yield address


def shown(language, address):
    """The last block of a language, for a service at another address."""
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert SERVICE in found[-1]
    return found[-1].replace(SERVICE, address)


def run(program, text, path):
    if shutil.which(program) is None:
        assert not (os.environ.get("CI") and program == "curl"), "no curl: .ci/run installs it"
        pytest.skip(f"no {program} on this machine, in which to try what the page shows")
    path.write_text(text, encoding="utf-8")
    command = ["bash", path] if program == "curl" else [program, path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_curl_and_then_javascript(address, tmp_path):
    lines = run("curl", shown("sh", address), tmp_path / "page.sh").splitlines()
    made, decided, told, again = map(json.loads, lines)
    assert (made["name"], decided["id"]) == ("banners", "visit-4711")
    assert (told["changed"], again["changed"], again["reward"]) == (True, False, 1.0)
    offer, said = run("node", shown("javascript", address), tmp_path / "page.mjs").split("\n", 1)
    assert offer in ("a", "b")
    assert "status: 'rewarded'" in said


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/run-the-service.md", "docs/how-to/rank-and-reward.md"])
def test_the_first_decision_in_curl(page, address, tmp_path):
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:console|sh)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    last = next(at for at, one in enumerate(blocks) if re.search(r"/(tell|reward) ", one))
    script = "".join(one for one in blocks[: last + 1] if "curl" in one or "post" in one)
    script = re.sub(r"^(git|python3|pip|tensorbandits|createuser) .*\n", "", script, flags=re.MULTILINE)
    script = re.sub(r"(http://)?(localhost|127\.0\.0\.1):8000", address, script).replace("curl ", "curl -w '\\n' ")
    said = run("curl", f"set -e\n{script}", tmp_path / "first.sh")
    answers = [json.loads(line) for line in said.splitlines() if line]
    name = next(one["name"] for one in answers if "modes" in one)
    try:
        found = httpx.get(f"{address}/v1/bandits/{name}").json()
        assert (found["decisions"], found["rewards"]) == (1, 1)
    finally:
        httpx.delete(f"{address}/v1/bandits/{name}")
