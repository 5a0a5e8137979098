"""All cases, by name: each file of `cases_…` adds its own."""

from __future__ import annotations

from tests.oracle import cases_aggregate, cases_deduplicate, cases_processor, cases_window
from tests.oracle.case import Case

CASES: dict[str, Case] = {
    case.name: case
    for case in [*cases_deduplicate.CASES, *cases_aggregate.CASES, *cases_window.CASES, *cases_processor.CASES]
}
