"""Sinks: `files` writes rows, `publish` copies committed files under `public` names, `foreach` calls a function.

A new sink is one file. If it writes files of another extension, it has an entry in `_FORMS` too, by which committed
files are read back. INVARIANT: a sink that is written to comes from the code, never from what a commit records.
From a recorded place, published files are only deleted.
"""

from __future__ import annotations

from ..errors import CorruptState
from .contract import Sink
from .files import Json, Parquet

_FORMS: dict[str, Sink] = {sink.extension: sink("kept") for sink in (Parquet, Json)}


def reader(extension: str, name: str) -> Sink:
    """Return the sink that reads files with an extension. Raises `CorruptState` for an unknown extension."""
    if extension not in _FORMS:
        raise CorruptState(
            f"read `{name}`: unknown file extension `{extension}`, expected one of {', '.join(_FORMS)}",
            hint="upgrade Tidemill: a newer version may have written it",
        )
    return _FORMS[extension]


def plain_sink(kind: str, uri: str) -> Sink | None:
    """Return a sink that looks at a recorded place and deletes from it, or None for a kind without plain files.

    `uri` is that of a record: a path after `file://` is written as it is.
    """
    form = _FORMS.get(f".{kind}")
    return None if form is None or not uri else form.at(uri.removeprefix("file://"))


__all__ = ["plain_sink", "reader"]
