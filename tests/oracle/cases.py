"""All cases, by name: each file of `cases_…` adds its own."""

from __future__ import annotations

from tests.oracle import (
    cases_aggregate,
    cases_carts,
    cases_chain,
    cases_chain_functions,
    cases_deduplicate,
    cases_distinct,
    cases_groups,
    cases_key_time,
    cases_names,
    cases_nested,
    cases_pandas_types,
    cases_processor,
    cases_processor_composite,
    cases_processor_rows,
    cases_processor_types,
    cases_session,
    cases_track,
    cases_union,
    cases_window,
    cases_window_functions,
    cases_zone,
)
from tests.oracle.case import Case

_FILES = (
    cases_deduplicate,
    cases_aggregate,
    cases_window,
    cases_window_functions,
    cases_groups,
    cases_processor,
    cases_processor_types,
    cases_processor_rows,
    cases_processor_composite,
    cases_session,
    cases_distinct,
    cases_chain,
    cases_chain_functions,
    cases_union,
    cases_key_time,
    cases_names,
    cases_nested,
    cases_pandas_types,
    cases_track,
    cases_zone,
    cases_carts,
)

CASES: dict[str, Case] = {case.name: case for file in _FILES for case in file.CASES}
