"""The code in the pages: it is Python, and what it calls is there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tidemill as tm
from tidemill.cli.main import main

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(text, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, text in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
]
OF_STREAMS = {
    name for kind in (tm.Pipeline, tm.Stream, tm.GroupedStream, tm.Repository) for name in dir(kind) if name[0] != "_"
}


@pytest.mark.parametrize("text", BLOCKS)
def test_blocks_are_python_and_name_what_there_is(text: str) -> None:
    names = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute) and _of_tm(node)}
    assert {name for name in names if not hasattr(tm, name)} == set()


def _of_tm(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "tm"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_pages_name_in_passing_is_there(page: Path) -> None:
    text = page.read_text("utf-8")
    named = {name.partition(".")[0] for name in re.findall(r"`tm\.(\w+(?:\.\w+)?)", text)}
    assert {name for name in named if not hasattr(tm, name)} == set()
    of_repository = set(re.findall(r"`r\.(\w+)\(", text))
    assert {name for name in of_repository if name not in OF_STREAMS} == set()


def test_links_between_pages_lead_somewhere() -> None:
    lost = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES
        for link in re.findall(r"\]\(((?!https?:|#|mailto:)[^)#\s]+)", page.read_text("utf-8"))
        if not (page.parent / link).exists()
    ]
    assert lost == []
    assert len(BLOCKS) > 10


def blocks_of(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_first_pipeline_runs_as_the_readme_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (pipeline,) = (block for block in blocks_of("README.md", "python") if block.startswith("# retail.py"))
    (data,) = (block for block in blocks_of("README.md", "sh") if block.startswith("mkdir"))
    monkeypatch.chdir(tmp_path)
    Path("retail.py").write_text(pipeline, "utf-8")
    subprocess.run(["bash", "-eu", "-c", data], check=True)
    (commands,) = (block for block in blocks_of("README.md", "sh") if "tidemill init" in block)
    for line in commands.splitlines():
        words = line.partition("#")[0].split()[1:]
        assert main([*words, "--engine", "local"] if words[0] == "run" else words) == 0
    told = capfd.readouterr().out
    assert "committed version 0: 3 rows of 1 file in " in told
    assert re.search(r"17850 +35\.64 ", told) and re.search(r"12583 +90\.00 ", told)
    assert len(list(Path("lake/customer-spend").glob("*.parquet"))) == 1


def test_the_sessions_of_the_page_are_what_it_says() -> None:
    block = blocks_of("docs/operators/transform-with-state.md", "python")[0]
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, block.rpartition("# ")[2], "")
