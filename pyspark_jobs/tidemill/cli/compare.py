"""`tidemill diff`, `changes`, `history` and `explain`: what differs between versions, and why. Read only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..counts import count_of
from ..errors import Exit
from .options import VERSION, Target, graph_options, missing_root, reading_options
from .output import Output, json_line, output_options, result_file_option
from .read import SHOWN_ROWS, keys_of, show_rows
from .run import result_fields
from .table_file import TableFile, file_options

if TYPE_CHECKING:
    import pyarrow as pa

    from ..reader import Reader
    from ..reading.diff_outputs import OutputDiff
    from ..reading.diff_state import StateDiff

SIDE = "side"
"""In files of `diff --sink`: whether a row was added or removed."""


@click.command(short_help="Show what differs between two versions, of one branch or of two.")
@reading_options
@click.argument("a", type=VERSION)
@click.argument("b", type=VERSION)
@click.option("--operator", help="Compare only the state of this operator.")
@click.option("--sink", help="Compare only the outputs of this sink.")
@click.option("--variable", help="State variable to compare, if the operator has several. Default: the first.")
@click.option("--partial", is_flag=True, help="Compare what the state of .agg keeps, such as sum and count of a mean.")
@click.option("--ids", is_flag=True, help="Compare also _batch_id and _seq of outputs.")
@click.option("--tolerance", type=float, metavar="X", help="Floats differ if they are further apart than this.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N",
              help=f"Show at most N examples. Default: {SHOWN_ROWS}.")  # fmt: skip
@file_options
@result_file_option
@output_options
def diff(
    target: Target,
    a: int | str,
    b: int | str,
    operator: str | None,
    sink: str | None,
    variable: str | None,
    partial: bool,
    ids: bool,
    tolerance: float | None,
    limit: int | None,
    file: TableFile | None,
    out: Output,
) -> int:
    """Show what differs between the versions A and B of PIPELINE: counts first, then examples.

    A version is a number or a tag; `fix@12` is version 12 of branch `fix`, and `fix` its newest version. Without
    --operator or --sink, all operators and sinks are compared.
    """
    from ..reading.diff_outputs import OutputDiff
    from ..reading.diff_state import StateDiff

    _check_one(file, operator is not None or sink is not None)
    shown = SHOWN_ROWS if limit is None else limit
    repository = target.read()
    wanted = None if file is not None else shown
    found = repository.diff(a, b, operator, sink, wanted, tolerance, variable=variable, partial=partial, ids=ids)
    fields = {**result_fields("diff", Exit.DONE, repository), "before": found.before, "after": found.after}
    if isinstance(found, StateDiff | OutputDiff):
        rows = found.table if isinstance(found, StateDiff) else _both_sides(found)
        if file is not None:
            file.write(rows)
        fields |= {**_counts(found), "rows": _as_json(rows.slice(0, shown))}
        out.result(fields, [f"{found.before} → {found.after}", *_lines(found)])
        if not out.json and file is None and rows.num_rows:
            show_rows(rows.slice(0, shown), found.total)
        return Exit.DONE
    parts: list[StateDiff | OutputDiff] = [*found.operators.values(), *found.sinks.values()]
    lines = [line for one in parts for line in _lines(one)]
    lines += [f"{name} cannot be compared: {why}" for name, why in found.problems.items()]
    fields |= {
        "operators": {name: _counts(one) for name, one in found.operators.items()},
        "sinks": {name: _counts(one) for name, one in found.sinks.items()},
        "problems": found.problems,
    }
    out.result(fields, [f"{found.before} → {found.after}", *lines])
    return Exit.DONE


class RangeType(click.ParamType):  # type: ignore[type-arg]
    """Two versions as `V..W`."""

    name = "range"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return both versions."""
        if isinstance(value, tuple):
            return value
        first, dots, last = str(value).partition("..")
        if not dots or not first or not last:
            self.fail(f"expected V..W, such as 5..9, found `{value}`", param, ctx)
        return VERSION.convert(first, param, ctx), VERSION.convert(last, param, ctx)


@click.command(short_help="Show the keys whose state changed between two versions.")
@reading_options
@click.argument("operator")
@click.argument("versions", type=RangeType(), metavar="V..W")
@click.option("--each", is_flag=True, help="Show a row for each version that changed a key.")
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Show only this key, as in `state`. Repeatable.")
@click.option("--variable", help="State variable to compare, if the operator has several. Default: the first.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N",
              help=f"Show at most N rows. Default: {SHOWN_ROWS}; with --json all.")  # fmt: skip
@file_options
@output_options
def changes(
    target: Target,
    operator: str,
    versions: tuple[int | str, int | str],
    each: bool,
    keys: tuple[str, ...],
    variable: str | None,
    limit: int | None,
    file: TableFile | None,
    out: Output,
) -> int:
    """Show the keys of OPERATOR whose state changed after version V, up to W: before and after.

    The rows are net; --each shows every change with its version. --json prints a JSON line per row.
    """
    repository = target.read()
    chosen = keys_of(repository, operator, keys) if keys else None
    rows = repository.changes(operator, *versions, each, chosen, variable=variable)
    if file is not None:
        file.write_and_say(rows, out)
    elif out.json:
        for row in _as_json(rows.slice(0, limit)):
            out.line(json_line(row))
    else:
        show_rows(rows.slice(0, SHOWN_ROWS if limit is None else limit), rows.num_rows)
    return Exit.DONE


@click.command(short_help="Show the versions in which one key changed, and what caused them.")
@reading_options
@click.option("--operator", help="Operator of the key. Required if there are several.")
@click.option("--key", required=True, metavar="KEY", help="The key, as in `state`.")
@click.option("--variable", help="State variable to show, if the operator has several. Default: the first.")
@click.option("--no-rows", is_flag=True, help="Do not read the input files again.")
@output_options
def history(target: Target, operator: str | None, key: str, variable: str | None, no_rows: bool, out: Output) -> int:
    """Show every version that changed a key of PIPELINE, oldest first: value, input files, the key's rows in them.

    --json prints a JSON line per version.
    """
    from ..reading.explain import plain, reported

    repository = target.read()
    name = _operator(repository, operator)
    versions = repository.history(name, keys_of(repository, name, (key,))[0], variable=variable)
    for one in versions if out.json else ():
        out.line(json_line(plain(one.as_dict(with_rows=not no_rows))))
    for line in () if out.json else reported(versions, with_rows=not no_rows):
        out.line(line)
    if not versions and not out.json:
        out.line("no version changed this key")
    return Exit.DONE


@click.command(short_help="Show the graph of a pipeline, or how the state of one key came about.")
@graph_options
@click.option("--operator", help="Show only what feeds this operator; with --key, the operator of the key.")
@click.option("--key", metavar="KEY", help="Explain the state of this key.")
@output_options
def explain(target: Target, operator: str | None, key: str | None, out: Output) -> int:
    """Show the graph of PIPELINE: sources, steps, operators and sinks. With --key, show how its state came about.

    The graph needs no --root.
    --json prints the lines of the graph as one object, and the versions of a key as `history` does.
    """
    from ..pipeline.graph_text import graph_lines
    from ..pipeline.job import compile_job
    from ..pipeline.load import load
    from ..protocol.refs import MAIN
    from ..reading.explain import explain as lines_of
    from ..reading.explain import plain
    from .pipeline_or_repository import is_reference

    if not target.root and is_reference(target.reference):
        if key is not None or target.branch != MAIN:
            raise missing_root()
        return _graph(graph_lines(compile_job(load(target.reference).pipeline), operator), out)
    repository = target.read()
    if key is None:
        return _graph(lines_of(repository.opened, operator, None, False), out)
    name = _operator(repository, operator)
    chosen = keys_of(repository, name, (key,))[0]
    for one in repository.history(name, chosen) if out.json else ():
        out.line(json_line(plain(one.as_dict())))
    for line in () if out.json else lines_of(repository.opened, name, chosen, True):
        out.line(line)
    return Exit.DONE


def _graph(lines: Sequence[str], out: Output) -> int:
    """Print the lines of a graph."""
    for line in [json_line({"graph": lines})] if out.json else lines:
        out.line(line)
    return Exit.DONE


def _operator(repository: Reader, operator: str | None) -> str:
    """Return the operator, or the only one."""
    from ..reading.located import operator_in, schemas_at

    opened = repository.opened
    return operator_in(operator, schemas_at(opened, repository.head, True, operator))


def _check_one(file: TableFile | None, has_one: bool) -> None:
    if file is not None and not has_one:
        raise click.UsageError("-o writes the rows of one operator or sink; add --operator or --sink")


def _both_sides(found: OutputDiff) -> pa.Table:
    """Return the rows that were added and those that were removed, in one table."""
    import pyarrow as pa

    from ..schema import string_array

    tables = []
    for side, rows in (("removed", found.removed_rows), ("added", found.added_rows)):
        name = f"{SIDE}_" if SIDE in rows.column_names else SIDE
        tables.append(rows.add_column(0, name, string_array([side] * rows.num_rows)))
    return pa.concat_tables(tables)


def _counts(found: StateDiff | OutputDiff) -> dict[str, Any]:
    from ..reading.diff_state import StateDiff

    counts: dict[str, Any] = {"added": found.added, "removed": found.removed}
    if isinstance(found, StateDiff):
        counts = {"operator": found.operator, **counts, "changed": found.changed, "deadlines": found.deadlines,
                  "variables": found.variables}  # fmt: skip
    else:
        counts = {"sink": found.sink, **counts}
    return {**counts, "not_compared": found.not_compared}


def _lines(found: StateDiff | OutputDiff) -> list[str]:
    from ..reading.diff_state import StateDiff

    if isinstance(found, StateDiff):
        what = f"operator `{found.operator}`"
        words = [f"{found.added:,} added", f"{found.removed:,} removed", f"{found.changed:,} changed"]
        same = f"{what}: the same state"
        line = f"{what}: {count_of(found.total, 'key')} differ{'s' if found.total == 1 else ''}: {', '.join(words)}"
        lines = [line if found.total else same]
        if found.deadlines:
            lines.append(f"  {count_of(found.deadlines, 'more key')} with the same state and another deadline")
        lines += [f"  variable `{name}`: {count_of(count, 'row')} differ" for name, count in found.variables.items()]
    else:
        what = f"sink `{found.sink}`"
        line = f"{what}: {count_of(found.added, 'row')} added, {found.removed:,} removed"
        lines = [line if found.total else f"{what}: the same rows"]
    return lines + [f"  not compared: {why}" for why in found.not_compared]


def _as_json(rows: pa.Table) -> Sequence[Any]:
    from ..sinks.json_text import rows_to_json

    return [json.loads(line) for line in rows_to_json(rows).splitlines()]
