"""The operators of Airflow that carry out an action: one for each class in `actions/` that has one.

Written by `python -m tests.surface.generate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .actions import CorrectionOperator, PromotionOperator, UpkeepOperator


class TidemillRewindOperator(CorrectionOperator):
    """Run `tidemill rewind` as a task: go back to an earlier version.

    - `to_version`: the version or tag to go back to, or `BRANCH@N` of a branch that was promoted.
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
    - `withdrawn`: keep the rows of files that another pipeline has withdrawn since they were read.
    - `reason`: why. The commit records it.
    - `report_only`: say what would be done, and do nothing.
    - `expect`: what a task with `report_only` returned as `requires`. If something else would happen now, the task
      fails, and nothing has changed.

    The other arguments are those of `TidemillRunOperator`, without an engine. Returns (as XCom) the command's result:
    `versions`, `already_committed`, `requires`, `changes` (in words), and more of the same in parts.
    """

    verb = "skip"
    template_fields = (*CorrectionOperator.template_fields, "file", "source", "withdrawn")

    def __init__(
        self, *, file: str | None = None, source: str | None = None, withdrawn: str | bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.file = file
        self.source = source
        self.withdrawn = withdrawn


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


class TidemillPromoteOperator(PromotionOperator):
    """Run `tidemill promote` as a task: take over the state and outputs of a branch.

    - `name`: the branch. Default: the one of this DAG run.
    - `catch_up`: first replay what the branch has not read. Default: yes.
    - `outputs`: "correct" (default) publishes what the branch made instead of what was published, "keep" not.
    - `accept_output_change`: write a sink with other columns than before.
    - `drop`: operators that the branch does not have, and whose state ends. A list is accepted, too.
    - `reason`: why. The commit records it.
    - `report_only`: say what would be done, and do nothing.
    - `expect`: what a task with `report_only` returned as `requires`. If something else would happen now, the task
      fails, and nothing has changed.
    - `engine`: what a replay before it runs on. Default: auto.

    The other arguments are those of `TidemillRunOperator`. Returns (as XCom) the command's result: `versions`,
    `already_committed`, `replaced`, `withdraws`, `adds`, …; in a dry run `requires` and `changes` (in words).
    """

    verb = "promote"
    template_fields = (
        *PromotionOperator.template_fields,
        "name",
        "catch_up",
        "outputs",
        "accept_output_change",
        "drop",
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        catch_up: str | bool = True,
        outputs: str | None = None,
        accept_output_change: str | bool = False,
        drop: str | Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.name = name
        self.catch_up = catch_up
        self.outputs = outputs
        self.accept_output_change = accept_output_change
        self.drop = drop


class TidemillMaintainOperator(UpkeepOperator):
    """Run `tidemill maintain` as a task: merge state, discard old versions, delete what no version needs.

    - `keep`: keep the versions of this period, such as '90 days'; with `OPERATOR=`, its state. A list is accepted, too.
    - `keep_versions`: keep the newest N versions; with `keep`, whichever keeps more. A list is accepted, too.
    - `time_budget`: merge and delete nothing more after this many seconds. The next call does the rest.
    - `compact_sinks`: join small published files into larger ones.
    - `sink_file_size`: with `compact_sinks`: the size to aim at. Files below half of it are small. Default: 128 MiB.
    - `reason`: why.
    - `report_only`: say what would be done, and do nothing.
    - `expect`: what a task with `report_only` returned as `requires`. If something else would happen now, the task
      fails, and nothing has changed.
    - `engine`: what merges state. Default: local.

    The other arguments are those of `TidemillRunOperator`. Returns (as XCom) the command's result: `deleted`, `merged`,
    `compacted`, …; in a dry run `requires` and `changes` (in words).
    """

    verb = "maintain"
    template_fields = (
        *UpkeepOperator.template_fields,
        "keep",
        "keep_versions",
        "time_budget",
        "compact_sinks",
        "sink_file_size",
    )

    def __init__(
        self,
        *,
        keep: str | Sequence[str] | None = None,
        keep_versions: str | int | Sequence[str] | None = None,
        time_budget: str | float | None = None,
        compact_sinks: str | bool = False,
        sink_file_size: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.keep = keep
        self.keep_versions = keep_versions
        self.time_budget = time_budget
        self.compact_sinks = compact_sinks
        self.sink_file_size = sink_file_size
