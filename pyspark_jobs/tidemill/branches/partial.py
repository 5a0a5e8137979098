"""`Partial`: replays some operators. It computes their state and outputs, and takes everything else as recorded.

INVARIANT: at every version, what is not computed equals what the repeated version has. Code that gives an operator
upstream of the computed ones another state is refused; if it defines that operator in another way, `left_alone` says
so, because its output may differ. CRASH: nothing counts before the one commit of a version.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from .. import names
from ..errors import InvalidInput
from ..names import LEDGER, operator_of
from ..pipeline.part import Part
from ..protocol.kinds import Changes
from ..protocol.named import named
from ..protocol.records import Commit, QuarantineFile, digest
from ..publishing.owners import NOT_SHARED, described
from ..quarantine.rejects import quarantined
from ..quarantine.rows import FAILED, REJECT_SCHEMA
from ..repo.code import DEFINITIONS
from ..repo.discard import discard_names
from ..repo.opened import Opened
from ..repo.operators import committed_state
from ..schema import int64_array, string_array
from ..sinks import forms
from ..state.columns import MapColumns
from ..state.compare import Side, compared
from ..units import iso
from ..values import dataclass


@dataclass(frozen=True)
class Partial:
    """A part of the job of `repo`, which is the branch that replays."""

    repo: Opened
    part: Part

    @cached_property
    def computing(self) -> Opened:
        """The branch with only the operators that run."""
        return dataclasses.replace(self.repo, job=self.part.job)

    def merged(self, head: Commit | None, recorded: Commit, ours: Commit) -> Commit:
        """Return the commit of a version: of `ours` what was computed, of `recorded` the rest.

        `InvalidInput` if other operators would not be as recorded.

        `recorded` is the version that is repeated. What `ours` stored and the result does not name is deleted.
        """
        self._check_upstream(recorded, ours)
        made = dataclasses.replace(ours, **self._merged(head, recorded, ours))
        kept = {one.name for one in named(made)}
        discard_names(self.repo.store, [one.name for one in named(ours) if one.name not in kept], ours.attempt)
        return made

    def _merged(self, head: Commit | None, recorded: Commit, ours: Commit) -> Changes:
        chosen = self.part.chosen
        schemas = self._both(recorded.schemas, ours.schemas)
        deadlines = [one.next_deadline["batch"] for one in (recorded, ours) if "batch" in one.next_deadline]
        return {
            "watermarks": self._watermarks(recorded, ours),
            "event_time": {**recorded.event_time, **ours.event_time},
            "furthest": {**recorded.furthest, **ours.furthest},
            "late_examples": [
                *(row for row in recorded.late_examples if operator_of(row.operator) not in chosen),
                *(row for row in ours.late_examples if operator_of(row.operator) in chosen),
            ],
            "state": self._both(recorded.state, ours.state),
            "rows": self._both(recorded.rows, ours.rows) | {LEDGER: ours.rows[LEDGER]},
            "outputs": self._sinks(recorded.outputs, ours.outputs),
            "quarantine": quarantine_of(self.repo, recorded, ours, chosen),
            "counts": recorded.counts,
            "operators": self._both(recorded.operators, ours.operators),
            "schemas": schemas,
            "renamed": [] if head is None else [one for one in head.renamed if one.new in schemas],
            "sinks": self._described(head, recorded, ours),
            "sources": {**recorded.sources, **ours.sources},
            "code": ours.code | self._code(recorded, ours),
            "next_deadline": self._event_deadlines(recorded, ours)
            | ({"batch": min(deadlines)} if deadlines else {}),  # a lower bound: both have those of all that runs
            "computed": sorted(chosen),
        }

    def _check_upstream(self, recorded: Commit, ours: Commit) -> None:
        """Raise `InvalidInput` if an operator that only feeds the chosen ones has another state than recorded."""
        for name in self.part.job.operators.keys() - self.part.chosen:
            if not self._is_as_recorded(name, recorded, ours):
                raise InvalidInput(
                    f"replay version {recorded.version} with operators {', '.join(sorted(self.part.chosen))}: they "
                    f"read the output of `{name}`, and this code gives `{name}` another state than recorded",
                    hint=f"replay `{name}`, too, or restore its code",
                )

    def _is_as_recorded(self, name: str, recorded: Commit, ours: Commit) -> bool:
        sides = []
        for commit in (recorded, ours):
            maps = commit.schemas.get(name, {}).get("maps", {})
            state = committed_state(self.repo, commit).get(name, {})
            sides.append({one: Side(MapColumns.described(one, columns), state.get(one, []))
                          for one, columns in maps.items()})  # fmt: skip
        before, after = sides
        if {one: side.columns for one, side in before.items()} != {one: side.columns for one, side in after.items()}:
            return False
        store, cache = self.repo.store, self.repo.cache
        return not any(
            part.keys.num_rows for one, side in before.items() for part in compared(store, cache, side, after[one])
        )

    def _both(self, recorded: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is said of each operator: of the chosen ones by `ours`, of the others by `recorded`."""
        chosen = self.part.chosen
        others = {name: one for name, one in recorded.items() if name not in chosen}
        return others | {name: one for name, one in ours.items() if name in chosen}

    def _sinks(self, recorded: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
        others = {name: one for name, one in recorded.items() if name not in self.part.sinks}
        return dict(sorted((others | {name: one for name, one in ours.items() if name in self.part.sinks}).items()))

    def _watermarks(self, recorded: Commit, ours: Commit) -> dict[str, int]:
        """Return all watermarks. `InvalidInput` if one that other operators use moves differently."""
        shared = {name for other in self._others() for name in other}
        for name, at_ms in ours.watermarks.items():
            known = recorded.watermarks.get(name, at_ms)
            if name in shared and known != at_ms:
                raise InvalidInput(
                    f"replay version {recorded.version} with operators {', '.join(sorted(self.part.chosen))}: the "
                    f"watermark `{name}` is {iso(at_ms)}, recorded {iso(known)}, and other operators use it",
                    hint="replay all operators, or restore the declaration of the watermark",
                )
        return {**recorded.watermarks, **ours.watermarks}

    def _others(self) -> list[tuple[str, ...]]:
        """Return the watermarks of each operator that is not computed."""
        operators = self.repo.job.operators.items()
        return [placed.watermarks for name, placed in operators if name not in self.part.chosen]

    def _described(self, head: Commit | None, recorded: Commit, ours: Commit) -> dict[str, Any]:
        """Return the descriptions of all sinks. Those of others have their places of this branch, and old schemas."""
        found = self._sinks(recorded.sinks, ours.sinks)
        for name, output in self.repo.job.outputs.items():
            if name in found and name not in self.part.sinks:
                found[name] = described(self.repo, head, output, NOT_SHARED) | {"schema": found[name]["schema"]}
        return found

    def _code(self, recorded: Commit, ours: Commit) -> dict[str, Any]:
        """Return the functions and definitions: the recorded ones of all that is not computed."""
        before, now = recorded.code.get(DEFINITIONS, {}), ours.code[DEFINITIONS]
        definitions = {
            "operators": self._both(before.get("operators", {}), now["operators"]),
            "sinks": self._sinks(before.get("sinks", {}), now["sinks"]),
        }
        return {"functions": self._functions(recorded, ours), DEFINITIONS: definitions}

    def _functions(self, recorded: Commit, ours: Commit) -> dict[str, Any]:
        before = recorded.code.get("functions", {})
        others = {name: one for name, one in before.items() if name in recorded.schemas}
        steps = {name: one for name, one in ours.code["functions"].items() if name not in ours.schemas}
        return self._both(others, ours.code["functions"]) | steps

    def _event_deadlines(self, recorded: Commit, ours: Commit) -> dict[str, int]:
        def of(commit: Commit) -> dict[str, int]:
            return {name: one for name, one in commit.next_deadline.items() if name != "batch"}

        is_ours = {f"event/{name}" for name in self.part.chosen}
        others = {name: one for name, one in of(recorded).items() if name not in is_ours}
        return others | {name: one for name, one in of(ours).items() if name in is_ours}


_PLACE = ("source", "file", "line", "row", "kind", "watermark")
REPLAY = "replay"
"""The end of the names of these files."""


def quarantine_of(repo: Opened, recorded: Commit, ours: Commit, chosen: Collection[str]) -> list[QuarantineFile]:
    """Return the quarantine files of a version: of `ours` the rows that `chosen` did not take, of `recorded` the rest.

    Files are written only if that differs from what is recorded.
    """
    if not recorded.quarantine and not ours.quarantine:
        return []
    before, after = (_rows(repo, one.quarantine) for one in (recorded, ours))
    kept, fresh = _merged(before.select(REJECT_SCHEMA.names).to_pylist(),
                          after.select(REJECT_SCHEMA.names).to_pylist(), chosen)  # fmt: skip
    if not fresh and kept == dict(enumerate(before.column("operator").to_pylist())):
        return recorded.quarantine
    tables = [_taken(before, kept), _taken(after, fresh)]
    table = (
        pa.concat_tables([one for one in tables if one.num_rows], promote_options="default") if kept or fresh else None
    )
    if table is None:
        return []
    data = b"".join(staged.data for staged in forms.staged(table))
    name = names.quarantine_file(repo.branch, names.again_stem(ours.version, ours.attempt, 0, REPLAY))
    repo.store.put(name, data)
    return [QuarantineFile(name, digest(data), len(data), table.num_rows)]


def _merged(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], chosen: Collection[str]
) -> tuple[dict[int, str | None], dict[int, str]]:
    """Return the rows of `before` that stay and those of `after` that come, by place, each with its operators.

    A row that several operators did not take is in quarantine once, unless their functions failed on it.
    """
    computed: dict[tuple[Any, ...], set[str]] = {}
    failed: Counter[tuple[Any, ...]] = Counter()
    for row in after:
        ours = _chosen(_operators(row), chosen)
        if row["kind"] == FAILED and ours:
            failed[_whole(row)] += 1
        elif ours:
            computed.setdefault(_place(row), set()).update(ours)
    kept: dict[int, str | None] = {}
    for place, row in enumerate(before):
        operators = _operators(row)
        if row["kind"] == FAILED and _chosen(operators, chosen):
            if failed[_whole(row)]:
                failed[_whole(row)] -= 1
                kept[place] = row["operator"]
            continue
        now = (operators - _chosen(operators, chosen)) | computed.pop(_place(row), set())
        if now or not operators:
            kept[place] = row["operator"] if now == operators else ",".join(sorted(now))
    fresh: dict[int, str] = {}
    for place, row in enumerate(after):
        ours = _chosen(_operators(row), chosen)
        if row["kind"] == FAILED and ours and failed[_whole(row)]:
            failed[_whole(row)] -= 1
            fresh[place] = row["operator"]
        elif row["kind"] != FAILED and ours and (left := computed.pop(_place(row), None)):
            fresh[place] = ",".join(sorted(left))
    return kept, fresh


def _operators(row: dict[str, Any]) -> set[str]:
    """Return the labels of the operators that did not take a row, or of their inputs."""
    return set() if row["operator"] is None else set(row["operator"].split(","))


def _chosen(labels: Collection[str], chosen: Collection[str]) -> set[str]:
    """Return those labels whose operators are computed."""
    return {label for label in labels if names.operator_of(label) in chosen}


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells rows apart: the place in a file, or for rows without one the text."""
    has_place = row["line"] is not None or row["row"] is not None
    return (*(row[name] for name in _PLACE), None if has_place else row["text"])


def _whole(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in REJECT_SCHEMA.names)


def _rows(repo: Opened, files: Sequence[QuarantineFile]) -> pa.Table:
    tables = [quarantined(repo.store, file) for file in files]
    return pa.concat_tables([pa.Table.from_batches([], REJECT_SCHEMA), *tables], promote_options="default")


def _taken(rows: pa.Table, chosen: dict[int, Any]) -> pa.Table:
    """Return the rows at the places of `chosen`, with its operators."""
    taken = rows.take(int64_array(list(chosen)))
    return taken.set_column(taken.column_names.index("operator"), "operator", string_array(list(chosen.values())))
