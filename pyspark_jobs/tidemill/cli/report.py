"""`tidemill report`: one page, in a file or served, or one JSON object, that shows how a pipeline is doing. Read only.

CRASH: the page is written beside its place first, so the file is whole or not there.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Exit
from .options import VERSION, LocalPath, Target, reading_options
from .output import Output, json_line, output_options
from .read import keys_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..reader import Reader
    from ..report.data import Report

_COMMITS = 500


@click.command(short_help="Write a page that shows the commits, charts, lag, late rows and branches.")
@reading_options
@click.option("--html", "file", metavar="FILE", type=LocalPath(dir_okay=False), help="Write the page to this new file.")
@click.option("--serve", is_flag=True, help="Serve the page on 127.0.0.1, as it is at each load, until you end it.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port of --serve. Default: a free one."
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--commits", type=click.IntRange(min=1), default=_COMMITS, show_default=True, metavar="N",
              help="Show the newest N commits; other branches together as many again.")  # fmt: skip
@click.option("--diff", nargs=2, type=VERSION, metavar="A B",
              help="Compare these versions, as `diff` does. Default: the open branch, or else the newest one, with the "
              "branch from which it starts.")  # fmt: skip
@click.option("--no-diff", is_flag=True, help="Compare nothing.")
@click.option("--key", "keys", multiple=True, metavar="KEY",
              help="Look up the state and history of this key, as in `history`. Repeatable.")  # fmt: skip
@click.option("--operator", "operators", multiple=True, metavar="NAME",
              help="Operator of the keys: one for all, or one for each --key, in order.")  # fmt: skip
@output_options
def report(
    target: Target,
    file: str | None,
    serve: bool,
    port: int,
    force: bool,
    commits: int,
    diff: tuple[int | str, int | str] | None,
    no_diff: bool,
    keys: tuple[str, ...],
    operators: tuple[str, ...],
    out: Output,
) -> int:
    """Write how PIPELINE is doing as one static page, which needs no network and no other file.

    It shows the head, the lag, a graph of commits and branches, charts of rows, times and state, late and quarantined
    rows, a diff, and the keys that you name. --json prints the same data as one JSON object. With --serve, you can look
    up any key in the page.
    """
    _check(file, serve, force, diff, no_diff, keys, operators, out)
    compared = False if no_diff else diff

    def made(operator: str | None = None, key: str | None = None) -> Report:
        repository = target.read()
        pairs = _pairs(repository, keys, operators)
        if key is not None:
            pairs = [*_pairs(repository, (key,), (operator,) if operator else ()), *pairs]
        return repository.report(commits, compared, pairs)

    if serve:
        return _serve(made, port, out)
    found = made()
    size = None
    if file is not None:
        from ..report.page import page

        data = page(found).encode(errors="replace")
        _write(data, Path(file), force)
        size = len(data)
    if out.json:
        out.line(json_line(found.as_dict()))
    else:
        out.line(f"wrote {file}: {size or 0:,} bytes")
        for problem in found.problems:
            click.echo(f"problem: {problem}", err=True)
    return Exit.DONE


def _serve(made: Callable[..., Report], port: int, out: Output) -> int:
    """Serve the page until the user ends it. An error of the repository is raised before it is served."""
    from ..report.page import page
    from .serving import Server

    made()
    with (
        Server(port, lambda asked: page(made(asked.get("operator"), asked.get("key")), served=True)) as server,
        contextlib.suppress(KeyboardInterrupt),  # before it serves
    ):
        out.line(f"serving {server.url_with_token} until you end it with Ctrl-C")
        server.serve_until_interrupted()
    return Exit.DONE


def _check(
    file: str | None, serve: bool, force: bool, diff: Any, no_diff: bool, keys: tuple[str, ...],
    operators: tuple[str, ...], out: Output,
) -> None:  # fmt: skip
    """Refuse options that do not fit, and a file that exists, before anything is read."""
    if file is None and not serve and not out.json:
        raise click.UsageError(
            "add --html FILE to write the page, --serve to look at it in a browser, or --json to print its data"
        )
    if serve and (file is not None or out.json):
        raise click.UsageError("--serve writes nothing: leave out --html and --json")
    if diff and no_diff:
        raise click.UsageError("--diff and --no-diff exclude each other")
    if operators and len(operators) not in (1, len(keys)):
        raise click.UsageError(
            f"found {len(operators)} --operator and {len(keys)} --key; give one --operator for all keys, or one for "
            "each --key"
        )
    if operators and not keys:
        raise click.UsageError("--operator names the operator of --key; --key is missing")
    if file is not None and not force and os.path.lexists(file):
        raise _exists(Path(file))


def _pairs(repository: Reader, keys: tuple[str, ...], operators: tuple[str, ...]) -> list[tuple[str | None, Any]]:
    """Return each key, in the type of its column, with its operator."""
    named: list[str | None] = list(operators) if len(operators) == len(keys) else [*operators[:1]] * len(keys)
    if keys and not operators:
        from ..reading.located import operator_in, schemas_at

        repo = repository.opened
        named = [operator_in(None, schemas_at(repo, repository.head, True, None))] * len(keys)
    return [(name, keys_of(repository, name, (text,))[0]) for name, text in zip(named, keys, strict=True)]


def _write(data: bytes, place: Path, force: bool) -> None:
    """Write a file completely or not at all."""
    from ..errors import InvalidInput

    part = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            file.write(data)
        if not force and not _linked(part, place):
            force = True  # the file system has no hard links; `_check` has seen that the place is free
        if force:
            part.replace(place)
    except FileExistsError as error:
        raise _exists(place) from error
    except OSError as error:
        raise InvalidInput(f"write `{place}`: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _linked(part: Path, place: Path) -> bool:
    """Give a file its name, unless another process has made one of that name meanwhile. False: it cannot be done."""
    try:
        os.link(part, place)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _exists(place: Path) -> Exception:
    from ..errors import InvalidInput

    return InvalidInput(f"write `{place}`: the file exists", hint="choose another name, or add --force to replace it")
