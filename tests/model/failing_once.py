"""Pipelines of one operator each whose user function fails once, in the middle of a batch: like a worker that dies.

PySpark's tests of applyInPandasWithState have the same as `python_worker_random_failure`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

import tidemill as tm
from tests.model import every_operator as functions
from tests.world import World

Calls = Literal["rows", "timeout"]
BATCH = 2
"""The batch that fails. Two batches precede it, and one follows."""


@dataclass(frozen=True)
class Trouble:
    """Raises once after `arm`: at the end of the call number `at` among those of its kind, in whichever process."""

    file: Path
    calls: Calls
    at: int

    def arm(self) -> None:
        """The next calls count."""
        self.file.touch()

    @property
    def over(self) -> bool:
        """Whether the error was raised."""
        return not self.file.exists()

    def after(self, calls: Calls, key: Any) -> None:
        """Count the call that ended, and raise if it is the chosen one."""
        if calls != self.calls or self.over:
            return
        try:
            # Without O_CREAT, so that the open fails if another process has raised and deleted the file.
            counted = os.open(self.file, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            return
        try:
            os.write(counted, b".")
            number = os.lseek(counted, 0, os.SEEK_CUR)
        finally:
            os.close(counted)
        if number == self.at:
            self.file.unlink()
            raise RuntimeError(f"no luck with {key!r}")


def mapped(trouble: Trouble) -> Any:
    def step(batch_time: Any, user: Any, row: Any, state: Any) -> Any:
        found = functions.mapped(batch_time, user, row, state)
        trouble.after("timeout" if state.isTimingOut else "rows", user)
        return found

    return step


def of_groups(function: Callable[..., Any], trouble: Trouble) -> Any:
    """A function that returns one row per call."""

    def step(key: Any, rows: Any, state: Any) -> Any:
        found = function(key, rows, state)
        trouble.after("timeout" if state.hasTimedOut else "rows", key)
        return found

    return step


def of_groups_with_rows(function: Callable[..., Any], trouble: Trouble) -> Any:
    """Rows or frames, given before it fails."""

    def step(key: Any, rows: Any, state: Any) -> Iterator[Any]:
        yield from function(key, rows, state)
        trouble.after("timeout" if state.hasTimedOut else "rows", key)

    return step


def processor(parent: Any, trouble: Trouble) -> Any:
    class Failing(parent):  # type: ignore[misc]
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            yield from super().handleInputRows(key, rows, timerValues)
            trouble.after("rows", key)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
            yield from super().handleExpiredTimer(key, timerValues, expiredTimerInfo)
            trouble.after("timeout", key)

    return Failing()


def whole(trouble: Trouble) -> Any:
    def step(rows: Any, state: Any, context: Any) -> Any:
        found = functions.halved(rows, state, context)
        trouble.after("rows", None)
        return found

    return step


Made = Callable[[tm.Stream, Trouble], tm.Stream]
OPERATORS: dict[str, Made] = {
    "mapWithState": lambda rows, trouble: rows.groupBy("user").mapWithState(
        tm.StateSpec.function(mapped(trouble)).timeout("15 seconds", clock="event"),
        stateSchema="double", outputSchema="user string, total double, closed boolean", name="op",
    ),
    "mapGroupsWithState": lambda rows, trouble: rows.groupBy("user", "n").mapGroupsWithState(
        of_groups(functions.least_and_greatest, trouble),
        "user string, n int, least double, most double, silent boolean",
        "least double, most double", "ProcessingTimeTimeout", name="op",
    ),
    "flatMapGroupsWithState": lambda rows, trouble: rows.groupBy("user").flatMapGroupsWithState(
        of_groups_with_rows(functions.grouped, trouble),
        "user string, n long, what string", "n long", "append", "EventTimeTimeout", name="op",
    ),
    "applyInPandasWithState": lambda rows, trouble: rows.groupBy("user").applyInPandasWithState(
        of_groups_with_rows(functions.sums, trouble),
        "n string, total double, closed boolean", "total double", "append", "EventTimeTimeout", name="op",
    ),
    "transformWithState": lambda rows, trouble: rows.groupBy("user").transformWithState(
        processor(functions.Visits, trouble), "user string, count long, kind string", "append", "EventTime", name="op",
    ),
    "transformWithStateInPandas": lambda rows, trouble: rows.groupBy("user").transformWithStateInPandas(
        processor(functions.Kept, trouble), "n string, total double, lately int", "append", "ProcessingTime",
        initialState=pa.table({"v": [1.0, 2.0, 4.0], "user": ["a", "a", "z"]}), name="op",
    ),
    "apply_batch": lambda rows, trouble: rows.groupBy("n").apply_batch(
        whole(trouble), stateSchema="c long", outputSchema="n int, c long", name="op"
    ),
}  # fmt: skip


def by_version(repository: Any) -> list[Any]:
    """Return all that a user sees of each version: rows of states, outputs, counts and the watermark."""
    maps = repository.opened.job.operators["op"].operator.maps
    found = []
    for commit in repository.commits():
        tables = {columns.name: repository.state(version=commit.version, variable=columns.name) for columns in maps}
        tables["outputs"] = repository.outputs(commit.version, "op")
        if type(repository.opened.job.operators["op"].operator).__name__ == "BoundApplyBatch":
            tables["outputs"] = tables["outputs"].drop_columns(["_seq"])  # it depends on the number of tasks
        rows = {name: list(map(repr, table.to_pylist())) for name, table in tables.items()}
        found.append((rows, commit.counts, commit.watermarks))
    return found


WITH_KEY = r"(function|method) `\w+` of operator `op` raised `RuntimeError: no luck with (.+)` for key `\2`"
WITHOUT_KEY = "operator `op`: the apply_batch function raised `RuntimeError: no luck with None`"


def fails_once_and_continues(name: str, calls: Calls, base: Path, engine: dict[str, Any]) -> None:
    """Check that a run that fails and is started again gives the same versions as an undisturbed run.

    The files are in the folder `in` below `base`, one for each batch, and their names give the batch times.
    """
    trouble = Trouble(base / "armed", calls, at=2)

    def build(p: tm.Pipeline, world: World) -> None:
        p.batch_time(functions.by_file_name)
        OPERATORS[name](world.read(p).withWatermark("ts", functions.DELAY), trouble)

    def opened(root: str) -> tm.Repository:
        return World(base, build, root=root, format="json", schema=functions.SCHEMA).open()

    undisturbed = opened("undisturbed")
    undisturbed.run(engine="local")
    expected = by_version(undisturbed)

    disturbed = opened("disturbed")
    disturbed.run(**engine, max_batches=BATCH)
    trouble.arm()
    with pytest.raises(tm.InvalidInput) as caught:
        disturbed.run(**engine)
    committed = by_version(opened("disturbed"))
    assert trouble.over and BATCH <= len(committed) < len(expected) and committed == expected[: len(committed)]
    assert re.match(WITHOUT_KEY if name == "apply_batch" else WITH_KEY, caught.value.first_line)
    assert "in after" in str(caught.value)  # the traceback
    opened("disturbed").run(**engine)
    found = by_version(opened("disturbed"))
    assert len(found) == len(expected) > BATCH + 1
    for version, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one == other, version
