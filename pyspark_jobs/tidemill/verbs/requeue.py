"""`requeue`: give quarantined rows back to the pipeline, corrected or as they are, as input of the next batch.

A requeue commit stores the rows in the repository and lets them wait. The next batch reads them before any file, and
only for the operators that have not taken them. The ledger records them, so that they are read once and a rewind makes
them wait again. A file that is in quarantine as a whole leaves the ledger, so it is a new file. CRASH: one conditional
create is the whole requeue; objects of a call that dies are garbage.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .. import names
from ..clock import now_ms
from ..counts import count_of
from ..driver.context import Context
from ..driver.correct import correct
from ..driver.discard import discard_names
from ..driver.identity import check_root
from ..driver.ledger import store_requeued
from ..driver.versions import VersionSpec, kept_commit, resolve
from ..errors import Fenced, InvalidInput
from ..protocol.history import is_effective
from ..protocol.kinds import Changes, rules_of
from ..protocol.records import Commit, Requeued, Segment, Split, digest
from ..protocol.successor import Origin
from ..schema import int64_array, string_array
from ..sources.requeued import PLACES, encode
from .released import Released
from .returning import Group, returning


@dataclass(frozen=True)
class Requeue:
    """What `requeue` would do: the rows by source, kind and destination, whole files, and the version whose plan
    ends."""

    version: int
    groups: list[Group]
    files: list[Released]
    ends_plan: int | None

    @property
    def rows(self) -> int:
        """How many rows come back."""
        return sum(group.rows.num_rows for group in self.groups)


def requeue(
    context: Context, version: VersionSpec, source: str | None = None, rows: Any = None, reason: str = ""
) -> Commit:
    """Let quarantined rows of a version wait for the next batch, and return the commit that does it."""
    _check_reason(reason)
    check_root(context)
    origin = context.origin(context.head())
    found = _found(context, origin, version, source, rows)
    attempt = uuid.uuid4().hex[:12]
    splits: list[Split] = []
    segments: list[Segment] = []
    try:
        splits.extend(_stored(context, origin, found, attempt))
        files = [one.file for one in found.files]
        ledger = store_requeued(context, origin.head, splits, files, origin.number, attempt)
        segments = ledger.segments
        before = origin.head
        changes: Changes = {
            "attempt": attempt,
            "reason": reason or None,
            "ledger": segments,
            "rows": {**(before.rows if before else {}), names.LEDGER: {"files": ledger.rows}},
            "requeued": splits,
            "released": files,
            "waiting": [*(before.waiting if before else []), *splits],
        }
        return correct(context, origin, "requeue", changes)
    except Fenced:
        stored = [one.requeued.name for one in splits if one.requeued is not None]
        discard_names(context.store, [*stored, *(one.name for one in segments)], attempt)
        raise


def planned(context: Context, version: VersionSpec, source: str | None = None, rows: Any = None) -> Requeue:
    """Return what `requeue` would do. Writes nothing."""
    return _found(context, context.origin(context.head()), version, source, rows)


def described(found: Requeue) -> list[str]:
    """Return in words what `requeue` would do."""
    lines = [
        f"{count_of(group.rows.num_rows, 'row')} of source `{group.source}` that version {found.version} quarantined "
        f"({', '.join(group.kinds)}) will be read again by {group.destination}"
        for group in found.groups
    ]
    lines += [
        f"file `{one.file.path}` of source `{one.file.source}`, which version {found.version} put in quarantine as a "
        f"whole, will be read as a new file; it {'was changed' if one.is_changed else 'is unchanged'} since"
        for one in found.files
    ]
    if found.ends_plan is not None:
        lines.append(f"the plan of version {found.ends_plan} ends, and its files are planned again")
    return lines


def _check_reason(reason: object) -> None:
    if not isinstance(reason, str):
        raise InvalidInput(f"requeue: found reason={reason!r}, expected text")


def _found(context: Context, origin: Origin, version: VersionSpec, source: str | None, rows: Any) -> Requeue:
    if version is None:
        raise InvalidInput("requeue: the version is missing", hint="name the version that quarantined the rows")
    commit = kept_commit(context, resolve(context, version))
    if commit is None:
        raise InvalidInput(f"requeue version {version}: it is before the first batch, so nothing was quarantined")
    _check_effective(context, origin.head, commit)
    found = returning(context, origin.head, commit, source, rows)
    plan = context.log.plan(origin.number, origin.parent)
    return Requeue(commit.version, found.groups, found.files, None if plan is None else origin.number)


def _check_effective(context: Context, head: Commit | None, commit: Commit) -> None:
    """Raise `InvalidInput` for a version that a promotion replaced, or a promotion that was rewound."""
    if head is None or is_effective(head, commit.version):
        return
    later = [one for one in head.promotions if one > commit.version and is_effective(head, one)]
    if later:
        has_rows = bool(context.log.commit(later[0]).quarantine)
        raise InvalidInput(
            f"requeue version {commit.version}: version {later[0]}, a promotion, replaced it",
            hint=f"requeue version {later[0]}, which has what its branch quarantined"
            if has_rows
            else "write the corrected rows to a new file of the source",
        )
    if rules_of(commit).of_branch:
        raise InvalidInput(
            f"requeue version {commit.version}: it is a promotion that was rewound",
            hint="requeue the versions that count again; `tidemill quarantine` lists their rows",
        )


def _stored(context: Context, origin: Origin, found: Requeue, attempt: str) -> Iterator[Split]:
    """Store the rows of each group as an object, and yield it as a split."""
    for number, group in enumerate(found.groups):
        stem = names.stem(origin.number, attempt, number, names.BY_REQUEUE)
        name = names.requeued(context.branch, stem, found.version)
        data = encode(group.rows, _places(found.version, group.ids, group.files))
        context.store.put(name, data)
        checksum = digest(data)
        held = Requeued(name, checksum, group.rows.num_rows, found.version, group.operators, group.watermark)
        path = names.requeued_path(name)
        yield Split(group.source, path, checksum, len(data), now_ms(), requeued=held)


def _places(version: int, ids: Sequence[int], files: Sequence[str | None]) -> pa.Table:
    columns = [int64_array([version] * len(ids)), int64_array(ids), string_array(files)]
    return pa.Table.from_arrays(columns, schema=PLACES)
