"""What to do with a file in a sink that no commit shows: move it away, delete it, or keep it, because only it has rows.

INVARIANT: no hint deletes. One that takes a file out of the folder is given only if the rows that the file has of
versions of the history are in other files of the folder, or in objects from which `publish` makes such files again.
`maintain` alone deletes, and only what a version withdrew whose own files are there.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import field

from ..counts import versions_of
from ..errors import CorruptState
from ..protocol.history import shown
from ..protocol.named import Object
from ..protocol.records import Commit, VersionOf
from ..protocol.refs import Refs
from ..protocol.retained import is_kept
from ..publishing.withdraw import has_all_files
from ..publishing.works import place_of, works
from ..repo.opened import Opened
from ..repo.stored import fault_in
from ..sinks.contract import Seen, Sink
from ..sinks.folder import Folder
from ..sinks.joined import batch_ids_in, can_join
from ..values import dataclass

_BACKUP = (
    "if the repository goes on at another place, leave the file, which is published from there. Otherwise restore the "
    "newest backup of the repository; without one,"
)


@dataclass
class Leftovers:
    """The files of one sink with the names `names`, and what is known of the versions that they should show."""

    repo: Opened
    refs: Refs
    head: Commit | None
    sink: str
    folder: Folder
    names: Collection[str]
    whole: dict[int, bool] = field(default_factory=dict)
    """By version, whether all that it published is in the folder."""
    kept: dict[int, bool] = field(default_factory=dict)
    """By version, whether its files can be made again."""

    @functools.cached_property
    def shown(self) -> dict[int, int]:
        """By version of the history, the version whose files show it."""
        return shown(self.head, self.sink)

    def unknown(self, one: Seen) -> tuple[str, str]:
        """Return what a file affects that no commit names, and what to do with it.

        It may be of a version that was lost when an older backup was restored.
        """
        rewrote = self.repo.log.rewrites.at
        if rewrote is not None and one.version < rewrote:
            return (
                f"the `forget` of version {rewrote} has rewritten the rows that it was published from",
                "leave the file where it is; `tidemill verify --forgotten` says whether it has forgotten keys",
            )
        rows = self._versions_in(one)
        if rows is None:
            return "its rows cannot be read, so it may be the only file that has them", self._kept()
        others = {version: self.shown[version] for version in sorted(rows - {one.version}) if version in self.shown}
        lacking = {version: record for version, record in others.items() if not self._has_all(record)}
        if not lacking:
            affects = f"readers of sink `{self.sink}`: rows come twice"
            return affects, (f"{_BACKUP} move the file out of the folder; runs make its rows again from their input")
        only = f"no other file of sink `{self.sink}` has the rows of {versions_of(list(lacking))}"
        if not all(self._can_publish(record) for record in lacking.values()):
            return f"{only}, and the repository no longer keeps them", self._kept()
        return only, (
            f"{_BACKUP} move the file out of the folder, and keep it until `tidemill publish --from "
            f"{min(lacking.values())} --sink {self.sink}` has published these versions again"
        )

    def withdrawn(self, by: int) -> str:
        """Return what to do with a file that version `by` withdrew."""
        if self._has_all(by):
            return "run `tidemill maintain`, which deletes it"
        if self._can_publish(by):
            return (
                f"run `tidemill publish --from {by} --sink {self.sink}`, unless your readers have taken the files of "
                f"version {by}, and then `tidemill maintain`, which deletes it"
            )
        return f"restore the files of version {by} from a backup; `tidemill maintain` then deletes it"

    def altered(self, version: int) -> str:
        """Return what to do with a file that differs from what was published."""
        if not is_kept(self.refs, VersionOf(self.repo.branch, version)):
            return f"restore it from a backup: version {version} is no longer kept"
        if not self._can_publish(version):
            return f"restore it from a backup: the repository has lost the object with its rows, in version {version}"
        return f"move it out of the folder, and run `tidemill publish --from {version} --sink {self.sink}`"

    def _kept(self) -> str:
        return f"{_BACKUP} keep the file, and give the sink another path"

    def _versions_in(self, one: Seen) -> set[int] | None:
        """Return the versions whose rows a file has. None: it cannot be read."""
        if not can_join(self.folder.extension):
            return None
        data = self.folder.fetch(place_of(self.repo, self.sink, self.refs.uuid), one.name)
        try:
            return set() if data is None else batch_ids_in(self.folder.extension, data)
        except CorruptState:
            return None

    def _has_all(self, version: int) -> bool:
        """Whether all that a version published is in the folder."""
        if version not in self.whole:
            self.whole[version] = has_all_files(self.repo, version, self.sink, self.names)
        return self.whole[version]

    def _can_publish(self, version: int) -> bool:
        """Whether the files of a version can be made again from its objects."""
        if version not in self.kept:
            self.kept[version] = self._has_objects(version)
        return self.kept[version]

    def _has_objects(self, version: int) -> bool:
        if not is_kept(self.refs, VersionOf(self.repo.branch, version)):
            return False
        files = [file for work in works(self.repo, self.repo.log.commit(version)) if work.name == self.sink
                 for _, file in work.files]  # fmt: skip
        store = self.repo.store
        return all(
            fault_in(store, Object(one.name, one.checksum, one.size, one.etag), store.stat(one.name), deep=True) is None
            for one in files
        )


def unknown_elsewhere(sink: Sink, one: Seen) -> str:
    """Return what to do with rows of a version that no commit names, in a place that is no folder."""
    return f"{_BACKUP} save the rows of version {one.version} from {sink.uri}, and take them back there"
