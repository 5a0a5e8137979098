"""Counts, names and version ranges as people read them: for the command line, the demo and Airflow tasks.

INVARIANT: only amounts get thousands separators. Numbers that identify (versions, keys, ids) are printed as one types
them.
"""

from __future__ import annotations

from collections.abc import Sequence

_MOST_RANGES = 6
"""How many ranges of versions a text names."""


def count_of(count: int, what: str, many: str | None = None) -> str:
    """Return a number with its noun. `many` is the plural, if it is not the singular with an s.

    >>> count_of(1, "file"), count_of(1000, "file"), count_of(0, "batch", "batches")
    ('1 file', '1,000 files', '0 batches')
    """
    return f"{count:,} {what if count == 1 else many or f'{what}s'}"


def noun_with_names(what: str, names: Sequence[str]) -> str:
    """Return names with their noun, which gets an s if there are several.

    >>> noun_with_names("operator", ["sums"]), noun_with_names("sink", ["a", "b", "c"])
    ('operator `sums`', 'sinks `a`, `b` and `c`')
    """
    return f"{what}{'s' if len(names) > 1 else ''} {listed_names(names)}"


def listed_names(names: Sequence[str]) -> str:
    """Return names in code style, the last two with "and".

    >>> listed_names(["a"]), listed_names(["a", "b", "c"])
    ('`a`', '`a`, `b` and `c`')
    """
    *rest, last = [f"`{name}`" for name in names]
    return f"{', '.join(rest)} and {last}" if rest else last


def version_ranges(versions: Sequence[int]) -> list[list[int]]:
    """Return version numbers as ranges, ascending: the first and the last version of each.

    >>> version_ranges([9, 5, 4, 6]), version_ranges([])
    ([[4, 6], [9, 9]], [])
    """
    spans: list[list[int]] = []
    for version in sorted(set(versions)):
        if spans and spans[-1][1] == version - 1:
            spans[-1][1] = version
        else:
            spans.append([version, version])
    return spans


def versions_of(versions: Sequence[int]) -> str:
    """Return version numbers as text: each once, ascending, as ranges. Of many ranges, the last ones are counted.

    >>> versions_of([4]), versions_of([9, 5, 4, 6]), versions_of([])
    ('version 4', 'versions 4–6, 9', 'no version')
    >>> versions_of(range(0, 100, 2))
    'versions 0, 2, 4, 6, 8, 10 and 44 more up to 98'
    """
    spans = version_ranges(versions)
    if not spans:
        return "no version"
    shown = spans if len(spans) <= _MOST_RANGES + 1 else spans[:_MOST_RANGES]
    text = ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in shown)
    rest = sum(last - first + 1 for first, last in spans[len(shown) :])
    text += f" and {rest:,} more up to {spans[-1][1]}" if rest else ""
    return f"version{'' if spans[0][0] == spans[-1][1] else 's'} {text}"
