"""The options of `Files`, with Spark's names: which values and formats each accepts.

INVARIANT: an unknown option, or one that does not fit the format, is an error; no option is ignored.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec

from .. import _native
from ..clock import now_ms
from ..errors import InvalidInput
from ..spelling import unknown
from ..units import check_unit, size_bytes, time_ms, whole_number
from .rejects import FAILFAST, PERMISSIVE

FORMATS = ("parquet", "csv", "json")
P = ParamSpec("P")
_TEXT = ("csv", "json")
_CSV = ("csv",)
_JSON = ("json",)
_COLUMNS = ("csv", "parquet")


def known_options(init: Callable[P, None]) -> Callable[P, None]:
    """Make a constructor refuse an unknown option with `InvalidInput`, which names the nearest known one."""
    names = [name for name in inspect.signature(init).parameters if name != "self"]

    @functools.wraps(init)
    def checked(*args: P.args, **options: P.kwargs) -> None:
        for name in options:
            if name not in names:
                raise unknown("option of tm.Files", name, names)
        init(*args, **options)

    return checked


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


def _pattern(name: str, value: Any) -> str:
    pattern = _text(name, value)
    try:
        _native.check_time_pattern(pattern)
    except InvalidInput as error:
        raise InvalidInput(f"option `{name}` is {pattern!r}: {error.message}", hint=error.hint) from error
    return pattern


Read = Callable[[str, Any], Any]
_KNOWN: dict[str, tuple[Read, tuple[str, ...]]] = {
    "maxFilesPerTrigger": (_count, FORMATS),
    "maxBytesPerTrigger": (_size, FORMATS),
    "pathGlobFilter": (_text, FORMATS),
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


def read_options(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are given, checked and in the type that the rest of the package uses.

    `given` has only known names. One that is None is not given.
    """
    values: dict[str, Any] = {}
    for written, value in given.items():
        name = ALIASES.get(written, written)
        read, kinds = _KNOWN[name]
        if value is None:
            continue
        if kind not in kinds:
            raise InvalidInput(
                f"option `{written}` applies to {' and '.join(kinds)}, but this source has format {kind}"
            )
        values[name] = read(written, value)
    return values
