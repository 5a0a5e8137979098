"""The graph of commits: which of them stand alone, and which become a run of plain batches. Pure.

INVARIANT: all commits of one branch in a run are undone, or none of them is; a run has only batches and sweeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .data import BranchLine, GraphCommit, GraphLayout

NEWEST = 6
"""How many of the newest commits of a branch stand alone."""


def graph_of(points: Sequence[GraphCommit], branches: Sequence[BranchLine]) -> GraphLayout:
    """Return the lanes and cells of commits, of which each has its branch and version."""
    known = {point.label: point for point in points}
    versions = sorted({point.version for point in points})
    alone = _alone(points, branches)
    before: dict[int, bool] = {}
    for point in points:
        left = known.get(f"{point.branch}@{point.version - 1}")
        begins = left is None or left.undone != point.undone
        before[point.version] = before.get(point.version, False) or begins
        if f"{point.branch}@{point.version + 1}" not in known:
            before[point.version + 1] = True
    cells: list[tuple[int, int]] = []
    for version in versions:
        last = cells[-1][1] if cells else None
        if last != version - 1 or version in alone or last in alone or before.get(version, False):
            cells.append((version, version))
        else:
            cells[-1] = (cells[-1][0], version)
    there = {point.branch for point in points}
    return GraphLayout([one.name for one in branches if one.name in there], cells)


def _alone(points: Sequence[GraphCommit], branches: Sequence[BranchLine]) -> set[int]:
    """Return the versions that stand alone: corrections, tags, ends of branches, and what other commits refer to."""
    heads = {one.name: one.head for one in branches}
    found = {version for one in branches if one.fork for version in _version(one.fork)}
    for point in points:
        is_plain = point.carries_out and not point.tags
        if not is_plain or point.version > heads.get(point.branch, -1) - NEWEST:
            found.add(point.version)
        found.update(_version(point.restores))
        found.update(_version(point.promoted))
    return found


def _version(label: str | None) -> Iterable[int]:
    """Return the number of a version such as `main@5`, in a list; no version: an empty list."""
    return [] if label is None else [int(label.rpartition("@")[2])]
