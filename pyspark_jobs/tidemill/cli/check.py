"""`tidemill check`: a thin wrapper of the verb with the same name. Its exit status is for continuous integration."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from ..counts import count_of, versions_of
from ..errors import Exit
from .options import Target, target_options
from .output import Output, output_options, result_file_option
from .run import fields_at

if TYPE_CHECKING:
    from ..branches.against import Against
    from ..branches.check import CheckReport
    from ..protocol.compatible import Difference
    from ..repository import Repository


@click.command()
@target_options
@click.option("--against", metavar="BRANCH", help="Also show what this branch would change if it were promoted.")
@click.option("--tolerance", type=float, metavar="X", help="Floats differ if they are further apart than this.")
@click.option("--fail-if-different", is_flag=True, help="With --against: exit with 1 if anything differs.")
@result_file_option
@output_options
def check(target: Target, against: str | None, tolerance: float | None, fail_if_different: bool, out: Output) -> int:
    """Compare the code of PIPELINE with its repository, without running and without writing.

    The status is `compatible`, `needs init`, `needs migration` or `refused`; every difference says what will happen.
    With --against, the code is compared with that branch, and the branch with the one that is open.

    Exit status: 0 compatible, 1 otherwise. With --against, it is also 1 if `promote` would refuse the branch, unless
    the branch only has to catch up.
    """
    if against is None and (fail_if_different or tolerance is not None):
        raise click.UsageError("--fail-if-different and --tolerance need --against BRANCH")
    repository = target.open()
    found = repository.check(against, tolerance)
    kept = {name for name, output in repository.opened.job.outputs.items() if output.sink is None}
    out.result(_fields(repository, found), list(_lines(found, kept)))
    is_different = found.against is not None and not found.against.is_equal
    is_refused = found.against is not None and not found.against.is_promotable
    failed = found.status != "compatible" or is_refused or (fail_if_different and is_different)
    return Exit.FAILED if failed else Exit.DONE


def _fields(repository: Repository, found: CheckReport) -> dict[str, Any]:
    """Return the result for machines. Its `status` is that of the code."""
    from ..reading.explain import plain
    from ..repo.versions import branch_name

    repo = repository.opened
    is_there = repo.refs_log.read() is not None
    head = repository.head if is_there else None
    fields = {
        **fields_at("check", Exit.DONE, -1 if head is None else head.version),
        "branch": branch_name(repo, repo.branch) if is_there else repo.branch,
        **dataclasses.asdict(found),
    }
    if found.against is None:
        del fields["against"]
    else:
        said = {name: getattr(found.against, name) for name in ("is_equal", "is_promotable", "refusal")}
        fields["against"] = {**plain(fields["against"]), **said}
    return fields


def _lines(found: CheckReport, kept: Collection[str]) -> Iterator[str]:
    """Yield the report in words. `kept` are outputs that are kept in the repository alone."""
    branch = "" if found.against is None else f" of branch `{found.against.branch}`"
    yield f"code: {found.status}, compared with version {found.version}{branch}"
    for one in found.differences:
        yield from _of(one)
    if found.other_code:
        yield f"other code than in version {found.other_code.version}: {found.other_code.names}"
    if found.against is not None:
        yield from _changes(found.against, kept)


def _changes(found: Against, kept: Collection[str]) -> Iterator[str]:
    from .render import cell

    yield f"{found.before} → {found.after}" + (": no difference" if found.is_equal else "")
    for name, keys in found.operators.items():
        words = [f"{keys.added:,} added", f"{keys.removed:,} removed", f"{keys.changed:,} changed"]
        of = f"{keys.total:,} of {count_of(keys.keys + keys.added, 'key')} {'differs' if keys.total == 1 else 'differ'}"
        total = of if keys.keys else "it had no state before"
        yield f"operator `{name}`: {total}: {', '.join(words)}"
        for one in keys.largest:
            values = f"{cell(one.before).plain} → {cell(one.after).plain}"
            yield f"  largest change of `{one.column}`: {values} for {_key(one.key)}"
        if keys.deadlines:
            yield f"  {count_of(keys.deadlines, 'more key')} with the same state and another deadline"
        yield from (f"  variable `{one}`: {count_of(rows, 'row')} differ" for one, rows in keys.variables.items())
        yield from (f"  not compared: {why}" for why in keys.not_compared)
    for name, rows in found.sinks.items():
        where = " (kept in the repository)" if name in kept else ""
        yield f"sink `{name}`{where}: {count_of(rows.added, 'row')} added, {rows.removed:,} removed"
        yield from (f"  not compared: {why}" for why in rows.not_compared)
    for name in found.dropped_sinks:
        yield f"sink `{name}`: this code does not have it, so a promotion withdraws what it has published"
    yield from (f"{name} cannot be compared: {why}" for name, why in found.problems.items())
    if found.own:
        yield (
            f"`{found.branch}` ran {versions_of(found.own)} by itself, so it may have read other files than "
            f"{found.before}"
        )
    for gone in found.left_out:
        file = f"`{gone.path}` of source `{gone.source}`, which version {gone.version} has read"
        yield f"left out: {file}; it was gone when the branch was replayed"
    if found.behind and found.refused is None:
        yield f"`{found.branch}` has not repeated {versions_of(found.behind)}, but has read the same input"
    elif found.behind:
        yield f"`{found.branch}` has not repeated {versions_of(found.behind)}; replay on, or promote with --catch-up"
    if found.refusal:
        yield f"it cannot be promoted: {found.refusal}"
        if found.hint:
            yield f"  hint: {found.hint}"


def _key(key: Mapping[str, Any]) -> str:
    from .render import cell

    return ", ".join(f"{name} {cell(value).plain}" for name, value in key.items())


def _of(one: Difference) -> Iterator[str]:
    of = f"operator `{one.operator}`: " if one.operator else ""
    if one.before or one.after:
        named = f"{one.what} `{one.field}`" if one.field else one.what
        named = "" if one.what == "operator" else f"{named}: "  # `of` names it
        yield f"{of}{named}{one.before or 'nothing'} -> {one.after or 'nothing'}; {one.outcome}"
    else:
        yield f"{of}{one.what}: {one.outcome}"
    if one.hint:
        yield f"  hint: {one.hint}"
