"""What a sink may be able to do besides its protocol, asked for by name. A sink without such a member cannot do it.

INVARIANT: no caller asks for the class of a sink.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ..errors import CorruptState, InvalidInput, errors_of
from ..store import ObjectMissing
from .contract import Applied, Change, Options, Seen, Sink, SinkPlace
from .folder import Folder


def sink_folder(sink: Sink | None) -> Folder | None:
    """Return the folder of plain files that is the place of a sink, by its `folder`. None: it has another place."""
    return cast("Folder | None", getattr(sink, "folder", None))


def keeps_unchanged(sink: Sink | None) -> bool:
    """Whether a version can show files of an earlier one as they are, by the sink's `keeps_unchanged`.

    `Withdrawn.files` then says what is withdrawn, not the version. A folder of plain files can do it.
    """
    return sink_folder(sink) is not None or bool(getattr(sink, "keeps_unchanged", False))


def is_called(sink: Sink) -> bool:
    """Whether a sink is a function that is called for every batch, because it has no place."""
    return not sink.path


def applied(sink: Sink, change: Change, at: SinkPlace) -> Applied:
    """Return what `Sink.apply` has made visible. `InvalidInput` for a result that no record could hold."""
    with errors_of("apply"):
        try:
            made = sink.apply(change, at)
        except ObjectMissing as error:
            raise CorruptState(
                f"read `{error.name}`: the object is missing, but a commit names it",
                hint="restore the object from a backup",
            ) from error
    texts = (made.position, *made.withdrawn) if isinstance(made, Applied) else (None,)
    if not all(isinstance(text, str) for text in texts):
        raise InvalidInput(f"apply returned {made!r}, expected an Applied whose position is a text")
    return made


def seen(sink: Sink, at: SinkPlace, since: int = -1) -> Iterator[Seen]:
    """Yield what `Sink.seen` has found, with errors of the kinds that callers know."""
    with errors_of(f"sink `{at.owner.sink}`: seen"):
        yield from sink.seen(at, since)


def moved(sink: Sink, path: str) -> Sink:
    """Return the same sink at another place, by its `at(path)`. One without a place is returned as it is.

    `InvalidInput` if it cannot be at another place.
    """
    if is_called(sink):
        return sink
    if not hasattr(sink, "at"):
        raise InvalidInput(
            f"the sink {sink!r} cannot write to another place such as `{path}`",
            hint="leave out publish_to; a promotion then publishes what the branch made",
        )
    return cast("Sink", sink.at(path))


def check_place(sink: Sink, options: Options) -> None:
    """Raise `InvalidInput` if the path of a sink is no valid place for it, by its `check_place(options)`.

    Touches nothing.
    """
    if hasattr(sink, "check_place"):
        sink.check_place(options)


def refuse_withdrawal(sink: Sink) -> None:
    """Raise `InvalidInput` if what was made visible cannot be withdrawn, by the sink's `refuse_withdrawal()`."""
    if hasattr(sink, "refuse_withdrawal"):
        sink.refuse_withdrawal()
