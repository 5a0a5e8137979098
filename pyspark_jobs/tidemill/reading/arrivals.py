"""Which files wait, found without the pipeline's code: the listed folders, compared with the ledger of the head.

Folders, and which of their objects are files of a source, come from the newest commit, or before it from `init`.
INVARIANT: it lists and reads only, and opens no input file. So it is a hint: the run itself decides what it reads. A
file whose ETag changed counts as waiting, whatever `overwritten` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..protocol.records import Commit
from ..repo.identity import folders
from ..repo.opened import Opened
from ..sources.contract import SourceFile
from ..sources.folder import entries_of, open_folder
from ..sources.ledger import unlike
from ..sources.listing import Selection
from ..store import ListedObject
from ..values import dataclass


@dataclass(frozen=True)
class Watched:
    """The folder of a source, as a URI, and which of its objects are files of the source."""

    source: str
    uri: str
    selection: Selection


def watched(repo: Opened, head: Commit | None) -> list[Watched]:
    """Return the folders of the sources that the head has."""
    recorded = {} if head is None else head.sources
    return [
        Watched(name, uri, Selection.of(recorded.get(name, {}).get("files", {})))
        for name, uri in folders(repo, head).items()
        if uri is not None and recorded.get(name, {}).get("is_folder", True)
    ]


def objects_below(
    uri: str, storage_options: Mapping[str, Any] | None = None, start_after: str | None = None
) -> list[ListedObject]:
    """Return the objects below a folder in the order of their names; none if it does not exist.

    `storage_options` are for S3. `start_after`: only those with names after this one.
    """
    # A URI of a local folder is made of its path as it is, so a `%` in it means itself.
    store, only = open_folder(uri.removeprefix("file://"), storage_options)
    return list(store.list("", start_after)) if start_after is not None else entries_of(store, only) or []


def waiting_in_folders(
    repo: Opened, head: Commit | None, folders: Sequence[Watched], entries: Mapping[str, Sequence[ListedObject]]
) -> list[SourceFile]:
    """Return the files of the listed `entries`, by folder, that no commit up to `head` has read."""
    files = [
        SourceFile(folder.source, entry.name, entry.etag, entry.size, entry.modified_ms)
        for folder in folders
        for entry in entries.get(folder.uri, ())
        if folder.selection.has(entry)
    ]
    return list(unlike(repo.ledger(head).map, files))
