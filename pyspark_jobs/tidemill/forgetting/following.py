"""What follows a `forget` commit: earlier versions are given up, and tags that keep them go if the caller agreed.

Or, if it has rewritten these versions, an entry of `refs/` says so to all readers, also of other branches.

CRASH: every step is an entry of `refs/` and can be repeated. `maintain` completes what a dead process left.
"""

from __future__ import annotations

from ..clock import now_ms
from ..errors import InvalidInput
from ..protocol.compatible import first_name
from ..protocol.entries import DropBranchEntry, Entry, Floor, Operators, RewriteEntry, TagEntry
from ..protocol.history import last_rewrite
from ..protocol.log import Log
from ..protocol.records import Commit, Forgotten
from ..protocol.refs import MAIN, BranchRef, Refs, TaggedVersion
from ..protocol.refs_log import position
from ..protocol.retained import floor
from ..repo.opened import Opened
from .cleaning import clean_former
from .sought import Sought


def pins_below(refs: Refs, version: int, rewrites: bool = False) -> list[str]:
    """Return the tags and branches that keep versions of `main` below `version`, in words.

    `rewrites`: those that stand in the way of rewriting these versions, which are branches and their tags. A run of a
    branch may store the keys again, and no commit of `main` stops it.
    """
    below = sorted(_tags_below(refs, version, rewrites).items())
    tags = [f"tag `{name}` (version {one.version})" for name, one in below]
    return tags + [f"branch `{one.name}` (version {one.fork.version})" for one in _branches_below(refs, version)
                   if one.fork is not None]  # fmt: skip


def _tags_below(refs: Refs, version: int, rewrites: bool = False) -> dict[str, TaggedVersion]:
    found = {name: one for name, one in refs.tags.items() if _on_main(refs, one.branch, one.version) < version}
    return {name: one for name, one in found.items() if not rewrites or one.branch != MAIN}


def _branches_below(refs: Refs, version: int) -> list[BranchRef]:
    return [one for one in refs.branches.values()
            if one.fork is not None and _on_main(refs, one.fork.branch, one.fork.version) < version]  # fmt: skip


def _on_main(refs: Refs, branch: str, version: int) -> int:
    """Return the version of `main` from which a version of a branch comes; -1 if that is unknown."""
    known = {one.id: one for one in refs.branches.values()}
    while branch != MAIN:
        fork = known[branch].fork if branch in known else None
        if fork is None:
            return -1
        branch, version = fork.branch, fork.version
    return version


def give_up_forgotten(repo: Opened) -> None:
    """Clean former places of sinks, raise the floor to the last `forget`, and remove initial state and tags before it.

    A `forget` that has rewritten earlier versions gets its entry instead. Does nothing if that was done. `InvalidInput`
    if a tag or branch keeps an earlier version that the caller of `forget` did not agree to remove.
    """
    head = repo.head()
    _apply_rewrites(repo, head)
    version = repo.log.given_up_by(head)
    if version is None:
        return
    entries_then = [one for one in repo.log.forget_commit(version).forgotten if one.version == version]
    last = entries_then[0]
    entries = _entries_known(repo.log, head) if repo.refresh().seeds else {}

    def make(refs: Refs, number: int) -> Entry | None:
        del number
        return _next_entry(refs, last, entries)

    if head is not None and not _is_raised(repo.refresh(), last):
        _refuse_pins(repo.refresh(), last)
        clean_former(repo, head, Sought.in_entries(repo, entries_then), set())
    while _next_entry(repo.refresh(), last, entries) is not None:
        repo.refs_log.append(make)


def _apply_rewrites(repo: Opened, head: Commit | None) -> None:
    """Append the entry by which all readers apply what the last `forget` has replaced.

    INVARIANT: at that entry, no branch starts before the `forget`, so no run knows the objects that are deleted then.
    A later branch starts from the versions as they are since. Former places are cleaned before.
    """
    version, refs = last_rewrite(head), repo.refresh()
    known = -1 if refs.rewrote_at is None else refs.rewrote_at
    if head is None or version is None or version <= known:
        return
    at: int | None = version
    drops = True
    while at is not None and at > known:
        commit = repo.log.forget_commit(at)
        drops = drops and commit.forgotten[0].drop_refs
        clean_former(repo, head, Sought.in_entries(repo, [one for one in commit.forgotten if one.version == at]), set())
        at = commit.rewrote_at

    def make(refs: Refs, number: int) -> Entry | None:
        del number
        if refs.rewrote_at is not None and refs.rewrote_at >= version:
            return None
        pins = pins_below(refs, version, rewrites=True)
        if pins and not drops:
            raise InvalidInput(
                f"forget: {', '.join(pins)} may have keys that version {version} forgot",
                hint="remove them; `tidemill maintain` then deletes what the `forget` has replaced",
            )
        placed, reason = position(refs, now_ms()), f"forgotten in version {version}"
        for name, tag in _tags_below(refs, version, rewrites=True).items():
            return TagEntry(**placed, reason=reason, name=name, branch=tag.branch, version=None)
        for branch in reversed(_branches_below(refs, version)):  # a branch before the one from which it starts
            return DropBranchEntry(**placed, reason=reason, name=branch.name, id=branch.id)
        return RewriteEntry(**placed, reason=reason, version=version, seeds=repo.log.rewrites.replacements.seeds(refs))

    while (repo.refresh().rewrote_at or -1) < version:
        repo.refs_log.append(make)


def _entries_known(log: Log, head: Commit | None) -> dict[str, int]:
    """Return for each operator of which keys were forgotten the newest entry that its last `forget` knew."""
    found = {}
    for one in log.forgotten(head):
        commit = log.commit(one.version)
        found[first_name(one.operator, commit.renamed)] = commit.refs_through
    return found


def _is_raised(refs: Refs, last: Forgotten) -> bool:
    """Whether versions before a `forget` are given up. INVARIANT: former places are cleaned before that."""
    kept = floor(refs, MAIN)
    return kept.highest >= last.version and all(at >= last.version for at in (kept.version, *kept.operators.values()))


def _refuse_pins(refs: Refs, last: Forgotten) -> None:
    pins = pins_below(refs, last.version)
    if pins and not last.drop_refs:
        raise InvalidInput(
            f"forget: {', '.join(pins)} keep versions before {last.version}, which hold forgotten keys",
            hint="remove them; `tidemill maintain` then deletes these versions",
        )


def _next_entry(refs: Refs, last: Forgotten, entries: dict[str, int]) -> Entry | None:
    """Return the next entry that gives something up, or None if nothing is left to do.

    `entries` has for each operator the newest entry that its last `forget` knew; initial state that was given later is
    that of a new operator of this name. Without any initial state it may be empty.
    """
    placed = position(refs, now_ms())
    reason = f"forgotten in version {last.version}"
    seeded = [name for name, entry in sorted(entries.items())
              if name in refs.seeds and name in refs.schemas and refs.seeds[name].number <= entry]  # fmt: skip
    if seeded:
        return Operators(**placed, reason=reason, schemas={name: refs.schemas[name] for name in seeded})
    if _is_raised(refs, last):
        return None
    _refuse_pins(refs, last)
    kept = floor(refs, MAIN)
    for name, tag in _tags_below(refs, last.version).items():
        return TagEntry(**placed, reason=reason, name=name, branch=tag.branch, version=None)
    for branch in reversed(_branches_below(refs, last.version)):  # a branch before the one from which it starts
        return DropBranchEntry(**placed, reason=reason, name=branch.name, id=branch.id)
    operators = {name: last.version for name, at in kept.operators.items() if at < last.version}
    version = max(kept.version, last.version)
    return Floor(**placed, reason=reason, branch=MAIN, version=version, operators=operators)
