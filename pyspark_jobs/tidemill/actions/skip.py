"""`Skip`: take a file out of the input, because it cannot be read or must not be.

A skip commit records the file in the ledger. If the open plan reads the file, the plan ends, and the next run plans its
other files.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from .. import names
from ..errors import InvalidInput
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
    """The file, whether the open plan ends, and the version that read earlier content of the file."""

    file: SourceFile
    ends_plan: int | None
    read_by: int | None

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        what = f"file `{self.file.path}` of source `{self.file.source}` ({self.file.size:,} bytes) will not be read"
        if self.read_by is not None:
            what += f"; rows that version {self.read_by} read from its earlier content stay"
        if self.ends_plan is not None:
            what += f"; the plan of version {self.ends_plan} ends, and its other files are planned again"
        return [what]

    def content(self) -> Any:
        """Return all that will happen."""
        return [self.lines(), content_of([self.file])]


@dataclass(frozen=True, kw_only=True)
class Skip(CommitAction):
    """Take FILE out of the input, with a commit that reads no files. FILE is relative to its source's folder.

    The file waits, or a failed batch has planned it. In that case the plan ends, and the next run plans its other
    files.
    """

    verb = "skip"
    kind = "skip"
    operator_base = "CorrectionOperator"
    method = """Take a file out of the input, because it cannot be read or must not be. Return the commit that does it.

    `file` is a path relative to its source's folder, or (source, path) if several sources have it. The file waits,
    or is in the plan of a batch that failed; then that plan ends, and the next run plans its other files. The
    commit records `reason`. The file is never read, whatever happens to it later, unless its bytes change and the
    source says `overwritten="new"`.

    `InvalidInput` for a file that was read already, for an unknown file, or if `reason` is empty. `Fenced` if
    another run commits first; then nothing has changed.
    """

    file: str | tuple[str, str] = option(
        Option(
            "The file, relative to its source's folder.",
            metavar="FILE",
            is_argument=True,
            form="the file, below the folder of its source.",
            is_needed=True,
        )
    )
    source: str | None = source_of_files("Source of the file. Needed only if several sources have this file.")
    reason: str = option(Option("Why the file is not read. The commit records it."))

    def look(self, repo: Opened, seen: SeenBranch) -> SkipPlan:
        """Return what will happen. `InvalidInput` for a file that was read, or that is unknown."""
        from ..repo.input_files import listed_files, one_of, planned_files

        planned = planned_files(seen.plan)
        which = self.file if self.source is None else (self.source, str(self.file))
        found = one_of(repo, planned | listed_files(repo), which, "skip", "file to skip")
        read_by = _refuse_known(repo, seen, found)
        is_planned = (found.source, found.path) in planned
        return SkipPlan(
            verb=self.verb, seen=seen, file=found, ends_plan=seen.origin.number if is_planned else None, read_by=read_by
        )

    def prepare(self, repo: Opened, plan: SkipPlan, origin: Origin, to: Writing) -> Changes:
        """Store the ledger with the file."""
        from ..protocol.records import SkippedFile
        from ..repo.ledger import store_skipped

        head, file = origin.head, plan.file
        stored = store_skipped(repo, head, [file], to.number, to.attempt)
        to.stored += [one.name for one in stored.segments]
        return {
            "ledger": stored.segments,
            "rows": {**(head.rows if head else {}), names.LEDGER: {"files": stored.rows}},
            "skipped": [SkippedFile(file.source, file.path, file.etag, file.size)],
        }

    def done(self, plan: SkipPlan, commit: Commit) -> str:
        """Return what was done, in words."""
        file = f"`{plan.file.path}` of source `{plan.file.source}`"
        return f"skipped {file} in version {commit.version}: {self.reason}"


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
