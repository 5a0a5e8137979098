"""`Skip`: take a file out of the input, because it cannot be read or must not be; or accept that files were withdrawn.

A skip commit records the file in the ledger. If the open plan reads the file, the plan ends, and the next run plans its
other files. Files that another pipeline has withdrawn after they were read are recorded in the same way: their rows
stay, and runs say no more of them.
"""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import names
from ..counts import count_of
from ..errors import InvalidInput
from ..spelling import unknown
from ..values import dataclass
from .contract import ActionPlan, CommitAction, Option, SeenBranch, content_of, option, source_of_files

if TYPE_CHECKING:
    from ..protocol.kinds import Changes
    from ..protocol.records import Commit
    from ..protocol.successor import Origin
    from ..publishing.rest import Writing
    from ..repo.opened import Opened
    from ..sources.contract import SourceFile


@dataclass(frozen=True, kw_only=True)
class SkipPlan(ActionPlan):
    """The files, whether the open plan ends, and the version that read earlier content of the file.

    `by`: the pipelines that have withdrawn the files, if they were read before, and none of them waits.
    """

    files: list[SourceFile]
    ends_plan: int | None = None
    read_by: int | None = None
    by: list[str] = field(default_factory=list)

    @property
    def what(self) -> str:
        """The files, in words."""
        from ..sources.contract import named_file

        if not self.by:
            return f"`{self.files[0].path}` of source `{self.files[0].source}`"
        first = named_file(self.files[0], {one.source for one in self.files})
        pipelines = " and ".join(f"`{one}`" for one in self.by)
        return f"{count_of(len(self.files), 'file')} that {pipelines} withdrew, for example {first}"

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        if self.by:
            what = f"{self.what}: the rows that were read of them stay"
        else:
            what = f"file {self.what} ({self.files[0].size:,} bytes) will not be read"
        if self.read_by is not None:
            what += f"; rows that version {self.read_by} read from its earlier content stay"
        if self.ends_plan is not None:
            files = "files" if self.by else "other files"
            what += f"; the plan of version {self.ends_plan} ends, and its {files} are planned again"
        return [what]

    def content(self) -> Any:
        """Return all that will happen."""
        return [self.lines(), content_of(self.files)]


@dataclass(frozen=True, kw_only=True)
class Skip(CommitAction):
    """Take FILE out of the input, with a commit that reads no files. FILE is relative to its source's folder.

    The file waits, or a failed batch has planned it. In that case the plan ends, and the next run plans its other
    files. With --withdrawn instead of FILE, rows stay that were read of files which another pipeline has withdrawn
    since.
    """

    verb = "skip"
    kind = "skip"
    operator_base = "CorrectionOperator"
    argument_order = ("file", "reason", "withdrawn")
    method = """Take a file out of the input, because it cannot be read or must not be. Return the commit that does it.

    `file` is a path relative to its source's folder, or (source, path) if several sources have it. The file waits,
    or is in the plan of a batch that failed; then that plan ends, and the next run plans its other files. The
    commit records `reason`. The file is never read, whatever happens to it later, unless its bytes change and the
    source says `overwritten="new"`.

    `withdrawn`, instead of a file: all files that were read, and that the pipeline which published them has
    withdrawn since. Runs fail because of them. The rows that were read of them stay, and the next run continues.

    `InvalidInput` for a file that was read already, for an unknown file, if no file was withdrawn, or if `reason`
    is empty. `Fenced` if another run commits first; then nothing has changed.
    """

    file: str | tuple[str, str] | None = option(
        Option(
            "The file, relative to its source's folder.",
            metavar="FILE",
            is_argument=True,
            form="the file, below the folder of its source.",
            is_needed=True,
        ),
        None,
    )
    source: str | None = source_of_files("Source of the file. Needed only if several sources have this file.")
    reason: str = option(Option("Why the file is not read. The commit records it."))
    withdrawn: bool = option(
        Option("Keep the rows of files that another pipeline has withdrawn since they were read.", parsed="flag"), False
    )

    def look(self, repo: Opened, seen: SeenBranch) -> SkipPlan:
        """Return what will happen. `InvalidInput` for a file that was read, or that is unknown."""
        from ..repo.input_files import listed_files, one_of, planned_files

        if self.withdrawn == (self.file is not None):
            both = "both" if self.withdrawn else "neither"
            raise InvalidInput(f"skip: expected a file or `withdrawn`, found {both}")
        if self.file is None:
            return self._withdrawn(repo, seen)
        planned = planned_files(seen.plan)
        which = self.file if self.source is None else (self.source, str(self.file))
        found = one_of(repo, planned | listed_files(repo), which, "skip", "file to skip")
        read_by = _refuse_known(repo, seen, found)
        is_planned = (found.source, found.path) in planned
        ends = seen.origin.number if is_planned else None
        return SkipPlan(verb=self.verb, seen=seen, files=[found], ends_plan=ends, read_by=read_by)

    def _withdrawn(self, repo: Opened, seen: SeenBranch) -> SkipPlan:
        """Return what will happen with files that were withdrawn. `InvalidInput` if there is none."""
        from ..run.withdrawn import sinks_read

        if self.source is not None and self.source not in repo.job.sources:
            raise unknown("source", self.source, list(repo.job.sources))
        found = sinks_read(repo, seen.origin.head, {}).withdrawn
        found = [one for one in found if self.source in (None, one.file.source)]
        if not found:
            raise InvalidInput("skip: no file was withdrawn after it was read, as far as the repositories can be read")
        by = sorted({one.by.pipeline for one in found})
        ends = None if seen.plan is None else seen.plan.number
        return SkipPlan(verb=self.verb, seen=seen, files=[one.file for one in found], ends_plan=ends, by=by)

    def prepare(self, repo: Opened, plan: SkipPlan, origin: Origin, to: Writing) -> Changes:
        """Store the ledger with the file."""
        from ..protocol.records import SkippedFile
        from ..repo.ledger import store_skipped

        head = origin.head
        stored = store_skipped(repo, head, plan.files, to.number, to.attempt)
        to.stored += [one.name for one in stored.segments]
        return {
            "ledger": stored.segments,
            "rows": {**(head.rows if head else {}), names.LEDGER: {"files": stored.rows}},
            "skipped": [SkippedFile(one.source, one.path, one.etag, one.size) for one in plan.files],
        }

    def done(self, plan: SkipPlan, commit: Commit) -> str:
        """Return what was done, in words."""
        return f"skipped {plan.what} in version {commit.version}: {self.reason}"


def _refuse_known(repo: Opened, seen: SeenBranch, file: SourceFile) -> int | None:
    """Return the version that read earlier content of a file. `InvalidInput` if it read or skipped the present one."""
    from ..sources import asked
    from ..sources.contract import named_file
    from ..sources.ledger import EARLIER, QUARANTINED, READ, SKIPPED, is_same, look_up_files

    known = look_up_files(repo.ledger(seen.origin.head).map, [file])[0]
    options = dict(repo.storage_options.get("source") or {})
    fingerprint = partial(asked.fingerprint, repo.job.sources[file.source], options=options)
    if known is None or not is_same(file, known, fingerprint):
        return known.version if known is not None and known.how == READ else None
    if known.how == QUARANTINED:
        return None
    name = named_file(file, repo.sources)
    if known.how == SKIPPED:
        raise InvalidInput(f"skip {name}: version {known.version} skipped it already")
    if known.how == EARLIER:
        raise InvalidInput(f'skip {name}: start="latest" leaves it out already')
    raise InvalidInput(
        f"skip {name}: version {known.version} has read it, so its rows are in the state",
        hint="skip takes only files that were not read yet",
    )
