"""`Opened`: one branch of a repository as this process opened it. `Session`: what the process has seen of it.

INVARIANT: records of another repository are an error, so nothing is read or committed in a place that was swapped.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any

import pyarrow as pa

from .. import names
from ..batch.place import Place
from ..errors import CorruptState, InvalidInput
from ..pipeline.job import Job
from ..pipeline.pipeline import Pipeline
from ..protocol.log import Log, trace_of_batch
from ..protocol.records import HASH_END, Commit, VersionOf
from ..protocol.refs import Refs
from ..protocol.refs_log import RefsLog
from ..protocol.retained import version_of
from ..protocol.successor import Origin
from ..settings import Settings
from ..sinks.contract import Sink
from ..sources.contract import SourceFile
from ..sources.ledger import LEDGER_SCHEMA
from ..state.cache import RunCache, process_cache
from ..state.versions import OpenedMap, open_map
from ..store import Store
from ..store.contract import ObjectMissing
from ..values import dataclass
from .touched import Touched

_Options = Mapping[str, Mapping[str, Any]]
_NO_REPOSITORY = (
    "check the root and the name of the pipeline; if both are right, create the repository with r.init() or "
    "`tidemill init`"
)
_NOTHING_TO_READ = "a repository is the folder ROOT/NAME with `refs/` in it, where NAME is the pipeline's; check both"
AIRFLOW = ("DAG_ID", "TASK_ID", "DAG_RUN_ID", "TRY_NUMBER", "LOGICAL_DATE")
"""What Airflow tells about a task, by the environment."""


@dataclass(frozen=True)
class Recorded:
    """What a repository that is read without code records of its pipeline: names, and the columns of sinks."""

    operators: tuple[str, ...] = ()
    sinks: Mapping[str, pa.Schema] = field(default_factory=dict)
    sources: tuple[str, ...] = ()


@dataclass
class Session:
    """What this process has seen of one branch, so that it need not ask again. Each branch that is opened has its own.

    Whatever is kept here only saves requests: an empty session gives the same results.
    """

    fingerprints: Touched
    """Fingerprints of files whose ETags changed, as far as this process and the hint know them."""
    digests: Callable[[], Mapping[str, Mapping[str, str]]] = dict
    """Returns the digests of the code's operators and sinks, which it takes once."""
    refs: Refs | None = None
    """What `refs/` said when it was last read."""
    touched: dict[tuple[str, str], SourceFile] = field(default_factory=dict)
    """Files that have new ETags but the same bytes as when they were read. The next batch records it."""
    published: dict[str, str] = field(default_factory=dict)
    """The checksum of the commit that was last seen to be published, by sink."""
    clean_sinks: set[str] = field(default_factory=set)
    """Sinks that were seen to have no files of versions that the repository has lost."""


@dataclass(frozen=True)
class Opened:
    """One branch of one pipeline's repository: the code, the branch, the stores and the settings.

    `session` is shared by all that were made of this one by `dataclasses.replace`.
    """

    pipeline: Pipeline
    job: Job
    root: str
    branch: str
    store: Store
    root_store: Store
    refs_log: RefsLog
    log: Log
    settings: Settings
    spark_conf: Mapping[str, str] = field(repr=False)
    storage_options: _Options = field(repr=False)
    session: Session = field(repr=False)
    task_root: str
    """The root for tasks. A folder is absolute, because the process may change its own, and so may users' functions."""
    place: str
    """The URI of the repository, the same however the root is spelled. It stays if the process changes its folder."""
    reference: str | None = None
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    publishes: bool = True
    """Whether versions of this branch are made visible in sinks."""
    begins: frozenset[str] = frozenset()
    """Operators that may begin on this branch after its start: those that a replay names."""
    recorded: Recorded | None = None
    """Set if the repository is read without the pipeline's code. Then `job` has nothing but the pipeline's name."""

    @property
    def definitions(self) -> Mapping[str, Mapping[str, str]]:
        """Digests of the operators and sinks of the code, taken when they are first asked for.

        A run asks before its first batch, because a batch may change the objects that its functions use.
        """
        return self.session.digests()

    @property
    def operators(self) -> Collection[str]:
        """The names of the pipeline's operators: those of the code, or without code those that are recorded."""
        return self.job.operators if self.recorded is None else self.recorded.operators

    @property
    def sinks(self) -> Mapping[str, pa.Schema]:
        """The columns of the pipeline's sinks, by the code, or without code as they are recorded."""
        if self.recorded is not None:
            return self.recorded.sinks
        return {name: output.schema for name, output in self.job.outputs.items()}

    @property
    def sources(self) -> Collection[str]:
        """The names of the pipeline's sources: those of the code, or without code those that are recorded."""
        return self.job.sources if self.recorded is None else self.recorded.sources

    @property
    def cache(self) -> RunCache:
        """The cache of opened segments of this process."""
        return process_cache(self.settings)

    def initialised(self) -> Refs:
        """Return what `refs/` says, or raise `InvalidInput` if the repository was never initialised."""
        refs = self.session.refs or self.refresh()
        self.log.rewrites.know(refs.rewrote_at)
        return refs

    def refresh(self) -> Refs:
        """Read entries of `refs/` that were added since, and return all of them, folded."""
        refs = self.refs_log.read()
        if refs is None:
            self.refuse_repository_as_root()
            refs = self.refuse_lost_init("read")
        if refs is None:
            raise InvalidInput(
                f"pipeline `{self.job.pipeline}` has no repository under {self.root}",
                hint=_NO_REPOSITORY if self.recorded is None else _NOTHING_TO_READ,
            )
        if refs.pipeline != self.job.pipeline:
            raise InvalidInput(
                f"the repository {self.store.uri} belongs to pipeline `{refs.pipeline}`, this is `{self.job.pipeline}`",
                hint="use another root for this pipeline",
            )
        self.session.refs = refs
        self.log.rewrites.know(refs.rewrote_at)
        return refs

    def refuse_lost_init(self, verb: str) -> Refs | None:
        """Raise `CorruptState` if the init record is missing, but there are commits, or what only commits name.

        The record is looked for again after they were found, because another caller may have created the repository
        meanwhile. Returns what `refs/` says then, or None.
        """
        record = next(self.store.list("branches/"), None)
        found = trace_of_batch(self.store, "") if record is None else record.name
        refs = None if found is None else self.refs_log.read()
        if found is not None and refs is None:
            raise CorruptState(
                f"{verb} `{self.store.uri}`: `{names.ref(0)}` is missing, but `{found}` shows that a repository was "
                "here",
                hint="restore `refs/` from a backup, or choose another root",
            )
        return refs

    def head(self) -> Commit | None:
        """Return the newest commit, checked to belong to this repository. None: version -1."""
        self.initialised()  # an error here comes first
        return self.ours(self.log.head())

    def ours(self, head: Commit | None) -> Commit | None:
        """Return the newest commit as it was read. `CorruptState` if it does not belong to this repository."""
        refs = self.initialised()
        if head is None or _belongs(head, refs):
            return head
        refs = self.refresh()  # the entries may have been written after we read them
        if not _belongs(head, refs):
            refs = self.refs_log.read_entries() or refs  # the snapshot may be one of another repository
            self.session.refs = refs
        if not _belongs(head, refs):
            raise CorruptState(
                f"read the head of `{self.store.uri}`: version {head.version} was committed by repository "
                f"{head.pipeline_uuid} after entry {head.refs_through} of `refs/`; found repository {refs.uuid} and "
                f"entries up to {refs.through}",
                hint="restore `refs/` and `branches/` from one backup",
            )
        return head

    def remembering(self) -> Opened:
        """Return this for one call that reads commits repeatedly; see `Log.remembering`."""
        return dataclasses.replace(self, log=self.log.remembering())

    def own_log(self, branch: str) -> Log:
        """Return the log of the versions that a branch itself has made, by its id. The branch may be dropped."""
        made = Log(self.store, branch)
        made.rewrites = self.log.rewrites
        return made

    def task_place(self, number: int, attempt: str) -> Place:
        """Return where tasks of an attempt find this branch. They store files for version or entry `number`."""
        options = dict(self.storage_options)
        return Place(self.task_root, self.job.pipeline, options, self.settings, self.branch, number, attempt)

    def version_of(self, version: int) -> VersionOf:
        """Return the branch to which a version belongs: this one, or up to its fork another one."""
        return version_of(self.initialised(), self.branch, version)

    def origin(self, head: Commit | None) -> Origin:
        """Return the place after `head`, at which the next commit is made."""
        return Origin(self.initialised(), self.branch, head)

    def declared_sink(self, name: str) -> Sink | None:
        """Return the sink of a name in this code, or None if the code has no such sink."""
        output = self.job.outputs.get(name)
        return None if output is None else output.sink

    def refuse_repository_as_root(self) -> None:
        """Raise `InvalidInput` if the root is itself a repository, not a folder of repositories."""
        try:
            self.root_store.get(names.ref(0))
        except ObjectMissing:
            return
        raise InvalidInput(
            f"the root {self.root} is the repository of a pipeline, expected the folder above it",
            hint="remove the last part of the root's path",
        )

    def ledger(self, head: Commit | None) -> OpenedMap:
        """Return the ledger of a version: the files that the pipeline has read."""
        segments = head.ledger if head is not None else self.initialised().ledger
        return open_map(self.store, self.cache, LEDGER_SCHEMA, segments, 0, HASH_END)


def _belongs(head: Commit, refs: Refs) -> bool:
    """Whether a commit was made by this repository after entries that `refs` has."""
    if head.refs_through == refs.through and head.refs_checksum != refs.refs_checksum:
        return False
    return head.pipeline_uuid in refs.uuids and head.refs_through <= refs.through


def airflow() -> dict[str, str]:
    """Return what Airflow says about the task in which this process runs."""
    return {word.lower(): value for word in AIRFLOW if (value := os.environ.get(f"AIRFLOW_CTX_{word}"))}
