"""`init`: create the repository, or add and drop operators of one that exists; and the initial state of operators."""

from __future__ import annotations

import io
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import pyarrow as pa

from .. import names
from ..clock import now_ms
from ..errors import InvalidInput
from ..operators.contract import describe
from ..pipeline.job import Job
from ..pipeline.places import check_places
from ..protocol.compatible import compare_operator, first_name, refuse_differences, renamed_schemas
from ..protocol.entries import Init, Maps, Operators
from ..protocol.named import named
from ..protocol.records import Commit, Segment
from ..protocol.refs import Refs, begin
from ..protocol.refs_log import position
from ..schema.kernels import pq
from ..sources.asked import source_folder
from ..spelling import unknown
from ..state.seeds import Runs, is_stored, seed_runs, store_seeds
from ..store import ObjectMissing, folder_store
from ..store.probe import probe
from ..values import dataclass
from .identity import check_root
from .ledger import store_earlier
from .opened import Opened
from .operators import check_operators

_Schemas = dict[str, dict[str, Any]]


def init(repo: Opened, drop: Sequence[str] = (), initial_state: Mapping[str, Any] | None = None) -> Refs:
    """Create the repository if it does not exist, add and drop operators, and return what `refs/` says then.

    `drop`: operators whose state ends. `initial_state`: maps an operator to its state before its first batch, and
    replaces the one in its code.
    """
    if isinstance(drop, str):
        raise InvalidInput(f"init: drop={drop!r}, expected a list of operators", hint=f"write drop=[{drop!r}]")
    check_places(repo.pipeline, repo.root, repo.storage_options)
    repo.refuse_repository_as_root()
    if repo.refs_log.read() is None:
        _create(repo, drop, initial_runs(repo, None, initial_state or {}))
    else:
        check_root(repo)
        head = repo.head()
        _record_operators(repo, head, drop, initial_runs(repo, head, initial_state or {}))
    repo.refresh()
    check_operators(repo, repo.head())
    return repo.initialised()


def _create(repo: Opened, drop: Sequence[str], runs: Mapping[str, Runs]) -> None:
    """Create the repository. If another caller created it first, what we stored for it is deleted again."""
    repo.refuse_lost_init("init")
    ours = _described(repo.job)
    _check_drop(drop, ours, ours)
    attempt = uuid.uuid4().hex[:12]
    probe(repo.store)  # the first write: an `init` that was refused leaves nothing
    created_ms, ledger = now_ms(), store_earlier(repo, names.seed_stem(0, attempt))
    record = Init(
        number=0,
        parent="",
        uuid=uuid.uuid4().hex,
        attempt=attempt,
        created_ms=created_ms,
        pipeline=repo.job.pipeline,
        root=repo.place,
        schemas=ours,
        seeds=store_initial_state(repo, runs, names.seed_stem(0, attempt)),
        sources={
            name: source.place
            for name, source in repo.job.sources.items()
            if source.place is not None and source_folder(source) is not None
        },
        ledger=ledger,
    )
    made = repo.refs_log.create(record)
    if made.uuid != record.uuid:
        repo.store.delete_many(sorted(one.name for one in named(begin(record))))
        _record_operators(repo, repo.head(), drop, runs)


def _described(job: Job) -> _Schemas:
    return {name: describe(placed.operator) for name, placed in job.operators.items()}


@dataclass(frozen=True)
class _Difference:
    """What the entry of a later `init` must say."""

    fresh: _Schemas
    gone: list[str]
    seeded: dict[str, Runs]


def _record_operators(repo: Opened, head: Commit | None, drop: Sequence[str], runs: Mapping[str, Runs]) -> None:
    """Record the operators of this code that are new, and those that are dropped.

    Before the first batch, operators that changed are recorded too. INVARIANT: everything is checked before anything is
    written, so an `init` that fails changes nothing. It is checked again if another caller adds an entry first.
    """
    ours = _described(repo.job)
    if not _any(_difference(repo.refresh(), head, ours, drop, runs)):
        return
    stored: list[str] = []

    def make(refs: Refs, number: int) -> Operators | None:
        repo.store.delete_many(stored)  # another entry took the number for which they were stored
        stored.clear()
        found = _difference(refs, head, ours, drop, runs)
        if not _any(found):
            return None
        placed: dict[str, Any] = position(refs, now_ms())
        seeds: dict[str, Maps] = {}
        if found.seeded:
            stem = names.seed_stem(number, placed["attempt"])
            seeds = store_initial_state(repo, found.seeded, stem)
            stored.extend(one.name for maps in seeds.values() for segments in maps.values() for one in segments)
        schemas = found.fresh | {name: ours[name] for name in found.seeded}
        return Operators(**placed, schemas=schemas, removed=found.gone, seeds=seeds)

    probe(repo.store)
    repo.refs_log.append(make)
    repo.refresh()


def _any(found: _Difference) -> bool:
    return bool(found.fresh or found.gone or found.seeded)


def _difference(
    refs: Refs, head: Commit | None, ours: _Schemas, drop: Sequence[str], runs: Mapping[str, Runs]
) -> _Difference:
    """Return what differs between the code and the repository. Raise `InvalidInput` if `init` may not change it."""
    renamed = [] if head is None else head.renamed
    declared = renamed_schemas(refs.schemas, renamed)
    _check_drop(drop, {*declared, *refs.former, *ours}, ours)
    fresh = {
        name: schema
        for name, schema in ours.items()
        if name not in declared or ((head is None or name not in head.state) and declared[name] != schema)
    }
    gone = [name for name in declared if name not in ours]
    _check_gone(head, [name for name in gone if name not in drop], [name for name in fresh if name not in declared])
    _check_added_again(head, refs, fresh)
    _check_renamed_away(head, fresh)
    recorded = {**declared, **(head.schemas if head is not None else {})}
    for name, schema in ours.items():
        if name not in fresh:
            refuse_differences(compare_operator(name, recorded[name], schema))
    known = {name: seeds.maps for name, seeds in refs.seeds.items()}
    seeded = {name: found for name, found in runs.items() if name in fresh or not is_stored(found, known.get(name, {}))}
    check_seeds(head, seeded, [name for name in fresh if known.get(name)])
    return _Difference(fresh, [first_name(name, renamed) for name in gone], seeded)


def _check_gone(head: Commit | None, kept: Sequence[str], new: Sequence[str]) -> None:
    """Raise `InvalidInput` if operators are missing from the code, are not dropped, and may have been renamed."""
    if kept and (new or head is not None):
        raise InvalidInput(
            f"init: this code lacks the operator `{kept[0]}`, which has state in the repository"
            + (f"; it has the new operator `{new[0]}`: was `{kept[0]}` renamed?" if new else ""),
            hint=f"restore the name `{kept[0]}`, because names identify state; or discard its state with "
            f"r.init(drop=[{kept[0]!r}]) or tidemill init PIPELINE --root ROOT --drop {kept[0]}",
        )


def _check_added_again(head: Commit | None, refs: Refs, fresh: Collection[str]) -> None:
    """Raise `InvalidInput` if an operator was dropped after the head and is added again.

    Its state ends only with the next commit, so it would resume with its old state.
    """
    for name in fresh:
        if head is not None and name in head.state and name in refs.former:
            raise InvalidInput(
                f"init: operator `{name}` was dropped, but no batch has run since, so it would keep its old state",
                hint=f"run a batch without `{name}` first, or give it a new name",
            )


def _check_renamed_away(head: Commit | None, fresh: Collection[str]) -> None:
    """Raise `InvalidInput` for a new operator with a name by which `refs/` still knows another one."""
    for one in head.renamed if head is not None else ():
        if one.old in fresh:
            raise InvalidInput(
                f"init: a migration renamed the operator `{one.old}` to `{one.new}`, so no other operator can have its "
                "name",
                hint="give the new operator another name; or discard the other one with `drop`, and run a batch first",
            )


def _check_drop(drop: Sequence[str], known: Collection[str], ours: Collection[str]) -> None:
    """Raise `InvalidInput` for a name in `drop` that this code still has, or that the repository never had."""
    for name in drop:
        if name in ours:
            raise InvalidInput(
                f"init: cannot drop operator `{name}`: this code still has it", hint="remove the operator from the code"
            )
        if name not in known:
            raise unknown("operator to drop", str(name), sorted(set(known) - set(ours)))


def initial_runs(repo: Opened, head: Commit | None, given: Mapping[str, Any]) -> dict[str, Runs]:
    """Return the initial state by operator, from `given` or from the operator's code.

    The state in the code counts only for an operator that has not run in a batch yet.
    """
    for name in given:
        if name not in repo.job.operators:
            raise unknown("operator to give an initial state", name, repo.job.operators)
    found: dict[str, Runs] = {}
    for name, placed in repo.job.operators.items():
        initial = placed.operator.initial
        if initial is None:
            if name in given:
                raise InvalidInput(
                    f"init: operator `{name}` is a `{placed.operator.kind}`, which cannot have an initial state"
                )
            continue
        begun = head is not None and name in head.state
        data = given.get(name, None if begun else initial.data)
        if data is not None:
            rows = initial.table(_read(repo, data, name), name, repo.job.time_zone)
            found[name] = seed_runs(placed.operator.maps, placed.operator.seed(rows))
    return found


def check_seeds(head: Commit | None, seeded: Collection[str], described_again: Iterable[str]) -> None:
    """Raise `InvalidInput` for an initial state that comes too late, or that no longer fits its changed operator."""
    for name in seeded:
        if head is not None and name in head.state:
            raise InvalidInput(
                f"init: operator `{name}` already has state in version {head.version}, so its initial state cannot "
                "change",
                hint="give the operator a new name, or omit the initial state",
            )
    for name in described_again:
        if name not in seeded:
            raise InvalidInput(
                f"init: operator `{name}` has changed since its initial state was written",
                hint="give the initial state again with "
                f"r.init(initial_state={{{name!r}: …}}) or tidemill init --initial-state {name}=…",
            )


def store_initial_state(repo: Opened, runs: Mapping[str, Runs], stem: str) -> dict[str, dict[str, list[Segment]]]:
    """Store the runs as segments, and return them by operator and map. `stem` is part of their names.

    CRASH: a segment that no entry of `refs/` names is garbage. Nothing reads it.
    """
    return {
        name: store_seeds(repo.store, repo.cache, name, of_operator, repo.branch, stem)
        for name, of_operator in runs.items()
    }


def _read(repo: Opened, data: Any, operator: str) -> Any:
    """Return `data`. If it is the path of a Parquet file or of a folder with Parquet files, return their rows."""
    if not isinstance(data, str | PathLike):
        return data
    path = fspath(data)
    folder, _, name = path.rstrip("/").rpartition("/")
    options = repo.storage_options.get("source")
    try:
        files = [folder_store(folder or ("/" if path.startswith("/") else "."), options).get(name)]
    except (ObjectMissing, IsADirectoryError):
        store = folder_store(path, options)
        entries = [one.name for one in store.list() if one.name.endswith(".parquet") and one.name[0] not in "._"]
        files = [store.get(one) for one in entries]
    if not files:
        raise InvalidInput(f"read the initial state of operator `{operator}`: found no Parquet file at `{path}`")
    try:
        return pa.concat_tables([pq.read_table(io.BytesIO(file), use_threads=False) for file in files])
    except pa.ArrowInvalid as error:
        raise InvalidInput(
            f"read the initial state of operator `{operator}`: `{path}` is not a Parquet file: {error}"
        ) from error
