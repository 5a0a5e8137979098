"""Publishing: committed output files become visible in the sinks' own folders, in order of version, idempotently.

CRASH: a run that dies here leaves a prefix of the files; the next run copies the rest before it plans. Branches other
than `main` do not publish.
"""

from __future__ import annotations

from ..protocol.records import Commit
from ..sinks.publish import Published, publish_files
from .context import Context, open_folder

MAIN = "main"


def publish(context: Context, commit: Commit) -> int:
    """Makes one version visible; how many files were copied. Files that are there already are left alone."""
    copied = 0
    if context.branch != MAIN:
        return copied
    for name, files in commit.outputs.items():
        path = sink_path(context, commit, name)
        if path is not None:
            folder = open_folder(context, path)
            whose = Published(context.job.pipeline, commit.pipeline_uuid, name, commit.version)
            copied += publish_files(context.store, folder, files, whose)
    return copied


def sink_path(context: Context, commit: Commit, name: str) -> str | None:
    """Where a sink's files go: as this code says, or, where it has no such sink, as the commit does."""
    output = context.job.outputs.get(name)
    if output is not None:
        return getattr(output.sink, "path", None)
    path = commit.sinks.get(name, {}).get("path")
    return None if path is None else str(path)


def repair(context: Context, head: Commit | None) -> list[int]:
    """Publishes what earlier runs left, oldest first; the versions that needed it."""
    if head is None or context.branch != MAIN:
        return []
    return [commit.version for commit in context.log.commits(head.published_through + 1) if publish(context, commit)]
