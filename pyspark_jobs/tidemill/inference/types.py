"""What the values of one column are, and the type that all of them fit: for `schema_of`.

Texts are tried with the conversion that readers use. INVARIANT: a type is chosen only if every value was converted to
it, and only if it keeps every number exactly. No value is kept, except one for the note on a column of numbers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa

from .. import _native
from ..schema import to_arrow
from ..sources.text_format import Formats
from ..visible import visible

JsonShape: TypeAlias = "tuple[list[str], list[str], list[str], list[tuple[str, JsonShape]], JsonShape | None]"
"""What values of JSON are; see `_native.JsonShapes.next_shape`."""
WHOLE = "decimal(38,0)"
NUMBERS = ("int", "bigint", WHOLE, "double")
TIMES = ("date", "timestamp", "timestamp_ntz")
MOST_DIGITS = 38
_DOUBLE_DIGITS = 17
"""Enough digits to write any double so that reading gives the same double."""
_SAFE_EXPONENT = 290
"""Doubles keep all numbers of up to `sys.float_info.dig` digits with smaller powers of ten after them."""
_MOST_EXPONENT = 400
"""No double has a greater power of ten, or a smaller negative one, after its digits."""
_NUMBER = re.compile(r"[+-]?(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?", re.ASCII)
_SHOWN = 40
"""How many characters of a text a note shows."""
_NOT_FINITE = ("NaN", "Infinity", "-Infinity", "Inf", "-Inf")
_ZEROS = re.compile(r"[+-]?0\d+", re.ASCII)


def type_of(ddl: str) -> pa.DataType:
    """Return the type that DDL names."""
    return to_arrow(f"c {ddl}").field(0).type


class Texts:
    """Texts of one column. `left` are the types that all of them fit, of those that come into question."""

    def __init__(self, formats: Formats, candidates: Sequence[str]) -> None:
        self.count = 0
        self.left = list(candidates)
        self._formats = formats
        self._longest = 0
        self._digits = self._written = (0, 0)
        self._are_numbers = self._are_whole = self._are_finite = self._are_doubles = True
        self._has_number = self._has_exponent = self._has_zeros = False
        self._numbers, self._other = 0, ""

    def add(self, texts: Sequence[str]) -> None:
        """Look at further texts."""
        if not texts:
            return
        self.count += len(texts)
        self._longest = max(self._longest, *(len(text.strip()) for text in texts))
        if self._are_numbers:
            self._add_numbers(texts)
        else:
            self._count_numbers(texts)
        self.left = [ddl for ddl in self.left if self._fit(texts, ddl)]

    def number(self, name: str, notes: list[str]) -> str | None:
        """Return the type of numbers, or None if some text is no number."""
        if not self._are_numbers or not self._has_number:
            return None
        if self._has_zeros:
            notes.append(f"column `{name}` has numbers with leading zeros: string keeps them")
            return "string"
        for ddl in ("int", "bigint", WHOLE) if self._are_whole else ():
            if ddl in self.left:
                if ddl == WHOLE:
                    notes.append(f"column `{name}` has whole numbers beyond bigint: {WHOLE} has room for 38 digits")
                return ddl
        if self.fit_double and not self._are_whole:
            notes.append(self._fractions(name))
            return "double"
        decimal = self._decimal() if not self._are_whole and self._are_finite and WHOLE in self.left else None
        if decimal is not None:
            notes.append(f"column `{name}` has numbers that double would change: {decimal} keeps them exact")
            return decimal
        if self._are_finite:
            notes.append(f"column `{name}` has numbers of more than {MOST_DIGITS} digits: string keeps them")
        else:
            notes.append(
                f"column `{name}` has NaN or infinity, and numbers that double would change: string keeps both"
            )
        return "string"

    @property
    def odd_text(self) -> str | None:
        """A text that is no number, if most texts of the column are numbers."""
        return self._other if self._other and 2 * self._numbers > self.count else None

    @property
    def fit_double(self) -> bool:
        """Whether `double` keeps every number exactly: written with the fewest digits it is the same number again."""
        return self._are_doubles and "double" in self.left

    def time(self, name: str, notes: list[str]) -> str | None:
        """Return the type of dates and times, or None if the texts are something else."""
        if "date" in self.left and (self._formats.date is not None or self._longest <= len("2024-01-05")):
            return "date"
        if "timestamp" in self.left:
            if "timestamp_ntz" in self.left and self._formats.timestamp is None:
                notes.append(f"column `{name}` has times without an offset: they are in the time zone of the pipeline")
            return "timestamp"
        return "timestamp_ntz" if "timestamp_ntz" in self.left else None

    def _add_numbers(self, texts: Sequence[str]) -> None:
        for text in texts:
            found = _number(text)
            if found is None:
                self._are_whole = self._are_finite = False
                if text not in _NOT_FINITE:
                    self._are_numbers, self._other = False, self._other or text
                continue
            self._has_number = True
            self._numbers += 1
            self._has_zeros |= _ZEROS.fullmatch(text) is not None
            self._has_exponent |= found[3] is not None
            self._are_whole &= found[2] is None and found[3] is None
            digits, power = _scientific(found[1], found[2] or "", found[3] or "0")
            self._digits = _wider(self._digits, (max(0, len(digits) + power), max(0, -power)))
            self._written = _wider(self._written, (len(found[1].lstrip("0")), len(found[2] or "")))
            self._are_doubles = self._are_doubles and _is_double(digits, power)

    def _count_numbers(self, texts: Sequence[str]) -> None:
        """Count the numbers in a column of which it is known that it has other texts, too."""
        self._numbers += sum(_number(text) is not None for text in texts)

    def _decimal(self) -> str | None:
        """Return a decimal that holds all numbers, if possible with as many digits after the point as are written."""
        whole, least = self._digits
        for scale in (max(least, self._written[1]), least):
            if whole + scale <= MOST_DIGITS:
                return f"decimal({max(18, whole + scale)},{scale})"
        return None

    def _fractions(self, name: str) -> str:
        whole, scale = self._written
        precision = max(18, whole + scale)
        if self._has_exponent or not 0 < scale <= 6 or precision > MOST_DIGITS:
            return f"column `{name}` has fractions: double"
        digits = "one digit" if scale == 1 else f"up to {scale} digits"
        return f"column `{name}` has {digits} after the point: decimal({precision},{scale}) keeps amounts exact"

    def _fit(self, texts: Sequence[str], ddl: str) -> bool:
        schema = pa.schema([pa.field("c", type_of(ddl))])
        _, misfits = _native.values_of_texts(list(texts), schema, self._formats, "UTC")
        return not misfits


def _number(text: str) -> re.Match[str] | None:
    """Return the parts of a number: digits before and after the point, and the exponent."""
    found = _NUMBER.fullmatch(text)
    return found if found is not None and (found[1] or found[2]) else None


def _scientific(whole: str, fraction: str, exponent: str) -> tuple[str, int]:
    """Return a number without its sign as digits and the power of ten after them, both 0 for zero.

    A power far beyond that of any type is only roughly right, because it may have millions of digits.
    """
    digits = (whole + fraction).lstrip("0")
    stripped = digits.rstrip("0")
    if not stripped:
        return "", 0
    sign, places = (-1 if exponent.startswith("-") else 1), exponent.lstrip("+-0") or "0"
    power = sign * (int(places) if len(places) <= 18 else 10**18)
    return stripped, power - len(fraction) + len(digits) - len(stripped)


def _is_double(digits: str, power: int) -> bool:
    """Return whether the double nearest to a number, written with the fewest digits, is this number."""
    if len(digits) <= sys.float_info.dig and abs(power) < _SAFE_EXPONENT:
        return True  # the common case, without a conversion
    if len(digits) > _DOUBLE_DIGITS or abs(power) > _MOST_EXPONENT:
        return False
    text = f"{digits or '0'}e{power}"
    return Decimal(repr(float(text))) == Decimal(text)


def _wider(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Return enough digits before and after the point for both."""
    return max(one[0], other[0]), max(one[1], other[1])


class Values:
    """Values of JSON under one name. Objects and arrays have what is in them."""

    def __init__(self, formats: Formats) -> None:
        self.fields: dict[str, Values] = {}
        self._formats = formats
        self._kinds: set[str] = set()
        self._numbers = Texts(formats, NUMBERS)
        self._texts = Texts(formats, TIMES)
        self._elements: Values | None = None

    def add(self, shape: JsonShape) -> None:
        """Look at further values."""
        kinds, numbers, texts, fields, elements = shape
        self._kinds.update(kinds)
        self._numbers.add(numbers)
        self._texts.add(texts)
        for name, one in fields:
            self.fields.setdefault(name, Values(self._formats)).add(one)
        if elements is not None:
            self._elements = self._elements or Values(self._formats)
            self._elements.add(elements)

    def type(self, name: str, notes: list[str]) -> pa.DataType:
        """Return the type that all values fit. `name` is for the notes."""
        kinds = self._kinds - {"null", "no text"}
        if self._numbers.count or "not finite" in kinds:
            kinds = kinds - {"not finite"} | {"number"}
        if self._texts.count or "no text" in self._kinds:
            kinds = kinds | {"text"}
        if "no text" in self._kinds:
            notes.append(f"column `{name}` has halves of surrogate pairs, which are no text: such records are rejected")
        if len(kinds) > 1:
            notes.append(f"column `{name}` has values of several kinds: string keeps their text")
            return pa.string()
        match next(iter(kinds), None):
            case "boolean":
                return pa.bool_()
            case "number":
                return type_of(self._number(name, notes))
            case "text":
                return type_of((None if "no text" in self._kinds else self._texts.time(name, notes)) or "string")
            case "array":
                return pa.list_((self._elements or Values(self._formats)).type(f"{name}.element", notes))
            case "object":
                return self._object(name, notes)
            case "deep":
                notes.append(f"column `{name}` is nested deeper than types can be: string keeps its text")
                return pa.string()
        notes.append(f"column `{name}` has no values: string is a guess")
        return pa.string()

    def _number(self, name: str, notes: list[str]) -> str:
        if "not finite" not in self._kinds:
            return self._numbers.number(name, notes) or "string"
        if self._numbers.fit_double:
            return "double"
        notes.append(f"column `{name}` has NaN or infinity, and numbers that double would change: string keeps both")
        return "string"

    def _object(self, name: str, notes: list[str]) -> pa.DataType:
        members = [
            pa.field(key, one.type(f"{name}.{visible(key)}", notes))
            for key, one in declarable(self.fields, f"{name}.", notes).items()
        ]
        if not members:
            notes.append(f"column `{name}` has empty objects only: string is a guess")
            return pa.string()
        return pa.struct(members)


def text_type(texts: Texts, name: str, notes: list[str], explained: Collection[str] = ()) -> pa.DataType:
    """Return the narrowest type that all texts of a CSV column fit. An odd text that is `explained` has no note."""
    if not texts.count:
        notes.append(f"column `{name}` has no values: string is a guess")
        return pa.string()
    if "boolean" in texts.left:
        return pa.bool_()
    found = texts.number(name, notes) or texts.time(name, notes)
    if found is None and texts.odd_text is not None and texts.odd_text not in explained:
        shown = visible(texts.odd_text if len(texts.odd_text) <= _SHOWN else texts.odd_text[:_SHOWN] + "…")
        notes.append(
            f"column `{name}` has numbers, and texts such as `{shown}`: string keeps both; if the text stands for no "
            "value, declare it as nullValue, and if it is an error, the type of the numbers"
        )
    return type_of(found or "string")


def declarable(
    columns: Mapping[str, Values], path: str, notes: list[str], reserved: Sequence[str] = ()
) -> dict[str, Values]:
    """Return the columns that a schema can have: each with a name, and no two names that differ by case alone."""
    kept: dict[str, str] = {}
    for name in columns:
        reason = why_not(name, kept, reserved)
        if reason is None:
            kept[name.lower()] = name
        else:
            notes.append(f"column `{path}{visible(name)}` cannot be declared: {reason}")
    return {name: columns[name] for name in kept.values()}


def why_not(name: str, kept: Mapping[str, str], reserved: Sequence[str]) -> str | None:
    """Return why a name cannot be declared beside others; `kept` has these by their lower case."""
    if not name:
        return "its name is empty"
    if name in reserved:
        return "its name is reserved"
    if name.lower() in kept:
        return f"column names are case-insensitive, and there is `{visible(kept[name.lower()])}` already"
    return None
