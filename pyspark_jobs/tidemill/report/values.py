"""Values of users as a report shows them: plain, short, and exact in JavaScript. Pure.

INVARIANT: the size of a value in a report has a bound, whatever the size of the value in the state.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..reading.explain import plain
from ..sinks import json_text

if TYPE_CHECKING:
    import pyarrow as pa

MOST_TEXT, MOST_ITEMS, MOST_DEPTH = 300, 20, 6
_EXACT = 2**53


def json_value(value: Any, depth: int = 0) -> Any:
    """Return a value for JSON. Long texts and lists end with `…`; integers beyond 2^53 become text.

    >>> json_value({"n": 2**60, "text": "a" * 301})["n"], len(json_value("a" * 301)), json_value(list(range(21)))[-1]
    ('1152921504606846976', 301, '… 1 more')
    """
    value = plain(value) if depth == 0 else value
    if isinstance(value, dict | list) and depth == MOST_DEPTH:
        return "…"
    if isinstance(value, dict):
        kept = {json_value(name): json_value(one, depth + 1) for name, one in list(value.items())[:MOST_ITEMS]}
        return kept if len(value) <= MOST_ITEMS else kept | {"…": f"{len(value) - MOST_ITEMS} more"}
    if isinstance(value, list):
        items = [json_value(one, depth + 1) for one in value[:MOST_ITEMS]]
        return items if len(value) <= MOST_ITEMS else [*items, f"… {len(value) - MOST_ITEMS} more"]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        return str(value)
    if isinstance(value, str) and len(value) > MOST_TEXT:
        return value[:MOST_TEXT] + "…"
    return value


def rows_for_json(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table for JSON. Columns that are null are left out of a row.

    The lines are split as bytes, because a text may have line ends that only Unicode knows.
    """
    return [json_value(json.loads(line, parse_float=_exact)) for line in json_text.rows_to_json(table).splitlines()]


def _exact(text: str) -> float | str:
    """Return a number with a fraction as a float, or as text if a float would round it.

    >>> _exact("0.1"), _exact("12345678901234567.123")
    (0.1, '12345678901234567.123')
    """
    number = float(text)
    return number if Decimal(repr(number)) == Decimal(text) else text
