"""A check that a store's conditional create works, made before the first write to it.

Some S3-compatible servers and proxies ignore `If-None-Match` and let every writer succeed, which would double data.
INVARIANT: the probe writes under a name of its own, and has deleted that object when it returns.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid

from ..errors import InvalidInput, StoreUnavailable, TidemillError
from .contract import ObjectMissing, Store
from .full import is_full

_lock = threading.Lock()
_probed: set[tuple[int, str]] = set()


_PAUSES_S = (0.1, 0.5, 2.0)
"""How long to wait before each retry of a probe that had no answer."""


def probe(store: Store) -> None:
    """Create one name twice with different content. Raises `InvalidInput` if the second create succeeds.

    It runs once for each process and URI, and again for a store that failed. A busy server is asked again, each time
    with a new name, because a request without an answer may still be carried out. CRASH: one small object `_probe-…`
    may remain.
    """
    key = (os.getpid(), store.uri)
    with _lock:
        if key in _probed:
            return
    for pause_s in _PAUSES_S:
        try:
            _probe_once(store)
            break
        except StoreUnavailable as error:
            if is_full(error):
                raise
            time.sleep(pause_s)
    else:
        _probe_once(store)
    with _lock:
        _probed.add(key)


def _probe_once(store: Store) -> None:
    name = f"_probe-{uuid.uuid4().hex}"
    try:
        _refuse_two_winners(store, name)
    finally:
        with contextlib.suppress(TidemillError):
            store.delete(name)


def _refuse_two_winners(store: Store, name: str) -> None:
    first, second = b"first", b"second"
    if not store.create(name, first) and not _has(store, name, first):
        raise _refusal(store, "the first create of a new name was refused")
    if store.create(name, second):
        raise _refusal(store, "a second create of the same name succeeded")
    found = store.get(name)
    if found != first:
        raise _refusal(store, f"a refused create left {found[:20]!r} under the name")


def _has(store: Store, name: str, data: bytes) -> bool:
    """Whether our create was refused by its own repetition: proxies on the way may send a request twice."""
    try:
        return store.get(name) == data
    except ObjectMissing:
        return False


def _refusal(store: Store, found: str) -> InvalidInput:
    return InvalidInput(
        f"probe `{store.uri}`: {found}; expected conditional create (`If-None-Match: *`) to let exactly "
        "one writer succeed",
        hint="use a store with conditional create; Tidemill has written nothing to this one",
    )
