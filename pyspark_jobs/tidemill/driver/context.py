"""`Context`: a pipeline opened on a root: its job, its log, its store, its settings. What every verb is given.

Holds values and components, decides nothing.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import names
from ..errors import InvalidInput
from ..operators.contract import describe
from ..pipeline.job import Job
from ..pipeline.pipeline import Pipeline
from ..protocol.log import Log
from ..protocol.records import HASH_END, Commit, Init, Seeded, Segment
from ..schema import difference, to_arrow
from ..settings import Settings
from ..sources.ledger import LEDGER_SCHEMA
from ..state.cache import RunCache, process_cache
from ..state.versions import Opened, open_map
from ..store import Store
from ..store.contract import ObjectMissing

Options = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Context:
    """One branch of one pipeline's repository, opened."""

    pipeline: Pipeline
    job: Job
    root: str
    branch: str
    store: Store
    root_store: Store
    log: Log
    settings: Settings
    spark_conf: Mapping[str, str]
    storage_options: Options
    reference: str | None = None
    modules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    init_seen: list[Init] = field(default_factory=list)

    @property
    def cache(self) -> RunCache:
        """Opened runs of this process."""
        return process_cache(self.settings)

    def initialised(self) -> Init:
        """What `init` made here; `InvalidInput` where nobody has."""
        if self.init_seen:
            return self.init_seen[0]
        self.refuse_repository_as_root()
        init = self.log.read_init()
        if init is None:
            raise InvalidInput(
                f"pipeline `{self.job.pipeline}` has no repository under {self.root}",
                hint="make it once with r.init() or `tidemill init`; Tidemill never starts empty by accident",
            )
        if init.pipeline != self.job.pipeline:
            raise InvalidInput(
                f"the repository {self.store.uri} belongs to pipeline `{init.pipeline}`, this is `{self.job.pipeline}`",
                hint="give this pipeline a root of its own",
            )
        self.init_seen.append(init)
        return init

    def refuse_repository_as_root(self) -> None:
        """`InvalidInput` where the root is not a folder of repositories but a repository itself."""
        try:
            self.root_store.get(names.ref(0))
        except ObjectMissing:
            return
        raise InvalidInput(
            f"the root {self.root} is itself the repository of a pipeline, expected the folder above it",
            hint="leave out the last part of the root",
        )

    def schemas(self, head: Commit | None) -> dict[str, dict[str, Any]]:
        """The operators whose state the repository holds, as recorded."""
        return dict(head.schemas) if head is not None else dict(self.initialised().schemas)

    def state(self, head: Commit | None) -> dict[str, dict[str, list[Segment]]]:
        """Live segments of a version, and the initial state of what begins with the next batch; None is version −1."""
        return {**(head.state if head is not None else {}), **self.begins_with(head)}

    def begins_with(self, head: Commit | None) -> dict[str, dict[str, list[Segment]]]:
        """The initial state, by operator, of those that have had no batch up to `head`: the next one is their first."""
        seen = head.state if head is not None else {}
        if all(name in seen for name in self.job.operators):
            return {}
        return {name: maps for name, maps in self.seeds().items() if name not in seen}

    def seeds(self) -> dict[str, dict[str, list[Segment]]]:
        """The initial state that `init` wrote, by operator, of those that are declared now."""
        found = dict(self.initialised().seeds)
        for entry in self.log.added():
            gone = {*entry.removed, *entry.schemas}
            seeds = entry.seeds if isinstance(entry, Seeded) else {}
            found = {name: maps for name, maps in found.items() if name not in gone} | seeds
        return found

    def ledger(self, head: Commit | None) -> Opened:
        """Which files have been taken, as of a version."""
        segments = head.ledger if head is not None else []
        return open_map(self.store, self.cache, LEDGER_SCHEMA, segments, 0, HASH_END)

    def declared(self) -> dict[str, dict[str, Any]]:
        """The operators that `init` was told of, as they were then: what this repository keeps state for."""
        found = dict(self.initialised().schemas)
        for entry in self.log.added():
            found = {name: schema for name, schema in found.items() if name not in entry.removed} | entry.schemas
        return found

    def check_operators(self, head: Commit | None) -> None:
        """`InvalidInput` where the code's operators are not those that are declared, or do not fit their state."""
        declared, ours = self.declared(), self.job.operators
        recorded = {**declared, **(head.schemas if head is not None else {})}
        for name, placed in ours.items():
            if name not in declared:
                raise InvalidInput(
                    f"operator `{name}` has no state in this repository, which has "
                    + (", ".join(f"`{known}`" for known in sorted(declared)) or "no operator"),
                    hint="a renamed operator would start empty; if it is new, run init once more: it adds the operator",
                )
            check_operator(name, recorded[name], describe(placed.operator))
        for name in declared:
            if name not in ours:
                raise InvalidInput(
                    f"operator `{name}` has state in this repository, and this code does not have it: it would miss "
                    "batches",
                    hint="keep it; if its state is to end, say so: "
                    f"r.init(drop=[{name!r}]) or tidemill init --drop {name}",
                )


def _listed(rules: dict[str, Any]) -> str:
    return ", ".join(f"`{rule}` = {value}" for rule, value in rules.items()) or "no rules"


def check_operator(name: str, recorded: dict[str, Any], found: dict[str, Any]) -> None:
    """`InvalidInput` that names the first difference between an operator's state and its code."""
    mend = (
        "make it what it was; or, to begin anew, give it another name and say that this state ends: "
        f"r.init(drop=[{name!r}]) or tidemill init --drop {name}"
    )
    if recorded["kind"] != found["kind"]:
        raise InvalidInput(
            f"operator `{name}` has state of a `{recorded['kind']}`, this code declares a `{found['kind']}`", hint=mend
        )
    if recorded["key"] != found["key"]:
        raise InvalidInput(
            f"operator `{name}` has state by key {recorded['key']}, this code declares {found['key']}", hint=mend
        )
    rules = recorded.get("rules", {})
    new = _new_variables(recorded, found)
    for rule, now in found["rules"].items():
        if rules.get(rule) != now and rule not in new.values():
            before, after = f"`{rule}` = {rules.get(rule)}", f"{now}"
            if rule not in rules:
                before, after = _listed(rules), _listed(found["rules"])
            raise InvalidInput(f"operator `{name}` has state made with {before}, this code declares {after}", hint=mend)
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
                    hint=mend,
                )
    for map_name, columns in recorded["maps"].items():
        if map_name not in found["maps"] and _is_variable(map_name):
            raise InvalidInput(
                f"operator `{name}` has state in the variable `{names.variable_name(map_name)}` "
                f"({columns['value'] or 'nothing'}), this code does not declare it",
                hint=mend,
            )


def _is_variable(map_name: str) -> bool:
    return names.variable_name(map_name) != map_name


def _new_variables(recorded: dict[str, Any], found: dict[str, Any]) -> dict[str, str]:
    """The maps of a processor's variables that the state does not have, with the rule of each: they begin empty."""
    maps = (one for one in found["maps"] if one not in recorded["maps"] and _is_variable(one))
    return {one: names.variable_rule(one) for one in maps}


@functools.cache
def version_of_tidemill() -> str:
    """The installed version, `unknown` where Tidemill runs from a folder."""
    try:
        return importlib.metadata.version("tidemill")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
