"""The check that a store's conditional create holds, made before the first write to it.

Some S3 look-alikes and proxies ignore `If-None-Match` and let every writer win, which would double data. INVARIANT:
what the probe writes is under a name of its own and is gone when it returns.
"""

from __future__ import annotations

import contextlib
import os
import threading
import uuid

from ..errors import InvalidInput, TidemillError
from .contract import Store

_lock = threading.Lock()
_probed: set[tuple[int, str]] = set()


def probe(store: Store) -> None:
    """Creates one name twice with different content; `InvalidInput` if the second create succeeds.

    Once a process and URI; a store that failed is probed again. A crash leaves one small object `_probe-…`.
    """
    key = (os.getpid(), store.uri)
    with _lock:
        if key in _probed:
            return
    name = f"_probe-{uuid.uuid4().hex}"
    try:
        _refuse_two_winners(store, name)
    finally:
        with contextlib.suppress(TidemillError):
            store.delete(name)
    with _lock:
        _probed.add(key)


def _refuse_two_winners(store: Store, name: str) -> None:
    first, second = b"first", b"second"
    if not store.create(name, first):
        raise _refusal(store, "the first create of a new name was refused")
    if store.create(name, second):
        raise _refusal(store, "a second create of the same name succeeded")
    found = store.get(name)
    if found != first:
        raise _refusal(store, f"a refused create left {found[:20]!r} under the name")


def _refusal(store: Store, found: str) -> InvalidInput:
    return InvalidInput(
        f"probe `{store.uri}`: {found}; expected conditional create (`If-None-Match: *`) to let exactly "
        "one writer succeed",
        hint="use a store with conditional create; Tidemill has written nothing to this one",
    )
