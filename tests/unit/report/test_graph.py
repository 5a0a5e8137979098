"""The graph of commits: what stands alone, and what becomes a run."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from tidemill.protocol.kinds import KINDS
from tidemill.report.data import BranchLine, GraphCommit
from tidemill.report.graph import NEWEST, graph_of


def point(version: int, branch: str = "main", **fields: Any) -> GraphCommit:
    plain = GraphCommit(
        label=f"{branch}@{version}", version=version, branch=branch, kind="batch", carries_out=True,
        parent=f"{branch}@{version - 1}",
        batch_time_ms=version, committed_ms=version, rows=1, applied_rows=1, late_rows=0, kept_late_rows=0,
        quarantined_rows=0, quarantined_files=0,
        files=1, bytes=1, outputs={}, durations_ms={}, watermarks={}, state={}, outstanding_files=0,
        oldest_waiting_ms=None, undone=False,
    )  # fmt: skip
    kind = fields.get("kind", "batch")
    return dataclasses.replace(plain, **{"carries_out": KINDS[kind].carries_out, **fields})


def cells(points: list[GraphCommit], *others: BranchLine) -> list[tuple[int, int]]:
    newest = max(one.version for one in points if one.branch == "main")
    return graph_of(points, [BranchLine("main", None, newest), *others]).cells


def test_plain_batches_become_a_run_and_the_newest_stand_alone() -> None:
    newest = [(version, version) for version in range(100 - NEWEST, 100)]
    assert cells([point(version) for version in range(100)]) == [(0, 99 - NEWEST), *newest]


def test_corrections_tags_and_what_they_refer_to_stand_alone() -> None:
    points = [point(version) for version in range(60)]
    points[20] = point(20, kind="rewind", restores="main@10")
    points[30] = point(30, tags=("month-end",))
    points[40] = point(40, kind="sweep")
    found = cells(points)
    assert {(10, 10), (20, 20), (30, 30)} <= set(found) and (40, 40) not in found


def test_a_run_never_mixes_undone_commits_with_others() -> None:
    points = [point(version, undone=11 <= version <= 19) for version in range(60)]
    points[20] = point(20, kind="rewind", restores="main@10")
    assert (11, 19) in cells(points)


def test_a_branch_begins_where_it_starts_and_runs_break_where_it_ends() -> None:
    points = [point(version) for version in range(80)] + [point(version, "fix") for version in range(21, 41)]
    found = graph_of(points, [BranchLine("main", None, 79), BranchLine("fix", "main@20", 40), BranchLine("x", None, 1)])
    assert found.lanes == ["main", "fix"]
    starts = {first for first, _ in found.cells}
    assert {20, 21, 41} <= starts and (20, 20) in found.cells


def test_missing_versions_leave_a_gap_not_a_run_across_it() -> None:
    assert cells([point(version) for version in [*range(10), *range(20, 60)]])[:2] == [(0, 9), (20, 53)]
    assert graph_of([], [BranchLine("main", None, -1)]).cells == []


def test_cells_cover_every_version_once_in_order_and_alike() -> None:
    chance = random.Random(7)
    for _ in range(200):
        points = []
        for branch in ("main", "fix", "try"):
            first = chance.randrange(30)
            for version in range(first, first + chance.randrange(1, 40)):
                kind = chance.choice(["batch"] * 9 + ["skip"])
                points.append(point(version, branch, undone=chance.random() < 0.3, kind=kind))
        branches = [
            BranchLine(name, None, max(one.version for one in points if one.branch == name))
            for name in ("main", "fix", "try")
        ]
        found = graph_of(points, branches).cells
        versions = [version for first, last in found for version in range(first, last + 1)]
        assert versions == sorted({one.version for one in points})
        for first, last in found:
            for name in ("main", "fix", "try"):
                inside = [one for one in points if one.branch == name and first <= one.version <= last]
                assert len({one.undone for one in inside}) <= 1
                assert first == last or len(inside) in (0, last - first + 1)
                assert first == last or {one.kind for one in inside} <= {"batch"}
