"""A naive model of a pipeline: what each version has, computed row by row from the input files and the log of commits.

It reads the log's records, which say what happened, and the input files; nothing else that Tidemill stored. INVARIANT:
it raises if two versions of one history read the same file.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TIMEOUT_MS = 500
MIGRATED = 1000
"""What a migration adds to each total."""
RETURNED: Mapping[str, Any] = {"user": "back", "n": 2}
"""The row that comes back, corrected, for each row that a version quarantined: one row a file."""
Row = tuple[Any, ...]
"""The version that emitted it, and the cells."""


@dataclass(frozen=True)
class Version:
    """The totals of users with their deadlines, the counts by number, the files that are done, and all rows by sink.

    `waiting` are the paths of requeued rows that no batch has read, `readers` the versions that read files, `returned`
    those of which the quarantined rows were requeued.
    """

    users: dict[str, tuple[int, int]] = field(default_factory=dict)
    by_n: dict[int, int] = field(default_factory=dict)
    done: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()
    readers: frozenset[int] = frozenset()
    returned: frozenset[int] = frozenset()
    rows: dict[str, tuple[Row, ...]] = field(default_factory=lambda: {"users": (), "by-n": ()})


@dataclass(frozen=True)
class Happened:
    """What a commit did. `files` were read by it; `restores` is the version that a rewind restored.

    `requeued` are the paths of rows that came back. The path ends with the version that quarantined them.
    """

    version: int
    kind: str
    now_ms: int
    files: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    restores: int = -1
    requeued: tuple[str, ...] = ()


def versions(log: Iterable[Happened], inbox: Path, forgotten: str) -> list[Version]:
    """Return all versions, beginning with -1. `forgotten` is the user whom commits of the kind `forget` remove."""
    found, done = [Version()], list[Happened]()
    for one in log:
        assert one.version == len(found) - 1
        before = found[-1] if one.kind != "rewind" else found[one.restores + 1]
        if one.kind == "rewind":
            past = max((earlier.version for earlier in done if earlier.kind == "forget"), default=-1)
            assert one.restores >= past, f"version {one.version} restores what version {past} forgot"
        done.append(one)
        again = before.done & {*one.files, *one.skipped}
        assert not again, f"version {one.version} reads or skips {sorted(again)} again"
        if one.kind in ("batch", "sweep"):
            back = {name for name in one.files if name.startswith("/")}
            assert back <= before.waiting, f"version {one.version} reads requeued rows that do not wait"
            read = {one.version} if set(one.files) - back else set()
            before = dataclasses.replace(before, waiting=before.waiting - back, readers=before.readers | read)
            rows = [row for name in one.files for row in ([RETURNED] if name in back else rows_of(inbox / name))]
            before = _batch(before, one, rows)
        elif one.kind == "migrate":
            users = {name: (total + MIGRATED, deadline) for name, (total, deadline) in before.users.items()}
            before = dataclasses.replace(before, users=users)
        elif one.kind == "requeue":
            before = _requeue(before, one)
        elif one.kind == "forget":
            before = _without(before, forgotten)
        found.append(dataclasses.replace(before, done=before.done | {*one.files, *one.skipped}))
    return found


def rows_of(file: Path) -> list[Mapping[str, Any]]:
    """Return the rows of an input file that are JSON."""
    return [json.loads(line) for line in file.read_text().splitlines() if line.startswith("{")]


def _batch(before: Version, one: Happened, rows: Iterable[Mapping[str, Any]]) -> Version:
    users, by_n = dict(before.users), Counter(before.by_n)
    emitted: list[Row] = []
    touched = set()
    for row in rows:
        name, n = row["user"], row["n"]
        users[name] = users.get(name, (0, 0))[0] + n, one.now_ms + TIMEOUT_MS
        emitted.append((one.version, name, users[name][0], False))
        by_n[n] += 1
        touched.add(n)
    for name, (total, deadline) in list(users.items()):
        if deadline <= one.now_ms:
            emitted.append((one.version, name, total, True))
            del users[name]
    counted = tuple((one.version, n, by_n[n]) for n in sorted(touched))
    shown = {"users": (*before.rows["users"], *emitted), "by-n": (*before.rows["by-n"], *counted)}
    return dataclasses.replace(before, users=users, by_n=dict(by_n), rows=shown)


def _requeue(before: Version, one: Happened) -> Version:
    quarantined = {int(re.findall(r"\d+", path)[-1]) for path in one.requeued}
    assert quarantined, f"version {one.version} requeues nothing"
    assert quarantined <= before.readers - before.returned, f"version {one.version} requeues {quarantined} again"
    return dataclasses.replace(before, waiting=before.waiting | {*one.requeued}, returned=before.returned | quarantined)


def _without(before: Version, name: str) -> Version:
    users = {user: one for user, one in before.users.items() if user != name}
    rows = tuple(row for row in before.rows["users"] if row[1] != name)
    return dataclasses.replace(before, users=users, rows=before.rows | {"users": rows})
