"""`Folder`: a folder of plain files as the place of a sink, and what can be done with its files.

Committed files are copied under the names of `public`, and withdrawn ones are deleted. INVARIANT: a file that is in the
folder under one of our names counts as published only if its content is that of the commit. CRASH: every step can be
repeated; no file is ever overwritten with another content.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ..errors import CorruptState
from ..protocol.records import OutputFile, PublishedFile, digest
from ..store import ListedObject, ObjectMissing, ObjectReplaced, Store, folder_store, side_by_side
from ..values import dataclass
from .contract import Applied, Change, Options, Owner, Seen, SinkPlace
from .public import beginning, parsed, prefix, public_name

_RESTORE = "restore the object from a backup; nothing is repaired silently"


@dataclass(frozen=True)
class Folder:
    """A folder of plain files: each can be read by itself, and its name says whose it is and of which version.

    `extension` is that of the files. `partition_columns` are the columns whose values are folders; None: not known.
    A sink whose place is a folder has it as its member `folder`, and its `apply` and `seen` are those of the folder.
    """

    path: str
    extension: str
    partition_columns: Sequence[str] | None = None

    def apply(self, change: Change, at: SinkPlace) -> Applied:
        """Copy the files of a version into the folder, then delete those of versions that are withdrawn.

        Files with the same rows replace each other in one partition folder after the other, so that readers find both
        for a short time only.
        """
        folder = self._store(at)
        withdrawn = [name for one in change.withdraws for name in one.files]
        if not change.same_rows:
            files = _publish(folder, change, at)
            _remove(folder, at.owner, withdrawn)
            return Applied(files, withdrawn)
        gone: dict[str, list[str]] = {}
        for name in withdrawn:
            gone.setdefault(name.removesuffix(name.rpartition("/")[2]), []).append(name)
        files = []
        for suffix in dict.fromkeys((*(file.suffix for _, file in change.adds), *gone)):
            adds = [(place, file) for place, file in change.adds if file.suffix == suffix]
            files += _publish(folder, dataclasses.replace(change, adds=adds), at)
            _remove(folder, at.owner, gone.get(suffix, []))
        return Applied(files, withdrawn)

    def seen(self, at: SinkPlace, since: int = -1) -> Iterator[Seen]:
        """Yield the files of the pipeline and sink in the folder, of all repositories and of versions after `since`.

        Without partition folders, names sort by version, so the files of earlier versions are not listed.
        """
        folder, owner = self._store(at), at.owner
        is_short = since >= 0 and self.partition_columns is not None and not self.partition_columns
        for entry in folder.list(beginning(owner), prefix(owner, since + 1)) if is_short else folder.list():
            found = parsed(entry.name)
            if found is not None and found.is_of(owner) and found.version > since:
                yield Seen(entry.name, found.version, found.is_ours(owner), found.uuid, entry.size)

    def listed(self, change: Change, at: SinkPlace) -> Mapping[str, ListedObject]:
        """Return which files of a version are in the folder. `CorruptState` if another history published the version.

        `apply` asks this first.
        """
        return _listed(self._store(at), change, at.owner)

    def lists_whole(self, options: Options) -> bool:
        """Whether `seen` costs requests that grow with the number of all files, whatever `since` is.

        That is so if all partition folders must be listed on S3.
        """
        return self.partition_columns != () and folder_store(self.path, options).lists_after

    def fetch(self, at: SinkPlace, name: str) -> bytes | None:
        """Return the content of a published file, or None if it is not in the folder any more."""
        try:
            return self._store(at).get(name)
        except ObjectMissing:
            return None

    def replace(self, at: SinkPlace, name: str, new: str, data: bytes) -> None:
        """Write the file `new` with some of the rows of the published file `name`, and delete that. May be repeated."""
        folder = self._store(at)
        if not folder.create(new, data) and folder.get(new) != data:
            raise CorruptState(f"write {folder.uri}/{new}: another file has this name", hint="move that file away")
        _remove(folder, at.owner, [name])

    def remove(self, at: SinkPlace, names: Sequence[str]) -> None:
        """Delete published files. `CorruptState` for a name that is not one of this pipeline and sink."""
        _remove(self._store(at), at.owner, names)

    def compared(
        self, at: SinkPlace, files: Mapping[str, PublishedFile], deep: bool
    ) -> Iterator[tuple[str, str | None]]:
        """Yield which of the published `files` are still in the folder, each with what is wrong with it, or None.

        With `deep` their content is read and compared, too.
        """
        folder = self._store(at)
        for entry in folder.list():
            file = files.get(entry.name)
            if file is not None:
                yield entry.name, _altered(folder, entry, file, deep)

    def _store(self, at: SinkPlace) -> Store:
        return folder_store(self.path, at.options)


def _publish(folder: Store, change: Change, at: SinkPlace) -> list[PublishedFile]:
    """Make all files of a version visible in the folder, and return them. Files that are there are compared."""
    there = dict(_listed(folder, change, at.owner) if change.there is None else change.there)
    earlier = list(change.names.values())
    stats = side_by_side(folder, [partial(folder.stat, name) for name in earlier])
    there.update({name: entry for name, entry in zip(earlier, stats, strict=True) if entry is not None})
    calls = [
        partial(_published, folder, at.store, file, name, there.get(name))
        for name, file in _targets(change, at.owner).items()
    ]
    return side_by_side(folder, calls)


def _targets(change: Change, owner: Owner) -> dict[str, OutputFile]:
    """Return the files of the version by their names in the folder, which may be those of an earlier version."""
    return {change.names.get(at) or public_name(owner, change.version, at, file): file for at, file in change.adds}


def _remove(folder: Store, owner: Owner, names: Sequence[str]) -> None:
    for name in names:
        found = parsed(name)
        if found is None or not found.is_of(owner):
            raise CorruptState(
                f"withdraw `{name}` from {folder.uri}: this is not the name of a file of sink `{owner.sink}`",
                hint="restore the objects below `published/` from a backup",
            )
    folder.delete_many(names)


def _altered(folder: Store, there: ListedObject, file: PublishedFile, deep: bool) -> str | None:
    """Return how a published file differs from its record, or None. A file that has just been moved does not.

    It is read with `deep`, or if it has another ETag, which a file that was copied has, too.
    """
    if there.size != file.size:
        return f"found {there.size} bytes, but {file.size} were published"
    if not deep and (not file.etag or not _keeps_etags(folder) or there.etag == file.etag):
        return None
    try:
        found = digest(folder.get(file.name))
    except ObjectMissing:
        return None
    return None if found == file.checksum else f"found checksum {found}, but {file.checksum} was published"


def _listed(folder: Store, change: Change, owner: Owner) -> dict[str, ListedObject]:
    """Return the files of this version in the folder. `CorruptState` if another history published the version."""
    targets, found = _targets(change, owner), {}
    suffixes = dict.fromkeys(file.suffix for file in targets.values())
    prefixes = [suffix + prefix(owner, change.version) for suffix in suffixes]
    for entries in side_by_side(folder, [partial(_entries, folder, one) for one in prefixes]):
        for entry in entries:
            name = parsed(entry.name)
            if name is None or not name.is_ours(owner):
                continue
            if entry.name not in targets:
                raise CorruptState(
                    f"found {folder.uri}/{entry.name}, which this repository published for the same version, but the "
                    "commit does not name its content",
                    hint="the repository is older than its published files: restore its newest backup; without one, "
                    "`tidemill verify` says of each file what to do",
                )
            found[entry.name] = entry
    return found


def _entries(folder: Store, prefix: str) -> list[ListedObject]:
    return list(folder.list(prefix))


def _published(folder: Store, store: Store, file: OutputFile, name: str, there: ListedObject | None) -> PublishedFile:
    if there is None:
        etag = _copy(folder, store, file, name)
    else:
        etag = there.etag if _keeps_etags(folder) else None
        if not (file.etag and file.etag == etag and folder.copies_from(store)):
            _compare(folder, store, file, name)
    return PublishedFile(name, file.checksum, file.size, file.rows, etag or "")


def _keeps_etags(folder: Store) -> bool:
    """Whether the folder's ETags identify content."""
    return folder.copies_from(folder)


def _copy(folder: Store, store: Store, file: OutputFile, name: str) -> str | None:
    """Copy one file and return its ETag, if the folder has ETags."""
    what = f"copy `{file.name}` to {folder.uri}/{name}"
    try:
        if file.etag and folder.copies_from(store):
            with contextlib.suppress(ObjectReplaced):  # or copied with another ETag: the checksum decides
                return folder.copy_from(store, file.name, name, file.etag)
        if not folder.create(name, _checked(store.get(file.name), file, what)):
            _compare(folder, store, file, name)  # another process published it meanwhile
        made = folder.stat(name) if _keeps_etags(folder) else None
        return None if made is None else made.etag
    except ObjectMissing as error:
        raise CorruptState(f"{what}: the object is missing, but a commit names it", hint=_RESTORE) from error


def _compare(folder: Store, store: Store, file: OutputFile, name: str) -> None:
    """Raise `CorruptState` if a published file has another content than the commit says. A moved file is fine."""
    try:
        data = folder.get(name)
    except ObjectMissing:
        return
    what = f"compare {folder.uri}/{name}"
    try:
        _checked(data, file, what)
    except CorruptState as error:
        hint = f"restore the file from a backup: the repository does not have its rows any more, in `{file.name}`"
        with contextlib.suppress(CorruptState, ObjectMissing):
            _checked(store.get(file.name), file, what)
            hint = "move the altered file out of the folder and repeat the command, which publishes it again"
        raise CorruptState(error.message, hint=hint) from error


def _checked(data: bytes, file: OutputFile, what: str) -> bytes:
    """Return `data` if it matches the commit's record of `file`. Raises `CorruptState` otherwise."""
    for word, found, expected in (("checksum", digest(data), file.checksum), ("size", len(data), file.size)):
        if found != expected:
            raise CorruptState(f"{what}: found {word} {found}, but the commit records {expected}", hint=_RESTORE)
    return data
