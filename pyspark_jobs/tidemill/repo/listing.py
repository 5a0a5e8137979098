"""The files that the sources have now, and whether one of them still has the bytes that a version read."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from ..protocol.records import Commit
from ..sources.asked import fingerprint, is_positioned, look
from ..sources.contract import SourceFile
from ..sources.ledger import is_same, look_up
from .opened import Context


def listed_files(context: Context, sources: Collection[str] | None = None) -> dict[tuple[str, str], SourceFile]:
    """Return the files that all sources with a ledger have now, or those with the given names, by source and path."""
    options = dict(context.storage_options.get("source") or {})
    declared = context.job.sources.items()
    wanted = [(name, source) for name, source in declared if sources is None or name in sources]
    known = [(name, source) for name, source in wanted if not is_positioned(source)]
    files = (file for name, source in known for file in look(source, name, None, options))
    return {(file.source, file.path): file for file in files}


def is_as_read(context: Context, version: Commit | None, now: SourceFile) -> bool:
    """Whether a file with another ETag has the bytes that the ledger of a version names. Reads the file."""
    (known,) = look_up(context.ledger(version).map, [now])
    options = dict(context.storage_options.get("source") or {})
    compute = partial(fingerprint, context.job.sources[now.source], options=options)
    return known is not None and is_same(now, known, compute)
