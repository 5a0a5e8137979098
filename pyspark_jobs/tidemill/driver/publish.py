"""Publishing: committed output files become visible in the sinks' own folders, in order of version, idempotently.

CRASH: a run that dies here leaves a prefix of the files; the next run copies the rest before it plans. Branches other
than `main` do not publish.
"""

from __future__ import annotations

from ..protocol.records import Commit
from ..sinks.publish import publish_files
from ..store import open_store
from .context import Context

MAIN = "main"


def publish(context: Context, commit: Commit) -> int:
    """Makes one version visible; how many files were copied. Files that are there already are left alone."""
    copied = 0
    if context.branch != MAIN:
        return copied
    for name, files in commit.outputs.items():
        path = commit.sinks.get(name, {}).get("path")
        if path is not None:
            sink = open_store(path, context.storage_options.get("sink"))
            copied += publish_files(context.store, sink, files, context.job.pipeline, name, commit.version)
    return copied


def repair(context: Context, head: Commit | None) -> list[int]:
    """Publishes what earlier runs left, oldest first; the versions that needed it."""
    if head is None or context.branch != MAIN:
        return []
    return [commit.version for commit in context.log.commits(head.published_through + 1) if publish(context, commit)]
