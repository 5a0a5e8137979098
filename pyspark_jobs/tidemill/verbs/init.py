"""`init`: create the repository, or add and drop operators of one that exists.

A new operator begins empty, or with the initial state that the code or the call gives. An operator that the code no
longer has ends only if the caller names it. CRASH: one conditional create makes the repository. Before it there is no
repository, after it there is a complete one.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..clock import now_ms
from ..driver.context import Context, check_operator
from ..errors import InvalidInput
from ..operators.contract import describe
from ..pipeline.places import check_places
from ..protocol.records import Added, Init, Seeded
from ..spelling import unknown
from ..state.seeds import Runs, is_stored
from ..store.probe import probe
from .initial import check_seeds, initial_runs, store_initial_state


def init(context: Context, drop: Sequence[str] = (), initial_state: Mapping[str, Any] | None = None) -> Init:
    """Create the repository if it does not exist, add and drop operators, and return the repository's first record.

    `drop`: operators whose state ends. `initial_state`: maps an operator to its state before its first batch, and
    replaces the one in its code.
    """
    if isinstance(drop, str):
        raise InvalidInput(f"init: drop={drop!r}, expected a list of operators", hint=f"write drop=[{drop!r}]")
    check_places(context.pipeline, context.storage_options)
    context.refuse_repository_as_root()
    probe(context.store)
    known = context.log.read_init()
    head = None if known is None else context.log.head()
    runs = initial_runs(context, head, initial_state or {})
    record = Init(
        pipeline=context.job.pipeline,
        uuid=uuid.uuid4().hex,
        created_ms=now_ms(),
        schemas={name: describe(placed.operator) for name, placed in context.job.operators.items()},
    )
    if known is None:
        record = dataclasses.replace(record, seeds=store_initial_state(context, runs))
    made = context.log.init(record)
    _record_operators(context, record, drop, runs)
    context.check_operators(context.log.head())
    return made


def _record_operators(context: Context, ours: Init, drop: Sequence[str], runs: Mapping[str, Runs]) -> None:
    """Record the operators of this code that are new, and those that are dropped.

    Before the first batch, operators that changed are recorded too. INVARIANT: everything is checked before anything is
    written, so an `init` that fails changes nothing.
    """
    head, declared = context.log.head(), context.declared()
    _check_drop(context, drop, [*declared, *ours.schemas], ours)
    seeds = context.seeds()
    fresh = {
        name: schema
        for name, schema in ours.schemas.items()
        if name not in declared or (head is None and declared[name] != schema)
    }
    gone = [name for name in declared if name not in ours.schemas]
    kept = [name for name in gone if name not in drop]
    new = [name for name in fresh if name not in declared]
    if kept and (new or head is not None):
        raise InvalidInput(
            f"init: this code lacks the operator `{kept[0]}`, which has state in the repository"
            + (f"; it has the new operator `{new[0]}`: was `{kept[0]}` renamed?" if new else ""),
            hint=f"restore the name `{kept[0]}`, because names identify state; or discard its state with "
            f"r.init(drop=[{kept[0]!r}]) or tidemill init PIPELINE --root ROOT --drop {kept[0]}",
        )
    _check_added_again(context, fresh)
    recorded = {**declared, **(head.schemas if head is not None else {})}
    for name, schema in ours.schemas.items():
        if name not in fresh:
            check_operator(name, recorded[name], schema)
    seeded = {name: found for name, found in runs.items() if name in fresh or not is_stored(found, seeds.get(name, {}))}
    check_seeds(head, seeded, [name for name in fresh if seeds.get(name)])
    if fresh or gone or seeded:
        schemas = fresh | {name: ours.schemas[name] for name in seeded}
        entry = Added(schemas, now_ms(), gone)
        if seeded:
            entry = Seeded(schemas, now_ms(), gone, seeds=store_initial_state(context, seeded))
        context.log.add(entry)


def _check_added_again(context: Context, fresh: Collection[str]) -> None:
    """Raise `InvalidInput` if an operator was dropped after the head and is added again.

    Its state ends only with the next commit, so it would resume with its old state.
    """
    head, removed = context.log.head(), {name for entry in context.log.added() for name in entry.removed}
    for name in fresh:
        if head is not None and name in head.state and name in removed:
            raise InvalidInput(
                f"init: operator `{name}` was dropped, but no batch has run since, so it would keep its old state",
                hint=f"run a batch without `{name}` first, or give it a new name",
            )


def _check_drop(context: Context, drop: Sequence[str], now: Sequence[str], ours: Init) -> None:
    """Raise `InvalidInput` for a name in `drop` that this code still has, or that the repository never had."""
    known = [*now, *(name for entry in context.log.added() for name in entry.schemas), *context.initialised().schemas]
    for name in drop:
        if name in ours.schemas:
            raise InvalidInput(
                f"init: cannot drop operator `{name}`: this code still has it", hint="remove the operator from the code"
            )
        if name not in known:
            raise unknown("operator to drop", str(name), sorted(set(known) - set(ours.schemas)))
