"""Finds Pythons of other versions on this machine: on `PATH`, or installed by pyenv.

A command on `PATH` may be a shim that only prints an error, so each one found is run before it is returned.
`python -m tests.interpreters 3.12` prints the path of one, or says what to install.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def interpreter(version: str) -> str | None:
    """Return a Python of a version such as "3.12", or None."""
    named = shutil.which(f"python{version}")
    installed = sorted(str(path) for path in Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for place in filter(None, [named, *installed]):
        asked = subprocess.run(
            [place, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            check=False,
            capture_output=True,
            text=True,
        )
        if asked.returncode == 0 and asked.stdout.strip() == version:
            return place
    return None


def lacking(version: str) -> str:
    """Return what to do if there is no Python of a version."""
    return f"there is no Python {version}: install it so that python{version} is on PATH"


if __name__ == "__main__":
    sys.exit(print(found) if (found := interpreter(sys.argv[1])) else lacking(sys.argv[1]))
