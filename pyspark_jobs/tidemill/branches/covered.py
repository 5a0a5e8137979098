"""Whether a branch has read what another one has read, skipped or requeued since it started: a promotion needs that.

INVARIANT: files are compared, not versions, so a branch that ran by itself, in other batches, can be promoted. A file
that a replay left out because it was gone counts as covered, because its caller accepted that; it is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .. import _native
from ..errors import InvalidInput
from ..protocol.history import effective
from ..protocol.kinds import rules_of
from ..protocol.records import Commit
from ..repo.opened import Opened
from ..run.plan import positions
from ..sources.contract import SourceFile
from ..sources.ledger import SKIPPED, Known, look_up_files
from .inputs import RecordedFile

CATCH_UP = "catch up first: catch_up=True or --catch-up, or `tidemill replay`"
"""The hint if only input is missing."""
_LISTED = 5
"""How many versions an error names."""


def own_versions(branch: Opened, theirs: Commit) -> Iterator[Commit]:
    """Yield the versions of the effective history that are the branch's own, oldest first."""
    for version in effective(theirs, branch.log.first):
        yield branch.log.commit(version)


def files_left_out(own: Iterable[Commit]) -> list[RecordedFile]:
    """Return the files that replays into a branch left out, each with the version that had read it.

    `own` are its own versions.
    """
    return [
        RecordedFile(file.source, file.path, commit.version if commit.replays is None else commit.replays.version)
        for commit in own
        if rules_of(commit).carries_out
        for file in commit.skipped
    ]


def check_covered(repo: Opened, branch: Opened, name: str, head: Commit | None, theirs: Commit, fork: int) -> None:
    """Raise `InvalidInput` if this branch has read, skipped or requeued what the other one has not."""
    missing: dict[int, list[str]] = {}
    ledger = branch.ledger(theirs).map
    waiting = {split.path for split in theirs.waiting}
    for version in effective(head, fork + 1):
        commit = repo.log.commit(version)
        taken_out = [(one.source, one.path) for one in commit.skipped]
        for (_, path), known in _known(ledger, taken_out):
            if known is not None and known.how != SKIPPED:
                raise InvalidInput(
                    f"promote `{name}`: it has read `{path}`, which version {version} took out of the input",
                    hint="replay into a new branch",
                )
        wanted = taken_out + [(one.source, one.path) for one in commit.requeued if one.path not in waiting]
        plan = repo.log.plan(version) if rules_of(commit).reads else None
        if plan is not None:
            by_ledger = [one for one in plan.splits if one.source not in plan.positions]
            wanted += [(one.source, one.path) for one in by_ledger if one.path not in waiting]
        found = [path for (_, path), known in _known(ledger, wanted) if known is None]
        if found:
            missing[version] = found
    own = list(own_versions(branch, theirs)) if positions(head) else []
    behind = _behind(own, branch, head, theirs, fork)
    if behind:
        raise InvalidInput(
            f"promote `{name}`: it has not read source `{behind[0]}` up to position `{positions(head)[behind[0]]}`, as "
            f"this branch has; its own position is `{positions(theirs).get(behind[0], '')}`",
            hint="replay into a new branch, because this one has read by itself" if reads_alone(own) else CATCH_UP,
        )
    if missing:
        shown = ", ".join(f"{version} (`{files[0]}`)" for version, files in list(missing.items())[:_LISTED])
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        raise InvalidInput(
            f"promote `{name}`: it has not read the input of version{'s' if len(missing) > 1 else ''} {shown}{more}",
            hint=CATCH_UP,
        )


def reads_alone(own: Iterable[Commit]) -> bool:
    """Whether versions of a branch read input that they do not repeat."""
    return any(commit.replays is None and rules_of(commit).reads for commit in own)


def _behind(own: Iterable[Commit], branch: Opened, head: Commit | None, theirs: Commit, fork: int) -> list[str]:
    """Return the sources that a branch has not read up to the positions of `head`, because it never was there.

    A position that the branch passed is one of its plans', or that of the fork.
    """
    wanted = {name: at for name, at in positions(head).items() if positions(theirs).get(name) != at}
    passed = {(name, at) for name, at in positions(branch.log.commit(fork) if fork >= 0 else None).items()}
    for commit in own:
        passed |= set(commit.positions.items())
    return sorted(name for name, at in wanted.items() if (name, at) not in passed)


def _known(
    ledger: _native.StateMap, files: Iterable[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str], Known | None]]:
    """Yield what a ledger says of files, by source and path, each once."""
    wanted = list(dict.fromkeys(files))
    sought = [SourceFile(source, path, "", 0, 0) for source, path in wanted]
    yield from zip(wanted, look_up_files(ledger, sought), strict=True)
