"""From the record of a commit to a `GraphCommit` of a report. Pure.

INVARIANT: a point has a bounded size. Names of segments and files stay behind.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..protocol.kinds import KINDS
from ..protocol.records import Commit, Parent
from ..protocol.refs import TaggedVersion
from ..values import dataclass
from .data import GraphCommit
from .values import json_value


@dataclass(frozen=True)
class Names:
    """The names of branches by their ids, and the tags. A branch that was dropped has only its id."""

    branches: Mapping[str, str]
    tags: Mapping[str, TaggedVersion]

    def label(self, branch: str, version: int) -> str:
        """Return how users write a version.

        >>> Names({"fix-3": "fix"}, {}).label("fix-3", 12)
        'fix@12'
        """
        return f"{self.branches.get(branch, branch)}@{version}"

    def parent(self, parent: Parent | None) -> str | None:
        """Return the label of a parent, which is `main@-1` for the init record, and None for None."""
        if parent is None:
            return None
        return self.label(parent.branch or "main", parent.version)


def point_of(commit: Commit, names: Names, undone: bool) -> GraphCommit:
    """Return what a report says of a commit."""
    counts = commit.counts
    return GraphCommit(
        label=names.label(commit.branch, commit.version),
        version=commit.version,
        branch=names.branches.get(commit.branch, commit.branch),
        kind=commit.kind,
        carries_out=KINDS[commit.kind].carries_out,
        parent=names.parent(commit.parent) or "",
        batch_time_ms=commit.batch_time_ms,
        committed_ms=commit.committed_ms,
        rows=counts.input_rows,
        applied_rows=counts.applied_rows,
        late_rows=counts.late_rows,
        kept_late_rows=counts.kept_late_rows,
        quarantined_rows=counts.quarantined_rows,
        quarantined_files=counts.quarantined_files,
        files=counts.input_files,
        bytes=counts.input_bytes,
        outputs={name: sum(file.rows for file in files) for name, files in commit.outputs.items()},
        durations_ms=dict(commit.durations_ms),
        watermarks={name: value or None for name, value in commit.watermarks.items()},
        state={name: (one.rows_total, one.state_bytes) for name, one in commit.operators.items()},
        outstanding_files=commit.outstanding_files,
        oldest_waiting_ms=commit.oldest_waiting_ms,
        undone=undone,
        reason=json_value(commit.reason),
        restores=names.parent(commit.restores),
        promoted=names.parent(commit.promoted),
        replays=None if commit.replays is None else names.label(commit.replays.branch, commit.replays.version),
        tags=tuple(
            name for name, one in names.tags.items() if (one.branch, one.version) == (commit.branch, commit.version)
        ),
        failures={name: json_value(one.failure) for name, one in commit.operators.items() if one.failure},
        airflow=dict(commit.airflow),
        engine=dict(commit.engine),
    )
