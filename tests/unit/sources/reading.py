"""Reads sources for tests: writes files into a folder, and returns rows and rejects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidemill.sources.contract import Block, ReadContext
from tidemill.sources.files import Files
from tidemill.sources.text_format import TextLimits


def small_buffers(monkeypatch: pytest.MonkeyPatch, buffer_bytes: int) -> None:
    """Make the readers of text take so many bytes at once."""
    defaults = TextLimits.__init__.__defaults__
    assert defaults is not None
    monkeypatch.setattr(TextLimits.__init__, "__defaults__", (defaults[0], buffer_bytes))


def blocks(source: Files, block_rows: int = 1000, context: ReadContext | None = None) -> list[Block]:
    """Return every block of every file of a source."""
    splits = source.splits(source.look("source"))
    return [block for split in splits for block in source.read(split, block_rows, context or ReadContext())]


def rows(found: Sequence[Block]) -> list[dict[str, Any]]:
    """Return the rows of blocks, including hidden columns."""
    return [row for block in found for row in block.rows.to_pylist()]


def values(found: Sequence[Block]) -> list[tuple[Any, ...]]:
    """Return the rows of blocks as tuples, without hidden columns."""
    return [tuple(v for k, v in row.items() if k not in ("_row", "_metadata")) for row in rows(found)]


def rejects(found: Sequence[Block]) -> list[dict[str, Any]]:
    """Return the rejects of blocks."""
    tables = [block.rejects for block in found if block.rejects is not None]
    return pa.concat_tables(tables).to_pylist() if tables else []


def file(folder: Path, name: str, content: str | bytes) -> Path:
    """Write a file and return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
