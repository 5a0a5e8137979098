"""The class-data archive: what the JVM learnt at one start of Spark, kept so that later starts skip it.

Made once, on purpose, by `make`; found by `session` by itself. INVARIANT: an archive is used only by the Java and the
Spark it was made with; the JVM checks it again, and goes on without it where it does not fit.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from .folder import private_folder
from .java import Java, find_java

if TYPE_CHECKING:
    from collections.abc import Iterable

_FIRST_JAVA = 13
"""Java that can write an archive when it ends."""
_SECONDS = 300


def existing(java: Java) -> Path | None:
    """The archive that was made for this Java and the installed Spark, if there is one."""
    path = _default_path(java)
    return path if path is not None and path.is_file() else None


def make(path: Path | None = None) -> Path:
    """Starts Spark once in a process of its own and writes the archive (about 70 MB), by default where sessions look.

    Takes half a minute and pays from the second start on. A crash leaves no archive. With a `path` of your own, start
    sessions with `spark.driver.extraJavaOptions=-XX:SharedArchiveFile=…`.
    """
    from .session import pyspark_version

    java = find_java(os.environ, pyspark_version())
    target = path or _default_path(java)
    if java.version < _FIRST_JAVA:
        raise InvalidInput(f"make a class-data archive: found Java {java.version}, expected {_FIRST_JAVA} or newer")
    if target is None:
        raise InvalidInput("make a class-data archive: the cache folder cannot be written", hint="give a path")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "archive.jsa"
        ran = subprocess.run(
            [sys.executable, "-m", __name__, str(made)], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if ran.returncode or not made.is_file():
            last: Iterable[str] = ran.stderr.strip().splitlines()[-1:]
            raise InvalidInput(f"make a class-data archive: Spark did not start or end as it should: {''.join(last)}")
        os.replace(made, target)
    return target


def _default_path(java: Java) -> Path | None:
    import pyspark

    folder = private_folder()
    made_with = f"{java.home} {java.version} {Path(pyspark.__file__).parent} {pyspark.__version__}"
    return folder / f"spark-{hashlib.sha256(made_with.encode()).hexdigest()[:16]}.jsa" if folder else None


def _record(path: str) -> None:
    """In the process of its own: what a batch does to Spark, then an orderly end, at which the JVM writes `path`."""
    from .session import start_context
    from .spark import SparkEngine
    from .warmup import Warmup

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
