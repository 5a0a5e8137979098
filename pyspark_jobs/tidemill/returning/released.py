"""Which files that a version put in quarantine as a whole can be read again.

Reads only. INVARIANT: a file is read again only while it is in quarantine by that version, so none is read twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..protocol.records import Commit, SkippedFile
from ..repo.input_files import is_as_read, listed_files
from ..repo.opened import Opened
from ..sources.asked import is_positioned
from ..sources.contract import SourceFile
from ..sources.ledger import QUARANTINED, SKIPPED, Known, look_up_files
from ..values import dataclass
from .export import ROW_ID
from .requeued_before import RejectRow, RowOf


@dataclass(frozen=True)
class Released:
    """A file that is read again: as it was when it went to quarantine, and whether it was changed since."""

    file: SkippedFile
    is_changed: bool


class NotReleased(Exception):
    """Why a file cannot be read again."""


def released(repo: Opened, head: Commit | None, row: RejectRow, by: Sequence[RowOf]) -> Released:
    """Return the file that a row of quarantine stands for. Raises `NotReleased` if it cannot be read again."""
    source, path = row["source"], row["file"]
    if source not in repo.job.sources:
        raise NotReleased(f"this code has no source `{source}`")
    if is_positioned(repo.job.sources[source]):
        raise NotReleased("commits remember the position of its source, so nothing before it is read again")
    (known,) = look_up_files(repo.ledger(head).map, [SourceFile(source, path, "", 0, 0)])
    known = _in_quarantine(known, by[row[ROW_ID]].commit.version)
    now = listed_files(repo, [source]).get((source, path))
    if now is None:
        raise NotReleased("the file is gone from its source; write the corrected file under the same name")
    file = SkippedFile(source, path, known.etag, known.size)
    return Released(file, is_changed=not is_as_read(repo, head, now))


def _in_quarantine(known: Known | None, version: int) -> Known:
    """Return what the ledger says of a file that is in quarantine by a version. Raises `NotReleased` for others."""
    if known is None:
        raise NotReleased("the file waits again, because it was requeued or the version was rewound")
    if known.how == QUARANTINED and known.version == version:
        return known
    what = {QUARANTINED: "put the file in quarantine", SKIPPED: "skipped the file"}.get(known.how, "read the file")
    raise NotReleased(f"version {known.version} {what} since")
