"""`tidemill status`, `state`, `outputs`, `quarantine`: what is committed, as a table or as JSON lines. Read only."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import click

from .exits import Exit
from .options import Target, point_in_time, target_options
from .output import Output, json_line, output_options

if TYPE_CHECKING:
    import pyarrow as pa

    from ..repository import Repository

SHOWN_ROWS = 20


@click.command()
@target_options
@output_options
def status(target: Target, out: Output) -> int:
    """Show where PIPELINE stands: head, watermarks, keys, waiting files, next deadline."""
    from .status import status_of

    found = status_of(target.open())
    if out.json:
        out.line(json_line(dataclasses.asdict(found)))
        return Exit.DONE
    from .render import console, status_table

    console().print(status_table(found))
    return Exit.DONE


@click.command()
@target_options
@click.option("--operator", help="Which operator's; needed where there are several.")
@click.option("--version", type=int, help="Of this version; default: the newest. −1 is what `init` made.")
@click.option("--as-of", metavar="MS|ISO", help="Of the newest version at this batch time, ISO in the pipeline's zone.")
@click.option("--key", "keys", multiple=True, metavar="KEY",
              help="Only this key; may be repeated. Several key columns: JSON such as '[\"UA\", 7]'.")  # fmt: skip
@click.option("--where", metavar="SQL", help="A condition over the columns (DuckDB).")
@click.option("--columns", metavar="A,B", help="Only these columns.")
@click.option("--variable", help="Which one of an operator with several; default: the first.")
@click.option("--limit", type=click.IntRange(min=0), help=f"Show so many rows; default: {SHOWN_ROWS}, all with --json.")
@output_options
def state(
    target: Target,
    operator: str | None,
    version: int | None,
    as_of: str | None,
    keys: tuple[str, ...],
    where: str | None,
    columns: str | None,
    variable: str | None,
    limit: int | None,
    out: Output,
) -> int:
    """Show an operator's state at a version, one row a key.

    The columns are the key's, the state's, `updated_at` and `deadline`. With --json: one JSON line a row.
    """
    repository = target.open()
    found = repository.state(
        operator,
        version,
        None if as_of is None else point_in_time(as_of),
        _keys(repository, operator, keys) if keys else None,
        where,
        [name.strip() for name in columns.split(",")] if columns else None,
        variable,
    )
    key = _key_schema(repository, operator)
    _show(found, limit, out, () if key is None else key.names)
    return Exit.DONE


@click.command()
@target_options
@click.option("--sink", help="Which sink's; needed where there are several.")
@click.option("--version", type=int, help="What this version gave out; default: all versions.")
@click.option("--limit", type=click.IntRange(min=0), help=f"Show so many rows; default: {SHOWN_ROWS}, all with --json.")
@output_options
def outputs(target: Target, sink: str | None, version: int | None, limit: int | None, out: Output) -> int:
    """Show what was committed for a sink, in canonical order. With --json: one JSON line a row."""
    _show(target.open().outputs(version, sink), limit, out)
    return Exit.DONE


@click.command()
@target_options
@click.option("--version", type=int, help="What this version put aside; default: all versions.")
@click.option("--limit", type=click.IntRange(min=0), help=f"Show so many rows; default: {SHOWN_ROWS}, all with --json.")
@output_options
def quarantine(target: Target, version: int | None, limit: int | None, out: Output) -> int:
    """Show the rows that were put aside: unreadable, late, or of a function that failed, where the pipeline keeps them.

    The columns are source, file, line, column, reason, the row as text, and the version. With --json: one JSON line a
    row.
    """
    _show(target.open().quarantine(version), limit, out)
    return Exit.DONE


def _show(rows: pa.Table, limit: int | None, out: Output, keys: Collection[str] = ()) -> None:
    if out.json:
        from ..sinks.files import Json

        for encoded in Json("stdout").encode(rows.slice(0, limit)):
            out.text(encoded.data.decode())
        return
    from .render import console, table_of

    shown = rows.slice(0, SHOWN_ROWS if limit is None else limit)
    terminal = console()
    terminal.print(table_of(shown, plain=keys))
    if shown.num_rows < rows.num_rows:
        terminal.print(f"{shown.num_rows:,} of {rows.num_rows:,} rows; --limit shows more", style="dim")
    elif not rows.num_rows:
        terminal.print("no rows", style="dim")


def _keys(repository: Repository, operator: str | None, texts: tuple[str, ...]) -> list[Any]:
    """Keys as texts in the types of the key columns; `InvalidInput` for one that does not fit."""
    key = _key_schema(repository, operator)
    return list(texts) if key is None else [_key(text, key) for text in texts]


def _key_schema(repository: Repository, operator: str | None) -> pa.Schema | None:
    """The key columns of an operator, of the only one where none is named; None where there is no such."""
    from ..schema import to_arrow

    schemas = repository.context.schemas(repository.head)
    name = operator if operator is not None else next(iter(schemas), None)
    return to_arrow(next(iter(schemas[name]["maps"].values()))["key"]) if name in schemas else None


def _key(text: str, key: pa.Schema) -> Any:
    import json

    import pyarrow as pa

    from ..errors import InvalidInput

    try:
        parts = [text] if len(key) == 1 else json.loads(text)
        values = [None if part is None else pa.scalar(str(part)).cast(field.type).as_py()
                  for part, field in zip(parts, key, strict=True)]  # fmt: skip
    except (ValueError, TypeError, pa.ArrowException) as error:
        wanted = ", ".join(f"{field.name} {field.type}" for field in key)
        raise InvalidInput(
            f"--key `{text}` does not fit the key ({wanted})",
            hint=None if len(key) == 1 else f"give JSON with {len(key)} values: --key '[\"a\", 1]'",
        ) from error
    return values[0] if len(values) == 1 else tuple(values)
