"""`init`: the explicit first step. Makes the repository's first record; what is there already is left as it is.

Done again with further operators, it adds them: they begin empty, because somebody said so.

CRASH: one conditional create decides; before it there is no repository, after it there is a whole one.
"""

from __future__ import annotations

import uuid

from ..clock import now_ms
from ..driver.context import Context
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
    _add_operators(context, record)
    context.check_operators(context.log.head())
    return made


def _add_operators(context: Context, ours: Init) -> None:
    """Tells the repository of operators that it does not know; before the first batch also of ones that changed."""
    head = context.log.head()
    known = {**context.schemas(head)}
    for entry in context.log.added():
        known = {**known, **entry.schemas} if head is None else {**entry.schemas, **known}
    fresh = {
        name: schema
        for name, schema in ours.schemas.items()
        if name not in known or (head is None and known[name] != schema)
    }
    if fresh:
        context.log.add(Added(fresh, now_ms()))
