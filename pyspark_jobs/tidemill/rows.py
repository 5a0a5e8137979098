"""`Row`: the rows that user functions receive and may return.

A row is a tuple with names, like `pyspark.sql.Row`. There is one class for each list of names, so that attribute access
is a slot look-up. The Rust engine makes the instances.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, NoReturn

from .errors import raised_by_state


class Row(tuple[Any, ...]):
    """An immutable row: a tuple whose fields have names. It behaves like `pyspark.sql.Row`.

    If pyspark is loaded, `isinstance(row, pyspark.sql.Row)` is true, and calls that fail raise PySpark's errors.

    >>> row = Row(key="a", n=1)
    >>> row.n, row["key"], row[0], tuple(row), row.asDict(), "n" in row
    (1, 'a', 'a', ('a', 1), {'key': 'a', 'n': 1}, True)
    >>> Person = Row("name", "age")
    >>> Person("Alice", 11)
    Row(name='Alice', age=11)
    """

    __slots__ = ()
    __row_names__: ClassVar[tuple[str, ...]] = ()

    def __new__(cls, *values: Any, **named: Any) -> Row:
        """Make a row of named values, `Row(a=1, b=2)`, or of positional values."""
        if named:
            if values:
                message = "a Row takes positional values or named values, not both"
                raise raised_by_state(ValueError, "PySparkValueError", message)
            return tuple.__new__(row_type(tuple(named)), named.values())
        return tuple.__new__(cls, values)

    @property
    def __fields__(self) -> list[str]:
        """The names of the fields, in order; an empty list for a row without names."""
        return list(self.__row_names__)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """PySpark's `Row` if pyspark is loaded, so that `isinstance` and `functools.singledispatch` see that class."""
        loaded = sys.modules.get("pyspark.sql.types")
        return getattr(loaded, "Row", type(self))

    def __call__(self, *values: Any) -> Row:
        """Return a row of these values, named by the values of this row: `Row("name", "age")("Alice", 11)`."""
        if len(values) > len(self):
            message = f"a Row of {len(self)} names got {len(values)} values: {', '.join(map(str, self))}"
            raise raised_by_state(ValueError, "PySparkValueError", message)
        return _restore(tuple(map(str, self[: len(values)])), values)

    def __contains__(self, item: object) -> bool:
        """Whether `item` is the name of a field. In a row without names: whether `item` is a value."""
        return item in self.__row_names__ if self.__row_names__ else tuple.__contains__(self, item)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, str):
            try:
                return tuple.__getitem__(self, self.__row_names__.index(item))
            except ValueError:
                raise raised_by_state(ValueError, "PySparkValueError", self._lacks(item)) from None
        return tuple.__getitem__(self, item)

    def __getattr__(self, name: str) -> Any:
        if name in self.__row_names__:
            return self[name]
        raise raised_by_state(AttributeError, "PySparkAttributeError", self._lacks(name))

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        message = f"cannot set field `{name}`: a Row cannot be changed; make a new Row"
        raise raised_by_state(RuntimeError, "PySparkRuntimeError", message)

    def _lacks(self, name: str) -> str:
        return f"the row has no field `{name}`; it has {', '.join(self.__row_names__) or 'no names'}"

    def asDict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the row as a dict. With `recursive=True`, rows inside it become dicts too."""
        names = self.__row_names__
        if not names and len(self):
            raise raised_by_state(TypeError, "PySparkTypeError", "a Row without names cannot be a dict")
        return dict(zip(names, map(_plain, self) if recursive else self, strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self.__row_names__, tuple(self)))

    def __repr__(self) -> str:
        if not self.__row_names__:
            return f"<Row({', '.join(map(repr, self))})>"
        return f"Row({', '.join(f'{n}={v!r}' for n, v in zip(self.__row_names__, self, strict=True))})"


@lru_cache(maxsize=1024)
def _row_type(names: tuple[str, ...]) -> type[Row]:
    taken = set(dir(Row))
    # A namedtuple's getters read the item in C. `row[i]` would call `__getitem__` above.
    getters = namedtuple("getters", [f"f{i}" for i in range(len(names))])  # type: ignore[misc]
    slots = {
        name: getattr(getters, f"f{i}") for i, name in enumerate(names) if name.isidentifier() and name not in taken
    }
    return type("Row", (Row,), {"__slots__": (), "__row_names__": names, "__module__": __name__, **slots})


def row_type(names: Sequence[str]) -> type[Row]:
    """Return the Row class with these names in this order. The same names give the same class."""
    return _row_type(tuple(names))


def _restore(names: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    made: Row = tuple.__new__(row_type(names) if names else Row, values)
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "asDict"):  # ours, or PySpark's
        return value.asDict(True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
