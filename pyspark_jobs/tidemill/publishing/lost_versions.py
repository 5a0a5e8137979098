"""Published versions that the repository does not have: it was restored from a backup that is older than its sinks.

A later version with the same rows, or a correction that takes a lost number, would double rows for readers of the sink.
INVARIANT: a process looks once, before its first plan or correction, so runs without either list nothing.
"""

from __future__ import annotations

from ..clock import now_ms
from ..counts import count_of
from ..errors import CorruptState
from ..protocol.log import Log
from ..protocol.records import Commit
from ..repo.opened import Opened
from ..sinks.asked import seen, sink_folder
from ..sinks.contract import Seen, Sink
from .works import place_of

RECENT_MS = 3_600_000
"""A head of at most this age counts as the newest one if looking would list all partition folders on S3."""


def check_history(repo: Opened, head: Commit | None, through: int) -> None:
    """Raise `CorruptState` if the head follows another commit than the one before it, or if a sink has lost versions.

    Whoever writes a plan or a commit after `head` calls this. `through` is as in `refuse_lost_versions`.
    """
    if head is not None:
        repo.log.confirm(head, repo.initialised().start)
    refuse_lost_versions(repo, head, through)


def refuse_lost_versions(repo: Opened, head: Commit | None, through: int) -> None:
    """Raise `CorruptState` if a sink has files that we published as versions after `through`, which have no commits.

    `through` is the head, or the number of a plan that exists already: its batch makes the same files again.
    """
    if not repo.publishes:
        return
    for output in repo.job.outputs.values():
        sink = output.sink
        if sink is None or not sink.path or output.name in repo.session.clean_sinks:
            continue
        folder = sink_folder(sink)
        is_costly = folder is not None and folder.lists_whole(repo.storage_options.get("sink"))
        if not (is_costly and _is_recent(head)):
            _refuse(repo, sink, output.name, through)
        repo.session.clean_sinks.add(output.name)


def _is_recent(head: Commit | None) -> bool:
    return head is not None and now_ms() - head.committed_ms <= RECENT_MS


def _refuse(repo: Opened, sink: Sink, name: str, through: int) -> None:
    later = [one for one in seen(sink, place_of(repo, name), through) if one.is_ours]
    lost = lost_among(repo.log, later, through)
    if lost:
        raise CorruptState(
            f"sink `{name}` at `{sink.path}` has {count_of(len(lost), 'file')} of versions after {through}, for "
            f"example `{lost[0].name}`: the repository published them, but has lost their commits",
            hint="if the repository goes on at another place, leave the files, which are published from there. "
            "Otherwise restore its newest backup; without one, `tidemill verify` says of each file what to do",
        )


def lost_among(log: Log, later: list[Seen], through: int) -> list[Seen]:
    """Return the files of versions that still have no commit. Files are published after the commit, so look again."""
    if not later:
        return []
    newest = log.head()
    committed = through if newest is None else max(through, newest.version)
    return [one for one in later if one.version > committed]
