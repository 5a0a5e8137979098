"""The options `-o FILE` and `--format` of commands that print rows, and the writer behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..counts import count_of
from .options import LocalPath
from .output import Output, json_line

if TYPE_CHECKING:
    import pyarrow as pa

_Command = TypeVar("_Command", bound=Callable[..., Any])


def file_options(command: _Command) -> _Command:
    """Add `-o` and `--format`."""
    command = click.option("--format", "format_", type=click.Choice(["parquet", "json", "csv"]),
                           help="Format of the file. Default: by the ending of its name.")(command)  # fmt: skip
    return click.option("-o", "--output", metavar="FILE", type=LocalPath(dir_okay=False),
                        help="Write all rows to this new file.")(command)  # fmt: skip


def check_file(output: str | None, format_: str | None) -> None:
    """Refuse options of a file that do not fit, before anything is read."""
    if output is None and format_ is not None:
        raise click.UsageError("--format says how -o FILE is written; -o is missing")
    if output is not None:
        from ..reading.table_file import check_new_file

        check_new_file(output, format_)


def write_table_file(rows: pa.Table, output: str, format_: str | None) -> None:
    """Write rows to a new file."""
    from ..reading.table_file import write_table

    write_table(rows, output, format_)


def write_and_say(rows: pa.Table, output: str, format_: str | None, out: Output) -> None:
    """Write rows to a new file, and print how many."""
    write_table_file(rows, output, format_)
    said = f"wrote {count_of(rows.num_rows, 'row')} to {output}"
    out.line(json_line({"rows": rows.num_rows, "file": output}) if out.json else said)
