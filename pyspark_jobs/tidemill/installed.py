"""Which version of Tidemill is installed."""

from __future__ import annotations

import functools
import importlib.metadata

UNKNOWN = "unknown"


@functools.cache
def version_of_tidemill() -> str:
    """Return the installed version, or `UNKNOWN` if Tidemill runs from a source folder."""
    try:
        return importlib.metadata.version("tidemill")
    except importlib.metadata.PackageNotFoundError:
        return UNKNOWN
