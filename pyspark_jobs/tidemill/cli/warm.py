"""`tidemill warm`: a thin wrapper of the verb with the same name. It prints each step when it is done."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from ..errors import Exit
from ..names import AUTO, CHOICES, ROOT_ENVIRONMENT
from .options import Target, conf_option, settings, storage_option, storage_options
from .output import Output, output_options, result_file_option

if TYPE_CHECKING:
    from ..run.warm import Warming, WarmStep

_WIDTH = 12
_ENGINE_HELP = "`local` leaves Java and Spark out, `spark` requires them, `auto` uses them if PySpark is installed."


@click.command()
@click.argument("reference", metavar="[PIPELINE]", required=False)
@click.option("--root", envvar=ROOT_ENVIRONMENT, show_envvar=True, metavar="URI",
              help="URI of the repositories. Required beside PIPELINE.")  # fmt: skip
@conf_option
@storage_option
@click.option("--engine", type=click.Choice(CHOICES), default=AUTO, show_default=True, help=_ENGINE_HELP)
@click.option("--again", is_flag=True, help="Make the archive of classes even if there is one.")
@result_file_option
@output_options
def warm(
    reference: str | None,
    root: str | None,
    conf: Iterable[str],
    storage: Iterable[str],
    engine: str,
    again: bool,
    out: Output,
) -> int:
    """Check what runs need on this machine, and prepare what makes Spark start quickly.

    It makes the archive of Java classes that later starts of Spark use, starts a session, runs two jobs, and checks
    Java, the workers, the caches and Airflow, if it is there. With PIPELINE, it also lists the root, the sources and
    the sinks. Then the workers of a cluster check that they can read root and sources, and import the modules of the
    pipeline. Run it once for each user and machine, or when you build an image. Exit status: 0 all is well, 1 a step
    found a problem.
    """
    if reference is None and storage:
        raise click.UsageError("--storage-option needs PIPELINE")
    target = None
    if reference is not None:
        target = Target(reference, _root(root), "main", settings(conf), storage_options(storage))
    found: list[WarmStep] = []
    for step in _shown(_warming(target, settings(conf), engine, again).steps(), out):
        found.append(step)
        for line in () if out.json else _lines(step):
            out.line(line)
    status = Exit.FAILED if any(step.problem for step in found) else Exit.DONE
    steps = [dataclasses.asdict(step) for step in found]
    out.result({"verb": "warm", "status": status.name.lower(), "steps": steps}, [])
    return status


def _root(root: str | None) -> str:
    if not root:
        raise click.UsageError("PIPELINE needs --root URI")
    return root


def _warming(target: Target | None, conf: dict[str, str], engine: str, again: bool) -> Warming:
    from ..run.warm import Warming
    from ..settings import resolve_settings

    if target is None:
        own, spark = resolve_settings(conf)
        return Warming(own, spark, engine, None, again)
    repo = target.open().opened
    return Warming(repo.settings, repo.spark_conf, engine, repo, again)


def _shown(steps: Iterator[WarmStep], out: Output) -> Iterator[WarmStep]:
    """Show on a terminal that the next step is at work."""
    if out.json or not sys.stderr.isatty():
        yield from steps
        return
    from rich.console import Console

    console = Console(stderr=True)
    while True:
        step = None
        with console.status("at work; making the archive takes half a minute"), contextlib.suppress(StopIteration):
            step = next(steps)
        if step is None:
            return
        yield step


def _lines(step: WarmStep) -> Iterator[str]:
    first, *rest = (step.problem or step.found).splitlines()
    mark = "PROBLEM: " if step.problem else ""
    yield f"{step.name:{_WIDTH}} {step.seconds:6.2f} s  {mark}{first}"
    yield from (f"{'':{_WIDTH}} {'':10}{line}" for line in rest)
