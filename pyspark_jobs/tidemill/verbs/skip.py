"""`skip`: take a file out of the input, because it cannot be read or must not be.

A skip commit records the file in the ledger. If the open plan reads the file, the plan ends, and the next run plans its
other files. CRASH: one conditional create is the whole skip.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial

from .. import names
from ..driver.context import Context
from ..driver.correct import correct, required
from ..driver.discard import discard_names
from ..driver.identity import check_root
from ..driver.ledger import store_skipped
from ..driver.listing import listed_files
from ..driver.overtaken import fenced_if_overtaken
from ..errors import Fenced, InvalidInput
from ..protocol.kinds import Changes
from ..protocol.records import Commit, SkippedFile
from ..protocol.successor import Origin
from ..sources.contract import SourceFile
from ..sources.ledger import EARLIER, QUARANTINED, READ, SKIPPED, is_same, look_up
from .files import File, one_of, planned_files


@dataclass(frozen=True)
class Skip:
    """What `skip` would do: the file, the version whose open plan ends, and the version that read earlier content."""

    file: SourceFile
    ends_plan: int | None
    read_by: int | None


def skip(context: Context, file: File, reason: str) -> Commit:
    """Take the file out of the input, and return the commit that does it. `InvalidInput` for a file that was read."""
    required("skip", reason)
    check_root(context)
    origin = context.origin(context.head())
    attempt = uuid.uuid4().hex[:12]
    with fenced_if_overtaken(context, origin.head, "skip"):
        found = _found(context, origin, file).file
        stored = store_skipped(context, origin.head, [found], origin.number, attempt)
    changes: Changes = {
        "attempt": attempt,
        "reason": reason,
        "ledger": stored.segments,
        "rows": {**(origin.head.rows if origin.head else {}), names.LEDGER: {"files": stored.rows}},
        "skipped": [SkippedFile(found.source, found.path, found.etag, found.size)],
    }
    try:
        return correct(context, origin, "skip", changes)
    except Fenced:
        discard_names(context.store, [one.name for one in stored.segments], attempt)
        raise


def planned(context: Context, file: File) -> Skip:
    """Return what `skip` would do. Writes nothing."""
    return _found(context, context.origin(context.head()), file)


def _found(context: Context, origin: Origin, file: File) -> Skip:
    """Return the file that waits or is in the open plan; otherwise raise `InvalidInput`."""
    plan = context.log.plan(origin.number, origin.parent)
    candidates = planned_files(plan) | listed_files(context)
    found = one_of(context, candidates, file, "skip", "file to skip")
    read_by = _refuse_known(context, origin, found)
    is_planned = plan is not None and (found.source, found.path) in planned_files(plan)
    return Skip(found, origin.number if is_planned else None, read_by)


def _refuse_known(context: Context, origin: Origin, file: SourceFile) -> int | None:
    """Return the version that read earlier content of a file. `InvalidInput` if it read or skipped the present one."""
    known = look_up(context.ledger(origin.head).map, [file])[0]
    options = dict(context.storage_options.get("source") or {})
    fingerprint = partial(context.job.sources[file.source].fingerprint, storage_options=options)
    if known is None or not is_same(file, known, fingerprint):
        return known.version if known is not None and known.how == READ else None
    if known.how == QUARANTINED:
        return None
    if known.how == SKIPPED:
        raise InvalidInput(f"skip `{file.path}`: version {known.version} skipped it already")
    if known.how == EARLIER:
        raise InvalidInput(f'skip `{file.path}`: start="latest" leaves it out already')
    raise InvalidInput(
        f"skip `{file.path}`: version {known.version} has read it, so its rows are in the state",
        hint="skip takes only files that were not read yet",
    )
