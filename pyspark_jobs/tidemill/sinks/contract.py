"""The protocol of a sink: what is asked of every place for rows.

A new sink is one file with a class of this shape; it inherits nothing. What only some places can do, such as a folder
of plain files, is in `asked`. INVARIANT: a sink decides nothing about versions. The driver says what to make visible
and to withdraw, in order, and keeps the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

import pyarrow as pa

from ..protocol.records import OutputFile, PublishedFile
from ..store import ListedObject, Store
from ..values import dataclass

Options = Mapping[str, Any] | None
"""`storage_options["sink"]`."""


@dataclass(frozen=True)
class Staged:
    """Rows of one version as one file of the repository, before they are visible anywhere.

    `suffix` is its partition folder (`country=UK/`), empty without partitions. `extension` is one of `forms`.
    """

    suffix: str
    extension: str
    data: bytes
    rows: int


@dataclass(frozen=True)
class Owner:
    """Whose rows they are: pipeline, uuid of its repository, and sink."""

    pipeline: str
    uuid: str
    sink: str


@dataclass(frozen=True)
class SinkPlace:
    """What a sink needs to work at its place. `store` is the repository's; `options` open the sink's own place."""

    owner: Owner
    store: Store
    options: Options


@dataclass(frozen=True)
class Withdrawn:
    """A version whose rows no longer count, by the id of the branch that made it.

    `files` are the names that were recorded when it was made visible, and `path` is the sink's path at that time; empty
    if a function was called for it.
    """

    branch: str
    version: int
    path: str
    files: Sequence[str] = ()


@dataclass(frozen=True)
class Change:
    """What one version changes at the place of a sink.

    `adds` are output files in the repository's store, in canonical order, each with its place in the commit's list;
    none is empty. `schema` has the columns of the stream; the rows have `_batch_id` and `_seq`, too. With `same_rows`,
    the rows that are added are those that are withdrawn, in other files.

    A sink that `keeps_unchanged` does not get files that it shows already, neither to add nor to withdraw. If a version
    is asked for again, `names` are those that such files had then, by their places in `adds`.
    """

    version: int
    schema: pa.Schema
    adds: Sequence[tuple[int, OutputFile]] = ()
    withdraws: Sequence[Withdrawn] = ()
    same_rows: bool = False
    names: Mapping[int, str] = field(default_factory=dict)
    there: Mapping[str, ListedObject] | None = None
    """What `Folder.listed` returned for this change just before; None: the sink looks itself."""


@dataclass(frozen=True)
class Applied:
    """The visible part of a change, for its record.

    `files` and `withdrawn` name what was added and removed; empty if the place has no files. `position` is what the
    place itself calls this change, such as the version of a table.
    """

    files: list[PublishedFile] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    position: str = ""


@dataclass(frozen=True)
class Seen:
    """What a place has of one version: in a folder each file, elsewhere one entry for the version.

    `name` is for people, and for a folder to find the file. `uuid` is that of the repository that made it visible, or
    the beginning of that uuid; `is_ours`: it is this one. `size` is in bytes.
    """

    name: str
    version: int
    is_ours: bool
    uuid: str
    size: int = 0


class Sink(Protocol):
    """A place for rows. It is sent to the workers by pickle."""

    @property
    def kind(self) -> str:
        """The kind that commits record, such as `parquet`."""

    @property
    def path(self) -> str:
        """The place that readers use, such as a folder. Holds no secret.

        Empty if there is none. Then `apply` is called for every batch of `main`, also for one without rows, and for no
        batch of a branch; only a request that names the sink calls it again.
        """

    @property
    def uri(self) -> str:
        """The URI of `path`, the same however it is spelled; empty if there is none. Touches nothing."""

    def describe(self) -> dict[str, Any]:
        """Return what commits record: `kind`, `path` and options, to compare the code of later runs with."""

    def check(self, schema: pa.Schema) -> None:
        """Raise `InvalidInput` if rows of this schema cannot be written."""

    def stage(self, rows: pa.Table) -> list[Staged]:
        """Return the rows as files of the repository, which `forms` reads back. The same rows give the same bytes.

        `forms.staged` does it. Called on the workers. A batch fails if the files do not have all rows.
        """

    def apply(self, change: Change, at: SinkPlace) -> Applied:
        """Make the adds and the withdraws of one version visible, and return what is visible then.

        In one step if the place can do that; otherwise what is added appears first. Calls follow the order of versions.
        A call may be repeated, also by another process, until the driver has recorded the version, and by one that
        stalled, after that. A version that was withdrawn before it was recorded comes without its adds. A user may ask
        for earlier versions again, for a place that was lost. INVARIANT: a version that the place has got once is not
        added again, also if a later one withdrew it; where only the driver can know that, the place is a `Folder`.
        `forms.rows_of_change` reads the rows, whatever sink has staged them. CRASH: parts may be visible; the next run
        calls it again.
        """

    def seen(self, at: SinkPlace, since: int = -1) -> Iterator[Seen]:
        """Yield what the place has of this pipeline and sink, of all repositories, and of versions after `since`."""
