"""Counts as people read them, for whoever prints one: the command line, the demo, the tasks of Airflow."""

from __future__ import annotations

from collections.abc import Sequence


def count_of(count: int, what: str, many: str | None = None) -> str:
    """A number with its noun; `many` is the plural, where it is not made by an s.

    >>> count_of(1, "file"), count_of(1000, "file"), count_of(0, "batch", "batches")
    ('1 file', '1,000 files', '0 batches')
    """
    return f"{count:,} {what if count == 1 else many or f'{what}s'}"


def versions_of(versions: Sequence[int]) -> str:
    """Versions, each once, ascending, neighbours drawn together.

    >>> versions_of([4]), versions_of([9, 5, 4, 6]), versions_of([])
    ('version 4', 'versions 4–6, 9', 'no version')
    """
    spans: list[list[int]] = []
    for version in sorted(set(versions)):
        if spans and spans[-1][1] == version - 1:
            spans[-1][1] = version
        else:
            spans.append([version, version])
    if not spans:
        return "no version"
    text = ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in spans)
    return f"version{'' if spans[0][0] == spans[-1][1] else 's'} {text}"
