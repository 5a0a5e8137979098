"""Quarantined rows as a table or file that can be corrected and given back to `requeue`.

A row is known by its version and `_row_id`, its place among the rows that the version quarantined. INVARIANT: the ids
of a version never change, because they follow the order of the files in its commit.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from ..errors import InvalidInput
from ..pipeline.job import Job
from ..protocol.records import Commit
from ..quarantine.rejects import quarantined
from ..quarantine.rows import CONTENT, REJECT_SCHEMA
from ..reading.first_read import FirstRead
from ..reading.read import commits_of, kept
from ..repo.opened import Opened
from ..repo.recorded import refuse_without_code
from ..repo.versions import VersionSpec, unless_given_up
from ..schema import empty_table, int64_array, type_ddl
from ..schema.kernels import pc, pq
from ..sinks import json_text
from ..sources.requeued import rows_as
from ..spelling import unknown

VERSION_COLUMN, ROW_ID = "_version", "_row_id"
_PLACES = {
    "_source": "source",
    "_file": "file",
    "_line": "line",
    "_file_row": "row",
    "_operator": "operator",
    "_kind": "kind",
    "_reason": "reason",
}
TEXT = "_text"
FIXED = pa.schema(
    [
        pa.field(VERSION_COLUMN, pa.int64()),
        pa.field(ROW_ID, pa.int64()),
        *(pa.field(name, REJECT_SCHEMA.field(column).type) for name, column in _PLACES.items()),
        pa.field(TEXT, pa.string()),
    ]
)
"""The columns of an export that say what a row is. Those of its source stand between them, before `_text`."""
_FORMATS = (".parquet", ".csv", ".json")


def quarantined_rows(repo: Opened, commit: Commit) -> pa.Table:
    """Return all rows that a version quarantined: `REJECT_SCHEMA`, `content.<source>`, and `_row_id`."""
    with kept(repo, commit):
        return _read(repo, commit)


def _read(repo: Opened, commit: Commit) -> pa.Table:
    tables = [quarantined(repo.store, file) for file in commit.quarantine]
    table = pa.concat_tables([empty_table(REJECT_SCHEMA), *tables], promote_options="default")
    return table.append_column(ROW_ID, int64_array(range(table.num_rows)))


def export(repo: Opened, version: VersionSpec | None, source: str | None) -> pa.Table:
    """Return quarantined rows in the columns of an export: what each row is, and the columns of its source."""
    refuse_without_code(repo, "quarantine: an export, in the columns of the sources,")
    check_source(repo, source)
    tables = unless_given_up(repo, lambda: list(_exports(repo, version, source)))
    try:
        return pa.concat_tables([_fixed_only(tables), *tables], promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInput(
            f"export quarantined rows: their columns differ: {error}", hint="export one version or one source at a time"
        ) from error


def _exports(repo: Opened, version: VersionSpec | None, source: str | None) -> Iterator[pa.Table]:
    """Yield the rows of each version."""
    first = FirstRead(repo, repo.head())
    for commit in commits_of(repo, version):
        rows = _read(repo, commit)
        rows = rows if source is None else rows.filter(pc.equal(rows.column("source"), source))
        if rows.num_rows or version is not None:
            yield _exported(repo.job, commit, first.shown(rows))


def _fixed_only(tables: Sequence[pa.Table]) -> pa.Table:
    return empty_table(tables[0].schema if tables else FIXED)


def check_source(repo: Opened, source: str | None) -> None:
    """Raise `InvalidInput` for a source that the pipeline does not have."""
    if source is not None and source not in repo.sources:
        raise unknown("source", source, repo.sources)


def exported_name(column: str) -> str:
    """Return the name that a column of a source has in an export.

    >>> exported_name("price"), exported_name("_Version")
    ('price', 'source._Version')
    """
    return f"source.{column}" if column.lower() in (name.lower() for name in FIXED.names) else column


def source_columns(job: Job, sources: Sequence[str]) -> pa.Schema:
    """Return the columns of these sources under their names in an export. `InvalidInput` if their types differ."""
    found: dict[str, pa.Field] = {}
    for source in sources:
        for field in job.sources[source].schema:
            name = exported_name(field.name)
            known = found.setdefault(name, pa.field(name, field.type))
            if known.type != field.type:
                raise InvalidInput(
                    f"export quarantined rows: column `{field.name}` is {type_ddl(field.type)} in source `{source}` "
                    f"and {type_ddl(known.type)} in another one",
                    hint="export one source at a time",
                )
    return pa.schema(list(found.values()))


def sources_of(job: Job, rows: pa.Table) -> list[str]:
    """Return the sources of quarantined rows, of those that the code has, in its order."""
    there = set(rows.column("source").to_pylist())
    return [name for name in job.sources if name in there]


def _exported(job: Job, commit: Commit, rows: pa.Table) -> pa.Table:
    sources = sources_of(job, rows)
    columns: dict[str, pa.ChunkedArray | pa.Array] = {
        VERSION_COLUMN: pa.repeat(pa.scalar(commit.version, pa.int64()), rows.num_rows),
        ROW_ID: rows.column(ROW_ID),
        **{name: rows.column(column) for name, column in _PLACES.items()},
    }
    for field in source_columns(job, sources):
        columns[field.name] = pa.nulls(rows.num_rows, field.type)
    for source in sources:
        schema = job.sources[source].schema
        if CONTENT + source in rows.column_names:
            content = rows.column(CONTENT + source).combine_chunks()
            nullable = pa.schema([field.with_nullable(True) for field in schema])
            whole = rows_as(content, nullable, f"version {commit.version}: quarantined rows of source `{source}`")
            for field in schema:
                name = exported_name(field.name)
                columns[name] = pc.coalesce(whole.column(field.name), columns[name])
    return pa.table({**columns, TEXT: rows.column("text")})


def write_export(rows: pa.Table, path: str | os.PathLike[str]) -> None:
    """Write rows as a new Parquet, CSV or JSON file, by the ending of its name. CRASH: may leave a part of the file."""
    place, encode = Path(path), _ENCODERS.get(Path(path).suffix.lower())
    if encode is None:
        raise _other_ending(place)
    data = encode(rows)
    try:
        with place.open("xb") as file:
            file.write(data)
    except FileExistsError as error:
        raise InvalidInput(
            f"export quarantined rows to `{place}`: the file exists, and may hold corrections",
            hint="choose another name, or delete the file",
        ) from error
    except OSError as error:
        raise InvalidInput(f"export quarantined rows to `{place}`: {error.strerror}") from error


def check_export(path: str | os.PathLike[str]) -> None:
    """Raise `InvalidInput` if rows cannot be exported to a file of this name."""
    if Path(path).suffix.lower() not in _FORMATS:
        raise _other_ending(Path(path))


def _other_ending(path: Path) -> InvalidInput:
    return InvalidInput(f"file `{path}` of quarantined rows: expected a name that ends in {', '.join(_FORMATS)}")


def _parquet(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd")
    return sink.getvalue()


def _csv(rows: pa.Table) -> bytes:
    columns = []
    for field in rows.schema:
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            raise InvalidInput(
                f"export quarantined rows: CSV cannot hold column `{field.name}`, which is {type_ddl(field.type)}",
                hint="export to a name that ends in .parquet or .json",
            )
        columns.append(rows.column(field.name).cast(pa.string()).to_pylist())
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows.column_names)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue().encode(errors="surrogatepass")


_ENCODERS = {".parquet": _parquet, ".csv": _csv, ".json": json_text.rows_to_json}
