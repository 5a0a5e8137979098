"""The form of a DAG: typed parameters, and the templates by which their values reach a task.

A null parameter renders as the text `None`, which `command` counts as absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow.sdk import Param

from ...names import CHOICES
from ..calls.checks import is_absent, is_template


class Form:
    """Collects the parameters of one DAG. Each method adds a field and returns the template of its value.

    A default that is a template itself, or a list, gets no field: Airflow checks the type of defaults at parse time.
    """

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}

    def engine(self, default: str | None, known: Sequence[str] = CHOICES) -> Any:
        """Add the choice of the engine."""
        return self._field("engine", default, "Engine that runs the batches.", ["null", "string"], enum=[*known, None])

    def text(self, name: str, default: Any, description: str) -> Any:
        """Add optional text."""
        return self._field(name, default, description, ["null", "string"])

    def whole_number(self, name: str, default: Any, description: str) -> Any:
        """Add an optional whole number of at least 1."""
        number = int(default) if str(default).isdecimal() else default
        return self._field(name, number, description, ["null", "integer"], minimum=1)

    def version(self, name: str, description: str, *, is_required: bool = False) -> Any:
        """Add a version number, which has no default and may be required."""
        kind = "integer" if is_required else ["null", "integer"]
        self.params[name] = Param(
            **({} if is_required else {"default": None}), description=description, type=kind, minimum=0
        )
        return _template(name)

    def choice(self, name: str, default: str, choices: Sequence[str], description: str) -> Any:
        """Add the choice of one of several texts."""
        return self._field(name, default, description, "string", enum=list(choices))

    def required_choice(self, name: str, choices: Sequence[str], description: str) -> Any:
        """Add the choice of one of several texts, without a default."""
        self.params[name] = Param(description=description, type="string", enum=list(choices))
        return _template(name)

    def required_text(self, name: str, description: str) -> Any:
        """Add text that must not be empty."""
        self.params[name] = Param(description=description, type="string", minLength=1)
        return _template(name)

    def lines(self, name: str, description: str) -> Any:
        """Add an optional list of texts. The template renders as text with one of them a line."""
        self.params[name] = Param(None, description, type=["null", "array"], items={"type": "string"})
        return f"{{{{ (params.{name} or []) | join('\\n') }}}}"

    def seconds(self, name: str, default: Any, description: str) -> Any:
        """Add an optional number of seconds."""
        number = default if is_absent(default) or is_template(default) else float(default)
        return self._field(name, number, f"{description} In seconds.", ["null", "number"], minimum=0)

    def flag(self, name: str, description: str) -> Any:
        """Add a choice between yes and no, which is no by default."""
        return self._field(name, False, description, "boolean")

    def _field(self, name: str, default: Any, description: str, kind: Any, **rules: Any) -> Any:
        if is_template(default) or isinstance(default, list | tuple) or (isinstance(default, str) and "=" in default):
            return default
        value = None if is_absent(default) else default
        self.params[name] = Param(value, description, type=kind, **rules)
        return _template(name)


def _template(name: str) -> str:
    return f"{{{{ params.{name} }}}}"
