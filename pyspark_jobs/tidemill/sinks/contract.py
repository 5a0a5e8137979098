"""The protocol of a sink: it turns rows into files and back, exactly, and publishes committed files.

A new sink is one file with a class of this shape, and one entry in `sinks/__init__.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from ..protocol.records import OutputFile
from ..store import Store

Options = Mapping[str, Any] | None
"""`storage_options["sink"]`."""


@dataclass(frozen=True)
class Encoded:
    """One file of a sink. `suffix` is its partition folder (`country=UK/`), empty without partitions."""

    suffix: str
    extension: str
    data: bytes
    rows: int


@dataclass(frozen=True)
class Publication:
    """Identifies one publication: pipeline, uuid of its repository, sink and version."""

    pipeline: str
    uuid: str
    sink: str
    version: int


class Sink(Protocol):
    """A place for rows. It is sent to the workers by pickle."""

    @property
    def kind(self) -> str:
        """The kind that commits record: `parquet`, `json`."""

    @property
    def every_batch(self) -> bool:
        """Whether `publish` is also called for a batch without rows for this sink."""

    @property
    def path(self) -> str:
        """The place that readers use, such as a folder. Holds no secret."""

    def check(self, schema: pa.Schema) -> None:
        """Raise `InvalidInput` if rows of this schema cannot be written."""

    def encode(self, rows: pa.Table) -> list[Encoded]:
        """Return the rows as files. The same rows give the same bytes."""

    def decode(self, files: Sequence[tuple[bytes, str]], schema: pa.Schema) -> pa.Table:
        """Return the rows of files, given as (content, suffix), in order and exactly as they were encoded."""

    def check_place(self, options: Options) -> None:
        """Raise `InvalidInput` if `path` is not a valid place for this sink. Touches nothing."""

    def publish(self, store: Store, files: Sequence[OutputFile], whose: Publication, options: Options) -> int:
        """Publish the files of one version at `path`, and return how many were not published yet.

        `files` are in `store`, in canonical order. Calls are idempotent and follow the order of versions. CRASH: only
        the first files may be visible; the next run calls it again.
        """

    def is_published(self, store: Store, files: Sequence[OutputFile], whose: Publication, options: Options) -> bool:
        """Return whether `publish` has nothing left to do. Writes nothing."""
