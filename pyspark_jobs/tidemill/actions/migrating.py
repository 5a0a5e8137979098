"""What `migrate` stores: the maps of operators, rewritten by key ranges in tasks, and the commit that names them.

CRASH: the segments are stored first and count only once the commit names them. If a task fails, all are deleted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .. import names
from ..batch.migrating import MigrateWork
from ..batch.place import Place
from ..batch.rewriting import Rewrite
from ..batch.work import Engine
from ..errors import InvalidInput, TidemillError
from ..installed import version_of_tidemill
from ..pipeline.definition import described_function
from ..protocol import decide
from ..protocol.compatible import accepted_changes
from ..protocol.kinds import Changes
from ..protocol.records import Commit, OperatorMetrics, Segment
from ..repo.discard import discard_names
from ..repo.opened import Opened
from ..run.execute import receipts_of
from .migration import Move, renames_of

if TYPE_CHECKING:
    from ..publishing.rest import Writing

RANGE_ROWS = 1 << 18
"""About how many rows a task holds at once."""
RANGE_BYTES = 64 << 20
"""About how many bytes of segments a task holds at once."""


def stored_migration(
    repo: Opened, head: Commit, moves: list[Move], to: Writing, engine: Callable[[], Engine]
) -> Changes:
    """Rewrite maps, and return what the commit changes. `InvalidInput` if rows do not fit or are lost.

    `engine` is called only if there is something to rewrite. After an error, nothing that was stored is left.
    """
    place = repo.task_place(to.number, to.attempt)
    rewrites = any(move.rewrites for move in moves)
    try:
        used = engine() if rewrites else None
        made = {move.name: _made(repo, place, move, used) for move in moves}
    except Exception:
        _discard(repo, place, moves, frozenset())
        raise
    segments = (one.name for maps in made.values() for of_map, _ in maps.values() for one in of_map)
    new = [name for name in segments if f"-{to.attempt}-" in name]
    if any(rewrite.moves for move in moves for rewrite in move.rewrites):
        _discard(repo, place, moves, frozenset(new))  # what tasks stored to sort the rows by their new keys
    to.stored += new
    return _changes(repo, head, moves, made)


def ranges_of(segments: list[Segment]) -> int:
    """Return into how many key ranges a map is cut. It does not depend on the engine."""
    objects = {segment.name: segment for segment in segments}.values()
    rows, size = sum(one.rows for one in objects), sum(one.size for one in objects)
    return min(1 << 12, max(1, -(-rows // RANGE_ROWS), -(-size // RANGE_BYTES)))


_Made = dict[str, tuple[list[Segment], int]]
"""The segments and the rows of each map."""


def _made(repo: Opened, place: Place, move: Move, engine: Engine | None) -> _Made:
    """Return the new state of an operator."""
    rewrites = {rewrite.after.name: rewrite for rewrite in move.rewrites}
    found: _Made = {}
    for name in move.description["maps"]:
        if name in rewrites and engine is not None:
            found[name] = _rewritten(repo, place, rewrites[name], move, engine)
        else:
            found[name] = (move.state.get(name, []), move.rows.get(name, 0))
    return found


def _rewritten(repo: Opened, place: Place, rewrite: Rewrite, move: Move, engine: Engine) -> tuple[list[Segment], int]:
    segments = move.state[rewrite.after.name]
    work = MigrateWork(place, rewrite, segments, ranges_of(segments), repo.modules, repo.paths)
    receipts = receipts_of(engine.execute(work))
    name, of = rewrite.operator, rewrite.after.name
    rows = sum(receipt.rows[name][of] for receipt in receipts)
    before = move.rows.get(of)
    if before is not None and rows != before and not rewrite.drop_keys and rewrite.merge is None:
        raise InvalidInput(f"{rewrite.what}: {before:,} rows became {rows:,}, expected as many")
    return decide.merge_state(receipts)[name][of], rows


def _changes(repo: Opened, head: Commit, moves: list[Move], made: Mapping[str, _Made]) -> Changes:
    """Return what the commit changes."""
    olds = {move.old for move in moves}
    state = {name: maps for name, maps in head.state.items() if name not in olds}
    rows = {name: maps for name, maps in head.rows.items() if name not in olds}
    schemas = {name: schema for name, schema in head.schemas.items() if name not in olds}
    metrics = {
        name: OperatorMetrics(rows_total=one.rows_total, state_bytes=one.state_bytes)
        for name, one in head.operators.items()
        if name not in olds
    }
    for move in moves:
        maps = made[move.name]
        state[move.name] = {name: segments for name, (segments, _) in maps.items()}
        rows[move.name] = {name: count for name, (_, count) in maps.items()}
        schemas[move.name] = move.description
        sizes = {one.name: one.size for segments, _ in maps.values() for one in segments}
        first = next(iter(maps.values()), ([], 0))
        metrics[move.name] = OperatorMetrics(rows_total=first[1], state_bytes=sum(sizes.values()))
    before = {move.name: head.schemas[move.old] for move in moves}
    return {
        "state": state,
        "rows": rows,
        "schemas": schemas,
        "operators": metrics,
        "next_deadline": _deadlines(repo, head, state),
        "renamed": renames_of(head, moves),
        "state_changes": accepted_changes(before, {move.name: move.description for move in moves}),
        "code": {
            "reference": repo.reference,
            "tidemill": version_of_tidemill(),
            "functions": {m.name: [described_function(r.function) for r in m.rewrites] for m in moves if m.rewrites},
        },
    }


def _deadlines(repo: Opened, head: Commit, state: Mapping[str, Mapping[str, list[Segment]]]) -> dict[str, int]:
    """Return the earliest deadline of each timer."""
    found: dict[str, int] = {}
    for name, maps in state.items():
        placed = repo.job.operators.get(name)
        clock = None if placed is None else placed.operator.clock
        deadlines = [
            one.min_deadline_ms for of_map in maps.values() for one in of_map if one.min_deadline_ms is not None
        ]
        if clock is not None and deadlines:
            timer = "batch" if clock == "batch" else f"event/{name}"
            found[timer] = min(*deadlines, found.get(timer, deadlines[0]))
    return {timer: time for timer, time in head.next_deadline.items() if timer == "event"} | found


def _discard(repo: Opened, place: Place, moves: list[Move], kept: frozenset[str]) -> None:
    """Delete what this migration stored, except for the segments `kept`.

    A listing or a delete that fails is not an error: what remains is named by no commit.
    """
    for move in moves:
        for rewrite in move.rewrites:
            of_map = names.segment(rewrite.operator, rewrite.after.name, repo.branch, "").removesuffix(".parquet")
            prefix = f"{of_map}{place.number:010d}-{place.attempt}-"
            with contextlib.suppress(TidemillError):
                found = [entry.name for entry in repo.store.list(prefix) if entry.name not in kept]
                discard_names(repo.store, found, place.attempt)
