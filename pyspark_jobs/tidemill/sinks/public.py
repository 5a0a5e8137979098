"""The names of published files, made and recognised: pipeline, sink, version, place, repository, content.

Pure text. INVARIANT: a name determines the content of its file, so two histories of one repository do not share names.
"""

from __future__ import annotations

import re

from ..protocol.records import OutputFile
from ..values import dataclass
from .contract import Owner

_UUID, _CONTENT = 8, 12
_NAME = re.compile(
    r"(?P<pipeline>[a-z0-9-]+)\.(?P<sink>[a-z0-9-]+)-(?P<version>[0-9]{10})-(?P<place>[0-9]{5,})-"
    rf"(?P<uuid>[0-9a-f]{{{_UUID}}})-(?P<content>[0-9a-f]{{{_CONTENT}}})(?P<extension>\.[a-z0-9.]+)"
)


@dataclass(frozen=True)
class PublicName:
    """What the name of a published file says."""

    pipeline: str
    sink: str
    version: int
    uuid: str

    def is_of(self, owner: Owner) -> bool:
        """Whether the file is of this pipeline and sink, whatever repository published it."""
        return (self.pipeline, self.sink) == (owner.pipeline, owner.sink)

    def is_ours(self, owner: Owner) -> bool:
        """Whether the file is of this pipeline and sink, and this repository published it."""
        return self.is_of(owner) and self.uuid == owner.uuid[:_UUID]


def public_name(owner: Owner, version: int, place: int, file: OutputFile) -> str:
    """Return the name under which an output file is published. `place` is its place in the commit's list."""
    name = f"{prefix(owner, version)}{place:05d}-{owner.uuid[:_UUID]}-{file.checksum[:_CONTENT]}"
    return f"{file.suffix}{name}{file.extension}"


def with_content(name: str, checksum: str) -> str:
    """Return the name of a published file whose place has another content.

    >>> with_content("shop.totals-0000000003-00000-0c1f9b2e-0123456789ab.json", "ba9876543210ffff")
    'shop.totals-0000000003-00000-0c1f9b2e-ba9876543210.json'
    """
    folder, slash, file = name.rpartition("/")
    stem, dot, extension = file.partition(".")[2].partition(".")
    pipeline = file.partition(".")[0]
    return f"{folder}{slash}{pipeline}.{stem[: -len('-') - _CONTENT]}-{checksum[:_CONTENT]}{dot}{extension}"


def has_content(name: str, checksum: str) -> bool:
    """Whether a published file is named for a content."""
    found = _NAME.fullmatch(name.rpartition("/")[2])
    return found is not None and found["content"] == checksum[:_CONTENT]


def prefix(owner: Owner, version: int) -> str:
    """Return the beginning of the names of one version, after the partition folder."""
    return f"{beginning(owner)}{version:010d}-"


def beginning(owner: Owner) -> str:
    """Return the beginning of the names of all versions, after the partition folder."""
    return f"{owner.pipeline}.{owner.sink}-"


def parsed(name: str) -> PublicName | None:
    """Return what the name of a file says, or None if it is not a published file."""
    found = _NAME.fullmatch(name.rpartition("/")[2])
    if found is None:
        return None
    return PublicName(found["pipeline"], found["sink"], int(found["version"]), found["uuid"])
