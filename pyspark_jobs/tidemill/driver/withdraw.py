"""What a rewind needs of the sinks: which versions they show, whether that can be undone, and what came back since.

INVARIANT: a correction that a sink cannot carry out is refused before it is committed.
"""

from __future__ import annotations

import logging

from ..counts import count_of
from ..errors import InvalidInput
from ..protocol.history import is_shown, last_forget
from ..protocol.records import Commit
from ..protocol.refs import MAIN
from ..sinks.foreach import ForeachBatch
from .context import Context
from .lost_versions import place_of
from .publish import CALLED, works

LOG = logging.getLogger("tidemill")


SUSPECT_VERSIONS = 100
"""For how many versions after a rewind or a `forget` a run looks for files that a stalled process copied."""


def may_have_strays(head: Commit | None) -> bool:
    """Whether the last rewind or `forget` is so recent that a run looks for files of withdrawn versions."""
    if head is None:
        return False
    last = max([*(last for _, last in head.replaced), *_last_forget(head)], default=None)
    return last is not None and head.version - last <= SUSPECT_VERSIONS


def _last_forget(head: Commit) -> list[int]:
    version = last_forget(head)
    return [] if version is None else [version]


def first_suspect(head: Commit) -> int:
    """Return the first version whose files were withdrawn so recently that a run looks for them.

    A `forget` may have withdrawn files of any version before it.
    """
    if any(head.version - version <= SUSPECT_VERSIONS for version in _last_forget(head)):
        return 0
    recent = (first for first, last in head.replaced if head.version - last <= SUSPECT_VERSIONS)
    return min(recent, default=head.version + 1)


def published_sinks(commit: Commit) -> list[str]:
    """Return the sinks in which a version shows rows, or whose function was called for it."""
    return [
        work.name
        for work in works(commit)
        if work.files or (work.described["kind"] == ForeachBatch.kind and commit.kind in CALLED)
    ]


def refuse_unless_withdrawable(context: Context, name: str) -> None:
    """Raise `InvalidInput` if what a sink published cannot be withdrawn, or the code does not have the sink."""
    sink = context.declared_sink(name)
    if sink is None:
        raise InvalidInput(
            f"rewind: sink `{name}` published versions that would be undone, but this code does not have the sink",
            hint="restore the sink in the code, rewind, and then remove it",
        )
    try:
        sink.refuse_withdrawal()
    except InvalidInput as error:
        raise InvalidInput(f"rewind: sink `{name}`: {error.message}", hint=error.hint) from error


def withdraw_strays(context: Context, head: Commit | None, since: int = 0) -> dict[str, list[str]]:
    """Withdraw files of versions from `since` on that were withdrawn before, and return their names by sink.

    A process that stalled while it published may copy them after the withdrawal, and then die. On S3, the files of
    versions before `since` are not listed, unless they are in partition folders.
    """
    found: dict[str, list[str]] = {}
    if head is None or context.branch != MAIN or not (head.replaced or _last_forget(head)):
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
