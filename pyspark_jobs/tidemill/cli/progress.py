"""Progress while batches run: a bar on a terminal, one plain line a batch elsewhere, nothing with `--json`.

All of it goes to stderr. Tidemill's log messages go through the bar's console, so that they do not break the bar.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from ..counts import count_of
from ..visible import visible_lines
from .output import Output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from ..protocol.progress import BatchProgress

OnBatch = Callable[["BatchProgress"], None]


@contextlib.contextmanager
def batch_progress(out: Output, doing: str, waiting: str = "waiting") -> Iterator[OnBatch]:
    """Yield the function to call after each batch. On a terminal, print `doing` first and then show a bar.

    `waiting` says what the files are that are not read yet.
    """
    if out.json or not sys.stderr.isatty():
        estimate = Estimate()
        with _logged(lambda text: click.echo(text, err=True)):
            plain = (lambda _: None) if out.json else (
                lambda batch: click.echo(line(batch, waiting) + estimate.after(batch), err=True))  # fmt: skip
            yield _both(out.batch, plain)
        return
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    console.print(f"{doing} …", markup=False)
    with _logged(lambda text: console.print(text, style="yellow", markup=False)), Bar(console) as bar:
        yield _both(out.batch, bar.batch)


class Estimate:
    """Estimates from the files that were read how long the others will take."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._files = 0

    def after(self, progress: BatchProgress) -> str:
        """Return `, about 2 min left` after a batch, or nothing if that is not known or less than ten seconds."""
        self._files += progress.input_files
        if not self._files or not progress.numFilesOutstanding:
            return ""
        left = (time.monotonic() - self._started) / self._files * progress.numFilesOutstanding
        if left < _LEAST_LEFT_S:
            return ""
        return f", about {left:.0f} s left" if left < 2 * _MINUTE_S else f", about {left / _MINUTE_S:.0f} min left"


_LEAST_LEFT_S, _MINUTE_S = 10, 60


def line(progress: BatchProgress, waiting: str = "waiting") -> str:
    """Describe one batch in one line: version, kind, rows, rows/s, late and quarantined rows, waiting files."""
    return (
        f"version {progress.version}: {progress.kind}, {count_of(progress.numInputRows, 'row')}, "
        f"{progress.processedRowsPerSecond:,.0f} rows/s, {progress.late_rows:,} late, "
        f"{progress.quarantined_rows:,} quarantined{_bad_files(progress)}, "
        f"{count_of(progress.numFilesOutstanding, 'file')} {waiting}"
    ) + "".join(f"; {lost}" for lost in progress.lost_behind)


def _bad_files(progress: BatchProgress) -> str:
    return f" with {count_of(progress.quarantined_files, 'file')}" if progress.quarantined_files else ""


class Bar:
    """A bar over files: how many were read, of all that are known so far.

    It appears with the first batch, because Spark's messages during start-up would break it.
    """

    def __init__(self, console: Console) -> None:
        self._progress = _bar(console)
        self._task: TaskID | None = None
        self._files = self._rows = self._late = self._quarantined = 0

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def batch(self, progress: BatchProgress) -> None:
        """Advance the bar by a committed batch."""
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task("", total=None, unit="files", text="")
        self._files += progress.input_files
        self._rows += progress.numInputRows
        self._late += progress.late_rows
        self._quarantined += progress.quarantined_rows
        words = [count_of(self._rows, "row"), f"{progress.processedRowsPerSecond:,.0f} rows/s"]
        words += [f"{n:,} {word}" for n, word in ((self._late, "late"), (self._quarantined, "quarantined")) if n]
        self._progress.update(
            self._task,
            description=f"{'sweep, ' if progress.kind == 'sweep' else ''}version {progress.version}",
            completed=self._files,
            total=self._files + progress.numFilesOutstanding,
            text=", " + ", ".join(words),
        )


@contextlib.contextmanager
def counted(what: str, unit: str, total: int) -> Iterator[Callable[[], None]]:
    """Yield the function to call after each of `total` pieces of work. Show a bar on a terminal, else one line."""
    if not sys.stderr.isatty():
        click.echo(f"{what}: {count_of(total, unit.removesuffix('s'))}", err=True)
        yield lambda: None
        return
    from rich.console import Console

    with _bar(Console(stderr=True, highlight=False)) as bar:
        task = bar.add_task(what, total=total, unit=unit, text="")
        yield lambda: bar.advance(task)


@contextlib.contextmanager
def stepped(out: Output) -> Iterator[Callable[[str, int, int], None] | None]:
    """Yield the function to call with what is being done, how much of it, and of how much. None: nothing is shown."""
    if out.json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("looking", total=None)
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total)


def _bar(console: Console) -> Progress:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}{task.fields[text]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
        console=console,
    )


def _both(first: OnBatch, second: OnBatch) -> OnBatch:
    def call(progress: BatchProgress) -> None:
        first(progress)
        second(progress)

    return call


@contextlib.contextmanager
def _logged(write: Callable[[str], None]) -> Iterator[None]:
    """Pass warnings of Tidemill's log to `write`."""

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            write(f"{record.levelname.lower()}: {visible_lines(record.getMessage())}")

    log, handler = logging.getLogger("tidemill"), Lines(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
