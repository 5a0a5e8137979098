"""`Context`: a pipeline opened on a root, with its job, log, store and settings. Every verb receives one.

It reads the repository and checks that the code matches it. INVARIANT: a missing or different state is an error, so an
operator never starts empty by accident.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import names
from ..errors import CorruptState, InvalidInput
from ..operators.contract import describe
from ..pipeline.job import Job
from ..pipeline.pipeline import Pipeline
from ..protocol.bases import lay
from ..protocol.log import Log, trace_of_batch
from ..protocol.records import HASH_END, Commit, Segment
from ..protocol.refs import Refs
from ..protocol.refs_log import RefsLog
from ..protocol.successor import Origin
from ..schema import difference, to_arrow
from ..settings import Settings
from ..sinks.contract import Sink
from ..sources.contract import SourceFile
from ..sources.ledger import LEDGER_SCHEMA
from ..state.cache import RunCache, process_cache
from ..state.versions import Opened, open_map
from ..store import Store, folder_uri
from ..store.contract import ObjectMissing
from .touched import Touched

Options = Mapping[str, Mapping[str, Any]]
AIRFLOW = ("DAG_ID", "TASK_ID", "DAG_RUN_ID", "TRY_NUMBER", "LOGICAL_DATE")
"""What Airflow tells about a task, by the environment."""


@dataclass(frozen=True)
class Context:
    """One branch of one pipeline's repository, opened by this process."""

    pipeline: Pipeline
    job: Job
    root: str
    branch: str
    store: Store
    root_store: Store
    refs_log: RefsLog
    log: Log
    settings: Settings
    spark_conf: Mapping[str, str]
    storage_options: Options
    reference: str | None = None
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    refs_seen: list[Refs] = field(default_factory=list)
    touched: dict[tuple[str, str], SourceFile] = field(default_factory=dict)
    """Files that have new ETags but the same bytes as when they were read. The next batch records it."""
    sinks_seen: set[str] = field(default_factory=set)
    """Sinks that were seen to have no files of versions that the repository has lost."""

    @functools.cached_property
    def place(self) -> str:
        """The URI of the repository, the same however the root is spelled."""
        return f"{folder_uri(self.root).rstrip('/')}/{self.job.pipeline}"

    @functools.cached_property
    def fingerprints(self) -> Touched:
        """The fingerprints of files whose ETags changed, as far as this process and the hint know them."""
        return Touched(self.store, names.touched_hint(self.branch))

    @property
    def cache(self) -> RunCache:
        """The cache of opened segments of this process."""
        return process_cache(self.settings)

    def initialised(self) -> Refs:
        """Return what `refs/` says, or raise `InvalidInput` if the repository was never initialised."""
        return self.refs_seen[-1] if self.refs_seen else self.refresh()

    def refresh(self) -> Refs:
        """Read entries of `refs/` that were added since, and return all of them, folded."""
        refs = self.refs_log.read()
        if refs is None:
            self.refuse_repository_as_root()
            refs = self.refuse_lost_init("read")
        if refs is None:
            raise InvalidInput(
                f"pipeline `{self.job.pipeline}` has no repository under {self.root}",
                hint="check the root and the name of the pipeline; if both are right, create the repository with "
                "r.init() or `tidemill init`",
            )
        if refs.pipeline != self.job.pipeline:
            raise InvalidInput(
                f"the repository {self.store.uri} belongs to pipeline `{refs.pipeline}`, this is `{self.job.pipeline}`",
                hint="use another root for this pipeline",
            )
        self.refs_seen[:] = [refs]
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
        refs, head = self.initialised(), self.log.head()
        if head is None or _belongs(head, refs):
            return head
        refs = self.refresh()  # the entries may have been written after we read them
        if not _belongs(head, refs):
            refs = self.refs_log.read_entries() or refs  # the snapshot may be one of another repository
            self.refs_seen[:] = [refs]
        if not _belongs(head, refs):
            raise CorruptState(
                f"read the head of `{self.store.uri}`: version {head.version} was committed by repository "
                f"{head.pipeline_uuid} after entry {head.refs_through} of `refs/`; found repository {refs.uuid} and "
                f"entries up to {refs.through}",
                hint="restore `refs/` and `branches/` from one backup",
            )
        return head

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

    def schemas(self, head: Commit | None) -> dict[str, dict[str, Any]]:
        """Return the recorded schemas of the operators that the repository has state for."""
        return dict(head.schemas) if head is not None else dict(self.initialised().schemas)

    def state(self, head: Commit | None) -> dict[str, dict[str, list[Segment]]]:
        """Return the live segments of a version, plus initial state that no batch has used yet. None is version -1."""
        return {**self.committed(head), **self.begins_with(head)}

    def committed(self, commit: Commit | None) -> dict[str, dict[str, list[Segment]]]:
        """Return the live segments that a commit lists, with merged segments in their place where there are any."""
        bases = self.initialised().bases
        state = commit.state if commit is not None else {}
        return lay(state, bases) if bases else state

    def begins_with(self, head: Commit | None) -> dict[str, dict[str, list[Segment]]]:
        """Return the initial state of operators that had no batch up to `head`. The next batch is their first."""
        seen = head.state if head is not None else {}
        seeds = self.initialised().seeds
        return {name: seed.maps for name, seed in seeds.items() if name not in seen and name in self.job.operators}

    def ledger(self, head: Commit | None) -> Opened:
        """Return the ledger of a version: the files that the pipeline has read."""
        segments = head.ledger if head is not None else self.initialised().ledger
        return open_map(self.store, self.cache, LEDGER_SCHEMA, segments, 0, HASH_END)

    def declared(self) -> dict[str, dict[str, Any]]:
        """Return the operators that `init` declared, with their schemas at that time."""
        return self.initialised().schemas

    def _must_fit(self, operator: str, head: Commit | None) -> bool:
        """Whether the code must declare an operator as it is recorded.

        An operator without state need not, once the plan that was made with the wrong declaration is abandoned.
        """
        return head is None or operator in head.state or operator in self.initialised().seeds

    def check_operators(self, head: Commit | None) -> None:
        """Raise `InvalidInput` if the code's operators differ from the declared ones, or do not match their state."""
        declared, ours = self.initialised().schemas, self.job.operators
        recorded = {**declared, **(head.schemas if head is not None else {})}
        gone = sorted(name for name in declared if name not in ours)
        for name, placed in ours.items():
            if name not in declared:
                raise InvalidInput(
                    f"operator `{name}` has no state in this repository, which has state for "
                    + (", ".join(f"`{known}`" for known in sorted(declared)) or "no operator"),
                    hint=(f"if you renamed `{gone[0]}`, restore its name; " if gone else "")
                    + "if the operator is new, run init again, which adds it",
                )
            if self._must_fit(name, head):
                check_operator(name, recorded[name], describe(placed.operator), has_state=head is not None)
        for name in declared:
            if name not in ours:
                raise InvalidInput(
                    f"operator `{name}` has state in this repository, but this code does not have the operator",
                    hint="restore the operator, or discard its state: "
                    f"r.init(drop=[{name!r}]) or tidemill init PIPELINE --root ROOT --drop {name}",
                )


def _belongs(head: Commit, refs: Refs) -> bool:
    """Whether a commit was made by this repository after entries that `refs` has."""
    if head.refs_through == refs.through and head.refs_checksum != refs.refs_checksum:
        return False
    return head.pipeline_uuid in refs.uuids and head.refs_through <= refs.through


def _shown_rules(rules: dict[str, Any]) -> str:
    return ", ".join(f"`{rule}` = {value}" for rule, value in rules.items()) or "no rules"


def check_operator(name: str, recorded: dict[str, Any], found: dict[str, Any], *, has_state: bool = True) -> None:
    """Raise `InvalidInput` with the first difference between an operator's state and its code.

    Before the first batch there is no state, so running `init` again is enough.
    """
    hint = (
        "restore the earlier declaration; or, to start with empty state, rename the operator and discard this state: "
        f"r.init(drop=[{name!r}]) or tidemill init PIPELINE --root ROOT --drop {name}"
        if has_state
        else "restore the earlier declaration; or, because no batch has run yet, run init again, which records this one"
    )
    if recorded["kind"] != found["kind"]:
        raise InvalidInput(
            f"operator `{name}` has state of a `{recorded['kind']}`, this code declares a `{found['kind']}`", hint=hint
        )
    if recorded["key"] != found["key"]:
        raise InvalidInput(
            f"operator `{name}` has state by key {recorded['key']}, this code declares {found['key']}", hint=hint
        )
    rules = recorded.get("rules", {})
    new = _new_variables(recorded, found)
    for rule, now in found["rules"].items():
        if rules.get(rule) != now and rule not in new.values():
            before, after = f"`{rule}` = {rules.get(rule)}", f"{now}"
            if rule not in rules:
                before, after = _shown_rules(rules), _shown_rules(found["rules"])
            raise InvalidInput(f"operator `{name}` has state made with {before}, this code declares {after}", hint=hint)
    for map_name, columns in found["maps"].items():
        if map_name in new:
            continue
        known = recorded["maps"].get(map_name)
        for part in ("key", "sub_key", "value"):
            before, now = (known or {}).get(part, ""), columns[part]
            if known is None or before != now:
                detail = difference(to_arrow(before), to_arrow(now)) if before and now else None
                what = "state" if part == "value" else part
                raise InvalidInput(
                    f"operator `{name}` has {what} schema `{before}`, this code declares `{now}`"
                    + (f" ({detail})" if detail else ""),
                    hint=hint,
                )
    for map_name, columns in recorded["maps"].items():
        if map_name not in found["maps"] and _is_variable(map_name):
            raise InvalidInput(
                f"operator `{name}` has state in the variable `{names.variable_name(map_name)}` "
                f"({columns['value'] or 'nothing'}), which this code does not declare",
                hint=hint,
            )


def _is_variable(map_name: str) -> bool:
    return names.variable_name(map_name) != map_name


def _new_variables(recorded: dict[str, Any], found: dict[str, Any]) -> dict[str, str]:
    """Return the maps of new variables of a processor, with the rule of each. They start empty."""
    maps = (one for one in found["maps"] if one not in recorded["maps"] and _is_variable(one))
    return {one: names.variable_rule(one) for one in maps}


@functools.cache
def version_of_tidemill() -> str:
    """Return the installed version, or `unknown` if Tidemill runs from a source folder."""
    try:
        return importlib.metadata.version("tidemill")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def airflow() -> dict[str, str]:
    """Return what Airflow says about the task in which this process runs."""
    return {word.lower(): value for word in AIRFLOW if (value := os.environ.get(f"AIRFLOW_CTX_{word}"))}
