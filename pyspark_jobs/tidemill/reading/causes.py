"""The causes of a change of a key: its rows in the input, read again as the batch read them, and its deadlines."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import pyarrow as pa

from ..batch.batch import Batch
from ..batch.input import feed, read_split
from ..errors import InvalidInput, TidemillError
from ..operators.contract import Input
from ..operators.recorded import clock_of
from ..operators.session_window import SessionWindow
from ..operators.window import Window
from ..pipeline import flow
from ..pipeline.job import JobSink, Placed, Port
from ..protocol.records import Commit, Plan, Split
from ..repo.input_files import is_as_read, listed_files
from ..repo.opened import Opened
from ..schema import int64_scalar
from ..schema.kernels import pc
from ..sinks.json_text import python_rows
from ..sources.contract import SourceFile, named_file
from ..state.table import has_key_of
from ..values import dataclass
from .again import rows_reaching


@dataclass(frozen=True)
class KeyInput:
    """The files of a version, and what is known of the key's rows in them. `unread` says why rows are missing."""

    files: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def files_of(plan: Plan | None) -> list[str]:
    """Return the names of a plan's files, each once. Requeued rows are named by their version."""
    return list(dict.fromkeys(_name(split) for split in (() if plan is None else plan.splits)))


def files_in_words(plan: Plan | None, sources: Collection[str]) -> list[str]:
    """Return the same for people: if there are several sources, each file has the name of its source, too."""
    return list(dict.fromkeys(_named(split, sources) for split in (() if plan is None else plan.splits)))


def _named(split: Split, sources: Collection[str]) -> str:
    return f"`{_name(split)}`" if split.requeued is not None else named_file(split, sources)


def key_input(repo: Opened, plan: Plan | None, operator: str, key: pa.RecordBatch) -> KeyInput:
    """Read the rows of a key again. `key` is one row of the operator's key columns."""
    found = KeyInput(files_of(plan))
    placed = repo.job.operators.get(operator)
    if plan is None or not plan.splits:
        return found
    if repo.recorded is not None:
        found.unread.append("input rows are read by the pipeline's code, and the repository was opened without it")
        return found
    if placed is None:
        found.unread.append(f"this code has no operator `{operator}`")
        return found
    upstream = repo.job.upstream(operator)
    if upstream:
        receiver = _OfKey(placed, key)
        try:
            rows_reaching(repo, plan, placed, receiver.to_operator)
            found.rows.extend(receiver.rows)
        except TidemillError as error:
            of = ", ".join(f"`{name}`" for name in upstream)
            found.unread.append(
                f"the rows of `{operator}` are outputs of {of}, and cannot be made again: "
                f"{error.message.splitlines()[0]}"
            )
    else:
        batch, present = _batch(repo, plan), _Present(repo, plan)
        for split in plan.splits:
            try:
                found.rows.extend(_read(batch, split, placed, key, present))
            except TidemillError as error:
                found.unread.append(
                    f"{_named(split, repo.sources)}{present.why(split) or f': {error.message.splitlines()[0]}'}"
                )
    return found


def _read(batch: Batch, split: Split, placed: Placed, key: pa.RecordBatch, present: _Present) -> list[dict[str, Any]]:
    """Return the rows of a key in a split. A file that was only touched since is read as it is now."""
    try:
        return list(_rows(batch, split, placed, key))
    except TidemillError:
        now = present.touched(split)
        if now is None:
            raise
    return list(_rows(batch, now, placed, key))


class _Present:
    """The files that the sources of a plan have now. They are listed at most once, and only if a file differs."""

    def __init__(self, repo: Opened, plan: Plan) -> None:
        self._opened, self._plan = repo, plan

    def touched(self, split: Split) -> Split | None:
        """Return a split with the present ETag, if its file has the same bytes as when the batch read it."""
        now = self._listed.get((split.source, split.path))
        if split.requeued is not None or now is None or now.etag == split.etag:
            return None
        if not is_as_read(self._opened, self._opened.log.commit(self._plan.number), now):
            return None
        return dataclasses.replace(split, etag=now.etag, modified_ms=now.modified_ms)

    def why(self, split: Split) -> str | None:
        """Return why the file of a split cannot be read as it was: it is gone, or other than it was. None: unknown."""
        if split.requeued is not None:
            return None
        try:
            now = self._listed.get((split.source, split.path))
        except TidemillError:
            return None
        if now is None:
            return " is gone"
        return None if now.etag == split.etag else " has changed since"

    @cached_property
    def _listed(self) -> dict[tuple[str, str], SourceFile]:
        return listed_files(self._opened, {split.source for split in self._plan.splits})


class _OfKey:
    """Keeps the rows of one key that reach one operator. A `flow.Receiver`."""

    def __init__(self, placed: Placed, key: pa.RecordBatch) -> None:
        self.placed, self.key = placed, key
        self.rows: list[dict[str, Any]] = []

    def to_operator(self, port: Port, rows: pa.RecordBatch) -> None:
        """Keep rows of the key."""
        if port.operator.name == self.placed.operator.name:
            given = port.input
            table = pa.Table.from_batches([flow.declared(rows, given.schema)])
            # A session is no key column: it begins with any row.
            place = None if given.window is None or isinstance(given.window[0], SessionWindow) else given.window[1]
            columns = [number for number in range(self.key.num_columns) if number != place][: len(given.key)]
            if columns:  # without key columns, all rows have one key
                key = self.key.select(columns)
                keys = table.select(list(given.key)).rename_columns(key.schema.names).cast(key.schema)
                table = table.filter(has_key_of(keys, key))
            self.rows += python_rows(_in_window(table, given, self.key))

    def to_output(self, output: JobSink, rows: pa.RecordBatch) -> None:
        """Ignore rows for a sink."""

    def at_watermark(self, name: str, column: str, rows: pa.RecordBatch) -> pa.RecordBatch:  # noqa: ARG002
        """Let all rows pass."""
        return rows


def _in_window(rows: pa.Table, given: Input, key: pa.RecordBatch) -> pa.Table:
    """Return the rows that fall into the window of a key, if the key has one."""
    window, place = given.window or (None, 0)
    if not isinstance(window, Window):
        return rows
    start = key.column(place).cast(pa.timestamp("us", "UTC")).cast(pa.int64())[0]
    times = rows.column(window.column).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    end = pc.add(start, int64_scalar(1_000 * window.size_ms))
    return rows.filter(pc.and_(pc.greater_equal(times, start), pc.less(times, end)))


def _rows(batch: Batch, split: Split, placed: Placed, key: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    if split.source not in batch.job.sources:
        raise InvalidInput(f"this code has no source `{split.source}`")
    receiver = _OfKey(placed, key)
    for block in read_split(batch, split, batch.read_context()):
        feed(batch.job, split, block.rows, receiver)
        yield from receiver.rows
        receiver.rows = []


def _batch(repo: Opened, plan: Plan) -> Batch:
    return Batch(
        job=repo.job,
        plan=plan,
        attempt="",
        root=repo.task_root,
        storage_options=repo.storage_options,
        settings=repo.settings,
        state={},
        watermarks={},
        tasks=1,
    )


def _name(split: Split) -> str:
    requeued = split.requeued
    return split.path if requeued is None else f"rows of version {requeued.version}, requeued"


@dataclass(frozen=True)
class Fired:
    """The deadlines that fired, in ms, and why others may be missing."""

    due: list[int]
    unknown: list[str] = field(default_factory=list)


def fired_as_recorded(commit: Commit, recorded: Mapping[str, Any], ended: Sequence[int], has_input: bool) -> Fired:
    """Return which of the deadlines that a key has no longer fired. `has_input`: the batch read files.

    Under batch time, a row of the key replaces a deadline before it fires, and only the code tells the key of a row. An
    operator's watermark is the least of some of the pipeline's, and only the code says of which.
    """
    clock = clock_of(recorded)
    if clock == "batch":
        due = [one for one in ended if one <= commit.batch_time_ms]
        if due and has_input:
            return Fired(
                [], [f"{_deadlines(len(due))} fired, or were replaced by rows of the key; only code tells which"]
            )
        return Fired(due)
    if clock is None or not commit.watermarks:
        return Fired([])
    low, high = min(commit.watermarks.values()), max(commit.watermarks.values())
    open_ = [one for one in ended if low < one <= high]
    said = f"{_deadlines(len(open_))} may have fired; only code tells which watermarks count for the operator"
    return Fired([one for one in ended if one <= low], [said] if open_ else [])


def _deadlines(count: int) -> str:
    return "1 deadline" if count == 1 else f"{count:,} deadlines"
