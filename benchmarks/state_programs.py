"""The two programs that `state_core.py` drives: the engine's in Rust, and the JVM's.

A program reads a command and a number from each line, and answers with a line of `name=value`. Times are nanoseconds of
CPU time of its thread.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

import pyspark

ROOT = Path(__file__).parent.parent
JARS = f"{Path(pyspark.__file__).parent}/jars/*"


class Program(AbstractContextManager["Program"]):
    """A process that measures on command."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def ask(self, command: str, number: int = 0) -> dict[str, float]:
        """Send a command; return the answer. Whole numbers are `int`, so 64-bit digests are exact."""
        assert self._process.stdin is not None
        print(command, number, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args} ended; its output is above")
        pairs = (pair.split("=") for pair in line.split())
        return {name: float(value) if "." in value else int(value) for name, value in pairs}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def build_ours() -> Path:
    """Compile the benchmark of native/core; return the program."""
    command = ["cargo", "bench", "--quiet", "--locked", "--workspace", "--bench", "state", "--no-run"]
    made = subprocess.run(
        [*command, "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found = [json.loads(line) for line in made.splitlines()]
    (program,) = [one["executable"] for one in found if one.get("executable")]
    return Path(program)


def build_jvm(folder: Path) -> bool:
    """Compile the JVM's program into `folder`; return False if there is no `javac`."""
    if shutil.which("javac") is None:
        return False
    source = ROOT / "benchmarks" / "jvm" / "StatePeer.java"
    subprocess.run(["javac", "-cp", JARS, "-d", str(folder), str(source)], check=True)
    return True


def jvm_command(folder: Path, heap: str, keys: int, rows: int, kind: str = "number") -> list[str]:
    """Return the command line of the JVM's program."""
    options = [f"-Xmx{heap}", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", f"{folder}:{JARS}"]
    return ["java", *options, "StatePeer", str(keys), str(rows), kind]
