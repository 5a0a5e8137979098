"""`Forget`: remove keys of an operator from everything that the repository keeps and publishes.

A commit has the state without the keys, and publishes files again that held them; `removing.py` writes these. What
follows the commit (publishing, the floor, deleting) is completed by `maintain`, or by the same call again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..counts import count_of
from ..values import dataclass
from .contract import CommitAction, Option, SeenBranch, option

if TYPE_CHECKING:
    from ..protocol.kinds import Changes
    from ..protocol.records import Commit
    from ..protocol.successor import Origin
    from ..publishing.rest import Writing
    from ..repo.opened import Opened
    from .forget_report import ForgetReport


@dataclass(frozen=True, kw_only=True)
class Forget(CommitAction):
    """Remove keys from the state, from published files and from quarantine. It cannot be undone.

    Give the keys of one operator. Or give a person, the value of a column, which is looked for in all operators and
    sinks. All earlier versions can no longer be read afterwards, because they hold the keys. With --rewrite they stay,
    without the keys, and all of their objects that had the keys are written again. `verify --forgotten` looks for keys
    that are still there.
    """

    verb = "forget"
    kind = "forget"
    short_help = "Remove keys from everything that is kept and published."
    knows_tries = False  # the same call again completes what is left
    method = """Remove keys from everything that the repository keeps and publishes. Return a report.

    `operator` and `keys`, as in `r.forget("totals", ["ann"], reason)`, are keys of one operator, as `state` prints
    them. A mapping of columns to values in their place, as in `r.forget({"customer": [17850]}, reason)`, is a
    person: the rows with these values of a column, or of one of several columns, in all operators and sinks that
    the records ever named, also in sinks that were removed, renamed or moved, and in places of branches.
    `InvalidInput` names everything that cannot be searched for a person, unless `left` names it, which the commit
    and the report then list: an operator whose key has no such column, a sink without it, a function of
    `foreachBatch`, a folder that cannot be reached.

    A commit has the state without the keys, and records `reason`. All earlier versions are given up, and their
    objects are deleted, because they hold the keys. `columns`, for keys of an operator: by sink, the column (or
    columns, in the order of the key) that holds the key in published files; files with the keys are written again
    without their rows. Quarantined rows whose text contains a key go, too. The commit keeps a salted hash of each
    key, with which `verify(forgotten=True)` looks for keys that are still there.

    `rewrite`: keep all earlier versions that are kept now, with the rows of other keys. Their objects with the keys
    are written again without them, and then deleted. History, differences, rewinds and replays go on as before, and
    none of them shows the keys. `InvalidInput` if a version cannot be searched.

    `drop_refs`: also remove tags and branches that keep earlier versions; otherwise they are an error. With
    `rewrite`, only branches are.
    `missing_ok`: accept keys that have no state now, or a person whom nothing has. `left` of the report lists what
    Tidemill cannot clean: the source's files, rows that functions wrote, files that were moved. In a dry run, the
    plan is such a report, with the rows of each operator and sink, and what it costs to keep earlier versions.

    `InvalidInput` for an unknown operator, sink or column, a key that does not fit or has no state, or an empty
    `reason`. `Fenced` if another run commits first. Then nothing has changed. After a crash, call it again, or run
    `maintain`: both complete it.
    """
    argument_order = ("operator", "keys", "reason", "columns", "drop_refs", "missing_ok", "left", "rewrite")

    operator: str | Mapping[str, Sequence[Any]] = option(Option("Operator whose keys are removed.", metavar="NAME"), "")
    keys: Sequence[Any] = option(
        Option(
            "Key to remove, as `state` prints it. Repeatable. For several key columns, give JSON.",
            flag="key",
            metavar="KEY",
            parsed="keys",
            is_repeated=True,
        ),
        (),
    )
    person: Mapping[str, Sequence[Any]] | None = option(
        Option(
            "Instead of an operator: remove the rows with this value in all operators and sinks. Repeatable.",
            metavar="COLUMN=VALUE",
            parsed="lists",
            is_repeated=True,
            in_python=False,
        ),
        None,
    )
    columns: Mapping[str, str | Sequence[str]] | None = option(
        Option(
            "Column of a sink that holds the key. Repeat it for each column of the key.",
            flag="column",
            metavar="SINK=COLUMN",
            parsed="lists",
            is_repeated=True,
        ),
        None,
    )
    reason: str = option(Option("Why. The commit records it, so do not name the key."))
    left: Sequence[str] = option(
        Option(
            "Operator, sink or folder that is not searched, because you clean it. Repeatable.",
            metavar="NAME",
            is_repeated=True,
        ),
        (),
    )
    drop_refs: bool = option(Option("Also remove tags and branches that keep earlier versions.", parsed="flag"), False)
    missing_ok: bool = option(Option("Accept keys that have no state now.", parsed="flag"), False)

    rewrite: bool = option(
        Option("Keep earlier versions: write their objects with the keys again, without them.", parsed="flag"), False
    )

    def __post_init__(self) -> None:
        """Take a person where the method takes an operator, and what follows it as the reason."""
        if isinstance(self.operator, Mapping):
            object.__setattr__(self, "person", self.operator)
            object.__setattr__(self, "operator", "")
            if isinstance(self.keys, str) and not self.reason:
                object.__setattr__(self, "reason", self.keys)
                object.__setattr__(self, "keys", ())

    def begin(self, repo: Opened) -> bool:
        """Publish what earlier runs left, because only published files are written again."""
        from ..publishing.publish import repair
        from ..store.probe import probe

        probe(repo.store)
        return bool(repair(repo, repo.head()))

    def look(self, repo: Opened, seen: SeenBranch) -> ForgetReport:
        """Return what will happen. `InvalidInput` for a key that does not fit or has no state."""
        from .removing import looked

        return looked(repo, self, seen)

    def earlier(self, plan: ForgetReport) -> Commit | None:
        """Return the newest version if it has forgotten these keys."""
        assert isinstance(plan.seen, SeenBranch)
        return None if plan.done_in is None else plan.seen.origin.head

    def hold(self, repo: Opened, plan: ForgetReport) -> None:
        """Publish what another process has committed since the look."""
        from ..publishing.publish import repair

        assert isinstance(plan.seen, SeenBranch)
        repair(repo, plan.seen.origin.head)

    def prepare(self, repo: Opened, plan: ForgetReport, origin: Origin, to: Writing) -> Changes:
        """Write everything again that holds a key."""
        from .removing import prepared

        return prepared(repo, self, plan, origin, to)

    def finish(self, repo: Opened, plan: ForgetReport, commit: Commit) -> ForgetReport:
        """Give up earlier versions, or say that they were rewritten, and delete objects with the keys."""
        from .removing import discard_earlier_versions

        return dataclasses.replace(plan, version=commit.version, removed=discard_earlier_versions(repo), commit=commit)

    def outcome(self, repo: Opened, plan: ForgetReport, made: Commit) -> ForgetReport:  # type: ignore[override]
        """Return the report."""
        del repo, made
        return plan

    def fields(self, plan: ForgetReport, made: Commit) -> dict[str, Any]:
        """Return what was done, for machines."""
        return {**plan.as_dict(), "versions": [made.version] if plan.done_in is None else []}

    def done(self, plan: ForgetReport, made: Commit) -> str:
        """Return what was done, in words."""
        did = f"forgot {count_of(plan.keys, 'key')} in version {made.version}"
        did = did if plan.done_in is None else plan.said_done()
        return f"{did}; deleted {count_of(len(plan.removed), 'object')}"

    def did_nothing(self, plan: ForgetReport) -> bool:
        """Whether an earlier call has done it, and has deleted everything."""
        return plan.done_in is not None and not plan.removed
