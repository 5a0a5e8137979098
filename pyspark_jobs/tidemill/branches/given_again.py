"""Which of the rows that were requeued come back in a replay: those that the replay has quarantined, too.

INVARIANT: a row that this code took when its version was replayed is not given to it again. So it counts once.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..protocol.records import Commit, Split, VersionOf
from ..reading.first_read import requeued_rows
from ..repo.opened import Opened
from ..returning.export import ROW_ID, quarantined_rows
from .covered import own_versions

_PLACE = ("source", "file", "line", "row", "kind", "operator", "watermark")


def given_again(repo: Opened, head: Commit | None, commit: Commit) -> list[Split]:
    """Return the splits of a requeue that is repeated, without the rows that the branch has not quarantined.

    A split stays, even if none of its rows comes back, so that the branch has read all that the other one has.
    """
    if head is None or head.branch != repo.branch:
        return list(commit.requeued)
    made = {one.replays: one for one in own_versions(repo, head) if one.replays is not None}
    return [_left(repo, commit, made, split) for split in commit.requeued]


def _left(repo: Opened, commit: Commit, made: dict[VersionOf, Commit], split: Split) -> Split:
    held = split.requeued
    ours = None if held is None else made.get(VersionOf(commit.branch, held.version))
    if held is None or ours is None:  # the branch shares the version that quarantined the rows
        return split
    theirs = repo.own_log(commit.branch).commit(held.version)
    without = tuple(sorted({*held.without, *_taken(repo, split, theirs, ours)}))
    return dataclasses.replace(split, requeued=dataclasses.replace(held, without=without))


def _taken(repo: Opened, split: Split, theirs: Commit, ours: Commit) -> tuple[int, ...]:
    """Return the numbers in the object of rows that `theirs` has quarantined, and `ours` has not."""
    table = requeued_rows(repo, split.path, split.etag)
    if table is None:  # the replay has been refused before: the object is no longer kept
        return ()
    there = Counter(_place(row) for row in _rows(repo, ours))
    known = {row[ROW_ID]: _place(row) for row in _rows(repo, theirs)}
    taken = []
    for number, of in enumerate(table.column("id").to_pylist()):
        place = known.get(of)
        if place is not None and not there[place]:
            taken.append(number)
        elif place is not None:
            there[place] -= 1
    return tuple(taken)


def _rows(repo: Opened, commit: Commit) -> Sequence[dict[str, Any]]:
    columns = [*_PLACE, "text", ROW_ID]
    found: list[dict[str, Any]] = quarantined_rows(repo, commit).select(columns).to_pylist()
    return found


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells a quarantined row from others: its place and, without one, its text."""
    has_place = row["row"] is not None or row["line"] is not None
    return (*(row[name] for name in _PLACE), None if has_place else row["text"])
