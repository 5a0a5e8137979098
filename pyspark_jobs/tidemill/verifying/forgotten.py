"""The proof of `forget`: looks for forgotten keys in every object and published file that is there.

INVARIANT: it knows the keys only by their salted hashes, so it hashes the key of every row that it reads. Objects that
were given up, but exist, are read too.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import field

import pyarrow as pa

from .. import names
from ..errors import TidemillError
from ..forgetting.key_text import key_in_row, possible_keys
from ..forgetting.keys import holds
from ..forgetting.published import records, rows_of_file, shown_files, sink_of
from ..forgetting.quarantine import texts_of
from ..protocol.compatible import first_name
from ..protocol.garbage import COLLECTED
from ..protocol.records import Commit, Forgotten, OutputFile, Segment
from ..protocol.refs import Refs
from ..protocol.retained import floor
from ..repo.opened import Opened
from ..repo.operators import declared_operators
from ..schema import to_arrow
from ..schema.kernels import pq
from ..sinks.asked import sink_folder
from ..sinks.forms import unstaged, with_added
from ..state.columns import MapColumns
from ..state.older import read_run
from ..state.versions import fetch
from ..values import dataclass
from .findings import Findings

HINT = "the key came back after it was forgotten, or `forget` did not end; run `tidemill forget` again"
INCOMPLETE = "the search for forgotten keys, which is not complete"


@dataclass(frozen=True)
class Searched:
    """How many keys were looked for, and the sinks whose files were not searched for some of them."""

    keys: int = 0
    unsearched: list[str] = field(default_factory=list)


def search(repo: Opened, refs: Refs, found: Findings) -> Searched:
    """Note every object with a key that was forgotten up to the head."""
    head = repo.head()
    if head is None:
        return Searched()
    work = Search(repo, refs, head, found)
    work.run()
    named = set.intersection(*(set(one.columns) for one in work.forgotten)) if work.forgotten else set()
    sinks = (name for name, described in head.sinks.items() if described["kind"] is not None)
    unsearched = sorted(name for name in sinks if work.forgotten and name not in named)
    return Searched(sum(len(one.hashes) for one in work.forgotten), unsearched)


class Search:
    """Looks for the keys that the head has forgotten. Every object is read once."""

    def __init__(self, repo: Opened, refs: Refs, head: Commit, found: Findings) -> None:
        self.repo, self.refs, self.head, self.found = repo, refs, head, found
        self.forgotten = repo.log.forgotten(head)
        self.firsts = {one.salt: self._first(one.operator, repo.log.commit(one.version)) for one in self.forgotten}
        self.keys = {one.salt: self._key_of(one) for one in self.forgotten}
        self.there = {entry.name for prefix in COLLECTED for entry in repo.store.list(prefix)}
        self.seen: set[str] = set()

    def run(self) -> int:
        """Note every object that holds a forgotten key. Return how many objects were read."""
        if not self.forgotten:
            return 0
        since = max(floor(self.refs, self.head.branch).version, 0)
        for version in range(self.head.version + 1):
            with self._reading(names.commit(self.head.branch, version)):
                commit = self.repo.log.commit(version)
                self._commit(commit, version >= since)
        self._state({name: seeds.maps for name, seeds in self.refs.seeds.items()}, self.head, True)
        for base in self.refs.bases:
            self._state({base.operator: {base.map: base.outputs}}, self.head, True)
        for name in sorted(self.there - self.seen):
            self._leftover(name)
        self._published()
        return len(self.seen)

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

    def _key_of(self, one: Forgotten) -> pa.Schema:
        commit = self.repo.log.commit(one.version)
        maps = {**declared_operators(self.repo, commit), **commit.schemas}[one.operator]["maps"]
        return MapColumns.described("keys", next(iter(maps.values()))).key

    @staticmethod
    def _first(operator: str, commit: Commit) -> str:
        """Return the name that an operator of a version had at first. Migrations may rename it."""
        return first_name(operator, commit.renamed)

    def _of(self, first: str) -> list[Forgotten]:
        return [one for one in self.forgotten if self.firsts[one.salt] == first]

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
            described = commit.schemas.get(operator, self.refs.schemas.get(operator, {})).get("maps", {})
            first = self._first(operator, commit)
            for name, segments in maps.items() if self._of(first) and described else ():
                for segment in segments:
                    if self._is_new(segment.name, is_kept):
                        with self._reading(segment.name):
                            data = fetch(self.repo.store, segment.name, segment.checksum)
                            self._segment(segment.name, data, first, MapColumns.described(name, described[name]))

    def _segment(self, name: str, data: bytes, first: str, shape: MapColumns) -> None:
        rows, found = read_run(shape.engine(), data, name).rows().select(shape.key.names), 0
        for one in self._of(first):
            if self.keys[one.salt].types == rows.schema.types:
                found += holds([one], rows)
            elif len(self.keys[one.salt]) == len(rows.schema):
                with contextlib.suppress(pa.ArrowException):  # a migration changed the type of the key
                    found += holds([one], rows.rename_columns(self.keys[one.salt].names).cast(self.keys[one.salt]))
        self._note(name, found, f"state of `{first}`")

    def _outputs(self, commit: Commit, is_kept: bool) -> None:
        for sink, files in commit.outputs.items():
            self._files(sink, files, commit, is_kept)
        for sink, added in commit.adds.items():
            for one in added:
                self._files(sink, one.files, commit, is_kept)

    def _files(self, sink: str, files: Sequence[OutputFile], commit: Commit, is_kept: bool) -> None:
        forgotten = [one for one in self.forgotten if sink in one.columns]
        for file in files if forgotten else ():
            if self._is_new(file.name, is_kept):
                with self._reading(file.name):
                    schema = with_added(to_arrow(commit.sinks[sink]["schema"]))
                    data = fetch(self.repo.store, file.name, file.checksum)
                    table = unstaged([(data, file.suffix)], schema, file.extension, file.name)
                    self._note(file.name, self._in_table(forgotten, table, sink), f"rows of sink `{sink}`")

    def _published(self) -> None:
        for sink in sorted({name for one in self.forgotten for name in one.columns}):
            forgotten = [one for one in self.forgotten if sink in one.columns]
            if self.repo.declared_sink(sink) is None:
                self.found.add(
                    f"published/{self.head.branch}/{sink}", "this code does not have the sink",
                    f"files of sink `{sink}` were not looked at", "verify with the code that has the sink",
                )  # fmt: skip
                continue
            declared = sink_of(self.repo, sink)
            if sink_folder(declared) is None:
                continue  # its rows are those of the repository's files, which are looked at above
            for record in records(self.repo, self.head, sink):
                for file in shown_files(self.repo, declared, record) if record.uri == declared.uri else ():
                    if (data := file.content()) is None or not self._is_new(file.uri, True):
                        continue
                    with self._reading(file.uri):
                        table = rows_of_file(self.repo, record, file, data)
                        self._note(file.uri, self._in_table(forgotten, table, sink), f"readers of sink `{sink}`")

    def _in_table(self, forgotten: Sequence[Forgotten], table: pa.Table, sink: str) -> int:
        """Return how many forgotten keys the columns of a sink hold. A file without a column has no key."""
        found = 0
        for one in forgotten:
            schema, columns = self.keys[one.salt], one.columns[sink]
            if set(columns) <= set(table.column_names):
                with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):  # the column has another type
                    keys = table.select(columns).rename_columns(schema.names).cast(schema)
                    found += sum(holds([one], batch) for batch in keys.combine_chunks().to_batches())
        return found

    def _quarantined(self, name: str, data: bytes) -> None:
        rows = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False).to_pylist()
        count = sum(max(self._in_text(*text) for text in texts_of(row)) for row in rows)
        self._note(name, count, "quarantined rows")

    def _in_text(self, text: str | None, is_unreadable: bool) -> int:
        """Return how many forgotten keys the text of a row has. Of keys with several columns, only JSON is searched."""
        found = 0
        for one in self.forgotten:
            schema = self.keys[one.salt]
            exact = key_in_row(text, schema)
            possible: Iterator[pa.RecordBatch] = iter(()) if exact is None else iter([exact])
            if exact is None or is_unreadable:
                possible = possible_keys(text, schema)
            found += any(holds([one], batch) for batch in possible)
        return found

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
            elif kind == "state" and of in self.head.schemas:
                described = self.head.schemas[of]["maps"][rest[0]]
                self._segment(name, data, self._first(of, self.head), MapColumns.described(rest[0], described))
            elif kind == "output" and (forgotten := [one for one in self.forgotten if of in one.columns]):
                table = self._left_rows(name, of, data)
                self._note(name, self._in_table(forgotten, table, of), f"rows of sink `{of}`")

    def _left_rows(self, name: str, sink: str, data: bytes) -> pa.Table:
        """Return the rows of an output file that no commit names, without partition columns."""
        if name.endswith(".parquet"):
            return pq.read_table(io.BytesIO(data), use_threads=False)
        described = self.head.sinks[sink]  # text has no types of its own
        folders = described.get("partitionBy") or []
        fields = [field for field in to_arrow(described["schema"]) if field.name not in folders]
        extension = f".{name.rpartition('.')[2]}"
        return unstaged([(data, "")], with_added(fields), extension, name)
