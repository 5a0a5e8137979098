"""How results look in a notebook: a short text, and a table in HTML.

INVARIANT: names and values come from data and from users, so every one of them is escaped. As in `counts`, numbers
have no separators, because some of them identify versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from .visible import visible

_T = TypeVar("_T")
_MOST_ROWS = 50
"""How many elements of a list its table shows."""
_MOST_TEXT = 300
"""How many characters of a value are shown."""
_NONE = "–"


class NotebookResult:
    """A result that notebooks show as its most important values."""

    def in_notebook(self) -> Mapping[str, Any]:
        """Return the values that a notebook shows, by name."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        rows = ([name, value] for name, value in self.in_notebook().items())
        return f"<div><strong>{_cell(type(self).__name__)}</strong>{_table((), rows)}</div>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(f"{type(self).__name__}(…)" if cycle else self._as_text())

    def _as_text(self) -> str:
        """Return the values that a notebook shows in one line, without the empty ones."""
        found = {name: value for name, value in self.in_notebook().items() if value not in (None, "", [], {})}
        values = (f"{visible(name)}={_short(value)}" for name, value in found.items())
        return f"{type(self).__name__}({', '.join(values)})"


class NotebookList(list[_T]):
    """A list of results that notebooks show as a table, with a row for each.

    `remarks` returns one more text for each, which is only known beside the others.
    """

    def __init__(self, found: Iterable[_T] = (), remarks: Callable[[], Sequence[str]] | None = None) -> None:
        super().__init__(found)
        self._remarks = remarks

    def __reduce__(self) -> tuple[Any, ...]:
        return NotebookList, (list(self),)  # another process cannot ask for the remarks

    def _repr_html_(self) -> str:
        rows = [dict(one.in_notebook()) for one in self[:_MOST_ROWS] if isinstance(one, NotebookResult)]
        if self._remarks is not None and rows:
            rows = [row | {"remarks": words} for row, words in zip(rows, self._remarks(), strict=False)]
        names = list(dict.fromkeys(name for row in rows for name in row))
        rest = f"<p>{len(self) - len(rows):,} more</p>" if len(self) > len(rows) else ""
        return f"<div>{_table(names, ([row.get(name) for name in names] for row in rows))}{rest}</div>"


def _table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    head = "".join(f"<th>{_cell(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows)
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if names else ''}<tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    """Return a value as HTML text. Of a list of texts each has a line, and so has each entry of a mapping."""
    if isinstance(value, Mapping):
        value = [f"{name}: {_text(one)}" for name, one in value.items()]
    if isinstance(value, list | tuple):
        return "<br>".join(_escaped(one) for one in value) or _NONE
    return _escaped(value)


def _escaped(value: Any) -> str:
    import html  # only where it is needed, because every start imports this module

    return html.escape(visible(_cut(_text(value))))


def _text(value: Any) -> str:
    return _NONE if value is None else str(value)


def _short(value: Any) -> str:
    return _cut(value if isinstance(value, str) and value.isalnum() else repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"
