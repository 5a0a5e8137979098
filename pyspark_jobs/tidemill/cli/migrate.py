"""`tidemill migrate`: a thin wrapper of the verb with the same name, which first says what it will do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..counts import count_of
from ..errors import Exit
from ..names import ENGINES
from .correct import Agreement, consent_options, unchanged
from .options import Target, pairs, target_options
from .output import Output, output_options, result_file_option
from .run import result_fields

if TYPE_CHECKING:
    from ..actions.migration import Move


@click.command(short_help="Rewrite the state of operators for changed code.")
@target_options
@click.option("--operator", "operators", multiple=True, metavar="NAME", help="Operator to migrate. Repeatable.")
@click.option(
    "--function",
    "functions",
    multiple=True,
    metavar="REFERENCE",
    help="Function of a pyarrow.Table, as `module:name` or `path.py:name`: one for each --operator, in their order.",
)
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="Operator that has a new name. Repeatable.")
@click.option("--drop-keys", is_flag=True, help="Allow the functions to drop or add keys.")
@click.option("--merge", metavar="REFERENCE", help="Function that makes one row of all rows with the same new key.")
@click.option("--engine", type=click.Choice(ENGINES), default="local", show_default=True, help="Engine of the tasks.")
@click.option("--reason", required=True, help="Why. The commit records it.")
@consent_options
@result_file_option
@output_options
def migrate(
    target: Target,
    operators: tuple[str, ...],
    functions: tuple[str, ...],
    rename: tuple[str, ...],
    drop_keys: bool,
    merge: str | None,
    engine: str,
    reason: str,
    consent: Agreement,
    out: Output,
) -> int:
    """Rewrite the state of operators that the code of PIPELINE declares otherwise, with a commit that reads no files.

    `tidemill check` says which operators need it. Each function gets rows of the state, with the columns that they were
    written with, and returns them with the columns that the code declares now.
    """
    from ..actions.migrate import planned
    from ..actions.migration import Wanted
    from ..pipeline.load import load_function

    if len(operators) != len(functions):
        found = f"{count_of(len(operators), 'operator')} and {count_of(len(functions), 'function')}"
        raise click.UsageError(f"expected one --function for each --operator, found {found}")
    repository = target.open()
    loaded = {name: load_function(reference) for name, reference in zip(operators, functions, strict=True)}
    merging = None if merge is None else load_function(merge)
    shipped = [module for one in (*loaded.values(), *([merging] if merging else [])) for module in one.modules]
    modules = tuple(dict.fromkeys((*repository.opened.modules, *shipped)))
    repository = type(repository)(dataclasses.replace(repository.opened, modules=modules))
    given: dict[str, Any] = {name: one.function for name, one in loaded.items()}
    renamed, merged = dict(pairs(rename, "--rename")), None if merging is None else merging.function
    moves = planned(repository.opened, Wanted(given, renamed, drop_keys, merged))
    if not consent.given(list(_lines(moves)), out):
        return unchanged("migrate", repository, consent, out)
    made = repository.migrate(given, reason, renamed, drop_keys, merged, engine=engine)
    out.result(
        {**result_fields("migrate", Exit.DONE, repository), "versions": [made.version]},
        [f"migrated {', '.join(f'`{move.name}`' for move in moves)} in version {made.version}: {reason}"],
    )
    return Exit.DONE


def _lines(moves: list[Move]) -> Iterator[str]:
    for move in moves:
        of = f"operator `{move.name}`" + (f", until now `{move.old}`" if move.old != move.name else "")
        rows = count_of(sum(move.rows.values()), "row")
        yield f"{of}: {rows} " + ("will be rewritten" if move.rewrites else "will be kept as they are")
        for one in move.differences:
            yield f"  {one.what} `{one.field}`: {one.before or 'nothing'} -> {one.after or 'nothing'}"
