"""Publishing into a folder: copies committed files under public names, and deletes withdrawn ones.

`public` has the names. INVARIANT: a file that is in the folder under one of our names counts as published only if its
content is that of the commit. CRASH: every step can be repeated; no file is ever overwritten with another content.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ..errors import CorruptState
from ..protocol.records import OutputFile, PublishedFile, digest
from ..store import Entry, ObjectMissing, ObjectReplaced, Store, side_by_side
from .contract import Identity, Present, Publication
from .public import beginning, parsed, prefix, public_name

_RESTORE = "restore the object from a backup; nothing is repaired silently"


def publish_files(folder: Store, publication: Publication) -> list[PublishedFile]:
    """Make all files of a version visible in the folder, and return them. Files that are there are compared."""
    there = listed_files(folder, publication) if publication.there is None else publication.there
    calls = [
        partial(_published, folder, publication.store, file, name, there.get(name))
        for name, file in _targets(publication).items()
    ]
    return side_by_side(folder, calls)


def listed_files(folder: Store, publication: Publication) -> Mapping[str, Entry]:
    """Return the files of the version in the folder. `CorruptState` if another history published the version."""
    return _listed(folder, publication, _targets(publication))


def _targets(publication: Publication) -> dict[str, OutputFile]:
    """Return the files of the version by their names in the folder."""
    return {public_name(publication.identity, place, file): file for place, file in publication.files}


def withdraw_files(folder: Store, identity: Identity, names: Sequence[str]) -> None:
    """Delete published files. `CorruptState` for a name that is not one of this pipeline and sink."""
    for name in names:
        found = parsed(name)
        if found is None or not found.is_of(identity):
            raise CorruptState(
                f"withdraw `{name}` from {folder.uri}: this is not the name of a file of sink `{identity.sink}`",
                hint="restore the objects below `published/` from a backup",
            )
    folder.delete_many(names)


def present_files(folder: Store, identity: Identity, after: int = -1, has_folders: bool = True) -> Iterator[Present]:
    """Yield the files of the same pipeline and sink in the folder, of all repositories and of versions after `after`.

    Without partition folders, names sort by version, so the files of earlier versions are not listed.
    """
    start = prefix(dataclasses.replace(identity, version=after + 1))
    is_short = after >= 0 and not has_folders
    for entry in folder.list(beginning(identity), start) if is_short else folder.list():
        found = parsed(entry.name)
        if found is not None and found.is_of(identity) and found.version > after:
            yield Present(entry.name, found.version, found.is_ours(identity), found.uuid, entry.size)


def compared_files(folder: Store, files: Mapping[str, PublishedFile], deep: bool) -> Iterator[tuple[str, str | None]]:
    """Yield which published files are still in the folder, each with what is wrong with it, or None."""
    for entry in folder.list():
        file = files.get(entry.name)
        if file is not None:
            yield entry.name, _altered(folder, entry, file, deep)


def _altered(folder: Store, there: Entry, file: PublishedFile, deep: bool) -> str | None:
    """Return how a published file differs from its record, or None. A file that has just been moved does not."""
    if there.size != file.size:
        return f"found {there.size} bytes, but {file.size} were published"
    if file.etag and _keeps_etags(folder) and there.etag != file.etag:
        return f"found the ETag {there.etag}, but {file.etag} was published"
    if not deep:
        return None
    try:
        found = digest(folder.get(file.name))
    except ObjectMissing:
        return None
    return None if found == file.checksum else f"found checksum {found}, but {file.checksum} was published"


def _listed(folder: Store, publication: Publication, targets: dict[str, OutputFile]) -> dict[str, Entry]:
    """Return the files of this version in the folder. `CorruptState` if another history published the version."""
    identity, found = publication.identity, {}
    suffixes = dict.fromkeys(file.suffix for file in targets.values())
    prefixes = [suffix + prefix(identity) for suffix in suffixes]
    for entries in side_by_side(folder, [partial(_entries, folder, one) for one in prefixes]):
        for entry in entries:
            name = parsed(entry.name)
            if name is None or not name.is_ours(identity):
                continue
            if entry.name not in targets:
                raise CorruptState(
                    f"found {folder.uri}/{entry.name}, which this repository published for the same version, but the "
                    "commit does not name its content",
                    hint="the repository is older than its published files: restore the newest backup, or remove the "
                    "files of the versions that it lost",
                )
            found[entry.name] = entry
    return found


def _entries(folder: Store, prefix: str) -> list[Entry]:
    return list(folder.list(prefix))


def _published(folder: Store, store: Store, file: OutputFile, name: str, there: Entry | None) -> PublishedFile:
    if there is None:
        etag = _copy(folder, store, file, name)
    else:
        etag = there.etag if _keeps_etags(folder) else None
        if not (file.etag and file.etag == etag and folder.copies_from(store)):
            _compare(folder, file, name)
    return PublishedFile(name, file.checksum, file.size, file.rows, etag or "")


def _keeps_etags(folder: Store) -> bool:
    """Whether the folder's ETags identify content."""
    return folder.copies_from(folder)


def _copy(folder: Store, store: Store, file: OutputFile, name: str) -> str | None:
    """Copy one file and return its ETag, if the folder has ETags."""
    what = f"copy `{file.name}` to {folder.uri}/{name}"
    try:
        if file.etag and folder.copies_from(store):
            return folder.copy_from(store, file.name, name, file.etag)
        if not folder.create(name, _checked(store.get(file.name), file, what)):
            _compare(folder, file, name)  # another process published it meanwhile
        made = folder.stat(name) if _keeps_etags(folder) else None
        return None if made is None else made.etag
    except ObjectMissing as error:
        raise CorruptState(f"{what}: the object is missing, but a commit names it", hint=_RESTORE) from error
    except ObjectReplaced as error:
        raise CorruptState(
            f"{what}: the object was replaced after the commit; expected the ETag `{file.etag}`", hint=_RESTORE
        ) from error


def _compare(folder: Store, file: OutputFile, name: str) -> None:
    """Raise `CorruptState` if a published file has another content than the commit says. A moved file is fine."""
    try:
        data = folder.get(name)
    except ObjectMissing:
        return
    try:
        _checked(data, file, f"compare {folder.uri}/{name}")
    except CorruptState as error:
        raise CorruptState(
            error.message, hint="remove the altered file and repeat the command, which publishes it again"
        ) from error


def _checked(data: bytes, file: OutputFile, what: str) -> bytes:
    """Return `data` if it matches the commit's record of `file`. Raises `CorruptState` otherwise."""
    for word, found, expected in (("checksum", digest(data), file.checksum), ("size", len(data), file.size)):
        if found != expected:
            raise CorruptState(f"{what}: found {word} {found}, but the commit records {expected}", hint=_RESTORE)
    return data
