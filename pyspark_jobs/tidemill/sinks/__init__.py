"""Sinks: `contract` is what every sink does, `asked` what only some can do.

`files` writes rows as files of a `folder`, under `public` names; `foreach` calls a function. `forms` are the formats in
which rows are committed, and `joined` puts published files together. A new sink is one file. INVARIANT: a sink that is
written to comes from the code, never from what a commit records. In a recorded place, published files are only
deleted, or replaced by `forget` with some of their rows.
"""

from __future__ import annotations

from . import forms
from .folder import Folder

_KINDS = {"parquet": forms.PARQUET, "json": forms.JSON}


def recorded_folder(kind: str, uri: str) -> Folder | None:
    """Return the folder of a recorded place, to look at it and delete from it. None for a kind without plain files.

    `uri` is that of a record: a path after `file://` is written as it is.
    """
    extension = _KINDS.get(kind)
    return None if extension is None or not uri else Folder(uri.removeprefix("file://"), extension)


__all__ = ["recorded_folder"]
