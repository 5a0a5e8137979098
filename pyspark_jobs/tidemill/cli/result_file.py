"""`--result-file`: one JSON object, written completely at the end of a command, to a path or a store.

CRASH: the command removes the file of an earlier call first. A command that dies leaves no file, never a stale one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, StoreUnavailable, TidemillError
from ..secret_names import check_no_secrets

if TYPE_CHECKING:
    from ..store import Store


def write_result_file(path: str, data: bytes, storage_options: Mapping[str, Any]) -> None:
    """Write `data` to `path`, a file or a URI, completely or not at all."""
    check_no_secrets(path, "--result-file")
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
        with contextlib.suppress(OSError):
            os.remove(part)
        raise _failed("write", path, error, len(data)) from error


def remove(path: str, storage_options: Mapping[str, Any]) -> None:
    """Remove the file at `path`, if there is one, and check that it can be written."""
    check_no_secrets(path, "--result-file")
    if "://" in path:
        store, name = _in_store(path, storage_options)
        store.delete(name)
        return
    part = f"{path}.{os.getpid()}.part"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
        with open(part, "wb"):  # a folder that is missing or cannot be written is an error before the work
            pass
        os.remove(part)
    except OSError as error:
        raise _failed("write", path, error) from error


def _in_store(uri: str, storage_options: Mapping[str, Any]) -> tuple[Store, str]:
    from ..store import open_store

    folder, _, name = uri.rpartition("/")
    return open_store(folder, storage_options.get("root")), name


def _failed(what: str, path: str, error: OSError, size: int | None = None) -> TidemillError:
    from ..store import full

    message = f"cannot {what} the result file `{path}`: {error.strerror}"
    advice = full.advice(error.errno)
    if advice is None:
        return InvalidInput(message)
    return StoreUnavailable(message + full.space(error.errno, path, size), hint=advice)
