"""`tidemill forget`: removes keys from everything. It says before what will happen, and asks on a terminal."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from ..counts import count_of, versions_of
from .correct import Consent, consent_options, unchanged
from .exits import Exit
from .options import Target, pairs, target_options
from .output import Output, output_options, result_file_option
from .read import keys_of
from .run import result_fields

if TYPE_CHECKING:
    from ..verbs.forget import ForgetReport


@click.command(short_help="Remove keys from everything that is kept and published.")
@target_options
@click.option("--operator", required=True, metavar="NAME", help="Operator whose keys are removed.")
@click.option("--key", "keys", multiple=True, required=True, metavar="KEY",
              help="Key to remove, as `state` prints it. Repeatable. For several key columns, give JSON.")  # fmt: skip
@click.option("--column", "columns", multiple=True, metavar="SINK=COLUMN",
              help="Column of a sink that holds the key. Repeat it for each column of the key.")  # fmt: skip
@click.option("--reason", required=True, help="Why. The commit records it, so do not name the key.")
@click.option("--drop-refs", is_flag=True, help="Also remove tags and branches that keep earlier versions.")
@click.option("--missing-ok", is_flag=True, help="Accept keys that have no state now.")
@consent_options
@result_file_option
@output_options
def forget(
    target: Target,
    operator: str,
    keys: tuple[str, ...],
    columns: tuple[str, ...],
    reason: str,
    drop_refs: bool,
    missing_ok: bool,
    consent: Consent,
    out: Output,
) -> int:
    """Remove keys of an operator from the state, from published files and from quarantine. It cannot be undone.

    All earlier versions can no longer be read afterwards, because they hold the keys. `verify --forgotten` looks for
    keys that are still there.
    """
    repository = target.open()
    holding: dict[str, list[str]] = {}
    for sink, column in pairs(columns, "--column"):
        holding.setdefault(sink, []).append(column)
    asked: dict[str, Any] = {
        "operator": operator,
        "keys": keys_of(repository, operator, keys),
        "reason": reason,
        "columns": holding,
        "drop_refs": drop_refs,
        "missing_ok": missing_ok,
    }
    found = repository.forget(**asked, dry_run=True)
    if not consent.given(_lines(found), out):
        return unchanged("forget", repository, consent, out, _fields(found))
    made = repository.forget(**asked)
    is_new = made.done_in is None
    status = Exit.DONE if is_new or made.removed else Exit.NOTHING
    did = f"forgot {count_of(made.keys, 'key')} in version {made.version}" if is_new else _done(made)
    out.result(
        {**result_fields("forget", status, repository), "versions": [made.version] if is_new else [], **_fields(made)},
        [f"{did}; deleted {count_of(len(made.removed), 'object')}"],
    )
    return status


def _done(found: ForgetReport) -> str:
    return f"version {found.done_in} has forgotten {count_of(found.keys, 'key')} already"


def _lines(found: ForgetReport) -> list[str]:
    """Return what will happen, in words."""
    gone = ", ".join(f"{count_of(count, 'row')} of map `{name}`" for name, count in found.rows.items())
    lines = [f"operator `{found.operator}`: {count_of(found.keys, 'key')} will be removed ({gone or 'no live row'})"]
    lines = lines if found.done_in is None else [_done(found)]
    lines += [f"rewritten: {one}" for one in found.rewritten]
    lines += [f"quarantine: {count_of(count, 'row')} of {name}" for name, count in found.quarantined_rows.items()]
    lines += [f"removed: {one}" for one in found.dropped]
    if found.versions is not None:
        first, last = found.versions
        lines.append(f"{versions_of(range(first, last + 1))} will no longer be readable")
    lines += [f"left: {one}" for one in found.left]
    return lines


def _fields(found: ForgetReport) -> dict[str, Any]:
    fields = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    fields["given_up"] = fields.pop("versions")  # `versions` of a result are those that were committed
    return {name: value for name, value in fields.items() if name not in ("commit", "version")}
