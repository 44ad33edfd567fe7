"""Files that others run the service with: as far as they can be checked without running them."""

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from tensorbandits.cli import application
from tensorbandits.service.http.access import ACCESS
from tensorbandits.service.metrics import Metrics
from tensorbandits.service.settings import PREFIX, Settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.iterdir() if path.is_file())


def read(name):
    return (DEPLOY / name).read_text(encoding="utf-8")


def metrics():
    """The names of all series that the service has."""
    metrics = Metrics("1")
    metrics.request("GET", "/healthz", 200, 0.1)
    metrics.refused("too_many")
    metrics.decided("a")
    metrics.rewarded("a")
    metrics.committed(1, 0.1)
    metrics.learned(0.1)
    metrics.followed(1)
    metrics.behind("a", 1)
    metrics.waiting("a", 1)
    metrics.failed()
    names = set(re.findall(r"^(tensorbandits_\w+)", metrics.text().decode(), flags=re.MULTILINE))
    return {name for name in names if not name.endswith("_created")}


def named(text):
    return set(re.findall(r"tensorbandits_\w+", text))


def balanced(text):
    """Whether brackets close in order, quoted ones aside."""
    closing, open_ones = {")": "(", "]": "[", "}": "{"}, []
    for sign in re.sub(r'"[^"]*"', "", text):
        if sign in "([{":
            open_ones.append(sign)
        elif sign in closing and (not open_ones or open_ones.pop() != closing[sign]):
            return False
    return not open_ones


def expressions():
    board = json.loads(read("grafana.json"))
    rules = yaml.safe_load(read("alerts.yaml"))["groups"][0]["rules"]
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]] + [
        rule["expr"] for rule in rules
    ]


def test_there_is_a_file_for_each_way_to_run_it():
    wanted = "Dockerfile Dockerfile.dockerignore alerts.yaml compose.yaml grafana.json kubernetes.yaml nginx.conf"
    assert [path.name for path in FILES] == [*wanted.split(), "tensorbandits.service"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_variables_are_settings_that_exist(path):
    known = {PREFIX + each.name.upper() for each in fields(Settings)}
    assert set(re.findall(rf"{PREFIX}\w+", path.read_text(encoding="utf-8"))) <= known


@pytest.mark.parametrize("expression", expressions())
def test_every_expression_is_of_metrics_that_exist(expression):
    assert named(expression) <= metrics()
    assert balanced(expression)
    for route in re.findall(r'route="([^"]+)"', expression):
        assert route in {access.path for access in ACCESS.values()}
    for pattern in re.findall(r'route=~"([^"]+)"', expression):
        assert len([access for access in ACCESS.values() if re.fullmatch(pattern, access.path)]) == 2


def test_every_metric_is_on_the_board():
    shown = named(read("grafana.json"))
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in metrics()}
    missing = [family for family in families if not any(name.startswith(family) for name in shown)]
    assert not missing


def test_the_board_has_panels_that_do_not_overlap():
    panels = json.loads(read("grafana.json"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 15
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        assert panel["title"]
        assert panel["description"]
        taken |= cells


def test_alerts_say_how_urgent_they_are_and_what_is_wrong():
    rules = yaml.safe_load(read("alerts.yaml"))["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"]
        assert re.fullmatch(r"\d+[mh]", rule["for"])


def instructions():
    """The instructions of the Dockerfile, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", read("Dockerfile"))
    return [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]


def test_the_dockerfile_is_of_known_instructions_in_two_stages():
    known = re.findall(r"\w+", "ARG FROM WORKDIR COPY RUN ENV USER VOLUME EXPOSE STOPSIGNAL HEALTHCHECK ENTRYPOINT CMD")
    found = instructions()
    assert {word for word, _ in found} <= set(known)
    stages = [rest for word, rest in found if word == "FROM"]
    assert stages == ["${PYTHON} AS build", "${PYTHON}"], "both are the image that may be given with its digest"
    assert re.fullmatch(r"PYTHON=python:\d\.\d+-slim", dict(found)["ARG"])
    for word, rest in found:
        if word in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(rest), list)
        if word == "RUN":
            assert shlex.split(rest)


def test_the_image_holds_what_is_needed_and_runs_as_nobody():
    found = instructions()
    last = {word: rest for word, rest in found}
    assert last["USER"] not in ("root", "0")
    words = [word for word, _ in found]
    assert words.index("USER") > max(at for at, word in enumerate(words) if word == "RUN")
    warm = [rest for _, rest in found].index(next(rest for _, rest in found if rest.startswith("tensorbandits warm")))
    assert words.index("ENV") < warm < words.index("VOLUME"), "what is compiled must be in the folder, and in the image"
    (command,) = json.loads(last["CMD"])
    assert command in [each.name or each.callback.__name__ for each in application().registered_commands]
    assert json.loads(last["ENTRYPOINT"]) == ["tensorbandits"]
    copied = [part for word, rest in found if word == "COPY" and "--from" not in rest for part in rest.split()[:-1]]
    kept = read("Dockerfile.dockerignore").splitlines()
    for part in copied:
        assert (ROOT / part).exists()
        assert f"!{part.removeprefix('./')}" in kept
    check = json.loads(last["HEALTHCHECK"].split("CMD ", 1)[1])
    compile(check[2], "healthcheck", "exec")
    assert "/readyz" in check[2]


def test_the_compose_file_keeps_the_database_and_shows_no_password():
    compose = yaml.safe_load(read("compose.yaml"))
    assert set(compose["services"]) == {"service", "database"}
    database, service = compose["services"]["database"], compose["services"]["service"]
    (kept,) = database["volumes"]
    assert kept.split(":")[0] in compose["volumes"]
    assert database["healthcheck"]["test"][1] == "pg_isready"
    assert service["depends_on"]["database"]["condition"] == "service_healthy"
    assert "ports" not in database
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["read_only"] is True
    passwords = [value for part in (database, service) for name, value in part["environment"].items() if "PASS" in name]
    assert len(passwords) == 2
    assert all(re.fullmatch(r"\$\{POSTGRES_PASSWORD:\?.+\}", value) for value in passwords)
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def manifests():
    return {found["kind"]: found for found in yaml.safe_load_all(read("kubernetes.yaml"))}


@pytest.mark.parametrize("version", ["1.29", "1.32", "1.35"])
def test_kubernetes_manifests_fit_their_schema(version):
    checker = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate, which has the schemas, is missing"
    )
    for found in manifests().values():
        checker.validate(found, version, strict=True)
    wrong = manifests()["Deployment"]
    wrong["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["httpGet"]["pat"] = "/readyz"
    with pytest.raises(checker.ValidationError, match="pat"):
        checker.validate(wrong, version, strict=True)


def test_kubernetes_asks_routes_that_exist_and_waits_for_the_end():
    found = manifests()
    labels = {"app.kubernetes.io/name": "tensorbandits"}
    deployment, pod = found["Deployment"]["spec"], found["Deployment"]["spec"]["template"]["spec"]
    assert deployment["template"]["metadata"]["labels"] == deployment["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
    assert found["Service"]["spec"]["selector"] == labels
    (service,), (kernels,) = pod["containers"], pod["initContainers"]
    probes = {name: service[f"{name}Probe"] for name in ("startup", "readiness", "liveness")}
    paths = {name: probe["httpGet"]["path"] for name, probe in probes.items()}
    assert paths == {"startup": "/readyz", "readiness": "/readyz", "liveness": "/healthz"}
    assert set(paths.values()) <= {access.path for access in ACCESS.values()}
    given = {one["name"]: one.get("value") for one in service["env"]}
    drain, noticed = float(given["TENSORBANDITS_DRAIN_SECONDS"]), probes["readiness"]
    assert noticed["periodSeconds"] * noticed["failureThreshold"] < drain
    assert drain + 30 <= pod["terminationGracePeriodSeconds"]
    assert probes["startup"]["periodSeconds"] * probes["startup"]["failureThreshold"] >= 120
    assert {"TENSORBANDITS_STORE", "PGPASSWORD"} <= {one["name"] for one in service["env"] if "valueFrom" in one}
    mounts = {mount["mountPath"] for mount in service["volumeMounts"]}
    assert {given["NUMBA_CACHE_DIR"], given["TMPDIR"]} <= mounts, "what is written to is no part of the image"
    folder = dict(re.findall(r"(NUMBA_CACHE_DIR)=(\S+)", read("Dockerfile")))["NUMBA_CACHE_DIR"]
    assert kernels["command"] == ["cp", "-R", f"{folder}/.", given["NUMBA_CACHE_DIR"]]
    assert str(pod["securityContext"]["runAsUser"]) == dict(instructions())["USER"]


def test_systemd_understands_the_unit(tmp_path):
    unit = read("tensorbandits.service")
    command = re.search(r"^ExecStart=\S+/tensorbandits (\w+)$", unit, flags=re.MULTILINE)[1]
    assert command in [each.name or each.callback.__name__ for each in application().registered_commands]
    assert "\nMemoryDenyWriteExecute" not in unit, "kernels are compiled in the process"
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd on this machine, which would check the unit")
    copy = tmp_path / "tensorbandits.service"
    copy.write_text(re.sub("ExecStart=.*", "ExecStart=/bin/true", unit), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_proxy_file_is_whole():
    text = re.sub(r"#.*", "", read("nginx.conf"))
    assert balanced(text)
    for line in filter(None, map(str.strip, text.splitlines())):
        assert line[-1] in ";{}", f"{line!r} does not end"
    limits = [int(size) * {"m": 2**20, "g": 2**30}[unit] for size, unit in re.findall(r"body_size (\d+)([mg])", text)]
    assert limits == [Settings().body_limit, Settings().import_limit]
    assert "X-Forwarded-For $remote_addr;" in text
    for pattern in re.findall(r"location ~ (\S+) \{", text):
        assert any(re.search(pattern, access.path.replace("{name}", "shop")) for access in ACCESS.values())


@pytest.mark.medium
def test_nginx_understands_the_proxy_file(tmp_path):
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        pytest.skip("no nginx on this machine, which would check its file")
    certificate = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem", "-subj", "/CN=bandits.example.org"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *certificate]
    subprocess.run(made, check=True, capture_output=True, timeout=120)
    text = re.sub(r"/etc/letsencrypt/\S+/fullchain.pem", f"{tmp_path}/cert.pem", read("nginx.conf"))
    text = re.sub(r"/etc/letsencrypt/\S+/privkey.pem", f"{tmp_path}/key.pem", text)
    text = re.sub(r"listen \[::\]:(\d+)", r"listen 127.0.0.2:\1", text)  # there may be no IPv6 here
    text = re.sub(r"listen (?=\d+[ ;])", "listen 127.0.0.1:", text)
    text = re.sub(r"(listen \S+:)(80|443)\b", r"\g<1>8\2", text)  # which need no rights
    temporary = "".join(
        f"{kind}_temp_path {tmp_path}/{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {temporary} {text} }}"
    (tmp_path / "nginx.conf").write_text(whole, encoding="utf-8")
    check = ["nginx", "-t", "-p", tmp_path, "-c", tmp_path / "nginx.conf"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_tables_of_the_pages_are_up_to_date():
    spec = importlib.util.spec_from_file_location("service_tables", ROOT / "docs" / "service_tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    for page in tables.PAGES:
        text = page.read_text(encoding="utf-8")
        assert text == tables.written(text), "run: python docs/service_tables.py"
    text = "".join(page.read_text(encoding="utf-8") for page in tables.PAGES)
    assert all(f"<!-- {name} -->" in text for name in ("access", "settings", "errors"))


def test_the_page_says_what_to_do_at_each_alert():
    page = (ROOT / "docs" / "how-to" / "operate-the-service.md").read_text(encoding="utf-8")
    rules = yaml.safe_load(read("alerts.yaml"))["groups"][0]["rules"]
    assert re.findall(r"^\| (Tensorbandits\w+) \|", page, flags=re.MULTILINE) == [rule["alert"] for rule in rules]
    assert named(page) <= {re.sub(r"_(bucket|count|sum)$", "", name) for name in metrics()}
