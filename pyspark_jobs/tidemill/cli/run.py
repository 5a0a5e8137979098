"""`tidemill init`, `replan`, `run` and `sweep`: thin words over the verbs of the same names."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from ..counts import count_of, versions_of
from .exits import Exit
from .options import Drive, Target, drain_options, drive_options, target_options
from .output import Output, committed, output_options, result_file_option
from .progress import watched

if TYPE_CHECKING:
    from ..driver.drain import Drained
    from ..repository import Repository


@click.command()
@target_options
@click.option("--drop", multiple=True, metavar="NAME", help="An operator that the code no longer has: its state ends.")
@click.option(
    "--initial-state", multiple=True, metavar="OPERATOR=PATH", help="Its state before its first batch: Parquet."
)
@result_file_option
@output_options
def init(target: Target, drop: tuple[str, ...], initial_state: tuple[str, ...], out: Output) -> int:
    """Make the repository of PIPELINE: the explicit first step.

    Done again it adds new operators; one that is gone ends only where --drop names it. Tidemill never starts
    empty by accident: without it, `run` refuses.
    """
    repository = target.open()
    made = repository.init(drop, dict(map(_operator_and_path, initial_state)))
    out.result(
        result_fields("init", Exit.DONE, repository),
        [f"the repository of `{made.pipeline}` is {repository.context.store.uri}", f"head: {_head_name(repository)}"],
    )
    return Exit.DONE


def _operator_and_path(text: str) -> tuple[str, str]:
    operator, separator, path = text.partition("=")
    if not separator or not operator or not path:
        raise click.UsageError(f"--initial-state {text!r}: expected OPERATOR=PATH")
    return operator, path


@click.command()
@target_options
@click.option("--reason", required=True, help="Why the plan is given up; the commit records it.")
@result_file_option
@output_options
def replan(target: Target, reason: str, out: Output) -> int:
    """Give up a plan that cannot run, by a void commit.

    A planned file vanished, was changed or cannot be read: nothing is consumed, and what is there is planned anew.
    """
    repository = target.open()
    void = repository.replan(reason)
    out.result(
        {**result_fields("replan", Exit.DONE, repository), "versions": [void.version]},
        [f"version {void.version} is void: {reason}"],
    )
    return Exit.DONE


@click.command()
@target_options
@drain_options
@drive_options
@result_file_option
@output_options
def run(target: Target, drive: Drive, out: Output) -> int:
    """Drain what is waiting, publish, and fire what is due.

    Exit status: 0 done, 1 failed, 2 usage, 3 nothing to do, 4 somebody else commits here.
    """
    from ..verbs.run import run as drain

    repository = target.open()
    started = time.monotonic()
    with watched(out, f"draining {target.reference} on {drive.engine}") as on_batch:
        done = drain(repository.context, None, drive.engine, drive.limits, on_batch)
    return _finish("run", repository, done, time.monotonic() - started, out)


@click.command()
@target_options
@drive_options
@result_file_option
@output_options
def sweep(target: Target, drive: Drive, out: Output) -> int:
    """Fire what is due, without input.

    A batch that is planned already is run first. Exit status as for `run`.
    """
    from ..verbs.run import sweep as fire

    repository = target.open()
    started = time.monotonic()
    with watched(out, f"sweeping {target.reference} on {drive.engine}") as on_batch:
        done = fire(repository.context, None, drive.engine, drive.limits, on_batch)
    return _finish("sweep", repository, done, time.monotonic() - started, out)


def _finish(verb: str, repository: Repository, done: Drained, seconds: float, out: Output) -> int:
    status = Exit.NOTHING if done.idle else Exit.DONE
    out.result(result_fields(verb, status, repository, done), summary(verb, repository, done, seconds))
    return status


def result_fields(verb: str, status: Exit, repository: Repository, done: Drained | None = None) -> dict[str, Any]:
    """The object that ends a command for machines: always the same keys. `head` −1 is before the first batch."""
    head = repository.head
    return {
        "verb": verb,
        "status": "nothing" if status is Exit.NOTHING else "done",
        "versions": done.versions if done else [],
        "already_committed": done.already if done else [],
        "published": done.published if done else [],
        "head": -1 if head is None else head.version,
    }


def _head_name(repository: Repository) -> str:
    head = repository.head
    return "version −1, no batch yet" if head is None else f"version {head.version}"


def summary(verb: str, repository: Repository, done: Drained, seconds: float) -> list[str]:
    """What a drain did, in words; the first line stands alone."""
    if done.idle:
        what = "no file is waiting and nothing is due" if verb == "run" else "nothing is due"
        return [f"nothing to do: {what}; head is {_head_name(repository)}"]
    lines = []
    if done.progress:
        rows, files = (sum(getattr(p, name) for p in done.progress) for name in ("numInputRows", "input_files"))
        lines.append(
            f"{committed(done.versions)}: {count_of(rows, 'row')} of {count_of(files, 'file')} in {seconds:.1f} s"
            f"; {count_of(done.progress[-1].numFilesOutstanding, 'file')} waiting"
        )
        aside = [
            f"{count:,} {word}"
            for name, word in (("late_rows", "late"), ("quarantined_rows", "quarantined"))
            if (count := sum(getattr(p, name) for p in done.progress))
        ]
        if aside:
            lines.append(f"rows set apart: {', '.join(aside)}; `tidemill quarantine` shows those that are kept")
    if done.already:
        lines.append(f"already committed by another run: {versions_of(done.already)}")
    repaired = [version for version in done.published if version not in done.versions]
    if repaired:
        lines.append(f"published what was not in its folder: {versions_of(repaired)}")
    return lines
