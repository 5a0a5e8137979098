"""The seam of a sink: rows to files and back, exactly. Publishing is the same for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True)
class Encoded:
    """One file of a sink. `suffix` is its partition folder (`country=UK/`), empty without partitions."""

    suffix: str
    extension: str
    data: bytes
    rows: int


class Sink(Protocol):
    """A folder of files of one form. Travels to the workers."""

    @property
    def kind(self) -> str:
        """The form: `parquet` or `json`."""

    @property
    def path(self) -> str:
        """The folder that plain readers read."""

    def check(self, schema: pa.Schema) -> None:
        """`InvalidInput` where rows of this schema cannot be written."""

    def encode(self, rows: pa.Table) -> list[Encoded]:
        """The rows as files; the same rows give the same bytes."""

    def decode(self, files: Sequence[tuple[bytes, str]], schema: pa.Schema) -> pa.Table:
        """The rows of files (content, suffix), in their order, exactly as they were encoded."""
