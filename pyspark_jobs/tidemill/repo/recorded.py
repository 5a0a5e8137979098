"""A repository opened without the pipeline's code: its operators, sinks and sources are those that it records.

INVARIANT: opening and reading write nothing, and nothing that the repository stores is run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidInput, repr_of
from ..names import ROOT_ENVIRONMENT, check_name
from ..pipeline.job import Job
from ..pipeline.load import Loaded
from ..pipeline.pipeline import Pipeline
from ..protocol.refs import MAIN
from ..schema import to_arrow
from .open import checked_options, on_branch, opened_on, root_or_environment
from .opened import Opened, Recorded
from .operators import declared_operators, recorded_schemas

TIME_ZONE = "UTC"
"""The zone of times without an offset. The pipeline's own zone is only in its code."""


def open_recorded(
    root: str | None,
    pipeline: str,
    branch: str,
    conf: Mapping[str, Any] | None,
    storage_options: Mapping[str, Mapping[str, Any]] | None,
) -> Opened:
    """Return a repository that exists, opened; `InvalidInput` for a wrong argument, or a missing repository.

    Without `root`, it is under that of the environment.
    """
    if pipeline == "":
        raise InvalidInput(
            "read: the name of the pipeline is missing",
            hint='give root and name, tm.read("s3://lake/streams", "shop"), or tm.read(pipeline="shop") if the '
            f"environment variable {ROOT_ENVIRONMENT} has the root",
        )
    if not isinstance(pipeline, str):
        raise InvalidInput(
            f"read: found pipeline={repr_of(pipeline)}, expected the name of a pipeline",
            hint="open a pipeline's code with tm.open(pipeline, root)",
        )
    check_name(pipeline, "pipeline")
    root = root_or_environment(root, "read")
    options = checked_options(root, branch, storage_options, "read")
    job = Job(pipeline, TIME_ZONE, {}, (), {}, {}, {})
    repo = opened_on(Loaded(Pipeline(pipeline), "", ()), job, root, conf, options)
    repo = dataclasses.replace(repo, recorded=Recorded())
    repo.initialised()
    return repo if branch == MAIN else on_branch(repo, branch)


def as_recorded(repo: Opened) -> Opened:
    """Return what was opened without code with what is recorded now. Anything else is returned as it is.

    This reads `refs/` and the head, so that a reader that lives long sees new operators, sinks and tags.
    """
    if repo.recorded is None:
        return repo
    refs, head = repo.refresh(), repo.head()
    operators = recorded_schemas(repo, head)
    if repo.branch == MAIN:
        operators = declared_operators(repo, head) | operators
    sinks = {} if head is None else {name: to_arrow(one["schema"]) for name, one in head.sinks.items()}
    sources = dict.fromkeys([*refs.sources, *(() if head is None else head.sources)])
    return dataclasses.replace(repo, recorded=Recorded(tuple(operators), sinks, tuple(sources)))


def refuse_without_code(repo: Opened, what: str) -> None:
    """Raise `InvalidInput` if the repository was opened without code, which is needed for `what`."""
    if repo.recorded is not None:
        raise InvalidInput(
            f"{what} needs the pipeline's code, and the repository `{repo.store.uri}` was opened without it",
            hint="open it with tm.open(pipeline, root), or give the command `path.py` or `module:name`, and --root",
        )
