"""Publishing: committed output files become visible in the sinks' own folders, in order of version, idempotently.

CRASH: a run that dies here leaves a prefix of the files; the next run copies the rest before it plans. Branches other
than `main` do not publish.
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
    """Makes one version visible, where this code's sinks say, or, for one that it no longer has, where the commit does;
    how many files were not there yet."""
    options = context.storage_options.get("sink")
    return sum(sink.publish(context.store, files, whose, options) for sink, files, whose in _of(context, commit))


def published_through(context: Context, head: Commit | None) -> int:
    """The last version up to which all are published now; −1: none. Asks the sinks about what `head` leaves open."""
    if head is None or context.branch != MAIN:
        return -1
    options = context.storage_options.get("sink")
    for commit in context.log.commits(head.published_through + 1):
        if not all(
            sink.is_published(context.store, files, whose, options) for sink, files, whose in _of(context, commit)
        ):
            return commit.version - 1
    return head.version


def _of(context: Context, commit: Commit) -> Iterator[tuple[Sink, Sequence[OutputFile], Publication]]:
    """The sinks that a version is for, and its files."""
    if context.branch != MAIN or commit.kind == "void":
        return
    for name in commit.sinks:
        files, output = commit.outputs.get(name, []), context.job.outputs.get(name)
        sink = output.sink if output is not None else recorded(commit.sinks[name], name)
        if sink is not None and (files or sink.every_batch):
            yield sink, files, Publication(context.job.pipeline, commit.pipeline_uuid, name, commit.version)


def not_here(context: Context, head: Commit | None) -> list[str]:
    """The sinks whose folder is relative and not here, though there is or was something to publish: maybe this process
    runs in another folder than the one before. Warns where something was published."""
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
                "sink `%s`: version %d was published in `%s`, and there is no such folder in %s, where this process "
                "runs and relative paths begin: what follows is published here; give an absolute path",
                name, last.version, path, os.getcwd(),
            )  # fmt: skip
    return [name for name in relative if any(commit.outputs.get(name) for commit in (head, last) if commit is not None)]


def repair(context: Context, head: Commit | None) -> list[int]:
    """Publishes what earlier runs left, oldest first; the versions that needed it."""
    if head is None or context.branch != MAIN:
        return []
    return [commit.version for commit in context.log.commits(head.published_through + 1) if publish(context, commit)]
