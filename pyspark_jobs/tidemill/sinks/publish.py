"""Publishing: committed files are copied into the sink's own folder, under names made of version and part.

Idempotent: a name that is there is whole (the store's writes are), so it is left alone; one of another size is not
ours, and an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import CorruptState, InvalidInput
from ..protocol.records import OutputFile
from ..store import ObjectMissing, Store


def published_name(pipeline: str, sink: str, version: int, part: int, file: OutputFile) -> str:
    """The name that plain readers see; the same file always gets the same one."""
    return f"{file.suffix}{pipeline}-{sink}-{version:010d}-{part:05d}{file.extension}"


def publish_files(
    store: Store, sink: Store, files: Sequence[OutputFile], pipeline: str, name: str, version: int
) -> int:
    """Copies those of a version's files that are not there yet; how many were copied. `files` in canonical order."""
    copied = 0
    for part, file in enumerate(files):
        target = published_name(pipeline, name, version, part, file)
        there = sink.stat(target)
        if there is None:
            _copy(store, sink, file, target)
            copied += 1
        elif there.size != file.size:
            raise InvalidInput(
                f"publish version {version} of sink `{name}`: {sink.uri}/{target} has {there.size} bytes, "
                f"the committed file has {file.size}; another repository of a pipeline `{pipeline}` writes there",
                hint="give each repository a sink folder of its own; this version is committed and can be read",
            )
    return copied


def _copy(store: Store, sink: Store, file: OutputFile, target: str) -> None:
    try:
        sink.copy_from(store, file.name, target)
    except ObjectMissing as error:
        raise CorruptState(
            f"publish `{file.name}` as {sink.uri}/{target}: a commit names it, and it is not there",
            hint="restore the object from a backup",
        ) from error
