"""`Reset`: set watermarks or the batch time to another value, for example after one row with a wrong time.

It is the only way in which either goes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from ..errors import InvalidInput
from ..values import dataclass
from .contract import ActionPlan, CommitAction, Option, SeenBranch, option

if TYPE_CHECKING:
    from ..protocol.kinds import Changes
    from ..protocol.records import Commit
    from ..protocol.successor import Origin
    from ..publishing.rest import Writing
    from ..repo.opened import Opened


@dataclass(frozen=True, kw_only=True)
class ResetPlan(ActionPlan):
    """Times in ms: watermarks before and after, by name, and the batch time before and after."""

    watermarks: dict[str, tuple[int, int]]
    batch_time: tuple[int, int] | None

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        from ..units import iso

        times = {f"watermark {name}": times for name, times in self.watermarks.items()}
        times |= {} if self.batch_time is None else {"batch time": self.batch_time}
        return [f"{what}: {iso(before)} -> {iso(after)}" for what, (before, after) in times.items()]


@dataclass(frozen=True, kw_only=True)
class Reset(CommitAction):
    """Set watermarks or the batch time to another value, also to an earlier one.

    Use it after a row with a wrong event time made all others late, or after a clock was wrong. Keys that
    have timed out do not come back.
    """

    verb = "reset"
    kind = "reset"
    short_help = "Set watermarks or the batch time to another value."
    operator_base = "CorrectionOperator"
    argument_order = ("watermark", "batch_time", "reason")
    method = """Set watermarks or the batch time to another value, and return the commit that does it.

    Nothing else moves either of them back. `watermark`: a time for all watermarks, or a dict by name
    (`<source>.<column>`). `batch_time`: the time from which later batches count. Times are ms since the epoch, ISO
    text or datetimes. An open plan ends. State stays as it is: what has ended or timed out does not come back, and
    rows that were late stay dropped or in quarantine.

    `InvalidInput` for an unknown watermark, a batch time out of bounds, or an empty `reason`. `Fenced` if another
    run commits first; then nothing has changed.
    """

    watermark: int | str | datetime | Mapping[str, int | str | datetime] | None = option(
        Option(
            "New watermark; without a name, of all watermarks. Repeatable.",
            metavar="[NAME=]MS|ISO",
            parsed="times",
            is_repeated=True,
            form="the new time of all watermarks, or `NAME=TIME`.",
            is_needed=True,
        ),
        None,
    )
    batch_time: int | str | datetime | None = option(
        Option("New batch time.", metavar="MS|ISO", parsed="time", form="the new batch time.", is_needed=True), None
    )
    reason: str = option(Option("Why. The commit records it."))

    def look(self, repo: Opened, seen: SeenBranch) -> ResetPlan:
        """Return what will happen. `InvalidInput` if a time is out of bounds, or nothing would change."""
        marks, times = self._watermarks(repo, seen), self._batch_time(repo, seen)
        if (marks or times) and all(old == new for old, new in (*marks.values(), *([times] if times else []))):
            raise InvalidInput(
                "reset: every watermark and batch time already has the given value, so nothing would change"
            )
        if not marks and times is None:
            raise InvalidInput("reset: found neither a watermark nor a batch time, expected at least one of them")
        return ResetPlan(verb=self.verb, seen=seen, watermarks=marks, batch_time=times)

    def _watermarks(self, repo: Opened, seen: SeenBranch) -> dict[str, tuple[int, int]]:
        """Return the watermarks that are given, before and after."""
        from ..repo.bounds import check_watermark
        from ..spelling import unknown
        from ..units import time_ms

        job, head, watermark = repo.job, seen.origin.head, self.watermark
        given = watermark if isinstance(watermark, Mapping) else dict.fromkeys(job.watermarks, watermark)
        before = head.watermarks if head is not None else {}
        found: dict[str, tuple[int, int]] = {}
        for name, time in given.items():
            if name not in job.watermarks:
                raise unknown("watermark", str(name), list(job.watermarks))
            if time is not None:
                after = check_watermark(time_ms(time, job.time_zone), f"watermark `{name}`")
                found[name] = (before.get(name, 0), after)
        if watermark is not None and not given and not isinstance(watermark, Mapping):
            raise InvalidInput("reset: found a watermark, but this pipeline has none (`withWatermark`)")
        return found

    def _batch_time(self, repo: Opened, seen: SeenBranch) -> tuple[int, int] | None:
        """Return the batch time before and after, if one is given."""
        from ..repo.bounds import check_batch_time
        from ..units import time_ms

        if self.batch_time is None:
            return None
        head, tolerance = seen.origin.head, repo.settings.batch_time_tolerance
        after = check_batch_time(time_ms(self.batch_time, repo.job.time_zone), "batch_time", tolerance)
        return 0 if head is None else head.batch_time_ms, after

    def prepare(self, repo: Opened, plan: ResetPlan, origin: Origin, to: Writing) -> Changes:
        """Return the new times."""
        del repo, to
        changes: Changes = {}
        if plan.watermarks:
            before = origin.head.watermarks if origin.head is not None else {}
            changes["watermarks"] = {**before, **{name: after for name, (_, after) in plan.watermarks.items()}}
        if plan.batch_time is not None:
            changes["batch_time_ms"] = plan.batch_time[1]
        return changes

    def done(self, plan: ResetPlan, commit: Commit) -> str:
        """Return what was done, in words."""
        del plan
        return f"reset in version {commit.version}: {self.reason}"
