"""`Row`: what user functions are given for a row, and may give back.

A tuple with names, as `pyspark.sql.Row`. One class is made for each list of names, so that an attribute is
a slot look-up; the Rust engine makes the instances.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, NoReturn

from .errors import raised_by_state


class Row(tuple[Any, ...]):
    """An immutable row: a tuple whose fields also have names (Spark: `pyspark.sql.Row`).

    Where pyspark is loaded, `isinstance(row, pyspark.sql.Row)` holds and what a row refuses is PySpark's error.

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
        """`Row(a=1, b=2)`; a class made by `row_type` takes the values in order."""
        if named:
            if values:
                message = "make a Row of positional values or of named ones, not of both"
                raise raised_by_state(ValueError, "PySparkValueError", message)
            return tuple.__new__(row_type(tuple(named)), named.values())
        return tuple.__new__(cls, values)

    @property
    def __fields__(self) -> list[str]:
        """The names of its fields, in order; none where it has none."""
        return list(self.__row_names__)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """PySpark's class where pyspark is loaded, for functions that ask `isinstance`; so `functools.singledispatch`
        takes a row for one of PySpark's then."""
        loaded = sys.modules.get("pyspark.sql.types")
        return getattr(loaded, "Row", type(self))

    def __call__(self, *values: Any) -> Row:
        """Of a Row of names: a Row of these values, named so."""
        if len(values) > len(self):
            message = f"a Row of {len(self)} names was given {len(values)} values: {', '.join(map(str, self))}"
            raise raised_by_state(ValueError, "PySparkValueError", message)
        return _restore(tuple(map(str, self[: len(values)])), values)

    def __contains__(self, item: object) -> bool:
        """Whether it is the name of a field; of a Row without names, whether it is a value."""
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
        message = f"a Row cannot be changed, and has no field `{name}` to set: make another Row"
        raise raised_by_state(RuntimeError, "PySparkRuntimeError", message)

    def _lacks(self, name: str) -> str:
        return f"the row has no field `{name}`; it has {', '.join(self.__row_names__) or 'no names'}"

    def asDict(self, recursive: bool = False) -> dict[str, Any]:
        """The row as a dict; `recursive` turns rows inside it too."""
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
    # The getters of a namedtuple read a tuple's item in C; `row[i]` would go through `__getitem__` above.
    getters = namedtuple("getters", [f"f{i}" for i in range(len(names))])  # type: ignore[misc]
    slots = {
        name: getattr(getters, f"f{i}") for i, name in enumerate(names) if name.isidentifier() and name not in taken
    }
    return type("Row", (Row,), {"__slots__": (), "__row_names__": names, "__module__": __name__, **slots})


def row_type(names: Sequence[str]) -> type[Row]:
    """The Row class with these names, in this order; the same class for the same names."""
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
