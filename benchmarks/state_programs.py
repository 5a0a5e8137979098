"""The two programs that `state_core.py` drives: ours in Rust and the JVM's. One line a question.

A program answers a command and a number by `name=value`; times in it are nanoseconds of its thread on a processor.
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
    """A process that measures what it is asked for."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def ask(self, command: str, number: int = 0) -> dict[str, float]:
        """What it found. Digests of 64 bits are exact: whole numbers come as `int`."""
        assert self._process.stdin is not None
        print(command, number, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args} ended: what it said stands above")
        pairs = (pair.split("=") for pair in line.split())
        return {name: float(value) if "." in value else int(value) for name, value in pairs}

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def build_ours() -> Path:
    """Compiles the benchmark of native/core; returns the program."""
    command = ["cargo", "bench", "--quiet", "--locked", "--workspace", "--bench", "state", "--no-run"]
    made = subprocess.run(
        [*command, "--message-format=json"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found = [json.loads(line) for line in made.splitlines()]
    (program,) = [one["executable"] for one in found if one.get("executable")]
    return Path(program)


def build_jvm(folder: Path) -> bool:
    """Compiles the JVM's program into `folder`; False where there is no compiler."""
    if shutil.which("javac") is None:
        return False
    source = ROOT / "benchmarks" / "jvm" / "StatePeer.java"
    subprocess.run(["javac", "-cp", JARS, "-d", str(folder), str(source)], check=True)
    return True


def jvm_command(folder: Path, heap: str, keys: int, rows: int, kind: str = "number") -> list[str]:
    """The command line of the JVM's program."""
    options = [f"-Xmx{heap}", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", f"{folder}:{JARS}"]
    return ["java", *options, "StatePeer", str(keys), str(rows), kind]
