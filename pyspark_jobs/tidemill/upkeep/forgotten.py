"""The proof of `forget`: looks for forgotten keys in every retained object and published file.

INVARIANT: it knows the keys only by their salted hashes, so it hashes the key of every row that it reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from .. import _native
from ..driver.context import Context
from ..errors import InvalidInput
from ..protocol.records import Commit, Forgotten, OutputFile, Segment
from ..protocol.refs import Refs
from ..protocol.retained import floor
from ..schema import to_arrow
from ..sinks import reader
from ..spelling import unknown
from ..state.columns import MapColumns
from ..state.versions import fetch
from .keys import holds
from .report import Findings
from .rewrite_published import added_fields, place_of, records, rows_of
from .rewrite_quarantine import rows_of as quarantined_rows

HINT = "the key came back after it was forgotten, or `forget` did not end; run `tidemill forget` again"


class Search:
    """Looks for the keys that the head has forgotten. Every object is read once."""

    def __init__(self, context: Context, refs: Refs, head: Commit, found: Findings) -> None:
        self.context, self.refs, self.head, self.found = context, refs, head, found
        self.seen: set[str] = set()

    def run(self) -> int:
        """Note every object that holds a forgotten key. Return how many objects were read."""
        since = max(floor(self.refs, self.head.branch).version, 0)
        for commit in self.context.log.commits(since, through=self.head):
            self._state(commit.state, commit)
            self._outputs(commit)
            self._quarantine(commit)
        self._state({name: seeds.maps for name, seeds in self.refs.seeds.items()}, self.head)
        for base in self.refs.bases:
            self._state({base.operator: {base.map: base.outputs}}, self.head)
        self._published()
        return len(self.seen)

    def _of(self, operator: str) -> list[Forgotten]:
        return [one for one in self.head.forgotten if one.operator == operator]

    def _is_new(self, name: str) -> bool:
        self.seen.add(name) if (is_new := name not in self.seen) else None
        return is_new

    def _note(self, name: str, count: int, affects: str) -> None:
        if count:
            keys = "a forgotten key" if count == 1 else f"{count} forgotten keys"
            self.found.add(name, f"it holds {keys}", affects, HINT)

    def _state(self, state: dict[str, dict[str, list[Segment]]], commit: Commit) -> None:
        for operator, maps in state.items():
            forgotten = self._of(operator)
            for name, segments in maps.items() if forgotten and operator in commit.schemas else ():
                shape = MapColumns.described(name, commit.schemas[operator]["maps"][name])
                for segment in segments:
                    if self._is_new(segment.name):
                        data = fetch(self.context.store, segment.name, segment.checksum)
                        rows = _native.Run.read(shape.engine(), data, segment.name).rows()
                        self._note(
                            segment.name, holds(forgotten, rows.select(shape.key.names)), f"state of `{operator}`"
                        )

    def _outputs(self, commit: Commit) -> None:
        for sink, files in commit.outputs.items():
            self._files(sink, files, commit)
        for sink, added in commit.adds.items():
            for one in added:
                self._files(sink, one.files, commit)

    def _files(self, sink: str, files: Sequence[OutputFile], commit: Commit) -> None:
        forgotten = [one for one in self.head.forgotten if sink in one.columns]
        for file in files if forgotten else ():
            if self._is_new(file.name):
                schema = pa.schema([*to_arrow(commit.sinks[sink]["schema"]), *added_fields()])
                data = fetch(self.context.store, file.name, file.checksum)
                table = reader(file.extension, file.name).decode([(data, file.suffix)], schema)
                self._note(file.name, self._in_table(forgotten, table, sink), f"rows of sink `{sink}`")

    def _published(self) -> None:
        for sink in sorted({name for one in self.head.forgotten for name in one.columns}):
            forgotten = [one for one in self.head.forgotten if sink in one.columns]
            declared, place = place_of(self.context, sink, self.head.version)
            for record in records(self.context, self.head, sink):
                for file in record.files if record.uri == declared.uri else ():
                    name = f"{declared.uri}/{file.name}"
                    data = declared.fetch(place, file.name)
                    if data is not None and self._is_new(name):
                        table = rows_of(self.context, record, file, data)
                        self._note(name, self._in_table(forgotten, table, sink), f"readers of sink `{sink}`")

    def _in_table(self, forgotten: Sequence[Forgotten], table: pa.Table, sink: str) -> int:
        """Return how many forgotten keys the columns of a sink hold."""
        found = 0
        for one in forgotten:
            schema = self._key_of(one.operator)
            for column in one.columns[sink]:
                if column not in table.column_names:
                    raise unknown(f"column of sink `{sink}`", column, table.column_names)
            keys = table.select(one.columns[sink]).rename_columns(schema.names)
            try:
                found += sum(holds([one], batch) for batch in keys.cast(schema).combine_chunks().to_batches())
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise InvalidInput(f"verify: the columns of sink `{sink}` do not fit the key: {error}") from error
        return found

    def _quarantine(self, commit: Commit) -> None:
        for file in commit.quarantine:
            if self._is_new(file.name):
                texts = quarantined_rows(self.context, file).column("text").to_pylist()
                count = sum(self._in_text(text) for text in texts)
                self._note(file.name, count, f"quarantine of version {commit.version}")

    def _in_text(self, text: str | None) -> int:
        """Return how many forgotten keys a quarantined row has, if its text is JSON with the columns of the key."""
        try:
            row = json.loads(text or "")
        except ValueError:
            return 0
        found = 0
        for one in self.head.forgotten if isinstance(row, dict) else ():
            schema = self._key_of(one.operator)
            if all(name in row for name in schema.names):
                try:
                    keys = pa.table({name: pa.array([row[name]]) for name in schema.names}).cast(schema)
                except pa.ArrowException:
                    continue
                found += holds([one], keys.to_batches()[0])
        return found

    def _key_of(self, operator: str) -> pa.Schema:
        described = self.head.schemas.get(operator)
        if described is None:
            raise InvalidInput(f"verify: operator `{operator}`, of which keys were forgotten, is no longer declared")
        return MapColumns.described("keys", next(iter(described["maps"].values()))).key
