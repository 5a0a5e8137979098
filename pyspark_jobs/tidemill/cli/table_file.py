"""The options `-o FILE`, `--format` and `--replace` of commands that print rows, and the writer behind them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..counts import count_of
from ..values import dataclass
from .options import LocalPath
from .output import Output, json_line

if TYPE_CHECKING:
    import pyarrow as pa

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class TableFile:
    """The file that -o names."""

    path: str
    format: str | None
    """None: by the ending of the name."""
    replaces: bool

    def check(self) -> None:
        """Raise `InvalidInput` if the file cannot be written, before anything is read."""
        from ..reading.table_file import check_file_to_write

        check_file_to_write(self.path, self.format, self.replaces)

    def write(self, rows: pa.Table) -> None:
        """Write rows to the file."""
        from ..reading.table_file import write_table

        write_table(rows, self.path, self.format, self.replaces)

    def write_and_say(self, rows: pa.Table, out: Output) -> None:
        """Write rows to the file, and print how many."""
        self.write(rows)
        said = f"wrote {count_of(rows.num_rows, 'row')} to {self.path}"
        out.line(json_line({"rows": rows.num_rows, "file": self.path}) if out.json else said)


def file_options(command: _Command) -> _Command:
    """Add `-o`, `--format` and `--replace`. The command receives a `TableFile` that was checked, or None without -o."""

    @click.option("-o", "--output", metavar="FILE", type=LocalPath(dir_okay=False), help="Write all rows to this file.")
    @click.option("--format", "format_", type=click.Choice(["parquet", "json", "csv"]),
                  help="Format of the file. Default: by the ending of its name.")  # fmt: skip
    @click.option("--replace", is_flag=True, help="Replace the file if it exists, in one step. Default: refuse.")
    @functools.wraps(command)
    def wrapped(output: str | None, format_: str | None, replace: bool, **rest: Any) -> Any:
        if output is None and (format_ is not None or replace):
            raise click.UsageError(f"{'--replace' if replace else '--format'} is for the file of -o; -o is missing")
        file = None if output is None else TableFile(output, format_, replace)
        if file is not None:
            file.check()
        return command(file=file, **rest)

    return wrapped  # type: ignore[return-value]
