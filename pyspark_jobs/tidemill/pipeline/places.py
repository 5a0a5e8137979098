"""Checks where a pipeline writes, before anything is written: the folders of its sinks, and the names in them.

The checks use paths, columns and the time zone, and resolve symbolic links. They cover Tidemill's own sources and sinks
only, because the path of another kind has an unknown meaning. INVARIANT: only verbs that write run these checks, so a
repository that is older than a check can still be opened and read.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from datetime import time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from ..errors import InvalidInput
from ..protocol.records import OutputFile
from ..schema import quoted
from ..secret_names import check_no_secrets
from ..sinks import asked
from ..sinks.asked import sink_folder
from ..sinks.contract import Owner
from ..sinks.partitions import escaped
from ..sinks.public import public_name
from ..sources import asked as sources
from ..sources.listing import is_data
from ..store import folder_uri
from .graph import Graph
from .nodes import Write

_OURS = ("refs/0000000000.json", "state/a/b/main/0-a.parquet", "output/a/main/0-a.json")
"""Files of a repository, one of each format."""
StorageOptions = Mapping[str, Mapping[str, Any]]


def check_places(pipeline: Graph, root: str, storage_options: StorageOptions) -> None:
    """Raise `InvalidInput` if a source would read the repository's or a sink's files, or a sink is in the repository.

    Partition folders by instants outside of UTC are `InvalidInput`, too.
    """
    _check_root(pipeline, root, storage_options)
    for write in pipeline.sinks.values():
        _check_outside(pipeline, write, root, storage_options)
        _check_not_read(pipeline, write, storage_options)
        _check_partitions(pipeline, write)


def check_branch_place(pipeline: Graph, prefix: str, root: str, storage_options: StorageOptions) -> None:
    """Raise `InvalidInput` for a folder below which a branch cannot have its sinks, such as a sink's own folder."""
    if not prefix.rstrip("/"):
        raise InvalidInput(f"publish_to is {prefix!r}, expected a folder or a URI", hint="give the branch a folder")
    check_no_secrets(prefix, "publish_to")
    options = storage_options.get("sink")
    writes = [write for write in pipeline.sinks.values() if sink_folder(write.sink) is not None]
    for write in writes:
        moved = dataclasses.replace(write, sink=asked.moved(write.sink, f"{prefix.rstrip('/')}/{write.name}"))
        _check_outside(pipeline, moved, root, storage_options)
        _check_not_read(pipeline, moved, storage_options)
        for other in writes:
            if overlap(moved.sink.path, other.sink.path, options):
                raise InvalidInput(
                    f"sink `{write.name}` of the branch would write to `{moved.sink.path}`; sink `{other.name}` of the "
                    f"pipeline writes to `{other.sink.path}`, so readers would find the rows of both",
                    hint="let the branch publish to another folder",
                )


def overlap(one: str, other: str, options: Mapping[str, Any] | None) -> bool:
    """Whether one of two folders is inside of the other one, or both are the same, however they are spelled."""
    places = _place(one, options), _place(other, options)
    return any(_below(*pair) is not None for pair in (places, places[::-1]))


def _check_root(pipeline: Graph, root: str, storage_options: StorageOptions) -> None:
    """Raise `InvalidInput` for a source that would read the files of the repository, or that is inside of it."""
    repository = _repository(pipeline, root, storage_options)
    for name, source in pipeline.sources.items():
        read_from = sources.source_folder(source)
        if read_from is None:
            continue
        read = _place(read_from.path, storage_options.get("source"))
        below = _below(repository, read)
        reads = below is not None and any(
            is_data(f"{below}{file}", read_from.selection.recursive, read_from.selection.pattern) for file in _OURS
        )
        if reads or _below(read, repository) is not None:
            raise InvalidInput(
                f"source `{name}` reads `{read_from.path}`, which {'contains' if reads else 'is inside of'} the "
                f"repository {repository[0]}",
                hint="give the root a folder of its own",
            )


def _check_outside(pipeline: Graph, write: Write, root: str, storage_options: StorageOptions) -> None:
    """Raise `InvalidInput` for a sink inside of the repository, where readers would also find other files."""
    if sink_folder(write.sink) is None:
        return
    repository = _repository(pipeline, root, storage_options)
    if _below(_place(write.sink.path, storage_options.get("sink")), repository) is not None:
        raise InvalidInput(
            f"sink `{write.name}` writes to `{write.sink.path}`, which is inside of the repository {repository[0]}",
            hint="give the sink a folder of its own",
        )


def _repository(pipeline: Graph, root: str, storage_options: StorageOptions) -> tuple[str, str]:
    above, endpoint = _place(root, storage_options.get("root"))
    return f"{above.rstrip('/')}/{pipeline.name}", endpoint


def _check_not_read(pipeline: Graph, write: Write, storage_options: StorageOptions) -> None:
    """Raise `InvalidInput` for a sink in a folder that a source reads: the pipeline would read its own output."""
    folder = sink_folder(write.sink)
    if folder is None:  # `foreachBatch` keeps its rows in the repository
        return
    written = _place(write.sink.path, storage_options.get("sink"))
    for name, source in pipeline.sources.items():
        read_from = sources.source_folder(source)
        if read_from is None:
            continue
        read = _place(read_from.path, storage_options.get("source"))
        inner = _inner(written, read, folder.partition_columns or ())
        where = inner + _file_name(pipeline, write, folder.extension) if inner is not None else None
        if where is not None and is_data(where, read_from.selection.recursive, read_from.selection.pattern):
            relation = "" if written == read else "below " if _below(written, read) else "above "
            raise InvalidInput(
                f"sink `{write.name}` writes to `{write.sink.path}`, {relation}the folder that source `{name}` reads",
                hint="give the sink a folder of its own",
            )


def _place(path: str, options: Mapping[str, Any] | None) -> tuple[str, str]:
    """Return a folder and, on S3, its endpoint. Two places are the same if both are equal."""
    uri = folder_uri(path)
    if not uri.startswith("s3://"):
        return uri, ""
    given = (options or {}).get("endpoint_url")
    of_environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return uri, str(given or of_environment or "").rstrip("/")


def _inner(written: tuple[str, str], read: tuple[str, str], partition_by: Sequence[str]) -> str | None:
    """Return the folders from the source's folder to the sink's files (`a/k=v/`), or None if they are elsewhere."""
    by = [f"{escaped(column)}=" for column in partition_by]
    below = _below(written, read)
    if below is not None:
        return below + "".join(f"{part}x/" for part in by)
    above = (_below(read, written) or "").split("/")[:-1]  # the source may read one of the sink's partition folders
    fits = 0 < len(above) <= len(by) and all(map(str.startswith, above, by))
    return "".join(f"{part}x/" for part in by[len(above) :]) if fits else None


def _below(inner: tuple[str, str], outer: tuple[str, str]) -> str | None:
    """Return the folders from `outer` to `inner` (`a/b/`), empty if they are equal, or None if `inner` is elsewhere."""
    folder, above = (f"{uri.rstrip('/')}/" for uri, _ in (inner, outer))
    return folder.removeprefix(above) if folder.startswith(above) and inner[1] == outer[1] else None


def _file_name(pipeline: Graph, write: Write, extension: str) -> str:
    """Return the name of the first file of a sink."""
    file = OutputFile("", "0" * 32, 0, 0, 0, 0, 0, extension=extension)
    return public_name(Owner(pipeline.name, "0" * 32, write.name), 0, 0, file)


def _check_partitions(pipeline: Graph, write: Write) -> None:
    """Raise `InvalidInput` for partition folders by instants, unless the pipeline is in UTC.

    Readers interpret such names in their own time zone, where an hour occurs twice in autumn.
    """
    folder = sink_folder(write.sink)
    by = () if folder is None else folder.partition_columns or ()
    instants = [column for column in by if getattr(write.node.schema.field(column).type, "tz", None)]
    if instants and not _is_utc(pipeline.timeZone):
        statement = f"SELECT *, CAST({quoted(instants[0])} AS DATE) AS day FROM rows"
        raise InvalidInput(
            f"sink `{write.name}` is partitioned by `{instants[0]}`, a timestamp, and the pipeline's time zone is "
            f"{pipeline.timeZone}: the meaning of a folder's name would depend on the reader's time zone",
            hint=f"partition by a date or a string: .sql({statement!r}), then partitionBy=['day']",
        )


def _is_utc(zone: str) -> bool:
    """Whether a zone is UTC at all times, under any name: only then a time without a date has an offset."""
    return time(tzinfo=ZoneInfo(zone)).utcoffset() == timedelta(0)
