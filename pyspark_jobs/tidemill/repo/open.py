"""`open`: check the arguments of `tm.open` and make the context that all verbs use.

INVARIANT: opening writes nothing. `main` is opened without a request; any other branch reads `refs/`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidInput
from ..names import check_name
from ..pipeline.definition import definitions
from ..pipeline.job import Job, compile_job
from ..pipeline.load import Loaded, search_paths
from ..pipeline.pipeline import Pipeline
from ..protocol.log import Log, log_of
from ..protocol.refs import MAIN
from ..protocol.refs_log import RefsLog
from ..settings import resolve
from ..sinks import asked
from ..spelling import unknown
from ..store import open_store
from .opened import Context

_SECTIONS = ("root", "source", "sink")


def open_context(
    pipeline: Pipeline | Loaded,
    root: str,
    branch: str,
    conf: Mapping[str, Any] | None,
    storage_options: Mapping[str, Mapping[str, Any]] | None,
) -> Context:
    """Return the context of a pipeline on a root; `InvalidInput` for a wrong argument."""
    loaded = pipeline if isinstance(pipeline, Loaded) else Loaded(pipeline, "", (), search_paths())
    if not isinstance(loaded.pipeline, Pipeline):
        raise InvalidInput(f"open: expected a tidemill.Pipeline, found {loaded.pipeline!r}")
    options = checked_options(root, branch, storage_options, "open")
    context = context_on(loaded, compile_job(loaded.pipeline), root, conf, options)
    if branch != MAIN:
        context = on_branch(context, branch)
    _check_sinks(context)
    return context


def checked_options(
    root: str, branch: str, storage_options: Mapping[str, Mapping[str, Any]] | None, verb: str
) -> dict[str, Mapping[str, Any]]:
    """Return the storage options; `InvalidInput` for a root, branch or option that is not valid."""
    if not root or not isinstance(root, str):
        raise InvalidInput(f"{verb}: root is {root!r}, expected a URI such as s3://bucket/prefix or a folder")
    _without_secrets(root, f"{verb}: root")
    options = dict(storage_options or {})
    for section in options:
        if section not in _SECTIONS:
            raise unknown("section of storage_options", section, _SECTIONS)
    check_name(branch, "branch")
    return options


def context_on(
    loaded: Loaded, job: Job, root: str, conf: Mapping[str, Any] | None, options: Mapping[str, Mapping[str, Any]]
) -> Context:
    """Return the context of `main` of a job's repository on a root."""
    settings, spark_conf = resolve(conf or {})
    root_store = open_store(root, options.get("root"))
    store = root_store.at(job.pipeline)
    return Context(
        pipeline=loaded.pipeline,
        job=job,
        root=root,
        branch=MAIN,
        store=store,
        root_store=root_store,
        refs_log=RefsLog(store),
        log=Log(store),
        settings=settings,
        spark_conf=spark_conf,
        storage_options=options,
        reference=loaded.reference or None,
        modules=loaded.modules,
        paths=loaded.paths,
        digests=functools.cache(functools.partial(definitions, job)),
    )


def on_branch(context: Context, name: str) -> Context:
    """Return the context of a branch of the same repository. Reads `refs/`. `InvalidInput` for an unknown branch."""
    refs = context.refresh()
    if name not in refs.branches:
        raise unknown("branch", name, sorted(refs.branches))
    branch = refs.branches[name]
    moved = context if branch.publish_to is None else publishing_to(context, branch.publish_to)
    publishes = branch.fork is None or branch.publish_to is not None
    log = log_of(context.store, refs, branch.id)
    return dataclasses.replace(moved, branch=branch.id, log=log, publishes=publishes, refs_seen=[refs], touched={},
                               sinks_seen=set())  # fmt: skip


def on_branch_of(context: Context, branch: str) -> Context:
    """Return the context of a branch that was not dropped, by its id."""
    if branch == context.branch:
        return context
    known = context.initialised().branches
    return on_branch(context, next(one.name for one in known.values() if one.id == branch))


def publishing_to(context: Context, prefix: str) -> Context:
    """Return the context with all sinks below `prefix`, each in a folder with its name."""
    outputs = {}
    for name, one in context.job.outputs.items():
        sink = None if one.sink is None else asked.moved(one.sink, f"{prefix.rstrip('/')}/{name}")
        outputs[name] = dataclasses.replace(one, sink=sink)
    return dataclasses.replace(context, job=dataclasses.replace(context.job, outputs=outputs))


def _check_sinks(context: Context) -> None:
    """Raise `InvalidInput` for a sink whose folder cannot be used, before any batch commits output for it."""
    for output in context.job.outputs.values():
        if output.sink is not None:
            _without_secrets(output.sink.path, f"sink `{output.name}`")
            asked.check_place(output.sink, context.storage_options.get("sink"))


def _without_secrets(uri: str, what: str) -> None:
    """Raise `InvalidInput` for a URI with credentials, because commits and messages contain the URI."""
    if "@" in uri.partition("://")[2].partition("/")[0]:
        raise InvalidInput(
            f"{what}: the URI contains credentials before an `@`",
            hint="remove them; use the usual AWS credential chain or storage_options",
        )
