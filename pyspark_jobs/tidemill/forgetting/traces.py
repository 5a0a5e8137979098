"""Traces of keys in records, which are never changed or deleted: messages, reasons, and folder names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from .. import names
from ..counts import count_of
from ..protocol.log import Log
from ..protocol.records import Commit
from ..protocol.refs import MAIN
from ..sinks.partitions import folder_values
from ..values import dataclass
from .key_text import mentions, names_key
from .keys import Keys

Columns = Mapping[str, Sequence[str]]
_SHOWN = 3


@dataclass
class Traces:
    """Records that have a key in a message or reason, or in the name of a partition folder."""

    messages: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return what is left, in words."""
        found = (
            (self.messages, "the message of a failed key, or the reason of a correction, has the key"),
            (self.folders, "the name of a partition folder has the key; empty folders on a disk stay, too"),
        )
        return [f"{_shown(records)}: {what}" for records, what in found if records]


def traces(log: Log, head: Commit, keys: Keys, columns: Columns) -> Traces:
    """Read all commits, and return what is left of the keys in them."""
    found, parts = Traces(), keys.parts
    by = {sink: {*given, *keys.columns.schema.names} for sink, given in columns.items()}
    for commit in log.commits(0, through=head):
        name = names.commit(commit.branch, commit.version)
        texts = [commit.reason or "", *(one.failure for one in commit.operators.values())]
        if any(names_key(text, parts) for text in texts):
            found.messages.append(name)
        for sink, suffixes in _suffixes(commit):
            wanted = by.get(sink, set(keys.columns.schema.names))
            if any(_has_key(suffix, wanted, parts) for suffix in suffixes):
                found.folders += [name, names.numbered(names.published(MAIN, sink), commit.version)]
    found.folders = list(dict.fromkeys(found.folders))
    return found


def _suffixes(commit: Commit) -> Iterator[tuple[str, set[str]]]:
    for sink, files in commit.outputs.items():
        yield sink, {file.suffix for file in files if file.suffix}
    for sink, added in commit.adds.items():
        yield sink, {file.suffix for one in added for file in one.files if file.suffix}


def _has_key(suffix: str, columns: set[str], parts: Sequence[Sequence[object]]) -> bool:
    values = [value for name, value in folder_values(suffix).items() if name in columns and value is not None]
    return any(mentions(value, [[part]]) for value in values for key in parts for part in key if part is not None)


def _shown(records: Sequence[str]) -> str:
    """Return the first records by name, and how many there are."""
    rest = len(records) - _SHOWN
    return ", ".join(records[:_SHOWN]) + (f" and {count_of(rest, 'record')} more" if rest > 0 else "")
