"""Which other pipelines under the same root read the sinks of this one, as their newest commits say.

Read only, without their code. A repository that cannot be read is left out, because it must not block a correction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from ..errors import TidemillError
from ..protocol.refs import MAIN
from ..repo.opened import Opened
from ..repo.recorded import open_recorded
from ..values import dataclass
from .under_root import repositories


@dataclass(frozen=True, order=True)
class SinkReader:
    """A source of another pipeline that reads a sink."""

    pipeline: str
    source: str
    sink: str

    def line(self) -> str:
        """Return what to do if files of the sink are deleted."""
        return (
            f"pipeline `{self.pipeline}` reads sink `{self.sink}` as source `{self.source}`: it keeps what it has read "
            "of the deleted files until you rewind it, too; `tidemill which FILE` says which of its versions read one"
        )


def readers_of(repo: Opened, sinks: Sequence[str]) -> list[SinkReader]:
    """Return the sources of other pipelines under the root that read one of these sinks, or a folder in or above it."""
    declared = {name: repo.declared_sink(name) for name in sinks}
    places = {name: sink.uri.rstrip("/") for name, sink in declared.items() if sink is not None and sink.uri}
    if not places:
        return []
    found: list[SinkReader] = []
    with contextlib.suppress(TidemillError):
        for other in repositories(repo.root_store):
            if other != repo.job.pipeline:
                found += [
                    SinkReader(other, source, sink)
                    for source, folder in _sources(repo, other)
                    for sink, place in places.items()
                    if f"{place}/".startswith(f"{folder}/") or f"{folder}/".startswith(f"{place}/")
                ]
    return sorted(found)


def _sources(repo: Opened, pipeline: str) -> Iterator[tuple[str, str]]:
    """Yield the sources of another pipeline that have a folder, each with its URI."""
    with contextlib.suppress(TidemillError):
        head = open_recorded(repo.root, pipeline, MAIN, None, repo.storage_options).head()
        for name, described in ({} if head is None else head.sources).items():
            if described.get("uri"):
                yield name, described["uri"].rstrip("/")
