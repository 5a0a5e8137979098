"""What a report says, as dataclasses of plain values: `as_dict()` is ready for `json.dumps`. No I/O here.

INVARIANT: no field holds a credential, and no value is a number that JavaScript cannot represent exactly.
"""

from __future__ import annotations

import dataclasses
from dataclasses import field
from typing import Any

from ..protocol.records import Kind
from ..values import dataclass


@dataclass(frozen=True)
class GraphCommit:
    """One commit. `branch` is a name; times are ms since the epoch; `label` is how users write it, such as `main@5`."""

    label: str
    version: int
    branch: str
    kind: Kind
    carries_out: bool
    """Whether it carried out a plan. Otherwise it is a correction."""
    parent: str
    """The version that it follows. `main@-1` is what `init` made."""
    batch_time_ms: int
    committed_ms: int
    rows: int
    applied_rows: int
    late_rows: int
    """Late rows that were dropped or quarantined."""
    kept_late_rows: int
    """Late rows that were applied, with `late="keep"`."""
    quarantined_rows: int
    quarantined_files: int
    """Files that went to quarantine as a whole."""
    files: int
    bytes: int
    outputs: dict[str, int]
    """Rows committed for each sink."""
    durations_ms: dict[str, int]
    watermarks: dict[str, int | None]
    """By watermark; None as long as no event has moved it."""
    state: dict[str, tuple[int, int]]
    """By operator: number of rows, and stored bytes."""
    outstanding_files: int
    """Files that waited when the batch was planned."""
    oldest_waiting_ms: int | None
    undone: bool
    """Whether a rewind or a promotion undid it."""
    reason: str | None = None
    restores: str | None = None
    """The version that a rewind restores."""
    promoted: str | None = None
    """The version whose state a promotion takes over."""
    replays: str | None = None
    """The version of another branch that it repeats."""
    tags: tuple[str, ...] = ()
    failures: dict[str, str] = field(default_factory=dict)
    """By operator: the reason of one failed key."""
    airflow: dict[str, str] = field(default_factory=dict)
    engine: dict[str, str] = field(default_factory=dict)

    @property
    def duration_ms(self) -> int:
        """How long the batch took."""
        return sum(self.durations_ms.values())


@dataclass(frozen=True)
class WatermarkStatus:
    """A watermark of the head, and how far it is behind the batch time and behind now; None before its first event."""

    name: str
    time_ms: int | None
    behind_batch_time_ms: int | None
    behind_now_ms: int | None


@dataclass(frozen=True)
class OperatorState:
    """The state of an operator at the head. `bytes` is the stored size."""

    name: str
    kind: str
    key: list[str]
    rows: int
    bytes: int


@dataclass(frozen=True)
class BranchLine:
    """A branch, the version from which it starts (None for `main`), and its newest version (-1: it has none)."""

    name: str
    fork: str | None
    head: int
    shown: bool = True
    """Whether the report has commits of the branch. It has those of the newest branches."""


@dataclass(frozen=True)
class GraphLayout:
    """How commits are laid out. `cells` are ranges of versions, left to right: one commit, or a run of plain batches.

    `lanes` are names of branches, top to bottom.
    """

    lanes: list[str]
    cells: list[tuple[int, int]]


@dataclass(frozen=True)
class DiffPart:
    """How an operator's state (`what` is `operator`) or a sink's rows (`sink`) differ, with the first few examples.

    An example of state has `key`, `before` and `after`; one of a sink has `side` and `row`.
    """

    what: str
    name: str
    added: int
    removed: int
    changed: int | None
    examples: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Diff:
    """How two versions differ. `problems` says by operator or sink why it cannot be compared."""

    before: str
    after: str
    parts: list[DiffPart]
    problems: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LookUp:
    """The state of one key at the head, and the versions that changed it, oldest first.

    `changes` counts all of them; `history` has the newest.
    """

    operator: str
    key: Any
    state: list[dict[str, Any]]
    history: list[dict[str, Any]]
    changes: int


@dataclass(frozen=True)
class Report:
    """Everything that the page of a report shows. `Repository.report` returns it.

    `commits` are the newest versions of the branch, oldest first, with those that were undone; `others` are commits of
    other branches, for the graph. `head` is the last of `commits`, None before the first batch. `problems` says what
    could not be read.
    """

    tidemill: str
    pipeline: str
    uri: str
    branch: str
    made_ms: int
    time_zone: str
    head: GraphCommit | None
    watermarks: list[WatermarkStatus]
    next_deadline_ms: dict[str, int]
    published_through: int
    """The lower bound that the head records. -1: nothing is known to be published."""
    kept_from: int
    """The lowest version of which everything is kept; 0 if nothing was discarded."""
    tags: dict[str, str]
    operators: list[OperatorState]
    branches: list[BranchLine]
    dropped: list[str]
    """Ids of branches that were dropped."""
    commits: list[GraphCommit]
    others: list[GraphCommit]
    graph: GraphLayout
    late: list[dict[str, Any]]
    """A few late rows, newest first."""
    quarantined: list[dict[str, Any]]
    """A few rows of the newest version that quarantined any."""
    diff: Diff | None = None
    look_ups: list[LookUp] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as dicts, lists, texts and numbers, ready for JSON."""
        return dataclasses.asdict(self)
