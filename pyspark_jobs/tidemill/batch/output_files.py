"""The rows for sinks of one apply task, and the files that they become in each sink's own format.

CRASH: a file counts only once a commit names it; files of a task that died are garbage.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa

from .. import names
from ..errors import InternalError, InvalidInput, errors_of
from ..pipeline.flow import declared
from ..pipeline.job import JobSink
from ..protocol.records import OutputFile, digest
from ..schema import int64_scalar
from ..sinks import forms
from ..sinks.contract import Staged
from ..sources.contract import ROW
from ..store import Store, side_by_side
from .batch import Batch
from .sequence import group_of, groups_of, sequence


class OutputFiles:
    """Collects the rows for sinks of one range, then stores them."""

    def __init__(self, batch: Batch, lo: int) -> None:
        self._batch, self._lo = batch, lo
        self._rows: dict[tuple[str, int], list[tuple[pa.RecordBatch, pa.Array]]] = defaultdict(list)
        self._stored: dict[str, list[OutputFile]] = defaultdict(list)

    def add(self, output: JobSink, pass_number: int, rows: pa.RecordBatch, key_hash: int | None = None) -> None:
        """Add rows for a sink, in canonical order. `key_hash` is that of all rows, if they have no key of their own.

        Rows without a key and without order numbers come from a function that gets all keys of a task at once. They
        count as rows of the range's first key, so their `_seq` depends on the number of tasks, like their order.
        """
        if not rows.num_rows:
            return
        if key_hash is None and ROW in rows.schema.names:
            groups = groups_of(rows.column(ROW))
        else:
            one = group_of(self._lo if key_hash is None else key_hash)
            groups = pa.repeat(int64_scalar(one), rows.num_rows)
        self._rows[output.name, pass_number].append((declared(rows, output.schema), groups))

    def store(self, store: Store, stem: str) -> None:
        """Encode and store all rows, sink by sink: one file for each pass and partition folder.

        A file is encoded in this thread while the ones before it may still be on their way.
        """
        for output, file in side_by_side(store, self._uploads(store, stem)):
            self._stored[output].append(file)

    def _uploads(self, store: Store, stem: str) -> Iterator[Callable[[], tuple[str, OutputFile]]]:
        """Yield the calls that each store a file and return it with the name of its output."""
        for output, pass_number in sorted(self._rows):
            table = self._numbered(self._rows.pop((output, pass_number)), pass_number)
            for part, staged in enumerate(self._staged(output, table)):
                yield partial(self._upload, store, stem, output, pass_number, part, staged)

    def _staged(self, output: str, table: pa.Table) -> list[Staged]:
        """Return the files of a sink. `InvalidInput` if they cannot have all rows: nothing else would find out."""
        sink = self._batch.job.outputs[output].sink
        if sink is None:
            return forms.staged(table)
        with errors_of(f"sink `{output}`: stage"):
            made = list(sink.stage(table))
        rows = sum(one.rows for one in made)
        if rows != table.num_rows or any(one.extension not in forms.EXTENSIONS for one in made):
            found = ", ".join(f"{one.rows} rows as `{one.extension}`" for one in made) or "no file"
            raise InvalidInput(
                f"sink `{output}`: stage returned {found}, expected {table.num_rows} rows in files of the extensions "
                f"{' and '.join(forms.EXTENSIONS)}"
            )
        return made

    def _upload(
        self, store: Store, stem: str, output: str, pass_number: int, part: int, staged: Staged
    ) -> tuple[str, OutputFile]:
        name = names.output(output, self._batch.plan.branch, stem, pass_number, part, staged.extension)
        file = OutputFile(
            name=name,
            checksum=digest(staged.data),
            size=len(staged.data),
            rows=staged.rows,
            pass_number=pass_number,
            lo=self._lo,
            part=part,
            suffix=staged.suffix,
            extension=staged.extension,
            etag=store.put(name, staged.data) or "",
        )
        return output, file

    def _numbered(self, added: list[tuple[pa.RecordBatch, pa.Array]], pass_number: int) -> pa.Table:
        """Return the rows in canonical order, with `_batch_id` and `_seq`."""
        table = pa.Table.from_batches([rows for rows, _ in added])
        groups = pa.concat_arrays([groups for _, groups in added])
        stamp = pa.repeat(int64_scalar(self._batch.plan.number), table.num_rows)
        table = table.append_column(pa.field(names.BATCH_ID, pa.int64(), nullable=False), stamp)
        seq = sequence(groups, pass_number)
        return table.append_column(pa.field(names.SEQ, pa.int64(), nullable=False), seq)

    def stored(self) -> dict[str, list[OutputFile]]:
        """Return the stored files, by output.

        INVARIANT: a task returns no receipt while it still holds rows for a sink, so no output row can be lost.
        """
        if self._rows:
            raise InternalError(f"store output files: rows of {sorted(self._rows)} were not stored")
        return dict(self._stored)
