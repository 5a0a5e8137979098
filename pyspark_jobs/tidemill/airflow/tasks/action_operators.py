"""The operators of Airflow that carry out an action: one for each class in `actions/` that has one.

Written by `python -m tests.surface.generate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .corrections import CorrectionOperator


class TidemillRewindOperator(CorrectionOperator):
    """Run `tidemill rewind` as a task: go back to an earlier version.

    - `to_version`: the version or tag to go back to.
    - `without`: files that are not read again, one a line. A list is accepted, too.
    - `source`: the source, if several have such a file.
    - `reason`: why. The commit records it.
    - `report_only`: say what would be done, and do nothing.
    - `expect`: what a task with `report_only` returned as `requires`. If something else would happen now, the task
      fails, and nothing has changed.

    The other arguments are those of `TidemillRunOperator`, without an engine. Returns (as XCom) the command's result:
    `versions`, `already_committed`, `requires`, `changes` (in words), and more of the same in parts.
    """

    verb = "rewind"
    template_fields = (*CorrectionOperator.template_fields, "to_version", "without", "source")

    def __init__(
        self,
        *,
        to_version: str | int,
        without: str | Sequence[str] | None = None,
        source: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.to_version = to_version
        self.without = without
        self.source = source


class TidemillSkipOperator(CorrectionOperator):
    """Run `tidemill skip` as a task: take FILE out of the input.

    - `file`: the file, below the folder of its source.
    - `source`: the source, if several have such a file.
    - `reason`: why. The commit records it.
    - `report_only`: say what would be done, and do nothing.
    - `expect`: what a task with `report_only` returned as `requires`. If something else would happen now, the task
      fails, and nothing has changed.

    The other arguments are those of `TidemillRunOperator`, without an engine. Returns (as XCom) the command's result:
    `versions`, `already_committed`, `requires`, `changes` (in words), and more of the same in parts.
    """

    verb = "skip"
    template_fields = (*CorrectionOperator.template_fields, "file", "source")

    def __init__(self, *, file: str, source: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.file = file
        self.source = source


class TidemillReplanOperator(CorrectionOperator):
    """Run `tidemill replan` as a task: abandon a plan that cannot run.

    - `reason`: why. The commit records it.
    - `report_only`: say what would be done, and do nothing.
    - `expect`: what a task with `report_only` returned as `requires`. If something else would happen now, the task
      fails, and nothing has changed.

    The other arguments are those of `TidemillRunOperator`, without an engine. Returns (as XCom) the command's result:
    `versions`, `already_committed`, `requires`, `changes` (in words), and more of the same in parts.
    """

    verb = "replan"


class TidemillResetOperator(CorrectionOperator):
    """Run `tidemill reset` as a task: set watermarks or the batch time to another value.

    - `watermark`: the new time of all watermarks, or `NAME=TIME`. A list is accepted, too.
    - `batch_time`: the new batch time.
    - `reason`: why. The commit records it.
    - `report_only`: say what would be done, and do nothing.
    - `expect`: what a task with `report_only` returned as `requires`. If something else would happen now, the task
      fails, and nothing has changed.

    The other arguments are those of `TidemillRunOperator`, without an engine. Returns (as XCom) the command's result:
    `versions`, `already_committed`, `requires`, `changes` (in words), and more of the same in parts.
    """

    verb = "reset"
    template_fields = (*CorrectionOperator.template_fields, "watermark", "batch_time")

    def __init__(
        self, *, watermark: str | int | Sequence[str] | None = None, batch_time: str | int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.watermark = watermark
        self.batch_time = batch_time
