"""Input files: which one a user means, which the sources have now, and whether one has the bytes that were read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from ..errors import InvalidInput
from ..protocol.records import Commit, Plan
from ..sources.asked import fingerprint, is_positioned, look_at_source
from ..sources.contract import SourceFile
from ..sources.ledger import is_same, look_up_files
from ..spelling import unknown
from .opened import Opened

File = str | tuple[str, str]
"""A path relative to its source's folder, or the source and the path."""
InputFiles = Mapping[tuple[str, str], SourceFile]
"""Files by source and path."""


def one_of(repo: Opened, candidates: InputFiles, file: File, verb: str, what: str) -> SourceFile:
    """Return the candidate that a user means. `InvalidInput` for an unknown one, or if several sources have it."""
    source, path = source_and_path(file, verb)
    if source and source not in repo.job.sources:
        raise unknown("source", source, list(repo.job.sources))
    matching = [one for key, one in candidates.items() if key[1] == path and source in ("", key[0])]
    positioned = [name for name, one in repo.job.sources.items() if is_positioned(one) and source in ("", name)]
    if not matching and positioned and len(positioned) == len(repo.job.sources if not source else [source]):
        raise InvalidInput(
            f"{verb} `{path}`: commits remember the position of source `{positioned[0]}`, so nothing before it can be "
            "left out",
            hint="correct the data; or let the `look` of the source pass over it",
        )
    if not matching:
        raise unknown(what, path, sorted({one.path for one in candidates.values()}))
    if len(matching) > 1:
        raise InvalidInput(
            f"{verb} `{path}`: several sources have this file: " + ", ".join(f"`{one.source}`" for one in matching),
            hint="name the source too",
        )
    return matching[0]


def source_and_path(file: object, verb: str) -> tuple[str, str]:
    """Return the source and the path that a user gave; the source is empty if only the path was given."""
    if isinstance(file, str):
        return "", file
    if isinstance(file, tuple) and len(file) == 2 and all(isinstance(part, str) for part in file):
        return file
    raise InvalidInput(f"{verb}: found {file!r}, expected a path or a pair of source and path")


def planned_files(plan: Plan | None) -> dict[tuple[str, str], SourceFile]:
    """Return the files of a plan that a ledger knows once they were read, by source and path."""
    splits = () if plan is None else plan.splits
    positions = {} if plan is None else plan.positions
    return {
        (s.source, s.path): SourceFile.of_split(s) for s in splits if s.requeued is None and s.source not in positions
    }


def listed_files(repo: Opened, sources: Collection[str] | None = None) -> dict[tuple[str, str], SourceFile]:
    """Return the files that all sources with a ledger have now, or those with the given names, by source and path."""
    options = dict(repo.storage_options.get("source") or {})
    declared = repo.job.sources.items()
    wanted = [(name, source) for name, source in declared if sources is None or name in sources]
    known = [(name, source) for name, source in wanted if not is_positioned(source)]
    files = (file for name, source in known for file in look_at_source(source, name, None, options))
    return {(file.source, file.path): file for file in files}


def is_as_read(repo: Opened, version: Commit | None, now: SourceFile) -> bool:
    """Whether a file with another ETag has the bytes that the ledger of a version names. Reads the file."""
    (known,) = look_up_files(repo.ledger(version).map, [now])
    options = dict(repo.storage_options.get("source") or {})
    compute = partial(fingerprint, repo.job.sources[now.source], options=options)
    return known is not None and is_same(now, known, compute)
