"""What a command is given as PIPELINE: a reference to code, or for commands that read also a repository's URI.

INVARIANT: text of the form `module:name`, `path.py:name` or `path.py` is a reference, whatever files there are. No
repository has a name with a dot.
"""

from __future__ import annotations

import os
from urllib.parse import unquote

from ..errors import InvalidInput
from ..values import dataclass


@dataclass(frozen=True)
class RepositoryPlace:
    """The root of a repository, and the pipeline's name."""

    root: str
    pipeline: str


def is_reference(text: str) -> bool:
    """Whether text names code.

    >>> [is_reference(text) for text in ("retail:p", "retail.py:p", "retail.py", "s3://lake/retail", "lake/retail")]
    [True, True, True, False, False]
    """
    place, _, name = text.rpartition(":")
    if text.endswith(".py") and "://" not in text:
        return True
    return bool(place) and bool(name) and "/" not in name and "://" not in text


def is_repository(text: str) -> bool:
    """Whether text is a URI or the path of a folder, and no reference."""
    return not is_reference(text) and ("://" in text or text.startswith("file:/") or os.path.isdir(_path(text)))


def repository_place(text: str) -> RepositoryPlace:
    """Return where a repository is. `InvalidInput` if the text cannot be a repository's URI.

    >>> repository_place("s3://lake/tidemill/retail/")
    RepositoryPlace(root='s3://lake/tidemill', pipeline='retail')
    >>> repository_place("/lake/retail")
    RepositoryPlace(root='file:///lake', pipeline='retail')
    """
    scheme, separator, rest = text.partition("://")
    is_folder = not separator or scheme == "file"
    if is_folder and not text.startswith("file:/") and not os.path.isdir(_path(text)) and "/" not in text:
        raise _not_one(text)
    if is_folder:
        from ..store import open_store

        rest = open_store(text).uri.removeprefix("file://")
    above, slash, name = rest.rstrip("/").rpartition("/")
    if not slash or not name or (not is_folder and not above):
        raise _not_one(text)
    if is_folder:
        return RepositoryPlace(f"file://{above or '/'}", unquote(name))
    return RepositoryPlace(f"{scheme}://{above}", name)


def _path(text: str) -> str:
    return os.path.expanduser(text)


def _not_one(text: str) -> InvalidInput:
    return InvalidInput(
        f"found PIPELINE `{text}`, expected `module:name`, `path.py:name`, `path.py`, or the URI of a repository",
        hint="the URI of a repository is ROOT/NAME, such as s3://bucket/prefix/retail, where NAME is the pipeline's",
    )
