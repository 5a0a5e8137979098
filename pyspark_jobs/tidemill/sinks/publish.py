"""Publishing: committed files are copied into the sink's own folder, under names made of version and part.

Idempotent: a name that is there is whole (the store's writes are), so it is left alone. What a disk of this machine
gives is compared with the commit before it is published; an object store checks its own copies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from ..errors import CorruptState, InvalidInput, StoreUnavailable
from ..protocol.records import OutputFile, digest
from ..store import ObjectMissing, Store
from .contract import Publication


def publish_files(store: Store, folder: Store, files: Sequence[OutputFile], whose: Publication) -> int:
    """Copies those of a version's files that are not there yet; how many were copied. `files` in canonical order."""
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
    """Errors say which sink it is, and that the version itself is committed."""
    try:
        yield
    except (InvalidInput, StoreUnavailable) as error:
        what = f"publish version {whose.version} of sink `{whose.sink}`, which is committed"
        hint = error.hint or "correct the cause; the next run publishes the version"
        raise type(error)(f"{what}: {error.message}", hint=hint) from error


def are_published(folder: Store, files: Sequence[OutputFile], whose: Publication) -> bool:
    """Whether all of a version's files are there."""
    return all(folder.stat(public_name(whose, part, file)) is not None for part, file in enumerate(files))


def public_name(whose: Publication, part: int, file: OutputFile) -> str:
    """The name that plain readers see: the same for the same file, and no other repository's."""
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
    """`data` if it is what the commit says of `file`, else `CorruptState`: readers of the folder would not notice."""
    for word, found, expected in (("checksum", digest(data), file.checksum), ("size", len(data), file.size)):
        if found != expected:
            raise CorruptState(
                f"{what}: found {word} {found}, but the commit records {expected}",
                hint="restore the object from a backup; nothing is repaired silently",
            )
    return data
