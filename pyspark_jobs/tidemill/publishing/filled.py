"""What a `fill` has added to a sink, by version: a correction that shows a version again finds its rows so.

The versions themselves do not name these rows, because they did not have the sink. INVARIANT: it follows the commits
that showed a version in the sink, one after the other, back to the one that added it.
"""

from __future__ import annotations

from ..errors import InvalidInput
from ..protocol.history import is_effective, shown
from ..protocol.kinds import rules_of
from ..protocol.records import REWRITE, AddedOutput, Commit, Kind
from ..protocol.retained import refuse_if_gone
from ..repo.opened import Opened
from ..values import dataclass


@dataclass(frozen=True)
class _AddedLater:
    """The rows of a version as the commit `by` added them, and the last `forget` that has changed them since.

    A `forget` that has rewritten earlier versions has rewritten what `by` added, too.
    """

    by: int
    output: AddedOutput
    forgot: int | None


def added_later(repo: Opened, head: Commit, sink: str, version: int) -> _AddedLater | None:
    """Return the rows of a version that did not have a sink, as a later one added them. None: the sink has none."""
    forgot, before = None, head
    while is_effective(before, version):
        record = shown(before, sink)[version]
        made = repo.log.commit(record)
        if record == version or sink not in made.adds:
            return None
        is_forget = "forgotten" in rules_of(made).changes
        found = next((one for one in made.adds[sink] if one.version == version), None)
        if found is not None and not is_forget:
            return _AddedLater(record, found, forgot)
        forgot = record if is_forget and forgot is None and REWRITE not in made.requires else forgot
        before = repo.log.commit(record - 1)
    return None


def added_again(
    repo: Opened, heads: tuple[Commit | None, ...], sink: str, version: int, kind: Kind
) -> AddedOutput | None:
    """Return the rows that a sink got later of a version and shows again, by the first of `heads` that shows them.

    `InvalidInput` if they are no longer kept, or if a `forget` changed them.
    """
    found = (added_later(repo, head, sink, version) for head in heads if head is not None)
    added = next((one for one in found if one is not None), None)
    if added is None:
        return None
    if added.forgot is not None:
        raise InvalidInput(
            f"{kind}: sink `{sink}`: the rows of version {version} would have to be published again, but version "
            f"{added.forgot} forgot keys since they were filled in",
            hint="replay into a branch, and promote it",
        )
    refuse_if_gone(repo.initialised(), repo.version_of(added.by), f"{kind}: publish again")
    return added.output
