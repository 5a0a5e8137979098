"""Publishing: committed files are copied into the sink's own folder, under names made of version and part.

Idempotent: a name that is there is whole (the store's writes are), so it is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import CorruptState
from ..protocol.records import OutputFile
from ..store import ObjectMissing, Store


def published_name(pipeline: str, sink: str, version: int, part: int, file: OutputFile) -> str:
    """The name that plain readers see; the same file always gets the same one."""
    return f"{file.suffix}{pipeline}-{sink}-{version:010d}-{part:05d}{file.extension}"


def publish_files(
    store: Store, sink_store: Store, files: Sequence[OutputFile], pipeline: str, sink: str, version: int
) -> int:
    """Copies those of a version's files that are not there yet; how many were copied. `files` in canonical order."""
    copied = 0
    for part, file in enumerate(files):
        name = published_name(pipeline, sink, version, part, file)
        if sink_store.stat(name) is None:
            _copy(store, sink_store, file, name)
            copied += 1
    return copied


def _copy(store: Store, sink_store: Store, file: OutputFile, name: str) -> None:
    try:
        data = store.get(file.name)
    except ObjectMissing as error:
        raise CorruptState(
            f"publish `{file.name}` as {sink_store.uri}/{name}: a commit names it, and it is not there",
            hint="restore the object from a backup",
        ) from error
    sink_store.create(name, data)
