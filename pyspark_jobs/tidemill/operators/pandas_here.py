"""Checks that the pandas version that functions over frames need is installed, without importing it."""

from __future__ import annotations

from ..errors import InvalidInput


def check_pandas(operator: str, method: str, instead: str) -> None:
    """Raise `InvalidInput` if pandas is not installed, or is a version that PySpark does not support.

    `method` is the method that needs pandas, `instead` an alternative that does not.
    """
    from importlib import metadata

    try:
        version = metadata.version("pandas")
    except metadata.PackageNotFoundError:
        raise InvalidInput(
            f"operator `{operator}`: {method} needs pandas, which is not installed",
            hint=f"install tidemill[pandas], or use {instead}, which does not need pandas",
        ) from None
    if int(version.split(".")[0]) != 2:
        raise InvalidInput(
            f"operator `{operator}`: {method} needs pandas 2, as PySpark does; found pandas {version}",
            hint='install "pandas<3"',
        )
