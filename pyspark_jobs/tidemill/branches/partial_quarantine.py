"""The quarantine of a version of which some operators were computed again.

INVARIANT: rows that no operator took, and rows of operators that were not computed, stay as they are recorded. If the
computed operators fail to take the same rows as before, the files are the recorded ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from .. import names
from ..protocol.records import Commit, QuarantineFile, digest
from ..quarantine.rejects import quarantined
from ..quarantine.rows import FAILED, REJECT_SCHEMA
from ..repo.opened import Context
from ..schema import int64_array, string_array
from ..sinks import forms

_PLACE = ("source", "file", "line", "row", "kind", "watermark")
REPLAY = "replay"
"""The end of the names of these files."""


def quarantine_of(context: Context, recorded: Commit, ours: Commit, chosen: Collection[str]) -> list[QuarantineFile]:
    """Return the quarantine files of a version: of `ours` the rows that `chosen` did not take, of `recorded` the rest.

    Files are written only if that differs from what is recorded.
    """
    if not recorded.quarantine and not ours.quarantine:
        return []
    before, after = (_rows(context, one.quarantine) for one in (recorded, ours))
    kept, fresh = _merged(before.select(REJECT_SCHEMA.names).to_pylist(),
                          after.select(REJECT_SCHEMA.names).to_pylist(), chosen)  # fmt: skip
    if not fresh and kept == dict(enumerate(before.column("operator").to_pylist())):
        return recorded.quarantine
    tables = [_taken(before, kept), _taken(after, fresh)]
    table = (
        pa.concat_tables([one for one in tables if one.num_rows], promote_options="default") if kept or fresh else None
    )
    if table is None:
        return []
    data = b"".join(staged.data for staged in forms.staged(table))
    name = names.quarantine(context.branch, names.again_stem(ours.version, ours.attempt, 0, REPLAY))
    context.store.put(name, data)
    return [QuarantineFile(name, digest(data), len(data), table.num_rows)]


def _merged(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], chosen: Collection[str]
) -> tuple[dict[int, str | None], dict[int, str]]:
    """Return the rows of `before` that stay and those of `after` that come, by place, each with its operators.

    A row that several operators did not take is in quarantine once, unless their functions failed on it.
    """
    computed: dict[tuple[Any, ...], set[str]] = {}
    failed: Counter[tuple[Any, ...]] = Counter()
    for row in after:
        ours = _chosen(_operators(row), chosen)
        if row["kind"] == FAILED and ours:
            failed[_whole(row)] += 1
        elif ours:
            computed.setdefault(_place(row), set()).update(ours)
    kept: dict[int, str | None] = {}
    for place, row in enumerate(before):
        operators = _operators(row)
        if row["kind"] == FAILED and _chosen(operators, chosen):
            if failed[_whole(row)]:
                failed[_whole(row)] -= 1
                kept[place] = row["operator"]
            continue
        now = (operators - _chosen(operators, chosen)) | computed.pop(_place(row), set())
        if now or not operators:
            kept[place] = row["operator"] if now == operators else ",".join(sorted(now))
    fresh: dict[int, str] = {}
    for place, row in enumerate(after):
        ours = _chosen(_operators(row), chosen)
        if row["kind"] == FAILED and ours and failed[_whole(row)]:
            failed[_whole(row)] -= 1
            fresh[place] = row["operator"]
        elif row["kind"] != FAILED and ours and (left := computed.pop(_place(row), None)):
            fresh[place] = ",".join(sorted(left))
    return kept, fresh


def _operators(row: dict[str, Any]) -> set[str]:
    """Return the labels of the operators that did not take a row, or of their inputs."""
    return set() if row["operator"] is None else set(row["operator"].split(","))


def _chosen(labels: Collection[str], chosen: Collection[str]) -> set[str]:
    """Return those labels whose operators are computed."""
    return {label for label in labels if names.operator_of(label) in chosen}


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells rows apart: the place in a file, or for rows without one the text."""
    has_place = row["line"] is not None or row["row"] is not None
    return (*(row[name] for name in _PLACE), None if has_place else row["text"])


def _whole(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in REJECT_SCHEMA.names)


def _rows(context: Context, files: Sequence[QuarantineFile]) -> pa.Table:
    tables = [quarantined(context.store, file) for file in files]
    return pa.concat_tables([pa.Table.from_batches([], REJECT_SCHEMA), *tables], promote_options="default")


def _taken(rows: pa.Table, chosen: dict[int, Any]) -> pa.Table:
    """Return the rows at the places of `chosen`, with its operators."""
    taken = rows.take(int64_array(list(chosen)))
    return taken.set_column(taken.column_names.index("operator"), "operator", string_array(list(chosen.values())))
