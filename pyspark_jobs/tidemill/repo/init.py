"""`init`: create the repository, or add and drop operators of one that exists.

A new operator begins empty, or with the initial state that the code or the call gives. An operator that the code no
longer has ends only if the caller names it. CRASH: one conditional create makes the repository. Before it there is no
repository, after it there is a complete one.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .. import names
from ..clock import now_ms
from ..errors import InvalidInput
from ..operators.contract import describe
from ..pipeline.places import check_places
from ..protocol.compatible import compare_operator, first_name, refuse, renamed_schemas
from ..protocol.entries import Init, Maps, Operators
from ..protocol.named import named
from ..protocol.records import Commit
from ..protocol.refs import Refs, begin
from ..protocol.refs_log import position
from ..sources.asked import folder_of
from ..spelling import unknown
from ..state.seeds import Runs, is_stored
from ..store.probe import probe
from .identity import check_root
from .initial import check_seeds, initial_runs, store_initial_state
from .ledger import store_earlier
from .opened import Context

Schemas = dict[str, dict[str, Any]]


def init(context: Context, drop: Sequence[str] = (), initial_state: Mapping[str, Any] | None = None) -> Refs:
    """Create the repository if it does not exist, add and drop operators, and return what `refs/` says then.

    `drop`: operators whose state ends. `initial_state`: maps an operator to its state before its first batch, and
    replaces the one in its code.
    """
    if isinstance(drop, str):
        raise InvalidInput(f"init: drop={drop!r}, expected a list of operators", hint=f"write drop=[{drop!r}]")
    check_places(context.pipeline, context.root, context.storage_options)
    context.refuse_repository_as_root()
    if context.refs_log.read() is None:
        _create(context, drop, initial_runs(context, None, initial_state or {}))
    else:
        check_root(context)
        head = context.head()
        _record_operators(context, head, drop, initial_runs(context, head, initial_state or {}))
    context.refresh()
    context.check_operators(context.head())
    return context.initialised()


def _create(context: Context, drop: Sequence[str], runs: Mapping[str, Runs]) -> None:
    """Create the repository. If another caller created it first, what we stored for it is deleted again."""
    context.refuse_lost_init("init")
    ours = _described(context)
    _check_drop(drop, ours, ours)
    attempt = uuid.uuid4().hex[:12]
    probe(context.store)  # the first write: an `init` that was refused leaves nothing
    created_ms, ledger = now_ms(), store_earlier(context, names.seed_stem(0, attempt))
    record = Init(
        number=0,
        parent="",
        uuid=uuid.uuid4().hex,
        attempt=attempt,
        created_ms=created_ms,
        pipeline=context.job.pipeline,
        root=context.place,
        schemas=ours,
        seeds=store_initial_state(context, runs, names.seed_stem(0, attempt)),
        sources={
            name: source.place
            for name, source in context.job.sources.items()
            if source.place is not None and folder_of(source) is not None
        },
        ledger=ledger,
    )
    made = context.refs_log.create(record)
    if made.uuid != record.uuid:
        context.store.delete_many(sorted(one.name for one in named(begin(record))))
        _record_operators(context, context.head(), drop, runs)


def _described(context: Context) -> Schemas:
    return {name: describe(placed.operator) for name, placed in context.job.operators.items()}


@dataclass(frozen=True)
class _Difference:
    """What the entry of a later `init` must say."""

    fresh: Schemas
    gone: list[str]
    seeded: dict[str, Runs]


def _record_operators(context: Context, head: Commit | None, drop: Sequence[str], runs: Mapping[str, Runs]) -> None:
    """Record the operators of this code that are new, and those that are dropped.

    Before the first batch, operators that changed are recorded too. INVARIANT: everything is checked before anything is
    written, so an `init` that fails changes nothing. It is checked again if another caller adds an entry first.
    """
    ours = _described(context)
    if not _any(_difference(context.refresh(), head, ours, drop, runs)):
        return
    stored: list[str] = []

    def make(refs: Refs, number: int) -> Operators | None:
        context.store.delete_many(stored)  # another entry took the number for which they were stored
        stored.clear()
        found = _difference(refs, head, ours, drop, runs)
        if not _any(found):
            return None
        placed: dict[str, Any] = position(refs, now_ms())
        seeds: dict[str, Maps] = {}
        if found.seeded:
            stem = names.seed_stem(number, placed["attempt"])
            seeds = store_initial_state(context, found.seeded, stem)
            stored.extend(one.name for maps in seeds.values() for segments in maps.values() for one in segments)
        schemas = found.fresh | {name: ours[name] for name in found.seeded}
        return Operators(**placed, schemas=schemas, removed=found.gone, seeds=seeds)

    probe(context.store)
    context.refs_log.append(make)
    context.refresh()


def _any(found: _Difference) -> bool:
    return bool(found.fresh or found.gone or found.seeded)


def _difference(
    refs: Refs, head: Commit | None, ours: Schemas, drop: Sequence[str], runs: Mapping[str, Runs]
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
            refuse(compare_operator(name, recorded[name], schema))
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
