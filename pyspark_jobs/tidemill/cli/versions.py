"""`tidemill --version --verbose`: what a report of a defect should say about the machine.

INVARIANT: it names versions only: no path, no setting, no variable of the environment.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("pyspark", "pyarrow", "duckdb", "boto3", "apache-airflow", "pandas")
_JAVA_SECONDS = 20


def lines(verbose: bool) -> Iterator[str]:
    """Yield the version of Tidemill, and with `verbose` those of what it runs on."""
    yield f"tidemill {version('tidemill')}"
    if verbose:
        yield from _more()


def _more() -> Iterator[str]:
    yield f"{platform.python_implementation()} {platform.python_version()}"
    yield f"{platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} processors"
    yield f"Java {_java()}"
    for package in PACKAGES:
        yield f"{package} {_installed(package)}"


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "is not installed"


def _java() -> str:
    """Return the version of the Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if java is None:
        return "was not found"
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "does not start"
    first = next((line for line in (done.stderr + done.stdout).splitlines() if '"' in line), "")
    return first.partition('"')[2].partition('"')[0] or "does not say its version"
