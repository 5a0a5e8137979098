"""A DAG that new files start, beside its clock: the schedule, and the task.

INVARIANT: there is always a clock. Events of assets may be lost or wait for ever, and a clock covers them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta, tzinfo
from typing import Any

from airflow import settings
from airflow.sdk import Asset, AssetOrTimeSchedule, AssetWatcher, CronTriggerTimetable, DeltaTriggerTimetable
from airflow.sdk.bases.timetable import BaseTimetable

from ...errors import InvalidInput
from ...secret_names import is_secret
from ..calls.checks import is_template, seconds_of
from ..calls.command import Event
from ..calls.options import Watch
from ..new_files import DEFAULT_POLL_S, NewFilesTrigger
from ..tasks.operators import AnnouncingOperator, TidemillRunOperator
from ..tasks.outcome import TidemillOutcomeOperator
from ..waiting.heads import section_options

_NO_CLOCKS = ("@once", "@continuous", "NullTimetable", "OnceTimetable", "ContinuousTimetable")


class _Watched(AnnouncingOperator):
    """Warns if the triggers watch another pipeline than the one that ran."""

    def __init__(self, *, watched: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.watched = watched

    def _succeeded(self, context: Any, result: Event) -> None:
        super()._succeeded(context, result)
        name = result.get("pipeline")
        if name is not None and name != self.watched:
            self.log.warning(
                "new files do not start this DAG: it watches the pipeline `%s`, and the name in the code is `%s`\n"
                "hint: tidemill_dags(…, watch=Watch(pipeline=%r))", self.watched, name, name,
            )  # fmt: skip


class WatchedRunOperator(_Watched, TidemillRunOperator):
    """Runs the pipeline that a trigger watches."""

    custom_operator_name = "TidemillRunOperator"


class WatchedOutcomeOperator(_Watched, TidemillOutcomeOperator):
    """Applies the result of a job of the pipeline that a trigger watches."""

    custom_operator_name = "TidemillOutcomeOperator"


def watched_schedule(
    name: str, schedule: Any, watch: Watch, arguments: Mapping[str, Any], zone: tzinfo | None
) -> AssetOrTimeSchedule:
    """Return the schedule that new files or the clock `schedule` start. `InvalidInput` if that is no clock.

    - `name`: the name of the DAG. The asset is `tidemill://NAME/_new-files`.
    - `arguments`: the arguments of its operator: `root`, `branch`, `env`, `storage_options`.
    - `zone`: the time zone of a cron expression. Default: Airflow's.
    """
    options, sources = (
        _shown(section_options(section, arguments.get("storage_options"), arguments.get("env")))
        for section in ("root", "source")
    )
    trigger = NewFilesTrigger(
        root=arguments["root"],
        pipeline=watch.pipeline or name,
        branch=arguments["branch"],
        poll_s=seconds_of("poll", watch.poll) or DEFAULT_POLL_S,
        options=options,
        source_options=sources,
        conn_id=watch.conn_id or arguments.get("aws_conn_id"),
    )
    asset = Asset(f"tidemill://{name}/_new-files", watchers=[AssetWatcher(name="new-files", trigger=trigger)])
    return AssetOrTimeSchedule(timetable=_clock(schedule, zone), assets=[asset])


def _shown(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that Airflow may store: the triggerer takes credentials from elsewhere."""
    return {name: value for name, value in options.items() if not is_secret(name) and not is_template(value)}


def _clock(schedule: Any, zone: tzinfo | None) -> BaseTimetable:
    """Return the timetable of a clock."""
    if isinstance(schedule, str) and schedule not in _NO_CLOCKS:
        return CronTriggerTimetable(schedule, timezone=zone or settings.TIMEZONE)  # type: ignore[arg-type]
    if isinstance(schedule, timedelta):
        return DeltaTriggerTimetable(schedule)
    is_clock = getattr(schedule, "asset_condition", None) is None and type(schedule).__name__ not in _NO_CLOCKS
    if hasattr(schedule, "can_be_scheduled") and is_clock:
        return schedule  # type: ignore[no-any-return]
    raise InvalidInput(
        f"watch needs a clock, found schedule={schedule!r}: expected cron, a timedelta or a timetable of times",
        hint='for example `schedule="*/15 * * * *"`, which also covers files that the trigger does not see',
    )
