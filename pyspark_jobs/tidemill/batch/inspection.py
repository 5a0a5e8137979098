"""A work that asks each worker what it has and what it can reach, before anything is written.

INVARIANT: it reads and lists, and changes nothing. Opening it on a worker imports Tidemill and the modules of the
pipeline's functions, so a missing one is an error of the engine that names it.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from ..errors import TidemillError
from ..installed import version_of_tidemill
from ..settings import Settings
from ..state.disk_cache import DiskCache
from ..store import folder_store
from ..values import dataclass
from .work import Data, Item, StateWork

_REQUIRED = ("pyarrow", "duckdb", "boto3")
"""What Tidemill itself needs beside its native module, which this module imports."""


@dataclass(frozen=True)
class Reachable:
    """A folder that tasks read. `name` is an object that the driver sees in it, or empty if there may be none."""

    what: str
    uri: str
    options: Mapping[str, Any] | None = field(default=None, repr=False)
    name: str = ""

    def problem(self) -> str | None:
        """Return what is wrong here with the folder, or None."""
        try:
            # A URI of a local folder is made of its path as it is, so a `%` in it means itself.
            store = folder_store(self.uri.removeprefix("file://"), self.options)
            if self.name:
                return None if store.stat(self.name) else f"does not see `{self.name}` in the {self.what} `{self.uri}`"
            next(iter(store.list("")), None)
        except TidemillError as error:
            return f"cannot read the {self.what} `{self.uri}`: {error.message}"
        return None


@dataclass(frozen=True)
class Inspection(StateWork):
    """Every range is a task, and returns what it found as JSON. `code` is whatever a batch would ship.

    `imports` are top-level modules that the functions import when they are called.
    """

    ranges: int
    folders: tuple[Reachable, ...]
    settings: Settings
    code: Any = None
    imports: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    levels: int = 1

    def apply(self, level: int, range_index: int, items: Iterable[Data]) -> Iterator[Item]:  # noqa: ARG002
        """Return what this worker has."""
        lacking = [f"`{name}`" for name in (*_REQUIRED, *self.imports) if not _is_here(name)]
        if lacking:
            problems = [f"cannot import {', '.join(lacking)}"]
        else:
            problems = [problem for folder in self.folders if (problem := folder.problem())]
        found = {**worker(), "problems": problems, "cache": cache(self.settings)}
        yield Item(0, json.dumps(found).encode())


def _is_here(name: str) -> bool:
    return name in sys.modules or importlib.util.find_spec(name) is not None


def worker() -> dict[str, str]:
    """Return what identifies this process: machine, interpreter, versions and architecture."""
    return {
        "host": platform.node(),
        "python": sys.executable,
        "version": platform.python_version(),
        "machine": platform.machine(),
        "tidemill": version_of_tidemill(),
    }


def cache(settings: Settings) -> str:
    """Return what is wrong with the cache on disk, or an empty text."""
    if not settings.disk_cache_bytes:
        return ""
    folder = DiskCache(settings.disk_cache_folder, settings.disk_cache_bytes)
    return "" if folder.is_usable() else f"the cache folder `{folder.folder}` is not private and writable"


def cache_folder(settings: Settings) -> str:
    """Return the folder of the cache on disk."""
    return str(DiskCache(settings.disk_cache_folder, settings.disk_cache_bytes).folder)
