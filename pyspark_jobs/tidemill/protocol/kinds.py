"""The kinds of commits: what a commit of each kind may change, and what follows from its kind.

The table `KINDS` is the whole rule, a row for each kind. INVARIANT: other modules ask a column of it, and compare no
kind by its name. `Changes` has the types of what may change.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, TypedDict

from ..values import dataclass
from .bounds import Count, EventMs, Ms, Number, Version
from .records import (
    REWRITE,
    AddedOutput,
    Commit,
    Counts,
    Forgotten,
    Furthest,
    Kind,
    LateRow,
    OperatorMetrics,
    OutputFile,
    Parent,
    QuarantineFile,
    RemovedRows,
    Renamed,
    ReplacedObject,
    Segment,
    Shown,
    SinkRead,
    SkippedFile,
    Split,
    VersionOf,
)

Replayed = Literal["plan", "skips", "requeues", "nothing", "refused"]
"""What a replay does at a version: it carries out its plan again, skips the same files again, requeues the same rows
again, passes it, because it leaves nothing to repeat, or refuses to pass it. Whatever the kind, files that a correction
has skipped are skipped again."""


class Changes(TypedDict, total=False):
    """What commits change, with the fields of `Commit`."""

    attempt: str
    plan_id: str
    code: dict[str, Any]
    airflow: dict[str, str]
    published_through: Version
    committed_ms: Ms
    replays: VersionOf | None
    computed: list[str]
    asked: str
    reason: str | None
    batch_time_ms: Ms
    watermarks: dict[str, EventMs]
    event_time: dict[str, dict[str, EventMs]]
    state: dict[str, dict[str, list[Segment]]]
    rows: dict[str, dict[str, Count]]
    ledger: list[Segment]
    outputs: dict[str, list[OutputFile]]
    quarantine: list[QuarantineFile]
    counts: Counts
    operators: dict[str, OperatorMetrics]
    schemas: dict[str, dict[str, Any]]
    sinks: dict[str, dict[str, Any]]
    sources: dict[str, dict[str, Any]]
    positions: dict[str, str]
    sinks_read: list[SinkRead]
    next_deadline: dict[str, EventMs]
    withdraws: dict[str, list[VersionOf]]
    adds: dict[str, list[AddedOutput]]
    skipped: list[SkippedFile]
    renamed: list[Renamed]
    state_changes: dict[str, list[str]]
    requeued: list[Split]
    released: list[SkippedFile]
    waiting: list[Split]
    restores: Parent | None
    replaced: list[tuple[Number, Number]]
    shown_by: list[Shown]
    forgotten: list[Forgotten]
    replaced_objects: list[ReplacedObject]
    removed_rows: list[RemovedRows]
    promoted: Parent | None
    promotions: list[Number]
    furthest: dict[str, Furthest]
    late_examples: list[LateRow]
    durations_ms: dict[str, Count]
    peak_memory_bytes: Count
    outstanding_files: Count
    outstanding_bytes: Count
    oldest_waiting_ms: EventMs | None
    engine: dict[str, str]
    requires: list[str]


RECORDED = frozenset(
    {
        "attempt", "plan_id", "code", "airflow", "published_through", "committed_ms", "replays", "computed", "asked",
        "requires",
    }
)  # fmt: skip
"""What each commit says about itself, whatever its kind."""
BATCH = frozenset({
    "batch_time_ms", "watermarks", "event_time", "state", "rows", "ledger", "outputs", "quarantine", "counts",
    "operators", "schemas", "sinks", "sources", "positions", "next_deadline", "furthest", "late_examples",
    "durations_ms", "peak_memory_bytes", "outstanding_files", "outstanding_bytes", "oldest_waiting_ms", "engine",
    "waiting", "renamed", "state_changes", "skipped", "sinks_read",
})  # fmt: skip
"""What a batch or sweep makes."""
RESTORED = frozenset({
    "batch_time_ms", "watermarks", "event_time", "state", "rows", "ledger", "operators", "schemas", "sources",
    "positions", "next_deadline", "waiting", "renamed", "sinks_read",
})  # fmt: skip
"""What a rewind takes from the version that it restores."""
_SHOWN = frozenset({"withdraws", "adds", "shown_by"})
"""What a commit says that changes what sinks show of earlier versions."""
_BACK = _SHOWN | {"reason", "replaced", "sinks"}
"""What rewinds and promotions say of themselves and of the sinks."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What follows from the kind of a commit."""

    changes: frozenset[str]
    """The fields that it may change. Everything else is inherited, or empty if it is about one batch."""
    replayed: Replayed = "refused"
    carries_out: bool = False
    """Whether it carries out a plan: operators and functions of sinks run."""
    reads: bool = False
    """Whether its plan reads files or requeued rows."""
    abandons: bool = False
    """Whether it leaves an open plan without a batch."""
    goes_back: bool = False
    """Whether its batch time may be before that of the head."""
    withdraws: bool = False
    """Whether it withdraws published files."""
    adds_published: bool = False
    """Whether what it adds to sinks was published before."""
    same_rows: bool = False
    """Whether what it adds to a sink has the rows that it withdraws, in other files."""
    of_branch: bool = False
    """Whether its outputs and its quarantine are those of another branch, under the numbers of its versions."""
    brings_operators: str = ""
    """How `refs/` says that the operators of a version came with it. Empty: they came with `init`, as for most."""
    noun: str = ""
    """What it is called, if not by its kind."""

    @property
    def is_of_plan(self) -> bool:
        """Whether it depends on its plan alone, so that two attempts at it are the same commit."""
        return self.carries_out or self.abandons


KINDS: dict[Kind, Rules] = {
    "batch": Rules(changes=BATCH, replayed="plan", carries_out=True, reads=True),
    "sweep": Rules(changes=BATCH, replayed="plan", carries_out=True),
    "void": Rules(changes=frozenset({"reason"}), replayed="nothing", abandons=True, noun="void commit"),
    "skip": Rules(changes=frozenset({"reason", "ledger", "rows", "skipped"}), replayed="skips"),
    "reset": Rules(
        changes=frozenset({"reason", "watermarks", "batch_time_ms", "next_deadline"}), goes_back=True
    ),
    "migrate": Rules(
        changes=frozenset(
            {"reason", "state", "rows", "schemas", "operators", "next_deadline", "renamed", "state_changes"}
        )
    ),
    "requeue": Rules(
        changes=frozenset({"reason", "ledger", "rows", "requeued", "released", "waiting"}), replayed="requeues"
    ),
    "rewind": Rules(
        changes=RESTORED | _BACK | {"restores", "skipped", "quarantine", "promoted", "promotions"},
        replayed="nothing", goes_back=True, withdraws=True, adds_published=True, brings_operators="rewound in version",
    ),
    "promote": Rules(
        changes=RESTORED | _BACK | {"quarantine", "promoted", "promotions"}, withdraws=True, of_branch=True,
        brings_operators="promoted in version",
    ),
    "forget": Rules(
        changes=_SHOWN | {
            "reason", "state", "rows", "operators", "quarantine", "forgotten", "replaced_objects", "removed_rows",
            "requires",
        },
        withdraws=True,
    ),
    "compact": Rules(changes=_SHOWN | {"reason"}, replayed="nothing", withdraws=True, same_rows=True),
    "fill": Rules(changes=frozenset({"reason", "adds", "shown_by", "sinks"}), replayed="nothing"),
}  # fmt: skip


_INSIDE = {
    kind: dataclasses.replace(rules, replayed="refused", adds_published=False, of_branch=True)
    for kind, rules in KINDS.items()
    if {"promoted", "restores"} <= rules.changes
}
"""A rewind to a version inside of what a promotion has taken over is a promotion of that version, which goes back."""


_REWRITING = {
    kind: dataclasses.replace(rules, replayed="nothing")
    for kind, rules in KINDS.items()
    if "replaced_objects" in rules.changes
}
"""A `forget` that has rewritten earlier versions: a replay of these leaves the keys out, so it need not be repeated."""


def rules_of(commit: Commit) -> Rules:
    """Return what follows from the kind of a commit, and from what it takes over or has rewritten."""
    if commit.kind in _REWRITING and REWRITE in commit.requires:
        return _REWRITING[commit.kind]
    return KINDS[commit.kind] if commit.promoted is None else _INSIDE.get(commit.kind, KINDS[commit.kind])
