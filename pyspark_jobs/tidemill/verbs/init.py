"""`init`: the explicit first step. Makes the repository's first record; what is there already is left as it is.

CRASH: one conditional create decides; before it there is no repository, after it there is a whole one.
"""

from __future__ import annotations

import uuid

from ..clock import now_ms
from ..driver.context import Context
from ..operators.contract import describe
from ..protocol.records import Init
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
    context.check_operators(context.log.head())
    return made
