"""Forgotten keys in files that are read again, after a rewind to before a `forget` or on a branch that starts there.

Such a `forget` has rewritten earlier versions, so these can be restored and replayed, but the files of the sources may
still have the keys. INVARIANT: a file that arrived before the `forget`, or has the content with which it was read
before it, brings none of its keys back. Other files are read as they are, in batches of their own.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence

from ..protocol.history import is_effective
from ..protocol.named import named
from ..protocol.records import Commit, Plan, VersionOf
from ..protocol.refs import MAIN
from ..protocol.replacing import Replacements, with_fewer_rows
from ..protocol.retained import is_kept
from ..repo.discard import discard_names
from ..repo.opened import Opened
from ..schema import to_arrow
from ..sources import asked
from ..sources.contract import SourceFile
from ..sources.ledger import is_same, look_up_files, unlike
from .rewriting import Rewriter
from .sought import Sought, SoughtKeys
from .state import ForgetTarget


def forgets_outside(repo: Opened, head: Commit | None) -> list[Commit]:
    """Return the commits that have rewritten earlier versions and are not in the history of `head`."""

    def is_outside(version: int) -> bool:
        is_ours = repo.version_of(version) == VersionOf(MAIN, version)
        return head is None or not is_ours or not is_effective(head, version)

    return [one for one in repo.log.rewrites.forgets if is_outside(one.version)]


def _read_before(repo: Opened, forget: Commit, files: Sequence[SourceFile]) -> set[SourceFile]:
    """Return the files that arrived before a `forget`, or were read before it with the content that they have now.

    What was read is known only as long as the version of the `forget` is kept.
    """
    found = {one for one in files if one.modified_ms <= forget.committed_ms}
    later = [one for one in files if one not in found]
    if not later or not is_kept(repo.initialised(), VersionOf(MAIN, forget.version)):
        return found
    ledger, options = repo.ledger(forget).map, dict(repo.storage_options.get("source") or {})
    others = unlike(ledger, later)
    found |= set(later) - set(others)
    for file, known in zip(others, look_up_files(ledger, others), strict=True):
        source = repo.job.sources.get(file.source)
        if known is not None and source is not None:
            compute = functools.partial(asked.fingerprint, source, options=options)
            fingerprint = functools.partial(repo.session.fingerprints.fingerprint, compute=compute)
            found |= {file} if is_same(file, known, fingerprint) else set()
    return found


def read_alike(
    repo: Opened, head: Commit | None, chosen: Mapping[str, Sequence[SourceFile]]
) -> Mapping[str, Sequence[SourceFile]]:
    """Return the files of the next batch, by source: only those before the same `forget`s as the oldest one.

    So a batch that leaves forgotten keys out leaves out nothing that came after the `forget`.
    """
    forgets = forgets_outside(repo, head)
    files = [file for those in chosen.values() for file in those]
    if not forgets or not files:
        return chosen
    before = [_read_before(repo, one, files) for one in forgets]

    def place(file: SourceFile) -> tuple[bool, ...]:
        return tuple(file in one for one in before)

    wanted = place(min((those[0] for those in chosen.values() if those), key=lambda file: file.modified_ms))
    return {
        name: list(itertools.takewhile(lambda file: place(file) == wanted, those)) for name, those in chosen.items()
    }


def without_forgotten(repo: Opened, head: Commit | None, plan: Plan, ours: Commit) -> Commit:
    """Return the commit of a batch without the keys that were forgotten after its files had arrived.

    What the batch had stored with the keys is deleted. CRASH: nothing counts before the commit is created.
    """
    splits = [one for one in plan.splits if one.requeued is None]
    files = [SourceFile.of_split(one) for one in splits]
    forgets = [
        one
        for one in (forgets_outside(repo, head) if files else [])
        if _is_repeated(plan, one) or _read_before(repo, one, files)
    ]
    if not forgets:
        return ours
    sought = _in_outputs(Sought.in_commits(repo, forgets), ours)
    stored = {one.name for one in named(ours) if f"-{ours.attempt}-" not in one.name}
    to = ForgetTarget(ours.version, ours.attempt, clean=stored)
    made = Rewriter(repo, sought, lambda text, is_unreadable: sought.in_text(text, is_unreadable) > 0, to)
    made.commit(ours)
    removed: dict[str, dict[str, int]] = {}
    for operator, name, count in made.removed(ours, ours.state):
        removed.setdefault(operator, {})[name] = count
    left = with_fewer_rows(Replacements(made.objects).commit(ours), removed)
    discard_names(repo.store, made.objects, ours.attempt)
    return left


def _is_repeated(plan: Plan, forget: Commit) -> bool:
    """Whether a plan repeats a version before a `forget`, perhaps with files that have changed since."""
    of = plan.replays
    return of is not None and of.branch == MAIN and of.version < forget.version


def _in_outputs(sought: Sought, ours: Commit) -> Sought:
    """Return keys that are also sought in outputs of which the `forget` did not know, by the name of the column."""
    known = {sink for one in sought.keys for sink in one.entry.columns}
    found = []
    for one in sought.keys:
        columns = dict(one.entry.columns)
        for sink, described in ours.sinks.items() if one.entry.found_by else ():
            if sink not in known and set(one.schema.names) <= set(to_arrow(described["schema"]).names):
                columns[sink] = list(one.schema.names)
        found.append(SoughtKeys(dataclasses.replace(one.entry, columns=columns), one.schema, one.operator))
    return Sought(found, sought.unknown)
