"""Stores: objects by name, in memory, in a folder or on S3, with one contract.

`open_store` chooses the backend by URI. No code outside of this package names a backend.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from ..errors import InvalidInput, repr_of
from ..secret_names import check_no_secrets
from . import s3_uri
from .at_once import run_both, side_by_side
from .contract import Enters, ListedObject, ObjectMissing, ObjectReplaced, Store
from .local import LocalStore
from .memory import open_memory
from .probe import probe

__all__ = [
    "Enters",
    "ListedObject",
    "ObjectMissing",
    "ObjectReplaced",
    "Store",
    "folder_store",
    "folder_uri",
    "is_lost_folder",
    "open_store",
    "probe",
    "relative_folder",
    "run_both",
    "side_by_side",
]

_S3 = ("s3", "s3a")
_OTHER_SCHEMES = ("gs", "gcs", "abfs", "abfss", "hdfs", "dbfs")
"""Schemes that Spark also accepts with one slash. Text that begins with one of them is not a path."""


def open_store(uri: str, options: Mapping[str, Any] | None = None) -> Store:
    """Return the store at `uri`: `s3://bucket/prefix`, `file:///dir`, a path, or `memory://name`. Touches nothing yet.

    `options` are for S3 and have boto3's names (`endpoint_url`, `region_name`, `addressing_style`, …). Missing options
    come from AWS's usual chain. Raises `InvalidInput` for an unknown URI or option.
    """
    if not isinstance(uri, str | os.PathLike):
        raise InvalidInput(f"open a store: found the root {repr_of(uri)}, expected a URI or a path")
    check_no_secrets(str(uri), "open a store")
    scheme, separator, rest = str(uri).partition("://")
    if not separator:
        word, colon, path = scheme.partition(":")
        if colon and path.startswith("/") and word in (*_S3, "memory"):
            raise InvalidInput(
                f"open the store `{uri}`: `{word}:/` has one slash, expected two", hint=f"use `{word}:/{path}`"
            )
        if colon and path.startswith("/") and word in _OTHER_SCHEMES:
            raise _not_known(uri, word)
        return _without(options, uri, _local(uri, _plain_path(uri)))
    if scheme in _S3:
        from .s3 import open_s3  # importing boto3 takes a fifth of a second

        return open_s3(rest, options or {})
    if scheme == "file":
        return _without(options, uri, _local(uri, unquote(rest)))
    if scheme == "memory":
        name, _, prefix = rest.strip("/").partition("/")
        store: Store = open_memory(name)
        return _without(options, uri, store.at(prefix) if prefix else store)
    if scheme == "fault":
        from .fault import find_fault

        return find_fault(rest)
    raise _not_known(uri, scheme)


def folder_store(path: str, s3_options: Mapping[str, Any] | None = None) -> Store:
    """Return the store of a user's source or sink folder, in any form that `open_store` accepts. Touches nothing yet.

    `s3_options` apply to `s3://…` only, because all sources (or all sinks) share one set of options.
    """
    scheme, separator, _ = str(path).partition("://")
    store = open_store(path, s3_options if separator and scheme in _S3 else None)
    return store.for_readers() if isinstance(store, LocalStore) else store


def is_lost_folder(path: str) -> bool:
    """Whether a folder is on a disk, and does not exist. A prefix on S3 exists whenever its bucket does."""
    if path.partition("://")[0] in _S3:
        return False
    store = folder_store(path)
    return isinstance(store, LocalStore) and not os.path.isdir(unquote(store.uri.removeprefix("file://")))


def folder_uri(path: str) -> str:
    """Return one URI for a folder, whatever form a user gives: `folder_store(path).uri` with symbolic links resolved.

    Opens nothing and needs no credentials. Raises `InvalidInput` for a form that `open_store` refuses.
    """
    check_no_secrets(str(path), "open a folder")
    scheme, separator, rest = str(path).partition("://")
    if separator and scheme in _S3:
        return s3_uri.uri_of(*s3_uri.parse_s3_uri(rest))
    uri = folder_store(path).uri
    if not uri.startswith("file://"):
        return uri
    real = os.path.realpath(unquote(uri.removeprefix("file://")))
    return f"file:///{real.lstrip('/')}"  # two slashes before a path are one


def relative_folder(path: str) -> str | None:
    """Return the absolute path of a relative folder, or None if `path` is absolute or a URI.

    INVARIANT: it is the folder that `open_store` opens.
    """
    plain = "" if "://" in path else _plain_path(path)
    return os.path.abspath(plain) if plain and not os.path.isabs(plain) else None


def _plain_path(uri: str) -> str:
    """Return the path in text without `://`: without `file:`, and with `~` replaced by the user's home."""
    return os.path.expanduser(str(uri).removeprefix("file:"))


def _local(uri: str, path: str) -> LocalStore:
    host, slash, _ = path.partition("/")
    is_url = str(uri).startswith("file://")
    if is_url and slash and host == "localhost":
        path = path.removeprefix(host)
    elif is_url and not path.startswith("/"):
        raise InvalidInput(
            f"open the store `{uri}`: expected `file:///dir` with three slashes; with two, `{host}` is a host"
        )
    if not path or "\0" in path:
        raise InvalidInput(f"open the store {uri!r}: expected the path of a folder")
    return LocalStore(os.path.abspath(path))


def _not_known(uri: str, scheme: str) -> InvalidInput:
    return InvalidInput(
        f"open the store `{uri}`: unknown scheme `{scheme}`; expected `s3://bucket/prefix`, `file:///dir` or a path"
    )


def _without(options: Mapping[str, Any] | None, uri: str, store: Store) -> Store:
    if options:
        raise InvalidInput(
            f"open the store `{uri}`: this store takes no options, found `{'`, `'.join(map(str, options))}`"
        )
    return store
