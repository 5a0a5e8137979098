"""The repositories under a root, each with its newest version and its branches. Read only, without code.

INVARIANT: the cost follows the number of repositories, not that of their objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from .. import names
from ..errors import InvalidInput, TidemillError
from ..protocol.refs import MAIN
from ..repo.open import checked_options
from ..repo.recorded import open_recorded
from ..store import Store, open_store
from ..units import iso
from ..values import dataclass
from .branch import BranchInfo, branches_found

_Options = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class PipelineInfo:
    """A pipeline that has a repository under a root. Times are ISO 8601, null before the first batch."""

    name: str
    head: int = -1
    """The newest version of `main`; -1 before the first batch."""
    kind: str | None = None
    batch_time: str | None = None
    committed: str | None = None
    branches: list[BranchInfo] = field(default_factory=list)
    """All branches, `main` first."""
    problem: str | None = None
    """Why something of the repository cannot be read. None if all of it can."""

    def line(self) -> str:
        """Return the same in words."""
        said = ["no batch yet" if self.head < 0 else f"version {self.head}"]
        said += [] if self.committed is None else [f"committed {self.committed}"]
        said += [f"branch `{one.name}` at {one.head}" for one in self.branches if one.name != MAIN]
        said += [] if self.problem is None else [f"PROBLEM: {self.problem.splitlines()[0]}"]
        return f"{self.name}: {', '.join(said)}"


def pipelines_under(root: str, storage_options: _Options | None = None) -> list[PipelineInfo]:
    """Return the pipelines that have a repository under a root, by name.

    A repository that cannot be read is reported as its `problem`. `InvalidInput` if there is no repository.
    """
    options = checked_options(root, MAIN, storage_options, "ls")
    store = open_store(root, options.get("root"))
    found = [_info(root, name, options) for name in repositories(store)]
    if found:
        return found
    is_repository = next(store.list(names.REFS), None) is not None
    raise InvalidInput(
        f"ls `{root}`: "
        + ("it is a repository itself, expected the folder above it" if is_repository else "it has no repository"),
        hint="a repository is the folder ROOT/NAME with `refs/` in it, where NAME is the pipeline's; give ROOT",
    )


def repositories(store: Store) -> Iterator[str]:
    """Yield the names of repositories: after the first object of a folder, the listing goes on behind the folder."""
    entry = next(store.list("", None, _may_be_repository), None)
    while entry is not None:
        name, slash, _ = entry.name.partition("/")
        if slash and names.is_name(name) and next(store.list(f"{name}/{names.REFS}"), None) is not None:
            yield name
        behind = f"{name}0" if slash else name  # `0` is the character after `/`
        entry = next(store.list("", behind, _may_be_repository), None)


def _may_be_repository(folder: str) -> bool:
    """Whether a local folder is read: one just below the root, and the entries of a repository."""
    name, _, rest = folder.partition("/")
    return names.is_name(name) and rest in ("", names.REFS)


def _info(root: str, name: str, options: _Options) -> PipelineInfo:
    try:
        repo = open_recorded(root, name, MAIN, None, options)
        found = branches_found(repo)
    except TidemillError as error:
        return PipelineInfo(name, problem=str(error))
    lost = next((str(error) for _, error in found if error is not None), None)
    branches = [one for one, _ in found]
    try:
        head = repo.head()
    except TidemillError as error:
        return PipelineInfo(name, branches=branches, problem=str(error))
    if head is None:
        return PipelineInfo(name, branches=branches, problem=lost)
    return PipelineInfo(name, head.version, head.kind, iso(head.batch_time_ms), iso(head.committed_ms), branches, lost)
