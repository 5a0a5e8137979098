"""Publishing: committed files are copied into the sink's own folder, under names made of version and part.

Idempotent: a name that is there is whole (the store's writes are), so it is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import CorruptState
from ..protocol.records import OutputFile
from ..store import ObjectMissing, Store


@dataclass(frozen=True)
class Place:
    """Where files are copied from and to. `both`: a store above both, which copies on its own side; None: there is none."""

    repository: Store
    sink: Store
    both: Store | None = None


def published_name(pipeline: str, sink: str, version: int, part: int, file: OutputFile) -> str:
    """The name that plain readers see; the same file always gets the same one."""
    return f"{file.suffix}{pipeline}-{sink}-{version:010d}-{part:05d}{file.extension}"


def publish_files(place: Place, files: Sequence[OutputFile], pipeline: str, sink: str, version: int) -> int:
    """Copies those of a version's files that are not there yet; how many were copied. `files` in canonical order."""
    copied = 0
    for part, file in enumerate(files):
        name = published_name(pipeline, sink, version, part, file)
        if place.sink.stat(name) is None:
            _copy(place, file, name)
            copied += 1
    return copied


def _copy(place: Place, file: OutputFile, name: str) -> None:
    try:
        if place.both is None:
            place.sink.create(name, place.repository.get(file.name))
        else:
            place.both.copy(_key(place.both, place.repository, file.name), _key(place.both, place.sink, name))
    except ObjectMissing as error:
        raise CorruptState(
            f"publish `{file.name}` as {place.sink.uri}/{name}: a commit names it, and it is not there",
            hint="restore the object from a backup",
        ) from error


def _key(both: Store, below: Store, name: str) -> str:
    """The name in the store that holds both folders."""
    return f"{below.uri.removeprefix(both.uri).strip('/')}/{name}".lstrip("/")
