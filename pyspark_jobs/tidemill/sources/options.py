"""The options of `Files`, with Spark's names: which values and formats each accepts, and its default.

INVARIANT: an unknown option, or one that does not fit the format, is an error; no option is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..clock import now_ms
from ..errors import InvalidInput
from ..spelling import unknown
from ..units import check_unit, size_bytes, time_ms, whole_number
from .convert import strptime
from .rejects import FAILFAST, PERMISSIVE

FORMATS = ("parquet", "csv", "json")
_TEXT = ("csv", "json")
_CSV = ("csv",)


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
    if len(text) == 1 and text not in "\r\n":
        return text
    raise InvalidInput(f"option `{name}` is {value!r}, expected one character")


def _mark(name: str, value: Any) -> str:
    text = _text(name, value)
    if len(text) <= 1 and text not in ("\r", "\n"):
        return text
    raise InvalidInput(f"option `{name}` is {value!r}, expected one character, or an empty string for none")


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
    return strptime(_text(name, value), name)


_KNOWN: dict[str, tuple[Callable[[str, Any], Any], Any, tuple[str, ...]]] = {
    "maxFilesPerTrigger": (_count, None, FORMATS),
    "maxBytesPerTrigger": (_size, None, FORMATS),
    "pathGlobFilter": (_text, None, FORMATS),
    "recursiveFileLookup": (_flag, False, FORMATS),
    "modifiedAfter": (_time, None, FORMATS),
    "mode": (_mode, FAILFAST, FORMATS),
    "start": (_start, "earliest", FORMATS),
    "order": (_among("name", "modified"), "name", FORMATS),
    "overwritten": (_among("error", "new", "ignore"), "error", FORMATS),
    "multiLine": (_flag, False, _TEXT),
    "dateFormat": (_pattern, None, _TEXT),
    "timestampFormat": (_pattern, None, _TEXT),
    "header": (_flag, False, _CSV),
    "sep": (_separator, ",", _CSV),
    "quote": (_mark, '"', _CSV),
    "escape": (_mark, '"', _CSV),
    "nullValue": (_text, "", _CSV),
}
_ALIASES = {"delimiter": "sep"}


def read_options(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return every known option with the value given, or its default."""
    values = {name: default for name, (_, default, _) in _KNOWN.items()}
    for written, value in given.items():
        name = _ALIASES.get(written, written)
        if name not in _KNOWN:
            raise unknown("option of tm.Files", written, [*_KNOWN, *_ALIASES, "path", "format", "schema"])
        read, _, kinds = _KNOWN[name]
        if kind not in kinds:
            raise InvalidInput(
                f"option `{written}` applies to {' and '.join(kinds)}, but this source has format {kind}"
            )
        values[name] = values[name] if value is None else read(written, value)
    return values
