"""The five kinds of error, by what the caller must do, and what is raised inside user functions.

The same five stand in the Rust core; the binding raises these classes. Nothing else is raised on purpose
across a public call. A message's first line stands alone, because Airflow shows one line.

    TidemillError
    ├── InvalidInput       fix the call, the schema or the data   (also a ValueError)
    ├── StoreUnavailable   retry later                            (also a ConnectionError)
    ├── Fenced             somebody else commits here; stop
    ├── CorruptState       restore; nothing is repaired silently
    └── InternalError      a bug in Tidemill

`StateNotSet` (a LookupError) and `CallRefused` (an InvalidInput) are what calls on states raise.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any


def summary(error: BaseException) -> str:
    """`ZeroDivisionError: division by zero`: one line, whatever the error says beside that."""
    first = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _notes(error: BaseException) -> dict[str, Any]:
    """What `add_note` wrote."""
    return {"__notes__": error.__notes__} if hasattr(error, "__notes__") else {}


class TidemillError(Exception):
    """Root of the five kinds. `hint`, where given, becomes the last line of the message."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\nhint: {hint}")
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.message, self.hint), _notes(self))

    @property
    def first_line(self) -> str:
        """The one line that stands alone."""
        return self.message.split("\n", 1)[0]


class InvalidInput(TidemillError, ValueError):
    """The call, a schema or the data is wrong: fix it. Nothing was changed."""


class StoreUnavailable(TidemillError, ConnectionError):
    """The store, or what a `foreachBatch` function talks to, did not answer, refused the credentials or is full: retry
    later. Nothing half-written counts."""


class Fenced(TidemillError):
    """Somebody else committed another batch under this number: stop, and look at who."""


class CorruptState(TidemillError):
    """What the log names is missing or fails its checksum: restore it. Nothing is repaired silently."""


class InternalError(TidemillError):
    """An invariant of Tidemill does not hold: a bug. Nothing was committed."""


_TO_BE_MENDED = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, NotImplementedError),
    *(SyntaxError, TypeError, ValueError),
)


def kind_of(raised: Exception) -> type[InvalidInput | StoreUnavailable]:
    """The kind for what a function raised that talks to other systems: to be mended, or tried again.

    >>> kind_of(KeyError("user")).__name__, kind_of(TimeoutError()).__name__
    ('InvalidInput', 'StoreUnavailable')
    """
    return InvalidInput if isinstance(raised, _TO_BE_MENDED) else StoreUnavailable


class StateNotSet(LookupError, ValueError):
    """`State.get` or `GroupState.get` of a key without a state (Scala: NoSuchElementException; PySpark: ValueError)."""


class CallRefused(InvalidInput, RuntimeError):
    """A call that a processor may not make, or not now (PySpark: PySparkRuntimeError).

    Where pyspark is loaded, `except PySparkRuntimeError` catches it as well.
    """


def raised_by_state(kind: type[Exception], spark: str, *given: Any) -> Exception:
    """`kind(*given)`, which `except` clauses for the class `spark` of `pyspark.errors` catch as well.

    Code that can name that class has loaded it; nothing is loaded for it here. The name of the error stays the same.

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
    """INVARIANT: however it is made, it says what one of `kind` says."""

    def made(error: Any, *given: Any, **named: Any) -> None:
        spark.__init__(error, str(kind(*given, **named)))
        kind.__init__(error, *given, **named)  # last, as PySpark 3.5 sets `message` too

    def reduced(error: Any) -> tuple[Any, ...]:
        given = (error.message, error.hint) if isinstance(error, TidemillError) else error.args
        return (raised_by_state, (kind, spark.__name__, *given), _notes(error))

    bases = (spark,) if issubclass(spark, kind) else (kind, spark)
    methods = {"__init__": made, "__str__": BaseException.__str__, "__reduce__": reduced}
    return type(kind.__name__, bases, {"__module__": kind.__module__, **methods})


_MOST_SHOWN = 200
"""Characters of a value in a message."""


def repr_of(value: Any) -> str:
    """The `repr` of what a user gave, for a message: its beginning where it is long, its type where it raises."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - it is the user's
        return f"a {type(value).__name__} whose repr raises"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


KINDS: dict[str, type[TidemillError]] = {
    kind.__name__: kind for kind in (InvalidInput, StoreUnavailable, Fenced, CorruptState, InternalError)
}
