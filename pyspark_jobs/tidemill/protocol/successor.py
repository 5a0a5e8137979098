"""What a commit inherits from the head: `successor(origin, kind, changes)`, the only way to make a commit record.

Pure. INVARIANT: whatever a kind of commit may not change is inherited, so no correction can lose state, the ledger or
a watermark. The table in `kinds` says what each kind may change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

from ..errors import InternalError
from ..names import LEDGER
from ..values import dataclass
from .compatible import present_name
from .history import last_forget, last_rewrite, replaced_at
from .kinds import KINDS, RECORDED, RESTORED, Changes
from .records import Commit, Counts, Kind, OperatorMetrics, Parent
from .refs import Refs


@dataclass(frozen=True)
class Origin:
    """The place at which the next commit of a branch is made: after `head`, or after version -1 without one."""

    refs: Refs
    branch: str
    head: Commit | None

    @property
    def number(self) -> int:
        """The version that the next commit makes."""
        return 0 if self.head is None else self.head.version + 1

    @property
    def parent(self) -> Parent:
        """What the next plan and commit record as their parent."""
        return self.refs.start if self.head is None else self.head.as_parent


def successor(origin: Origin, kind: Kind, changes: Changes) -> Commit:
    """Return the commit of a kind that follows `origin`. `InternalError` for a change that the kind may not make."""
    wrong = sorted(changes.keys() - KINDS[kind].changes - RECORDED)
    if wrong:
        raise InternalError(f"make a {kind} commit: it may not change {', '.join(wrong)}")
    made = dataclasses.replace(_inherited(origin), kind=kind, **changes)
    if origin.head is not None and made.batch_time_ms < origin.head.batch_time_ms and not KINDS[kind].goes_back:
        raise InternalError(
            f"make a {kind} commit: its batch time {made.batch_time_ms} is before that of version "
            f"{origin.head.version}, {origin.head.batch_time_ms}"
        )
    return made


def _inherited(origin: Origin) -> Commit:
    """Return a commit that changes nothing: what lasts is that of the head, what is about one batch is empty."""
    head, refs = origin.head, origin.refs
    return Commit(
        version=origin.number,
        kind="void",
        attempt="",
        plan_id="",
        branch=origin.branch,
        pipeline_uuid=refs.uuid,
        parent=origin.parent,
        refs_through=refs.through,
        refs_checksum=refs.refs_checksum,
        batch_time_ms=0 if head is None else head.batch_time_ms,
        watermarks={} if head is None else head.watermarks,
        event_time={} if head is None else _lasting(head.event_time),
        state={} if head is None else head.state,
        rows={} if head is None else head.rows,
        ledger=refs.ledger if head is None else head.ledger,
        outputs={},
        quarantine=[],
        counts=Counts(),
        operators={} if head is None else totals(head.operators),
        schemas={} if head is None else head.schemas,
        sinks={} if head is None else head.sinks,
        sources={} if head is None else head.sources,
        positions={} if head is None else head.positions,
        sinks_read=[] if head is None else head.sinks_read,
        code={},
        next_deadline={} if head is None else head.next_deadline,
        published_through=-1,
        committed_ms=0,
        renamed=[] if head is None else head.renamed,
        waiting=[] if head is None else head.waiting,
        replaced=[] if head is None else head.replaced,
        shown_by=[] if head is None else head.shown_by,
        forgotten_at=last_forget(head),
        rewrote_at=last_rewrite(head),
        promotions=[] if head is None else head.promotions,
    )


def taken_over(commit: Commit) -> Changes:
    """Return what a rewind or a promotion takes from a commit, unchanged."""
    return cast("Changes", {name: getattr(commit, name) for name in RESTORED})


def restored(origin: Origin, target: Commit | None) -> Changes:
    """Return the changes by which the commit after `origin` has everything as of `target`. None: version -1.

    Operators that `init` removed since then stay removed.
    """
    refs = origin.refs
    like = _inherited(Origin(refs, origin.branch, target))
    changes = taken_over(like)
    removed = {present_name(name, (), like.renamed) for name in refs.former}
    state = {name: maps for name, maps in like.state.items() if name not in removed}
    rows = {name: maps for name, maps in like.rows.items() if name in state or name == LEDGER}
    operators = {name: metrics for name, metrics in like.operators.items() if name in state}
    schemas = {name: schema for name, schema in like.schemas.items() if name not in removed}
    changes |= {"state": state, "rows": rows, "operators": operators, "schemas": schemas}
    changes |= {"sinks": _shown(origin.head, target), "replaced": replaced_at(origin.number, target)}
    changes["restores"] = refs.start if target is None else target.as_parent
    return changes


def _shown(head: Commit | None, target: Commit | None) -> dict[str, Any]:
    """Return the sinks of the head, with the columns and format of `target`, because only its rows stay published.

    A sink that has another place since, or that `target` does not have, is as in the head.
    """
    now, then = ({} if one is None else one.sinks for one in (head, target))
    return {
        name: {**then[name], "owner": sink.get("owner")}
        if name in then and then[name].get("uri") == sink.get("uri")
        else sink
        for name, sink in now.items()
    }


def _lasting(event_time: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Return the times that do not describe one batch: the batch time of the last batch with event times."""
    return {name: {"active": times["active"]} for name, times in event_time.items() if "active" in times}


def totals(operators: Mapping[str, OperatorMetrics]) -> dict[str, OperatorMetrics]:
    """Return what lasts of the metrics of operators: how many rows they have, and how many bytes."""
    return {
        name: OperatorMetrics(rows_total=metrics.rows_total, state_bytes=metrics.state_bytes)
        for name, metrics in operators.items()
    }
