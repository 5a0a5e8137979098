"""The operator of a run. Those of actions are in `action_operators`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..calls.command import Event
from ..calls.report import xcom
from .assets import alias_of, announce
from .verb import BatchOperator, ConcludingOperator

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context


class AnnouncingOperator(ConcludingOperator):
    """Makes an event for each sink that the command changed, if it is given the name `assets`."""

    def __init__(self, *, assets: str | None = None, **kwargs: Any) -> None:
        if assets is not None:
            kwargs["outlets"] = [*(kwargs.get("outlets") or ()), alias_of(assets)]
        super().__init__(**kwargs)
        self.assets = assets
        self._done: Mapping[str, Any] = {}

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Return what the task read and wrote, for Airflow's OpenLineage provider, which calls this."""
        del task_instance
        from .lineage import lineage_of

        return lineage_of(self._done)

    def _succeeded(self, context: Context, result: Event) -> None:
        self._done = xcom(result)
        if self.assets is not None and (names := announce(context["outlet_events"], self.assets, result)):
            self.log.info("asset events: %s", ", ".join(names))


class PublishingOperator(AnnouncingOperator, BatchOperator):
    """Runs a verb that commits batches and publishes."""

    options = (*BatchOperator.options, "batch_time")
    template_fields = (*BatchOperator.template_fields, "batch_time")

    def __init__(self, *, batch_time: str | int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch_time = batch_time


class TidemillRunOperator(PublishingOperator):
    """Run `tidemill run` as a task: process waiting files, publish, fire due timeouts.

    - `pipeline`: `path.py:name`, relative to the folder of the DAG file, or `module:name`.
    - `root`: a URI or an absolute path.
    - `branch`, `engine`: default "main" and "auto".
    - `max_batches`, `time_budget` (seconds): limits of the run. Default: none.
    - `batch_time`: replaces "now" in all batches. Default: the pipeline's rule.
    - `assets`: make an event of the asset `tidemill://ASSETS/SINK` for each sink that the task changed. Default: none.
    - `python`, `cwd`, `conf`, `env`, `storage_options`, `aws_conn_id`, `spark_conn_id`, `stall_timeout`,
      `rows_in_exceptions`: as in `Launch`.

    All but `assets` and the last two are templated; a null parameter counts as absent. A retry resumes after the last
    commit, and the unfinished batch of a failed try is discarded. The task fails without a retry on `InvalidInput`,
    `CorruptState` and `Fenced`. The XCom has `status`, `versions`, `already_committed`, `published`, `head`, `sinks`,
    `watermarks` and `next_deadline`.
    """

    verb = "run"
    options = (*PublishingOperator.options, "max_batches", "time_budget")
    template_fields = (*PublishingOperator.template_fields, "max_batches", "time_budget")

    def __init__(
        self,
        *,
        max_batches: str | int | None = None,
        time_budget: str | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_batches = max_batches
        self.time_budget = time_budget
