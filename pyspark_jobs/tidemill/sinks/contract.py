"""The protocol of a sink: it turns rows into files and back, exactly, and makes committed files visible.

A new sink is one file with a class of this shape. INVARIANT: a sink decides nothing about versions. The driver says
what to publish and withdraw, in order, and keeps the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from ..protocol.records import OutputFile, PublishedFile
from ..store import Entry, Store

Options = Mapping[str, Any] | None
"""`storage_options["sink"]`."""


@dataclass(frozen=True)
class Encoded:
    """One file of a sink. `suffix` is its partition folder (`country=UK/`), empty without partitions."""

    suffix: str
    extension: str
    data: bytes
    rows: int


@dataclass(frozen=True)
class Identity:
    """Identifies one publication: pipeline, uuid of its repository, sink and version."""

    pipeline: str
    uuid: str
    sink: str
    version: int


@dataclass(frozen=True)
class Publication:
    """What a sink is given to make one version visible.

    `files` are the version's output files in `store`, in canonical order, each with its place in the commit's list;
    none is empty. `schema` has the columns of their rows. `options` open the sink's own place. `withdraws` are the
    versions whose rows no longer count.
    """

    identity: Identity
    files: Sequence[tuple[int, OutputFile]]
    schema: pa.Schema
    store: Store
    options: Options
    withdraws: Sequence[int] = ()
    there: Mapping[str, Entry] | None = None
    """What `Sink.listed` returned for the same files just before; None: the sink looks itself."""


@dataclass(frozen=True)
class Present:
    """A file at the place of a sink: its name, its version, and whether our repository published it.

    `uuid` is that of the repository that published it, or the beginning of that uuid. `size` is in bytes.
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
        """The kind that commits record: `parquet`, `json`."""

    @property
    def every_batch(self) -> bool:
        """Whether `publish` is also called for a batch without rows for this sink."""

    @property
    def path(self) -> str:
        """The place that readers use, such as a folder; empty if there is none. Holds no secret."""

    @property
    def uri(self) -> str:
        """The URI of `path`, the same however it is spelled; empty if there is none. Touches nothing."""

    def describe(self) -> dict[str, Any]:
        """Return what commits record: `kind`, `path` and options, to compare the code of later runs with."""

    def check(self, schema: pa.Schema) -> None:
        """Raise `InvalidInput` if rows of this schema cannot be written."""

    def encode(self, rows: pa.Table) -> list[Encoded]:
        """Return the rows as files. The same rows give the same bytes."""

    def decode(self, files: Sequence[tuple[bytes, str]], schema: pa.Schema) -> pa.Table:
        """Return the rows of files, given as (content, suffix), in order and exactly as they were encoded."""

    def at(self, path: str) -> Sink:
        """Return the same sink at another place; one without a place returns itself."""

    def check_place(self, options: Options) -> None:
        """Raise `InvalidInput` if `path` is not a valid place for this sink. Touches nothing."""

    def refuse_withdrawal(self) -> None:
        """Raise `InvalidInput` if what was published cannot be withdrawn, with the reason."""

    def publish(self, publication: Publication) -> list[PublishedFile]:
        """Make the files of one version visible at `path`, and return what is visible then.

        Calls follow the order of versions. A call may be repeated, also by another process, until the driver has
        recorded the version. CRASH: some of the files may be visible; the next run calls it again.
        """

    def listed(self, publication: Publication) -> Mapping[str, Entry]:
        """Return which files of the version are at `path`, as `publish` asks first. `CorruptState` as there."""

    def withdraw(self, publication: Publication, names: Sequence[str]) -> None:
        """Remove files that were published at `path`, by the names that `publish` returned. May be repeated."""

    def fetch(self, publication: Publication, name: str) -> bytes | None:
        """Return the content of a published file at `path`, or None if it is not there any more."""

    def present(self, publication: Publication, after: int = -1) -> Iterator[Present]:
        """Yield the files at `path` that any repository published for the same pipeline and sink.

        Only those of versions after `after`.
        """

    def lists_whole(self, options: Options) -> bool:
        """Whether `present` costs requests that grow with the number of all files, whatever `after` is."""

    def compare(
        self, publication: Publication, files: Mapping[str, PublishedFile], deep: bool
    ) -> Iterator[tuple[str, str | None]]:
        """Yield which of the published `files` are still at `path`, each with what is wrong with it, or None.

        With `deep` their content is read and compared, too.
        """
