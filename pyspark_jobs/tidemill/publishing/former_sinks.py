"""Sinks that this code no longer has: what they published is found and deleted by the published records.

INVARIANT: nothing is published in a place that only a record names; `forgetting/cleaning.py` replaces files there. Only
names of published files of this pipeline, sink and repository are deleted, so a false record cannot reach a file of
anybody else. Whether a sink can be withdrawn from in this way is checked before the correction is committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..errors import InvalidInput
from ..protocol.records import Published
from ..sinks import recorded_folder
from ..sinks.contract import Owner, Sink, SinkPlace
from ..sinks.folder import Folder
from ..sinks.public import parsed


def is_former(declared: Sink | None, record: Published) -> bool:
    """Whether the code has no sink that could delete the files of a record: none of this name, or now a function."""
    return declared is None or (bool(record.path) and not declared.path)


def names_of(record: Published, ours: Owner) -> list[str]:
    """Return the names of the files of a record. A copy leaves those of the original where they are."""
    return [file.name for file in record.files if (found := parsed(file.name)) is None or found.is_ours(ours)]


def withdraw_former(records: Sequence[Published], at: SinkPlace) -> list[str]:
    """Delete the files of records at the places that these name, and return their names. May be repeated."""
    gone: list[str] = []
    for record in records:
        names = names_of(record, at.owner)
        if names:
            _former(record.kind, record.uri).remove(at, names)
        gone += names
    return gone


def check_former(kind: str, uri: str, files: Collection[str], at: SinkPlace) -> None:
    """Raise `InvalidInput` if published files of a sink cannot be deleted at the place where they are.

    The place is listed. If another repository publishes there, too, its readers may count on our files.
    """
    is_there, others = False, ""
    for one in _former(kind, uri).seen(at):
        is_there |= one.is_ours and one.name in files
        others = others or ("" if one.is_ours else one.name)
    if is_there and others:
        raise InvalidInput(
            f"another repository has files in `{uri}`, for example `{others}`, so its readers may count on ours"
        )


def _former(kind: str, uri: str) -> Folder:
    folder = recorded_folder(kind, uri)
    if folder is None:
        raise InvalidInput(f"only code can withdraw from a sink of kind `{kind}`, and this code does not have the sink")
    return folder


def places_of(records: Sequence[Published]) -> Iterator[tuple[tuple[str, str], set[str]]]:
    """Yield the kind and URI of each place that records name, and the names of their files there."""
    found: dict[tuple[str, str], set[str]] = {}
    for one in records:
        found.setdefault((one.kind, one.uri), set()).update(file.name for file in one.files)
    yield from found.items()
