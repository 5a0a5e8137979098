"""`init`: the explicit first step. Makes the repository's first record; what is there already is left as it is.

Done again it adds operators that are new: they begin empty, because somebody said so. One that the code lacks ends
only where it is named.

CRASH: one conditional create decides; before it there is no repository, after it there is a whole one.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from ..clock import now_ms
from ..driver.context import Context
from ..errors import InvalidInput
from ..operators.contract import describe
from ..protocol.records import Added, Init
from ..store.probe import probe


def init(context: Context, drop: Sequence[str] = ()) -> Init:
    """The repository's first record: made now, or there already. `drop`: operators whose state ends here."""
    if isinstance(drop, str):
        raise InvalidInput(f"init: drop={drop!r}, expected a list of operators", hint=f"drop=[{drop!r}]")
    context.refuse_repository_as_root()
    probe(context.store)
    record = Init(
        pipeline=context.job.pipeline,
        uuid=uuid.uuid4().hex,
        created_ms=now_ms(),
        schemas={name: describe(placed.operator) for name, placed in context.job.operators.items()},
    )
    made = context.log.init(record)
    _declare(context, record, drop)
    context.check_operators(context.log.head())
    return made


def _declare(context: Context, ours: Init, drop: Sequence[str]) -> None:
    """Tells the repository which operators there are from now on; before the first batch also of ones that changed."""
    head, declared = context.log.head(), context.declared()
    for name in drop:
        if name in ours.schemas:
            raise InvalidInput(f"init: operator `{name}` is to be dropped, and this code still has it")
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
            f"init: this code lacks the operator `{kept[0]}`, which has state here"
            + (f", and has the new operator `{new[0]}`: was it renamed?" if new else ""),
            hint="names identify state: give it its name back; if its state is to end, say so: "
            f"r.init(drop=[{kept[0]!r}]) or tidemill init --drop {kept[0]}",
        )
    if fresh or gone:
        context.log.add(Added(fresh, now_ms(), gone))
