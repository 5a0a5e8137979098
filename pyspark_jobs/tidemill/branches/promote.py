"""What a promotion takes over from a branch, and whether it can: decided before anything is written.

With `outputs="correct"` the versions since the fork leave the history, as in a rewind; their files are withdrawn, and
those of the branch take their place. `actions/promote.py` carries it out.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import field

from ..errors import InvalidInput
from ..protocol.compatible import first_name
from ..protocol.history import effective, is_effective, last_forget, last_rewrite, replaced_at
from ..protocol.kinds import Changes
from ..protocol.named import Object, output_files
from ..protocol.records import AddedOutput, Commit, VersionOf
from ..protocol.refs import MAIN
from ..protocol.retained import fork_of
from ..protocol.successor import taken_over, totals
from ..publishing.owners import NOT_SHARED, Accepted, check_outputs, described
from ..publishing.rest import Writing
from ..publishing.sink_change import SinkChange, published_instead, sink_change
from ..repo.code import other_code, promoted_code
from ..repo.open import on_branch
from ..repo.opened import Opened
from ..repo.operators import check_operators, committed_state
from ..repo.steps import Steps, last_repeated
from ..repo.versions import Needed, branch_name
from ..run.drain import Limits, OnProgress
from ..run.engine import Choice
from ..values import dataclass
from .covered import check_covered, files_left_out, own_versions
from .inputs import RecordedFile
from .replay import ReplayReport, ReplayRequest, replay

OUTPUTS = ("correct", "keep")


@dataclass(frozen=True)
class Promotion:
    """What `promote` would do: `branch` at version `version` takes the place of the versions `replaced`.

    `withdraws` and `adds`: by sink, the versions whose files go, and the versions of the branch whose files come.
    `empty`: versions that are committed first and change nothing, because rows of the branch have these numbers.
    `left_out`: files that were gone when the branch was replayed, so its state is without them. `ends`: operators whose
    state ends. `other_code`: what other code than this made on the branch, in words; empty if nothing.
    """

    branch: str
    version: int
    replaced: list[int]
    withdraws: dict[str, list[int]]
    adds: dict[str, list[int]]
    empty: list[int] = field(default_factory=list)
    left_out: list[RecordedFile] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    other_code: str = ""


@dataclass(frozen=True)
class Found:
    """The heads of both branches, the branch's own versions, where they part, and what is published instead."""

    branch: Opened
    head: Commit | None
    theirs: Commit
    own: list[Commit]
    start: int
    fork: Commit | None
    change: SinkChange | None
    added: dict[str, list[AddedOutput]]
    promotion: Promotion


def promoted(repo: Opened, found: Found, to: Writing) -> Changes:
    """Return what the commit of a promotion changes, and store what stays of published files."""
    theirs = found.theirs
    changes = taken_over(theirs)
    changes |= {
        "code": promoted_code(found.branch, theirs),
        "operators": totals(theirs.operators),
        "batch_time_ms": max(one.batch_time_ms for one in (found.head, theirs) if one is not None),
        "promoted": theirs.as_parent,
        "promotions": [*([] if found.head is None else found.head.promotions), to.number],
        "sinks": {one: described(repo, found.head, output, NOT_SHARED) for one, output in repo.job.outputs.items()},
    }
    if found.change is not None:
        instead = published_instead(repo, found.head, found.change, to)
        for sink, added in found.added.items():
            instead["adds"].setdefault(sink, []).extend(added)
        changes |= {
            "replaced": replaced_at(to.number, found.fork),
            "quarantine": [file for commit in found.own for file in commit.quarantine],
            **instead,
        }
    return changes


def needed(found: Found) -> Needed:
    """Return the versions of the branch that must be kept until the promotion is committed."""
    versions = {one.version for those in found.added.values() for one in those}
    return Needed(found.theirs.version, sorted(versions))


def taken(found: Found) -> Iterator[Object]:
    """Yield the objects without which no run could go on after the promotion: segments of state, and output files."""
    for maps in committed_state(found.branch, found.theirs).values():
        for segments in maps.values():
            yield from (Object(one.name, one.checksum, one.size) for one in segments)
    for added in found.added.values():
        yield from (Object(one.name, one.checksum, one.size) for output in added for one in output.files)


def promoted_already(repo: Opened, name: str) -> Commit | None:
    """Return the commit that took over a branch as it is now, or None if no effective commit did.

    If there is no such branch, the last one of this name that was dropped counts.
    """
    head, refs = repo.head(), repo.refresh()
    known = refs.branches.get(name)
    dropped = [one for one in refs.dropped if one.rpartition("-")[0] == name]
    if head is None or not (known or dropped):
        return None
    branch = max(dropped, key=lambda one: int(one.rpartition("-")[2])) if known is None else known.id
    theirs = None if known is None else on_branch(repo, name).head()
    for version in reversed(head.promotions):
        made = repo.log.commit(version).promoted if is_effective(head, version) else None
        if made is not None and made.branch == branch:
            return None if theirs is not None and theirs.version > made.version else repo.log.commit(version)
    return None


def refuse_if_kept(repo: Opened, name: str, made: Commit) -> None:
    """Raise `InvalidInput` if a promotion left what was published as it was, although other rows should be there."""
    assert made.promoted is not None
    fork = fork_of(repo.initialised(), made.promoted.branch)
    since = -1 if fork is None else fork.version
    before = made.version - 1
    is_kept = before > since and is_effective(made, before)
    if not is_kept and not made.adds and name in repo.initialised().branches:
        branch = on_branch(repo, name)
        own = own_versions(branch, branch.log.commit(made.promoted.version))
        is_kept = any(file.rows for one in own for files in one.outputs.values() for file in files)
    if is_kept:
        raise InvalidInput(
            f'promote `{name}`: version {made.version} promoted it with outputs="keep", which left what is published',
            hint=f"to publish what the branch made, rewind to version {before}, and promote the branch again",
        )


def checked(repo: Opened, name: str, outputs: str = "correct", accepted: Accepted | None = None) -> Found:
    """Return what a promotion takes over. `InvalidInput` if it does not fit, or the branch has not read all input."""
    found = found_if_level(repo, name, outputs, accepted)
    check_covered(repo, found.branch, name, found.head, found.theirs, found.start)
    return found


def found_if_level(repo: Opened, name: str, outputs: str = "correct", accepted: Accepted | None = None) -> Found:
    """Return what a promotion would take over if the branch had read all that this one has. Writes nothing."""
    repo = repo.remembering()
    return _found(repo, on_branch(repo, name).remembering(), name, outputs, accepted or Accepted())


def _found(repo: Opened, branch: Opened, name: str, outputs: str, accepted: Accepted) -> Found:
    """Check everything but whether the branch has read all input, and return what a promotion needs."""
    if outputs not in OUTPUTS:
        raise InvalidInput(f"promote: outputs={outputs!r}, expected one of {', '.join(OUTPUTS)}")
    head, theirs, fork_version = repo.head(), branch.head(), _start_of(repo, branch, name)
    if theirs is None or theirs.branch != branch.branch:
        raise InvalidInput(f"promote `{name}`: it has no version of its own", hint="run or replay on it first")
    check_operators(branch, theirs)
    _check_code(repo, name, head, theirs)
    ends = _ends(name, head, theirs, accepted)
    other = other_code(branch, theirs).names
    start = common_start(theirs, fork_version)
    if head is not None:
        _check_history(repo, name, head, theirs, start, last_repeated(branch, theirs))
    check_outputs(repo, head, accepted)
    fork = None if start < 0 else repo.log.commit(start)
    own = list(own_versions(branch, theirs))
    missing = files_left_out(own)
    if outputs == "keep":
        promotion = Promotion(name, theirs.version, [], {}, {}, left_out=missing, ends=ends, other_code=other)
        return Found(branch, head, theirs, own, start, fork, None, {}, promotion)
    added = outputs_of(repo, f"promote `{name}`", own)
    change = sink_change(repo, head, fork, "promote")
    promotion = Promotion(
        branch=name,
        version=theirs.version,
        replaced=list(effective(head, start + 1)),
        withdraws=change.withdraws,
        adds={sink: [one.version for one in those] for sink, those in added.items()},
        empty=list(range(repo.origin(head).number, theirs.version)) if added else [],
        left_out=missing,
        ends=ends,
        other_code=other,
    )
    return Found(branch, head, theirs, own, start, fork, change, added, promotion)


def _start_of(repo: Opened, branch: Opened, name: str) -> int:
    """Return the version of this branch at which another one starts. `InvalidInput` if it starts elsewhere."""
    if name == MAIN or branch.branch == repo.branch:
        raise InvalidInput(f"promote `{name}`: it is this branch itself", hint="name another branch")
    fork = branch.initialised().branches[name].fork
    if fork is None or (fork.version >= 0 and fork.branch != repo.branch):
        of = "" if fork is None else branch_name(repo, fork.branch)
        this = branch_name(repo, repo.branch)
        raise InvalidInput(
            f"promote `{name}`: it starts from branch `{of}`, not from `{this}`",
            hint=f"promote it into `{of}`, and then that branch",
        )
    return fork.version


def outputs_of(repo: Opened, what: str, own: Sequence[Commit]) -> dict[str, list[AddedOutput]]:
    """Return by sink what versions of a branch made. `InvalidInput` if it is for another kind of sink."""
    added: dict[str, list[AddedOutput]] = {}
    for commit in own:
        for sink in dict.fromkeys([*commit.outputs, *commit.adds]):
            if sink in repo.job.outputs:
                _check_kind(repo, what, commit, sink)
            if sink in repo.job.outputs and (files := list(itertools.chain(*output_files(commit, sink)))):
                added.setdefault(sink, []).append(AddedOutput(commit.branch, commit.version, files))
    return added


def common_start(theirs: Commit, fork: int) -> int:
    """Return the newest version that both have: the fork, or an earlier one if the branch was rewound to before it."""
    return max((version for version in effective(theirs) if version <= fork), default=-1)


def _check_code(repo: Opened, name: str, head: Commit | None, theirs: Commit) -> None:
    """Raise `InvalidInput` if this code lacks an operator or a sink that began on the branch: it is other code."""
    operators = set(theirs.schemas) - {*repo.job.operators, *(head.schemas if head else ())}
    sinks = set(theirs.sinks) - {*repo.job.outputs, *(head.sinks if head else ()), *operators}
    found = [f"operator `{one}`" for one in sorted(operators)] + [f"sink `{one}`" for one in sorted(sinks)]
    if found:
        raise InvalidInput(
            f"promote `{name}`: it has {', '.join(found)}, which this code does not have",
            hint="promote with the code that ran on the branch",
        )


def _ends(name: str, head: Commit | None, theirs: Commit, accepted: Accepted) -> list[str]:
    """Return the operators whose state a promotion ends, because the branch does not have them.

    `InvalidInput` if the caller has not named one of them, or has named others.
    """
    kept = {first_name(one, theirs.renamed) for one in theirs.schemas}
    known = {} if head is None or not theirs.schemas else head.schemas
    found = sorted(one for one in known if head is not None and first_name(one, head.renamed) not in kept)
    for one in found:
        if one not in accepted.drop:
            raise InvalidInput(
                f"promote `{name}`: it does not have operator `{one}`, whose state would end",
                hint=f"promote with drop=[{one!r}] or --drop {one}; or replay with code that has the operator",
            )
    for one in accepted.drop:
        if one not in found:
            raise InvalidInput(
                f"promote `{name}`: drop names `{one}`, whose state the promotion does not end",
                hint=f"it ends the state of: {', '.join(found) or 'no operator'}",
            )
    return found


def _check_history(
    repo: Opened, name: str, head: Commit, theirs: Commit, fork: int, repeated: VersionOf | None
) -> None:
    """Raise `InvalidInput` if what a branch starts from or has repeated no longer counts, or it missed a promotion."""
    steps, forgot = Steps(repo, head), _last_forget(repo, head)
    after = None if repeated is None else steps.after(repeated)
    missed = [
        one
        for one in head.promotions
        if one > fork and is_effective(head, one) and steps.ends.get(one, 0) > (after or 0)
    ]
    if forgot is not None and forgot > fork:
        why = f"version {forgot} forgot keys, which the branch may have"
    elif fork >= 0 and not is_effective(head, fork):
        why = f"version {fork}, from which it starts, was rewound"
    elif missed:
        made = repo.log.commit(missed[-1]).promoted
        if made == theirs.as_parent:
            raise InvalidInput(
                f"promote `{name}`: version {missed[-1]} has taken over all of it",
                hint="there is nothing left to promote",
            )
        of = "" if made is None else f" version {made.version} of branch `{branch_name(repo, made.branch)}`"
        why = f"version {missed[-1]} has taken over{of} since it started"
    elif repeated is not None and after is None:
        why = f"version {repeated.version}, which it repeats, was rewound"
    else:
        return
    raise InvalidInput(f"promote `{name}`: {why}", hint="replay into a new branch")


def _last_forget(repo: Opened, head: Commit) -> int | None:
    """Return the last `forget` whose keys a branch that starts before it may have.

    A branch has none of those of a `forget` that has rewritten earlier versions, if it started after the entry of
    `refs/` that says so. Branches that start before it have ended with that entry.
    """
    rewrote = last_rewrite(head)
    if rewrote is not None and rewrote > (repo.initialised().rewrote_at or -1):
        return last_forget(head)
    return repo.log.given_up_by(head)


def _check_kind(repo: Opened, what: str, commit: Commit, sink: str) -> None:
    """Raise `InvalidInput` if a branch has made files for another kind of sink than this code declares."""
    output, made = repo.job.outputs[sink], commit.sinks[sink]["kind"]
    declared = None if output.sink is None else output.sink.kind
    if commit.outputs.get(sink) and made != declared:
        raise InvalidInput(
            f"{what}: its version {commit.version} has files of sink `{sink}` for the kind {made or 'none'}, "
            f"this code declares {declared or 'none'}",
            hint="use the code that ran on the branch",
        )


def catch_up(
    repo: Opened,
    name: str,
    choice: Choice,
    limits: Limits,
    on_progress: OnProgress | None = None,
    outputs: str = "correct",
    accepted: Accepted | None = None,
) -> ReplayReport:
    """Replay into a branch what this one has committed since. One that ran by itself may have read it already.

    `outputs` and `accepted` are those of the promotion that follows.
    """
    branch = on_branch(repo, name)
    start, head, theirs = _start_of(repo, branch, name), repo.head(), branch.head()
    if start >= (-1 if head is None else head.version):
        return ReplayReport(name, [], [], 0)
    if theirs is not None and theirs.branch == branch.branch and theirs.replays is None:
        with contextlib.suppress(InvalidInput):  # then the replay says why it cannot catch up
            checked(repo, name, outputs, accepted)
            return ReplayReport(name, [], [], 0)
    asked = ReplayRequest(start + 1, name, follow=True)
    return replay(repo, asked, choice, limits, on_progress)
