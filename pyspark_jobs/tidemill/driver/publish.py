"""Publishes committed output files: copies them into the sinks' own folders, in order of version, idempotently.

Only the branch `main` publishes. CRASH: a run that dies here has published some of the files. The next run publishes
the rest before it plans.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence

from ..protocol.records import Commit, OutputFile
from ..sinks import recorded
from ..sinks.contract import Publication, Sink
from ..store import relative_folder
from .context import Context

LOG = logging.getLogger("tidemill")
MAIN = "main"


def publish(context: Context, commit: Commit) -> int:
    """Publish one version and return how many files were not published yet.

    A sink that this code no longer has is published to the place that the commit records.
    """
    options = context.storage_options.get("sink")
    return sum(sink.publish(context.store, files, whose, options) for sink, files, whose in _of(context, commit))


def published_through(context: Context, head: Commit | None) -> int:
    """Return the last version up to which all versions are published, or -1. This asks the sinks."""
    if head is None or context.branch != MAIN:
        return -1
    options = context.storage_options.get("sink")
    for commit in context.log.commits(head.published_through + 1, through=head):
        if not all(
            sink.is_published(context.store, files, whose, options) for sink, files, whose in _of(context, commit)
        ):
            return commit.version - 1
    return head.version


def _of(context: Context, commit: Commit) -> Iterator[tuple[Sink, Sequence[OutputFile], Publication]]:
    """Yield the sinks of a version with their files."""
    if context.branch != MAIN or commit.kind == "void":
        return
    for name in commit.sinks:
        files, output = commit.outputs.get(name, []), context.job.outputs.get(name)
        sink = output.sink if output is not None else recorded(commit.sinks[name], name)
        if sink is not None and (files or sink.every_batch):
            yield sink, files, Publication(context.job.pipeline, commit.pipeline_uuid, name, commit.version)


def missing_sinks(context: Context, head: Commit | None) -> list[str]:
    """Return the sinks with a missing relative folder and something to publish, now or in the last published version.

    This process may run in another folder than the one before. It logs a warning if the sink has published before.
    """
    if head is None or context.branch != MAIN:
        return []
    relative = {
        name: output.sink.path
        for name, output in context.job.outputs.items()
        if output.sink is not None
        and (folder := relative_folder(output.sink.path)) is not None
        and not os.path.exists(folder)
    }
    last = context.log.commit(head.published_through) if relative and head.published_through >= 0 else None
    for name, path in relative.items():
        if last is not None and last.outputs.get(name):
            LOG.warning(
                "sink `%s`: version %d was published in `%s`, but this folder does not exist in %s, the working folder "
                "of this process; new versions are published there: use an absolute path",
                name, last.version, path, os.getcwd(),
            )  # fmt: skip
    return [name for name in relative if any(commit.outputs.get(name) for commit in (head, last) if commit is not None)]


def repair(context: Context, head: Commit | None) -> list[int]:
    """Publish versions that earlier runs left unpublished, oldest first. Return those versions."""
    if head is None or context.branch != MAIN:
        return []
    waiting = context.log.commits(head.published_through + 1, through=head)
    return [commit.version for commit in waiting if publish(context, commit)]
