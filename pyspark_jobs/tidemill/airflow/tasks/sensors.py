"""Sensors for DAGs that read what a pipeline made: they wait for a version, or for a watermark.

They read the newest commit of the branch, without the pipeline's code. INVARIANT: a sensor looks before it defers, so
what is there already costs no trigger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.log import mask_secret

from ...clock import now_ms
from ...errors import InvalidInput, StoreUnavailable, TidemillError
from ...names import check_name
from ..calls.checks import check_root_argument, check_storage_options, is_absent, is_template
from ..calls.connections import aws_variables
from ..calls.hidden import hide, reveal
from ..triggers import HeadTrigger, VersionTrigger, WatermarkTrigger
from ..waiting.heads import Heads, root_options

if TYPE_CHECKING:
    from airflow.sdk import Context


class _HeadSensor(BaseSensorOperator):
    """Waits for a condition on the head of a branch. Subclasses make the trigger that says which one."""

    template_fields: Sequence[str] = ("root", "pipeline", "branch", "storage_options", "aws_conn_id")
    ui_color = "#cfe8ef"

    def __init__(
        self,
        *,
        root: str,
        pipeline: str,
        branch: str = "main",
        storage_options: Mapping[str, Mapping[str, Any]] | None = None,
        aws_conn_id: str | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_storage_options(storage_options)
        if not is_template(pipeline):
            check_name(pipeline, "pipeline")
        self.root = root
        self.pipeline = pipeline
        self.branch = branch
        self.storage_options = hide(storage_options)
        self.aws_conn_id = aws_conn_id
        is_default = conf.getboolean("operators", "default_deferrable", fallback=False) if deferrable is None else None
        self.deferrable = bool(deferrable if is_default is None else is_default)

    def poke(self, context: Context) -> bool:  # noqa: ARG002
        """Whether the condition holds now. An outage of the store is no answer; anything else that is wrong fails."""
        try:
            trigger = self._trigger()
            wake_ms = trigger.wake_ms(trigger.heads.read())
        except StoreUnavailable as error:
            self.log.warning("%s", error)
            return False
        except TidemillError as error:
            raise AirflowFailException(str(error)) from error
        return wake_ms is not None and wake_ms <= now_ms()

    def execute(self, context: Context) -> None:
        """Look, and wait if need be: without a slot if `deferrable`, else as any sensor does."""
        if not self.deferrable:
            super().execute(context)
        elif not self.poke(context):
            self.defer(trigger=self._trigger(), method_name="resume", timeout=timedelta(seconds=self.timeout))

    def resume(self, context: Context, event: Mapping[str, Any]) -> None:  # noqa: ARG002
        """End, or fail if the repository cannot be read."""
        if event["event"] == "error":
            raise AirflowFailException(str(event["message"]))

    def _trigger(self) -> HeadTrigger:
        raise NotImplementedError

    def _place(self) -> dict[str, Any]:
        options = root_options(reveal(self.storage_options, mask_secret), aws_variables(self.aws_conn_id))
        heads = Heads(check_root_argument(self.root), self.pipeline, self.branch, options)
        return {**heads.as_arguments(), "poll_s": max(float(self.poke_interval), 1.0)}


class TidemillVersionSensor(_HeadSensor):
    """Wait until a branch has committed `version` or a later one.

    - `root`: a URI or an absolute path.
    - `pipeline`: the name of the pipeline in its code, `tm.Pipeline(NAME)`.
    - `version`: a number, also as text.
    - `branch`: default "main".
    - `storage_options`: `{"root": {…}}`.
    - `aws_conn_id`: an AWS connection of Airflow. `storage_options` win over it.
    - `deferrable`: wait without a slot. Default: Airflow's setting `[operators] default_deferrable`.

    All but the last are templated. `poke_interval` (60 s), `timeout`, `soft_fail` and the others are those of any
    sensor. A repository that does not exist fails the task; a store that cannot be reached is asked again.
    """

    template_fields = (*_HeadSensor.template_fields, "version")

    def __init__(self, *, version: int | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.version = version

    def _trigger(self) -> VersionTrigger:
        text = str(self.version).strip()
        if not text.isdecimal():
            raise InvalidInput(f"version is {self.version!r}: expected a number of at least 0")
        return VersionTrigger(version=int(text), **self._place())


class TidemillWatermarkSensor(_HeadSensor):
    """Wait until a watermark of a branch is at `until` or later: until its rows before `until` are complete.

    - `until`: a datetime, a time in ISO 8601 or ms since 1970, for example `"{{ data_interval_end }}"`. Without an
      offset it is in UTC.
    - `watermark`: the name of the watermark, such as `source.time`. Default: the least of all.

    The other arguments are those of `TidemillVersionSensor`.
    """

    template_fields = (*_HeadSensor.template_fields, "until", "watermark")

    def __init__(self, *, until: str | int | datetime, watermark: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.until = until
        self.watermark = watermark

    def _trigger(self) -> WatermarkTrigger:
        from ...units import time_ms

        until = self.until
        if isinstance(until, str) and until.strip().isdecimal():
            until = int(until)
        watermark = None if is_absent(self.watermark) else self.watermark
        return WatermarkTrigger(time_ms=time_ms(until, "UTC"), watermark=watermark, **self._place())
