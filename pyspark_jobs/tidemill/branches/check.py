"""`check`: compare the code with the repository, without running and without writing.

INVARIANT: the decisions are those of `run`, because both call the same functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

from ..errors import InvalidInput
from ..notebook import NotebookResult
from ..pipeline.job import Job
from ..pipeline.places import check_places
from ..protocol.compatible import Compatibility, Difference, worst
from ..protocol.records import Commit
from ..protocol.time import before_batch
from ..publishing.owners import Accepted, check_outputs
from ..repo.code import OtherCode, other_code
from ..repo.identity import check_root
from ..repo.open import on_branch
from ..repo.opened import Opened
from ..repo.operators import differences
from ..units import iso
from ..values import dataclass
from .against import Against, against


@dataclass(frozen=True)
class CheckReport(NotebookResult):
    """How the code differs from the repository at its newest version, -1 before the first batch.

    `status` is that of the worst difference: `compatible` (a run goes ahead), `needs init`, `needs migration` or
    `refused`. With `against`, the code and `version` are those of that branch, and it says what the branch changes.
    `other_code` are the operators and sinks whose rows this code makes in another way than the newest version did; that
    needs nothing, and is what a change of code is for.
    """

    status: Compatibility
    version: int
    differences: list[Difference] = field(default_factory=list)
    against: Against | None = None
    other_code: OtherCode = field(default_factory=lambda: OtherCode(-1))

    def in_notebook(self) -> dict[str, Any]:
        """Return the status and every difference."""
        found = [f"{one.operator or one.what}: {one.message or one.outcome}" for one in self.differences]
        return {"status": self.status, "version": self.version, "differences": found}


def check_against(repo: Opened, branch: str, tolerance: float | None = None) -> CheckReport:
    """Return how the code differs from a branch, and how that branch differs from the one that is open."""
    compared = against(repo, branch, tolerance)
    return replace(check(on_branch(repo, branch)), against=compared)


def check(repo: Opened) -> CheckReport:
    """Return every difference, and what will happen to it. Reads refs and the newest commit, and writes nothing."""
    if repo.refs_log.read() is None:
        repo.refuse_repository_as_root()
        if repo.refuse_lost_init("check") is None:
            missing = Difference("", "repository", repo.place, "", repo.job.pipeline, "needs init", "`init` creates it")
            return CheckReport(missing.status, -1, [missing])
    repo.refresh()
    head = repo.head()
    found = differences(repo, head)
    found += _refusal("repository", lambda: check_places(repo.pipeline, repo.root, repo.storage_options))
    found += _refusal("repository", lambda: check_root(repo))
    if repo.publishes:
        found += _refusal("sink", lambda: check_outputs(repo, head, Accepted()))
    found += _watermarks(repo.job, head)
    differs = other_code(repo, head)
    return CheckReport(worst(found), -1 if head is None else head.version, found, other_code=differs)


def _watermarks(job: Job, head: Commit | None) -> list[Difference]:
    """Return the watermarks of the code that the newest commit does not have: `.withWatermark` names another column."""
    known = {} if head is None else head.watermarks
    gone = ", ".join(sorted(name for name in known if name not in job.watermarks))
    if not gone:  # a watermark that no event time has moved yet is not recorded
        return []
    return [
        Difference(
            "", "watermark", name, gone, name, "compatible",
            f"it starts at {iso(starts_ms)}; rows whose new event time is not later than that are late",
        )
        for name, starts_ms in before_batch(job.watermarks, known).items()
        if name not in known
    ]  # fmt: skip


def _refusal(what: str, look: Callable[[], None]) -> list[Difference]:
    """Return the error that a run would end with, as a difference."""
    try:
        look()
    except InvalidInput as error:
        return [Difference("", what, "", "", "", "refused", error.first_line, error.message, error.hint or "")]
    return []
