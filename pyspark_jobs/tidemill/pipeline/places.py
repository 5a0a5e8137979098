"""Where a pipeline writes, checked before anything is written: the folders of its sinks and the names in them.

Decisions over paths, columns and the time zone; nothing is read. INVARIANT: only what writes asks here, so a repository
that was made before a check can still be opened and read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from ..errors import InvalidInput, TidemillError
from ..protocol.records import OutputFile
from ..schema import quoted
from ..sinks.contract import Published
from ..sinks.files import Parquet
from ..sinks.publish import public_name
from ..sources.listing import is_data
from ..store import folder_store
from .graph import Graph
from .nodes import Write

StorageOptions = Mapping[str, Mapping[str, Any]]


def check_places(pipeline: Graph, storage_options: StorageOptions) -> None:
    """`InvalidInput` for a sink whose files a source would take, and for folders by instants outside UTC."""
    for write in pipeline.sinks.values():
        _check_not_read(pipeline, write, storage_options)
        _check_partitions(pipeline, write)


def _check_not_read(pipeline: Graph, write: Write, storage_options: StorageOptions) -> None:
    """`InvalidInput` for a sink in a folder that is read: the pipeline would read what it wrote."""
    written = _place(write.sink, storage_options.get("sink"))
    for name, source in pipeline.sources.items():
        inner = _below(written, _place(source, storage_options.get("source")))
        recursive, pattern = getattr(source, "recursiveFileLookup", False), getattr(source, "pathGlobFilter", None)
        if inner is not None and is_data(inner + _file_name(pipeline, write), recursive, pattern):
            raise InvalidInput(
                f"sink `{write.name}` writes to `{os.fspath(write.sink.path)}`, {'below ' if inner else ''}the folder "
                f"that the source `{name}` reads",
                hint="give the sink a folder of its own",
            )


def _place(of: Any, options: Mapping[str, Any] | None) -> tuple[str, Any] | None:
    """The URI of the folder of a source or a sink, and the endpoint that is given for S3; None where it has no folder,
    or cannot be opened, which is told where it is."""
    path = getattr(of, "path", None)
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        return None
    try:
        uri = folder_store(os.fspath(path), options).uri
    except TidemillError:
        return None
    return uri, (options or {}).get("endpoint_url") if uri.startswith("s3://") else None


def _below(inner: tuple[str, Any] | None, outer: tuple[str, Any] | None) -> str | None:
    """The folders from `outer` to `inner` (`a/b/`), empty where they are one; None where `inner` lies elsewhere."""
    if inner is None or outer is None or inner[1] != outer[1]:
        return None
    folder, above = (f"{uri.rstrip('/')}/" for uri, _ in (inner, outer))
    return folder.removeprefix(above) if folder.startswith(above) else None


def _file_name(pipeline: Graph, write: Write) -> str:
    """What the first file of a sink is called."""
    file = OutputFile("", "", 0, 0, 0, 0, 0, extension=getattr(write.sink, "extension", ""))
    return public_name(Published(pipeline.name, "0" * 32, write.name, 0), 0, file)


def _check_partitions(pipeline: Graph, write: Write) -> None:
    """`InvalidInput` for folders by instants in a pipeline that is not in UTC.

    Readers take such names for times of their zone, where an hour comes twice in autumn.
    """
    by = write.sink.partitionBy if isinstance(write.sink, Parquet) else ()
    instants = [column for column in by if getattr(write.node.schema.field(column).type, "tz", None)]
    if instants and not _is_utc(pipeline.timeZone):
        statement = f"SELECT *, CAST({quoted(instants[0])} AS DATE) AS day FROM rows"
        raise InvalidInput(
            f"sink `{write.name}` is partitioned by `{instants[0]}`, a timestamp, and the pipeline's time zone is "
            f"{pipeline.timeZone}: what a folder's name means would depend on the zone of its reader",
            hint=f"partition by a date or a text: .sql({statement!r}), then partitionBy=['day']",
        )


def _is_utc(zone: str) -> bool:
    """Whether a zone is UTC at all times, whatever it is called: a time without a date has an offset there."""
    return time(tzinfo=ZoneInfo(zone)).utcoffset() == timedelta(0)
