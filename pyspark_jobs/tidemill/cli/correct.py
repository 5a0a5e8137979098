"""`tidemill replan`, `skip`, `reset` and `adopt`: corrections, each with a reason.

INVARIANT: a command here says what it will do before it does it. `--dry-run` stops there. On a terminal it asks, unless
`--yes` is given; elsewhere, such as in a scheduler, it does not ask.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from ..counts import count_of, versions_of
from ..visible import visible_lines
from .exits import Exit
from .options import Target, pairs, point_in_time, target_options
from .output import Output, output_options, result_file_option
from .run import result_fields

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class Consent:
    """Whether a correction is carried out."""

    dry_run: bool
    yes: bool

    def given(self, lines: Sequence[str], out: Output) -> bool:
        """Print what will be done, ask if this is a terminal, and return whether to do it."""
        for line in lines:
            click.echo(visible_lines(line), err=not self.dry_run or out.json)
        if self.dry_run:
            return False
        if self.yes or not sys.stdin.isatty():
            return True
        try:
            return click.confirm("continue?", err=True)
        except click.Abort:  # Ctrl-C, or the end of input
            click.echo(err=True)
            return False


def consent_options(command: Command) -> Command:
    """Add `--dry-run` and `--yes`. The command receives a `Consent`."""

    @click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
    @click.option("--yes", is_flag=True, help="Do not ask on a terminal.")
    @functools.wraps(command)
    def wrapped(dry_run: bool, yes: bool, **rest: Any) -> Any:
        return command(consent=Consent(dry_run, yes), **rest)

    return wrapped  # type: ignore[return-value]


def if_needed_option(command: Command) -> Command:
    """Add `--if-needed`. The command receives `if_needed`."""
    return click.option(
        "--if-needed",
        is_flag=True,
        help="Succeed, with status 3, if an earlier try of this Airflow task made the correction.",
    )(command)


@click.command(short_help="Abandon a plan that cannot run.")
@target_options
@click.option("--reason", required=True, help="Why you abandon the plan. The commit records it.")
@if_needed_option
@consent_options
@result_file_option
@output_options
def replan(target: Target, reason: str, if_needed: bool, consent: Consent, out: Output) -> int:
    """Abandon a plan that cannot run, with a void commit that reads no files.

    Use it when a planned file is missing, changed or unreadable. The next run plans the files that exist then.
    """
    from ..verbs.replan import planned

    repository = target.open()
    if if_needed and made_before("replan", "void", reason, repository, out):
        return Exit.NOTHING
    plan = planned(repository.context)
    files = count_of(len({(split.source, split.path) for split in plan.splits}), "file")
    what = f"the plan of version {plan.number} ({files}) ends; the next run plans the files that are there then"
    if not consent.given([what], out):
        return unchanged("replan", repository, consent, out, {"changes": [what]})
    void = repository.replan(reason)
    out.result(
        {**result_fields("replan", Exit.DONE, repository), "versions": [void.version], "changes": [what]},
        [f"abandoned the plan of version {void.version}: {reason}"],
    )
    return Exit.DONE


@click.command()
@target_options
@click.argument("file", metavar="FILE")
@click.option("--source", metavar="NAME", help="Source of the file. Needed only if several sources have this file.")
@click.option("--reason", required=True, help="Why the file is not read. The commit records it.")
@if_needed_option
@consent_options
@result_file_option
@output_options
def skip(
    target: Target, file: str, source: str | None, reason: str, if_needed: bool, consent: Consent, out: Output
) -> int:
    """Take FILE out of the input, with a commit that reads no files. FILE is relative to its source's folder.

    The file waits, or a failed batch has planned it. In that case the plan ends, and the next run plans its other
    files.
    """
    from ..verbs.skip import planned

    repository = target.open()
    if if_needed and made_before("skip", "skip", reason, repository, out):
        return Exit.NOTHING
    which = file if source is None else (source, file)
    found = planned(repository.context, which)
    what = f"file `{found.file.path}` of source `{found.file.source}` ({found.file.size:,} bytes) will not be read"
    if found.read_by is not None:
        what += f"; rows that version {found.read_by} read from its earlier content stay"
    if found.ends_plan is not None:
        what += f"; the plan of version {found.ends_plan} ends, and its other files are planned again"
    if not consent.given([what], out):
        return unchanged("skip", repository, consent, out, {"changes": [what]})
    made = repository.skip(which, reason)
    out.result(
        {**result_fields("skip", Exit.DONE, repository), "versions": [made.version], "changes": [what]},
        [f"skipped `{found.file.path}` in version {made.version}: {reason}"],
    )
    return Exit.DONE


@click.command(short_help="Confirm that the repository or a source has moved.")
@target_options
@click.option("--moved", is_flag=True, help="This is the repository now; the place where it was made is dead.")
@click.option("--copy", is_flag=True, help="Both repositories remain. This one gets a uuid of its own.")
@click.option(
    "--source", "sources", multiple=True, metavar="NAME", help="Read files from this source's new folder. Repeatable."
)
@click.option("--reason", default="", help="Why. The entry records it.")
@consent_options
@result_file_option
@output_options
def adopt(
    target: Target, moved: bool, copy: bool, sources: tuple[str, ...], reason: str, consent: Consent, out: Output
) -> int:
    """Confirm that the repository was moved or copied on purpose, or that the folder of a source changed.

    Until then, commands that write are refused, because two repositories that take each other for themselves would
    publish twice.
    """
    from ..verbs.adopt import planned

    repository = target.open()
    found = planned(repository.context, moved, copy, sources)
    lines = [f"repository {found.root_before} -> {found.root}"] if found.root != found.root_before else []
    lines += [f"uuid {found.uuid_before} -> {found.uuid}"] if found.uuid != found.uuid_before else []
    lines += [f"source `{name}`: {before} -> {after}" for name, (before, after) in found.sources.items()]
    if not consent.given(lines, out):
        return unchanged("adopt", repository, consent, out)
    refs = repository.adopt(reason, moved, copy, sources)
    out.result(
        {**result_fields("adopt", Exit.DONE, repository), "uuid": refs.uuid, "root": refs.root},
        [f"adopted: {refs.root}"],
    )
    return Exit.DONE


@click.command(short_help="Set watermarks or the batch time to another value.")
@target_options
@click.option(
    "--watermark",
    "watermarks",
    multiple=True,
    metavar="[NAME=]MS|ISO",
    help="New watermark; without a name, of all watermarks. Repeatable.",
)
@click.option("--batch-time", metavar="MS|ISO", help="New batch time.")
@click.option("--reason", required=True, help="Why. The commit records it.")
@if_needed_option
@consent_options
@result_file_option
@output_options
def reset(
    target: Target,
    watermarks: tuple[str, ...],
    batch_time: str | None,
    reason: str,
    if_needed: bool,
    consent: Consent,
    out: Output,
) -> int:
    """Set watermarks or the batch time to another value, also to an earlier one.

    Use it after a row with a wrong event time made all others late, or after a clock was wrong. Keys that
    have timed out do not come back.
    """
    from ..protocol.progress import iso
    from ..verbs.reset import planned

    repository = target.open()
    if if_needed and made_before("reset", "reset", reason, repository, out):
        return Exit.NOTHING
    marks = _watermarks(watermarks)
    time = None if batch_time is None else point_in_time(batch_time)
    found = planned(repository.context, marks, time)
    lines = [f"watermark {name}: {iso(before)} -> {iso(after)}" for name, (before, after) in found.watermarks.items()]
    lines += [f"batch time: {iso(found.batch_time[0])} -> {iso(found.batch_time[1])}"] if found.batch_time else []
    if not consent.given(lines, out):
        return unchanged("reset", repository, consent, out, {"changes": lines})
    made = repository.reset(marks, time, reason)
    out.result(
        {**result_fields("reset", Exit.DONE, repository), "versions": [made.version], "changes": lines},
        [f"reset in version {made.version}: {reason}"],
    )
    return Exit.DONE


def _watermarks(texts: tuple[str, ...]) -> int | str | dict[str, int | str] | None:
    """Return one time for all watermarks, or times by name."""
    if len(texts) == 1 and "=" not in texts[0]:
        return point_in_time(texts[0])
    named = dict(pairs(texts, "--watermark"))
    return {name: point_in_time(text) for name, text in named.items()} or None


def made_before(verb: str, kind: str, reason: str, repository: Any, out: Output) -> bool:
    """Report the correction that an earlier try of this Airflow task made, and return whether there is one.

    A correction with the same kind and reason counts. If that try died before it had published, the next run publishes.
    """
    from ..verbs.tries import earlier_tries

    made = [repository.commit(version) for version in earlier_tries(repository.context)]
    versions = [commit.version for commit in made if commit.kind == kind and commit.reason == reason]
    if versions:
        out.result(
            {**result_fields(verb, Exit.NOTHING, repository), "already_committed": versions, "changes": []},
            [f"an earlier try of this task made the correction: {versions_of(versions)}"],
        )
    return bool(versions)


def unchanged(
    verb: str, repository: Any, consent: Consent, out: Output, planned: Mapping[str, Any] | None = None
) -> int:
    """Report that nothing was done: as planned in a dry run, or because the user declined."""
    status = Exit.DONE if consent.dry_run else Exit.NOTHING
    fields = {**result_fields(verb, status, repository), "dry_run": consent.dry_run, **(planned or {})}
    out.result(
        fields,
        ["dry run: nothing was changed" if consent.dry_run else "nothing was changed"],
    )
    return status
