"""`tidemill tag` and `untag`: names for versions."""

from __future__ import annotations

import dataclasses

import click

from .correct import Consent, consent_options, unchanged
from .exits import Exit
from .options import VERSION, Target, reading_options, target_options
from .output import Output, json_line, output_options, result_file_option
from .run import result_fields


@click.command(short_help="Name a version, or list the names.")
@reading_options
@click.argument("name", required=False)
@click.argument("version", type=VERSION, required=False)
@click.option("--move", is_flag=True, help="Let NAME, which names another version now, name this one.")
@click.option("--reason", default="", help="Why. The entry records it.")
@result_file_option
@output_options
def tag(target: Target, name: str | None, version: int | str | None, move: bool, reason: str, out: Output) -> int:
    """Call VERSION (default: the newest) NAME. Without NAME, list all tags.

    A tag can be given wherever a version is expected, for example `state --version month-end`. A tagged version stays
    readable when `maintain` discards older versions.
    """
    if name is None:
        for one in target.read().tags():
            out.line(json_line(dataclasses.asdict(one)) if out.json else f"{one.name}  {one.version}")
        return Exit.DONE
    repository = target.open()
    made = repository.tag(name, version, reason, move)
    out.result(
        {**result_fields("tag", Exit.DONE, repository), "tag": made.name, "version": made.version},
        [f"tag `{made.name}` names version {made.version}"],
    )
    return Exit.DONE


@click.command(short_help="Remove a tag.")
@target_options
@click.argument("name")
@click.option("--reason", default="", help="Why. The entry records it.")
@consent_options
@result_file_option
@output_options
def untag(target: Target, name: str, reason: str, consent: Consent, out: Output) -> int:
    """Remove the tag NAME. Its version stays readable only as long as retention keeps it."""
    from ..spelling import unknown
    from ..verbs.tag import is_last_to_keep

    repository = target.open()
    known = {one.name: one for one in repository.tags()}
    if name not in known:
        raise unknown("tag", name, sorted(known))
    lines = [f"tag `{name}` of version {known[name].version} is removed"]
    if is_last_to_keep(repository.context, name):
        lines.append(f"version {known[name].version} will no longer be readable, and cannot be tagged again")
    if not consent.given(lines, out):
        return unchanged("untag", repository, consent, out)
    removed = repository.untag(name, reason)
    out.result(
        {**result_fields("untag", Exit.DONE, repository), "tag": removed.name, "version": removed.version},
        [f"removed tag `{removed.name}`, which named version {removed.version}"],
    )
    return Exit.DONE
