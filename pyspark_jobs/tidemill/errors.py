"""The five kinds of error, one for each action a caller can take, and the errors that calls on states raise.

The Rust core has the same five kinds, and the binding raises these classes. INVARIANT: a public call raises nothing
else on purpose. The first line of a message stands alone, because Airflow shows only one line.

    TidemillError
    ├── InvalidInput       fix the call, the schema or the data   (also a ValueError)
    ├── StoreUnavailable   retry later                            (also a ConnectionError)
    ├── Fenced             another run is committing; stop this one
    ├── CorruptState       restore; nothing is repaired silently
    └── InternalError      a bug in Tidemill

Calls on states raise `StateNotSet` (a LookupError) and `CallRefused` (an InvalidInput). `Exit` is what a command makes
of an error.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from typing import Any

from .visible import visible_lines


def summary(error: BaseException) -> str:
    """Return the type of an error and the first line of its message: `ZeroDivisionError: division by zero`."""
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _notes(error: BaseException) -> dict[str, Any]:
    """Return the notes that `add_note` wrote, in the form that `__reduce__` restores."""
    return {"__notes__": error.__notes__} if hasattr(error, "__notes__") else {}


class TidemillError(Exception):
    """Base class of the five kinds of error; catch it to catch them all.

    `message` is the text without the hint. `hint` is one action for the caller, or None; it is the last line of
    `str(error)`. INVARIANT: both are for people, so control characters that came from files are escaped.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        message, hint = visible_lines(message), None if hint is None else visible_lines(hint)
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.message, self.hint), _notes(self))

    @property
    def first_line(self) -> str:
        """The first line of the message. It can be understood without the rest."""
        return self.message.split("\n", 1)[0]


class InvalidInput(TidemillError, ValueError):
    """The call, a schema or the data is wrong: fix it. The call changed nothing."""


class StoreUnavailable(TidemillError, ConnectionError):
    """The store did not answer, refused the credentials or is full: retry later. No partial write counts.

    A `foreachBatch` function that cannot reach another system raises this kind too.
    """


class Fenced(TidemillError):
    """Another run committed different work under this version number: stop this run, and find the other one."""


class CorruptState(TidemillError):
    """An object that the log names is missing or damaged: restore it. Tidemill repairs nothing silently."""


class InternalError(TidemillError):
    """An invariant of Tidemill does not hold, which is a bug: report it. Nothing was committed."""


_BUGS = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, NotImplementedError),
    *(SyntaxError, TypeError, ValueError),
)


def kind_of(raised: Exception) -> type[InvalidInput | StoreUnavailable]:
    """Return the kind of an error that a user's function raised while it talked to another system.

    Errors that show a bug in the function are `InvalidInput`. All others may pass, so they are `StoreUnavailable`.

    >>> kind_of(KeyError("user")).__name__, kind_of(TimeoutError()).__name__
    ('InvalidInput', 'StoreUnavailable')
    """
    return InvalidInput if isinstance(raised, _BUGS) else StoreUnavailable


@contextlib.contextmanager
def errors_of(what: str) -> Iterator[None]:
    """Name the code that raised an error of another kind than ours, and give it ours; see `kind_of`."""
    try:
        yield
    except TidemillError:
        raise
    except Exception as error:
        raise kind_of(error)(
            f"{what} raised `{type(error).__name__}: {error}`\n{traceback.format_exc()}",
            hint="correct the cause, and repeat the call",
        ) from error


class StateNotSet(LookupError, ValueError):
    """`State.get` or `GroupState.get` was called for a key without a state.

    Spark raises NoSuchElementException in Scala and ValueError in PySpark. Use `exists` or `getOption` to avoid it.
    """


class CallRefused(InvalidInput, RuntimeError):
    """A stateful processor made a call that is not allowed, or not allowed at this point.

    PySpark raises PySparkRuntimeError. If pyspark is loaded, `except PySparkRuntimeError` catches this error as well.
    """


def raised_by_state(kind: type[Exception], spark: str, *given: Any) -> Exception:
    """Return `kind(*given)` as an error that `except` clauses for the class `spark` of `pyspark.errors` catch as well.

    Code that names the PySpark class has loaded it already, so this function imports nothing. The name of the error
    stays that of `kind`.

    >>> type(raised_by_state(ValueError, "PySparkValueError", "the state is not set")).__name__
    'ValueError'
    """
    known: Any = getattr(sys.modules.get("pyspark.errors"), spark, None)
    if known is None:
        return kind(*given)
    of: Any = kind
    error: Exception = _of_both(of, known)(*given)
    return error


@cache
def _of_both(kind: Any, spark: Any) -> Any:
    """Return a class that derives from both. INVARIANT: its message is that of `kind`, also after unpickling."""

    def made(error: Any, *given: Any, **named: Any) -> None:
        spark.__init__(error, str(kind(*given, **named)))
        kind.__init__(error, *given, **named)  # after PySpark's, because PySpark 3.5 sets `message` too

    def reduced(error: Any) -> tuple[Any, ...]:
        given = (error.message, error.hint) if isinstance(error, TidemillError) else error.args
        return (raised_by_state, (kind, spark.__name__, *given), _notes(error))

    bases = (spark,) if issubclass(spark, kind) else (kind, spark)
    methods = {"__init__": made, "__str__": BaseException.__str__, "__reduce__": reduced}
    return type(kind.__name__, bases, {"__module__": kind.__module__, **methods})


_MOST_SHOWN = 200
"""Characters of a value in a message."""


def repr_of(value: Any) -> str:
    """Return the `repr` of a user's value for a message, cut to 200 characters; the type if `repr` raises."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a user's `__repr__` may raise anything
        return f"a {type(value).__name__} whose repr raises"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


ERROR_KINDS: dict[str, type[TidemillError]] = {
    kind.__name__: kind for kind in (InvalidInput, StoreUnavailable, Fenced, CorruptState, InternalError)
}


class Exit(IntEnum):
    """The exit status of a command. INVARIANT: the numbers never change, because Airflow and scripts rely on them."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOTHING = 3
    """Nothing to do: no file was waiting, nothing was due, committed or published."""
    FENCED = 4
    """Another run is committing to this pipeline."""
    INTERRUPTED = 130
