"""`--result-file`: one JSON object, written whole at the end of a command, at a path or in a store.

CRASH: a file of an earlier call is removed first, so that a command which dies leaves none, not another's.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput

if TYPE_CHECKING:
    from ..store import Store


def write(path: str, data: bytes, storage_options: Mapping[str, Any]) -> None:
    """`data` at `path`, a file or a URI, whole or not at all."""
    if "://" in path:
        store, name = _in_store(path, storage_options)
        store.put(name, data)
        return
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "wb") as file:
            file.write(data)
        os.replace(part, path)
    except OSError as error:
        raise _failed("write", path, error) from error


def remove(path: str, storage_options: Mapping[str, Any]) -> None:
    """Nothing at `path` any more."""
    if "://" in path:
        store, name = _in_store(path, storage_options)
        store.delete(name)
        return
    try:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
    except OSError as error:
        raise _failed("remove", path, error) from error


def _in_store(uri: str, storage_options: Mapping[str, Any]) -> tuple[Store, str]:
    from ..store import open_store

    folder, _, name = uri.rpartition("/")
    return open_store(folder, storage_options.get("root")), name


def _failed(what: str, path: str, error: OSError) -> InvalidInput:
    return InvalidInput(f"{what} the result file `{path}`: {error.strerror}")
