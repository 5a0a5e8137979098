"""A source of CSV files."""

from __future__ import annotations

from pathlib import Path

from tidemill.sources.files import Files


def csv_source(folder: Path, schema: str, **options: object) -> Files:
    return Files(folder, format="csv", schema=schema, **options)
