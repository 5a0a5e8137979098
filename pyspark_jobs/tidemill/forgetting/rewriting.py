"""Objects of kept versions without forgotten keys: segments, output files, quarantine and requeued rows.

INVARIANT: an object without one of the keys stays as it is. In another one, rows of other keys keep their values, their
order, and their numbers in quarantine. CRASH: what is stored here counts only once a commit names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

import pyarrow as pa

from .. import _native, names
from ..errors import InternalError
from ..protocol.compatible import first_name
from ..protocol.records import HASH_END, Commit, OutputFile, QuarantineFile, ReplacedObject, Segment, Split, digest
from ..protocol.refs import Refs
from ..protocol.tiling import segments_within
from ..quarantine.rejects import quarantined
from ..quarantine.rows import CONTENT, FORGOTTEN
from ..repo.opened import Opened
from ..schema import int64_array, string_array, to_arrow
from ..schema.kernels import pc, pq
from ..sinks.forms import staged, unstaged, with_added
from ..sinks.partitions import folder_values
from ..sources.requeued import fetch_requeued
from ..state.columns import MapColumns
from ..state.older import columns_key, converted, read_own
from ..state.versions import fetch
from ..values import dataclass
from .quarantine import texts_of
from .sought import Sought
from .state import ForgetTarget, run_of_keys, run_without

IsInText = Callable[[str | None, bool], bool]
"""Whether a text has one of the keys. The second argument says whether it is a row that could not be read."""
_KIND = "rewrite"
"""The end of the names of these objects."""
_ROW = "row"


@dataclass
class Rewriter:
    """Stores objects again that have one of the keys. Each object is read once, whoever names it.

    `objects` are those that were replaced, by their old names; in a dry run nothing takes their place. `sizes` has
    their bytes, `sinks` how many rows of each sink went, and `quarantined` how many of each file of quarantine.
    """

    repo: Opened
    sought: Sought
    is_in_text: IsInText
    to: ForgetTarget
    objects: dict[str, ReplacedObject] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    sinks: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    _gone: dict[str, _native.Run] = field(default_factory=dict)
    _columns: dict[str, str] = field(default_factory=dict)
    _counted: dict[tuple[tuple[str, int, int], ...], int] = field(default_factory=dict)

    def commit(self, commit: Commit) -> None:
        """Store everything again that a commit names. The first commit that names an object says how to read it."""
        self._columns.update({name: described["schema"] for name, described in commit.sinks.items()})
        self.state(commit, commit.state)
        for sink, files in commit.outputs.items():
            self._outputs(sink, files)
        for sink, added in commit.adds.items():
            self._outputs(sink, [file for one in added for file in one.files])
        for file in commit.quarantine:
            self._quarantine(file)
        for split in (*commit.requeued, *commit.waiting):
            self._requeued(split)

    def state(self, commit: Commit, state: Mapping[str, Mapping[str, Sequence[Segment]]]) -> None:
        """Store the segments of a version again."""
        for operator, maps in state.items():
            first = first_name(operator, commit.renamed)
            if self.sought.concerns(first):
                self._maps(first, maps, _shapes(commit.schemas[operator]["maps"], maps))

    def seeds(self, refs: Refs) -> None:
        """Store initial state again."""
        for operator, seeds in refs.seeds.items():
            if self.sought.concerns(operator) and operator in refs.schemas:
                self._maps(operator, seeds.maps, _shapes(refs.schemas[operator]["maps"], seeds.maps))

    def removed(
        self, commit: Commit, state: Mapping[str, Mapping[str, Sequence[Segment]]]
    ) -> Iterator[tuple[str, str, int]]:
        """Yield operator, map and how many live rows a version lacks, for maps of which segments were replaced."""
        for operator, maps in state.items():
            for name, segments in maps.items():
                if any(one.name in self._gone for one in segments):
                    shape = MapColumns.described(name, commit.schemas[operator]["maps"][name])
                    yield operator, name, self._live(shape.engine(), segments)

    def _live(self, schema: _native.MapSchema, segments: Sequence[Segment]) -> int:
        """Return how many live rows of a map have one of the keys: those of the removed rows that nothing hides."""
        shown = [one for one in segments_within(segments, 0, HASH_END) if one.name in self._gone]
        place = tuple((one.name, one.lo, one.hi) for one in shown)
        if place not in self._counted:
            runs = [_in_columns(self._gone[one.name].within(one.lo, one.hi), schema) for one in shown]
            runs = [run for run in runs if len(run)]
            self._counted[place] = _native.StateMap.open(schema, runs, 0, HASH_END).scan().num_rows
        return self._counted[place]

    def _maps(self, first: str, maps: Mapping[str, Sequence[Segment]], shapes: Mapping[str, MapColumns]) -> None:
        for name, segments in maps.items():
            for segment in segments:
                if self._is_new(segment.name):
                    self._segment(first, segment, shapes[name])

    def _is_new(self, name: str) -> bool:
        return name not in self.objects and name not in self.to.clean

    def _segment(self, first: str, segment: Segment, shape: MapColumns) -> None:
        data = fetch(self.repo.store, segment.name, segment.checksum)
        run = read_own(shape.engine(), data, segment.name)
        keys = pa.Table.from_batches([run.rows()]).select(list(range(len(shape.key)))).rename_columns(shape.key.names)
        ours = self.sought.rows_in_state(first, keys)
        if not any(ours):
            self.to.clean.add(segment.name)
            return
        table = keys.filter(pa.array(ours, pa.bool_())).combine_chunks()
        hashes = {one for batch in table.to_batches() for one in _native.key_hashes(batch).to_pylist()}
        gone, left = run_of_keys(run, hashes), run_without(run, hashes)
        if gone is None or len(gone) != sum(ours):
            raise InternalError(f"forget: `{segment.name}` has the hash of a forgotten key for another key, too")
        self._gone[segment.name] = gone
        _, operator, name, *_ = segment.name.split("/")
        target = names.segment(operator, name, self.repo.branch, self._stem())
        self._replace(segment, target, None if left is None else left.write(), 0 if left is None else len(left))

    def _outputs(self, sink: str, files: Iterable[OutputFile]) -> None:
        for file in files:
            if not self._is_new(file.name) or not any(sink in one.entry.columns for one in self.sought.keys):
                continue
            data = fetch(self.repo.store, file.name, file.checksum)
            columns = with_added(to_arrow(self._columns[sink]))
            rows = unstaged([(data, file.suffix)], columns, file.extension, file.name)
            ours = self.sought.rows_in_sink(sink, rows)
            if not any(ours):
                self.to.clean.add(file.name)
                continue
            self.sinks[sink] = self.sinks.get(sink, 0) + sum(ours)
            left = rows.filter(pc.invert(pa.array(ours, pa.bool_()))).drop_columns(list(folder_values(file.suffix)))
            content = staged(left, file.extension)[0].data if left.num_rows else None
            target = names.output(sink, self.repo.branch, self._stem(), file.pass_number, file.part, file.extension)
            self._replace(file, target, content, left.num_rows)

    def _quarantine(self, file: QuarantineFile) -> None:
        if not self._is_new(file.name):
            return
        table = quarantined(self.repo.store, file)
        ours = [any(self.is_in_text(*text) for text in texts_of(row)) for row in table.to_pylist()]
        if not any(ours):
            self.to.clean.add(file.name)
            return
        self.quarantined[file.name] = sum(ours)
        emptied = ["column", "text", "reason", *(name for name in table.column_names if name.startswith(CONTENT))]
        left = _emptied(table, emptied, ours)
        kinds = [FORGOTTEN if mine else kind for kind, mine in zip(table.column("kind").to_pylist(), ours, strict=True)]
        left = left.set_column(left.column_names.index("kind"), table.schema.field("kind"), string_array(kinds))
        target = names.quarantine_file(self.repo.branch, self._stem())
        self._replace(file, target, _written(left), left.num_rows)

    def _requeued(self, split: Split) -> None:
        held = split.requeued
        if held is None or not self._is_new(held.name):
            return
        table = fetch_requeued(self.repo.store, held.name, held.checksum)
        texts = (json.dumps(row, default=str, ensure_ascii=False) for row in table.column(_ROW).to_pylist())
        ours = [number not in held.without and self.is_in_text(text, False) for number, text in enumerate(texts)]
        if not any(ours):
            self.to.clean.add(held.name)
            return
        target = names.requeued(self.repo.branch, self._stem(), held.version)
        numbers = tuple(number for number, mine in enumerate(ours) if mine)
        self._replace(held, target, _written(_emptied(table, [_ROW], ours)), held.rows, numbers)
        self.sizes[held.name] = split.size

    def _stem(self) -> str:
        return names.again_stem(self.to.version, self.to.attempt, len(self.objects), _KIND)

    def _replace(
        self, old: Segment | OutputFile | QuarantineFile | object, name: str, data: bytes | None, rows: int,
        without: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        """Store the content in the place of an object, unless nothing is left of it, or this is a dry run."""
        before: str = old.name  # type: ignore[union-attr]
        self.sizes[before] = getattr(old, "size", 0)
        made = ReplacedObject(before)
        if data is not None and not self.to.dry_run:
            etag = self.repo.store.put(self.to.name(name), data) or ""
            made = ReplacedObject(before, name, digest(data), len(data), rows, etag, without)
        self.objects[before] = made


def _shapes(described: Mapping[str, dict[str, str]], maps: Iterable[str]) -> dict[str, MapColumns]:
    return {name: MapColumns.described(name, described[name]) for name in maps}


def _in_columns(run: _native.Run, schema: _native.MapSchema) -> _native.Run:
    return run if columns_key(run.schema) == columns_key(schema) else converted(run, schema)


def _read(data: bytes) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table.combine_chunks(), sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _emptied(table: pa.Table, columns: Iterable[str], rows: Sequence[bool]) -> pa.Table:
    """Return a table in which some rows have nulls in some columns."""
    places = int64_array([None if mine else at for at, mine in enumerate(rows)])
    for name in columns:
        at = table.column_names.index(name)
        table = table.set_column(at, table.schema.field(name), table.column(name).combine_chunks().take(places))
    return table
