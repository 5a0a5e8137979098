"""The table of the aggregate functions that Rust computes: a row for each, with all that Python has to know of it.

`functions` has what users call. `protocol/tied.py` says of which functions the state depends on a type that it does not
show, because records are read without operators.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..values import dataclass


@dataclass(frozen=True, kw_only=True)
class AggregateRules:
    """What Python has to know of an aggregate function."""

    partials: tuple[str, ...] = ("",)
    """The columns of its partial values, as suffixes of its output."""
    is_partial: bool = False
    """Whether its finished value is its partial value."""
    by_order: bool = False
    """Whether its value depends on the order of the rows."""
    has_parameter: bool = False
    """Whether its last argument is a number, which its state depends on."""


_MOMENTS = AggregateRules(partials=(".count", ".mean", ".m2"))

AGGREGATES = {
    "count": AggregateRules(is_partial=True),
    "sum": AggregateRules(is_partial=True),
    "min": AggregateRules(is_partial=True),
    "max": AggregateRules(is_partial=True),
    "mean": AggregateRules(partials=(".sum", ".count")),
    "first": AggregateRules(partials=("", ".set"), by_order=True),
    "last": AggregateRules(partials=("", ".set"), by_order=True),
    "min_by": AggregateRules(partials=("", ".by"), by_order=True),
    "max_by": AggregateRules(partials=("", ".by"), by_order=True),
    "earliest": AggregateRules(partials=("", ".by"), by_order=True),
    "var": _MOMENTS,
    "stddev": _MOMENTS,
    "approx_count_distinct": AggregateRules(has_parameter=True),
    "collect_set": AggregateRules(is_partial=True, by_order=True, has_parameter=True),
}
"""By the name in Rust. `earliest` is what sessions make of `first`; users do not call it."""


def any_by_order(functions: Iterable[str]) -> bool:
    """Whether the value of one of some functions depends on the order of the rows."""
    return any(AGGREGATES[function].by_order for function in functions)
