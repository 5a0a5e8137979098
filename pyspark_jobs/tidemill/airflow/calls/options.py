"""Options of `tidemill_dags`, as values: how commands are started, how runs end, and what upkeep keeps.

Each checks itself when it is made, so that Airflow shows a mistake as an import error of the DAG file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields
from datetime import timedelta
from typing import Any

from ...errors import InvalidInput
from ...names import ENGINES, check_name
from ...spelling import unknown
from ...submit import SparkJob
from ...values import dataclass
from .checks import check_engine, check_limit, check_mapping, check_pipeline, check_storage_options, seconds_of

DEFAULT_MAINTAIN = "23 3 * * *"
"""The default schedule of upkeep: once a day, at 03:23."""
OUTPUT_CHOICES = ("correct", "keep")
"""What a promotion does with what was published."""
PROMOTE = ("never", "if equal", "after approval")
"""When a replay is promoted."""
CARRY_OUT = ("never", "at once", "after approval")
"""When a correction is made, once the dry run has said what it does."""
DEFAULT_ANSWER = timedelta(days=7)
"""How long a replay or a correction waits for an answer. After that the answer is no."""
DEFAULT_SWEEP = "* * * * *"
"""The default schedule of sweeps. A run that waits for a deadline takes the place of all of its ticks."""
DEFAULT_FRESHNESS = "4-59/15 * * * *"
"""The default schedule of checks of freshness: every 15 minutes, 4 minutes after the quarter."""
DEFAULT_WAIT = timedelta(hours=6)
"""How long a sweep waits for a deadline. Then it looks again, whatever the newest commit says."""
DEFAULT_POLL = timedelta(seconds=30)
"""How often folders are listed for new files."""
DEFAULT_STALL = timedelta(hours=2)
"""How long a command may be silent before it counts as hanging."""

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How the command line is started, in all DAGs of a pipeline. Strings are templated.

    - `python`: the interpreter that has Tidemill installed. Default: Airflow's own.
    - `cwd`: the working folder of the command, relative to the folder of the DAG file. Default: that folder.
    - `conf`: `tidemill.…` and `spark.…` settings, passed through the environment.
    - `env`: environment variables of the command, added to those of the worker.
    - `storage_options`: `{"root": {…}, "source": {…}, "sink": {…}}`, passed through the environment.
    - `aws_conn_id`: an AWS connection of Airflow, for root, sources and sinks. `env` and `storage_options` win over it.
    - `spark_conn_id`: a connection of the type `spark` or `spark_connect`, which gives `spark.…` settings. `conf` wins.
    - `stall_timeout`: end and retry a command that writes no line and commits nothing for so long. A `timedelta`,
      seconds, or None for never. It must be longer than the longest batch.
    - `rows_in_exceptions`: keep values of rows and keys in the text of exceptions. The log always has them.
    """

    python: str | None = None
    cwd: str | None = None
    conf: Mapping[str, object] | None = field(default=None, repr=False)
    env: Mapping[str, str] | None = field(default=None, repr=False)
    storage_options: Mapping[str, Mapping[str, Any]] | None = field(default=None, repr=False)
    aws_conn_id: str | None = None
    spark_conn_id: str | None = None
    stall_timeout: timedelta | float | None = DEFAULT_STALL
    rows_in_exceptions: bool = False

    def __post_init__(self) -> None:
        check_mapping("conf", self.conf, '{"tidemill.block_rows": 65536}')
        check_mapping("env", self.env, '{"AWS_PROFILE": "lake"}')
        check_storage_options(self.storage_options)
        seconds_of("stall_timeout", self.stall_timeout)


@dataclass(frozen=True, kw_only=True)
class Run:
    """Limits of one run of the cadence, and where it runs. The form of the DAG can override the limits.

    - `max_batches`: end after so many batches. Default: no limit.
    - `time_budget`: start no further batch after so many seconds. Default: no limit.
    - `run_with`: a function that is given a `tm.SparkJob` and returns the operator that runs it, or its name as
      `module:function`. Default: the run is a process of Airflow's worker.

    With `run_with` only:

    - `pipeline`: the pipeline as the driver finds it. Default: as Airflow finds it, with an absolute path.
    - `application`, `results`: as in `spark_job`.
    """

    max_batches: str | int | None = None
    time_budget: str | float | None = None
    run_with: Callable[[SparkJob], Any] | str | None = None
    pipeline: str | None = None
    application: str | None = None
    results: str | None = None

    def __post_init__(self) -> None:
        check_limit("max_batches", self.max_batches, int, 1)
        check_limit("time_budget", self.time_budget, float, 0)
        if self.pipeline is not None:
            check_pipeline(self.pipeline)
        is_name = isinstance(self.run_with, str) and _FUNCTION.fullmatch(self.run_with) is not None
        if self.run_with is not None and not is_name and not callable(self.run_with):
            raise InvalidInput(f"run_with is {self.run_with!r}: expected a function, or `module:function`")
        if self.run_with is None:
            for name in ("pipeline", "application", "results"):
                if getattr(self, name) is not None:
                    raise InvalidInput(f"Run has `{name}` without `run_with`, which it is for")


@dataclass(frozen=True, kw_only=True)
class Watch:
    """How Airflow's triggerer looks for new files, which start a run at once.

    - `pipeline`: the name of the pipeline in its code, `tm.Pipeline(NAME)`. Default: the name of the DAG.
    - `poll`: time between two listings of the sources, as a `timedelta` or seconds. Default: 30 seconds.
    - `conn_id`: an AWS connection of Airflow, from which the triggerer takes credentials. Default: `aws_conn_id` of
      `Launch`, and without it the triggerer's own role.
    """

    pipeline: str | None = None
    poll: timedelta | float = DEFAULT_POLL
    conn_id: str | None = None

    def __post_init__(self) -> None:
        if self.pipeline is not None:
            check_name(self.pipeline, "pipeline")
        if self.poll is None:
            raise InvalidInput("poll is None: expected a timedelta or a positive number of seconds")
        seconds_of("poll", self.poll)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """When timeouts are fired that come due without data.

    - `schedule`: any schedule that Airflow accepts. Default: every minute.
    - `wait`: a run that finds nothing due waits for so long, without a slot, until something is. A `timedelta`,
      seconds, or None for runs that end at once. Default: 6 hours.

    While a run waits no other one starts, so the default is 4 runs a day, and one for each deadline. Waiting needs
    Airflow's triggerer.
    """

    schedule: Any = DEFAULT_SWEEP
    wait: timedelta | float | None = DEFAULT_WAIT

    def __post_init__(self) -> None:
        seconds_of("wait", self.wait)


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """How far a pipeline may be behind before a task fails, and when it is checked. At least one limit is required.

    - `oldest_waiting`: the age of the oldest file that waits.
    - `lag`: how far a watermark is behind now.
    - `head_age`: the time since the newest commit.
    - `schedule`: any schedule that Airflow accepts. Default: every quarter of an hour.

    A limit is a `timedelta` or seconds.
    """

    oldest_waiting: timedelta | float | None = None
    lag: timedelta | float | None = None
    head_age: timedelta | float | None = None
    schedule: Any = DEFAULT_FRESHNESS

    def __post_init__(self) -> None:
        if not self.seconds():
            raise InvalidInput(
                "freshness has no limit", hint="give `oldest_waiting`, `lag` or `head_age`, such as timedelta(hours=1)"
            )

    def seconds(self) -> dict[str, float]:
        """Return the limits that are given, in seconds."""
        limits = {name: seconds_of(name, getattr(self, name)) for name in ("oldest_waiting", "lag", "head_age")}
        return {name: limit for name, limit in limits.items() if limit is not None}


@dataclass(frozen=True, kw_only=True)
class Maintain:
    """What upkeep does, and when. The form of the DAG can override all but `schedule`, `compact_sinks` and `verify`.

    - `schedule`: any schedule that Airflow accepts. Default: once a day.
    - `keep`: the age of versions that stay readable, such as "90 days"; or a list with "OPERATOR=AGE" for states.
    - `keep_versions`: the number of versions that stay readable, or a list in the same way.
    - `time_budget`: merge and delete nothing more after so many seconds. The next run does the rest.
    - `compact_sinks`: join small published files.
    - `verify`: then check that all that the repository holds is there and fits together, in a task of its own.
    - `engine`: the engine that merges state.

    Without `keep` and `keep_versions` no version is discarded.
    """

    schedule: Any = DEFAULT_MAINTAIN
    keep: str | Sequence[str] | None = None
    keep_versions: str | int | Sequence[str] | None = None
    time_budget: str | float | None = None
    compact_sinks: bool = False
    verify: bool = True
    engine: str | None = "local"

    def __post_init__(self) -> None:
        check_engine(self.engine, ENGINES)
        check_limit("time_budget", self.time_budget, float, 0)
        if not isinstance(self.keep_versions, list | tuple) and "=" not in str(self.keep_versions):
            check_limit("keep_versions", self.keep_versions, int, 1)


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Defaults of the form of `NAME__replay`, and who answers it until when.

    - `promote`: "never", "if equal" or "after approval".
    - `outputs`: "correct" replaces what was published, "keep" leaves it.
    - `engine`: the engine that replays.
    - `response_timeout`: a `timedelta` or seconds. Without an answer until then, nothing is promoted. None: it waits.
    - `assigned_users`: who may answer, as Airflow's operators accept them. Default: all who may answer in Airflow.
    - `largest_changes`: show the keys that change most, with both values. Airflow stores them.
    """

    promote: str = "after approval"
    outputs: str = "correct"
    engine: str | None = "auto"
    response_timeout: timedelta | float | None = DEFAULT_ANSWER
    assigned_users: Any = None
    largest_changes: bool = True

    def __post_init__(self) -> None:
        check_engine(self.engine)
        seconds_of("response_timeout", self.response_timeout)
        for what, given, known in (("promote", self.promote, PROMOTE), ("outputs", self.outputs, OUTPUT_CHOICES)):
            if given not in known:
                raise unknown(f"value of {what}", str(given), known)


@dataclass(frozen=True, kw_only=True)
class Correct:
    """Defaults of the form of `NAME__correct`, and who answers it until when.

    - `carry_out`: "never" (a dry run), "at once" or "after approval".
    - `response_timeout`, `assigned_users`: as in `Replay`.
    """

    carry_out: str = "after approval"
    response_timeout: timedelta | float | None = DEFAULT_ANSWER
    assigned_users: Any = None

    def __post_init__(self) -> None:
        seconds_of("response_timeout", self.response_timeout)
        if self.carry_out not in CARRY_OUT:
            raise unknown("value of carry_out", str(self.carry_out), CARRY_OUT)


def as_arguments(options: Launch | Run | Sweep | Maintain) -> dict[str, Any]:
    """Return the options by name, as keyword arguments of an operator. Values are not copied."""
    return {one.name: getattr(options, one.name) for one in fields(options)}
