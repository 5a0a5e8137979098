"""Output of a command: results on stdout, progress and errors on stderr. With `--json`, events on stdout.

INVARIANT: with `--json`, only JSON lines reach stdout. Whatever user code or Spark print goes to stderr. The last
object (result or error) also goes to `--result-file`, completely or not at all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from ..counts import versions_of
from ..values import dataclass
from ..visible import visible_lines
from . import result_file
from .exits import as_tidemill_error, error_lines, trace
from .stdio import patient

if TYPE_CHECKING:
    from ..protocol.progress import BatchProgress

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass
class Output:
    """Writes everything that one command prints. `main` makes it; the command's options fill it in."""

    json: bool = False
    debug: bool = False
    result_file: str | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)
    """Versions committed so far. An error names them."""
    earlier: list[int] = field(default_factory=list)
    """Versions that earlier tries of the same Airflow task committed. The result file names them."""
    stdout: TextIO | None = None
    is_process: bool = False
    """Whether the process ends with the command."""

    @property
    def reports(self) -> bool:
        """Whether a result is written for machines."""
        return self.json or self.result_file is not None

    def text(self, text: str) -> None:
        """Print a piece of the result, unchanged."""
        print(text, file=self.stdout or sys.stdout, flush=True, end="")

    def line(self, text: str) -> None:
        """Print one line of the result. For people, control characters are escaped; JSON stays as it is."""
        self.text(f"{text if self.json else visible_lines(text)}\n")

    def event(self, event: str, fields: Mapping[str, Any]) -> None:
        """Print one event as a JSON line."""
        self.line(json_line({"event": event, **fields}))

    def batch(self, progress: BatchProgress) -> None:
        """Record a committed batch, and print its progress with `--json`."""
        self.versions.append(progress.version)
        if self.json:
            self.event("progress", dataclasses.asdict(progress))

    def result(self, fields: Mapping[str, Any], text: Sequence[str]) -> None:
        """Print the result of a command that succeeded: an object for machines, or lines for people."""
        if self.json:
            self.event("result", fields)
        for line in () if self.json else text:
            self.line(line)
        self._write_result_file({"event": "result", **fields})

    def error(self, error: Exception) -> None:
        """Print the error of a command that failed."""
        known = as_tidemill_error(error)
        fields = {"event": "error", "kind": type(known).__name__, "message": str(known), "versions": self.versions}
        if self.json:
            self.line(json_line(fields))
        for line in trace(error) if self.debug else ():
            click.secho(visible_lines(line), err=True, dim=True)
        first, *rest = error_lines(known)
        if self.versions:
            rest.insert(0, f"{committed(self.versions)} before the failure; this is kept")
        click.secho(first, err=True, bold=True, fg="red")
        for line in rest:
            click.echo(line, err=True)
        with contextlib.suppress(Exception):
            # Report the error itself, not a failure to write the result file.
            self._write_result_file(fields)

    def _write_result_file(self, fields: Mapping[str, Any]) -> None:
        if self.result_file is not None:
            written = {**fields, "earlier": self.earlier} if self.earlier else fields
            result_file.write_result_file(self.result_file, f"{json_line(written)}\n".encode(), self.storage_options)


def output_options(command: _Command) -> _Command:
    """Add `--json` and `--debug`. The command receives its `Output`."""

    @click.option("--json", "as_json", is_flag=True, help="Write JSON lines to stdout.")
    @click.option("--debug", is_flag=True, help="Show Tidemill's own traceback on errors.")
    @functools.wraps(command)
    def wrapped(as_json: bool, debug: bool, **rest: Any) -> Any:
        out = click.get_current_context().find_object(Output) or Output()
        out.json, out.debug = as_json, debug
        out.result_file = rest.pop("result_file", None)
        if "target" in rest:
            out.storage_options = rest["target"].storage_options
        if out.result_file is not None:
            result_file.remove(out.result_file, out.storage_options)
        if not as_json:
            return command(out=out, **rest)
        with own_stdout() as stdout:
            out.stdout = stdout
            try:
                return command(out=out, **rest)
            finally:
                out.stdout = None

    return wrapped  # type: ignore[return-value]


result_file_option = click.option(
    "--result-file", metavar="PATH", help="Also write the last JSON object to this file or s3://bucket/name."
)


@contextlib.contextmanager
def own_stdout() -> Iterator[TextIO]:
    """Yield a private stdout. Until the end, file descriptor 1 of this process and its children is stderr."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(kept), "w", encoding="utf-8") as own, contextlib.redirect_stdout(sys.stderr):
            yield patient(own)
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def json_line(fields: Mapping[str, Any]) -> str:
    """Return `fields` as one line of JSON."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def committed(versions: Sequence[int]) -> str:
    """Return `committed version 4` or `committed versions 4–6, 9`: only versions that this run committed."""
    return f"committed {versions_of(versions)}" if versions else "committed nothing"
