"""A source's folder and the objects in it, whatever their names: a folder, a single local file, or a prefix on S3.

INVARIANT: it lists and reads no object. `listing` says which of the objects are data.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..store import Enters, ListedObject, Store, folder_store


def open_folder(path: str, storage_options: Mapping[str, Any] | None = None) -> tuple[Store, str | None]:
    """Return the store of the folder, and the name of the file if `path` is a single local file."""
    store = folder_store(path, storage_options)
    inside = store.local_path("x")
    folder = None if inside is None else os.path.dirname(inside)
    if folder is not None and os.path.isfile(folder):
        return folder_store(os.path.dirname(folder)), os.path.basename(folder)
    return store, None


def entries_of(store: Store, only: str | None, enters: Enters | None = None) -> list[ListedObject] | None:
    """Return what the folder has, or the single file `only`. None: there is no such folder, or nothing has the prefix.

    `only` is the name of a single file, as `open_folder` returned it. `enters` decides which local folders are read.
    """
    if only is not None:
        entry = store.stat(only)
        return [entry] if entry is not None else []
    folder = store.local_path("x")
    entries = list(store.list("", enters=enters))
    if entries or (folder is not None and os.path.isdir(os.path.dirname(folder))):
        return entries
    return None
