"""The proof of `forget`: looks for forgotten keys in every object and published file that is there.

INVARIANT: it knows the keys only by their salted hashes, so it hashes the key of every row that it reads. Objects that
were given up, but exist, are read too.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from dataclasses import field

import pyarrow as pa

from .. import names
from ..errors import TidemillError
from ..forgetting.quarantine import texts_of
from ..forgetting.sought import Sought
from ..protocol.compatible import first_name
from ..protocol.garbage import COLLECTED
from ..protocol.records import Commit, OutputFile, Segment
from ..protocol.refs import Refs
from ..protocol.retained import floor
from ..repo.opened import Opened
from ..schema import to_arrow
from ..schema.kernels import pq
from ..sinks.forms import unstaged, with_added
from ..state.columns import MapColumns
from ..state.older import read_run
from ..state.versions import fetch
from ..values import dataclass
from .findings import Findings
from .forgotten_files import ForgottenFiles

HINT = "the key came back after it was forgotten, or `forget` did not end; run `tidemill forget` again"
INCOMPLETE = "the search for forgotten keys, which is not complete"


@dataclass(frozen=True)
class Searched:
    """How many keys were looked for, and the sinks whose rows were not searched for some of them.

    `gone` counts published files that readers have taken, so nothing was looked for in them.
    """

    keys: int = 0
    unsearched: list[str] = field(default_factory=list)
    gone: int = 0


def search(repo: Opened, refs: Refs, found: Findings) -> Searched:
    """Note every object and published file with a key that was forgotten up to the head."""
    head = repo.head()
    if head is None:
        return Searched()
    return Search(repo.remembering(), refs, head, found).run()


class Search:
    """Looks for the keys that the head has forgotten. Every object is read once."""

    def __init__(self, repo: Opened, refs: Refs, head: Commit, found: Findings) -> None:
        self.repo, self.refs, self.head, self.found = repo, refs, head, found
        self.sought = Sought.of(repo, head)
        self.there = {entry.name for prefix in COLLECTED for entry in repo.store.list(prefix)}
        self.seen: set[str] = set()
        self.schemas = dict(refs.schemas)
        """By operator, how the newest commit that was read describes it."""
        self.columns: dict[str, str] = {}
        """The same of the columns of sinks."""

    def run(self) -> Searched:
        """Note every object that holds a forgotten key. Return what was looked for, and where not."""
        for one in self.sought.unknown:
            what = f"no record says what the key columns of operator `{one.operator}` were, so its keys were not sought"
            self.found.add(names.commit(self.head.branch, one.version), what, INCOMPLETE)
        if not self.sought.keys:
            return Searched()
        since = max(floor(self.refs, self.head.branch).version, 0)
        for version in range(self.head.version + 1):
            with self._reading(names.commit(self.head.branch, version)):
                commit = self.repo.log.commit(version)
                self.schemas.update(commit.schemas)
                self.columns.update({name: described["schema"] for name, described in commit.sinks.items()})
                self._commit(commit, version >= since)
        self._state({name: seeds.maps for name, seeds in self.refs.seeds.items()}, self.head, True)
        for base in self.refs.bases:
            self._state({base.operator: {base.map: base.outputs}}, self.head, True)
        for name in sorted(self.there - self.seen):
            self._leftover(name)
        files = ForgottenFiles(self.repo, self.head, self.sought, self.found)
        with self._reading(names.PUBLISHED):
            files.search(HINT, INCOMPLETE)
        return Searched(self.sought.count, sorted(files.unsearched), files.gone)

    def _commit(self, commit: Commit, is_kept: bool) -> None:
        self._state(commit.state, commit, is_kept)
        self._outputs(commit, is_kept)
        for file in commit.quarantine:
            if self._is_new(file.name, is_kept):
                with self._reading(file.name):
                    self._quarantined(file.name, fetch(self.repo.store, file.name, file.checksum))

    def _reading(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Take down damage of an object that is read, and continue with the others."""
        return self.found.unless_known(name, INCOMPLETE)

    @staticmethod
    def _first(operator: str, commit: Commit) -> str:
        """Return the name that an operator of a version had at first. Migrations may rename it."""
        return first_name(operator, commit.renamed)

    def _is_new(self, name: str, is_kept: bool) -> bool:
        """Whether an object was not read yet. One that was given up is left out unless it is there."""
        if name in self.seen or not (is_kept or name in self.there):
            return False
        self.seen.add(name)
        return True

    def _note(self, name: str, count: int, affects: str) -> None:
        if count:
            keys = "a forgotten key" if count == 1 else f"{count} forgotten keys"
            self.found.add(name, f"it holds {keys}", affects, HINT)

    def _state(self, state: dict[str, dict[str, list[Segment]]], commit: Commit, is_kept: bool) -> None:
        for operator, maps in state.items():
            described = commit.schemas.get(operator, self.schemas.get(operator, {})).get("maps", {})
            first = self._first(operator, commit)
            for name, segments in maps.items() if self.sought.concerns(first) and described else ():
                for segment in segments:
                    if self._is_new(segment.name, is_kept):
                        with self._reading(segment.name):
                            data = fetch(self.repo.store, segment.name, segment.checksum)
                            self._segment(segment.name, data, first, MapColumns.described(name, described[name]))

    def _segment(self, name: str, data: bytes, first: str, shape: MapColumns) -> None:
        rows = read_run(shape.engine(), data, name).rows().select(shape.key.names)
        self._note(name, self.sought.in_state(first, pa.Table.from_batches([rows])), f"state of `{first}`")

    def _outputs(self, commit: Commit, is_kept: bool) -> None:
        for sink, files in commit.outputs.items():
            self._files(sink, files, commit, is_kept)
        for sink, added in commit.adds.items():
            for one in added:
                self._files(sink, one.files, commit, is_kept)

    def _files(self, sink: str, files: Sequence[OutputFile], commit: Commit, is_kept: bool) -> None:
        columns = self._columns(sink, commit)
        for file in files:
            if self._is_new(file.name, is_kept):
                with self._reading(file.name):
                    data = fetch(self.repo.store, file.name, file.checksum)
                    table = unstaged([(data, file.suffix)], with_added(columns), file.extension, file.name)
                    self._note(file.name, self.sought.in_sink(sink, table), f"rows of sink `{sink}`")

    def _columns(self, sink: str, commit: Commit) -> pa.Schema:
        """Return the columns of a sink. A commit that shows rows of a sink that was removed does not describe it."""
        described = commit.sinks.get(sink)
        return to_arrow(self.columns[sink] if described is None else described["schema"])

    def _quarantined(self, name: str, data: bytes) -> None:
        rows = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False).to_pylist()
        count = sum(max(self.sought.in_text(*text) for text in texts_of(row)) for row in rows)
        self._note(name, count, "quarantined rows")

    def _requeued(self, name: str, data: bytes) -> None:
        rows = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False).to_pylist()
        texts = (json.dumps(row, default=str, ensure_ascii=False) for row in rows)
        self._note(name, sum(self.sought.in_text(text, False) for text in texts), "requeued rows")

    def _leftover(self, name: str) -> None:
        """Look at an object that no commit names. Those of a batch at work, and those that cannot be read, pass."""
        owner, (kind, of, *rest) = names.owner(name), name.split("/")
        last = self.refs.through if owner is not None and owner.is_ref else self.head.version
        if owner is None or owner.number > last:
            return
        with contextlib.suppress(TidemillError, pa.ArrowException, KeyError):
            data = self.repo.store.get(name)
            self.seen.add(name)
            if kind == "quarantine":
                self._quarantined(name, data)
            elif kind == "requeued":
                self._requeued(name, data)
            elif kind == "state" and of in self.schemas:
                described = self.schemas[of]["maps"][rest[0]]
                self._segment(name, data, self._first(of, self.head), MapColumns.described(rest[0], described))
            elif kind == "output":
                self._note(name, self.sought.in_sink(of, self._left_rows(name, of, data)), f"rows of sink `{of}`")

    def _left_rows(self, name: str, sink: str, data: bytes) -> pa.Table:
        """Return the rows of an output file that no commit names, without partition columns."""
        if name.endswith(".parquet"):
            return pq.read_table(io.BytesIO(data), use_threads=False)
        described = self.head.sinks.get(sink, {})  # text has no types of its own
        folders = described.get("partitionBy") or []
        fields = [one for one in to_arrow(self.columns[sink]) if one.name not in folders]
        extension = f".{name.rpartition('.')[2]}"
        return unstaged([(data, "")], with_added(fields), extension, name)
