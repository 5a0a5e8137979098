"""Where the class-data archive is: the classes that the JVM loaded at one start of Spark, so that later starts skip it.

`make_archive` writes it; `session` uses it if it is there. INVARIANT: an archive is used only with the Java and the
Spark that it was made with. The JVM checks this again, and starts without the archive if it does not match.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from .folder import private_folder
from .java import Java


def existing(java: Java) -> Path | None:
    """Return the archive for this Java and the installed Spark, or None if none was made."""
    path = default_path(java)
    return path if path is not None and path.is_file() else None


def default_path(java: Java) -> Path | None:
    """Return where sessions look for the archive, or None if there is no private cache folder."""
    import pyspark

    folder = private_folder()
    made_with = f"{java.home} {java.version} {Path(pyspark.__file__).parent} {pyspark.__version__} without vector"
    return folder / f"spark-{hashlib.sha256(made_with.encode()).hexdigest()[:16]}.jsa" if folder else None
