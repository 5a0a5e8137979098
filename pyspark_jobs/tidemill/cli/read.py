"""`tidemill status`, `state`, `outputs` and `quarantine`: committed data as a table or as JSON lines. Read only."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from ..counts import count_of
from ..errors import Exit
from ..repo.operators import recorded_schemas
from .options import VERSION, LocalPath, Target, point_in_time, reading_options
from .output import Output, json_line, output_options
from .table_file import TableFile, file_options

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from rich.table import Table

    from ..reader import Reader

SHOWN_ROWS = 20
_VERSION_HELP = (
    "Show only the rows of this version; `fix@12` is one of branch `fix`. Default: all that are kept, without those "
    "that a rewind undid."
)
_LIMIT_HELP = f"Show or write at most N rows. Default: {SHOWN_ROWS}; with --json or -o all."


@click.command(short_help="Show head, watermarks, waiting files and the next deadline.")
@reading_options
@output_options
def status(target: Target, out: Output) -> int:
    """Show the status of PIPELINE: head, watermarks, keys, waiting files, next deadline."""
    found = target.read().status()
    if out.json:
        out.line(json_line(dataclasses.asdict(found)))
        return Exit.DONE
    from .render import console, status_table

    console().print(status_table(found))
    return Exit.DONE


@click.command()
@reading_options
@click.option("--operator", help="Operator to show. Required if there are several.")
@click.option("--version", type=VERSION, metavar="N|TAG",
              help="Version to show, or `fix@12` of a branch. Default: newest. -1 is the initial state.")  # fmt: skip
@click.option(
    "--as-of",
    metavar="MS|ISO",
    help="Show the newest version at this batch time (ISO: in the pipeline's time zone; in UTC if a URI is given).",
)
@click.option("--key", "keys", multiple=True, metavar="KEY",
              help="Show only this key. Repeatable. For several key columns, give JSON: '[\"UA\", 7]'.")  # fmt: skip
@click.option("--where", metavar="SQL", help="Condition on the columns (DuckDB SQL).")
@click.option("--columns", metavar="A,B", help="Columns to show.")
@click.option("--variable", help="State variable to show, if the operator has several. Default: the first.")
@click.option("--partial", is_flag=True, help="Show what the state of .agg keeps, such as sum and count of a mean.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help=_LIMIT_HELP)
@file_options
@output_options
def state(
    target: Target,
    operator: str | None,
    version: int | str | None,
    as_of: str | None,
    keys: tuple[str, ...],
    where: str | None,
    columns: str | None,
    variable: str | None,
    partial: bool,
    limit: int | None,
    file: TableFile | None,
    out: Output,
) -> int:
    """Show the state of an operator at a version, one row per key.

    The columns are those of the key and the state, `updated_at` and `deadline`. --json prints a JSON line per row.
    """
    repository = target.read()
    found = repository.state(
        operator,
        version,
        None if as_of is None else point_in_time(as_of),
        keys_of(repository, operator, keys) if keys else None,
        where,
        [name.strip() for name in columns.split(",")] if columns else None,
        variable,
        partial,
    )
    _show(found, limit, out, file)
    return Exit.DONE


@click.command()
@reading_options
@click.option("--sink", help="Sink to show. Required if there are several.")
@click.option("--version", type=VERSION, metavar="N|TAG", help=_VERSION_HELP)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help=_LIMIT_HELP)
@file_options
@output_options
def outputs(
    target: Target,
    sink: str | None,
    version: int | str | None,
    limit: int | None,
    file: TableFile | None,
    out: Output,
) -> int:
    """Show the rows committed for a sink, in canonical order. --json prints a JSON line per row."""
    wanted = _wanted(limit, out.json or file is not None)
    _show(target.read().outputs(version, sink, wanted), limit, out, file, is_cut=True)
    return Exit.DONE


@click.command(short_help="Show unreadable rows, late rows, and rows of failed keys.")
@reading_options
@click.option("--version", type=VERSION, metavar="N|TAG", help=_VERSION_HELP)
@click.option("--source", metavar="NAME", help="Show only rows of this source. Default: of all sources.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help=_LIMIT_HELP)
@click.option(
    "--export",
    metavar="FILE",
    type=LocalPath(dir_okay=False),
    help="Write whole rows to a new .parquet, .csv or .json file instead, to be corrected for `tidemill requeue`.",
)
@click.option("--wide", is_flag=True, help="Show all columns. Default on a terminal: reason, text, place and version.")
@file_options
@output_options
def quarantine(
    target: Target,
    version: int | str | None,
    source: str | None,
    limit: int | None,
    export: str | None,
    wide: bool,
    file: TableFile | None,
    out: Output,
) -> int:
    """Show quarantined rows: unreadable rows, late rows, and rows whose function failed.

    A pipeline quarantines late rows with late="quarantine", and rows of failed keys with on_error="quarantine". On a
    terminal, each row has one line with its reason, its text, its place and the version. With --wide, and where no
    terminal is, the columns are source, file, line, row, column, reason, the row as text, its kind, operator and
    watermark, the version, and the version that requeued the row. --json prints a JSON line per row.
    """
    if export is not None and file is not None:
        raise click.UsageError("--export and -o both write a file; give one of them")
    repository = target.read()
    if export is not None:
        return _export(repository, version, source, limit, export, out)
    rows = repository.quarantine(version, _wanted(limit, out.json or file is not None), source=source)
    narrow = None if wide else _narrow()
    _show(rows, limit, out, file, is_cut=True, table=narrow)
    if narrow is not None and rows.num_rows and file is None and not out.json:
        out.line("--wide shows all columns")
    return Exit.DONE


def _narrow() -> Callable[[pa.Table], Table] | None:
    """Return what makes the table of quarantined rows for a terminal. None: the output is no terminal."""
    from .render import console, is_terminal, quarantine_table

    return (lambda rows: quarantine_table(rows, console().width)) if is_terminal() else None


def _export(
    repository: Reader, version: int | str | None, source: str | None, limit: int | None, path: str, out: Output
) -> int:
    """Write quarantined rows to a file."""
    from ..returning.export import check_export, write_export

    check_export(path)
    rows = repository.quarantine(version, limit, source=source, export=True)
    if not rows.num_rows:
        out.result({"rows": 0}, ["no rows"])
        return Exit.NOTHING
    write_export(rows, path)
    out.result({"rows": rows.num_rows, "file": path}, [f"wrote {count_of(rows.num_rows, 'row')} to {path}"])
    return Exit.DONE


def _wanted(limit: int | None, has_all: bool) -> int | None:
    """Return how many rows to read: one more than is shown, which says whether there are more.

    `has_all`: without a limit, all rows are wanted.
    """
    shown = limit if limit is not None or has_all else SHOWN_ROWS
    return None if shown is None else shown + 1


def _show(
    rows: pa.Table,
    limit: int | None,
    out: Output,
    file: TableFile | None,
    is_cut: bool = False,
    table: Callable[[pa.Table], Table] | None = None,
) -> None:
    """Print rows, or write them to a file. `is_cut`: more rows than these may exist, because no more were read.

    `table` makes the table that is printed.
    """
    if file is not None:
        file.write_and_say(rows.slice(0, limit), out)
        return
    if out.json:
        from ..sinks import json_text

        out.text(json_text.rows_to_json(rows.slice(0, limit)).decode())
        return
    shown = rows.slice(0, SHOWN_ROWS if limit is None else limit)
    if not is_cut or shown.num_rows == rows.num_rows:
        show_rows(shown, rows.num_rows, table)
        return
    from .render import console, table_of

    terminal = console()
    terminal.print((table or table_of)(shown))
    terminal.print(f"the first {shown.num_rows:,} rows; --limit shows more", style="dim")


def show_rows(rows: pa.Table, total: int, table: Callable[[pa.Table], Table] | None = None) -> None:
    """Print rows as a table, and how many there are of all. `table` makes it."""
    from .render import console, table_of

    terminal = console()
    terminal.print((table or table_of)(rows))
    if rows.num_rows < total:
        terminal.print(f"{rows.num_rows:,} of {total:,} rows; --limit shows more", style="dim")
    elif not rows.num_rows:
        terminal.print("no rows", style="dim")


def keys_of(repository: Reader, operator: str | None, texts: tuple[str, ...]) -> list[Any]:
    """Convert the texts of `--key` to the types of the key columns. `InvalidInput` if one does not fit."""
    key = _key_schema(repository, operator)
    return list(texts) if key is None else [value for text in texts for value in _named_by(text, key)]


def _key_schema(repository: Reader, operator: str | None) -> pa.Schema | None:
    """Return the key columns of the operator, or of the first one if none is named; None if it does not exist."""
    from ..state.columns import MapColumns

    schemas = recorded_schemas(repository.opened, repository.head)
    name = operator if operator is not None else next(iter(schemas), None)
    return MapColumns.described(*next(iter(schemas[name]["maps"].items()))).key if name in schemas else None


def _named_by(text: str, key: pa.Schema) -> list[Any]:
    """Return the keys that one `--key` names. A printed null names null, and the text that looks the same."""
    import pyarrow as pa

    from .render import SHOWN_NULL

    if len(key) != 1 or text != SHOWN_NULL:
        return [_key(text, key)]
    return [None, text] if pa.types.is_string(key.field(0).type) else [None]


def _key(text: str, key: pa.Schema) -> Any:
    import json

    import pyarrow as pa

    from ..errors import InvalidInput

    is_json = len(key) != 1 or pa.types.is_nested(key.field(0).type)
    try:
        parsed = json.loads(text, parse_float=str) if is_json else text  # a float would round decimals
        parts = [parsed] if len(key) == 1 else parsed
        values = [_key_cell(part, field.type) for part, field in zip(parts, key, strict=True)]
    except (ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        wanted = ", ".join(f"{field.name} {field.type}" for field in key)
        array = f"give a JSON array of {len(key)} values, for example '[\"a\", 1]'" if len(key) > 1 else None
        raise InvalidInput(
            f"--key `{text}` does not fit the key columns ({wanted})",
            hint=array if len(key) else "give '[]': there are no key columns, so all rows have one key",
        ) from error
    return values[0] if len(values) == 1 else tuple(values)


def _key_cell(part: Any, kind: pa.DataType) -> Any:
    """Convert one part of a `--key` to the column's type. It has the form that `state` prints: times in UTC, bytes as
    `0x…`, maps as pairs. Other text for a binary column is its UTF-8 bytes."""
    import pyarrow as pa

    from ..schema import string_array

    if part is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _key_cell(part.get(field.name), field.type) for field in kind}
    if pa.types.is_list(kind):
        return [_key_cell(item, kind.value_type) for item in part]
    if pa.types.is_map(kind):
        return [(_key_cell(name, kind.key_type), _key_cell(value, kind.item_type)) for name, value in part]
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _key_time(str(part), kind)
    text = str(part).lower() if isinstance(part, bool) else str(part)
    if pa.types.is_binary(kind) and text.startswith("0x"):
        return bytes.fromhex(text[2:])
    return string_array([text]).cast(kind).to_pylist()[0]


def _key_time(text: str, kind: pa.DataType) -> Any:
    """Convert the text of a time or a date; after the year 9999 to a value of Arrow, because Python has none."""
    from datetime import UTC, date, datetime

    import pyarrow as pa

    from ..schema import string_array
    from ..sinks.far_times import times_from_text

    try:
        if pa.types.is_date(kind):
            return date.fromisoformat(text)
        time = datetime.fromisoformat(text)
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    except ValueError:
        found = times_from_text(pa.table({"value": string_array([text])}), pa.schema([pa.field("value", kind)]))
        if found is None:
            raise
        return found.column(0)[0]
