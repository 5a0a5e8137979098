"""The contract of keyed operators: as declared by a user, bound to a known input, and open in a task.

A new operator is one file in this folder with a class that has `bind`, its Rust half, and the lines that
ARCHITECTURE.md lists under "A new operator".
INVARIANT: Rust decides per row and key, Python per batch. No code here reads a row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, cast

import pyarrow as pa

from ..errors import InvalidInput, TidemillError
from ..schema import to_ddl
from ..spelling import nearest
from ..state.columns import MapColumns
from ..values import dataclass
from .initial import Initial
from .session_window import SessionWindow
from .window import GivenWindow, Window

Windows = Window | GivenWindow | SessionWindow
Late = Literal["drop", "quarantine", "keep"]
Clock = Literal["batch", "event"]
LONGEST_FAILURE = 500
"""The most characters of `failure` in an operator's metrics, because every commit stores it."""

OnError = Literal["fail", "quarantine"]
"""What happens if a user's function fails for a key: the batch fails, or the key's rows in it are quarantined."""


@dataclass(frozen=True)
class Input:
    """An input of an operator: the stream's columns, the key, and the event time if there is a watermark."""

    schema: pa.Schema
    key: tuple[str, ...]
    event_time: str | None
    late: Late
    time_zone: str
    delay_ms: int = 0
    """The delay of the watermark after the greatest event time; 0 without a watermark."""
    window: tuple[Windows, int] | None = None
    """The windows that rows are grouped by in addition to `key`, and their position among the key columns."""
    windows: frozenset[str] = frozenset()
    """The columns that hold windows that an upstream operator emitted."""
    port: str = ""
    """Its name among the inputs of the operator; empty if there is only one."""


class Handle(Protocol):
    """An open operator in one task: `tidemill._native.Operator`, or any object with the same methods."""

    def prepare(self, rows: pa.RecordBatch, pass_: Any, combine: bool = True) -> Any:
        """Return what the exchange gets of one block: `.rows`, key columns first, and `.late`, a mask or None.

        Without `combine`, `.made_of` has for each row the number of the given row that it was made of. Without
        `.made_of`, or if it is None, each given row that is not late has one row.
        With `combine`, `rows` are the next block of a split: the operator may combine rows of one key, and hold them
        back until `rest`. Without it, each row stays separate.
        """

    def rest(self) -> pa.RecordBatch | None:
        """Return the rows of the split that `prepare` buffered, or None. Called at the end of the split.

        Operators that buffer nothing inherit this default.
        """
        return None

    def prepare_splits(self, rows: pa.RecordBatch, counts: Sequence[int], pass_: Any) -> pa.RecordBatch:
        """Return what `prepare` and `rest` return for several splits, one after the other. No row is late.

        `counts` says how many of the rows each split has. Operators may inherit this default.
        """
        parts: list[pa.RecordBatch] = []
        start = 0
        for count in counts:
            parts.append(self.prepare(rows.slice(start, count), pass_).rows)
            rest = self.rest()
            parts += [] if rest is None else [rest]
            start += count
        return pa.concat_batches(parts)

    def open(self, maps: Sequence[Any]) -> None:
        """Take the state maps of one key range, in the order of `BoundOperator.maps`."""

    def apply(self, chunks: Sequence[pa.RecordBatch], pass_: Any, ports: Sequence[int]) -> pa.RecordBatch:
        """Fold the rows of a pass in the order of the chunks, then fire due timeouts.

        `ports` has for each chunk the number of the input that its rows are of. Chunks of one input are in plan order,
        and those of the first input come first. All rows of a key of all inputs come together.

        Returns the outputs, sorted by (key hash, key bytes, emission number).
        """

    def take_order(self) -> pa.Array | None:
        """Return an order number for each row that the last `apply` returned: the group of its key, and its place.

        None, the default, if the rows belong to no key.
        """
        return None

    def keep_origins(self, for_operators: bool) -> None:
        """Keep why rows are emitted from now on, because another operator follows. Called after `open`.

        `for_operators`: no sink follows, so outputs need not be sorted by key. They may come in the order of the rows
        that they are for. Handles that know no origins inherit this default.
        """
        del for_operators

    def take_places(self, given: Sequence[tuple[pa.Array | int, pa.Array]]) -> tuple[pa.Array, pa.Array] | None:
        """Return the places in the plan of the rows that the last `apply` returned, as two int64 arrays: block and row.

        `given` has those of the rows of each chunk; a number is the block of all of them. A row that was emitted for a
        row has the place of that row. One that was due has the block 2**63 - 1 and its time in ms, one that was emitted
        for its key that block and -2**63.
        None, the default, if all were emitted for their keys.
        """
        del given
        return None

    def take_quarantined(self) -> Sequence[tuple[int, Any, Sequence[str]]]:
        """Return the rows quarantined since the last call: chunk index, rows, and a reason for each row."""

    def finish(self) -> list[Any]:
        """Return the maps with all changes. The handle cannot be used any more."""

    def close(self) -> None:
        """Release what `open` acquired. Called if anything fails after `open`, including `finish`.

        Handles without resources inherit this no-op.
        """
        return

    def metrics(self) -> dict[str, Any]:
        """Return the counts so far that the operator keeps.

        The names are `rows`, `rows_updated`, `rows_removed`, `timed_out`, `failed`, and `failure`: one line that says
        why one of the failed keys failed.
        """


@contextlib.contextmanager
def close_on_error(handle: Handle) -> Iterator[None]:
    """Close an open operator if the body raises. An error of `close` is suppressed in favour of that of the body."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(TidemillError):
            handle.close()
        raise


class BoundOperator(Protocol):
    """An operator whose input is known and checked. It is pickled and sent to the workers."""

    @property
    def name(self) -> str:
        """The name that identifies its state."""

    @property
    def kind(self) -> str:
        """The kind of operator. State of one kind is never read by another kind."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Its inputs. Their places are the numbers by which chunks and handles name them."""

    @property
    def maps(self) -> tuple[MapColumns, ...]:
        """Its state maps."""

    @property
    def output_schema(self) -> pa.Schema:
        """The columns of its output."""

    @property
    def clock(self) -> Clock | None:
        """The clock of its deadlines; None if it has no deadlines."""

    def finished(self, rows: pa.Table) -> pa.Table | None:
        """Return the finished values of rows of its state: output columns, one row for each, in the same order.

        None if the state has no partial values, so that its columns are what users want to see.
        """

    @property
    def rules(self) -> dict[str, str]:
        """Further settings that determine its state, such as the aggregates. Later code must not change them."""

    @property
    def tied_inputs(self) -> dict[str, str]:
        """Output column → type of the column that its state depends on but does not show. See `protocol.tied`."""

    @property
    def event_time(self) -> str | None:
        """The column of its output that carries the event time of its inputs; None if there is none."""

    @property
    def windows(self) -> frozenset[str]:
        """The columns of its output that hold windows."""

    @property
    def passes_time(self) -> frozenset[str]:
        """The input columns that remain event time in the output if they are the event time of the input."""

    def reads(self, port: int) -> frozenset[str] | None:
        """Return the columns that it reads of an input; others may be missing there. None: all columns."""

    @property
    def order_matters(self) -> bool:
        """Whether its result depends on the order of a key's rows."""

    @property
    def emits_for_rows(self) -> bool:
        """Whether it passes rows on or emits rows for them. Otherwise it emits for keys, or what is due."""

    @property
    def quarantines(self) -> bool:
        """Whether rows of a key are quarantined if its function fails for the key."""

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions, for the code reference in commits."""

    @property
    def makes_frames(self) -> bool:
        """Whether each key needs pandas frames.

        They cost some tenths of a millisecond a key, so even a few keys justify another task.
        """

    @property
    def ranges(self) -> int | None:
        """The number of key ranges of a batch if the user sets no number of tasks; None: chosen for each batch."""

    @property
    def initial(self) -> Initial | None:
        """The columns of its initial state, and the initial state in its code; None if it accepts none."""

    def seed(self, rows: pa.Table) -> Mapping[str, pa.Table]:
        """Return the rows of its maps for an initial state: map → key, sub-key and value columns.

        `rows` have the columns of `initial` and are checked. The result becomes version -1 of the state, without
        deadlines. In the operator's first batch its maps hold these rows, and `Pass.begins` is true in every range. In
        that data pass the operator does what must be done once: it sets deadlines, or calls a function for each key.
        """

    def open(self) -> Handle:
        """Open the operator in a task that applies rows."""

    def open_port(self, port: int) -> Handle:
        """Open the operator in a task that prepares rows of one of its inputs."""


class Defaults:
    """Defaults of a bound operator: it has one input, of which it reads all columns, and no deadlines, event time,
    windows, functions, frames or initial state."""

    input: Input
    """The only input. An operator with several inputs has `inputs` instead."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """By default: the only input."""
        return (self.input,)

    @property
    def clock(self) -> Clock | None:
        """By default: no clock, because the operator has no deadlines."""
        return None

    @property
    def event_time(self) -> str | None:
        """By default: no column of the output carries event time."""
        return None

    @property
    def windows(self) -> frozenset[str]:
        """By default: no column of the output holds windows."""
        return frozenset()

    @property
    def passes_time(self) -> frozenset[str]:
        """By default: no input column remains event time in the output."""
        return frozenset()

    def reads(self, port: int) -> frozenset[str] | None:  # noqa: ARG002
        """By default: the operator reads all columns."""
        return None

    @property
    def order_matters(self) -> bool:
        """By default: the order of a key's rows matters."""
        return True

    @property
    def emits_for_rows(self) -> bool:
        """By default: it emits rows for rows."""
        return True

    @property
    def quarantines(self) -> bool:
        """By default: as `on_error` says, if the operator has that field."""
        return getattr(self, "on_error", "fail") == "quarantine"

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """By default: no user functions."""
        return ()

    @property
    def makes_frames(self) -> bool:
        """By default: no key needs pandas frames."""
        return False

    def finished(self, rows: pa.Table) -> pa.Table | None:
        """By default: the state has no partial values."""
        del rows
        return None

    @property
    def rules(self) -> dict[str, str]:
        """By default: no further settings determine the state."""
        return {}

    @property
    def tied_inputs(self) -> dict[str, str]:
        """By default: the state shows the types that it depends on."""
        return {}

    @property
    def ranges(self) -> int | None:
        """By default: the number of key ranges is chosen for each batch."""
        return None

    @property
    def initial(self) -> Initial | None:
        """By default: the operator accepts no initial state."""
        return None

    def seed(self, rows: pa.Table) -> Mapping[str, pa.Table]:
        """Never called, because there is no initial state."""
        raise NotImplementedError

    def open_port(self: BoundOperator, port: int) -> Handle:  # noqa: ARG002
        """By default: the same handle prepares and applies."""
        return self.open()


class OfOneInput(Protocol):
    """A declared operator that has one input."""

    def bind(self, given: Input) -> BoundOperator:
        """Check the declaration against the input, and bind it. `InvalidInput` if they do not fit."""


class Declared:
    """Defaults of a declared operator: it has one input without a name, and does not support windows."""

    @property
    def ports(self) -> tuple[str, ...]:
        """By default: one input, which has no name."""
        return ("",)

    @property
    def takes_windows(self) -> bool:
        """False."""
        return False

    def bind_inputs(self: OfOneInput, inputs: Sequence[Input]) -> BoundOperator:
        """By default: bind the only input."""
        (given,) = inputs
        return self.bind(given)


class Operator(Protocol):
    """An operator as declared by a user's call. Its inputs are not known yet."""

    @property
    def name(self) -> str:
        """The name that identifies its state."""

    @property
    def takes_windows(self) -> bool:
        """Whether it supports `Input.window`."""

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of its inputs, in their order. The only input of an operator has the empty name."""

    def bind_inputs(self, inputs: Sequence[Input]) -> BoundOperator:
        """Check the declaration against the inputs, and bind it. `InvalidInput` if they do not fit.

        The keys of all inputs have equal types.
        """


def describe(operator: BoundOperator) -> dict[str, Any]:
    """Return the description of an operator that commits record, and with which later code is compared."""
    return {
        "kind": operator.kind,
        "key": list(operator.maps[0].key.names),
        "maps": {columns.name: columns.describe() for columns in operator.maps},
        "output": to_ddl(operator.output_schema),
        "rules": operator.rules,
        **({"inputs": operator.tied_inputs} if operator.tied_inputs else {}),
        **({"ports": ports} if any(ports := [given.port for given in operator.inputs]) else {}),
    }


def check_on_error(operator: str, value: Any) -> OnError:
    """Return a user's `on_error`. `InvalidInput` if it is not valid."""
    if value not in ("fail", "quarantine"):
        raise InvalidInput(f"operator `{operator}`: on_error={value!r}, expected 'fail' or 'quarantine'")
    return cast(OnError, value)


def key_schema(given: Input) -> pa.Schema:
    """Return the key columns of the input. All of them are nullable."""
    return pa.schema([given.schema.field(name).with_nullable(True) for name in given.key])


def column(schema: pa.Schema, name: str, what: str) -> pa.Field:
    """Return the field `name`. `InvalidInput` if it is missing, with the nearest name as a hint.

    `what` begins the message.
    """
    if name in schema.names:
        return schema.field(name)
    close = nearest(name, schema.names)
    raise InvalidInput(
        f"{what} names the unknown column `{name}`; the stream has {', '.join(f'`{n}`' for n in schema.names)}",
        hint=f"did you mean `{close}`?" if close else None,
    )
