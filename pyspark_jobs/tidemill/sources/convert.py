"""Text and JSON to typed values, as DuckDB SQL: the strict rules that CSV, JSON lines and partition folders share.

A value that does not fit gives NULL, and `…_misfit` says so; nothing is rounded to an integer, no date is guessed.
INVARIANT: for every value either the conversion is exact to its type, or the misfit is true.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from ..errors import InvalidInput
from ..schema import TIMESTAMP, literal, quoted, to_duckdb

MARK = "\x02number:"
"""Begins a JSON string that stands for a number with more digits than a double has (see `json_lines`)."""

_JAVA_PATTERN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
_STRPTIME = {
    "yyyy": "%Y", "uuuu": "%Y", "y": "%Y", "u": "%Y", "yy": "%y", "MM": "%m", "M": "%-m", "MMM": "%b", "MMMM": "%B",
    "dd": "%d", "d": "%-d", "DDD": "%j", "HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M",
    "ss": "%S", "s": "%-S", "SSS": "%g", "SSSSSS": "%f", "SSSSSSSSS": "%n", "a": "%p", "E": "%a", "EEE": "%a",
    "EEEE": "%A", "X": "%z", "XX": "%z", "XXX": "%z", "x": "%z", "xx": "%z", "xxx": "%z", "Z": "%z", "VV": "%Z",
}  # fmt: skip
_SPECIAL_FLOATS = ("NaN", "Infinity", "-Infinity", "+Infinity", "INF", "-INF", "+INF")


@dataclass(frozen=True)
class Formats:
    """How dates and timestamps are written, as `strptime` patterns; None: ISO."""

    date: str | None = None
    timestamp: str | None = None
    marked: bool = False
    """Whether strings in JSON may carry `MARK`."""


def strptime(pattern: str, option: str) -> str:
    """Spark's datetime pattern as one of `strptime`; `InvalidInput` names the letters that have no counterpart."""
    if "%" in pattern:
        return pattern
    made, position = [], 0
    for match in _JAVA_PATTERN.finditer(pattern):
        if match.start() != position:
            break
        position = match.end()
        if match[1] is not None:
            made.append(match[1].replace("''", "'").replace("%", "%%") or "'")
        elif match[2] is None:
            made.append(match[0])
        elif match[0] in _STRPTIME:
            made.append(_STRPTIME[match[0]])
        else:
            raise InvalidInput(
                f"option `{option}` is {pattern!r}: the letters `{match[0]}` are not supported",
                hint="use letters such as yyyy MM dd HH mm ss SSS XXX, or a strptime pattern such as %Y-%m-%d",
            )
    if position != len(pattern):
        raise InvalidInput(f"option `{option}` is {pattern!r}: a quote at character {position + 1} does not end")
    return "".join(made)


# Text


def text_value(text: str, kind: pa.DataType, formats: Formats) -> str:
    """SQL: the expression `text` as `kind`, NULL where it does not fit."""
    name = to_duckdb(kind)
    if pt.is_string(kind):
        return text
    if pt.is_binary(kind):
        return f"encode({text})"
    if pt.is_integer(kind):
        return f"CASE WHEN regexp_full_match({text}, '\\s*[+-]?[0-9]+\\s*') THEN TRY_CAST({text} AS {name}) END"
    if pt.is_floating(kind) or pt.is_decimal(kind):
        return f"CASE WHEN NOT contains({text}, '_') THEN TRY_CAST({text} AS {name}) END"
    if pt.is_boolean(kind):
        return f"CASE lower(trim({text})) WHEN 'true' THEN true WHEN 'false' THEN false END"
    return _time_value(text, kind, formats)


def text_misfit(text: str, kind: pa.DataType, formats: Formats) -> str:
    """SQL: whether the expression `text` is there and does not fit `kind`."""
    if pt.is_string(kind) or pt.is_binary(kind):
        return "false"
    return f"({text} IS NOT NULL AND ({text_value(text, kind, formats)}) IS NULL)"


def _time_value(text: str, kind: pa.DataType, formats: Formats) -> str:
    """Years 1 to 9999: that is what Spark, Python and Parquet readers all know. Keeps `infinity` out."""
    name = to_duckdb(kind)
    pattern = formats.date if pt.is_date(kind) else formats.timestamp
    value = f"TRY_CAST({text} AS {name})"
    if pattern is not None:
        given = f"regexp_replace({text}, 'Z$', '+00')" if "%z" in pattern else text
        value = f"CAST(try_strptime({given}, {literal(pattern)}) AS {name})"
    zone = "+00" if kind == TIMESTAMP else ""
    least, greatest = (
        ("0001-01-01", "9999-12-31")
        if pt.is_date(kind)
        else (f"0001-01-01 00:00:00{zone}", f"9999-12-31 23:59:59.999999{zone}")
    )
    return f"CASE WHEN {value} BETWEEN {name} '{least}' AND {name} '{greatest}' THEN {value} END"


# JSON: `json` is an expression of type JSON, NULL for a missing field and for null.


def json_value(value: str, kind: pa.DataType, formats: Formats, depth: int = 0) -> str:
    """SQL: the JSON expression `value` as `kind`, NULL where it does not fit."""
    if pt.is_list(kind):
        item = f"x{depth}"
        inner = json_value(item, kind.value_type, formats, depth + 1)
        return f"list_transform({_items(value)}, lambda {item}: {inner})"
    if pt.is_map(kind):
        entry = f"x{depth}"
        key = text_value(f"{entry}.key", kind.key_type, formats)
        inner = json_value(f"{entry}.value", kind.item_type, formats, depth + 1)
        pairs = f"list_transform({_entries(value)}, lambda {entry}: {{'key': {key}, 'value': {inner}}})"
        return f"CAST(map_from_entries({pairs}) AS {to_duckdb(kind)})"
    if pt.is_struct(kind):
        made = ", ".join(
            f"{quoted(f.name)} := {json_value(_member(value, kind, f), f.type, formats, depth)}" for f in kind
        )
        return f"CASE WHEN {_begins(value, '{')} THEN struct_pack({made}) END"
    return _scalar(value, kind, formats)


def json_misfit(value: str, kind: pa.DataType, formats: Formats, depth: int = 0) -> str:
    """SQL: whether the JSON expression `value` is there and does not fit `kind`, or something in it does not."""
    if pt.is_string(kind):
        return "false"
    if pt.is_list(kind):
        item = f"x{depth}"
        inner = json_misfit(item, kind.value_type, formats, depth + 1)
        return _nested_misfit(value, "[", f"list_bool_or(list_transform({_items(value)}, lambda {item}: {inner}))")
    if pt.is_map(kind):
        entry = f"x{depth}"
        key = text_misfit(f"{entry}.key", kind.key_type, formats)
        inner = json_misfit(f"{entry}.value", kind.item_type, formats, depth + 1)
        found = f"list_bool_or(list_transform({_entries(value)}, lambda {entry}: {key} OR {inner}))"
        return _nested_misfit(value, "{", found)
    if pt.is_struct(kind):
        found = " OR ".join(json_misfit(_member(value, kind, f), f.type, formats, depth) for f in kind)
        return _nested_misfit(value, "{", found)
    return f"({value} IS NOT NULL AND ({_scalar(value, kind, formats)}) IS NULL)"


def json_structure(schema: pa.Schema | pa.DataType) -> str:
    """SQL: the structure for `from_json` that gives each field of an object as JSON."""
    return literal(json.dumps({field.name: "JSON" for field in schema}, ensure_ascii=False))


def _scalar(value: str, kind: pa.DataType, formats: Formats) -> str:
    raw, text = f"CAST({value} AS VARCHAR)", f"({value}->>'$')"
    is_text = f"starts_with({raw}, '\"')"
    number = f"CASE WHEN NOT {is_text} THEN {raw} END"
    if formats.marked:
        number = f"CASE WHEN NOT {is_text} THEN {raw} WHEN starts_with({text}, {literal(MARK)}) THEN {_bare(text)} END"
        text = _bare(text)
    if pt.is_string(kind):
        return text
    if pt.is_integer(kind):
        return f"CASE WHEN regexp_full_match({raw}, '-?[0-9]+') THEN TRY_CAST({raw} AS {to_duckdb(kind)}) END"
    if pt.is_floating(kind):
        special = ", ".join(literal(name) for name in _SPECIAL_FLOATS)
        return f"TRY_CAST(CASE WHEN {text} IN ({special}) THEN {text} ELSE {number} END AS {to_duckdb(kind)})"
    if pt.is_decimal(kind):
        return text_value(text, kind, formats)
    if pt.is_boolean(kind):
        return f"CASE {raw} WHEN 'true' THEN true WHEN 'false' THEN false END"
    quoted_text = f"CASE WHEN {is_text} THEN {text} END"
    if pt.is_binary(kind):
        return f"TRY(from_base64({quoted_text}))"
    written = text_value(quoted_text, kind, formats)
    if kind == TIMESTAMP:  # a bare number is seconds since the epoch, as in Spark
        return f"CASE WHEN {is_text} THEN {written} ELSE TRY(make_timestamptz(TRY_CAST({raw} AS BIGINT) * 1000000)) END"
    return written


def _bare(text: str) -> str:
    return f"(CASE WHEN starts_with({text}, {literal(MARK)}) THEN substr({text}, {len(MARK) + 1}) ELSE {text} END)"


def _items(value: str) -> str:
    return f"from_json(CASE WHEN {_begins(value, '[')} THEN {value} END, '[\"JSON\"]')"


def _entries(value: str) -> str:
    return f"map_entries(from_json(CASE WHEN {_begins(value, '{')} THEN {value} END, '\"MAP(VARCHAR, JSON)\"'))"


def _member(value: str, kind: pa.DataType, field: pa.Field) -> str:
    return f"from_json({value}, {json_structure(kind)}).{quoted(field.name)}"


def _begins(value: str, character: str) -> str:
    return f"starts_with(CAST({value} AS VARCHAR), '{character}')"


def _nested_misfit(value: str, opening: str, found: str) -> str:
    return f"({value} IS NOT NULL AND (NOT {_begins(value, opening)} OR coalesce({found}, false)))"
