"""`Replacements`: what a `forget` has replaced of earlier versions, and these versions as they are since then. Pure.

Records never change, so a version from before such a `forget` still names the objects that are gone. INVARIANT: whoever
reads it applies the replacements of all later ones, so what it names is there, and has none of the forgotten keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

from ..values import dataclass
from .records import (
    AddedOutput,
    Commit,
    OperatorMetrics,
    OutputFile,
    Plan,
    QuarantineFile,
    ReplacedObject,
    Segment,
    Split,
)
from .refs import MAIN, Refs
from .tiling import State

_Named = TypeVar("_Named", Segment, OutputFile)
_Maps = Mapping[str, Sequence[Segment]]


@dataclass(frozen=True)
class Replacements:
    """The objects in the place of others, by old name, and by version of `main` the live rows that its maps lack."""

    objects: Mapping[str, ReplacedObject] = field(default_factory=dict)
    rows: Mapping[int, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, forgets: Iterable[Commit]) -> Replacements:
        """Return what commits have replaced, oldest first. A later one may replace what an earlier one has stored."""
        objects: dict[str, ReplacedObject] = {}
        rows: dict[int, dict[str, dict[str, int]]] = {}
        for commit in forgets:
            ours = {one.old: one for one in commit.replaced_objects}
            for old, one in objects.items():
                if one.name in ours:
                    later = ours[one.name]
                    objects[old] = dataclasses.replace(later, old=old, without=_both(one.without, later.without))
            objects |= ours
            for removed in commit.removed_rows:
                maps = rows.setdefault(removed.version, {}).setdefault(removed.operator, {})
                maps[removed.map] = maps.get(removed.map, 0) + removed.rows
        return cls(objects, rows)

    def commit(self, commit: Commit) -> Commit:
        """Return a commit as it is since."""
        found = dataclasses.replace(
            commit,
            state=self.state(commit.state),
            outputs={sink: self._present(files) for sink, files in commit.outputs.items()},
            adds={sink: [self._added(one) for one in added] for sink, added in commit.adds.items()},
            quarantine=[self._quarantine(file) for file in commit.quarantine],
            requeued=[self.split(one) for one in commit.requeued],
            waiting=[self.split(one) for one in commit.waiting],
        )
        removed = self.rows.get(commit.version, {}) if commit.branch == MAIN else {}
        return with_fewer_rows(found, removed) if removed else found

    def plan(self, plan: Plan) -> Plan:
        """Return a plan with the requeued rows that are left."""
        return dataclasses.replace(plan, splits=tuple(self.split(one) for one in plan.splits))

    def state(self, state: State) -> State:
        """Return segments by operator and map as they are since."""
        return {operator: self.maps(maps) for operator, maps in state.items()}

    def maps(self, maps: _Maps) -> dict[str, list[Segment]]:
        """Return segments by map as they are since."""
        return {name: self._present(segments) for name, segments in maps.items()}

    def seeds(self, refs: Refs) -> dict[str, dict[str, list[Segment]]]:
        """Return the initial state that was replaced, by operator."""
        found = {name: (seeds.maps, self.maps(seeds.maps)) for name, seeds in refs.seeds.items()}
        return {name: after for name, (before, after) in found.items() if after != before}

    def split(self, split: Split) -> Split:
        """Return a split with the requeued rows that are left. Its path and its ETag are those of the first object."""
        held = split.requeued
        one = None if held is None else self.objects.get(held.name)
        if held is None or one is None:
            return split
        left = dataclasses.replace(held, name=one.name, checksum=one.checksum, without=_both(held.without, one.without))
        return dataclasses.replace(split, size=one.size, requeued=left)

    def _added(self, added: AddedOutput) -> AddedOutput:
        return dataclasses.replace(added, files=self._present(added.files))

    def _present(self, named: Iterable[_Named]) -> list[_Named]:
        """Return segments or output files, without those that have no row left."""
        found = []
        for one in named:
            by = self.objects.get(one.name)
            if by is None:
                found.append(one)
            elif by.name:
                same = {name: getattr(by, name) for name in ("name", "checksum", "size", "rows", "etag")}
                found.append(dataclasses.replace(one, **same))
        return found

    def _quarantine(self, file: QuarantineFile) -> QuarantineFile:
        by = self.objects.get(file.name)
        return file if by is None else QuarantineFile(by.name, by.checksum, by.size, by.rows)


def with_fewer_rows(commit: Commit, removed: Mapping[str, Mapping[str, int]]) -> Commit:
    """Return a commit of which some live rows, by operator and map, were removed."""
    rows, operators = dict(commit.rows), dict(commit.operators)
    for operator, maps in removed.items():
        if operator in rows:
            rows[operator] = {name: count - maps.get(name, 0) for name, count in rows[operator].items()}
        if operator in operators and rows.get(operator):
            operators[operator] = _with_total(operators[operator], next(iter(rows[operator].values())))
    return dataclasses.replace(commit, rows=rows, operators=operators)


def _with_total(metrics: OperatorMetrics, rows: int) -> OperatorMetrics:
    return dataclasses.replace(metrics, rows_total=rows)


def _both(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({*one, *other}))
