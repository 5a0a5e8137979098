"""The hint to the newest version of a branch or of a `StateStore`. Every commit overwrites it.

INVARIANT: a hint only says where a search begins; it is never trusted, and it may be old. But a hint is written after
the record of its version, and records are never deleted. So a hint to a version without a record shows a loss.
"""

from __future__ import annotations

import contextlib
import json

from .. import names
from ..errors import TidemillError
from ..store import ObjectMissing, Store


def read_hint(store: Store, name: str) -> int:
    """Return the version that the hint `name` holds, or -1 if the hint is missing or invalid."""
    try:
        version = json.loads(store.get(name))["version"]
    except (ObjectMissing, ValueError, TypeError, KeyError, RecursionError):
        return -1
    return version if type(version) is int and 0 <= version <= names.LAST_NUMBER else -1


def write_hint(store: Store, name: str, version: int) -> None:
    """Write the hint `name`. A write that fails is not an error, because an old hint is harmless."""
    with contextlib.suppress(TidemillError):
        store.put_hint(name, json.dumps({"version": version}).encode())
