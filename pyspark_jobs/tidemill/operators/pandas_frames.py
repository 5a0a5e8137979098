"""Converts rows to a pandas frame for each key, and returned frames to Arrow rows, both as PySpark does.

This module imports pandas, so it is imported only when a function over frames is called. The columns of all keys are
converted once, and the frame of a key is a slice of them. INVARIANT: types and values are those that PySpark gives a
frame of that key alone. For example, an int column is a float column for exactly the keys that have a null in it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any, Literal

import numpy as np
import pandas
import pyarrow as pa

from ..errors import InvalidInput
from ..schema import to_ddl
from ..schema.ddl import type_ddl
from ..schema.kernels import pc
from ..values import dataclass
from .pandas_structs import structs_by_position


class DoesNotFit(Exception):
    """A function returned an object that does not fit the declaration.

    `number` is the number of the key if the frames of several keys were converted together.
    """

    def __init__(self, why: str, number: int | None = None) -> None:
        super().__init__(why)
        self.number = number


@dataclass(frozen=True)
class FrameFunction:
    """A user's function over frames, and the declaration of its output."""

    function: Callable[..., Any]
    output: pa.Schema
    time_zone: str
    key_by_key: bool
    """Whether the output of a call is converted before the next call, so that a key can fail by itself."""
    more: Literal["refused", "ignored"] = "refused"
    """What happens to columns that are not declared."""


class Frames:
    """The frames of one visit. The Rust operator uses it key by key."""

    misfit = DoesNotFit

    def __init__(self, calls: FrameFunction, rows: pa.RecordBatch, keys: pa.RecordBatch) -> None:
        self._calls, self._rows = calls, rows
        self._keys = _columns(keys, calls.time_zone)
        columns = _columns(rows, calls.time_zone)
        self._all = pandas.DataFrame(dict(zip(rows.schema.names, (one.whole for one in columns), strict=True)))
        # The types of nested values depend on all rows converted together, so these keys are converted one by one.
        self._is_nested = any(pa.types.is_nested(column.type) for column in rows.columns)
        self._nulls = [one.nulls_before for one in columns if one.nulls_before is not None]
        self._indexes: dict[int, Any] = {}
        self._given = _Given(calls)

    def key(self, number: int) -> tuple[Any, ...]:
        """Return the key with the types that PySpark gives it: those of a pandas column."""
        return tuple(column.scalar(number) for column in self._keys)

    def call(self, number: int, key: tuple[Any, ...], start: int, end: int, state: Any) -> None:
        """Call the function for one key, and add its frames. `DoesNotFit` if it returns anything else."""
        frame = self._frame(start, end) if end > start else pandas.DataFrame(columns=self._rows.schema.names)
        self.take(number, self._calls.function(key, iter((frame,)), state))

    def take(self, number: int, answer: Any) -> None:
        """Add all frames of a call, or none of them. `DoesNotFit` if `answer` is not an iterable of valid frames."""
        # A frame is refused, because iterating over a frame yields the names of its columns.
        if isinstance(answer, pandas.DataFrame) or not hasattr(answer, "__iter__"):
            raise DoesNotFit(f"found a `{type(answer).__name__}`, expected an iterator of pandas.DataFrame")
        given = [pieces for frame in answer if (pieces := self._given.pieces(frame))]
        if self._calls.key_by_key:
            for pieces in given:
                self._check_alone(number, pieces)
        for pieces in given:
            self._given.keep(number, pieces)

    @property
    def taken(self) -> int:
        """How many rows were added so far."""
        return self._given.total

    def _check_alone(self, number: int, pieces: list[Any]) -> None:
        """Raise `DoesNotFit` if the rows of one frame do not have the declared types."""
        alone = _Given(self._calls)
        alone.keep(number, pieces)
        alone.rows()

    def finish(self) -> tuple[pa.RecordBatch, list[tuple[int, int]]]:
        """Return all rows, and (key number, number of rows) in their order."""
        return self._given.rows(), self._given.counts

    def _frame(self, start: int, end: int) -> Any:
        if self._is_nested or any(nulls[start] != nulls[end] for nulls in self._nulls):
            rows = self._rows.slice(start, end - start)
            columns = (_series(column, self._calls.time_zone) for column in rows.columns)
            return pandas.DataFrame(dict(zip(rows.schema.names, columns, strict=True)))
        count = end - start
        index = self._indexes.get(count)
        if index is None:
            index = self._indexes[count] = pandas.RangeIndex(count)
        # Like `iloc`, but with its own index, and without a reference to the whole frame, which makes pandas warn.
        window = self._all._mgr.get_slice(slice(start, end), axis=1)
        window.axes[1] = index
        return pandas.DataFrame._from_mgr(window, axes=window.axes)


def _columns(rows: pa.RecordBatch, time_zone: str) -> list[_Column]:
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        _check_times(name, column)
    return [_Column(column, time_zone) for column in rows.columns]


def _check_times(name: str, column: pa.Array) -> None:
    """Raise `InvalidInput` for a time that pandas cannot represent, because it counts nanoseconds in 64 bits."""
    if not pa.types.is_timestamp(column.type) or not len(column):
        return
    times = column.cast(pa.timestamp("us"))
    bounds = pc.min_max(times.cast(pa.int64()))
    for found in (bounds["min"], bounds["max"]):
        if found.is_valid and not -_MOST_US <= found.as_py() <= _MOST_US:
            shown = pa.array([found.as_py()], pa.int64()).cast(pa.timestamp("us")).cast(pa.string())[0]
            raise InvalidInput(
                f"column `{name}` has the time {shown} (UTC), outside the years 1677 to 2262 that pandas supports",
                hint="filter such rows out, or set the column to null, with .sql before .groupBy",
            )


_MOST_US = (2**63 - 1) // 1000


class _Column:
    """An Arrow column as pandas represents it. In `whole`, ints and booleans keep their type despite nulls."""

    def __init__(self, column: pa.Array, time_zone: str) -> None:
        self._column, self._time_zone = column, time_zone
        self.nulls_before: Any = None
        kind = column.type
        if column.null_count and column.null_count < len(column) and (pa.types.is_integer(kind) or kind == pa.bool_()):
            nulls = column.is_null().to_numpy(zero_copy_only=False)
            self.nulls_before = np.concatenate(([0], np.cumsum(nulls)))
            column = column.fill_null(False if kind == pa.bool_() else 0)
        self.whole = _series(column, time_zone)
        self._cells = self.whole.array

    def scalar(self, row: int) -> Any:
        if self.nulls_before is not None and not self._column[row].is_valid:
            return _series(self._column.slice(row, 1), self._time_zone)[0]
        return self._cells[row]


def _series(column: pa.Array, time_zone: str) -> Any:
    """The Series that PySpark makes of a column: times are naive, in the session's time zone."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        return column.cast(pa.timestamp("ns", "UTC")).to_pandas().dt.tz_convert(time_zone).dt.tz_localize(None)
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ns")).to_pandas()
    is_nested = pa.types.is_nested(column.type)
    return column.to_pandas(date_as_object=True, maps_as_pydicts="strict", integer_object_nulls=is_nested)


class _Given:
    """The frames that a function gave, until they are made into rows."""

    def __init__(self, calls: FrameFunction) -> None:
        schema = self._schema = calls.output
        self._time_zone, self._more = calls.time_zone, calls.more
        self._names = list(schema.names)
        self._places = list(range(len(self._names)))
        self._rewrites = [structs_by_position(field.type) for field in schema]
        self._columns: list[list[Any]] = [[] for _ in schema]
        self.counts: list[tuple[int, int]] = []
        self.total = 0

    def pieces(self, frame: Any) -> list[Any]:
        """Return the columns of a frame in the declared order, or nothing if it has no rows.

        `DoesNotFit` if it is not a frame, or does not have the declared columns. The columns are copied, because a
        function may change a frame and return it again, and PySpark writes each frame when it is returned.
        """
        if not isinstance(frame, pandas.DataFrame):
            raise DoesNotFit(f"found an iterator of `{type(frame).__name__}`, expected an iterator of pandas.DataFrame")
        found, places = frame.columns.tolist(), self._places
        if found != self._names and (found or len(frame)):
            by_name = any(isinstance(name, str) for name in found)
            if not self._fits(found, by_name):
                types = ", ".join(f"{name} {dtype}" for name, dtype in zip(found, frame.dtypes, strict=True))
                raise DoesNotFit(f"found a frame with the columns ({types}), expected ({to_ddl(self._schema)})")
            if by_name:
                places = [found.index(name) for name in self._names]
        if not len(frame):
            return []
        # Like `frame.iloc[:, place]`, but without making a Series, which would be expensive for each key.
        columns = (_plain(frame._get_column_array(place).copy()) for place in places)
        return [
            column if rewrite is None or column.dtype != object else _rewritten(rewrite, column)
            for rewrite, column in zip(self._rewrites, columns, strict=True)
        ]

    def _fits(self, found: list[Any], by_name: bool) -> bool:
        """Whether the columns have the declared number, or with `by_name` the declared names."""
        if by_name and self._more == "ignored":
            return all(found.count(name) == 1 for name in self._names)
        return len(found) == len(self._names) and (not by_name or set(found) == set(self._names))

    def keep(self, number: int, pieces: list[Any]) -> None:
        """Add the columns of a frame."""
        self.counts.append((number, len(pieces[0])))
        self.total += len(pieces[0])
        for column, piece in zip(self._columns, pieces, strict=True):
            column.append(piece)

    def rows(self) -> pa.RecordBatch:
        """Return all rows. `DoesNotFit(why, key number)` for the first frame that does not have the declared types."""
        arrays = [self._array(field, pieces) for field, pieces in zip(self._schema, self._columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, field: pa.Field, pieces: list[Any]) -> pa.Array:
        """Convert the rows of all frames.

        INVARIANT: the result is the same as if each frame were converted alone, so that the output of a key does not
        depend on the other keys of its task. Frames are converted together only if each value is converted by itself.
        """
        try:
            arrays = [self._by_value(field.type, piece) for piece in _joined(pieces)]
        except MemoryError:  # Arrow raises it too, and the frame is not at fault
            raise
        except Exception:  # noqa: BLE001 - the values depend on the frame, or one does not fit: convert each alone
            arrays = []
        if not arrays or (not field.nullable and any(array.null_count for array in arrays)):
            found = zip(self.counts, pieces, strict=True)
            arrays = [self._alone(field, piece, number) for (number, _), piece in found]
        return pa.concat_arrays(arrays) if arrays else pa.array([], field.type)

    def _alone(self, field: pa.Field, piece: Any, number: int) -> pa.Array:
        """Convert the rows of one frame."""
        expected = f"expected `{type_ddl(field.type)}{'' if field.nullable else ' not null'}`"
        try:
            found = self._converted(field.type, piece)
        except MemoryError:
            raise
        except Exception as e:  # pandas, its time zones and Arrow raise errors of many classes
            why = (str(e).splitlines() or [""])[0]
            reason = f"{type(e).__name__}: {why}" if isinstance(e, LookupError) or not why else why
            raise DoesNotFit(f"column `{field.name}` is `{piece.dtype}`, {expected}: {reason}", number) from e
        if found.null_count and not field.nullable:
            raise DoesNotFit(f"column `{field.name}` has nulls, {expected}", number)
        return found

    def _converted(self, kind: pa.DataType, piece: Any) -> pa.Array:
        if pa.types.is_timestamp(kind) and piece.dtype == object:
            with warnings.catch_warnings():  # pandas warns if it must parse texts one by one
                warnings.filterwarnings("ignore", "Could not infer format", UserWarning)
                return self._times(kind, pandas.to_datetime(pandas.Series(piece)))
        try:
            return self._by_value(kind, piece)
        except pa.ArrowInvalid:  # like PySpark, which does not handle ArrowTypeError either
            return pa.Array.from_pandas(piece).cast(kind, safe=True)

    def _by_value(self, kind: pa.DataType, piece: Any) -> pa.Array:
        """Convert values one by one. Raises an error if a value has another kind, or depends on the other values."""
        if pa.types.is_timestamp(kind) and piece.dtype == object:
            raise TypeError("how objects are read as times depends on all of them")
        if pa.types.is_timestamp(kind) and piece.dtype.kind == "M":
            return self._times(kind, pandas.Series(piece))
        if piece.dtype.kind in "biufmM" and _is_text(kind):  # Arrow would copy their memory as bytes
            if not pandas.isna(piece).all():
                raise pa.ArrowTypeError("numbers and times are neither text nor bytes")
            return pa.nulls(len(piece), kind)
        if piece.dtype.kind in "iu" and pa.types.is_date(kind):
            return _checked_days(pa.Array.from_pandas(piece)).cast(pa.int32()).cast(kind)
        if piece.dtype.kind in "iu" and pa.types.is_decimal(kind):
            piece = piece.astype(object)  # as in PySpark: by the value of an int, not by the range of its type
        found = pa.Array.from_pandas(piece, type=kind, safe=True)
        if piece.dtype == object and pa.types.is_date(kind):
            _checked_days(found.cast(pa.int32()))
        return found

    def _times(self, kind: pa.DataType, series: Any) -> pa.Array:
        """Convert times. Naive times are in the pipeline's time zone, as in PySpark."""
        if kind.tz is not None and series.dt.tz is None:
            series = series.dt.tz_localize(self._time_zone, ambiguous=False)
        return pa.Array.from_pandas(series).cast(kind)


_DAYS = (date.min - date(1970, 1, 1)).days, (date.max - date(1970, 1, 1)).days
"""The first and the last day of the years 1 to 9999, relative to 1970-01-01."""


def _checked_days(days: pa.Array) -> pa.Array:
    """Check whole numbers for dates. `ValueError` for a day outside the years 1 to 9999."""
    for found in pc.min_max(days).values():
        if found.is_valid and not _DAYS[0] <= found.as_py() <= _DAYS[1]:
            raise ValueError(f"{found} days from 1970-01-01 is outside the years 1 to 9999")
    return days


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _rewritten(rewrite: Callable[[Any], Any], column: Any) -> Any:
    """Rewrite each value of a column of objects."""
    made = np.empty(len(column), dtype=object)
    made[:] = [rewrite(value) for value in column]
    return made


def _plain(column: Any) -> Any:
    """Return a column of a frame as a NumPy array if NumPy has its type, otherwise as a Series."""
    if isinstance(column, np.ndarray):
        return column
    return column.to_numpy() if isinstance(column.dtype, np.dtype) else pandas.Series(column)


def _joined(pieces: list[Any]) -> Iterator[Any]:
    """Join adjacent arrays of the same type."""
    run: list[Any] = []
    for piece in pieces:
        if run and not (
            isinstance(piece, np.ndarray) and isinstance(run[0], np.ndarray) and piece.dtype == run[0].dtype
        ):
            yield run[0] if len(run) == 1 else np.concatenate(run)
            run = []
        run.append(piece)
    if run:
        yield run[0] if len(run) == 1 else np.concatenate(run)
