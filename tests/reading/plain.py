"""Values in the form of the recordings: exact, and the same for Spark's rows and for Arrow's."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

CORRUPT = "_corrupt_record"


def plain(value: Any) -> Any:
    """Return a value as JSON holds it: doubles and decimals as text, binary in hexadecimal digits."""
    if isinstance(value, bool) or value is None or isinstance(value, int | str):
        return value
    if isinstance(value, float):
        return f"double {value!r}"
    if isinstance(value, Decimal):
        return f"decimal {value:f}"
    if isinstance(value, bytes | bytearray):
        return f"binary {bytes(value).hex()}"
    if isinstance(value, datetime):
        return str(value.replace(microsecond=0)) + (
            f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
        )
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return [plain(one) for one in value]


def shown(value: Any) -> str:
    """Return JSON in one line."""
    return json.dumps(value, ensure_ascii=False)
