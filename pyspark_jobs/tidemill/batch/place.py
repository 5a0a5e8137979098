"""Where the tasks of a migration or a merge find the repository, on any machine, and the names of what they store."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from .. import names
from ..settings import Settings
from ..state.cache import RunCache, process_cache
from ..store import Store, open_store
from ..values import dataclass
from .batch import task_attempt


@dataclass(frozen=True)
class Place:
    """A branch of a repository. `number` is the version, or the first entry of `refs/`, for which tasks store files."""

    root: str
    pipeline: str
    storage_options: Mapping[str, Mapping[str, Any]]
    settings: Settings
    branch: str
    number: int
    attempt: str

    @cached_property
    def store(self) -> Store:
        """The repository's store in this process."""
        return open_store(self.root, self.storage_options.get("root")).at(self.pipeline)

    @property
    def cache(self) -> RunCache:
        """The cache of opened segments of this process."""
        return process_cache(self.settings)

    def segment(self, operator: str, map_name: str, range_index: int) -> str:
        """Return a new name for a segment."""
        stem = names.stem(self.number, self.attempt, range_index, task_attempt())
        return names.segment(operator, map_name, self.branch, stem)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "store"}
