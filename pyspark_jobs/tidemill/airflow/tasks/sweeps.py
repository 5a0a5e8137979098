"""`TidemillSweepOperator`: fire due timeouts, and wait for the next deadline without a slot.

INVARIANT: a task that committed something ends, so that Airflow records its events and the versions in its XCom. It
waits only after a sweep that found nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from ...clock import now_ms
from ...errors import StoreUnavailable, TidemillError
from ..calls.checks import check_root_argument, seconds_of
from ..calls.command import Event
from ..calls.hidden import reveal
from ..triggers import DueTrigger
from ..waiting.heads import Heads, root_options
from .operators import PublishingOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

_SLACK = timedelta(minutes=5)
"""Time after its end by which a wait fails, because no triggerer runs."""


class TidemillSweepOperator(PublishingOperator):
    """Run `tidemill sweep` as a task: fire due timeouts, without input. It succeeds if nothing is due.

    - `wait`: if nothing is due, wait for so long (a `timedelta` or seconds) without a slot until something is, and fire
      it. This needs a triggerer, which reads the newest commit once a minute. A manual run does not wait. Default: no
      task waits.

    The other arguments, retries and the result are those of `TidemillRunOperator`, without `max_batches` and
    `time_budget`.
    """

    verb = "sweep"

    def __init__(self, *, wait: timedelta | float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        seconds_of("wait", wait)
        self.wait = wait
        self._result: Event = {}

    def execute(self, context: Context, until_ms: int | None = None) -> Mapping[str, Any]:
        """Sweep. If there was nothing to do, wait for a deadline until `until_ms`, and sweep again."""
        seconds = seconds_of("wait", self.wait)
        if until_ms is None and seconds is not None and context["dag_run"].run_type != "manual":
            until_ms = now_ms() + int(seconds * 1000)
        while True:
            swept_ms = now_ms()
            xcom = super().execute(context)
            if until_ms is None or xcom["status"] != "nothing" or until_ms <= now_ms():
                return xcom
            self._defer_unless_due(swept_ms, until_ms)

    def resume(self, context: Context, event: Mapping[str, Any], until_ms: int) -> Mapping[str, Any]:
        """Go on after the wait: sweep if something is due, fail if the repository cannot be read, else end."""
        if event["event"] == "error":
            raise AirflowFailException(str(event["message"]))
        return self.execute(context, until_ms)

    def _succeeded(self, context: Context, result: Event) -> None:
        super()._succeeded(context, result)
        self._result = result

    def _defer_unless_due(self, swept_ms: int, until_ms: int) -> None:
        """Defer until the next deadline. Return if it is over already, because another run committed meanwhile."""
        options = root_options(reveal(self.storage_options), self._variables())
        heads = Heads(check_root_argument(self.root), self._result["pipeline"], self._result["branch"], options)
        try:
            head = heads.read()
        except StoreUnavailable as error:
            raise AirflowException(str(error)) from error
        except TidemillError as error:
            raise AirflowFailException(str(error)) from error
        batch = None if head is None else head.next_deadline.get("batch")
        is_swept = head is not None and head.version == self._result["head"] and batch is not None and batch <= swept_ms
        trigger = DueTrigger(
            **heads.as_arguments(), until_ms=until_ms, swept_ms=swept_ms, idle_ms=self._result.get("idle_ms"),
            swept=[head.version, batch] if head is not None and batch is not None and is_swept else None,
        )  # fmt: skip
        wake_ms = trigger.wake_ms(head)
        if wake_ms is None or wake_ms > now_ms():
            self._defer(trigger, until_ms)

    def _defer(self, trigger: DueTrigger, until_ms: int) -> NoReturn:
        left = timedelta(milliseconds=max(until_ms - now_ms(), 0))
        self.log.info("tidemill: waits without a slot for the next deadline, for at most %s", left)
        self.defer(trigger=trigger, method_name="resume", kwargs={"until_ms": until_ms}, timeout=left + _SLACK)
