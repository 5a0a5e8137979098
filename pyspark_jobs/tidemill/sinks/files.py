"""`Parquet` and `Json`: rows as files of one form, in folders by partition columns where the user asks for that."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..errors import InvalidInput
from ..settings import unknown
from .contract import Encoded

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_SAFE = " !$&()+,-.;<>@[]_`{}~"  # everything else that is no letter or digit is escaped, as Spark does


class Parquet:
    """A folder of Parquet files (zstd), readable by anything; each row carries `_batch_id`. Spark: `format("parquet")`.

    `partitionBy`: columns that become folders `column=value/` and leave the files, as in Spark.
    """

    kind = "parquet"
    extension = ".parquet"

    def __init__(self, path: str, partitionBy: Sequence[str] = ()) -> None:
        self.path = _path(path)
        self.partitionBy = tuple([partitionBy] if isinstance(partitionBy, str) else partitionBy)

    def check(self, schema: pa.Schema) -> None:
        """`InvalidInput` for a partition column that is not there, or where no other column is left."""
        for name in self.partitionBy:
            if name not in schema.names:
                raise unknown(f"partition column of the sink {self.path}", name, schema.names)
            if pa.types.is_nested(schema.field(name).type):
                raise InvalidInput(f"sink {self.path}: partition column `{name}` is {schema.field(name).type}")
        if self.partitionBy and set(self.partitionBy) >= set(schema.names):
            raise InvalidInput(f"sink {self.path}: partitionBy names every column, at least one must stay")

    def encode(self, rows: pa.Table) -> list[Encoded]:
        """One file, or one for each combination of partition values, in the order of their folders."""
        return [
            Encoded(suffix, self.extension, self._bytes(part), part.num_rows)
            for suffix, part in _parts(rows, self.partitionBy)
        ]

    def decode(self, files: Sequence[tuple[bytes, str]], schema: pa.Schema) -> pa.Table:
        """The rows of the files; partition columns come back from the folders' names."""
        tables = [_with_folders(self._table(data, _without(schema, suffix)), suffix, schema) for data, suffix in files]
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def _bytes(self, rows: pa.Table) -> bytes:
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink, compression="zstd", store_schema=True)
        return bytes(sink.getvalue().to_pybytes())

    def _table(self, data: bytes, schema: pa.Schema) -> pa.Table:
        return pq.read_table(pa.BufferReader(data), columns=schema.names).cast(schema)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"


class Json(Parquet):
    """A folder of JSON lines, a row a line; each row carries `_batch_id`. Spark: `format("json")`.

    As Spark writes them: nulls are left out, times are ISO 8601 in UTC with as many digits as they need, decimals are
    numbers, binary is base64, NaN and infinities are the strings `NaN`, `Infinity`, `-Infinity`.
    """

    kind = "json"
    extension = ".json"

    def _bytes(self, rows: pa.Table) -> bytes:
        return "".join(f"{_text(row)}\n" for row in rows.to_pylist()).encode()

    def _table(self, data: bytes, schema: pa.Schema) -> pa.Table:
        rows = [json.loads(line, parse_float=Decimal) for line in data.decode().splitlines() if line]
        columns = [pa.array([_back(row.get(f.name), f.type) for row in rows], f.type) for f in schema]
        return pa.Table.from_arrays(columns, schema=schema)


def _path(path: str) -> str:
    if not isinstance(path, str) or not path:
        raise InvalidInput(f"a sink's path is {path!r}, expected a folder or an s3:// URI")
    return path


def _parts(rows: pa.Table, by: Sequence[str]) -> list[tuple[str, pa.Table]]:
    """(folder, rows) for each combination of partition values; rows keep their order."""
    if not by:
        return [("", rows)]
    folders = [
        "".join(f"{_escaped(name)}={_folder(value)}/" for name, value in zip(by, values, strict=True))
        for values in zip(*(rows.column(name).to_pylist() for name in by), strict=True)
    ]
    column = pa.array(folders, pa.string())
    rest = rows.drop_columns(list(by))
    return [(folder, rest.filter(pc.equal(column, folder))) for folder in sorted(set(folders))]


def _folder(value: Any) -> str:
    if value is None or value == "":
        return NULL_FOLDER
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return _escaped(value.strftime("%Y-%m-%d %H:%M:%S") + (f".{value:%f}".rstrip("0") if value.microsecond else ""))
    return _escaped(str(value))


def _escaped(text: str) -> str:
    return quote(text, safe=_SAFE)


def _folders(suffix: str) -> dict[str, str | None]:
    pairs = [part.split("=", 1) for part in suffix.split("/") if part]
    return {unquote(name): None if value == NULL_FOLDER else unquote(value) for name, value in pairs}


def _without(schema: pa.Schema, suffix: str) -> pa.Schema:
    return pa.schema([f for f in schema if f.name not in _folders(suffix)])


def _with_folders(rows: pa.Table, suffix: str, schema: pa.Schema) -> pa.Table:
    folders = _folders(suffix)
    columns = []
    for field in schema:
        if field.name not in folders:
            columns.append(rows.column(field.name))
            continue
        text = pa.scalar(folders[field.name], pa.string())
        columns.append(pa.array([text.as_py()] * rows.num_rows, pa.string()).cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _text(value: Any) -> str:
    """A cell as JSON text; decimals digit by digit, nulls of structs left out, an entry of a map as a pair."""
    match value:
        case None:
            return "null"
        case dict():
            fields = (f"{json.dumps(k, ensure_ascii=False)}:{_text(v)}" for k, v in value.items() if v is not None)
            return "{" + ",".join(fields) + "}"
        case list() | tuple():
            return "[" + ",".join(_text(item) for item in value) + "]"
        case float() if math.isnan(value) or math.isinf(value):
            return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
        case Decimal():
            return format(value, "f")
        case datetime():
            return f'"{_time(value)}"'
        case date():
            return f'"{value.isoformat()}"'
        case bytes():
            return f'"{base64.b64encode(value).decode()}"'
    return json.dumps(value, ensure_ascii=False)


def _time(value: datetime) -> str:
    digits = f"{value.microsecond:06d}"
    digits = digits[:3] if digits.endswith("000") else digits
    if value.tzinfo is None:
        return f"{value:%Y-%m-%dT%H:%M:%S}.{digits}"
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{digits}Z"


def _back(value: Any, kind: pa.DataType) -> Any:
    """The cell that `_text` wrote."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _back(value.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(_back(k, kind.key_type), _back(v, kind.item_type)) for k, v in value]
    if pa.types.is_list(kind):
        return [_back(item, kind.value_type) for item in value]
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(value)
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    return base64.b64decode(value) if pa.types.is_binary(kind) else value
