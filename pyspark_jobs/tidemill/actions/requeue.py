"""`Requeue`: give quarantined rows back to the pipeline, corrected or as they are, as input of the next batch.

A requeue commit stores the rows in the repository and lets them wait. The next batch reads them before any file, and
only for the operators that have not taken them. The ledger records them, so that they are read once and a rewind makes
them wait again. A file that is in quarantine as a whole leaves the ledger, so it is a new file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import names
from ..counts import count_of, noun_with_names
from ..errors import InvalidInput
from ..values import dataclass
from .contract import ActionPlan, CommitAction, Option, SeenBranch, option

if TYPE_CHECKING:
    import pyarrow as pa

    from ..protocol.kinds import Changes
    from ..protocol.log import Log
    from ..protocol.records import Commit, Split
    from ..protocol.successor import Origin
    from ..publishing.rest import Writing
    from ..repo.opened import Opened
    from ..returning.released import Released
    from ..returning.returning import RowGroup


@dataclass(frozen=True, kw_only=True)
class RequeuePlan(ActionPlan):
    """The rows by source, kind and destination, whole files, and the version whose plan ends."""

    version: int
    groups: list[RowGroup]
    files: list[Released]
    ends_plan: int | None

    @property
    def rows(self) -> int:
        """How many rows come back."""
        return sum(group.rows.num_rows for group in self.groups)

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        lines = [
            f"{count_of(group.rows.num_rows, 'row')} "
            + (f"of source `{group.source}`" if not group.given else f"that `{group.given}` got from another operator")
            + f"{' and' if group.given else ''} that version {self.version} quarantined ({', '.join(group.kinds)}) "
            + f"will be read again by {group.destination}{_nulls(group)}"
            for group in self.groups
        ]
        lines += [
            f"file `{one.file.path}` of source `{one.file.source}`, which version {self.version} put in quarantine "
            f"as a whole, will be read as a new file; it {'was changed' if one.is_changed else 'is unchanged'} since"
            for one in self.files
        ]
        if self.ends_plan is not None:
            lines.append(f"the plan of version {self.ends_plan} ends, and its files are planned again")
        return lines

    def content(self) -> Any:
        """Return all that will happen, also with what values the rows come back."""
        from ..protocol.records import digest

        groups = [
            [one.source, one.operators, one.watermark, one.ids, digest(_encoded(self.version, one))]
            + ([one.given] if one.given else [])
            for one in self.groups
        ]
        files = [[one.file.source, one.file.path, one.file.etag, one.is_changed] for one in self.files]
        return [self.version, groups, files, self.ends_plan]

    def as_dict(self) -> dict[str, Any]:
        """Return what will happen, for machines."""
        return {"rows": self.rows, "files": [one.file.path for one in self.files], **super().as_dict()}


def _nulls(group: RowGroup) -> str:
    if not group.new_columns:
        return ""
    are = "is new since, and null in them" if len(group.new_columns) == 1 else "are new since, and null in them"
    return f"; {noun_with_names('column', group.new_columns)} {are}"


@dataclass(frozen=True, kw_only=True)
class Requeue(CommitAction):
    """Give rows that a version quarantined back to the pipeline. The next batch reads them before any file.

    Unreadable rows go to the whole pipeline, rows of a failed key only to the operator whose function failed, also if
    another operator had emitted them. Late rows
    go to the operators that they were late for, if those are declared with late="keep" now. A row comes back once.
    Without --rows, unreadable rows are parsed again by the schema that the source has now. A file that is in quarantine
    as a whole is read again as a new file: correct it in its folder first.
    """

    verb = "requeue"
    kind = "requeue"
    short_help = "Give quarantined rows back to the pipeline."
    method = """Give rows that `version` quarantined back to the pipeline, and return the commit that does it.

    The next batch reads them before any file. Unreadable rows go to the whole pipeline. Rows of a failed key go
    only to the operator whose function failed, because the others have taken them; rows that another operator had
    emitted go there as they were. Late rows go to the operators
    that they were late for, if those are declared with `late="keep"` now. `source`: only the rows of this source. A
    promotion has the rows that its branch has quarantined. The commit records `reason`.

    `rows`: the corrected rows, a table or the path of a Parquet, CSV or JSON file with the columns of
    `quarantine(…, export=True)`. Rows that are not in it stay in quarantine. Without it, all rows come back as they
    are. Unreadable ones are then parsed again by the schema that the source has now. A file that is in quarantine
    as a whole, with `badFiles="quarantine"`, is read again as a new file; correct it in its folder first.

    `InvalidInput` if a row cannot come back, is not one of this version, or was requeued already. Then nothing has
    changed. `Fenced` if another run commits first.
    """

    version: int | str = option(
        Option("The version that quarantined the rows.", metavar="N|TAG", parsed="version"),
    )
    source: str | None = option(Option("Only rows of this source. Default: of all sources.", metavar="NAME"), None)
    rows: Any = option(
        Option(
            "The corrected rows: a file that `tidemill quarantine --export` wrote. Default: all rows, as they are.",
            metavar="FILE",
            parsed="file",
        ),
        None,
    )
    reason: str = option(Option("Why the rows come back. The commit records it."), "")

    def look(self, repo: Opened, seen: SeenBranch) -> RequeuePlan:
        """Return what will happen. `InvalidInput` if a row cannot come back."""
        from ..repo.versions import kept_commit, number_of_version
        from ..returning.returning import returning

        if self.version is None:
            raise InvalidInput("requeue: the version is missing", hint="name the version that quarantined the rows")
        commit = kept_commit(repo, number_of_version(repo, self.version))
        if commit is None:
            raise InvalidInput(
                f"requeue version {self.version}: it is before the first batch, so nothing was quarantined"
            )
        head = seen.origin.head
        _check_effective(repo.log, head, commit)
        found = returning(repo, head, commit, self.source, self.rows)
        return RequeuePlan(
            verb=self.verb,
            seen=seen,
            version=commit.version,
            groups=found.groups,
            files=found.files,
            ends_plan=None if seen.plan is None else seen.origin.number,
        )

    def prepare(self, repo: Opened, plan: RequeuePlan, origin: Origin, to: Writing) -> Changes:
        """Store the rows, and the ledger with them and without the files."""
        from ..repo.ledger import store_requeued

        splits = list(_stored(repo, plan, to))
        files = [one.file for one in plan.files]
        ledger = store_requeued(repo, origin.head, splits, files, to.number, to.attempt)
        to.stored += [one.name for one in ledger.segments]
        before = origin.head
        return {
            "ledger": ledger.segments,
            "rows": {**(before.rows if before else {}), names.LEDGER: {"files": ledger.rows}},
            "requeued": splits,
            "released": files,
            "waiting": [*(before.waiting if before else []), *splits],
        }

    def done(self, plan: RequeuePlan, made: Commit) -> str:
        """Return what was done, in words."""
        rows = [count_of(plan.rows, "row")] if plan.rows or not plan.files else []
        files = [count_of(len(plan.files), "file")] if plan.files else []
        return f"requeued {' and '.join(rows + files)} of version {plan.version} in version {made.version}"


def _check_effective(log: Log, head: Commit | None, commit: Commit) -> None:
    """Raise `InvalidInput` for a version that a promotion replaced, or a promotion that was rewound."""
    from ..protocol.history import is_effective
    from ..protocol.kinds import rules_of

    if head is None or is_effective(head, commit.version):
        return
    later = [one for one in head.promotions if one > commit.version and is_effective(head, one)]
    if later:
        has_rows = bool(log.commit(later[0]).quarantine)
        raise InvalidInput(
            f"requeue version {commit.version}: version {later[0]}, a promotion, replaced it",
            hint=f"requeue version {later[0]}, which has what its branch quarantined"
            if has_rows
            else "write the corrected rows to a new file of the source",
        )
    if rules_of(commit).of_branch:
        raise InvalidInput(
            f"requeue version {commit.version}: it is a promotion that was rewound",
            hint="requeue the versions that count again; `tidemill quarantine` lists their rows",
        )


def _stored(repo: Opened, plan: RequeuePlan, to: Writing) -> Iterator[Split]:
    """Store the rows of each group as an object, and yield it as a split."""
    from ..clock import now_ms
    from ..protocol.records import Requeued, Split, digest

    for number, group in enumerate(plan.groups):
        stem = names.stem(to.number, to.attempt, number, names.BY_REQUEUE)
        name = names.requeued(repo.branch, stem, plan.version)
        data = _encoded(plan.version, group)
        repo.store.put(name, data)
        to.stored.append(name)
        checksum = digest(data)
        rows = group.rows.num_rows
        held = Requeued(name, checksum, rows, plan.version, group.operators, group.watermark, group.given)
        path = names.requeued_path(name)
        yield Split(group.source, path, checksum, len(data), now_ms(), requeued=held)


def _encoded(version: int, group: RowGroup) -> bytes:
    """Return the object of a group: its rows, and the places that they come from."""
    from ..sources.requeued import encode_requeued

    return encode_requeued(group.rows, _places(version, group.ids, group.files))


def _places(version: int, ids: Sequence[int], files: Sequence[str | None]) -> pa.Table:
    import pyarrow as pa

    from ..schema import int64_array, string_array
    from ..sources.requeued import PLACES

    columns = [int64_array([version] * len(ids)), int64_array(ids), string_array(files)]
    return pa.Table.from_arrays(columns, schema=PLACES)
