"""Publishing: committed output files become visible in the sinks' own folders, in order of version, idempotently.

CRASH: a run that dies here leaves a prefix of the files; the next run copies the rest before it plans. Branches other
than `main` do not publish.
"""

from __future__ import annotations

from ..protocol.records import Commit
from ..sinks import recorded
from ..sinks.contract import Published
from .context import Context

MAIN = "main"


def publish(context: Context, commit: Commit) -> int:
    """Makes one version visible, where this code's sinks say, or, for one that it no longer has, where the commit does;
    how many files were not there yet."""
    copied = 0
    if context.branch != MAIN:
        return copied
    for name in commit.sinks if commit.kind != "void" else ():
        files, output = commit.outputs.get(name, []), context.job.outputs.get(name)
        sink = output.sink if output is not None else recorded(commit.sinks[name], name)
        if sink is not None and (files or sink.every_batch):
            whose = Published(context.job.pipeline, commit.pipeline_uuid, name, commit.version)
            copied += sink.publish(context.store, files, whose, context.storage_options.get("sink"))
    return copied


def repair(context: Context, head: Commit | None) -> list[int]:
    """Publishes what earlier runs left, oldest first; the versions that needed it."""
    if head is None or context.branch != MAIN:
        return []
    return [commit.version for commit in context.log.commits(head.published_through + 1) if publish(context, commit)]
