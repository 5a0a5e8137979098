"""The hint to the newest version, of a branch or of a `StateStore`: overwritten at every commit, by whoever comes last.

It is never believed, but it is written after its version's record, which is never deleted: a hint whose version has no
record tells of a loss.
"""

from __future__ import annotations

import contextlib
import json

from .. import names
from ..errors import TidemillError
from ..store import ObjectMissing, Store


def read(store: Store, name: str) -> int:
    """The version that the hint `name` tells, −1 where it is missing or garbage."""
    try:
        version = json.loads(store.get(name))["version"]
    except (ObjectMissing, ValueError, TypeError, KeyError, RecursionError):
        return -1
    return version if type(version) is int and 0 <= version <= names.LAST_NUMBER else -1


def write(store: Store, name: str, version: int) -> None:
    """Writes the hint `name`. One that cannot be written is no error: it may be as old as it likes."""
    with contextlib.suppress(TidemillError):
        store.put_hint(name, json.dumps({"version": version}).encode())
