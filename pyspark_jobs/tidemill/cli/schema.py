"""`tidemill schema`: print the DDL schema that fits some files."""

from __future__ import annotations

from typing import Any

import click

from ..errors import Exit
from .output import Output, output_options


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--format", type=click.Choice(["csv", "json", "parquet"]), help="By default, the ending of each name.")
@click.option("--header", is_flag=True, help="The first line of a CSV file names its columns.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE",
              help="Another option of tm.Files, such as 'sep=;' or encoding=UTF-16. Repeatable.")  # fmt: skip
@output_options
def schema(files: tuple[str, ...], format: str | None, header: bool, options: tuple[str, ...], out: Output) -> int:
    """Print a schema for local files, to copy into tm.Files(schema=…).

    It fits the first 100,000 records of each file. Notes on stderr say what the files do not decide, such as columns
    without values or numbers with leading zeros.
    """
    from ..inference.schema_of import infer
    from ..schema import to_ddl
    from ..visible import is_visible, visible

    given: dict[str, Any] = {"header": True} if header else {}
    for one in options:
        name, equals, value = one.partition("=")
        if not equals:
            raise click.UsageError(f"--option {one}: expected NAME=VALUE")
        given[name] = value
    found = infer(files, format, given)
    ddl = to_ddl(found.schema)
    if not is_visible(ddl):
        found.notes.append(
            "names with control characters are shown escaped: take the schema from --json or tm.schema_of"
        )
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    out.result({"verb": "schema", "status": "done", "schema": ddl, "notes": found.notes}, [visible(ddl)])
    return Exit.DONE
