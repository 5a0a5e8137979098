"""Schemas as DDL text in Spark's form: `a int, b struct<x: double> not null`.

Reading and writing of text only. INVARIANT: `parse_ddl(to_ddl(schema))` returns the columns of `schema`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from ..errors import InvalidInput
from ..spelling import nearest
from .types import TIMESTAMP, TIMESTAMP_NTZ, check_column_names

_NAMED: dict[str, pa.DataType] = {
    "boolean": pa.bool_(), "bool": pa.bool_(),
    "tinyint": pa.int8(), "byte": pa.int8(),
    "smallint": pa.int16(), "short": pa.int16(),
    "int": pa.int32(), "integer": pa.int32(),
    "bigint": pa.int64(), "long": pa.int64(),
    "float": pa.float32(), "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(), "varchar": pa.string(), "char": pa.string(), "character": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP, "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
}  # fmt: skip
_WRITTEN = {
    _NAMED[name]: name
    for name in (
        "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date",
        "timestamp", "timestamp_ntz",
    )
}  # fmt: skip
_DECIMAL = ("decimal", "dec", "numeric")
_WITH_LENGTH = ("varchar", "char", "character")
_NAMES = (*_NAMED, *_DECIMAL, "array", "map", "struct")
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\w+|[<>(),:])")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse_ddl(text: str) -> list[pa.Field] | pa.DataType:
    """Return the columns of `text`, or a type if the text is only a type. A single `struct<…>` means its columns.

    Raises `InvalidInput` with the position of the error and, for an unknown type, the nearest one.
    """
    return _Reader(text).read()


def to_ddl(schema: pa.Schema) -> str:
    """Return the schema as DDL. `to_arrow` of it returns the same schema."""
    return ", ".join(_field_ddl(field, " ") for field in schema)


def type_ddl(kind: pa.DataType) -> str:
    """Return a canonical type as DDL: `array<struct<x: double>>`. Other types are written as Arrow writes them."""
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{type_ddl(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_ddl(kind.key_type)}, {type_ddl(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(_field_ddl(field, ': ') for field in kind)}>"
    if isinstance(kind, pa.BaseExtensionType):  # may not be hashable
        return str(kind)
    return _WRITTEN.get(kind, str(kind))


def _field_ddl(field: pa.Field, separator: str) -> str:
    name = field.name if _PLAIN_NAME.fullmatch(field.name) else "`" + field.name.replace("`", "``") + "`"
    return f"{name}{separator}{type_ddl(field.type)}{'' if field.nullable else ' not null'}"


class _Reader:
    """A recursive-descent parser of one text: tokens with their positions, and the index of the next one."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, int]] = []
        self._next = 0
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                position += len(text[position:]) - len(text[position:].lstrip())
                raise self._error(
                    f"found `{text[position]}`, expected a name; put a name with other characters in backquotes",
                    position,
                )
            self._tokens.append((match[1], match.start(1)))
            position = match.end()

    def read(self) -> list[pa.Field] | pa.DataType:
        if not self._tokens:
            return []
        if self._is_bare_type():
            kind = self._type("a type")
            self._end()
            return list(kind) if pa.types.is_struct(kind) else kind
        fields = self._fields(f"schema `{self._text}`")
        self._end()
        return fields

    def _is_bare_type(self) -> bool:
        """Return whether the text is only a type: a single name, or a type's name before `(` or `<`."""
        first = self._tokens[0][0].lower()
        if len(self._tokens) == 1:
            return not first.startswith("`")
        return self._tokens[1][0] in "(<" and first in _NAMES

    def _fields(self, where: str) -> list[pa.Field]:
        fields = [self._field()]
        while self._take(","):
            fields.append(self._field())
        check_column_names([field.name for field in fields], where)
        return fields

    def _field(self) -> pa.Field:
        token, position = self._advance("a column name")
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        if not name or not (token.startswith("`") or re.fullmatch(r"\w+", token)):
            raise self._error(f"found `{token}`, expected a column name", position)
        self._take(":")
        kind = self._type(f"the type of column `{name}`")
        nullable = True
        while (word := self._peek().lower()) in ("not", "comment"):
            self._next += 1
            if word == "not":
                self._expect_word("null")
                nullable = False
            else:
                comment, position = self._advance("a comment in single quotes")
                if not comment.startswith("'"):
                    raise self._error(f"found `{comment}`, expected a comment in single quotes", position)
        return pa.field(name, kind, nullable)

    def _type(self, expected: str) -> pa.DataType:
        token, position = self._advance(expected)
        word = token.lower()
        if word in _DECIMAL:
            return self._decimal(position)
        if word == "array":
            return pa.list_(self._within(lambda: self._type("the type of the elements")))
        if word == "map":
            return self._within(self._map)
        if word == "struct":
            return self._within(lambda: pa.struct([] if self._peek() == ">" else self._fields("struct<…>")))
        if word not in _NAMED:
            near = nearest(word, _NAMES)
            what = f"unknown type `{token}`" if re.fullmatch(r"\w+", token) else f"found `{token}`, expected {expected}"
            raise self._error(what + (f"; did you mean `{near}`?" if near else ""), position)
        if word in _WITH_LENGTH and self._take("("):
            self._number()
            self._expect_word(")")
        return _NAMED[word]

    def _within(self, inner: Callable[[], pa.DataType]) -> pa.DataType:
        self._expect_word("<")
        kind = inner()
        self._expect_word(">")
        return kind

    def _map(self) -> pa.DataType:
        key = self._type("the type of the keys")
        self._expect_word(",")
        return pa.map_(key, self._type("the type of the values"))

    def _decimal(self, position: int) -> pa.DataType:
        precision, scale = 10, 0
        if self._take("("):
            precision = self._number()
            scale = self._number() if self._take(",") else 0
            self._expect_word(")")
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
        raise self._error(
            f"found decimal({precision},{scale}), expected a precision of 1 to 38 and a scale of at most the precision",
            position,
        )

    def _number(self) -> int:
        token, position = self._advance("a number")
        if not (token.isdecimal() and len(token) <= 9):
            raise self._error(f"found `{token[:30]}`, expected a number", position)
        return int(token)

    def _peek(self) -> str:
        return self._tokens[self._next][0] if self._next < len(self._tokens) else ""

    def _take(self, token: str) -> bool:
        found = self._peek() == token
        self._next += found
        return found

    def _expect_word(self, word: str) -> None:
        found, position = self._advance(f"`{word}`")
        if found.lower() != word:
            raise self._error(f"found `{found}`, expected `{word}`", position)

    def _advance(self, expected: str) -> tuple[str, int]:
        if self._next == len(self._tokens):
            raise self._error(f"the text ends, but expected {expected}", len(self._text))
        self._next += 1
        return self._tokens[self._next - 1]

    def _end(self) -> None:
        if self._next < len(self._tokens):
            token, position = self._tokens[self._next]
            raise self._error(f"found `{token}`, expected `,` or the end", position)

    def _error(self, what: str, position: int) -> InvalidInput:
        return InvalidInput(f"read schema `{self._text}`: at character {position + 1}: {what}")
