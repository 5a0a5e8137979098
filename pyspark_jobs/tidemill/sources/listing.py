"""Which files of a folder are data: hidden names, filters, and partition folders such as `dt=2020-01-01/`.

Names in, names out; nothing is read. INVARIANT: a name with a part that begins with `_` or `.` is never data, except
a partition folder such as `_a=1`. Neither is a file whose name says that it is not complete yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from ..errors import InvalidInput
from ..store import ListedObject
from ..values import dataclass
from .globs import matches

UNFINISHED = ("._COPYING_", ".crdownload", ".filepart", ".part", ".partial", ".tmp", "~", "_$folder$")
"""Ends of names that Hadoop, browsers, editors and copying programs give to files that are not complete.

The last one is that of the empty objects with which Hadoop marks folders on S3."""
HIDDEN_STARTS = ("_", ".")
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Selection:
    """Which objects of a folder a source reads: those with names of data that match `pattern`.

    Files in subfolders only if `recursive`, and files that were modified after `after_ms`, if it is given.
    """

    pattern: str | None = None
    recursive: bool = False
    after_ms: int | None = None

    def has(self, entry: ListedObject) -> bool:
        """Return whether an object is a file of the source."""
        if self.after_ms is not None and entry.modified_ms <= self.after_ms:
            return False
        return is_data(entry.name, self.recursive, self.pattern)

    def enters(self, folder: str) -> bool:
        """Return whether files of the source may be in a folder, whose name ends with `/`."""
        return is_data(folder + "x", self.recursive, None)

    def recorded(self) -> dict[str, Any]:
        """Return what commits record of it: the rules that are not the defaults."""
        default = Selection()
        return {name: value for name, value in vars(self).items() if value != getattr(default, name)}

    @staticmethod
    def of(recorded: Mapping[str, Any]) -> Selection:
        """Return what a commit recorded of it. Unknown rules, which a newer writer added, are left out."""
        return Selection(**{name: recorded[name] for name in vars(Selection()) if name in recorded})


def is_data(name: str, recursive: bool, pattern: str | None) -> bool:
    """Return whether the file `name`, relative to its source's folder, belongs to the source.

    A file whose name says that it is still being copied does not, unless `pattern` names such files.
    Unless `recursive`, only files in the folder itself and in partition folders below it belong to it, as in Spark.
    """
    *folders, file = name.split("/")
    if any(part.startswith(HIDDEN_STARTS) and "=" not in part for part in folders) or file.startswith(HIDDEN_STARTS):
        return False
    if not recursive and any("=" not in folder for folder in folders):
        return False
    if _unfinished(file, pattern) is not None:
        return False
    return pattern is None or matches(file, pattern)


def _unfinished(file: str, pattern: str | None) -> str | None:
    """Return the end of a name that says that the file is not complete; None if `pattern` names such files."""
    if pattern is not None and pattern.endswith(UNFINISHED):
        return None
    return next((end for end in UNFINISHED if file.endswith(end)), None)


def check_single(file: str, pattern: str | None, what: str) -> None:
    """Raise `InvalidInput` if a source that is the single file `file` would skip it because of its name.

    `what` begins the message. A `pattern` or a time that leaves the file out was declared, so it is no error.
    """
    if file.startswith(HIDDEN_STARTS):
        raise InvalidInput(
            f"{what}: the name `{file}` begins with `{file[0]}`, and such files are skipped as hidden",
            hint="rename the file, or link to it with another name",
        )
    end = _unfinished(file, pattern)
    if end is not None:
        raise InvalidInput(
            f"{what}: the name `{file}` ends in `{end}`, and such files are skipped as incomplete copies",
            hint=f'rename the file once it is complete, or declare pathGlobFilter="*{end}", which reads it',
        )


def partition_values(path: str) -> list[tuple[str, str | None]]:
    """Return the columns in the folders of a path: `dt=2020-01-01/x.csv` gives [("dt", "2020-01-01")]."""
    values: list[tuple[str, str | None]] = []
    for folder in path.split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if equals:
            values.append((unescaped(name), None if value == NULL_PARTITION else unescaped(value)))
    return values


def unescaped(text: str) -> str:
    """Return a name or value of a partition folder without its escapes `%XX`.

    Their bytes are UTF-8 if they are valid UTF-8. Otherwise each of them is the character with this code, as in Spark.
    So folders with different bytes do not become one value.
    """
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return unquote(text, encoding="latin-1")


def ordered(entries: Iterable[ListedObject], order: str) -> list[ListedObject]:
    """Return entries sorted by name, or by modification time and then name."""
    if order == "modified":
        return sorted(entries, key=lambda entry: (entry.modified_ms, entry.name.encode()))
    return sorted(entries, key=lambda entry: entry.name.encode())
