"""What a source may be able to do besides its protocol, asked for by name. A source without such a member cannot do it.

INVARIANT: no caller asks for the class of a source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa

from ..errors import InvalidInput, errors_of
from ..protocol.records import Split
from .contract import (
    SPLIT_BYTES,
    Early,
    EarlyFiles,
    Intake,
    Misfit,
    ReadContext,
    ReadsAhead,
    SmallFiles,
    Source,
    SourceFile,
    SourceFolder,
)

_Options = Mapping[str, Any] | None


def is_positioned(source: Source) -> bool:
    """Whether commits remember how far a source was read by a position, by its `is_positioned`.

    Otherwise the ledger remembers each file.
    """
    return bool(getattr(source, "is_positioned", False))


def source_folder(source: Source) -> SourceFolder | None:
    """Return the folder whose files a source reads, by its `folder`. None: it reads something else."""
    return cast("SourceFolder | None", getattr(source, "folder", None))


def look_at_source(source: Source, name: str, since: str | None, options: _Options = None) -> list[SourceFile]:
    """Return what a source can read now, by its `look`. `InvalidInput` if that is not as its protocol says.

    INVARIANT: what a plan names can be written, read back and distinguished.
    """
    if source_folder(source) is not None:
        return source.look(name, since, options)
    what = f"source `{name}`: look"
    if is_positioned(source) and source.place is None:
        raise InvalidInput(f"source `{name}` has a position but no place, so its position says nothing")
    if is_positioned(source) and intake_of(source).start == "latest":
        raise InvalidInput(
            f'source `{name}` has start="latest", but commits remember its position',
            hint="let `look(name, None)` return what comes after the position at which to begin",
        )
    with errors_of(what):
        found = list(source.look(name, since, options))
    for one in found:
        if not _is_well_formed(one, name, is_positioned(source)):
            raise InvalidInput(
                f"{what} returned {one!r}: expected a SourceFile of this source with texts as path and etag, whole "
                "numbers of at least 0 as size and modified_ms" + (" and a position" if is_positioned(source) else "")
            )
    reached = [*([] if since is None else [since]), *(one.position for one in found)]
    if is_positioned(source) and len(set(reached)) < len(reached):
        raise InvalidInput(f"{what} returned a position twice, or the one after which it looked: {reached}")
    return found


def _is_well_formed(one: Any, name: str, has_position: bool) -> bool:
    if not isinstance(one, SourceFile) or one.source != name or (has_position and not one.position):
        return False
    texts, numbers = (one.path, one.etag, one.position), (one.size, one.modified_ms)
    is_numbers = all(type(number) is int and 0 <= number < 2**53 for number in numbers)
    return bool(one.path) and all(isinstance(text, str) for text in texts) and is_numbers


def intake_of(source: Source) -> Intake:
    """Return which files are read, and how many by one batch, by the source's `intake`: all by default."""
    return cast("Intake", getattr(source, "intake", Intake()))


def parsing_of(source: Source) -> Mapping[str, Any]:
    """Return the options that decide which rows a file has, by the source's `parsing`."""
    return cast("Mapping[str, Any]", getattr(source, "parsing", {}))


def fingerprint(source: Source, file: SourceFile, options: _Options = None) -> str | None:
    """Return a text that depends on the bytes of a file now, by the source's `fingerprint(file, options)`.

    None if it would cost too much to read, or if the source cannot tell.
    """
    return cast("str | None", source.fingerprint(file, options)) if hasattr(source, "fingerprint") else None


def splits(
    source: Source, files: Sequence[SourceFile], options: _Options = None, split_bytes: int = SPLIT_BYTES
) -> list[Split]:
    """Return one split for each file, or parts of about `split_bytes`, by `splits(files, options, split_bytes)`."""
    if hasattr(source, "splits"):
        return cast("list[Split]", source.splits(files, options, split_bytes))
    return [Split(one.source, one.path, one.etag, one.size, one.modified_ms) for one in files]


def read_early(source: Source, split: Split, options: _Options = None) -> Early | None:
    """Read a file as a whole for `ReadContext.early`, by the source's `read_early(split, options)`.

    None if it is not as planned, or not in a remote store.
    """
    return cast("Early | None", source.read_early(split, options)) if hasattr(source, "read_early") else None


def read_early_together(source: Source, splits: Sequence[Split], context: ReadContext) -> EarlyFiles:
    """Read small files as wholes, several at once, by the source's `read_early_together(splits, context)`.

    They are for `ReadContext.early`. Those that were read before are among them.
    """
    if not hasattr(source, "read_early_together"):
        return context.early
    return cast("EarlyFiles", source.read_early_together(splits, context))


def read_small(
    source: Source, splits: Sequence[Split], block_rows: int, context: ReadContext
) -> Iterator[SmallFiles | None]:
    """Yield the rows of small files that are whole splits, by the source's `read_small(splits, block_rows, context)`.

    They are read several at once, in order. None: the next split must be read alone, because it is something other than
    one block of good rows.
    """
    if hasattr(source, "read_small"):
        return cast("Iterator[SmallFiles | None]", source.read_small(splits, block_rows, context))
    return iter([None] * len(splits))


def reads_ahead(source: Source) -> ReadsAhead | None:
    """Return a source that can read before it is asked, by its `read_ahead`."""
    return cast("ReadsAhead | None", source if hasattr(source, "read_ahead") else None)


def parse_records(
    source: Source, path: str, texts: Sequence[str], time_zone: str, header: str | None = None
) -> pa.Table | list[Misfit]:
    """Return a row for each text, which is a record of the file `path`, or the texts that are no rows.

    By the source's `parse(path, texts, time_zone, header)`. `header` is that of the file, if the quarantine has it.
    """
    if hasattr(source, "parse"):
        return cast("pa.Table | list[Misfit]", source.parse(path, texts, time_zone, header))
    return [Misfit(place, "rows of this source have no text") for place in range(len(texts))]


def after(files: Sequence[SourceFile], since: str | None, now: str | None) -> Sequence[SourceFile] | None:
    """Return what is left of a look after position `since`, if the source was read up to `now` in the meantime.

    None: `now` is not among the positions that were seen, so the source must be looked at again.
    """
    if now == since:
        return files
    place = next((place for place, one in enumerate(files) if one.position == now), None)
    return None if place is None else files[place + 1 :]
