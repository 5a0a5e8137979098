"""`TidemillFreshnessOperator`: fail if a pipeline is behind, so that Airflow alerts.

It asks `tidemill status`, which lists the sources. So it also sees that no run starts at all. INVARIANT: it changes
nothing, and fails with one line that names each limit that is exceeded.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from ...counts import count_of
from ...errors import Exit
from ..calls.ages import ages_of, exceeded
from ..calls.command import Outcome
from ..calls.options import Freshness
from ..calls.process import Child
from .verb import VerbOperator

_STATUS = '{"pipeline":'


class TidemillFreshnessOperator(VerbOperator):
    """Fail without a retry if a pipeline is further behind than allowed. At least one limit is required.

    - `oldest_waiting`: the age of the oldest file that waits.
    - `lag`: how far a watermark is behind now. The one that is furthest behind counts.
    - `head_age`: the time since the newest commit, for pipelines that always have data.

    Each is a `timedelta` or seconds. Sources that cannot be listed fail the task, with retries. The other arguments are
    those of `TidemillRunOperator` that are not about batches. The XCom has `head`, `waiting_files`, `oldest_waiting_s`,
    `lag_s` and `head_age_s`.
    """

    verb = "status"
    accepted = (Exit.DONE,)

    def __init__(
        self,
        *,
        oldest_waiting: timedelta | float | None = None,
        lag: timedelta | float | None = None,
        head_age: timedelta | float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.limits = Freshness(oldest_waiting=oldest_waiting, lag=lag, head_age=head_age).seconds()
        self._status: Mapping[str, Any] | None = None

    def _run(self, child: Child) -> Outcome:
        """Run the command. Its result is the status, which it prints as a plain object."""
        return dataclasses.replace(super()._run(child), result=self._status)

    def _summary(self, outcome: Outcome) -> list[str]:
        status = outcome.result or {}
        waiting = count_of(sum(status["waiting_files"].values()), "waiting file")
        return [f"tidemill: `{status['pipeline']}` has {waiting}, its head is {status['head']}"]

    def _returned(self, outcome: Outcome) -> Mapping[str, Any]:
        status = outcome.result or {}
        if status.get("problem"):
            raise AirflowException(f"cannot tell whether `{status['pipeline']}` is fresh: {status['problem']}")
        ages = ages_of(status)
        if late := exceeded(ages, self.limits):
            raise AirflowFailException(f"`{status['pipeline']}` is behind: {'; '.join(late)}")
        return {"head": status["head"], "waiting_files": sum(status["waiting_files"].values()), **ages}

    def _log_line(self, line: str, level: int) -> None:
        if line.startswith(_STATUS):
            self._status = json.loads(line)
        else:
            super()._log_line(line, level)
