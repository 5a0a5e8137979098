"""`Files`: a folder of CSV, JSON or Parquet files as a source: which files it has, their splits, their blocks of rows.

Each format is decoded in a module of its own. INVARIANT: a split is read only as it was planned; a file that is
missing or has changed since is an error.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa

from ..errors import InvalidInput, StoreUnavailable, TidemillError
from ..names import ADDED
from ..protocol.records import Split
from ..schema import to_arrow, to_ddl, type_ddl
from ..spelling import unknown
from ..store import Entry, ObjectMissing, Store, folder_uri, relative_folder
from .contract import (
    ABANDON_PLAN,
    HIDDEN,
    ROW,
    SPLIT_BYTES,
    Block,
    Early,
    Intake,
    ReadContext,
    SourceFile,
)
from .convert import Formats
from .decode import Reading, blocks
from .delimited import CsvOptions, Decoded, read_csv
from .file_bytes import Content, Unreadable
from .file_columns import FileColumns, metadata_of
from .fingerprint import fingerprint
from .folder import entries_of, open_folder
from .json_lines import JsonOptions, read_json
from .listing import Selection, ordered, partition_values
from .options import FORMATS, read_options
from .parquet import read_parquet, row_group_ranges
from .parse import Misfit, parse_texts
from .together import Small, blocks_together, csv_records, each, json_records

__all__ = ["Files", "ReadContext", "SourceFile"]


class Files:
    """A source that reads the files of a folder, local or on S3. Each file is read once.

    `path` is a folder, a single file, or an `s3://` URI. `format` is `"parquet"` (the default), `"csv"` or `"json"`,
    which is one object a line. `schema` is required: DDL, a `pyarrow.Schema`, a Spark `StructType` or a dataclass.
    `header=True` says that the first line of a CSV file names its columns, which must be those of the schema, in order.

    Options with Spark's names and meaning:

    - `maxFilesPerTrigger`, `maxBytesPerTrigger`: how much one batch reads. Bytes are a number or `"1 GiB"`.
    - `pathGlobFilter`, `recursiveFileLookup`, `modifiedAfter` (UTC): which files belong to the source.
    - `mode`: `"FAILFAST"` (the default) raises an error for an unreadable row. `"PERMISSIVE"` quarantines it. In
      Parquet that is a whole file, or a whole range of row groups if a large file is split. One quarantined row then
      says how many rows are unreadable.
    - `dateFormat`, `timestampFormat` for CSV and JSON, `multiLine` for JSON.
    - `sep` or `delimiter`, `quote`, `escape`, `nullValue` for CSV.

    Tidemill's own options:

    - `start`: `"earliest"` (the default), a time, or `"latest"`. `"latest"` leaves out the files that are there when
      `init` runs, whatever their modification times.
    - `order`: `"name"` (the default) or `"modified"`.
    - `overwritten`: for a file with other bytes than those that were read, `"error"` (the default), `"new"`, which
      reads all of its rows again, or `"ignore"`. A file that was only copied or touched is the same file. So is one
      that `start="latest"` left out, as long as its size does not change.

    Differences from Spark: `escape` defaults to `"` (doubled quotes), line ends inside quotes are always read, a CSV
    record with too few cells is unreadable, a header must name the schema's columns in order, and a Parquet file must
    have every column of the schema. As in Spark, decimals with more digits than the schema are rounded half up. A time
    that a time zone has twice means the earlier instant.

    Tidemill skips files whose name begins with `_` or `.`. It also skips files that end in `._COPYING_`, `.crdownload`,
    `.filepart`, `.part`, `.partial`, `.tmp` or `~`, because these are not complete yet. `pathGlobFilter="*.part"` reads
    them. Keys with `//` on S3 are skipped with a warning. Files that end in `.gz` or `.zst` are decompressed. Columns
    of the schema may come from partition folders such as `dt=2020-01-01/`. Times without an offset are in the
    pipeline's time zone. An unknown option, or one that does not fit the format, raises `InvalidInput`.

    >>> import tidemill as tm
    >>> tm.Files("data/by-day/", format="csv", header=True, schema="id int, price decimal(10,2)").schema.names
    ['id', 'price']
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str = "parquet",
        schema: Any = None,
        header: bool | str = False,
        **options: Any,
    ) -> None:
        self.path = os.fspath(path)
        if format not in FORMATS:
            raise unknown("format of tm.Files", str(format), FORMATS)
        self.format = format
        self._given = {k: v for k, v in {"header": header or None, **options}.items() if v is not None}
        values = read_options(format, {**options, **({"header": header} if header is not False else {})})
        self.header: bool = values["header"]
        self.maxFilesPerTrigger: int | None = values["maxFilesPerTrigger"]
        self.maxBytesPerTrigger: int | None = values["maxBytesPerTrigger"]
        self.pathGlobFilter: str | None = values["pathGlobFilter"]
        self.recursiveFileLookup: bool = values["recursiveFileLookup"]
        self.modifiedAfter: int | None = values["modifiedAfter"]
        self.mode: str = values["mode"]
        self.start: str | int = values["start"]
        self.order: str = values["order"]
        self.overwritten: Literal["error", "new", "ignore"] = values["overwritten"]
        formats = Formats(values["dateFormat"], values["timestampFormat"])
        self._csv = CsvOptions(
            self.header, values["sep"], values["quote"], values["escape"], values["nullValue"], formats
        )
        self._json = JsonOptions(values["multiLine"], formats)
        if schema is None:
            raise InvalidInput(
                f"tm.Files({self.path!r}, format={format!r}) has no schema",
                hint='declare the columns, because the next file must not change them: schema="id int, name string"',
            )
        self._schema = _checked(to_arrow(schema), format)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy for a worker, whose working folder is another one: a relative path is resolved."""
        is_relative = "://" not in self.path and not os.path.isabs(self.path)
        return {**self.__dict__, **({"path": os.path.abspath(self.path)} if is_relative else {})}

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._schema

    @property
    def place(self) -> str:
        """The URI of the folder or file, with symbolic links resolved."""
        return folder_uri(self.path)

    @property
    def intake(self) -> Intake:
        """The options `start`, `overwritten` and the limits of a batch, for the planner."""
        return Intake(
            start="latest" if self.start == "latest" else "earliest",
            overwritten=self.overwritten,
            max_files=self.maxFilesPerTrigger,
            max_bytes=self.maxBytesPerTrigger,
            selection=Selection(self.pathGlobFilter, self.recursiveFileLookup, self._after_ms),
        )

    @property
    def parsing(self) -> Mapping[str, Any]:
        """The format, the mode and the options of the format."""
        options = {"csv": self._csv, "json": self._json}
        return {"format": self.format, "mode": self.mode, "options": options.get(self.format)}

    @property
    def _after_ms(self) -> int | None:
        """The time after which a file must be modified."""
        first = [self.start - 1] if isinstance(self.start, int) else []
        return max([*first, *([] if self.modifiedAfter is None else [self.modifiedAfter])], default=None)

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._given.items())
        return f"Files({self.path!r}, format={self.format!r}, schema={to_ddl(self._schema)!r}{options})"

    def discover(self, name: str, storage_options: Mapping[str, Any] | None = None) -> list[SourceFile]:
        """Return the files that the source has now, filtered and in `order`; `name` is the source's name.

        Raises `InvalidInput` if the folder is missing. The caller applies `start="latest"`, because that depends on
        when the repository was made.
        """
        store, only = open_folder(self.path, storage_options)
        selection = self.intake.selection
        found = [entry for entry in self._entries(store, only, name) if selection.has(entry)]
        return [SourceFile(name, e.name, e.etag, e.size, e.modified_ms) for e in ordered(found, self.order)]

    def fingerprint(self, file: SourceFile, storage_options: Mapping[str, Any] | None = None) -> str | None:
        """Return a text that depends on the bytes of a file now, or None if it is gone or too large to be read."""
        store, _ = open_folder(self.path, storage_options)
        try:
            return fingerprint(Content(store, file.path, file.size), self.format)
        except (ObjectMissing, StoreUnavailable):
            return None

    def splits(
        self,
        files: Sequence[SourceFile],
        storage_options: Mapping[str, Any] | None = None,
        split_bytes: int = SPLIT_BYTES,
    ) -> list[Split]:
        """Return one split for each file, or one for each range of row groups of a Parquet file above `split_bytes`.

        Every split records the etag and the size of the whole file, by which a changed file is recognised.
        """
        store, _ = open_folder(self.path, storage_options)
        made: list[Split] = []
        for file in files:
            whole = Split(file.source, file.path, file.etag, file.size, file.modified_ms)
            ranges = []
            if self.format == "parquet" and file.size > split_bytes:
                ranges = _ranges(store, file, split_bytes)
            if len(ranges) < 2:
                made.append(whole)
            for first, last, row in ranges if len(ranges) > 1 else ():
                made.append(Split(*_whole_fields(whole), row_groups=(first, last), first_row=row))
        return made

    def read_early(self, split: Split, storage_options: Mapping[str, Any] | None = None) -> Early | None:
        """Read a small file of a remote store by one request, and return it if it is as planned."""
        store, _ = open_folder(self.path, storage_options)
        if split.row_groups is not None or split.requeued is not None or store.requests_at_once == 1:
            return None
        try:
            content = self._loaded(store, split, None)
        except (ObjectMissing, TidemillError):
            return None  # the error comes again when a task reads the file
        return Early(content, fingerprint(content, self.format))

    def read(self, split: Split, block_rows: int, context: ReadContext) -> Iterator[Block]:
        """Yield the rows of a split in blocks of `block_rows` rows, with their rejects; see `Source.read`.

        The columns are those of the schema, `_metadata` if the context asks for it, and `_row`. Raises `InvalidInput`
        if the file is missing or has changed since it was planned, and with FAILFAST for the first unreadable row.
        """
        store, _ = open_folder(self.path, context.storage_options)
        try:
            early = context.read_before(split)
            content = Content(store, split.path, split.size) if early is None else early.content
            self._check_unchanged(store, split, content.entry)
            whole = None
            if _is_first(split):
                whole = fingerprint(content, self.format) if early is None else early.fingerprint
            for block in self._blocks(store, split, content, block_rows, context):
                yield block if block.number else dataclasses.replace(block, fingerprint=whole)
        except ObjectMissing as error:
            raise _missing_file(split, store) from error
        if not content.at_once:
            self._check_unchanged(store, split, None)

    def read_together(self, splits: Sequence[Split], block_rows: int, context: ReadContext) -> list[list[Block]] | None:
        """Return the blocks of small text files, decoded together, or None if each must be read alone."""
        if self.format == "parquet" or self._json.multi_line:
            return None
        store, _ = open_folder(self.path, context.storage_options)
        try:
            contents = each(store, lambda split: self._loaded(store, split, context.read_before(split)), splits)
            small = [self._small(store, *one, context) for one in zip(splits, contents, strict=True)]
        except (InvalidInput, ObjectMissing, StoreUnavailable, Unreadable):
            return None  # the error is raised when the file is read alone
        found = [one for one in small if one is not None]
        in_file = found[0].columns.in_file if found else None
        if in_file is None or len(found) < len(splits) or any(one.columns.in_file != in_file for one in found):
            return None
        what, csv, zone = f"read files of source `{splits[0].source}`", self._csv.without_header, context.time_zone
        if self.format == "csv":
            return blocks_together(found, block_rows, lambda stream: read_csv(stream, in_file, csv, zone, what))
        return blocks_together(found, block_rows, lambda stream: read_json(stream, in_file, self._json, zone, what))

    def _loaded(self, store: Store, split: Split, early: Early | None) -> Content:
        content = Content(store, split.path, split.size) if early is None else early.content
        content.load()
        self._check_unchanged(store, split, content.entry)
        return content

    def _small(self, store: Store, split: Split, content: Content, context: ReadContext) -> Small | None:
        """Return a small file, or None if it must be read alone."""
        columns = self._columns(store, split, context)
        if content.is_compressed or columns.resolve(context.time_zone) is not None:
            return None
        data = content.load()
        records = csv_records(data, columns.in_file, self._csv) if self.format == "csv" else json_records(data)
        what = f"source `{split.source}`: a block of {split.path}"
        return None if records is None else Small(what, records, columns, fingerprint(content, self.format))

    def _columns(self, store: Store, split: Split, context: ReadContext) -> FileColumns:
        folders = partition_values(split.path) if not self.recursiveFileLookup else {}
        asked = context.columns if self.format == "parquet" else None
        return FileColumns(self._schema, folders, metadata_of(store, split) if context.metadata else None, asked)

    def parse(self, path: str, texts: Sequence[str], time_zone: str) -> pa.Table | list[Misfit]:
        """Return a row for each text, which is a record of the file `path` without its line end."""
        columns = FileColumns(self._schema, partition_values(path) if not self.recursiveFileLookup else {}, None, None)
        reason = columns.resolve(time_zone)
        if reason is not None or self.format == "parquet":
            return [Misfit(place, reason or "Parquet has no text") for place in range(len(texts))]
        read, csv = f"read records of file `{path}`", self._csv.without_header
        if self.format == "csv":
            made = parse_texts(texts, lambda stream: read_csv(stream, columns.in_file, csv, time_zone, read))
        else:
            made = parse_texts(texts, lambda stream: read_json(stream, columns.in_file, self._json, time_zone, read))
        return made if isinstance(made, list) else columns.finish(made).drop_columns([ROW])

    def _blocks(
        self, store: Store, split: Split, content: Content, block_rows: int, context: ReadContext
    ) -> Iterator[Block]:
        columns = self._columns(store, split, context)
        reading = Reading(split.source, split.path, self.mode, columns.schema, columns.finish)
        yield from blocks(self._decode(split, content, columns, context.time_zone), block_rows, reading)

    def _decode(self, split: Split, content: Content, columns: FileColumns, time_zone: str) -> Iterator[Decoded]:
        what = f"read file `{split.path}` of source `{split.source}`"
        misfit = columns.resolve(time_zone)
        if self.format == "parquet":
            with content.open() as file:
                yield from read_parquet(file, columns.in_file, split, self.mode, misfit, columns.asked)
            return
        if misfit is not None:
            raise Unreadable(misfit)
        with content.open_text() as stream:
            if self.format == "csv":
                yield from read_csv(stream, columns.in_file, self._csv, time_zone, what)
            else:
                yield from read_json(stream, columns.in_file, self._json, time_zone, what)

    def _entries(self, store: Store, only: str | None, name: str) -> list[Entry]:
        entries = entries_of(store, only)
        if entries is not None:
            return entries
        hint = None
        if any(character in self.path for character in "*?[{"):
            hint = "give the folder as the path, and choose its files with pathGlobFilter"
        elif relative_folder(self.path) is not None:
            hint = f"relative paths resolve against the working directory of the process, which is {os.getcwd()}"
        missing = "no such folder" if store.local_path("x") is not None else "no object has this prefix"
        raise InvalidInput(f"list source `{name}` at `{self.path}`: {missing}", hint=hint)

    def _check_unchanged(self, store: Store, split: Split, read: Entry | None) -> None:
        """Raise `InvalidInput` if a file is not the planned one.

        `read` is the entry that came with its bytes; None: ask now.
        """
        entry = read or store.stat(split.path)
        if entry is None:
            raise _missing_file(split, store)
        if (entry.etag, entry.size) != (split.etag, split.size):
            raise InvalidInput(
                f"read file `{split.path}` of source `{split.source}`: the file changed after it was planned: found "
                f"{entry.size:,} bytes with etag `{entry.etag}`, expected {split.size:,} bytes with `{split.etag}`",
                hint=f"if you corrected the file, {ABANDON_PLAN}. Never write files in place: write to another name, "
                "then rename",
            )


def _is_first(split: Split) -> bool:
    """Whether a split is a whole file, or the first part of one."""
    return split.row_groups is None or split.row_groups[0] == 0


def _checked(schema: pa.Schema, kind: str) -> pa.Schema:
    for field in schema:
        if field.name in (*HIDDEN, *ADDED):
            raise InvalidInput(f"schema of tm.Files: the column name `{field.name}` is reserved")
        if kind == "csv" and pa.types.is_nested(field.type):
            raise InvalidInput(
                f"schema of tm.Files: column `{field.name}` is {type_ddl(field.type)}, which CSV cannot hold",
                hint="read it as a string and parse it with .sql",
            )
    return schema


def _whole_fields(split: Split) -> tuple[str, str, str, int, int]:
    return split.source, split.path, split.etag, split.size, split.modified_ms


def _ranges(store: Store, file: SourceFile, split_bytes: int) -> list[tuple[int, int, int]]:
    """Return ranges of row groups, none if the file is not valid Parquet: the error is raised when it is read."""
    try:
        with Content(store, file.path, file.size).open() as opened:
            return row_group_ranges(opened, file.size, split_bytes)
    except StoreUnavailable:
        raise
    except (pa.ArrowException, ObjectMissing, OSError):
        return []


def _missing_file(split: Split, store: Store) -> InvalidInput:
    return InvalidInput(
        f"read file `{split.path}` of source `{split.source}`: the file is missing from `{store.uri}`",
        hint=f"restore the file, or {ABANDON_PLAN}",
    )
