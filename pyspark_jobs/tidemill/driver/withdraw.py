"""What a rewind needs of the sinks: which versions they show, whether that can be undone, and what came back since.

INVARIANT: a correction that a sink cannot carry out is refused before it is committed.
"""

from __future__ import annotations

import logging

from ..counts import count_of
from ..errors import InvalidInput
from ..protocol.history import is_shown, last_forget
from ..protocol.records import Commit
from ..sinks.foreach import ForeachBatch
from .context import Context
from .lost_versions import place_of
from .publish import CALLED, works

LOG = logging.getLogger("tidemill")


SUSPECT_VERSIONS = 100
"""For how many versions after a correction a run looks for files that it withdrew and a stalled process copied."""
WITHDRAWING = ("rewind", "forget", "compact", "promote")
"""The kinds of commits that withdraw files."""


def may_have_strays(head: Commit | None) -> bool:
    """Whether files were withdrawn so recently that a run looks for them."""
    return head is not None and first_suspect(head) <= head.version


def first_suspect(head: Commit) -> int:
    """Return the first version whose files were withdrawn so recently that a run looks for them.

    A `forget` may have withdrawn files of any version before it. A compaction withdraws old files, too, but a process
    that publishes them now stalled long ago: a run looks for those of recent versions, `maintain` for all.
    """
    forget = last_forget(head)
    found = [*([] if forget is None else [(0, forget)]), *head.replaced]
    found += [(max(one.first, one.by - SUSPECT_VERSIONS), one.by) for one in head.shown_by if one.sink]
    return min((first for first, by in found if head.version - by <= SUSPECT_VERSIONS), default=head.version + 1)


def published_sinks(context: Context, commit: Commit) -> list[str]:
    """Return the sinks in which a version shows rows, or whose function was called for it."""
    return [
        work.name
        for work in works(context, commit)
        if work.files or (work.described["kind"] == ForeachBatch.kind and commit.kind in CALLED)
    ]


def refuse_unless_withdrawable(context: Context, name: str, verb: str) -> None:
    """Raise `InvalidInput` if what a sink published cannot be withdrawn, or the code does not have the sink."""
    sink = context.declared_sink(name)
    if sink is None:
        raise InvalidInput(
            f"{verb}: sink `{name}` published versions that would be undone, but this code does not have the sink",
            hint=f"restore the sink in the code, {verb}, and then remove it",
        )
    try:
        sink.refuse_withdrawal()
    except InvalidInput as error:
        raise InvalidInput(f"{verb}: sink `{name}`: {error.message}", hint=error.hint) from error


def withdraw_strays(context: Context, head: Commit | None, since: int = 0) -> dict[str, list[str]]:
    """Withdraw files of versions from `since` on that were withdrawn before, and return their names by sink.

    A process that stalled while it published may copy them after the withdrawal, and then die. On S3, the files of
    versions before `since` are not listed, unless they are in partition folders.
    """
    found: dict[str, list[str]] = {}
    if head is None or not context.publishes or not (head.replaced or head.shown_by or last_forget(head) is not None):
        return found
    for name, output in context.job.outputs.items():
        if output.sink is None or not output.sink.path:
            continue
        place = place_of(context, output)
        present = output.sink.present(place, after=since - 1)
        strays = sorted(one.name for one in present if one.is_ours and not is_shown(head, one.version, name))
        if strays:
            LOG.warning(
                "sink `%s`: %s of withdrawn versions appeared again and will be deleted, for example `%s`",
                name, count_of(len(strays), "file"), strays[0],
            )  # fmt: skip
            output.sink.withdraw(place, strays)
            found[name] = strays
    return found
