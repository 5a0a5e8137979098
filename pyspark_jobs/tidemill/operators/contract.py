"""The seam of a keyed operator: what a user declared, and what it is once its input is known.

Adding an operator: one file here with a class that has `bind`, its Rust half, and a line wherever ARCHITECTURE.md,
"A new operator", says so. No row is looked at here: INVARIANT: Rust decides per row and key, Python per batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

import pyarrow as pa

from ..errors import InvalidInput, TidemillError
from ..schema import to_ddl
from ..spelling import nearest
from ..state.columns import MapColumns
from .initial import Initial
from .session_window import SessionWindow
from .window import GivenWindow, Window

Windows = Window | GivenWindow | SessionWindow
Late = Literal["drop", "quarantine", "keep"]
Clock = Literal["batch", "event"]
LONGEST_FAILURE = 500
"""Characters of `failure` in an operator's metrics, which each commit has."""

OnError = Literal["fail", "quarantine"]
"""What happens where a user's function raises for a key: the batch fails, or the key's rows of it are put aside."""


@dataclass(frozen=True)
class Input:
    """What reaches an operator: the stream's columns, the key, and the event time where there is a watermark."""

    schema: pa.Schema
    key: tuple[str, ...]
    event_time: str | None
    late: Late
    time_zone: str
    delay_ms: int = 0
    """How far the watermark stays behind the greatest event time; 0 where there is none."""
    window: tuple[Windows, int] | None = None
    """The windows that rows are grouped by beside `key`, and where they stand among its columns."""
    windows: frozenset[str] = frozenset()
    """The columns that hold windows, as an operator before emitted them."""


class Handle(Protocol):
    """An operator at work in one task: `tidemill._native.Operator`, or anything that behaves like it."""

    def prepare(self, rows: pa.RecordBatch, pass_: Any, combine: bool = True) -> Any:
        """What travels of one block: `.rows`, key columns first, and `.late`, the mask of late rows or None.

        With `combine` the rows are the next block of a split: those of one key may be folded into one, and kept back
        until `rest`; without, each row stays its own.
        """

    def rest(self) -> pa.RecordBatch | None:
        """What `prepare` has kept back of the rows of a split, asked for at its end; None where there is nothing.

        Who keeps nothing back says nothing of it, and inherits this.
        """
        return None

    def open(self, maps: Sequence[Any]) -> None:
        """Takes the state maps of one key range, in the order of `BoundOperator.maps`."""

    def apply(self, chunks: Sequence[pa.RecordBatch], pass_: Any) -> pa.RecordBatch:
        """Folds the rows of a pass, in plan order, then fires what is due; outputs by (key hash, key bytes, number)."""

    def put_aside(self) -> Sequence[tuple[int, Any, Sequence[str]]]:
        """What was not applied since the last time: by number of the chunk, its rows and why, row by row."""

    def finish(self) -> list[Any]:
        """The maps with everything applied; the handle is spent."""

    def close(self) -> None:
        """Gives back what `open` took hold of. Called where anything fails after `open`, also where `finish` does.

        Who takes hold of nothing says nothing of it, and inherits this.
        """
        return

    def metrics(self) -> dict[str, Any]:
        """`rows`, `rows_updated`, `rows_removed`, `timed_out`, `failed` so far, and `failure`, why one of those failed,
        in one line; those that it counts."""


@contextlib.contextmanager
def closed_if_it_fails(handle: Handle) -> Iterator[None]:
    """Closes an operator at work where anything within fails; that error is the one to tell."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(TidemillError):
            handle.close()
        raise


class BoundOperator(Protocol):
    """An operator whose input is known and checked. Travels to the workers."""

    @property
    def name(self) -> str:
        """The name that identifies its state."""

    @property
    def kind(self) -> str:
        """What it is; state of one kind is never read by another."""

    @property
    def input(self) -> Input:
        """What reaches it."""

    @property
    def maps(self) -> tuple[MapColumns, ...]:
        """Its state maps."""

    @property
    def output_schema(self) -> pa.Schema:
        """The columns that leave it."""

    @property
    def clock(self) -> Clock | None:
        """The clock its deadlines live by; None: it has none."""

    @property
    def rules(self) -> dict[str, str]:
        """What else its state was made by, and later code must keep: the aggregates, the clock of the timeout."""

    @property
    def event_time(self) -> str | None:
        """The column of its output that is the event time of its input; None: its output has none."""

    @property
    def windows(self) -> frozenset[str]:
        """The columns of its output that hold windows."""

    @property
    def passes_time(self) -> frozenset[str]:
        """The columns of its input that, where they are its event time, are that of its output as well."""

    @property
    def reads(self) -> frozenset[str] | None:
        """The columns of its input that it looks at; others may be missing in what it is given. None: all."""

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """The user's functions, for the code reference in commits."""

    @property
    def makes_frames(self) -> bool:
        """Whether a key costs pandas frames: some tenths of a millisecond, so that few keys are worth another task."""

    @property
    def ranges(self) -> int | None:
        """How many key ranges a batch is cut into, where nobody says how many tasks; None: as suits the batch."""

    @property
    def initial(self) -> Initial | None:
        """What an initial state of it looks like, and the one that its code gives; None: it takes none."""

    def seed(self, rows: pa.Table) -> Mapping[str, pa.Table]:
        """The rows of its maps (map → key, sub-key and value columns) that an initial state makes.

        `rows` have the columns of `initial`, checked. What comes back is version −1 of the state, in which nothing has
        a deadline. In the operator's first batch `Pass.begins` is true in every range, and its maps hold these rows:
        in the data pass it does with them what is to be done once (arms them, calls a function for each key).
        """

    def open(self) -> Handle:
        """The operator at work, made in the task that uses it."""


class Defaults:
    """What a bound operator is unless it says otherwise: it looks at all columns, and has no deadlines, event time,
    windows, functions, frames or initial state."""

    @property
    def clock(self) -> Clock | None:
        """None."""
        return None

    @property
    def event_time(self) -> str | None:
        """None."""
        return None

    @property
    def windows(self) -> frozenset[str]:
        """None."""
        return frozenset()

    @property
    def passes_time(self) -> frozenset[str]:
        """None."""
        return frozenset()

    @property
    def reads(self) -> frozenset[str] | None:
        """All."""
        return None

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """None."""
        return ()

    @property
    def makes_frames(self) -> bool:
        """No."""
        return False

    @property
    def rules(self) -> dict[str, str]:
        """None."""
        return {}

    @property
    def ranges(self) -> int | None:
        """None."""
        return None

    @property
    def initial(self) -> Initial | None:
        """None."""
        return None

    def seed(self, rows: pa.Table) -> Mapping[str, pa.Table]:
        """Never asked for: there is no initial state."""
        raise NotImplementedError


class Declared:
    """What an operator is unless it says otherwise, before its input is known: one that knows no windows."""

    @property
    def takes_windows(self) -> bool:
        """No."""
        return False


class Operator(Protocol):
    """What a user's call declared, before its input is known."""

    @property
    def name(self) -> str:
        """The name that identifies its state."""

    @property
    def takes_windows(self) -> bool:
        """Whether it heeds `Input.window`."""

    def bind(self, given: Input) -> BoundOperator:
        """Checks the declaration against the input; `InvalidInput` for what does not fit."""


def describe(operator: BoundOperator) -> dict[str, Any]:
    """The operator as a commit records it, and as later code is compared with."""
    return {
        "kind": operator.kind,
        "key": list(operator.maps[0].key.names),
        "maps": {columns.name: columns.describe() for columns in operator.maps},
        "output": to_ddl(operator.output_schema),
        "rules": operator.rules,
    }


def check_on_error(operator: str, value: Any) -> OnError:
    """`on_error` as a user gave it; `InvalidInput` for what it cannot be."""
    if value not in ("fail", "quarantine"):
        raise InvalidInput(f"operator `{operator}`: on_error={value!r}, expected 'fail' or 'quarantine'")
    return cast(OnError, value)


def key_schema(given: Input) -> pa.Schema:
    """The key columns of the input."""
    return pa.schema([given.schema.field(name).with_nullable(True) for name in given.key])


def column(schema: pa.Schema, name: str, what: str) -> pa.Field:
    """The field `name`; `InvalidInput` that names the nearest one. `what` says who asks."""
    if name in schema.names:
        return schema.field(name)
    close = nearest(name, schema.names)
    raise InvalidInput(
        f"{what} names the column `{name}`, the stream has {', '.join(f'`{n}`' for n in schema.names)}",
        hint=f"did you mean `{close}`?" if close else None,
    )
