"""What a command says, and where: results on stdout, progress and errors on stderr; with `--json` events on stdout.

INVARIANT: with `--json` nothing but JSON lines reaches stdout, whatever user code or Spark print: their stdout is
turned to stderr. The last object (result or error) also goes to `--result-file`, whole or not at all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from ..counts import versions_of
from . import result_file
from .exits import as_tidemill_error, told, trace
from .streams import patient

if TYPE_CHECKING:
    from ..protocol.progress import BatchProgress

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Output:
    """The voice of one command. Made by `main`, filled in from the command's own options."""

    json: bool = False
    debug: bool = False
    result_file: str | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)
    """Versions committed so far: an error names them too."""
    stdout: TextIO | None = None

    def text(self, text: str) -> None:
        """A piece of the result, as it stands."""
        print(text, file=self.stdout or sys.stdout, flush=True, end="")

    def line(self, text: str) -> None:
        """One line of the result, for a person or for a machine."""
        self.text(f"{text}\n")

    def event(self, event: str, fields: Mapping[str, Any]) -> None:
        """One JSON line."""
        self.line(json_line({"event": event, **fields}))

    def batch(self, progress: BatchProgress) -> None:
        """A batch was committed."""
        self.versions.append(progress.version)
        if self.json:
            self.event("progress", dataclasses.asdict(progress))

    def result(self, fields: Mapping[str, Any], text: Sequence[str]) -> None:
        """The end of a command that did what it should: an object for machines, lines for people."""
        if self.json:
            self.event("result", fields)
        for line in () if self.json else text:
            self.line(line)
        self._to_file({"event": "result", **fields})

    def error(self, error: Exception) -> None:
        """The end of a command that failed."""
        known = as_tidemill_error(error)
        fields = {"event": "error", "kind": type(known).__name__, "message": str(known), "versions": self.versions}
        if self.json:
            self.line(json_line(fields))
        for line in trace(error) if self.debug else ():
            click.secho(line, err=True, dim=True)
        first, *rest = told(known)
        if self.versions:
            rest.insert(0, f"{committed(self.versions)} before; that stays")
        click.secho(first, err=True, bold=True, fg="red")
        for line in rest:
            click.echo(line, err=True)
        with contextlib.suppress(Exception):
            # The error itself is what must be seen, not that the file for it could not be written.
            self._to_file(fields)

    def _to_file(self, fields: Mapping[str, Any]) -> None:
        if self.result_file is not None:
            result_file.write(self.result_file, f"{json_line(fields)}\n".encode(), self.storage_options)


def output_options(command: Command) -> Command:
    """`--json` and `--debug`; the command is given its `Output`."""

    @click.option("--json", "as_json", is_flag=True, help="JSON lines on stdout, for machines.")
    @click.option("--debug", is_flag=True, help="Show Tidemill's own traceback, too, when something fails.")
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
    "--result-file", metavar="PATH", help="Where the last JSON object goes, too; a file or s3://bucket/name."
)


@contextlib.contextmanager
def own_stdout() -> Iterator[TextIO]:
    """A stdout that nobody else writes to: file descriptor 1 of this process and its children is stderr meanwhile."""
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
    """One line of JSON."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


def committed(versions: Sequence[int]) -> str:
    """`committed version 4`, `committed versions 4–6, 9`: those that this run committed, and no other."""
    return f"committed {versions_of(versions)}" if versions else "committed nothing"
