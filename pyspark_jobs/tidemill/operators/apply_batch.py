"""`.apply_batch(step, …)`: a user's function over whole tables, called once for each task and batch with all its keys.

Spark has no counterpart. The function works on Arrow tables, so the engine half is Python, over the same state maps.
INVARIANT: a call sees and changes only keys of its rows. Other keys in its result are refused.
INVARIANT: a call that fails changes nothing, so it can be repeated with fewer keys.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput, summary
from ..schema import checked_buffers, is_unnamed, matching, one_batch, to_arrow
from ..schema.kernels import pc
from ..state.columns import MapColumns
from ..values import dataclass
from .contract import LONGEST_FAILURE, Declared, Defaults, Handle, Input, OnError, check_on_error, key_schema
from .initial import Initial
from .keys import KeySet, KeyValues, cells_of, format_key, in_hash_order, repeated

_STATE_MAP = "state"


@dataclass(frozen=True)
class BatchContext:
    """The times of a batch, for `step`, in ms since the epoch. `watermark_ms` is None without a watermark."""

    batch_time_ms: int
    watermark_ms: int | None


Step = Callable[[pa.Table, pa.Table, BatchContext], tuple[pa.Table, pa.Table | None]]


@dataclass(frozen=True)
class ApplyBatchOperator(Declared):
    """`.apply_batch(…)` as declared."""

    name: str
    step: Step
    state_schema: Any
    output_schema: Any
    on_error: str = "fail"

    def bind(self, given: Input) -> BoundApplyBatch:
        """Check the function, and that the output has the key columns, by which its rows are sorted."""
        if not callable(self.step):
            raise InvalidInput(f"operator `{self.name}`: apply_batch takes a function, found {self.step!r}")
        key, output = key_schema(given), to_arrow(self.output_schema, unnamed="value")
        for field in key:
            found = output.field(field.name).type if field.name in output.names else None
            if found != field.type:
                raise InvalidInput(
                    f"operator `{self.name}`: the output has "
                    + (f"no column `{field.name}`" if found is None else f"the column `{field.name}` {found}")
                    + f", expected the key column `{field.name}` {field.type}, because rows are sorted by key"
                )
        state = to_arrow(self.state_schema, unnamed="state")
        unnamed = is_unnamed(self.state_schema)
        for name in state.names:
            if name in key.names:
                raise InvalidInput(
                    f"operator `{self.name}`: stateSchema has the key column `{name}`, expected state columns only",
                    hint="name the state's column: stateSchema='total double'"
                    if unnamed
                    else f"remove `{name}` from stateSchema: the key is stored with every state",
                )
        on_error = check_on_error(self.name, self.on_error)
        return BoundApplyBatch(self.name, given, self.step, state, unnamed, output, on_error)


@dataclass(frozen=True)
class BoundApplyBatch(Defaults):
    """`apply_batch` over a known input."""

    name: str
    input: Input
    step: Step
    state: pa.Schema
    state_unnamed: bool
    output_schema: pa.Schema
    on_error: OnError = "fail"
    kind: str = "apply-batch"

    @property
    def maps(self) -> tuple[MapColumns, ...]:
        """One map: key → state."""
        return (MapColumns.apart(_STATE_MAP, key_schema(self.input), value=self.state),)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's function."""
        return (self.step,)

    @property
    def initial(self) -> Initial:
        """Keys with their states."""
        return Initial(key_schema(self.input), self.state, self.state_unnamed)

    def seed(self, rows: pa.Table) -> Mapping[str, pa.Table]:
        """Return the rows unchanged."""
        return {_STATE_MAP: rows.rename_columns(self.maps[0].names)}

    def open(self) -> ApplyBatch:
        """Open the operator."""
        return ApplyBatch(self)


@dataclass(frozen=True)
class Prepared:
    """The rows of a block, key columns first. No row is late, because the function is given every row."""

    rows: pa.RecordBatch
    late: None = None


class ApplyBatch(Handle):
    """`apply_batch` open in one task; see `operators.contract.Handle`."""

    def __init__(self, operator: BoundApplyBatch) -> None:
        self.operator = operator
        self._what = f"operator `{operator.name}`: the apply_batch function"
        self._key = list(operator.input.key)
        names = operator.input.schema.names
        (self._kept,) = operator.maps
        self._sent = [*self._key, *(name for name in names if name not in self._key)]
        self._counts = {"rows": 0, "rows_updated": 0, "rows_removed": 0, "failed": 0}
        self._failure = ""
        self._failed: list[tuple[pa.RecordBatch, str]] = []
        self._quarantined: list[tuple[int, pa.RecordBatch, list[str]]] = []

    def prepare(self, rows: pa.RecordBatch, pass_: _native.Pass, combine: bool = True) -> Prepared:
        """Return all rows, never combined. `pass_` and `combine` are ignored."""
        del pass_, combine
        return Prepared(rows.select(self._sent))

    def open(self, maps: Sequence[_native.StateMap]) -> None:
        """Take a fork of its map."""
        (state,) = maps
        self._map = state.copy()

    def apply(self, chunks: Sequence[pa.RecordBatch], pass_: _native.Pass, ports: Sequence[int]) -> pa.RecordBatch:  # noqa: ARG002
        """Call the function once with all rows of the pass, in plan order. Without rows it is not called."""
        if not any(chunk.num_rows for chunk in chunks):
            return pa.RecordBatch.from_pylist([], schema=self.operator.output_schema)
        rows = pa.Table.from_batches(chunks).select(self.operator.input.schema.names)
        self._counts["rows"] += rows.num_rows
        made = self._call_and_apply(rows, KeySet(rows.select(self._key)), pass_)
        self._quarantine_failed(chunks)
        return self._one_batch(in_hash_order(pa.concat_tables(made), self._key))

    def take_quarantined(self) -> list[tuple[int, Any, list[str]]]:
        """Return the rows of the keys whose calls failed, with `on_error="quarantine"`."""
        quarantined, self._quarantined = self._quarantined, []
        return quarantined

    def _call_and_apply(self, rows: pa.Table, keys: KeySet, pass_: _native.Pass) -> list[pa.Table]:
        """Call the function for these keys, apply the new states, and return the outputs.

        If the call fails and `on_error` is "quarantine", each half of the keys is tried again by itself. The result of
        a key does not depend on the other keys, so keys that succeed have the same result as in one call. An error of
        the engine is not a failure of the call, and ends the batch.
        """
        found, values = self._map.get_many(self._kept_keys(keys.keys))
        known = keys.keys.filter(found)
        columns = [*known.columns, *(values.column(name).filter(found) for name in self._kept.value.names)]
        state = pa.Table.from_arrays(columns, schema=self._state_schema)
        try:
            states, kept, made = self._one_call(rows, state, keys, pass_)
        except InvalidInput as error:
            if self.operator.on_error == "fail":
                raise
            if keys.keys.num_rows == 1:
                key = format_key(cells_of(keys.keys, 0))
                self._failed.append((keys.keys, f"{error.first_line} for key `{key}`"))
                return [self.operator.output_schema.empty_table()]
        else:
            self._replace(known.filter(pc.invert(kept.holds(known))), states, pass_)
            return [made]
        of_rows, half = self._one_batch(rows.select(self._key)), keys.keys.num_rows // 2
        parts = []
        for part in (keys.keys.slice(0, half), keys.keys.slice(half)):
            own = KeySet(pa.Table.from_batches([part]))
            parts += self._call_and_apply(rows.filter(own.holds(of_rows)), own, pass_)
        return parts

    def _one_call(
        self, rows: pa.Table, state: pa.Table, keys: KeySet, pass_: _native.Pass
    ) -> tuple[pa.RecordBatch, KeySet, pa.Table]:
        """Call the function once. Returns the states, their keys, and the output, all checked."""
        after, output = self._call(rows, state, BatchContext(pass_.batch_time_ms, pass_.watermark_ms))
        states, kept = self._checked(after, keys)
        made = self.operator.output_schema.empty_table()
        if output is not None:
            made = matching(output, self.operator.output_schema, self._returned("output"))
            self._check_keys(self._one_batch(made.select(self._key)), keys, "output")
        return states, kept, made

    def _one_batch(self, rows: pa.Table) -> pa.RecordBatch:
        return one_batch(rows, f"operator `{self.operator.name}`")

    def _quarantine_failed(self, chunks: Sequence[pa.RecordBatch]) -> None:
        failed, self._failed = self._failed, []
        if not failed:
            return
        keys, why = zip(*failed, strict=True)
        self._counts["failed"] += len(failed)
        self._failure = min(filter(None, (self._failure, *why)))[:LONGEST_FAILURE]
        reasons = KeyValues(self._one_batch(pa.Table.from_batches(keys)), pa.array(why, pa.string()))
        for number, chunk in enumerate(chunks):
            of_rows = reasons.of(chunk.select(self._key))
            rows = chunk.filter(of_rows.is_valid())
            if rows.num_rows:
                self._quarantined.append((number, rows, of_rows.drop_null().to_pylist()))

    def finish(self) -> list[_native.StateMap]:
        """The map with everything applied."""
        return [self._map]

    def metrics(self) -> dict[str, Any]:
        """Return the counts of rows, of states written and removed, and of keys that failed."""
        return {**self._counts, "failure": self._failure}

    @property
    def _state_schema(self) -> pa.Schema:
        return pa.schema([*key_schema(self.operator.input), *self.operator.state])

    def _kept_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Rename the key columns to the names in its map."""
        return keys.rename_columns(self._kept.key.names)

    def _call(self, rows: pa.Table, state: pa.Table, context: BatchContext) -> tuple[pa.Table, pa.Table | None]:
        try:
            made = self.operator.step(rows, state, context)
        except (Exception, SystemExit) as error:
            raise InvalidInput(f"{self._what} raised `{summary(error)}`\n{traceback.format_exc()}") from error
        if isinstance(made, tuple) and len(made) == 2:
            after, output = made
            if isinstance(after, pa.Table) and (output is None or isinstance(output, pa.Table)):
                checked_output = None if output is None else checked_buffers(output, self._returned("output"))
                return checked_buffers(after, self._returned("state")), checked_output
            made_of = f"({type(after).__name__}, {type(output).__name__})"
        else:
            made_of = type(made).__name__
        raise InvalidInput(f"{self._what} returned {made_of}, expected (state, output), two pyarrow tables")

    def _returned(self, part: str) -> str:
        """The subject of a message about `part` of what the function returned."""
        return f"operator `{self.operator.name}`: the {part} that the apply_batch function returned"

    def _checked(self, after: pa.Table, keys: KeySet) -> tuple[pa.RecordBatch, KeySet]:
        """Check the states that the function returned. Returns them and their keys, each of which occurs once."""
        what = self._returned("state")
        made = self._one_batch(matching(after, self._state_schema, what))
        own = made.select(self._key)
        table = pa.Table.from_batches([own])
        kept = KeySet(table)
        for key, count in repeated(table) if kept.keys.num_rows < own.num_rows else ():
            raise InvalidInput(f"{what} has the key {format_key(key)} in {count} rows, expected each key once")
        for name in self.operator.state.names if self.operator.state_unnamed else ():
            if made.column(name).null_count:
                raise InvalidInput(f"{what} is null for a key", hint="omit a key to remove its state")
        self._check_keys(own, keys, "state")
        return made, kept

    def _check_keys(self, own: pa.RecordBatch, keys: KeySet, part: str) -> None:
        foreign = own.filter(pc.invert(keys.holds(own)))
        if foreign.num_rows:
            raise InvalidInput(
                f"{self._returned(part)} has the key {format_key(cells_of(foreign, 0))}, which is not a key of its "
                "rows",
                hint="return only keys of the given rows: a call is given all rows of some keys",
            )

    def _replace(self, gone: pa.RecordBatch, after: pa.RecordBatch, pass_: _native.Pass) -> None:
        if gone.num_rows:
            self._map.remove_many(self._kept_keys(gone))
        if after.num_rows:
            values = pa.RecordBatch.from_arrays(after.columns[len(self._key) :], self._kept.value.names)
            self._map.put_many(self._kept_keys(after.select(self._key)), values, pass_.batch_time_ms)
        self._counts["rows_updated"] += after.num_rows
        self._counts["rows_removed"] += gone.num_rows
