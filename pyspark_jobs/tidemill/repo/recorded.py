"""A repository opened without the pipeline's code: its operators, sinks and sources are those that it records.

INVARIANT: opening and reading write nothing, and nothing that the repository stores is run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidInput, repr_of
from ..names import check_name
from ..pipeline.job import Job
from ..pipeline.load import Loaded
from ..pipeline.pipeline import Pipeline
from ..protocol.refs import MAIN
from ..schema import to_arrow
from .open import checked_options, context_on, on_branch
from .opened import Context, Recorded

TIME_ZONE = "UTC"
"""The zone of times without an offset. The pipeline's own zone is only in its code."""


def recorded_context(
    root: str,
    pipeline: str,
    branch: str,
    conf: Mapping[str, Any] | None,
    storage_options: Mapping[str, Mapping[str, Any]] | None,
) -> Context:
    """Return the context of a repository that exists; `InvalidInput` for a wrong argument, or a missing repository."""
    if not isinstance(pipeline, str):
        raise InvalidInput(
            f"read: found pipeline={repr_of(pipeline)}, expected the name of a pipeline",
            hint="open a pipeline's code with tm.open(pipeline, root)",
        )
    check_name(pipeline, "pipeline")
    options = checked_options(root, branch, storage_options, "read")
    job = Job(pipeline, TIME_ZONE, {}, (), {}, {}, {})
    context = context_on(Loaded(Pipeline(pipeline), "", ()), job, root, conf, options)
    context = dataclasses.replace(context, recorded=Recorded())
    context.initialised()
    return context if branch == MAIN else on_branch(context, branch)


def as_recorded(context: Context) -> Context:
    """Return a context without code with what is recorded now. Any other context is returned as it is.

    This reads `refs/` and the head, so that a reader that lives long sees new operators, sinks and tags.
    """
    if context.recorded is None:
        return context
    refs, head = context.refresh(), context.head()
    operators = context.schemas(head)
    if context.branch == MAIN:
        operators = context.declared(head) | operators
    sinks = {} if head is None else {name: to_arrow(one["schema"]) for name, one in head.sinks.items()}
    sources = dict.fromkeys([*refs.sources, *(() if head is None else head.sources)])
    return dataclasses.replace(context, recorded=Recorded(tuple(operators), sinks, tuple(sources)))


def refuse_without_code(context: Context, what: str) -> None:
    """Raise `InvalidInput` if the context has no code, which is needed for `what`."""
    if context.recorded is not None:
        raise InvalidInput(
            f"{what} needs the pipeline's code, and the repository `{context.store.uri}` was opened without it",
            hint="open it with tm.open(pipeline, root), or give the command `module:name` or `path.py:name` and --root",
        )
