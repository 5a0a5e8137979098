"""Which version of Tidemill is installed."""

from __future__ import annotations

from . import _native


def version_of_tidemill() -> str:
    """Return the version, which the Rust core has compiled in. Reading package metadata takes longer than a batch."""
    return _native.__version__
