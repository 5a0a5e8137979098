"""Conversion of text and JSON to typed values, as DuckDB SQL. CSV, JSON lines and partition folders share its rules.

The rules are strict: nothing is rounded to an integer, no date is guessed. INVARIANT: a value is either converted
exactly to its type, or its misfit is true.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from ..errors import InvalidInput
from ..schema import TIMESTAMP, TIMESTAMP_NTZ, literal, quoted, to_duckdb

MARK = "\x02number:"
"""The start of a JSON string that holds a number with more digits than a double has; see `json_lines`."""

_JAVA_PATTERN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']")
_STRPTIME = {
    "yyyy": "%Y", "uuuu": "%Y", "y": "%Y", "u": "%Y", "yy": "%y", "MM": "%m", "M": "%-m", "MMM": "%b", "MMMM": "%B",
    "dd": "%d", "d": "%-d", "DDD": "%j", "HH": "%H", "H": "%-H", "hh": "%I", "h": "%-I", "mm": "%M", "m": "%-M",
    "ss": "%S", "s": "%-S", "SSS": "%g", "SSSSSS": "%f", "SSSSSSSSS": "%n", "a": "%p", "E": "%a", "EEE": "%a",
    "EEEE": "%A", "X": "%z", "XX": "%z", "XXX": "%z", "x": "%z", "xx": "%z", "xxx": "%z", "Z": "%z", "VV": "%Z",
}  # fmt: skip
_BOUNDS = {
    pa.date32(): ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    TIMESTAMP: ("TIMESTAMPTZ '0001-01-01 00:00:00+00'", "TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'"),
    TIMESTAMP_NTZ: ("TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
}
_SPECIAL_FLOATS = ("NaN", "Infinity", "-Infinity", "+Infinity", "INF", "-INF", "+INF")


@dataclass(frozen=True)
class Formats:
    """The formats of dates and timestamps as `strptime` patterns. None means ISO."""

    date: str | None = None
    timestamp: str | None = None
    marked: bool = False
    """Whether JSON strings may begin with `MARK`."""


def strptime(pattern: str, option: str) -> str:
    """Return Spark's datetime pattern as a `strptime` pattern. Raises `InvalidInput` for unsupported letters."""
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
        raise InvalidInput(f"option `{option}` is {pattern!r}: the quote at character {position + 1} is not closed")
    return "".join(made)


@dataclass(frozen=True)
class Column:
    """A column to convert. `raw` is SQL for its text or JSON, NULL if it has none."""

    field: pa.Field
    raw: str


def text_columns(columns: Sequence[Column], source: str, formats: Formats, also: Sequence[str] = ()) -> Conversion:
    """Return the conversion of text to the columns' types. `source` follows FROM; the columns `also` are kept."""
    values = [text_value(f"r{i}", column.field.type, formats) for i, column in enumerate(columns)]
    misfits = [_misfit(f"r{i}", f"v{i}", column.field) for i, column in enumerate(columns)]
    return Conversion(columns, values, misfits, source, tuple(also))


def json_columns(columns: Sequence[Column], source: str, formats: Formats, also: Sequence[str] = ()) -> Conversion:
    """Return the conversion of JSON to the columns' types; otherwise as `text_columns`."""
    values, misfits = [], []
    for i, column in enumerate(columns):
        kind = column.field.type
        values.append(_json_value(f"r{i}", kind, formats))
        misfit = _misfit(f"r{i}", f"v{i}", column.field)
        if pt.is_nested(kind):
            inner = _json_misfit(f"r{i}", kind, formats)
            misfit = inner if column.field.nullable else f"(r{i} IS NULL OR {inner})"
        misfits.append(misfit)
    return Conversion(columns, values, misfits, source, tuple(also))


@dataclass(frozen=True)
class Conversion:
    """SQL for typed columns. It computes each raw value once, then the typed value, then whether that fits."""

    columns: Sequence[Column]
    values: Sequence[str]
    misfits: Sequence[str]
    source: str
    also: tuple[str, ...]

    def select(self) -> str:
        """Return SQL for: whether any column does not fit, the kept columns, the values.

        Read the result by position, because users may give columns any name."""
        made = [f"v{i} AS {quoted(column.field.name)}" for i, column in enumerate(self.columns)]
        misfit = f"({' OR '.join(self.misfits)}) AS misfit"
        return f"SELECT {', '.join([misfit, *self.also, *made])} FROM {self._made()}"

    def explain(self) -> str:
        """Return SQL for: `f<i>`, whether column i does not fit; `r<i>`, its text; and the kept columns."""
        flags = [f"{misfit} AS f{i}" for i, misfit in enumerate(self.misfits)]
        texts = [f"CAST(r{i} AS VARCHAR) AS r{i}" for i in range(len(self.columns))]
        return f"SELECT {', '.join([*flags, *texts, *self.also])} FROM {self._made()}"

    def _made(self) -> str:
        raw = ", ".join([*(f"{column.raw} AS r{i}" for i, column in enumerate(self.columns)), *self.also])
        values = ", ".join([*(f"r{i}, {value} AS v{i}" for i, value in enumerate(self.values)), *self.also])
        return f"(SELECT {values} FROM (SELECT {raw} FROM {self.source}))"


def _misfit(raw: str, value: str, field: pa.Field) -> str:
    """Return SQL for whether `raw` has a value but the converted `value` is null or outside the bounds of its type."""
    kind, none = field.type, "true" if not field.nullable else "false"
    if pt.is_string(kind):
        return f"({raw} IS NULL AND {none})"
    found = f"{value} IS NULL"
    if pt.is_temporal(kind):  # years 1 to 9999, which Spark, Python and Parquet readers support; not `infinity`
        least, greatest = _BOUNDS[kind]
        found = f"({value} BETWEEN {least} AND {greatest}) IS NOT TRUE"
    return f"(CASE WHEN {raw} IS NULL THEN {none} ELSE {found} END)"


# Text


def text_value(text: str, kind: pa.DataType, formats: Formats) -> str:
    """Return SQL for the expression `text` as `kind`, NULL if it does not fit."""
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
    pattern = formats.date if pt.is_date(kind) else formats.timestamp
    if pattern is None:
        return f"instant_of_text({text})" if kind == TIMESTAMP else f"TRY_CAST({text} AS {name})"
    given = f"regexp_replace({text}, 'Z$', '+00')" if "%z" in pattern else text
    parsed = f"try_strptime({given}, {literal(pattern)})"
    if kind == TIMESTAMP and "%z" not in pattern.lower():
        return f"instant_of_wall({parsed})"
    return f"CAST({parsed} AS {name})"


# JSON: `value` is an expression of type JSON, NULL for a missing field and for null.


def json_structure(schema: pa.Schema | pa.DataType) -> str:
    """Return SQL for the structure with which `from_json` returns each field of an object as JSON."""
    return literal(json.dumps({field.name: "JSON" for field in schema}, ensure_ascii=False))


def _json_value(value: str, kind: pa.DataType, formats: Formats, depth: int = 0) -> str:
    if pt.is_list(kind):
        item = f"x{depth}"
        inner = _json_value(item, kind.value_type, formats, depth + 1)
        return f"list_transform({_items(value)}, lambda {item}: {inner})"
    if pt.is_map(kind):
        entry = f"x{depth}"
        key = text_value(f"{entry}.key", kind.key_type, formats)
        inner = _json_value(f"{entry}.value", kind.item_type, formats, depth + 1)
        pairs = f"list_transform({_entries(value)}, lambda {entry}: {{'key': {key}, 'value': {inner}}})"
        # TRY, because distinct texts may be equal keys once they are converted.
        return f"CAST(TRY(map_from_entries({pairs})) AS {to_duckdb(kind)})"
    if pt.is_struct(kind):
        made = [f"{quoted(f.name)} := {_json_value(_member(value, kind, f), f.type, formats, depth)}" for f in kind]
        return f"CASE WHEN {_begins(value, '{')} THEN struct_pack({', '.join(made)}) END"
    return _scalar(value, kind, formats)


def _json_misfit(value: str, kind: pa.DataType, formats: Formats, depth: int = 0) -> str:
    """SQL: whether the JSON in `value` is there and does not fit `kind`, or something in it does not."""
    if pt.is_list(kind):
        item = f"x{depth}"
        inner = _json_misfit(item, kind.value_type, formats, depth + 1)
        return _nested_misfit(value, "[", f"list_bool_or(list_transform({_items(value)}, lambda {item}: {inner}))")
    if pt.is_map(kind):
        entry = f"x{depth}"
        key_field = pa.field("key", kind.key_type, nullable=False)
        key = _misfit(f"{entry}.key", text_value(f"{entry}.key", kind.key_type, formats), key_field)
        inner = _json_misfit(f"{entry}.value", kind.item_type, formats, depth + 1)
        found = f"list_bool_or(list_transform({_entries(value)}, lambda {entry}: {key} OR {inner}))"
        return _nested_misfit(value, "{", f"({_json_value(value, kind, formats, depth)} IS NULL) OR {found}")
    if pt.is_struct(kind):
        inner = " OR ".join(_json_misfit(_member(value, kind, f), f.type, formats, depth) for f in kind)
        return _nested_misfit(value, "{", inner)
    return _misfit(value, f"({_scalar(value, kind, formats)})", pa.field("value", kind))


def _scalar(value: str, kind: pa.DataType, formats: Formats) -> str:
    raw, text = f"CAST({value} AS VARCHAR)", f"({value}->>'$')"
    name = to_duckdb(kind)
    if pt.is_integer(kind):
        if formats.marked:  # a long number is a marked string
            raw = (
                f"(CASE WHEN starts_with({text}, {literal(MARK)}) THEN substr({text}, {len(MARK) + 1}) ELSE {raw} END)"
            )
        return f"CASE WHEN regexp_full_match({raw}, '-?[0-9]+') THEN TRY_CAST({raw} AS {name}) END"
    if pt.is_boolean(kind):
        return f"CASE {raw} WHEN 'true' THEN true WHEN 'false' THEN false END"
    if formats.marked:
        text = f"(CASE WHEN starts_with({text}, {literal(MARK)}) THEN substr({text}, {len(MARK) + 1}) ELSE {text} END)"
    if pt.is_string(kind):
        return text
    is_text = f"starts_with({raw}, '\"')"
    if pt.is_floating(kind):
        quote = "" if formats.marked else '"'
        special = ", ".join(f"'{quote}{name}{quote}'" for name in _SPECIAL_FLOATS)
        if formats.marked:
            is_text = f"({is_text} AND NOT starts_with({value}->>'$', {literal(MARK)}))"
            raw = text
        named = f"WHEN {raw} IN ({special}) THEN trim({raw}, '\"')"
        return f"TRY_CAST(CASE WHEN NOT {is_text} THEN {raw} {named} END AS {name})"
    if pt.is_decimal(kind):
        return f"TRY_CAST({text} AS {name})"
    if pt.is_binary(kind):
        return f"TRY(from_base64(CASE WHEN {is_text} THEN {text} END))"
    written = text_value(f"CASE WHEN {is_text} THEN {text} END", kind, formats)
    if kind == TIMESTAMP:  # a bare number is seconds since the epoch, as in Spark
        seconds = f"CASE WHEN regexp_full_match({raw}, '-?[0-9]+') THEN TRY_CAST({raw} AS BIGINT) END"
        return f"CASE WHEN {is_text} THEN {written} ELSE TRY(make_timestamptz({seconds} * 1000000)) END"
    return written


def _items(value: str) -> str:
    return f"from_json(CASE WHEN {_begins(value, '[')} THEN {value} END, '[\"JSON\"]')"


def _entries(value: str) -> str:
    given = f"CASE WHEN {_begins(value, '{')} THEN {value} END"
    return f"map_entries(TRY(from_json({given}, '\"MAP(VARCHAR, JSON)\"')))"


def _member(value: str, kind: pa.DataType, field: pa.Field) -> str:
    return f"from_json({value}, {json_structure(kind)}).{quoted(field.name)}"


def _begins(value: str, character: str) -> str:
    return f"starts_with(CAST({value} AS VARCHAR), '{character}')"


def _nested_misfit(value: str, opening: str, found: str) -> str:
    return f"({value} IS NOT NULL AND (NOT {_begins(value, opening)} OR coalesce({found}, false)))"
