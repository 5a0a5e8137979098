"""Counts as people read them, for whoever prints one: the command line, the demo, the tasks of Airflow."""

from __future__ import annotations


def count_of(count: int, what: str, many: str | None = None) -> str:
    """A number with its noun; `many` is the plural, where it is not made by an s.

    >>> count_of(1, "file"), count_of(1000, "file"), count_of(0, "batch", "batches")
    ('1 file', '1,000 files', '0 batches')
    """
    return f"{count:,} {what if count == 1 else many or f'{what}s'}"
