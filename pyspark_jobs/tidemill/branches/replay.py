"""`replay`: carry out recorded plans again on a branch, with the code at hand. Drained in one session, and resumable.

INVARIANT: nothing is written before it is known that the branch can take the versions. CRASH: every batch is a commit
of the branch, so another call continues a replay that died.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from ..counts import versions_of
from ..errors import InvalidInput
from ..names import check_name
from ..notebook import NotebookResult
from ..pipeline.part import Part, part_for
from ..protocol.history import effective
from ..protocol.kinds import rules_of
from ..protocol.records import VersionOf
from ..protocol.refs import MAIN
from ..repo.code import DEFINITIONS, OtherCode, other_code
from ..repo.open import on_branch
from ..repo.opened import Opened
from ..repo.operators import check_operators
from ..repo.steps import Steps, leaves_nothing
from ..repo.versions import VersionSpec, number_of_version
from ..run.drain import Limits, OnProgress
from ..run.engine import Choice
from ..values import dataclass
from .branch import start_branch
from .inputs import Inputs, RecordedFile, ReplayFiles
from .outlook import Outlook
from .replaying import ReplayDrain

LOG = logging.getLogger("tidemill")


@dataclass(frozen=True)
class LeftAlone:
    """An operator or sink that a replay takes as recorded, and in which versions other code made it.

    `feeds`: operators that are replayed read its output, and now get that of this code.
    """

    kind: str
    name: str
    versions: list[int]
    feeds: bool

    @property
    def message(self) -> str:
        """What the user should know."""
        what = f"{self.kind} `{self.name}` has other code than in {versions_of(self.versions)} but is not replayed"
        if self.kind == "sink":
            return f"{what}. Replay all operators if its rows would differ"
        read = "; replayed operators read what this code makes of it" if self.feeds else ""
        return f"{what}{read}. Add it to `--operators` if its results would differ"


def left_alone(repo: Opened, part: Part, steps: Steps, todo: Sequence[VersionOf]) -> list[LeftAlone]:
    """Return what the part does not compute, and this code makes in another way than the versions that are repeated."""
    ours = repo.definitions
    computed = {"operators": part.chosen, "sinks": part.sinks}
    found: dict[tuple[str, str], list[int]] = {}
    for step in todo:
        recorded = steps.commit(step).code.get(DEFINITIONS, {})
        for kind, names in ours.items():
            for name in names.keys() - computed[kind]:
                if recorded.get(kind, {}).get(name, names[name]) != names[name]:
                    found.setdefault((kind, name), []).append(step.version)
    return [
        LeftAlone(kind.removesuffix("s"), name, versions, kind == "operators" and name in part.job.operators)
        for (kind, name), versions in sorted(found.items())
        if kind == "operators" or ("operators", name) not in found
    ]


def warn(found: Sequence[LeftAlone]) -> None:
    """Log what is left alone."""
    for one in found:
        LOG.warning("%s", one.message)


FILES = ("recorded", "current")


@dataclass(frozen=True)
class ReplayReport(NotebookResult):
    """What `replay` did: the versions of the source that it carried out, and the batches that it made on the branch.

    `of_branches` has the same versions by branch, because those of a promoted branch have the numbers of that branch.
    `left` is how many are left. The next call carries them out. `operators` are those that were computed; None: all.
    `left_alone` are the others that this code makes in another way than was recorded.
    `left_out`: files that are gone, which these versions were carried out without. `changed`: files that were read with
    what they have now, which is not what the version had read. Both are empty unless `files` is "current".
    """

    branch: str
    replayed: list[int]
    versions: list[int]
    left: int
    operators: list[str] | None = None
    left_alone: list[LeftAlone] = field(default_factory=list)
    left_out: list[RecordedFile] = field(default_factory=list)
    changed: list[RecordedFile] = field(default_factory=list)
    of_branches: dict[str, list[int]] = field(default_factory=dict)
    progress: list[Any] = field(default_factory=list, repr=False)

    def in_notebook(self) -> dict[str, Any]:
        """Return what was replayed, with versions as ranges."""
        return {
            "branch": self.branch, "replayed": versions_of(self.replayed), "left": self.left,
            "operators": self.operators, "left out": [one.path for one in self.left_out],
            "changed": [one.path for one in self.changed],
        }  # fmt: skip


@dataclass(frozen=True)
class ReplayRequest:
    """The arguments of `replay`."""

    from_version: VersionSpec
    into: str
    to_version: VersionSpec | None = None
    files: str = "recorded"
    follow: bool = False
    operators: Sequence[str] | None = None


def replay(
    repo: Opened, asked: ReplayRequest, choice: Choice, limits: Limits, on_progress: OnProgress | None = None
) -> ReplayReport:
    """Carry out the plans of this branch from a version on, into another branch, which is started if there is none."""
    repo = repo.remembering()
    steps = Steps(repo, repo.head())
    first, end = _range(steps, asked)
    name, files = asked.into, _files(asked.files)
    ours = _on_branch(repo, name) if name in repo.refresh().branches else None
    if ours is not None:
        _check_fork(repo, ours, name, first)
    part = _part(repo, ours, asked)
    repo, ours = _letting(repo, part), None if ours is None else _letting(ours, part)
    outlook = Outlook(Inputs(repo, files), part is not None)
    if ours is None or _has_none(ours):
        after = steps.after_version(first - 1)
        if after is None:
            raise InvalidInput(
                f"replay from version {first}: version {first - 1} was rewound, or a promotion replaced it",
                hint="replay from an earlier version; `tidemill log` shows what was replaced",
            )
        outlook.look(steps, steps.all[after:end])
    if ours is None:
        _check_code(repo, name, first, part)
        start_branch(repo, name, first - 1, f"replay from version {first}")
        ours = _letting(_on_branch(repo, name), part)
        _check_fork(repo, ours, name, first)
    work = ReplayDrain(ours, steps, outlook, choice, limits, on_progress, part)
    todo = work.left(ours.head(), steps, end)
    if todo:
        _check_same_code(ours, name, part)
    alone = [] if part is None else left_alone(repo, part, steps, todo)
    warn(alone)
    work.replay(end)
    while asked.follow and work.left(ours.head(), work.steps(), end) and work.replayed:
        done = len(work.replayed)
        work.replay(end)
        if len(work.replayed) == done:
            break  # a limit was reached
    steps = work.steps()
    left = [step for step in work.left(ours.head(), steps, end) if not leaves_nothing(steps.commit(step))]
    of_branches: dict[str, list[int]] = {}
    for step in work.replayed:
        of_branches.setdefault(repo.initialised().name_of(step.branch), []).append(step.version)
    operators = None if part is None else sorted(part.chosen)
    return ReplayReport(
        branch=name,
        replayed=[step.version for step in work.replayed],
        versions=work.done.versions,
        left=len(left),
        operators=operators,
        left_alone=alone,
        left_out=work.left_out,
        changed=work.changed,
        of_branches=of_branches,
        progress=work.done.progress,
    )


def _on_branch(repo: Opened, name: str) -> Opened:
    return on_branch(repo, name).remembering()


def _range(steps: Steps, asked: ReplayRequest) -> tuple[int, int | None]:
    """Return the first version to carry out, and the place in the steps at which to end; None: at the newest."""
    if check_name(asked.into, "branch") == MAIN:
        raise InvalidInput("replay into `main`: `main` cannot be a target", hint="replay into a branch, and promote it")
    repo, newest = steps.repo, -1 if steps.head is None else steps.head.version
    first = number_of_version(repo, asked.from_version)
    last = newest if asked.to_version is None else number_of_version(repo, asked.to_version)
    if not 0 <= first <= newest:
        there = "there is no version yet" if newest < 0 else f"versions go from 0 to {newest}"
        raise InvalidInput(f"replay from version {first}: {there}")
    if last < first:
        raise InvalidInput(f"replay to version {last}: it is before version {first}, where the replay begins")
    if last > newest:
        raise InvalidInput(f"replay to version {last}: versions go from 0 to {newest}")
    if asked.to_version is None:
        end = None if asked.follow else len(steps.all)
    else:
        end = steps.after_version(last)
        if end is None:
            raise InvalidInput(
                f"replay to version {last}: it was rewound, or a promotion replaced it",
                hint="replay to another version, or without an end; `tidemill log` shows what was replaced",
            )
    return first, end


def _has_none(branch: Opened) -> bool:
    """Whether a branch has no version of its own."""
    head = branch.head()
    return head is None or head.branch != branch.branch


def _part(repo: Opened, ours: Opened | None, asked: ReplayRequest) -> Part | None:
    """Return the part of the pipeline that a replay computes; None: all of it. A branch goes on as it began.

    `InvalidInput` for operators that do not fit, or are not those with which the branch began.
    """
    head, theirs = repo.head(), None if ours is None else ours.head()
    recorded = {} if head is None else head.schemas
    began = None if ours is None or theirs is None or _has_none(ours) else theirs.computed
    if asked.files != "recorded" and (began or asked.operators is not None):
        raise InvalidInput(
            f"replay with operators: files={asked.files!r}, expected 'recorded', because the state of the other "
            "operators was made from the recorded files",
            hint="replay all operators",
        )
    if asked.operators is None:
        return part_for(repo.job, began, recorded) if began else None
    if isinstance(asked.operators, str):
        raise InvalidInput(
            f"replay: operators={asked.operators!r}, expected a list of names", hint=f"operators=[{asked.operators!r}]"
        )
    part = part_for(repo.job, asked.operators, recorded)
    if began is not None and set(began) != part.chosen:
        computed = ", ".join(f"`{one}`" for one in began) or "all of them"
        raise InvalidInput(
            f"replay operators {', '.join(f'`{one}`' for one in sorted(part.chosen))} into branch `{asked.into}`: the "
            f"branch began with {computed}",
            hint="replay into another branch, or drop this one first",
        )
    return part


def _letting(repo: Opened, part: Part | None) -> Opened:
    """Return the branch on which the operators that the caller named may begin."""
    return repo if part is None else dataclasses.replace(repo, begins=part.chosen)


def _check_same_code(ours: Opened, name: str, part: Part | None) -> None:
    """Raise `InvalidInput` if other code made what a branch has: the result would be that of neither.

    Corrections are the same with any code. What came before the start of the branch does not matter, either.
    """
    theirs = ours.head()
    own = [] if theirs is None else reversed(list(effective(theirs, ours.log.first)))
    if theirs is None or not any(rules_of(ours.log.commit(version)).carries_out for version in own):
        return
    lacking = [f"operator `{one}`" for one in sorted(theirs.schemas) if one not in ours.job.operators]
    lacking += [f"sink `{one}`" for one in sorted(theirs.sinks) if one not in ours.job.outputs]
    more = [f"sink `{one}`" for one in sorted(ours.job.outputs) if one not in theirs.sinks]
    if part is not None:
        lacking, more = [], []  # all else is as recorded
    found = other_code(ours, theirs)
    if part is not None:
        found = OtherCode(
            found.version,
            [one for one in found.operators if one in part.chosen],
            [one for one in found.sinks if one in part.sinks],
        )
    if lacking or more or found:
        why = (
            f"it has {lacking[0]}, which this code does not have"
            if lacking
            else f"its versions have no {more[0]}"
            if more
            else f"other code made its versions: {found.names}"
        )
        raise InvalidInput(
            f"replay into branch `{name}`, which has versions up to {theirs.version}: {why}",
            hint="continue with the code that made them; or replay into a new branch",
        )


def _check_code(repo: Opened, name: str, first: int, part: Part | None) -> None:
    """Raise `InvalidInput` if a branch that would start before the version could not run with this code."""
    job = repo.job if part is None else part.job
    start = None if first == 0 else repo.log.commit(first - 1)
    check_operators(dataclasses.replace(repo, branch=name, job=job), start)


def _check_fork(repo: Opened, ours: Opened, name: str, first: int) -> None:
    """Raise `InvalidInput` if an existing branch does not start just before the version."""
    fork = ours.initialised().branches[name].fork
    if (
        fork is None
        or fork.version != first - 1
        or (first and ours.version_of(first - 1) != repo.version_of(first - 1))
    ):
        start = -1 if fork is None else fork.version
        raise InvalidInput(
            f"replay from version {first} into branch `{name}`: the branch starts at version {start} of "
            f"`{'' if fork is None else repo.initialised().name_of(fork.branch)}`",
            hint="replay into another branch, or drop this one first",
        )


def _files(given: str) -> ReplayFiles:
    if given == "recorded":
        return "recorded"
    if given == "current":
        return "current"
    raise InvalidInput(f"replay: files={given!r}, expected one of {', '.join(FILES)}")
