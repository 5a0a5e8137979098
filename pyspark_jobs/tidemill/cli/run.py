"""`tidemill init`, `run` and `sweep`: thin wrappers of the verbs with the same names."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from ..counts import count_of, versions_of
from ..errors import Exit
from .figures import figures
from .options import Drive, Target, accept_options, batch_time_option, drain_options, drive_options, target_options
from .output import Output, committed, output_options, result_file_option
from .progress import batch_progress
from .pyarrow_alone import import_pyarrow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..pipeline.job import Placed
    from ..protocol.progress import BatchProgress
    from ..reader import Reader
    from ..repository import Repository
    from ..run.drain import Drained


@click.command()
@target_options
@click.option(
    "--drop",
    multiple=True,
    metavar="NAME",
    help="Discard the state of an operator that the code no longer has. Repeatable.",
)
@click.option(
    "--initial-state",
    multiple=True,
    metavar="OPERATOR=PATH",
    help="Parquet file with the state of a new operator before its first batch. Repeatable.",
)
@result_file_option
@output_options
def init(target: Target, drop: tuple[str, ...], initial_state: tuple[str, ...], out: Output) -> int:
    """Create the repository of PIPELINE: the explicit first step. `run` fails without it.

    Run it again to add new operators. Operators that the code no longer has must be named with --drop, which discards
    their state.
    """
    repository = target.open()
    before = repository.opened.refs_log.read()
    known = {} if before is None else before.schemas
    made = repository.init(drop, dict(map(_operator_and_path, initial_state)))
    added, dropped = sorted(made.schemas.keys() - known), sorted(known.keys() - made.schemas.keys())
    changed = sorted(name for name in known if name in made.schemas and known[name] != made.schemas[name])
    found = {"added": added, "changed": changed, "dropped": dropped}
    changes = [f"{word}: {', '.join(names)}" for word, names in found.items() if names]
    out.result(
        {**result_fields("init", Exit.DONE, repository), **found},
        [
            f"repository of `{made.pipeline}`: {repository.opened.store.uri}",
            *(changes or ["operators: unchanged"]),
            f"head: {_head_name(repository)}",
        ],
    )
    return Exit.DONE


def _operator_and_path(text: str) -> tuple[str, str]:
    operator, separator, path = text.partition("=")
    if not separator or not operator or not path:
        raise click.UsageError(f"--initial-state expects OPERATOR=PATH, found {text!r}")
    return operator, path


@click.command(short_help="Process waiting files, publish outputs, fire due timeouts.")
@target_options
@drain_options
@accept_options
@batch_time_option
@drive_options
@result_file_option
@output_options
def run(target: Target, drive: Drive, out: Output) -> int:
    """Process all waiting files in batches, publish outputs, and fire due timeouts.

    Exit status: 0 done, 1 failed, 2 usage error, 3 nothing to do, 4 fenced (another run is committing).
    """
    if out.is_process:
        import_pyarrow(target.reference, drive.engine)
    from ..run.run import run as drain

    repository = target.open()
    earlier = _report_earlier_tries(repository, out)
    started = time.monotonic()
    with batch_progress(out, f"draining {target.reference} on {drive.engine}") as on_batch:
        done = drain(repository.opened, None, drive.engine, drive.limits, on_batch)
    return _finish("run", repository, done, time.monotonic() - started, earlier, out)


@click.command()
@target_options
@batch_time_option
@drive_options
@result_file_option
@output_options
def sweep(target: Target, drive: Drive, out: Output) -> int:
    """Fire due timeouts, without reading input.

    If a batch is already planned, it runs first. The exit status is that of `run`.
    """
    if out.is_process:
        import_pyarrow(target.reference, drive.engine)
    from ..run.run import sweep as fire

    repository = target.open()
    earlier = _report_earlier_tries(repository, out)
    started = time.monotonic()
    with batch_progress(out, f"sweeping {target.reference} on {drive.engine}") as on_batch:
        done = fire(repository.opened, None, drive.engine, drive.limits, on_batch)
    return _finish("sweep", repository, done, time.monotonic() - started, earlier, out)


def _report_earlier_tries(repository: Repository, out: Output) -> list[int]:
    """Find the versions of earlier tries of this Airflow task, for machines, and return them.

    With `--json`, an event names them.
    """
    from ..reading.tries import earlier_tries

    out.earlier = earlier_tries(repository.opened) if out.reports else []
    if out.earlier and out.json:
        out.event("earlier", {"versions": out.earlier})
    return out.earlier


def _finish(verb: str, repository: Repository, done: Drained, seconds: float, earlier: list[int], out: Output) -> int:
    status = Exit.NOTHING if done.idle else Exit.DONE
    fields = result_fields(verb, status, repository, done)
    out.result(
        {**fields, **figures(repository, done, earlier)} if out.reports else fields,
        _summary(verb, repository, done, seconds),
    )
    return status


def result_fields(verb: str, status: Exit, repository: Reader, done: Drained | None = None) -> dict[str, Any]:
    """Return the result object for machines, always with the same keys. `head` is -1 before the first batch."""
    head = repository.head
    return fields_at(verb, status, -1 if head is None else head.version, done)


def fields_at(verb: str, status: Exit, head: int, done: Drained | None = None) -> dict[str, Any]:
    """Return the result object for machines, as `result_fields`, for a newest version that is known."""
    return {
        "verb": verb,
        "status": "nothing" if status is Exit.NOTHING else "done",
        "versions": done.versions if done else [],
        "already_committed": done.already if done else [],
        "published": done.published if done else [],
        "head": head,
    }


def _head_name(repository: Repository) -> str:
    head = repository.head
    return "version -1, no batch yet" if head is None else f"version {head.version}"


_MOST_LOST = 5
"""How many lines say what was lost behind operators. `tidemill log` has all of them."""


_SEE = "; see `tidemill quarantine`"


def _not_applied(late: int, quarantined: int, bad_files: int, keeps_late: bool) -> list[str]:
    """Return the line that reports late and quarantined rows, if there are any. Dropped rows are in no quarantine."""
    words = []
    if late:
        words.append(count_of(late, "late row") + ("" if keeps_late else " dropped"))
    if quarantined:
        words.append(count_of(quarantined, "quarantined row"))
    if bad_files:
        words.append(count_of(bad_files, "quarantined file"))
    is_kept = quarantined or bad_files or (late and keeps_late)
    return [", ".join(words) + (_SEE if is_kept else "")] if words else []


def _lost_behind(repository: Repository, done: Sequence[BatchProgress]) -> list[str]:
    """Return the lines that report rows lost behind operators. The last one says where to see those that are kept."""
    lost = [f"version {one.version}: {words}" for one in done for words in one.lost_behind]
    lines = lost[:_MOST_LOST]
    if len(lost) > _MOST_LOST:
        lines.append(f"{count_of(len(lost) - _MOST_LOST, 'line')} more; see `tidemill log`")
    job = repository.opened.job
    behind = {name: placed for name, placed in job.operators.items() if job.upstream(name)}
    is_kept = any(
        counts["quarantined_rows"] or (counts["late_rows"] and _quarantines_late_rows([behind[name]]))
        for one in done
        for name, counts in one.operators.items()
        if name in behind
    )
    return [*lines[:-1], lines[-1] + _SEE] if lines and is_kept else lines


def _quarantines_late_rows(operators: Iterable[Placed]) -> bool:
    return any(port.input.late == "quarantine" for placed in operators for port in placed.ports)


def _summary(verb: str, repository: Repository, done: Drained, seconds: float) -> list[str]:
    """Summarise a drain for people. The first line stands alone."""
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
        late, quarantined, bad_files = (
            sum(getattr(p, n) for p in done.progress) for n in ("late_rows", "quarantined_rows", "quarantined_files")
        )
        keeps_late = _quarantines_late_rows(repository.opened.job.operators.values())
        lines += _not_applied(late, quarantined, bad_files, keeps_late)
        lines += _lost_behind(repository, done.progress)
    if done.already:
        lines.append(f"already committed by another run: {versions_of(done.already)}")
    repaired = [version for version in done.published if version not in done.versions]
    if repaired:
        lines.append(f"published {versions_of(repaired)}, left unpublished by an earlier run")
    return lines
