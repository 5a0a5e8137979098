"""The object that a user gives to `transformWithState`: copied for each task, and what its `init` and `close` raise."""

from __future__ import annotations

import copy
import dataclasses
import traceback
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidInput, TidemillError, summary


@dataclass(frozen=True)
class UserProcessor:
    """A processor of an operator."""

    operator: str
    given: Any

    def copied(self) -> UserProcessor:
        """A processor for one task: what it does to itself stays there."""
        try:
            return dataclasses.replace(self, given=copy.deepcopy(self.given))
        except Exception as error:
            raise InvalidInput(
                f"operator `{self.operator}`: the processor cannot be copied: {type(error).__name__}: {error}",
                hint="create connections, locks and similar objects in init: each task works on a copy",
            ) from error

    def call(self, method: str, *arguments: Any) -> None:
        """Calls `init` or `close`, if there is one; what it raises is told with its traceback."""
        function = getattr(self.given, method, None)
        if function is None:
            return
        try:
            function(*arguments)
        except TidemillError:
            raise
        except (Exception, SystemExit) as error:  # a `sys.exit` must not end the process as if all were well
            raise InvalidInput(
                f"method `{method}` of operator `{self.operator}` raised `{summary(error)}`\n"
                + traceback.format_exc().rstrip()
            ) from error
