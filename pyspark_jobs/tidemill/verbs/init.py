"""`init`: the explicit first step. Makes the repository's first record; what is there already is left as it is.

Done again with other operators, it adds and drops them: they begin empty, or end, because somebody said so.

CRASH: one conditional create decides; before it there is no repository, after it there is a whole one.
"""

from __future__ import annotations

import uuid

from ..clock import now_ms
from ..driver.context import Context
from ..errors import InvalidInput
from ..operators.contract import describe
from ..protocol.records import Added, Init
from ..store.probe import probe


def init(context: Context) -> Init:
    """The repository's first record: made now, or there already."""
    context.refuse_repository_as_root()
    probe(context.store)
    record = Init(
        pipeline=context.job.pipeline,
        uuid=uuid.uuid4().hex,
        created_ms=now_ms(),
        schemas={name: describe(placed.operator) for name, placed in context.job.operators.items()},
    )
    made = context.log.init(record)
    _declare(context, record)
    context.check_operators(context.log.head())
    return made


def _declare(context: Context, ours: Init) -> None:
    """Tells the repository which operators there are from now on; before the first batch also of ones that changed."""
    head, declared = context.log.head(), context.declared()
    fresh = {
        name: schema
        for name, schema in ours.schemas.items()
        if name not in declared or (head is None and declared[name] != schema)
    }
    gone = [name for name in declared if name not in ours.schemas]
    new = [name for name in fresh if name not in declared]
    if new and gone:
        raise InvalidInput(
            f"init: this code has the new operator `{new[0]}` and lacks `{gone[0]}`, which has state here: "
            "was it renamed?",
            hint="names identify state: give it its name back; or end the one (init without it), then add the other",
        )
    if fresh or gone:
        context.log.add(Added(fresh, now_ms(), gone))
