"""`tidemill pack`: write the archive that gives Spark's workers what they need."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from ..counts import count_of
from ..errors import Exit
from .options import LocalPath
from .output import Output, output_options, result_file_option


@click.command()
@click.option("-o", "--output", required=True, type=LocalPath(dir_okay=False, path_type=Path), metavar="FILE",
              help="The archive to write, such as env.tar.gz. An existing file is replaced.")  # fmt: skip
@click.option("--with", "packages", multiple=True, metavar="PACKAGE",
              help="Also pack an installed package, and what it requires. Repeatable.")  # fmt: skip
@click.option("--module", "modules", multiple=True, metavar="MODULE",
              help="Also pack a module or package of yours that workers cannot import. Repeatable.")  # fmt: skip
@result_file_option
@output_options
def pack(output: Path, packages: tuple[str, ...], modules: tuple[str, ...], out: Output) -> int:
    """Pack Tidemill and what it needs into an archive for Spark's workers that have Python and Spark only.

    Spark unpacks it beside each executor, so workers need nothing installed. They need the same minor version of
    Python, the same system and the same architecture as this interpreter. PySpark stays out, because it is Spark's
    own. A pipeline in a file needs no --module; its functions travel with each batch.

    The last lines are the settings to run with: --conf for `tidemill run`, spark-submit and others.
    """
    from ..engines.pack import pack

    done = pack(output, packages, modules)
    lines = [
        f"wrote {done.path}: {count_of(done.files, 'file')}, {done.bytes / 1e6:,.0f} MB, for Python {done.python} on "
        f"{done.machine}",
        f"packages: {', '.join(f'{name} {version}' for name, version in done.packages.items())}",
        *([f"modules: {', '.join(done.modules)}"] if done.modules else []),
        *(f"--conf {name}={value}" for name, value in done.settings.items()),
    ]
    out.result({"verb": "pack", "status": "done", **dataclasses.asdict(done), "settings": done.settings}, lines)
    return Exit.DONE
