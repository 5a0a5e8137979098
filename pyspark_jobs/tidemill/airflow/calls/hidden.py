"""Secret literals in the arguments of an operator: hidden where Airflow shows arguments, revealed for the command.

Airflow stores an operator's templated fields in its database (`serialized_dag`) and shows them. INVARIANT: a literal
under a name that looks secret, or a URL with a secret in it, appears there as `***`. Templates stay visible, because
they contain no secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...secret_names import holds_secret
from .checks import is_template


class Hidden:
    """A literal that Airflow must not show. Its text is `***`."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return "***"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hidden) and other._value == self._value

    def __hash__(self) -> int:
        return hash(str(self._value))

    def reveal(self) -> object:
        """Return the literal."""
        return self._value


def hide(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of `options` in which literals under secret names are `Hidden`. Mappings inside are searched."""
    return {name: _hidden(str(name), value) for name, value in (options or {}).items()}


def _hidden(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return hide(value)
    if not isinstance(value, str | int | float) or is_template(value):
        return value
    return Hidden(value) if holds_secret(name, value) else value


def reveal(options: Mapping[str, Any], on_secret: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return a copy of `options` without `Hidden`. `on_secret` receives each hidden literal as text."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, Mapping):
            value = reveal(value, on_secret)
        elif isinstance(value, Hidden):
            value = value.reveal()
            on_secret(str(value))
        found[name] = value
    return found
