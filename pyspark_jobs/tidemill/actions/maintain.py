"""`Maintain`: merge segments of state, raise the floor, delete garbage, and withdraw what appeared again in sinks.

If it is asked to, it joins small published files, too. It is safe beside runs, corrections and other calls, and does
what is left when it is called again. `maintaining.py` has the steps, `maintain_report.py`
what they did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..names import ENGINES
from ..values import dataclass
from .contract import ActionStep, Option, SeenRefs, StepsAction, option

if TYPE_CHECKING:
    from ..repo.opened import Opened
    from ..upkeep.collect import OnUpkeep
    from .maintain_report import MaintainReport


@dataclass(frozen=True, kw_only=True)
class Maintain(StepsAction):
    """Merge state, discard versions that --keep and --keep-versions do not keep, delete objects that no version needs.

    Without these options only leftovers of failed attempts are deleted. Tagged versions are kept. Published files are
    only touched with --compact-sinks: readers of a sink may then see rows twice for a moment. It is safe beside runs,
    and can be repeated at any time. Exit status: 0 done, 3 nothing to do.
    """

    verb = "maintain"
    operator_base = "UpkeepOperator"
    short_help = "Merge state, discard old versions, delete what no version needs."
    argument_order = (
        "keep", "keep_versions", "time_budget", "dry_run", "reason", "on_progress", "spark", "engine", "compact_sinks",
        "sink_file_size",
    )  # fmt: skip
    method = """Merge segments of state, discard old versions, and delete the objects that no kept version needs.

    Returns what was done. Merging keeps batches short: a batch that would rewrite a large part of the state leaves
    that to this call, as long as it comes often enough, such as every night.

    `keep`: an age such as "90 days"; versions of this period are kept, so the state can be read as of any time in
    it. `keep_versions`: the newest so many versions are kept. With both, whichever keeps more. A dict gives rules
    for the state of single operators, and under "*" for everything else. Without either, only leftovers of failed
    attempts are deleted. The head, tagged versions, versions from which branches start, and versions that are not
    published yet are always kept. Published files are not touched, except that files which a stalled process
    copied after they had been withdrawn are deleted.

    `compact_sinks`: join published files of `tm.Parquet` and `tm.Json` that are smaller than half of
    `sink_file_size`, folder by folder, into files of about that size. Rows keep their values, columns and order.
    Each group of versions is one commit with `reason`. Larger files appear before the small ones are deleted, so a
    plain reader may see rows twice for a moment. `outputs()` does not change. While a batch is planned, nothing is
    joined.

    `time_budget`: seconds after which nothing more is merged, joined or deleted; the next call does the rest.
    `on_progress`: called with what is being done, how much of it is done, and how much there is. `engine`: "local"
    merges two ranges of state at once in this process; "spark" merges as many as there are cores, in tasks, on the
    session `spark` or one that is started. A range has about 4 million rows or 64 MiB.

    The call may run beside runs, corrections and other calls. A crash leaves garbage for the next call.
    `InvalidInput` for an unknown operator, or a rule that keeps nothing. In a dry run, the report names every
    object that would go, and why, and the files that would be joined.
    """

    keep: str | timedelta | Mapping[str, str | timedelta] | None = option(
        Option(
            "Keep the versions of this period, such as '90 days'. With OPERATOR: its state. Repeatable.",
            form="keep the versions of this period, such as '90 days'; with `OPERATOR=`, its state.",
            metavar="[OPERATOR=]AGE",
            parsed="rules",
            is_repeated=True,
        ),
        None,
    )
    keep_versions: int | Mapping[str, int] | None = option(
        Option(
            "Keep the newest N versions; with --keep, whichever keeps more. Repeatable.",
            form="keep the newest N versions; with `keep`, whichever keeps more.",
            metavar="[OPERATOR=]N",
            parsed="counts",
            is_repeated=True,
        ),
        None,
    )
    time_budget: float | None = option(
        Option(
            "Merge and delete nothing more after this many seconds. The next call does the rest.",
            metavar="SECONDS",
            parsed="seconds",
        ),
        None,
    )
    compact_sinks: bool = option(Option("Join small published files into larger ones.", parsed="flag"), False)
    sink_file_size: str | int = option(
        Option(
            "With --compact-sinks: the size to aim at. Files below half of it are small.",
            form="with `compact_sinks`: the size to aim at. Files below half of it are small. Default: 128 MiB.",
            metavar="SIZE",
        ),
        "128 MiB",
    )
    on_progress: OnUpkeep | None = option(Option("", parsed="progress", in_shell=False), None)
    spark: Any = option(Option("The session to use.", in_shell=False), None)
    engine: str = option(Option("Engine that merges state.", choices=ENGINES), "local")
    reason: str = option(Option("Why older versions go, or files are joined. The record of it says so."), "")

    def begin(self, repo: Opened) -> bool:
        """Check the options."""
        from ..store.probe import probe
        from .maintaining import check_maintain

        check_maintain(repo, self)
        probe(repo.store)
        return False

    def look(self, repo: Opened, seen: SeenRefs) -> MaintainReport:
        """Return what will happen. `InvalidInput` for a wrong retention rule."""
        from .maintaining import looked_at_upkeep

        return looked_at_upkeep(repo, self, seen)

    def start(self, repo: Opened, seen: SeenRefs) -> MaintainReport:
        """Return the floor."""
        from .maintaining import before

        return before(repo, self, seen)

    def steps(self, repo: Opened, agreed: MaintainReport | None) -> Sequence[ActionStep]:
        """Return the steps. Versions go first, so that what they held is merged less and deleted at once."""
        from .maintaining import MaintainSteps

        one = MaintainSteps(repo, self, agreed)
        return (one.raise_floor, one.merge, one.join, one.collect, one.withdraw)

    def make_room(self, repo: Opened) -> bool:
        """Delete garbage that needs no new entry of `refs/`."""
        from ..upkeep.collect import delete_garbage

        return bool(delete_garbage(repo))

    def outcome(self, repo: Opened, plan: MaintainReport, made: None) -> MaintainReport:
        """Return the report."""
        del repo, made
        return plan

    def asks_about(self, plan: MaintainReport) -> bool:
        """Whether something is lost or written into sinks. Merging changes no row."""
        return bool(plan.garbage or plan.compacted or plan.raises_floor)

    def done(self, plan: MaintainReport, made: None) -> str:
        """Return what was done, in words."""
        del made
        return plan.summary()

    def did_nothing(self, plan: MaintainReport) -> bool:
        """Whether nothing was merged, joined, deleted or given up."""
        return not (plan.merged or plan.compacted or plan.deleted or plan.strays or plan.raises_floor)
