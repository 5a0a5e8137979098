"""The processor that a user passes to `transformWithState`: its copies for tasks, and calls of `init` and `close`."""

from __future__ import annotations

import copy
import dataclasses
import traceback
from typing import Any

from ..errors import InvalidInput, TidemillError, summary
from ..values import dataclass


@dataclass(frozen=True)
class UserProcessor:
    """The processor of an operator."""

    operator: str
    given: Any

    def copied(self) -> UserProcessor:
        """Copy the processor for one task, so that tasks do not share its attributes."""
        try:
            return dataclasses.replace(self, given=copy.deepcopy(self.given))
        except Exception as error:
            raise InvalidInput(
                f"operator `{self.operator}`: the processor cannot be copied: {type(error).__name__}: {error}",
                hint="create connections, locks and similar objects in init: each task works on a copy",
            ) from error

    def call(self, method: str, *arguments: Any) -> None:
        """Call `init` or `close` if the processor has it. Its exceptions become `InvalidInput` with their traceback."""
        function = getattr(self.given, method, None)
        if function is None:
            return
        try:
            function(*arguments)
        except TidemillError:
            raise
        except (Exception, SystemExit) as error:  # `sys.exit` must not end the process with success
            raise InvalidInput(
                f"method `{method}` of operator `{self.operator}` raised `{summary(error)}`\n"
                + traceback.format_exc().rstrip()
            ) from error
