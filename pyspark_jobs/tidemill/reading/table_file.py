"""Write a table that a verb returned to a file: Parquet, JSON lines or CSV."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import secrets
from pathlib import Path

import pyarrow as pa

from ..errors import InvalidInput
from ..schema import type_ddl
from ..schema.kernels import pq
from ..sinks import json_text

_FORMATS = ("parquet", "json", "csv")


def write_table(rows: pa.Table, path: str | os.PathLike[str], format: str | None = None, replace: bool = False) -> None:
    """Write rows to a new file, by `format` or the ending of its name. CRASH: may leave a part of the new file.

    `replace`: the file may exist. CRASH: then its name has the old content or the new one, and a temporary file beside
    it may stay. In CSV, each field of a struct is a column of its own, such as `before.total`.
    """
    place = Path(path)
    data = _ENCODERS[checked_format(path, format)](rows)
    try:
        if replace:
            _replace(place, data)
            return
        with place.open("xb") as file:
            file.write(data)
    except FileExistsError as error:
        raise _exists(place) from error
    except OSError as error:
        raise InvalidInput(f"write `{place}`: {error.strerror}") from error


def _replace(place: Path, data: bytes) -> None:
    """Write a file in one step: readers of its name find the old content or the new one. A link is followed."""
    whole = place.resolve()
    part = whole.with_name(f".{whole.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            file.write(data)
        part.replace(whole)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def check_file_to_write(path: str | os.PathLike[str], format: str | None, replace: bool = False) -> None:
    """Raise `InvalidInput` for a file that cannot be written: no known format, or without `replace` one that exists."""
    checked_format(path, format)
    if Path(path).exists() and not replace:
        raise _exists(Path(path))


def checked_format(path: str | os.PathLike[str], format: str | None) -> str:
    """Return the format of a file. `InvalidInput` if neither `format` nor the name says which."""
    found = Path(path).suffix.lower().removeprefix(".") if format is None else format
    if found not in _FORMATS:
        raise InvalidInput(
            f"write `{path}`: found {'no known format in the name' if format is None else f'format {format!r}'}, "
            f"expected {', '.join(_FORMATS)}",
            hint="give a format, or a name that ends in .parquet, .json or .csv",
        )
    return found


def _exists(place: Path) -> InvalidInput:
    return InvalidInput(f"write `{place}`: the file exists", hint="choose another name, or replace the file: --replace")


def _parquet(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd")
    return sink.getvalue()


def _csv(rows: pa.Table) -> bytes:
    while any(pa.types.is_struct(kind) for kind in rows.schema.types):
        rows = rows.flatten()
    for field in rows.schema:
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            raise InvalidInput(
                f"write CSV: it cannot hold column `{field.name}`, which is {type_ddl(field.type)}",
                hint="write parquet or json",
            )
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows.column_names)
    columns = [column.cast(pa.string()).to_pylist() for column in rows.columns]
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue().encode(errors="surrogatepass")


_ENCODERS = {"parquet": _parquet, "json": json_text.rows_to_json, "csv": _csv}
