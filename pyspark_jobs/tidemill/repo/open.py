"""`open`: check the arguments of `tm.open` and make the opened repository that all verbs use.

INVARIANT: opening writes nothing. `main` is opened without a request; any other branch reads `refs/`.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .. import names
from ..errors import InvalidInput
from ..names import check_name
from ..pipeline.definition import definitions
from ..pipeline.job import Job, compile_job
from ..pipeline.load import Loaded, search_paths
from ..pipeline.pipeline import Pipeline
from ..protocol.log import Log, log_of
from ..protocol.refs import MAIN
from ..protocol.refs_log import RefsLog
from ..secret_names import check_no_secrets
from ..settings import resolve_settings
from ..sinks import asked
from ..spelling import unknown
from ..store import Store, folder_uri, open_store
from .opened import Opened, Session
from .touched import Touched

_SECTIONS = ("root", "source", "sink")


def open_repository(
    pipeline: Pipeline | Loaded,
    root: str | None,
    branch: str,
    conf: Mapping[str, Any] | None,
    storage_options: Mapping[str, Mapping[str, Any]] | None,
) -> Opened:
    """Return the repository of a pipeline on a root, opened; `InvalidInput` for a wrong argument.

    Without `root`, it is that of the environment.
    """
    root = root_or_environment(root, "open")
    loaded = pipeline if isinstance(pipeline, Loaded) else Loaded(pipeline, "", (), search_paths())
    if not isinstance(loaded.pipeline, Pipeline):
        raise InvalidInput(f"open: expected a tidemill.Pipeline, found {loaded.pipeline!r}")
    options = checked_options(root, branch, storage_options, "open")
    repo = opened_on(loaded, compile_job(loaded.pipeline), root, conf, options)
    if branch != MAIN:
        repo = on_branch(repo, branch)
    _check_sources(repo)
    _check_sinks(repo)
    return repo


def root_or_environment(root: str | None, verb: str) -> str:
    """Return `root`, or without one that of the environment. `InvalidInput` if there is neither."""
    found = os.environ.get(names.ROOT_ENVIRONMENT) if root is None else root
    if found:
        return found
    raise InvalidInput(
        f"{verb}: root is {root!r}, expected a URI such as s3://bucket/prefix or a folder",
        hint=f"give root=…, or set the environment variable {names.ROOT_ENVIRONMENT}",
    )


def checked_options(
    root: str, branch: str, storage_options: Mapping[str, Mapping[str, Any]] | None, verb: str
) -> dict[str, Mapping[str, Any]]:
    """Return the storage options; `InvalidInput` for a root, branch or option that is not valid."""
    if not root or not isinstance(root, str):
        raise InvalidInput(f"{verb}: root is {root!r}, expected a URI such as s3://bucket/prefix or a folder")
    check_no_secrets(root, f"{verb}: root")
    options = dict(storage_options or {})
    for section in options:
        if section not in _SECTIONS:
            raise unknown("section of storage_options", section, _SECTIONS)
    check_name(branch, "branch")
    return options


def opened_on(
    loaded: Loaded, job: Job, root: str, conf: Mapping[str, Any] | None, options: Mapping[str, Mapping[str, Any]]
) -> Opened:
    """Return `main` of a job's repository on a root."""
    settings, spark_conf = resolve_settings(conf or {})
    root_store = open_store(root, options.get("root"))
    store = root_store.at(job.pipeline)
    return Opened(
        pipeline=loaded.pipeline,
        job=job,
        root=root,
        task_root=root if "://" in root else os.path.abspath(root),
        place=f"{folder_uri(root).rstrip('/')}/{job.pipeline}",
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
        session=_session(store, MAIN, functools.cache(functools.partial(definitions, job))),
    )


def on_branch(repo: Opened, name: str) -> Opened:
    """Return a branch of the same repository. Reads `refs/`. `InvalidInput` for an unknown branch."""
    refs = repo.refresh()
    if name not in refs.branches:
        raise unknown("branch", name, sorted(refs.branches))
    branch = refs.branches[name]
    moved = repo if branch.publish_to is None else publishing_to(repo, branch.publish_to)
    publishes = branch.fork is None or branch.publish_to is not None
    log = log_of(repo.store, refs, branch.id)
    session = dataclasses.replace(_session(repo.store, branch.id, repo.session.digests), refs=refs)
    return dataclasses.replace(moved, branch=branch.id, log=log, publishes=publishes, session=session)


def _session(store: Store, branch: str, digests: Callable[[], Mapping[str, Mapping[str, str]]]) -> Session:
    return Session(Touched(store, names.touched_hint(branch)), digests)


def on_branch_of(repo: Opened, branch: str) -> Opened:
    """Return a branch that was not dropped, opened, by its id."""
    if branch == repo.branch:
        return repo
    known = repo.initialised().branches
    return on_branch(repo, next(one.name for one in known.values() if one.id == branch))


def publishing_to(repo: Opened, prefix: str) -> Opened:
    """Return the opened branch with all sinks below `prefix`, each in a folder with its name."""
    outputs = {}
    for name, one in repo.job.outputs.items():
        sink = None if one.sink is None else asked.moved(one.sink, f"{prefix.rstrip('/')}/{name}")
        outputs[name] = dataclasses.replace(one, sink=sink)
    return dataclasses.replace(repo, job=dataclasses.replace(repo.job, outputs=outputs))


def _check_sinks(repo: Opened) -> None:
    """Raise `InvalidInput` for a sink whose folder cannot be used, before any batch commits output for it."""
    for output in repo.job.outputs.values():
        if output.sink is not None:
            for text in _texts([output.sink.path, output.sink.describe()]):
                check_no_secrets(text, f"sink `{output.name}`")
            asked.check_place(output.sink, repo.storage_options.get("sink"))


def _texts(described: object) -> Iterator[str]:
    """Yield every text that a commit records of a sink."""
    if isinstance(described, str):
        yield described
    elif isinstance(described, Mapping):
        for one in described.values():
            yield from _texts(one)
    elif isinstance(described, list | tuple):
        for one in described:
            yield from _texts(one)


def _check_sources(repo: Opened) -> None:
    """Raise `InvalidInput` for a source whose place has a secret in it, because commits record the place."""
    for name, source in repo.job.sources.items():
        check_no_secrets(source.place or "", f"source `{name}`")
