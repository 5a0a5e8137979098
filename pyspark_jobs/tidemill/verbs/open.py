"""`open`: a pipeline on a root, checked, nothing written. Nothing is read from the store yet either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..driver.context import Context
from ..driver.publish import MAIN
from ..errors import InvalidInput
from ..names import check_name
from ..pipeline.job import compile_job
from ..pipeline.load import Loaded, search_paths
from ..pipeline.pipeline import Pipeline
from ..protocol.log import Log
from ..settings import resolve
from ..spelling import unknown
from ..store import open_store

_SECTIONS = ("root", "source", "sink")


def open_context(
    pipeline: Pipeline | Loaded,
    root: str,
    branch: str,
    conf: Mapping[str, Any] | None,
    storage_options: Mapping[str, Mapping[str, Any]] | None,
) -> Context:
    """The context of a pipeline on a root; `InvalidInput` for what is wrong with the call."""
    loaded = pipeline if isinstance(pipeline, Loaded) else Loaded(pipeline, "", (), search_paths())
    if not isinstance(loaded.pipeline, Pipeline):
        raise InvalidInput(f"open: expected a tidemill.Pipeline, found {loaded.pipeline!r}")
    if not root or not isinstance(root, str):
        raise InvalidInput(f"open: root is {root!r}, expected a URI such as s3://bucket/prefix or a folder")
    _without_secrets(root, "open: root")
    options = dict(storage_options or {})
    for section in options:
        if section not in _SECTIONS:
            raise unknown("section of storage_options", section, _SECTIONS)
    if check_name(branch, "branch") != MAIN:
        raise InvalidInput(
            f"open: there is no branch `{branch}`, only `{MAIN}`",
            hint="branches are not there yet; a name that nobody made would start empty by accident",
        )
    settings, spark_conf = resolve(conf or {})
    job = compile_job(loaded.pipeline)
    root_store = open_store(root, options.get("root"))
    store = root_store.at(job.pipeline)
    context = Context(
        pipeline=loaded.pipeline,
        job=job,
        root=root,
        branch=branch,
        store=store,
        root_store=root_store,
        log=Log(store, branch),
        settings=settings,
        spark_conf=spark_conf,
        storage_options=options,
        reference=loaded.reference or None,
        modules=loaded.modules,
        paths=loaded.paths,
    )
    _check_sinks(context)
    return context


def _check_sinks(context: Context) -> None:
    """`InvalidInput` for a sink whose folder cannot be one, before anything is committed for it."""
    for output in context.job.outputs.values():
        if output.sink is not None:
            _without_secrets(output.sink.path, f"sink `{output.name}`")
            output.sink.check_place(context.storage_options.get("sink"))


def _without_secrets(uri: str, what: str) -> None:
    """A URI is written into commits and messages, so it may carry no credentials."""
    if "@" in uri.partition("://")[2].partition("/")[0]:
        raise InvalidInput(
            f"{what}: its URI carries credentials before an `@`",
            hint="leave them out: they come from the usual AWS chain, or from storage_options",
        )
