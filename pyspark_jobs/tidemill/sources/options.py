"""The options of `Files`, with Spark's names: which values and formats each accepts.

INVARIANT: an unknown option, or one that does not fit the format, is an error; no option is ignored.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, ParamSpec

from .. import _native
from ..clock import now_ms
from ..errors import InvalidInput
from ..quarantine.rejects import FAILFAST, PERMISSIVE
from ..spelling import unknown
from ..units import check_unit, size_bytes, time_ms, whole_number
from .globs import check_glob

FORMATS = ("parquet", "csv", "json")
Format = Literal["parquet", "csv", "json"]
Mode = Literal["FAILFAST", "PERMISSIVE", "failfast", "permissive"]
"""Spark's modes. Other cases of letters are accepted, too, but not by type checkers."""
Flag = bool | Literal["true", "false", "True", "False", "TRUE", "FALSE"]
"""A switch, as a value of Python or as a text for Spark."""
P = ParamSpec("P")
_TEXT = ("csv", "json")
_CSV = ("csv",)
_JSON = ("json",)
_COLUMNS = ("csv", "parquet")


def known_options(init: Callable[P, None]) -> Callable[P, None]:
    """Make a constructor check which options are given, also those that are given with their default.

    An unknown option raises `InvalidInput`, which names the nearest known one. So does one that has no effect beside
    the others.
    """
    signature = inspect.signature(init)
    names = [name for name in signature.parameters if name != "self"]

    @functools.wraps(init)
    def checked(*args: P.args, **options: P.kwargs) -> None:
        for name in options:
            if name not in names:
                raise unknown("option of tm.Files", name, names)
        given = signature.bind_partial(*args, **options).arguments
        check_given({name: value for name, value in given.items() if value is not None})
        init(*args, **options)

    return checked


def check_given(given: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` if an option that was given has no effect: `given` has the arguments of a source."""
    kind = given.get("format", "parquet")
    if kind not in FORMATS:
        return  # the constructor names the formats
    for alias, name in ALIASES.items():
        if alias in given and name in given:
            raise InvalidInput(f"options `{alias}` and `{name}` are the same option, given twice", hint="give one")
    for written in given:
        kinds = _KNOWN[ALIASES.get(written, written)][1] if written not in _ARGUMENTS else FORMATS
        if kind not in kinds:
            raise InvalidInput(
                f"option `{written}` applies to {' and '.join(kinds)}, but this source has format {kind}"
            )
    if kind == "csv":
        _check_csv_given(given)
    if kind == "json" and "lineSep" in given and _flag("multiLine", given.get("multiLine", False)):
        raise InvalidInput("option `lineSep` has no effect with multiLine=True: values end where JSON ends them")


def _check_csv_given(given: Mapping[str, Any]) -> None:
    has_header = _flag("header", given.get("header", False))
    for name in ("enforceSchema", "extraColumns", "missingColumns"):
        if name in given and not has_header:
            raise InvalidInput(
                f"option `{name}` has no effect without a header: columns are matched by position",
                hint="declare header=True if the first record of each file names its columns",
            )
    if _flag("enforceSchema", given.get("enforceSchema", False)):
        for name in ("extraColumns", "missingColumns"):
            if name in given:
                raise InvalidInput(
                    f"option `{name}` has no effect with enforceSchema=True: columns are matched by position",
                    hint="leave out enforceSchema to match columns by the names in the header",
                )
    if given.get("quote") in ("", "\0"):
        for name in ("escape", "charToEscapeQuoteEscaping", "emptyValue"):
            if given.get(name):
                raise InvalidInput(f"option `{name}` has no effect without quotes, and quote={given['quote']!r}")


def check_dialect(separator: str, quote: str, escape: str, comment: str, line_end: str | None) -> None:
    """Raise `InvalidInput` if two characters of a CSV file are equal, so that a reader cannot tell which one is meant.

    Only the quote may be the escape, too. An empty text means that there is no such character.
    """
    marks = {"quote": quote, "escape": escape if quote and escape != quote else "", "comment": comment}
    for name, mark in marks.items():
        if mark and mark in separator:
            raise _ambiguous("sep", separator, name, mark)
        if mark and mark in (line_end or ""):
            raise _ambiguous("lineSep", line_end, name, mark)
    if comment and comment == quote:
        raise _ambiguous("comment", comment, "quote", quote)
    if line_end is not None and (line_end in separator or separator in line_end):
        raise _ambiguous("lineSep", line_end, "sep", separator)


def _ambiguous(one: str, text: str | None, other: str, mark: str) -> InvalidInput:
    shared = "is the same as" if text == mark else "shares a character with"
    hint = 'for files without escapes, declare escape=""' if other == "escape" else "declare another character"
    return InvalidInput(f"option `{one}` is {text!r}, which {shared} `{other}`, {mark!r}", hint=hint)


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise InvalidInput(f"option `{name}` is {value!r}, expected True or False")


def _count(name: str, value: Any) -> int:
    written = whole_number(value)
    given = value if written is None else written
    if isinstance(given, int) and not isinstance(given, bool) and given >= 1:
        return given
    raise InvalidInput(f"option `{name}` is {value!r}, expected a whole number of at least 1")


def _size(name: str, value: Any) -> int:
    try:
        size = size_bytes(value)
    except InvalidInput as error:
        raise InvalidInput(f"option `{name}` is {value!r}, expected a size such as `64 MiB`") from error
    return _count(name, size)


def _record_size(name: str, value: Any) -> int:
    size = _size(name, value)
    if size <= MOST_RECORD_BYTES:
        return size
    raise InvalidInput(f"option `{name}` is {value!r}, expected at most {MOST_RECORD_BYTES >> 20} MiB")


MOST_RECORD_BYTES = 512 * 1024**2
"""The greatest value of `maxRecordBytes`."""


def _time(name: str, value: Any) -> int:
    if isinstance(value, int):
        check_unit(value, f"option `{name}`", now_ms())
    try:
        return time_ms(value)
    except InvalidInput as error:
        raise InvalidInput(f"option `{name}`: {error.message}") from error


def _start(name: str, value: Any) -> Any:
    return value if value in ("earliest", "latest") else _time(name, value)


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise InvalidInput(f"option `{name}` is {value!r}, expected a string")


def _separator(name: str, value: Any) -> str:
    text = _text(name, value).replace("\\t", "\t")
    if text and not set(text) & set("\r\n"):
        return text
    raise InvalidInput(f"option `{name}` is {value!r}, expected one or more characters, none of them a line end")


def _mark(name: str, value: Any) -> str:
    text = _text(name, value)
    text = "" if text == "\0" else text
    if len(text) <= 1 and text.isascii() and text not in ("\r", "\n"):
        return text
    raise InvalidInput(f"option `{name}` is {value!r}, expected one ASCII character, or an empty string for none")


def _line_end(name: str, value: Any) -> str:
    text = _text(name, value).replace("\\n", "\n").replace("\\r", "\r")
    if 1 <= len(text) <= 2:
        return text
    raise InvalidInput(f"option `{name}` is {value!r}, expected one or two characters")


def _encoding(name: str, value: Any) -> str:
    found = _native.charset(_text(name, value))
    if found is not None:
        return found
    raise InvalidInput(
        f"option `{name}` is {value!r}, which is no known encoding",
        hint='for example "UTF-8", "UTF-16", "ISO-8859-1" or "windows-1252"',
    )


def _mode(name: str, value: Any) -> str:
    mode = _text(name, value).upper()
    if mode == "DROPMALFORMED":
        raise InvalidInput(
            f"option `{name}` is {value!r}, expected {FAILFAST} or {PERMISSIVE}: Tidemill never drops rows silently"
        )
    return _among(FAILFAST, PERMISSIVE)(name, mode)


def _among(*choices: str) -> Callable[[str, Any], str]:
    def read(name: str, value: Any) -> str:
        if value in choices:
            return str(value)
        raise InvalidInput(f"option `{name}` is {value!r}, expected {' or '.join(repr(c) for c in choices)}")

    return read


def _glob(name: str, value: Any) -> str:
    glob = _text(name, value)
    try:
        check_glob(glob)
    except InvalidInput as error:
        raise InvalidInput(f"option `{name}` is {glob!r}: {error.message}", hint=error.hint) from error
    return glob


def _pattern(name: str, value: Any) -> str:
    pattern = _text(name, value)
    try:
        _native.check_time_pattern(pattern)
    except InvalidInput as error:
        raise InvalidInput(f"option `{name}` is {pattern!r}: {error.message}", hint=error.hint) from error
    return pattern


_Read = Callable[[str, Any], Any]
_KNOWN: dict[str, tuple[_Read, tuple[str, ...]]] = {
    "maxFilesPerTrigger": (_count, FORMATS),
    "maxBytesPerTrigger": (_size, FORMATS),
    "pathGlobFilter": (_glob, FORMATS),
    "recursiveFileLookup": (_flag, FORMATS),
    "modifiedAfter": (_time, FORMATS),
    "mode": (_mode, FORMATS),
    "start": (_start, FORMATS),
    "order": (_among("name", "modified"), FORMATS),
    "overwritten": (_among("error", "new", "ignore"), FORMATS),
    "extraColumns": (_among("ignore", "fail"), _COLUMNS),
    "missingColumns": (_among("fail", "null"), _COLUMNS),
    "badFiles": (_among("fail", "quarantine"), FORMATS),
    "multiLine": (_flag, _TEXT),
    "encoding": (_encoding, _TEXT),
    "lineSep": (_line_end, _TEXT),
    "maxRecordBytes": (_record_size, _TEXT),
    "dateFormat": (_pattern, _TEXT),
    "timestampFormat": (_pattern, _TEXT),
    "timestampNTZFormat": (_pattern, _TEXT),
    "header": (_flag, _CSV),
    "enforceSchema": (_flag, _CSV),
    "sep": (_separator, _CSV),
    "quote": (_mark, _CSV),
    "escape": (_mark, _CSV),
    "charToEscapeQuoteEscaping": (_mark, _CSV),
    "comment": (_mark, _CSV),
    "nullValue": (_text, _CSV),
    "emptyValue": (_text, _CSV),
    "ignoreLeadingWhiteSpace": (_flag, _CSV),
    "ignoreTrailingWhiteSpace": (_flag, _CSV),
    "allowComments": (_flag, _JSON),
    "allowUnquotedFieldNames": (_flag, _JSON),
    "allowSingleQuotes": (_flag, _JSON),
    "allowNumericLeadingZeros": (_flag, _JSON),
    "allowBackslashEscapingAnyCharacter": (_flag, _JSON),
    "allowUnquotedControlChars": (_flag, _JSON),
    "allowNonNumericNumbers": (_flag, _JSON),
}
ALIASES = {"delimiter": "sep", "charset": "encoding"}
_ARGUMENTS = ("self", "path", "format", "schema")


def read_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are given, checked and in the type that the rest of the package uses.

    `given` has only known names that apply to the format. One that is None is not given.
    """
    values: dict[str, Any] = {}
    for written, value in given.items():
        if value is not None:
            name = ALIASES.get(written, written)
            values[name] = _KNOWN[name][0](written, value)
    return values
