"""Spark's types from and to their JSON (`StructType.json()`), without pyspark."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from ..errors import InvalidInput
from .ddl import parse_ddl
from .types import TIMESTAMP, TIMESTAMP_NTZ

_NAMES = {
    pa.bool_(): "boolean", pa.int8(): "byte", pa.int16(): "short", pa.int32(): "integer", pa.int64(): "long",
    pa.float32(): "float", pa.float64(): "double", pa.string(): "string", pa.binary(): "binary", pa.date32(): "date",
    TIMESTAMP: "timestamp", TIMESTAMP_NTZ: "timestamp_ntz",
}  # fmt: skip


def from_spark(text: str) -> pa.DataType:
    """Return the type whose Spark JSON is `text`. A `StructType` is a struct."""
    return _read(json.loads(text), "")


def spark_json(schema: pa.Schema) -> str:
    """Return the schema as the JSON of a Spark `StructType`, for `StructType.fromJson(json.loads(…))`."""
    return json.dumps(_written(pa.struct(list(schema))))


def _read(raw: Any, where: str) -> pa.DataType:
    if isinstance(raw, str):
        try:
            kind = parse_ddl(raw)
        except InvalidInput:
            kind = []
        if isinstance(kind, pa.DataType):
            return kind
    elif isinstance(raw, dict) and raw.get("type") == "struct":
        fields = raw["fields"]
        return pa.struct(
            [pa.field(f["name"], _read(f["type"], f"{where}.{f['name']}"), f.get("nullable", True)) for f in fields]
        )
    elif isinstance(raw, dict) and raw.get("type") == "array":
        return pa.list_(_read(raw["elementType"], f"{where}.element"))
    elif isinstance(raw, dict) and raw.get("type") == "map":
        return pa.map_(_read(raw["keyType"], f"{where}.key"), _read(raw["valueType"], f"{where}.value"))
    at = f"column `{where.lstrip('.')}`" if where else "the schema"
    shown = raw if isinstance(raw, str) else json.dumps(raw)
    raise InvalidInput(f"{at} has Spark type `{shown}`, which Tidemill does not support")


def _written(kind: pa.DataType) -> Any:
    if pt.is_struct(kind):
        fields = [{"name": f.name, "type": _written(f.type), "nullable": f.nullable, "metadata": {}} for f in kind]
        return {"type": "struct", "fields": fields}
    if pt.is_list(kind):
        return {"type": "array", "elementType": _written(kind.value_type), "containsNull": True}
    if pt.is_map(kind):
        key, value = _written(kind.key_type), _written(kind.item_type)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if pt.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES[kind]
