"""Versions inside of what a promotion took over, as `fix@2`: a rewind may go back to them, with the branch's results.

Such a rewind is a promotion of that version of the branch, which takes the place of the promotion. INVARIANT: only a
branch that is not dropped, and that the open branch has promoted with its outputs, has such versions.
"""

from __future__ import annotations

from ..errors import InvalidInput
from ..protocol.history import effective, is_effective, replaced_at
from ..protocol.kinds import Changes
from ..protocol.named import Object
from ..protocol.records import INSIDE, AddedOutput, Commit, VersionOf
from ..protocol.refs import MAIN
from ..protocol.retained import refuse_if_gone
from ..repo.code import promoted_code
from ..repo.open import on_branch
from ..repo.opened import Opened
from ..repo.operators import committed_state
from ..repo.steps import Steps
from ..repo.versions import Needed, VersionSpec, branch_name, number_of_version, opened_at
from ..values import dataclass
from .covered import own_versions
from .promote import common_start, outputs_of


@dataclass(frozen=True)
class Inside:
    """A version of a branch that version `promotion` of the open branch took over, with others.

    `start` is the newest version that both branches have, `fork` its commit. `added`: by sink, what the versions of the
    branch made up to this one.
    """

    branch: Opened
    name: str
    target: Commit
    promotion: int
    start: int
    fork: Commit | None
    own: list[Commit]
    added: dict[str, list[AddedOutput]]

    @property
    def label(self) -> str:
        """How a user writes the version: `fix@2`."""
        return f"{self.name}@{self.target.version}"

    def stays(self, sink: str) -> str:
        """Return what is not deleted from a sink, in words."""
        return f", but for files that branch `{self.name}` has made up to then" if sink in self.added else ""

    @property
    def needed(self) -> Needed:
        """The versions of the branch that must be kept until the rewind is committed."""
        return Needed(self.target.version, sorted({one.version for those in self.added.values() for one in those}))

    @property
    def segments(self) -> list[Object]:
        """The segments of its state, without which no run could go on."""
        state = committed_state(self.branch, self.target)
        found = (one for maps in state.values() for segments in maps.values() for one in segments)
        return [Object(one.name, one.checksum, one.size) for one in found]

    def changes(self, head: Commit, number: int) -> Changes:
        """Return what the commit of a rewind says besides what every rewind says."""
        return {
            "code": promoted_code(self.branch, self.target),
            "promoted": self.target.as_parent,
            "promotions": [*head.promotions, number],
            "replaced": replaced_at(number, self.fork),
            "quarantine": [file for commit in self.own for file in commit.quarantine],
            "requires": [INSIDE],
        }


def version_inside(repo: Opened, head: Commit | None, spec: VersionSpec) -> Inside | None:
    """Return the version that `fix@2` names, or None if it is one of the open branch.

    `InvalidInput` if no promotion has taken it over, if it is not kept, or if its outputs do not fit this code.
    """
    if not isinstance(spec, str) or "@" not in spec:
        return None
    what = f"rewind to `{spec}`"
    name, version = _named(repo, spec, what)
    branch = on_branch(repo, name)
    if branch.version_of(version).branch != branch.branch or branch.branch == repo.branch:
        return None
    target = branch.log.commit(version) if version <= _newest(branch) else None
    made = None if head is None or target is None else _promotion(repo, head, target)
    if head is None or target is None or made is None:
        if head is not None and target is not None:
            _refuse_beyond(repo, head, target, name, what)
        raise InvalidInput(
            f"{what}: no promotion into `{branch_name(repo, repo.branch)}` has taken over this version",
            hint=f"`tidemill promote {name}` takes over the newest version of the branch",
        )
    fork = branch.initialised().branches[name].fork
    start = common_start(target, -1 if fork is None else fork.version)
    if list(effective(made, start + 1)) != [made.version]:
        raise InvalidInput(
            f"{what}: version {made.version}, which promoted the branch, left what is published as it was",
            hint=f"rewind to version {made.version}, or replay into a new branch and promote it",
        )
    forgot = repo.log.given_up_by(head)
    if forgot is not None and forgot > start:
        raise InvalidInput(
            f"{what}: version {forgot} forgot keys, which the branch may have",
            hint="versions before a `forget` cannot be restored",
        )
    refuse_if_gone(repo.refresh(), branch.version_of(version), "rewind to", whole=True)
    own = list(own_versions(branch, target))
    base = None if start < 0 else repo.log.commit(start)
    return Inside(branch, name, target, made.version, start, base, own, outputs_of(repo, what, own))


def number_here(repo: Opened, spec: VersionSpec) -> VersionSpec:
    """Return the version of the open branch that `main@5` names, or `spec` if it names no branch."""
    return number_of_version(*opened_at(repo, spec)) if isinstance(spec, str) and "@" in spec else spec


def _named(repo: Opened, spec: str, what: str) -> tuple[str, int]:
    """Return the branch and the number of a version. `InvalidInput` also for a branch that was dropped."""
    name = spec.partition("@")[0]
    refs = repo.refresh()
    if name not in refs.branches and any(refs.name_of(one) == name for one in refs.dropped):
        head = repo.head()
        made = [one for one in reversed([] if head is None else head.promotions) if _took_over(repo, one, name)]
        raise InvalidInput(
            f"{what}: branch `{name}` was dropped, so its versions are no longer kept",
            hint=f"rewind to version {made[0]}, which has taken it over" if made else "name another version",
        )
    return name, opened_at(repo, spec)[1]


def _took_over(repo: Opened, version: int, name: str) -> bool:
    promoted = repo.log.commit(version).promoted
    return promoted is not None and repo.initialised().name_of(promoted.branch) == name


def _newest(branch: Opened) -> int:
    head = branch.head()
    return -1 if head is None else head.version


def _refuse_beyond(repo: Opened, head: Commit, target: Commit, name: str, what: str) -> None:
    """Raise `InvalidInput` if a promoted branch had taken the version over from another branch itself."""
    for version in _newest_first(head):
        made = repo.log.commit(version)
        wanted = VersionOf(target.branch, target.version)
        if made.promoted is not None and made.promoted.branch != target.branch and wanted in Steps(repo, made).all:
            by, version = branch_name(repo, made.promoted.branch), _promoted_in(repo, version)
            raise InvalidInput(
                f"{what}: branch `{by}` had taken over `{name}` when version {version} promoted it, and a rewind goes "
                f"only to versions of `{by}` itself",
                hint=f"rewind to `{by}@{made.promoted.version}` or an earlier version of `{by}`, or to version "
                f"{version}; or replay into a new branch",
            )


def _newest_first(head: Commit) -> list[int]:
    """Return the promotions up to a version, newest first, those that count before those that were undone."""
    return sorted(head.promotions, key=lambda one: (is_effective(head, one), one), reverse=True)


def _promotion(repo: Opened, head: Commit, target: Commit) -> Commit | None:
    """Return the newest promotion that took over a version; rather one that counts than one that was undone."""
    for version in _newest_first(head):
        made = repo.log.commit(version)
        if made.promoted is None or made.promoted.branch != target.branch or made.promoted.version < target.version:
            continue
        if made.promoted.version == target.version:
            return made  # it may be a promotion itself, which is no step
        if VersionOf(target.branch, target.version) in Steps(repo, made).all:
            return made
    return None


def words(repo: Opened, head: Commit | None, target: Commit | None, to: Inside | None) -> list[str]:
    """Return in a line each whose results a rewind brings back, if it passes promotions."""
    now = [] if head is None else [one for one in head.promotions if is_effective(head, one)]
    then = [] if target is None or to is not None else [one for one in target.promotions if is_effective(target, one)]
    if to is not None:
        by = _promoted_in(repo, to.promotion)
        return [f"results are those of the code of branch `{to.name}`, as version {by} promoted them"]
    back = {_branch_of(repo, one): one for one in then if one not in now}
    lines = [
        f"results are those of the code of branch `{name}` again, as version {version} promoted them"
        for name, version in ((name, _promoted_in(repo, one)) for name, one in back.items())
    ]
    for version in (one for one in now if one not in then):
        name, other = _branch_of(repo, version), _same_input(repo, version, target)
        offer = "" if other is None else f"; `--to {name}@{other}` keeps those of the branch"
        if name not in back:
            undone = f"the promotion of branch `{name}` in version {_promoted_in(repo, version)} is undone"
            lines.append(f"{undone}: results are those of the code before it{offer}")
    return lines


def _branch_of(repo: Opened, version: int) -> str:
    promoted = repo.log.commit(version).promoted
    return MAIN if promoted is None else repo.initialised().name_of(promoted.branch)


def _promoted_in(repo: Opened, version: int) -> int:
    """Return the version that promoted what a version shows: itself, unless it is a rewind into a promotion."""
    made = repo.log.commit(version)
    if made.restores is None or made.promoted is None:
        return version
    for earlier in sorted((one for one in made.promotions if one < version), reverse=True):
        before = repo.log.commit(earlier)
        is_same = before.promoted is not None and before.promoted.branch == made.promoted.branch
        if is_same and before.restores is None:
            return earlier
    return version


def _same_input(repo: Opened, promotion: int, target: Commit | None) -> int | None:
    """Return the version of a promoted branch that repeats `target`, if a rewind may go there.

    Those with near numbers are read first, because a replay of whole branches keeps the numbers.
    """
    made = repo.log.commit(promotion)
    refs, promoted = repo.initialised(), made.promoted
    if target is None or promoted is None or promoted.branch in refs.dropped:
        return None
    branch = on_branch(repo, refs.name_of(promoted.branch))
    if target.version < branch.log.first:
        return None
    wanted, theirs = VersionOf(target.branch, target.version), branch.log.commit(promoted.version)
    near = sorted(effective(theirs, branch.log.first), key=lambda one: abs(one - target.version))
    return next((one for one in near if branch.log.commit(one).replays == wanted), None)
