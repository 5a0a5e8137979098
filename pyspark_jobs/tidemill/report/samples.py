"""Examples for a report: late and quarantined rows, the diff of a branch, and look-ups of keys. Read only.

INVARIANT: each returns a bounded number of rows. If something that the caller asked for cannot be read, an error is
raised; anything else that cannot be read is listed as a problem of the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..branches.branch import BranchInfo
from ..branches.level import level_of
from ..errors import CorruptState, InvalidInput
from ..protocol.records import Commit
from ..reading import read
from ..reading.diff import DiffReport, DiffRequest, diff
from ..reading.diff_outputs import OutputDiff
from ..reading.diff_state import StateDiff
from ..reading.history import KeyVersion, history
from ..repo.open import on_branch
from ..repo.opened import Opened
from .data import Diff, DiffPart, LookUp
from .points import Names
from .values import json_value, rows_for_json

if TYPE_CHECKING:
    from .collect import Problems

_EXAMPLES = 5
MOST_STATE_ROWS = 20
MOST_HISTORY = 200
WITH_FILES = 20
"""For how many of the newest versions of a key the input files are named. Each costs a request."""
_MOST_FILES = 3


def late_rows(commits: Sequence[Commit], names: Names) -> list[dict[str, Any]]:
    """Return a few late rows of the newest commits."""
    found: list[dict[str, Any]] = []
    for commit in reversed(commits):
        for one in commit.late_examples[: _EXAMPLES - len(found)]:
            place = {"file": json_value(one.file), "row": one.row}
            times = {"event_time_ms": one.time_ms, "watermark_ms": one.watermark_ms}
            found.append({"version": names.label(commit.branch, commit.version), "operator": one.operator,
                          **place, **times})  # fmt: skip
    return found


def quarantine_samples(repo: Opened, commits: Sequence[Commit], problems: Problems) -> list[dict[str, Any]]:
    """Return a few rows of the newest version that quarantined any."""
    newest = next((one for one in reversed(commits) if one.quarantine), None)
    if newest is None:
        return []
    try:
        return rows_for_json(read.quarantine(repo, newest.version, _EXAMPLES))
    except (CorruptState, InvalidInput) as error:
        problems.add(error)
        return []


def start_of(branch: BranchInfo) -> str | None:
    """Return the version from which a branch starts, None for `main`."""
    return None if branch.fork_branch is None else f"{branch.fork_branch}@{branch.fork_version}"


def diff_of(
    repo: Opened,
    branches: Sequence[BranchInfo],
    asked: tuple[int | str, int | str] | bool | None,
    problems: Problems,
) -> Diff | None:
    """Return the diff that was asked for, or by default that of the open or newest branch and its origin."""
    if isinstance(asked, tuple | list):
        return _diff(repo, *asked)
    try:
        versions = _default(repo, branches) if asked is None else None
        return None if versions is None else _diff(repo, *versions)
    except (CorruptState, InvalidInput) as error:
        problems.add(error)
        return None


def _default(repo: Opened, branches: Sequence[BranchInfo]) -> tuple[str, str] | None:
    """Return the newest version of a branch, and the version with which `check` compares it."""
    forks = [one for one in branches if one.fork_branch is not None]
    chosen = next((one for one in forks if one.id == repo.branch), forks[-1] if forks else None)
    origin = None if chosen is None else next((one for one in branches if one.name == chosen.fork_branch), None)
    if chosen is None or origin is None:  # the branch from which it starts was dropped
        return None
    level = level_of(on_branch(repo, origin.name), on_branch(repo, chosen.name))
    return level.label, f"{chosen.name}@{chosen.head}"


def _diff(repo: Opened, a: int | str, b: int | str) -> Diff:
    found = diff(repo, a, b, DiffRequest(limit=_EXAMPLES))
    assert isinstance(found, DiffReport)
    parts = [*map(_of_state, found.operators.values()), *map(_of_sink, found.sinks.values())]
    return Diff(found.before, found.after, parts, {name: json_value(why) for name, why in found.problems.items()})


def _of_state(found: StateDiff) -> DiffPart:
    examples = []
    for row in rows_for_json(found.table):
        before, after = row.pop("before", None), row.pop("after", None)
        examples.append({"key": row, "before": before, "after": after})
    notes = [f"not compared: {why}" for why in found.not_compared]
    if found.deadlines:
        notes.insert(0, f"{found.deadlines:,} more with the same state and another deadline")
    notes += [f"variable `{name}`: {count:,} rows differ" for name, count in found.variables.items()]
    return DiffPart("operator", found.operator, found.added, found.removed, found.changed, examples, notes)


def _of_sink(found: OutputDiff) -> DiffPart:
    examples = [
        {"side": side, "row": row}
        for side, rows in (("removed", found.removed_rows), ("added", found.added_rows))
        for row in rows_for_json(rows.slice(0, _EXAMPLES))
    ]
    notes = [f"not compared: {why}" for why in found.not_compared]
    return DiffPart("sink", found.sink, found.added, found.removed, None, examples, notes)


def look_up_key(repo: Opened, operator: str, key: Any) -> LookUp:
    """Return the state of a key and its history. `InvalidInput` for an unknown operator, or a key that does not fit."""
    rows = read.state(repo, operator, None, None, [key], None, None, None, False)
    versions = history(repo, operator, key, None, False)
    newest = versions[-MOST_HISTORY:]
    listed = [_of_version(one, len(newest) - number <= WITH_FILES) for number, one in enumerate(newest)]
    return LookUp(operator, json_value(key), rows_for_json(rows.slice(0, MOST_STATE_ROWS)), listed, len(versions))


def _of_version(one: KeyVersion, with_files: bool) -> dict[str, Any]:
    files = one.files if with_files else []
    more = [f"… {len(files) - _MOST_FILES} more"] if len(files) > _MOST_FILES else []
    return {
        "version": one.version, "branch": one.branch, "kind": one.kind,
        "batch_time_ms": one.batch_time_ms, "value": json_value(one.value),
        "reason": json_value(one.reason), "files": [json_value(name) for name in files[:_MOST_FILES]] + more,
        "is_oldest": one.is_oldest,
    }  # fmt: skip
