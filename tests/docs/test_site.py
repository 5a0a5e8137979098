"""The documentation builds as a site without a warning, so that no link and no anchor of it is dead."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tidemill as tm
from tests.docs.pages import ROOT
from tidemill.cli.main import tidemill as command_line

pytestmark = pytest.mark.slow("build the documentation")


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site like `make docs`, but without a network: the proxies do not exist."""
    environ = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "https_proxy": "http://localhost:9",
        "http_proxy": "http://localhost:9",
    }
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    return subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, check=False)


def warnings(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the warnings and errors of the build."""
    return [
        line for line in (done.stdout + done.stderr).splitlines() if line.startswith(("WARNING", "ERROR", "Aborted"))
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, warnings(done)
    return folder


def test_the_api_has_every_public_name_with_its_documentation(site: Path) -> None:
    page = (site / "reference/api.html").read_text("utf-8")
    public = {name for name in tm.__all__ if name != "testing"} | {"testing.Tester", "testing.BatchResult"}
    anchors = set(re.findall(r'id="(tidemill\.[\w.]+)"', page))
    assert {name for name in public if f"tidemill.{name}" not in anchors} == set()
    methods = {f"Pipeline.{name}" for name in vars(tm.Pipeline) if name[0] != "_"}
    methods |= {f"Stream.{name}" for name in vars(tm.Stream) if name[0] != "_"}
    methods |= {f"GroupedStream.{name}" for name in vars(tm.GroupedStream) if name[0] != "_"}
    methods |= {f"Reader.{name}" for name in vars(tm.Reader) if name[0] != "_"}
    methods |= {f"Repository.{name}" for name in vars(tm.Repository) if name[0] != "_"}
    methods |= {f"GroupState.{name}" for name in vars(tm.GroupState) if name[0] != "_"}
    assert {name for name in methods if f"tidemill.{name}" not in anchors} == set()


def test_the_command_line_has_every_command_and_option(site: Path) -> None:
    page = (site / "reference/command-line.html").read_text("utf-8")
    for name, command in command_line.commands.items():
        section = page.partition(f'<h3 id="{name}">')[2].partition("<h3 ")[0]
        options = [option for param in command.params for option in param.opts if option.startswith("--")]
        assert len(options) > 3 and [option for option in options if option not in section] == [], name


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*src="([^"]+)|<link[^>]*href="([^"]+)', text)
        assert [url for found in loaded for url in found if url.startswith(("http:", "https:", "//"))] == [], page.name


DEAD = {
    "a page": "nowhere.md",
    "an anchor of another page": "concepts.md#nowhere",
    "a file of the repository": "../nowhere.py",
    "an anchor of this page": "#nowhere",
    "a picture": "pictures/nowhere.svg",
}


def test_dead_links_fail_the_build(tmp_path: Path) -> None:
    """A site of two pages, with all settings of the whole one. `test_the_api…` shows that a build can succeed."""
    docs = tmp_path / "docs"
    docs.mkdir()
    shutil.copytree(ROOT / "docs/site", docs / "site", ignore=shutil.ignore_patterns("__pycache__"))
    settings = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[0]
    (tmp_path / "mkdocs.yml").write_text(settings + "\nnav: [index.md, concepts.md]\n", "utf-8")
    links = "".join(f"[{what}]({target})\n" for what, target in DEAD.items())
    (docs / "index.md").write_text(f"# Index\n\n[living](concepts.md#batches)\n{links}", "utf-8")
    (docs / "concepts.md").write_text("# Concepts\n\n## Batches\n", "utf-8")
    done = build(tmp_path, tmp_path / "site")
    found = "\n".join(warnings(done))
    assert done.returncode == 1
    assert {what for what, target in DEAD.items() if target not in found} == set()
    assert "concepts.md#batches" not in found and f"{len(DEAD)} warnings" in found
