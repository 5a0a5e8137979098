"""Making the class-data archive: starts Spark once in a process of its own, whose JVM writes the archive at its end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import InvalidInput
from .archive import default_path
from .java import find_java
from .session import pyspark_version, start_context
from .spark import SparkEngine
from .warmup import Warmup

FIRST_JAVA = 13
"""The first Java that can write an archive when it ends."""
_SECONDS = 300


def make(path: Path | None = None) -> Path:
    """Write the archive, about 70 MB, and return its path.

    This takes half a minute and pays from the second start of Spark on. Without a `path` the archive goes to the place
    where sessions look for it. With a `path` of your own, start sessions with
    `spark.driver.extraJavaOptions=-XX:SharedArchiveFile=…`. A crash leaves no archive.
    """
    java = find_java(os.environ, pyspark_version())
    target = path or default_path(java)
    if java.version < FIRST_JAVA:
        raise InvalidInput(f"make a class-data archive: found Java {java.version}, expected {FIRST_JAVA} or newer")
    if target is None:
        raise InvalidInput("make a class-data archive: the cache folder is not writable", hint="give a path")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "archive.jsa"
        ran = subprocess.run(
            [sys.executable, "-m", __name__, str(made)], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if ran.returncode or not made.is_file():
            last: Iterable[str] = ran.stderr.strip().splitlines()[-1:]
            raise InvalidInput(f"make a class-data archive: Spark failed to start or to end: {''.join(last)}")
        os.replace(made, target)
    return target


def _record(path: str) -> None:
    """Run what a batch does on Spark, then end the JVM in order, so that it writes `path`."""
    context = start_context({"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={path} -Xlog:disable"})
    engine = SparkEngine(context, 2)
    for work in (Warmup(1, 1), Warmup(2, 2)):
        engine.execute(work)
    gateway: Any = context._gateway
    context.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_SECONDS)


if __name__ == "__main__":
    _record(sys.argv[1])
