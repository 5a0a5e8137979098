"""`tidemill demo`: run a year of real flights, show progress bars and a summary. A second call resumes."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..counts import count_of
from ..errors import Exit
from ..names import ENGINES
from ..values import dataclass
from .options import LocalPath, pairs
from .output import Output, output_options, result_file_option
from .progress import batch_progress, counted
from .run import result_fields

if TYPE_CHECKING:
    from ..repository import Repository
    from ..run.drain import Drained

_FOLDER = "tidemill-demo"
SQL_FILE = "aircraft.sql"


@dataclass
class Ran:
    """What one call of the demo did, and how long each part took."""

    repository: Repository
    done: Drained
    seconds: float
    session_s: float | None


@click.command(short_help="Run the demo: a year of flights from New York.")
@click.option("--folder", default=_FOLDER, envvar="TIDEMILL_DEMO", show_default=True, show_envvar=True, metavar="DIR",
              type=LocalPath(file_okay=False, path_type=Path), help="Folder of the demo's files.")  # fmt: skip
@click.option("--days", type=click.IntRange(1, 365), default=365, show_default=True, help="Days of 2013 to process.")
@click.option("--engine", type=click.Choice(ENGINES), default="spark", show_default=True,
              help="Engine that runs the batches. `local` needs no Java.")  # fmt: skip
@click.option("--max-batches", type=click.IntRange(min=1), help="Stop after N batches. A batch is a week of flights.")
@click.option("--conf", multiple=True, metavar="K=V", help="A `tidemill.…` or `spark.…` setting. Repeatable.")
@result_file_option
@output_options
def demo(folder: Path, days: int, engine: str, max_batches: int | None, conf: tuple[str, ...], out: Output) -> int:
    """Run the demo: all flights from New York in 2013, one file a day, one week a batch.

    Interrupt it and run it again: it resumes where it stopped.
    """
    folder = folder.absolute()
    os.environ["TIDEMILL_DEMO"] = str(folder)
    _write_missing_days(folder / "flights", days)
    ran = _run(folder, engine, max_batches, dict(pairs(conf, "--conf")), out)
    out.result(result_fields("demo", Exit.DONE, ran.repository, ran.done), [])
    if not out.json:
        _print_report(ran, folder)
    return Exit.DONE


def _write_missing_days(folder: Path, days: int) -> None:
    from ..demo import data

    missing = data.missing_days(folder, days)
    if missing:
        with counted("splitting flights into daily files", "files", len(missing)) as written:
            data.write_days(folder, missing, written)


def _run(folder: Path, engine: str, max_batches: int | None, conf: dict[str, str], out: Output) -> Ran:
    from .. import repository as repositories
    from ..demo.report import REFERENCE
    from ..pipeline.load import load
    from ..run.drain import Limits
    from ..run.plan import waiting
    from ..run.run import run

    repository = repositories.open(load(REFERENCE), str(folder / "repository"), conf=conf)
    repository.init()
    head = repository.head
    files = len(waiting(repository.opened, head).all)
    _say(_progress_so_far(None if head is None else head.version, files))
    session_s = _start_spark(repository.opened.spark_conf) if files and engine == "spark" else None
    started = time.monotonic()
    with batch_progress(out, "running") as on_batch:
        done = run(repository.opened, None, engine, Limits(max_batches), on_batch)
    return Ran(repository, done, time.monotonic() - started, session_s)


def _progress_so_far(head: int | None, files: int) -> str:
    if head is None:
        return f"starting at version 0: {_waiting(files)}"
    if files:
        return f"continuing at version {head + 1}: {_waiting(files)}"
    return f"already finished: version {head} has read every file"


def _waiting(files: int) -> str:
    return f"{count_of(files, 'file')} {'is' if files == 1 else 'are'} waiting"


def _start_spark(conf: Mapping[str, str]) -> float:
    """Start Spark before the run, so that its start-up is measured separately. Return the seconds it took."""
    from ..engines import engine_for

    started = time.monotonic()
    _say("starting Spark …")
    engine_for(conf=conf)
    return time.monotonic() - started


def _say(text: str) -> None:
    click.echo(text, err=True)


def _print_report(ran: Ran, folder: Path) -> None:
    from ..demo import report
    from .render import console, table_of

    head = ran.repository.head
    if head is None:
        return
    terminal = console()
    for section in report.sections(ran.repository, head):
        headline = f"[bold]{section.title}[/bold]"
        terminal.print(table_of(section.table, section.title) if section.table.num_rows else headline)
    for line in [*_throughput(ran), "", *_places(folder), "", *_next(ran, folder)]:
        terminal.print(line, markup=False, soft_wrap=True)


def _throughput(ran: Ran) -> list[str]:
    done = ran.done.progress
    if not done:
        return ["Nothing left to do. The tables above are read from the repository."]
    rows = sum(batch.numInputRows for batch in done)
    start = "" if ran.session_s is None else f", after {ran.session_s:.1f} s for Spark to start"
    return [
        f"{count_of(rows, 'row')} in {count_of(len(done), 'batch', 'batches')}, {ran.seconds:.1f} s{start}: "
        f"{rows / ran.seconds:,.0f} rows/s, {ran.seconds / len(done) * 1000:,.0f} ms a batch"
    ]


def _places(folder: Path) -> list[str]:
    here = _near(folder)
    return [
        "Folders",
        f"  {here}/flights/     the input, a CSV file a day",
        f"  {here}/repository/  the repository: plans, commits, state",
        f"  {here}/silent/      published alerts (Parquet)",
        f"  {here}/carriers/    published totals (JSON lines)",
    ]


def _next(ran: Ran, folder: Path) -> list[str]:
    """Commands that the reader can paste."""
    from ..demo import report

    head = ran.repository.head
    assert head is not None
    here = _near(folder)
    elsewhere = "" if here == Path(_FOLDER) else f"TIDEMILL_DEMO={shlex.quote(str(here))} "
    tidemill, python = _programs()
    target = f"{report.REFERENCE} --root {shlex.quote(str(here / 'repository'))}"
    lines = []
    if ran.done.progress and ran.done.progress[-1].numFilesOutstanding:
        lines += ["Files are still waiting. Run the demo again to continue.", ""]
    lines += [
        "Next steps",
        f"  {elsewhere}{tidemill} status {target}",
        f"  {elsewhere}{tidemill} state {target} --operator aircraft --where \"carrier = 'HA'\"",
        f"  {elsewhere}{tidemill} state {target} --operator aircraft --version {head.version // 3} --limit 5",
    ]
    sql = report.state_sql(folder, head)
    if sql is not None:
        (folder / SQL_FILE).write_text(sql, encoding="utf-8")
        lines += [
            f"Read the same state without Tidemill, with DuckDB ({here}/{SQL_FILE}):",
            f"  {python} -c \"import duckdb; print(duckdb.sql(open('{here}/{SQL_FILE}').read()))\"",
        ]
    return lines


def _near(path: Path) -> Path:
    """Return the path relative to the working folder, if it is inside it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _programs() -> tuple[str, str]:
    """Return the commands that start `tidemill` and its Python interpreter from the working folder."""
    python = str(_near(Path(sys.executable)))
    beside = Path(sys.executable).with_name("tidemill")
    if shutil.which("tidemill"):
        return "tidemill", python
    return (str(_near(beside)) if beside.exists() else f"{python} -m tidemill"), python
