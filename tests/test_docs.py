"""The documentation: its examples run, its links resolve, and it leaves no public name out."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tensorbandits as tb
from tensorbandits.cli import application

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
RUN = [
    path
    for path in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        DOCS / "index.md",
        DOCS / "tutorial.md",
        DOCS / "tutorial-policies.md",
        DOCS / "tutorial-offers.md",
        *sorted((DOCS / "how-to").glob("*.md")),
    ]
    if path.exists()
]
SERVICE = "http://127.0.0.1:8000"  # where pages say that it is; the tests start one at a port that is free
PAGES = [*sorted(DOCS.rglob("*.md")), *(path for path in RUN if path.parent == ROOT)]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(text: str, language: str = "python") -> list[tuple[int, str]]:
    """The fenced blocks of a language, each with the number of its first line."""
    fenced = re.finditer(rf"^```{language}[^\n]*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start(1)) + 1, match.group(1)) for match in fenced]


def prose(text: str) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(text: str) -> set[str]:
    """The anchors that the headings of a page get."""
    headings = re.findall(r"^#+ +(.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.fixture
def known_policies():
    """Forget the policies that a page defines, so that they stay out of later errors and tests."""
    kinds = dict(tb.Policy._kinds)
    yield
    tb.Policy._kinds.clear()
    tb.Policy._kinds.update(kinds)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The address of a service, for the pages that talk to one."""
    from tests.client.served import served

    with served(tmp_path_factory.mktemp("service")) as address:
        yield address


# Numbers of pages that play for seconds, and what ``make test`` has in their place; as they are they are slow.
SHORTER = {
    DOCS / "tutorial.md": {
        "in range(5_000)": "in range(1_000)",
        "visit == 1_500": "visit == 300",
        "visit == 2_500": "visit == 500",
    },
    DOCS / "tutorial-offers.md": {"WEEKS, VISITORS, OFFERS = 6, 250, 16": "WEEKS, VISITORS, OFFERS = 2, 30, 5"},
    DOCS / "how-to" / "use-a-cluster.md": {"n_workers=2": "n_workers=1"},
}


@pytest.mark.parametrize(
    ("path", "shorter"),
    [pytest.param(path, {}, id=name(path), marks=pytest.mark.slow if path in SHORTER else ()) for path in RUN]
    + [pytest.param(path, shorter, id=f"{name(path)}-shorter") for path, shorter in SHORTER.items()],
)
@pytest.mark.usefixtures("known_policies")
def test_python_blocks_run(path, shorter, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)  # a page may write files
    namespace = {"__name__": "docs_page"}
    text = path.read_text(encoding="utf-8")
    for number, smaller in shorter.items():
        assert text.count(number) == 1, f"{name(path)} does not have {number}; name here what it has"
        text = text.replace(number, smaller)
    found = blocks(text)
    assert found, f"{name(path)} shows no Python"
    talks = any(SERVICE in source for _, source in found)
    address = request.getfixturevalue("service") if talks else ""
    for line, source in found:
        source = source.replace(SERVICE, address) if talks else source
        padded = "\n" * (line - 1) + source  # so that a traceback names the line of the page
        exec(compile(padded, str(path), "exec"), namespace)
    if "client" in namespace:  # a page may leave it open, as an application does while it runs
        namespace["client"].close()


@pytest.mark.slow
def test_the_notebook_runs_and_its_figures_are_kept(tmp_path):
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(DOCS / "campaign.ipynb", as_version=4)
    shown = [list(output.get("data", {})) for cell in book.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in kinds for kinds in shown) == 6
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    again = [list(output.get("data", {})) for cell in book.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in kinds for kinds in again) == 6


def test_pages_have_blocks_to_run():
    assert all(len(blocks(page.read_text(encoding="utf-8"))) >= 6 for page in DOCS.glob("tutorial*.md"))
    for path in (DOCS / "how-to").glob("*.md"):
        assert blocks(path.read_text(encoding="utf-8")), f"{name(path)} shows no Python"


def test_reference_names_everything_public():
    reference = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))
    documented = set(re.findall(r"^::: [\w.]*?(\w+)$", reference, flags=re.MULTILINE))
    listed = set(re.findall(r"^ +- (\w+)$", reference, flags=re.MULTILINE))
    missing = (set(tb.__all__) - {"data"} | set(tb.data.__all__)) - documented - listed
    assert not missing, f"add to docs/reference: {sorted(missing)}"


def test_paper_map_names_every_policy():
    page = (DOCS / "explanation" / "paper-map.md").read_text(encoding="utf-8")
    kinds = [item for item in tb.__all__ if isinstance(getattr(tb, item), type)]
    policies = [kind for kind in kinds if issubclass(getattr(tb, kind), tb.Policy) and kind != "Policy"]
    missing = [kind for kind in policies if kind not in page]
    assert policies
    assert not missing, f"add to docs/explanation/paper-map.md: {missing}"


def test_paper_map_names_code_that_exists():
    """Every `module.py:name` of the map is a name defined in that file."""
    page = (DOCS / "explanation" / "paper-map.md").read_text(encoding="utf-8")
    places = set(re.findall(r"`([\w/]+\.py):([\w.]+)`", page))
    assert len(places) > 20
    for file, item in sorted(places):
        source = (ROOT / "src" / "tensorbandits" / file).read_text(encoding="utf-8")
        for part in item.split("."):
            assert re.search(rf"^ *(def|class) {part}\b|^ *{part}\b.*=", source, flags=re.MULTILINE), f"{file}:{item}"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_relative_links_resolve(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        page = (path.parent / place).resolve() if place else path
        assert page.exists(), f"{name(path)} links to {target}, which does not exist"
        if anchor and page.suffix == ".md":
            assert anchor in anchors(page.read_text(encoding="utf-8")), f"{name(path)} links to {target}"


def test_navigation_lists_every_page():
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("site")
    pytest.importorskip("mkdocstrings")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_site_loads_nothing_from_elsewhere(site):
    assert len(list(site.rglob("*.html"))) > 15
    for page in site.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)", html)
        assert not loaded, f"{page.name} loads {loaded}"
        assert "&gt;&gt;&gt;</p>" not in html, f"{page.name} shows an example as text"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//|@import", sheet.read_text(encoding="utf-8")), sheet.name


def test_search_finds_pages_that_are_opened_as_files(site):
    if (browser := shutil.which("chromium") or shutil.which("chromium-browser")) is None:
        assert not os.environ.get("CI"), "no browser: .ci/run installs chromium"
        pytest.skip("no chromium on this machine, in which to try the search")
    page = f"{(site / 'how-to' / 'rules.html').as_uri()}?q=half_life+fade"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--dump-dom"]
    done = subprocess.run([browser, *flags, page], capture_output=True, text=True, check=False, timeout=300)
    found = re.search(r'role="search".*?</ul>', done.stdout, flags=re.DOTALL)
    assert found, done.stderr
    assert "drift.html#" in found[0]
    assert "No page has all of these words" not in found[0]


@pytest.mark.parametrize(
    "module", ["docs.measure_deviations", "docs.measure_departures", "docs.measure_offers", "benchmarks.__main__"]
)
def test_scripts_that_make_figures_can_be_imported(module):
    done = subprocess.run(
        [sys.executable, "-c", f"import {module}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_reference_of_the_command_line_is_up_to_date():
    spec = importlib.util.spec_from_file_location("command_line", DOCS / "command_line.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = module.PAGE.read_text(encoding="utf-8")
    assert written == module.reference(), "run: python docs/command_line.py"
    for command in application().registered_commands:
        assert f"## {command.name}\n" in written


def test_the_reference_of_the_service_is_up_to_date():
    spec = importlib.util.spec_from_file_location("http_api", DOCS / "http_api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text(encoding="utf-8") == module.page(), "run: python docs/http_api.py"
