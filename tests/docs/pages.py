"""The pages of the documentation as programs: their blocks of code, and how each is run.

How to write a block (the test is `test_pages.py`):

- A block of `python` or `sh` runs, in the order of the page, in one namespace and one empty folder a page. So a page
  imports what it uses; `PAGES_NEED` in `test_pages.py` gives a page what it takes as given.
- `python` that begins with a comment that names a file, `# retail.py`, is saved under that name, so that
  `tidemill run retail.py:p` finds it. It runs in a namespace of its own: another block imports from it. `r.run()` runs
  on the local engine unless the page says which.
- `sh`: `tidemill …` runs in this process, on the local engine unless the page says which. Everything else is bash's.
- A block of `text` directly after a block that ran is what it printed, stdout and stderr as they come. It is compared:
  `…` stands for anything, a line `…` for any lines, `/srv/shop` for the folder of the page; times of day, seconds and
  rows/s are not compared. With a sentence between the two blocks nothing is compared.
- `<!-- not run: needs an AWS account -->` on the line before a block says that it does not run here, and why. Python
  must be valid all the same, and name only what `tidemill` has.
- Other blocks (`text`, `json`, `toml`, `sql`, …) are not run. `json` and `toml` must be valid.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tidemill.cli.main import main

ROOT = Path(__file__).parents[2]
RUN = {"python", "sh"}
SHOWN_FOLDER = "/srv/shop"
"""The working folder in the text of pages."""
SHOWN = {"text", "json", "toml", "sql", "yaml", "csv", "scala", "java", "rust", "pycon", "dockerfile"}

_BLOCK = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w-]*) *\n(?P<text>.*?)^(?P=indent)(?P=fence) *$", re.M | re.S
)
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z", re.S)
_FILE = re.compile(r"# ([\w/-]+\.py)\b")
_STATUS = re.compile(r"(.*?)\s*\|\| echo \"exit status \$\?\"")


@dataclass(frozen=True)
class Block:
    """A block of code in a page."""

    line: int
    language: str
    text: str
    not_run: str | None
    """Why it does not run; None if nothing says so."""
    follows: bool
    """Whether there is nothing but empty lines between this block and the one before it."""


def pages() -> list[Path]:
    """All Markdown of the repository that users read."""
    outside = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", *(f"{name}/README.md" for name in _FOLDERS)]
    return [*(ROOT / name for name in outside), *sorted((ROOT / "docs").rglob("*.md"))]


_FOLDERS = ("benchmarks", "docker", "examples", "requirements")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found, end = [], 0
    for match in _BLOCK.finditer(text):
        between = text[end : match.start()]
        mark = _NOT_RUN.search(between)
        code = textwrap.dedent(match["text"])
        line = text.count("\n", 0, match.start()) + 1
        reason = " ".join(mark[1].split()) if mark else None
        found.append(Block(line, match["language"], code, reason, bool(found) and not between.strip()))
        end = match.end()
    return found


def without_blocks(page: Path) -> str:
    """The page with the first line of each block instead of the block."""
    return _BLOCK.sub(lambda found: found[0].split("\n")[0], page.read_text("utf-8"))


class Runner:
    """Runs the blocks of one page in the working folder."""

    def __init__(self, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.page = page
        self.here = Path.cwd()
        self.module = types.ModuleType(f"page_{page.stem.replace('-', '_')}")
        monkeypatch.setitem(sys.modules, self.module.__name__, self.module)
        monkeypatch.setattr(sys, "path", [str(self.here), *sys.path])
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        for name in [name for name in os.environ if name.startswith("AIRFLOW_CTX_")]:
            monkeypatch.delenv(name)  # tasks that Airflow ran in this process leave them behind
        for name in ("run", "sweep"):
            monkeypatch.setattr(tm.Repository, name, _on_local_engine(getattr(tm.Repository, name)))

    def run(self, block: Block) -> str:
        """Run the block and return the printed text."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            if block.language == "python":
                self._python(block)
            else:
                for command in commands_of(block.text):
                    self._command(command, printed)
        return printed.getvalue().replace(str(self.here), SHOWN_FOLDER)

    def _python(self, block: Block) -> None:
        if named := _FILE.match(block.text):
            Path(named[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(named[1]).write_text(block.text, "utf-8")
            sys.modules.pop(Path(named[1]).stem, None)  # that of another page
        code = compile("\n" * block.line + block.text, str(self.page), "exec")
        exec(code, {"__name__": self.module.__name__} if named else vars(self.module))  # noqa: S102

    def _command(self, command: str, printed: io.StringIO) -> None:
        may_fail = _STATUS.fullmatch(command)
        text = may_fail[1] if may_fail else command
        if re.match(r"tidemill\b[^|&;$`<>]*$", text):
            status = main(_arguments(text))
        else:
            done = subprocess.run(
                ["bash", "-euc", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            printed.write(done.stdout)
            status = done.returncode
        if may_fail and status:
            printed.write(f"exit status {status}\n")
        else:
            assert status == 0, f"exit status {status} of: {command}\n{printed.getvalue()}"


def _on_local_engine(method: Any) -> Any:
    def on_local_engine(self: Any, *given: Any, **named: Any) -> Any:
        return method(self, *given, **({"engine": "local"} | named if not given else named))

    return on_local_engine


def _arguments(command: str) -> list[str]:
    words = shlex.split(command, comments=True)[1:]
    if words and words[0] in ("run", "sweep", "demo") and "--engine" not in words and "--help" not in words:
        words += ["--engine", "local"]
    return words


def commands_of(text: str) -> list[str]:
    """The commands of a shell block: a line, with the lines that continue it, or with its here-document."""
    lines, found = text.splitlines(), []
    while lines:
        command = lines.pop(0)
        while command.rstrip().endswith("\\"):
            command = f"{command.rstrip()[:-1]} {lines.pop(0).strip()}"
        if here := re.search(r"<<-?\s*'?(\w+)'?", command):
            while not command.endswith(f"\n{here[1]}"):
                command += f"\n{lines.pop(0)}"
        if command.strip() and not command.lstrip().startswith("#"):
            found.append(command)
    return found


_VARYING = (
    (re.compile(r"(-\d{10}-\d{5})-[0-9a-f]{8}-[0-9a-f]{12}"), r"\1-UUID-SUM"),
    (re.compile(r"\b\d[\d,]* (?:d|h|min|s)(?: \d+ (?:h|min|s))? (?=behind|ahead|ago)"), "AGE "),
    (re.compile(r"((?:committed|batch time)\s+)\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?"), r"\1TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\.\d+"), "TIME"),
    (re.compile(r"datetime\.datetime\((?:[^()]|\([^()]*\))*\)"), "TIME"),
    (re.compile(r"\d[\d,.]*(?= (?:s|ms|rows/s)\b)"), "N"),
    (re.compile(r"[─\s]*─[─\s]*"), "\n─\n"),
    (re.compile(r"[ \t]+"), " "),
)


def comparable(text: str) -> str:
    """Return the text without times, speeds, folders and widths of columns, which differ from run to run."""
    for pattern, instead in _VARYING:
        text = pattern.sub(instead, text)
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def agrees(shown: str, printed: str) -> bool:
    """Whether the text of a page matches the printed text. `…` matches any text."""
    pattern = re.escape(comparable(shown)).replace("\n…\n", r"\n(?:.*\n)*?").replace("…", r"(?:.|\n)*?")
    return re.fullmatch(pattern, comparable(printed)) is not None


def rewrite(page: Path, block: Block, printed: str) -> None:
    """Replace the text of a block of the page by the printed text. Lines that are comparable stay as they are."""
    text = page.read_text("utf-8")
    assert text.count(block.text) == 1, f"{page.name}, line {block.line}: its text is not there exactly once"
    known = {comparable(line): line for line in block.text.splitlines()}
    lines = [known.get(comparable(line), line.rstrip()) for line in printed.splitlines()]
    page.write_text(text.replace(block.text, "\n".join(lines).rstrip() + "\n"), "utf-8")
