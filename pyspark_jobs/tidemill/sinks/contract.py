"""The seam of a sink: rows to files and back, exactly, and how committed files become visible where readers look.

A sink that is new is one file with a class of this shape, and one line in `sinks/__init__.py`.
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
    """A place for rows. Travels to the workers."""

    @property
    def kind(self) -> str:
        """What it is, as commits record it: `parquet`, `json`."""

    @property
    def every_batch(self) -> bool:
        """Whether `publish` is also called for a batch that has no rows for it."""

    @property
    def path(self) -> str:
        """The place that plain readers read: a folder, or what else the kind makes of it. Holds no secret."""

    def check(self, schema: pa.Schema) -> None:
        """`InvalidInput` where rows of this schema cannot be written."""

    def encode(self, rows: pa.Table) -> list[Encoded]:
        """The rows as files; the same rows give the same bytes."""

    def decode(self, files: Sequence[tuple[bytes, str]], schema: pa.Schema) -> pa.Table:
        """The rows of files (content, suffix), in their order, exactly as they were encoded."""

    def check_place(self, options: Options) -> None:
        """`InvalidInput` where `path` can be no such place. Touches nothing."""

    def publish(self, store: Store, files: Sequence[OutputFile], whose: Publication, options: Options) -> int:
        """Makes one version's files (in canonical order, in `store`) visible at `path`; how many were not yet.

        Idempotent, and called in the order of versions. CRASH: what is visible then is a prefix; it is called again.
        """

    def is_published(self, store: Store, files: Sequence[OutputFile], whose: Publication, options: Options) -> bool:
        """Whether `publish` would find nothing to do. Writes nothing."""
