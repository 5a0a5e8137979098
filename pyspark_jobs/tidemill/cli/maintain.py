"""`tidemill maintain`: upkeep. It says before what it will delete, asks on a terminal, and shows progress."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..counts import count_of, versions_of
from ..errors import Exit
from ..names import ENGINES
from ..units import whole_number
from .correct import Agreement, consent_options
from .options import Target, target_options
from .output import Output, output_options, result_file_option
from .run import result_fields

if TYPE_CHECKING:
    from ..upkeep.maintain import MaintainReport, OnProgress

_KEEP = "Keep the versions of this period, such as '90 days'. With OPERATOR: its state. Repeatable."
_KEEP_VERSIONS = "Keep the newest N versions; with --keep, whichever keeps more. Repeatable."
SHOWN = 10
"""How many objects a dry run lists by name; with --json all."""


@click.command(short_help="Merge state, discard old versions, delete what no version needs.")
@target_options
@click.option("--keep", multiple=True, metavar="[OPERATOR=]AGE", help=_KEEP)
@click.option("--keep-versions", multiple=True, metavar="[OPERATOR=]N", help=_KEEP_VERSIONS)
@click.option("--time-budget", type=click.FloatRange(min=0), metavar="SECONDS",
              help="Merge and delete nothing more after this many seconds. The next call does the rest.")  # fmt: skip
@click.option("--compact-sinks", is_flag=True, help="Join small published files into larger ones.")
@click.option("--sink-file-size", default="128 MiB", show_default=True, metavar="SIZE",
              help="With --compact-sinks: the size to aim at. Files below half of it are small.")  # fmt: skip
@click.option("--engine", type=click.Choice(ENGINES), default="local", show_default=True,
              help="Engine that merges state.")  # fmt: skip
@click.option("--reason", default="", help="Why older versions go, or files are joined. The record of it says so.")
@consent_options
@result_file_option
@output_options
def maintain(
    target: Target,
    keep: tuple[str, ...],
    keep_versions: tuple[str, ...],
    time_budget: float | None,
    compact_sinks: bool,
    sink_file_size: str,
    engine: str,
    reason: str,
    consent: Agreement,
    out: Output,
) -> int:
    """Merge state, discard versions that --keep and --keep-versions do not keep, delete objects that no version needs.

    Without these options only leftovers of failed attempts are deleted. Tagged versions are kept. Published files are
    only touched with --compact-sinks: readers of a sink may then see rows twice for a moment. It is safe beside runs,
    and can be repeated at any time. Exit status: 0 done, 3 nothing to do.
    """
    from ..upkeep.maintain import Maintenance, planned

    repository = target.open()
    asked = Maintenance(
        keep=_rules(keep, "--keep"),
        keep_versions=_counts(keep_versions),
        time_budget_s=time_budget,
        reason=reason,
        compact_sinks=compact_sinks,
        sink_file_size=sink_file_size,
    )
    before = planned(repository.opened, asked)
    deletes = before.garbage or before.compacted or before.raises_floor
    is_harmless = not deletes  # merging changes no row
    if not (is_harmless and not consent.dry_run) and not consent.given(_lines(before, consent.dry_run), out):
        return _result(before if consent.dry_run else None, repository, out)
    with _bar(out) as on_progress:
        made = repository.maintain(**_arguments(asked), on_progress=on_progress, engine=engine)
    return _result(made, repository, out)


def _arguments(asked: Any) -> dict[str, Any]:
    return {
        "keep": asked.keep,
        "keep_versions": asked.keep_versions,
        "time_budget": asked.time_budget_s,
        "reason": asked.reason,
        "compact_sinks": asked.compact_sinks,
        "sink_file_size": asked.sink_file_size,
    }


def _result(report: MaintainReport | None, repository: Any, out: Output) -> int:
    """Print what was done; None: the user declined."""
    if report is None:
        out.result(result_fields("maintain", Exit.NOTHING, repository), ["nothing was changed"])
        return Exit.NOTHING
    did = report.dry_run or report.merged or report.compacted or report.deleted or report.strays
    did = did or report.raises_floor
    status = Exit.DONE if did else Exit.NOTHING
    fields = {**result_fields("maintain", status, repository), **dataclasses.asdict(report)}
    out.result(fields, [_summary(report)])
    return status


def _summary(report: MaintainReport) -> str:
    if report.dry_run:
        return "dry run: nothing was changed"
    left = len(report.garbage) - report.deleted
    parts = [f"merged {count_of(len(report.merged), 'range')} of state"] if report.merged else []
    parts += [f"{count_of(report.to_merge, 'range')} left to merge"] if report.to_merge else []
    if report.compacted:
        before, after = (
            sum(getattr(one, name) for one in report.compacted) for name in ("files_before", "files_after")
        )
        parts += [f"joined {count_of(before, 'published file')} into {after:,}"]
    if report.to_compact:
        why = ", because a batch is planned" if report.compact_waits else ""
        parts += [f"{count_of(report.to_compact, 'group')} of published files left to join{why}"]
    parts += [f"deleted {count_of(report.deleted, 'object')}"]
    parts += [f"{left:,} left for the next call"] if left else []
    strays = sum(map(len, report.strays.values()))
    parts += [f"withdrew {count_of(strays, 'file')} that had appeared again in sinks"] if strays else []
    return f"versions from {report.floor} on are kept; " + ", ".join(parts)


def _lines(report: MaintainReport, is_dry: bool) -> list[str]:
    """Return what will happen, in words."""
    lines = []
    if report.floor > report.floor_before:
        gone = [at for at in range(report.floor_before, report.floor) if at not in report.kept_by.values()]
        lines += [f"{versions_of(gone)} will no longer be readable"] if gone else []
    lines += [f"tag `{name}` keeps version {version}" for name, version in report.kept_by.items()]
    lines += [
        f"state of operator `{name}`: versions from {at} on are kept" for name, at in report.operator_floors.items()
    ]
    lines += [f"{count_of(report.to_merge, 'range')} of state will be merged"] if report.to_merge else []
    for sink in dict.fromkeys(one.sink for one in report.compacted):
        ours = [one for one in report.compacted if one.sink == sink]
        files, size, into = (
            sum(getattr(one, name) for one in ours) for name in ("files_before", "bytes_before", "files_after")
        )
        lines.append(f"sink `{sink}`: {count_of(files, 'published file')} ({size:,} bytes) will become {into:,}")
    lines.append(f"{count_of(len(report.garbage), 'object')} ({report.garbage_bytes:,} bytes) will be deleted")
    if is_dry:
        lines += [f"  {one.name}: {one.why}" for one in report.garbage[:SHOWN]]
        lines += (
            [f"  … and {len(report.garbage) - SHOWN:,} more; --json lists all"] if len(report.garbage) > SHOWN else []
        )
    return lines


def _rules(texts: Sequence[str], option: str) -> dict[str, str] | None:
    from ..protocol.retention import ALL_OPERATORS

    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        key, rule = (name, value) if equals else (ALL_OPERATORS, text)
        if key in found:
            raise click.UsageError(f"{option} is given twice for {'all operators' if key == ALL_OPERATORS else key}")
        found[key] = rule
    return found or None


def _counts(texts: Sequence[str]) -> dict[str, int] | None:
    found = {}
    for name, text in (_rules(texts, "--keep-versions") or {}).items():
        number = whole_number(text)
        if number is None or number < 1:
            raise click.UsageError(f"--keep-versions expects a whole number of at least 1, found `{text}`")
        found[name] = number
    return found or None


@contextlib.contextmanager
def _bar(out: Output) -> Iterator[OnProgress | None]:
    """Show a bar on a terminal: how much was merged or deleted."""
    if out.json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("looking", total=None)
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total)
