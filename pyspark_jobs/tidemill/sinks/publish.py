"""Publishing: copies committed files into the sink's folder, under names made of version and part.

Publishing is idempotent. A file that exists under its name is skipped: it is complete, because the store writes whole
objects. Files from a local disk are compared with the commit first; object stores verify their own copies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from ..errors import CorruptState, InvalidInput, StoreUnavailable
from ..protocol.records import OutputFile, digest
from ..store import ObjectMissing, Store
from .contract import Publication


def publish_files(store: Store, folder: Store, files: Sequence[OutputFile], whose: Publication) -> int:
    """Copy the files of a version that are not published yet; return how many. `files` are in canonical order."""
    copied = 0
    with _errors_name_sink(whose):
        for part, file in enumerate(files):
            target = public_name(whose, part, file)
            if folder.stat(target) is None:
                _copy(store, folder, file, target)
                copied += 1
    return copied


@contextlib.contextmanager
def _errors_name_sink(whose: Publication) -> Iterator[None]:
    """Add to errors the sink's name, and that the version itself is committed."""
    try:
        yield
    except (InvalidInput, StoreUnavailable) as error:
        what = f"publish version {whose.version} of sink `{whose.sink}`, which is committed"
        hint = error.hint or "correct the cause; the next run publishes the version"
        raise type(error)(f"{what}: {error.message}", hint=hint) from error


def are_published(folder: Store, files: Sequence[OutputFile], whose: Publication) -> bool:
    """Return whether all files of a version are published."""
    return all(folder.stat(public_name(whose, part, file)) is not None for part, file in enumerate(files))


def public_name(whose: Publication, part: int, file: OutputFile) -> str:
    """Return the published name of a file: always the same, and different from names of other repositories."""
    name = f"{whose.pipeline}.{whose.sink}-{whose.version:010d}-{part:05d}-{whose.uuid[:8]}"
    return f"{file.suffix}{name}{file.extension}"


def _copy(store: Store, folder: Store, file: OutputFile, target: str) -> None:
    what = f"publish `{file.name}` as {folder.uri}/{target}"
    try:
        if store.local_path(file.name) is None:
            folder.copy_from(store, file.name, target)
        else:
            folder.put(target, _checked(store.get(file.name), file, what))
    except ObjectMissing as error:
        raise CorruptState(
            f"{what}: the object is missing, but a commit names it", hint="restore the object from a backup"
        ) from error


def _checked(data: bytes, file: OutputFile, what: str) -> bytes:
    """Return `data` if it matches the commit's record of `file`. Raises `CorruptState` otherwise."""
    for word, found, expected in (("checksum", digest(data), file.checksum), ("size", len(data), file.size)):
        if found != expected:
            raise CorruptState(
                f"{what}: found {word} {found}, but the commit records {expected}",
                hint="restore the object from a backup; nothing is repaired silently",
            )
    return data
