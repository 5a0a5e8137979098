"""`Rewind`: go back to an earlier version, by a commit that restores it. Files that were read since then wait again.

Files that were published since are withdrawn. A rewind to a version that was itself rewound publishes its files again.
CRASH: withdrawing follows the commit, and the next run completes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from .. import names
from ..counts import count_of, versions_of
from ..errors import CorruptState, InvalidInput
from ..values import dataclass
from .contract import ActionPlan, CommitAction, Option, SeenBranch, content_of, option, source_of_files

if TYPE_CHECKING:
    from ..branches.inside import Inside
    from ..branches.readers import SinkReader
    from ..protocol.kinds import Changes
    from ..protocol.records import Commit
    from ..protocol.successor import Origin
    from ..publishing.rest import Writing
    from ..publishing.sink_change import SinkChange
    from ..repo.input_files import File
    from ..repo.opened import Opened
    from ..sources.contract import SourceFile

SHOWN_FILES = 5


@dataclass(frozen=True, kw_only=True)
class RewindPlan(ActionPlan):
    """What will happen.

    `undone`: versions that leave the effective history. `waiting`: files that they read or skipped, which wait again,
    without those in `without` and those in `gone`, which do not exist any more. `ends_plan`: the version whose open
    plan ends. `functions`: sinks that are functions of `foreachBatch`.
    """

    target: Commit | None
    into: Inside | None = field(repr=False)
    """What the version is inside of, if a promotion took it over from a branch."""
    results: list[str]
    """Which code's results come back, in words, if the rewind passes a promotion or goes into one."""
    change: SinkChange
    undone: list[int]
    forgets: list[int]
    """Versions that forgot keys in all versions before them, and are not in the history that is restored."""
    waiting: list[SourceFile]
    requeued: list[str]
    """What becomes of requeued rows, in words."""
    without: list[SourceFile]
    gone: list[SourceFile]
    ends_plan: int | None
    stays: dict[str, list[int]]
    """By sink, versions that are undone, but stay in files of the repository of which this is a copy."""
    functions: frozenset[str]
    places: dict[str, str]
    """By sink of this code: where it publishes."""
    readers: list[SinkReader]
    """Other pipelines under the root that read sinks whose files are deleted."""

    @property
    def to_version(self) -> int:
        """The version that is restored."""
        return -1 if self.target is None else self.target.version

    @property
    def label(self) -> str:
        """The version that is restored, in words."""
        return f"version {self.to_version}" if self.into is None else f"`{self.into.label}`"

    @property
    def withdraws(self) -> dict[str, list[int]]:
        """By sink, the versions whose files go."""
        return self.change.withdraws

    @property
    def adds(self) -> dict[str, list[int]]:
        """By sink, the versions whose files come back."""
        return self.change.adds

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        lines = [f"the state becomes that of {self.label}", *self.results]
        if self.undone:
            lines.append(f"undone: {versions_of(self.undone)}")
        if self.waiting:
            lines.append(f"{self._shown(self.waiting)} will be read again")
        if self.waiting and self.forgets:
            lines.append(f"keys that {versions_of(self.forgets)} forgot are left out of these files")
        lines += self.requeued
        if self.without:
            lines.append(f"{self._shown(self.without)} will not be read")
        if self.gone:
            lines.append(f"{self._shown(self.gone)} read since then: gone, so these rows are lost")
        for sink, those in self.withdraws.items():
            done = "function is called with withdrawn=" if sink in self.functions else "files are deleted:"
            stays = "" if sink in self.functions or self.into is None else self.into.stays(sink)
            lines.append(f"sink `{sink}`: {done} {versions_of(those)}{stays}")
        for sink, those in self.adds.items():
            is_function = sink in self.functions
            done = "function is called again with the rows of" if is_function else "files are published again:"
            lines.append(f"sink `{sink}`: {done} {versions_of(those)}")
        lines += [
            f"sink `{sink}`: the original's files of {versions_of(those)} stay" for sink, those in self.stays.items()
        ]
        if self.into is not None:
            name, added = self.into.name, self.into.added
            of = {sink: versions_of([one.version for one in those]) for sink, those in added.items()}
            lines += [
                f"sink `{sink}`: what branch `{name}` made is published again: {those}" for sink, those in of.items()
            ]
        lines += [one.line() for one in self.readers]
        if self.ends_plan is not None:
            lines.append(f"the plan of version {self.ends_plan} ends")
        return lines

    def _shown(self, files: Sequence[SourceFile]) -> str:
        from ..sources.contract import named_file

        assert isinstance(self.seen, SeenBranch)
        head, refs = self.seen.origin.head, self.seen.origin.refs
        sources = {*refs.sources, *(() if head is None else head.sources)}
        names = ", ".join(named_file(file, sources) for file in files[:SHOWN_FILES])
        return f"{count_of(len(files), 'file')} ({names}{', …' if len(files) > SHOWN_FILES else ''})"

    def content(self) -> Any:
        """Return all that will happen."""
        files = [content_of(files) for files in (self.waiting, self.without, self.gone)]
        target = "" if self.target is None else self.target.checksum
        return [target, self.undone, files, self.withdraws, self.adds, sorted(self.functions), self.places]

    def as_dict(self) -> dict[str, Any]:
        """Return what will happen, for machines."""
        return {
            "to_version": self.to_version,
            "of_branch": None if self.into is None else self.into.name,
            "results": self.results,
            "undone": self.undone,
            "waiting": [[file.source, file.path] for file in self.waiting],
            "forgets": self.forgets,
            "requeued": self.requeued,
            "without": [[file.source, file.path] for file in self.without],
            "gone": [[file.source, file.path] for file in self.gone],
            "withdraws": self.withdraws,
            "adds": self.adds,
            "stays": self.stays,
            "readers": [[one.pipeline, one.source, one.sink] for one in self.readers],
            **super().as_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class Rewind(CommitAction):
    """Go back to an earlier version, with a commit that restores its state, watermarks and batch time.

    Files that were read since then wait again, except those named with --without; FILE is relative to its source's
    folder. Published files of the versions that are undone are deleted. The versions themselves stay readable, and a
    rewind can be undone by another one. BRANCH@N goes back inside of a promotion of BRANCH, and keeps its results.
    """

    verb = "rewind"
    kind = "rewind"
    short_help = "Go back to an earlier version."
    operator_base = "CorrectionOperator"
    method = """Go back to a version, by a commit that restores it. Return that commit.

    State, watermarks, batch time and the record of read files become those of `to_version`, a number or a tag; -1
    is what `init` made. `"fix@2"` is a version of a branch that this one has promoted: the rewind goes back inside
    of the promotion, and keeps the results of the branch. Files that were read since wait again. `without`: files
    that are left out of the input instead, as paths relative to their source's folder, or (source, path). An open
    plan ends.

    Published files of the versions that are undone are deleted; meanwhile, readers may find some of them. A
    function of `foreachBatch` is called with `withdrawn=`, the ids of batches that no longer count; if it has no
    such parameter, the rewind is refused. All versions stay readable, and a later rewind may restore a version that
    was undone. Its files are then published again.

    `InvalidInput` for a version that does not exist or is no longer kept, a file that the version to restore has
    read, an unknown file, or an empty `reason`. `Fenced` if another run commits first. Then nothing has changed. A
    crash leaves the rewind committed or not; the next run completes what it does to the sinks.
    """

    to_version: int | str = option(
        Option(
            "Version to go back to.",
            flag="to",
            metavar="N|TAG|BRANCH@N",
            parsed="version",
            form="the version or tag to go back to, or `BRANCH@N` of a branch that was promoted.",
            is_needed=True,
        )
    )
    without: Sequence[str | tuple[str, str]] = option(
        Option(
            "File that is not read again. Repeatable.",
            metavar="FILE",
            is_repeated=True,
            form="files that are not read again, one a line.",
            is_line_each=True,
        ),
        (),
    )
    source: str | None = source_of_files("Source of these files. Needed only if several sources have them.")
    reason: str = option(Option("Why. The commit records it."))

    @property
    def _without(self) -> list[File]:
        return [one if self.source is None else (self.source, str(one)) for one in self.without]

    def begin(self, repo: Opened) -> bool:
        """Complete an earlier rewind, also if this one is refused. What it withdraws need not be published."""
        from ..publishing.publish import repair_if_possible
        from ..store.probe import probe

        probe(repo.store)
        return repair_if_possible(repo, repo.head())

    def look(self, repo: Opened, seen: SeenBranch) -> RewindPlan:
        """Return what will happen. `InvalidInput` for a version that is not kept, or a file that is unknown."""
        from ..repo.overtaken import fenced_if_overtaken

        head = seen.origin.head
        target, into = self._found(repo, head)
        try:
            with fenced_if_overtaken(repo, head, self.verb):
                return self._looked_up(repo, seen, target, into)
        except CorruptState:
            self._found(repo, head)  # raises if retention gave it up in the meantime
            raise

    def _found(self, repo: Opened, head: Commit | None) -> tuple[Commit | None, Inside | None]:
        """Return the version to restore, and what it is inside of, if a promotion took it over from a branch."""
        from ..branches.inside import number_here, version_inside
        from .restoring import version_to_restore

        into = version_inside(repo, head, self.to_version)
        if into is not None:
            return into.target, into
        return version_to_restore(repo, head, number_here(repo, self.to_version)), None

    def _looked_up(self, repo: Opened, seen: SeenBranch, target: Commit | None, into: Inside | None) -> RewindPlan:
        from ..branches.inside import words
        from ..branches.readers import readers_of
        from ..forgetting.left_again import forgets_outside
        from ..publishing.copied import shown_by_original
        from ..publishing.sink_change import sink_change
        from ..repo.input_files import planned_files
        from ..repo.steps import Steps
        from ..sinks.asked import is_called
        from .restoring import CurrentFiles, is_there, read_by, requeued_then, taken_out

        head, number = seen.origin.head, -1 if target is None else target.version
        change = sink_change(repo, head, target if into is None else into.fork, "rewind")
        undone = [repo.log.commit(version) for version in change.undone]
        now, then = Steps(repo, head), Steps(repo if into is None else into.branch, target)
        waiting = read_by(repo, now, then)
        listing = CurrentFiles(repo)
        out = taken_out(repo, target, self._without, waiting | planned_files(seen.plan), listing)
        if head is not None and is_there(head, target, out):
            to = f"version {number}" if into is None else f"`{into.label}`"
            raise InvalidInput(f"rewind to {to}: this is what the newest version has, so nothing would change")
        left = {key: file for key, file in waiting.items() if key not in {(one.source, one.path) for one in out}}
        there = listing.if_possible() if left else {}
        outputs = repo.job.outputs.items()
        return RewindPlan(
            verb=self.verb,
            seen=seen,
            target=target,
            into=into,
            results=words(repo, head, target, into),
            change=change,
            undone=change.undone,
            forgets=sorted(one.version for one in forgets_outside(repo, target)),
            waiting=[file for key, file in left.items() if there is None or key in there],
            requeued=requeued_then(now, then),
            without=out,
            gone=[file for key, file in left.items() if there is not None and key not in there],
            ends_plan=None if seen.plan is None else seen.plan.number,
            stays={sink: sorted(those) for sink, those in shown_by_original(repo, undone).items()},
            places={name: output.sink.uri for name, output in outputs if output.sink is not None},
            functions=frozenset(name for name, output in outputs if output.sink is not None and is_called(output.sink)),
            readers=readers_of(repo, list(change.withdraws)),
        )

    def unneeded(self, plan: RewindPlan) -> dict[str, list[int]]:
        """Return the versions that are undone, by sink."""
        return plan.change.unneeded

    def hold(self, repo: Opened, plan: RewindPlan) -> None:
        """Hold the version to restore, and complete what another process has committed since the look."""
        from ..publishing.publish import repair
        from ..repo.stored import check_stored
        from ..repo.versions import Needed, hold

        assert isinstance(plan.seen, SeenBranch)
        origin, target = plan.seen.origin, plan.target
        if plan.into is not None:
            into = plan.into
            hold(into.branch, into.needed, origin.number, "rewind", self.reason, by=repo.branch)
            check_stored(repo.store, into.segments, f"rewind to {plan.label}")
        elif target is not None:
            hold(repo, Needed(target.version, plan.change.again), origin.number, "rewind", self.reason)
        repair(repo, origin.head, plan.change.unneeded)  # what stays is read from published files

    def prepare(self, repo: Opened, plan: RewindPlan, origin: Origin, to: Writing) -> Changes:
        """Store what stays of published files, and the ledger with the files that are left out."""
        from ..protocol.records import SkippedFile
        from ..protocol.successor import restored
        from ..publishing.sink_change import published_instead
        from ..repo.ledger import store_skipped

        changes = restored(origin, plan.target)
        instead = published_instead(repo, origin.head, plan.change, to)
        if plan.into is not None:
            assert origin.head is not None
            changes |= plan.into.changes(origin.head, to.number)
            for sink, added in plan.into.added.items():
                instead["adds"].setdefault(sink, []).extend(added)
        changes |= instead
        if plan.without:
            ours = store_skipped(repo, plan.target, plan.without, to.number, to.attempt)
            to.stored += [one.name for one in ours.segments]
            changes["ledger"] = ours.segments
            changes["rows"] = {**changes["rows"], names.LEDGER: {"files": ours.rows}}
            changes["skipped"] = [SkippedFile(one.source, one.path, one.etag, one.size) for one in plan.without]
        return changes

    def finish(self, repo: Opened, plan: RewindPlan, commit: Commit) -> RewindPlan:
        """Record the operators that came back."""
        from ..repo.promoted import record_operators

        record_operators(repo, commit)
        return plan

    def done(self, plan: RewindPlan, commit: Commit) -> str:
        """Return what was done, in words."""
        return f"rewound to {plan.label} in version {commit.version}: {self.reason}"
