"""The options of every command, as Markdown made of the command line itself. They replace `<!-- commands -->`.

A code host shows the page without them; there, and anywhere else, `tidemill COMMAND --help` has the same text.
"""

from __future__ import annotations

import html
import inspect
from collections.abc import Iterator
from typing import Any

import click

from tidemill.cli.main import tidemill

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the commands where the mark is."""
    return markdown.replace(MARK, "\n".join(_commands())) if MARK in markdown else markdown


def _commands() -> Iterator[str]:
    parent = click.Context(tidemill)
    for name in tidemill.list_commands(parent):
        command = tidemill.get_command(parent, name)
        assert command is not None
        context = click.Context(command, info_name=f"tidemill {name}")
        pieces = command.collect_usage_pieces(context)
        yield f"### {name}\n\n```text\ntidemill {' '.join([name, *pieces])}\n```\n"
        yield f"{inspect.cleandoc(command.help or '')}\n"
        yield "| option | meaning |\n| --- | --- |"
        for option in command.get_params(context):
            if isinstance(option, click.Option):
                yield f"| {_name(option, context)} | {_meaning(option, context)} |"
        yield ""


def _name(option: click.Option, context: click.Context) -> str:
    value = "" if option.is_flag else f" {option.make_metavar(context)}"
    return f"<code>{html.escape(', '.join(option.opts) + value)}</code>".replace("|", "&#124;")


def _meaning(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    meaning = (option.help or (record[1] if record else "")).replace("|", "&#124;")
    facts = ["Required."] if option.required else []
    if option.show_default and isinstance(option.default, str | int | float) and not option.is_flag:
        facts.append(f"Default: `{option.default}`.")
    if option.show_envvar and option.envvar:
        facts.append(f"Environment variable: `{option.envvar}`.")
    return " ".join([meaning, *facts])
