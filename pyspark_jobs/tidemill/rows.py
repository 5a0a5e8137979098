"""`Row`: what user functions are given for a row, and may give back.

A tuple with names, as `pyspark.sql.Row`. One class is made for each list of names, so that an attribute is
a slot look-up; the Rust engine makes the instances.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from functools import lru_cache
from typing import Any


class Row(tuple[Any, ...]):
    """An immutable row: a tuple whose fields also have names (Spark: `pyspark.sql.Row`).

    >>> row = Row(key="a", n=1)
    >>> row.n, row["key"], row[0], tuple(row), row.asDict()
    (1, 'a', 'a', ('a', 1), {'key': 'a', 'n': 1})
    """

    __slots__ = ()
    __fields__: tuple[str, ...] = ()

    def __new__(cls, *values: Any, **named: Any) -> Row:
        """`Row(a=1, b=2)`; a class made by `row_type` takes the values in order."""
        if named:
            if values:
                raise ValueError("make a Row of positional values or of named ones, not of both")
            return tuple.__new__(row_type(tuple(named)), named.values())
        return tuple.__new__(cls, values)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, str):
            try:
                return tuple.__getitem__(self, self.__fields__.index(item))
            except ValueError:
                raise KeyError(item) from None
        return tuple.__getitem__(self, item)

    def __getattr__(self, name: str) -> Any:
        if name in self.__fields__:
            return self[name]
        raise AttributeError(f"the row has no field `{name}`; it has {', '.join(self.__fields__)}")

    def asDict(self, recursive: bool = False) -> dict[str, Any]:
        """The row as a dict; `recursive` turns rows inside it too."""
        return {name: _plain(value) if recursive else value for name, value in zip(self.__fields__, self, strict=True)}

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self.__fields__, tuple(self)))

    def __repr__(self) -> str:
        if not self.__fields__:
            return f"<Row{tuple(self)!r}>"
        return f"Row({', '.join(f'{n}={v!r}' for n, v in zip(self.__fields__, self, strict=True))})"


@lru_cache(maxsize=1024)
def _row_type(names: tuple[str, ...]) -> type[Row]:
    taken = set(dir(Row))
    # The getters of a namedtuple read a tuple's item in C; `row[i]` would go through `__getitem__` above.
    getters = namedtuple("getters", [f"f{i}" for i in range(len(names))])  # type: ignore[misc]
    slots = {
        name: getattr(getters, f"f{i}") for i, name in enumerate(names) if name.isidentifier() and name not in taken
    }
    return type("Row", (Row,), {"__slots__": (), "__fields__": names, "__module__": __name__, **slots})


def row_type(names: Sequence[str]) -> type[Row]:
    """The Row class with these names, in this order; the same class for the same names."""
    return _row_type(tuple(names))


def _restore(names: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    return tuple.__new__(row_type(names), values)


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.asDict(True)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
