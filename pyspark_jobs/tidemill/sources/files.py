"""`Files`: a folder of CSV, JSON or Parquet files as a source: which files it has, their splits, their blocks of rows.

Each format is decoded in a module of its own. INVARIANT: a split is read only as it was planned; a file that is
missing or has changed since is an error.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput, StoreUnavailable, TidemillError
from ..names import ADDED
from ..protocol.records import Split
from ..quarantine.rejects import FAILFAST
from ..quarantine.rows import ABANDON_PLAN
from ..schema import empty_batch, to_arrow, to_ddl, type_ddl
from ..secret_names import check_no_secrets
from ..spelling import unknown
from ..store import ListedObject, ObjectMissing, Store, folder_uri, relative_folder, side_by_side
from .bad_file import bad_file, damaged_meanwhile, decoded_fully, refused
from .columns_by_name import ColumnsByName
from .content import READ_ONCE_BYTES, Content
from .contract import (
    BLOCK_BYTES,
    HIDDEN,
    ROW,
    SPLIT_BYTES,
    Block,
    Early,
    EarlyFiles,
    Intake,
    Misfit,
    ReadContext,
    SmallFiles,
    SourceFile,
    SourceFolder,
)
from .decode import Reading, blocks
from .file_columns import FileColumns, columns_of_files, metadata_of
from .fingerprint import content_fingerprint
from .folder import entries_of, open_folder
from .formats import text_format
from .listing import Selection, check_single, ordered, partition_values
from .options import FORMATS, Flag, Format, Mode, known_options, read_options
from .parquet import ParquetColumns, footer_rows, read_parquet, row_group_ranges
from .text import TextAhead, count_rows, opener, parse_texts, read_blocks, read_small_texts
from .text_format import RECORD_BYTES, CsvFormat, TextFormat, TextLimits
from .unreadable import Unreadable

__all__ = ["Files", "ReadContext", "SourceFile"]

_COUNTED_ROWS = 131_072


class Files:
    """A source that reads the files of a folder, local or on S3. Each file is read once.

    `path` is a folder, a single file, or an `s3://` URI. `format` is `"parquet"` (the default), `"csv"` or `"json"`,
    which is one object a line. `schema` is required: DDL, a `pyarrow.Schema`, a Spark `StructType` or a dataclass.
    docs/guides/files.md says how each format is read, option by option, and where Spark differs.

    Options with Spark's names and meaning:

    - `maxFilesPerTrigger`, `maxBytesPerTrigger`: how much one batch reads. Bytes are a number or `"1 GiB"`.
    - `pathGlobFilter`, `recursiveFileLookup`, `modifiedAfter` (UTC): which files belong to the source.
    - `mode`: `"FAILFAST"` (the default) raises an error for an unreadable row of CSV or JSON. `"PERMISSIVE"`
      quarantines it. In Parquet a row is never unreadable by itself.
    - For CSV and JSON: `dateFormat`, `timestampFormat` and `timestampNTZFormat` in Spark's letters, `encoding` or
      `charset`, `lineSep`, and `multiLine`. In CSV, line ends in quotes are always read.
    - For CSV: `header`, `enforceSchema`, `sep` or `delimiter`, `quote`, `escape` (a backslash by default),
      `charToEscapeQuoteEscaping`, `comment`, `nullValue`, `emptyValue`, `ignoreLeadingWhiteSpace`,
      `ignoreTrailingWhiteSpace`. `escape='"'` reads doubled quotes, which most programs other than Spark write.
    - For JSON: `allowComments`, `allowUnquotedFieldNames`, `allowSingleQuotes`, `allowNumericLeadingZeros`,
      `allowBackslashEscapingAnyCharacter`, `allowUnquotedControlChars`, `allowNonNumericNumbers`.

    Tidemill's own options:

    - `extraColumns`: `"ignore"` (the default) or `"fail"`, for columns of a CSV header or a Parquet file that the
      schema lacks. `missingColumns`: `"fail"` (the default) or `"null"`, for columns that the file lacks. With
      `header=True`, CSV columns are matched by name, in any order. With `enforceSchema=True` the header is skipped, and
      columns are matched by position.
    - `badFiles`: `"fail"` (the default) or `"quarantine"`, for a file that is not of its format: damaged, with other
      columns, in another encoding. By default it fails the batch in every mode. In quarantine it is whole: all of its
      rows count, and `requeue` reads it again after it was corrected. One task reads a file then, whatever its size.
    - `maxRecordBytes`: a longer record of CSV or JSON is an error; 64 MiB by default.
    - `start`: `"earliest"` (the default), a time, or `"latest"`. `"latest"` leaves out the files that are there when
      `init` runs, whatever their modification times.
    - `order`: `"name"` (the default) or `"modified"`.
    - `overwritten`: for a file with other bytes than those that were read, `"error"` (the default), `"new"`, which
      reads all of its rows again, or `"ignore"`. A file that was only copied or touched is the same file. So is one
      that `start="latest"` left out, as long as its size does not change.

    Tidemill skips files whose name begins with `_` or `.`. It also skips files that end in `._COPYING_`, `.crdownload`,
    `.filepart`, `.part`, `.partial`, `.tmp` or `~`, because these are not complete yet. `pathGlobFilter="*.part"` reads
    them. A `path` that names such a file is an error. Keys with `//` on S3 are skipped with a warning. CSV and JSON
    files that are compressed with gzip, zstd or bzip2 are recognised by their content. Columns of the schema may come
    from partition folders such as `dt=2020-01-01/`. Times without an offset are in the pipeline's time zone; one that
    the zone has twice means the earlier instant. An unknown option, or one that does not fit the format, raises
    `InvalidInput`.

    >>> import tidemill as tm
    >>> tm.Files("data/by-day/", format="csv", header=True, schema="id int, price decimal(10,2)").schema.names
    ['id', 'price']
    """

    @known_options
    def __init__(
        self,
        path: str | os.PathLike[str],
        format: Format = "parquet",
        schema: Any = None,
        header: Flag = False,
        *,
        maxFilesPerTrigger: int | str | None = None,
        maxBytesPerTrigger: int | str | None = None,
        pathGlobFilter: str | None = None,
        recursiveFileLookup: Flag = False,
        modifiedAfter: str | int | datetime | None = None,
        mode: Mode = FAILFAST,
        start: str | int | datetime = "earliest",
        order: Literal["name", "modified"] = "name",
        overwritten: Literal["error", "new", "ignore"] = "error",
        extraColumns: Literal["ignore", "fail"] = "ignore",
        missingColumns: Literal["fail", "null"] = "fail",
        badFiles: Literal["fail", "quarantine"] = "fail",
        maxRecordBytes: int | str = RECORD_BYTES,
        multiLine: Flag = False,
        encoding: str = "UTF-8",
        charset: str | None = None,
        lineSep: str | None = None,
        dateFormat: str | None = None,
        timestampFormat: str | None = None,
        timestampNTZFormat: str | None = None,
        enforceSchema: Flag = False,
        sep: str = ",",
        delimiter: str | None = None,
        quote: str = '"',
        escape: str = "\\",
        charToEscapeQuoteEscaping: str | None = None,
        comment: str = "",
        nullValue: str = "",
        emptyValue: str = "",
        ignoreLeadingWhiteSpace: Flag = False,
        ignoreTrailingWhiteSpace: Flag = False,
        allowComments: Flag = False,
        allowUnquotedFieldNames: Flag = False,
        allowSingleQuotes: Flag = True,
        allowNumericLeadingZeros: Flag = False,
        allowBackslashEscapingAnyCharacter: Flag = False,
        allowUnquotedControlChars: Flag = False,
        allowNonNumericNumbers: Flag = True,
    ) -> None:
        given = locals()
        if format not in FORMATS:
            raise unknown("format of tm.Files", str(format), FORMATS)
        self.path = _one_path(path)
        self.format: str = format
        self._given = {name: given[name] for name, default in _defaults().items() if given[name] not in (default, None)}
        values = _defaults() | read_options(self._given)
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
        self._by_name = ColumnsByName(values["extraColumns"], values["missingColumns"])
        self._bad_files: Literal["fail", "quarantine"] = values["badFiles"]
        self._record_bytes: int = values["maxRecordBytes"]
        self._text = text_format(format, values)
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
    def text_format(self) -> TextFormat | None:
        """How text files are written; None for Parquet."""
        return self._text

    @property
    def record_bytes(self) -> int:
        """How long a record of a text file may be."""
        return self._record_bytes

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
            bad_files=self._bad_files,
            max_files=self.maxFilesPerTrigger,
            max_bytes=self.maxBytesPerTrigger,
            selection=Selection(self.pathGlobFilter, self.recursiveFileLookup, self._after_ms),
        )

    @property
    def parsing(self) -> Mapping[str, Any]:
        """The format, the mode and the options of the format."""
        columns = {} if self.format != "parquet" else {"missing": self._by_name.missing, "extra": self._by_name.extra}
        return {"format": self.format, "mode": self.mode, "options": self._text, **columns}

    @property
    def _after_ms(self) -> int | None:
        """The time after which a file must be modified."""
        first = [self.start - 1] if isinstance(self.start, int) else []
        return max([*first, *([] if self.modifiedAfter is None else [self.modifiedAfter])], default=None)

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._given.items())
        return f"Files({self.path!r}, format={self.format!r}, schema={to_ddl(self._schema)!r}{options})"

    @property
    def folder(self) -> SourceFolder:
        """The folder, and which of its objects are files of the source."""
        return SourceFolder(self.path, self.intake.selection)

    def look(
        self, name: str, since: str | None = None, storage_options: Mapping[str, Any] | None = None
    ) -> list[SourceFile]:
        """Return the files that the source has now, filtered and in `order`; `name` is the source's name.

        `since` is ignored, because the ledger knows each file. Raises `InvalidInput` if the folder is missing, or if
        the path is a single file that would be skipped. The caller applies `start="latest"`, because that depends on
        when the repository was made.
        """
        del since
        store, only = open_folder(self.path, storage_options)
        selection = self.intake.selection
        if only is not None:
            check_single(only, selection.pattern, f"list source `{name}` at `{self.path}`")
        found = [entry for entry in self._entries(store, only, name) if selection.has(entry)]
        return [SourceFile(name, e.name, e.etag, e.size, e.modified_ms) for e in ordered(found, self.order)]

    def fingerprint(self, file: SourceFile, storage_options: Mapping[str, Any] | None = None) -> str | None:
        """Return a text that depends on the bytes of a file now, or None if it is gone or too large to be read."""
        store, _ = open_folder(self.path, storage_options)
        try:
            return content_fingerprint(Content(store, file.path, file.size), self.format)
        except (ObjectMissing, StoreUnavailable):
            return None

    def splits(
        self,
        files: Sequence[SourceFile],
        storage_options: Mapping[str, Any] | None = None,
        split_bytes: int = SPLIT_BYTES,
    ) -> list[Split]:
        """Return one split for each file, or one for each range of row groups of a Parquet file above `split_bytes`.

        With `badFiles="quarantine"` one task reads a file, because it is in quarantine as a whole or not at all.
        Every split records the etag and the size of the whole file, by which a changed file is recognised.
        """
        store, _ = open_folder(self.path, storage_options)
        made: list[Split] = []
        for file in files:
            whole = Split(file.source, file.path, file.etag, file.size, file.modified_ms)
            ranges = []
            if self.format == "parquet" and file.size > split_bytes and self._bad_files == "fail":
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
        return Early(content, content_fingerprint(content, self.format))

    def read_small(self, splits: Sequence[Split], block_rows: int, context: ReadContext) -> Iterator[SmallFiles | None]:
        """Yield the rows of small text files, those of a folder together; see `asked.read_small`.

        What is wrong with a file is found when it is read alone.
        """
        store = self._folder(context)
        for _, of_folder in itertools.groupby(splits, key=lambda split: split.path.rpartition("/")[0]):
            found = list(of_folder)
            columns = self._columns(store, found[0], context)
            if self._text is None or context.metadata or columns.resolve(context.time_zone) is not None:
                yield from [None] * len(found)
                continue
            files = self._opener(columns, block_rows, context)
            loaded = [self._small(store, split, context) for split in found]
            yield from read_small_texts(loaded, files, columns)

    def _small(self, store: Store, split: Split, context: ReadContext) -> tuple[bytes, str | None] | None:
        """Return the bytes of a small file and its fingerprint, or None if it is not as planned."""
        early = context.read_before(split)
        try:
            content = self._loaded(store, split, early)
        except (ObjectMissing, TidemillError):
            return None
        assert content.data is not None
        return content.data, content_fingerprint(content, self.format) if early is None else early.fingerprint

    def read(self, split: Split, block_rows: int, context: ReadContext) -> Iterator[Block]:
        """Yield the rows of a split in blocks of `block_rows` rows, with their rejects; see `Source.read`.

        The columns are those of the schema, `_metadata` if the context asks for it, and `_row`. Raises `InvalidInput`
        if the file is missing or has changed since it was planned, and with FAILFAST for the first unreadable row.
        """
        store = self._folder(context)
        try:
            early = context.read_before(split)
            content = Content(store, split.path, split.size) if early is None else early.content
            is_small = split.size <= READ_ONCE_BYTES
            if is_small:
                content.load()  # what changes after the check does not matter
            self._check_unchanged(store, split, content.entry)
            whole = None
            if _is_first(split):
                whole = content_fingerprint(content, self.format) if early is None else early.fingerprint
            has_blocks = False
            for block in self._blocks(store, split, content, block_rows, context):
                yield block if block.number else dataclasses.replace(block, fingerprint=whole)
                has_blocks = True
            if not has_blocks and whole is not None:
                yield Block(0, empty_batch(self._columns(store, split, context).schema), fingerprint=whole)
        except ObjectMissing as error:
            raise _missing_file(split, store) from error
        is_ahead = (split.source, split.path) in context.being_read  # perhaps read after the file was checked
        if is_ahead or not (content.at_once or is_small):
            self._check_unchanged(store, split, None)

    def read_ahead(
        self, splits: Sequence[Split], block_rows: int, context: ReadContext, most_bytes: int
    ) -> list[TextAhead]:
        """Begin to read plain text files of a local folder in a thread; see `ReadsAhead.read_ahead`.

        They are the first ones that have the same columns in the file, which folders decide.
        """
        store, chosen, files = self._folder(context), [], None
        for split in splits if self._text is not None else ():
            path, columns = store.local_path(split.path), self._columns(store, split, context)
            if path is None or columns.resolve(context.time_zone) is not None:
                break
            opens = self._opener(columns, block_rows, context)
            files = files or opens
            if opens is not files:
                break
            chosen.append((split, path))
        if files is None:
            return []
        begun = files.read_ahead([(path, split.size) for split, path in chosen], most_bytes)
        return [TextAhead(split, files, one) for (split, _), one in zip(chosen, begun, strict=True)]

    def read_early_together(self, splits: Sequence[Split], context: ReadContext) -> EarlyFiles:
        """Fetch small files of a remote store, several at once. Those that are not as planned are left out."""
        store, options = self._folder(context), context.storage_options
        if store.requests_at_once == 1:
            return context.early
        waiting = [split for split in splits if context.read_before(split) is None]
        read = side_by_side(store, [functools.partial(self.read_early, split, options) for split in waiting])
        found = zip(waiting, read, strict=True)
        return {**context.early, **{(split.source, split.path): one for split, one in found if one is not None}}

    def _folder(self, context: ReadContext) -> Store:
        if self.path not in context.folders:
            context.folders[self.path], _ = open_folder(self.path, context.storage_options)
        return context.folders[self.path]

    def _loaded(self, store: Store, split: Split, early: Early | None) -> Content:
        content = Content(store, split.path, split.size) if early is None else early.content
        content.load()
        self._check_unchanged(store, split, content.entry)
        return content

    def _folders(self, path: str) -> list[tuple[str, str | None]]:
        return partition_values(path) if not self.recursiveFileLookup else []

    def _columns(self, store: Store, split: Split, context: ReadContext) -> FileColumns:
        folders = self._folders(split.path)
        asked = context.columns if self.format == "parquet" else None
        if not folders and not context.metadata:
            return columns_of_files(self._schema, asked)
        return FileColumns(self._schema, folders, metadata_of(store, split) if context.metadata else None, asked)

    def parse(
        self, path: str, texts: Sequence[str], time_zone: str, header: str | None = None
    ) -> pa.Table | list[Misfit]:
        """Return a row for each text, which is a record of the file `path` without its line end."""
        columns = FileColumns(self._schema, self._folders(path), None, None)
        reason = columns.resolve(time_zone)
        if reason is not None or self._text is None:
            return [Misfit(place, reason or "Parquet has no text") for place in range(len(texts))]
        made = parse_texts(texts, header, columns.in_file, self._text, self._record_bytes, time_zone)
        return made if isinstance(made, list) else pa.Table.from_batches([columns.finish(made)]).drop_columns([ROW])

    def _blocks(
        self, store: Store, split: Split, content: Content, block_rows: int, context: ReadContext
    ) -> Iterator[Block]:
        columns = self._columns(store, split, context)
        misfit = columns.resolve(context.time_zone)
        decode = functools.partial(self._decoded, split, content, columns, misfit, block_rows, context)
        kept = None
        if self._bad_files == "quarantine":
            try:
                if split.row_groups is not None:
                    # Planned while bad files failed the batch: other tasks read the rest of the file.
                    for _ in self._decoded(_whole(split), content, columns, misfit, block_rows, context):
                        pass
                kept = decoded_fully(decode())
            except Unreadable as error:
                if _is_first(split):
                    yield bad_file(error, split, columns, self._count(content, context))
                return
        try:
            yield from decode() if kept is None else kept
        except Unreadable as error:
            raise (refused if self._bad_files == "fail" else damaged_meanwhile)(error, split) from error

    def _decoded(
        self,
        split: Split,
        content: Content,
        columns: FileColumns,
        misfit: str | None,
        block_rows: int,
        context: ReadContext,
    ) -> Iterator[Block]:
        """Yield the blocks of a split. Raises `Unreadable` if its file is not of its format, whatever the mode."""
        if self._text is not None:
            return self._text_blocks(split, content, columns, misfit, block_rows, context)
        reading = Reading(split.source, split.path, columns.schema, columns.finish)
        return blocks(self._parquet(split, content, columns, misfit, context.time_zone), block_rows, reading)

    def _count(self, content: Content, context: ReadContext) -> int | None:
        """Return how many rows a bad file has, or None if it does not say."""
        with content.reading():
            if self._text is None:
                return footer_rows(content.ranges)
            limits = TextLimits(_COUNTED_ROWS, BLOCK_BYTES, self._record_bytes)
            return count_rows(content.source, self._text, limits, context.time_zone)

    def _text_blocks(
        self,
        split: Split,
        content: Content,
        columns: FileColumns,
        misfit: str | None,
        block_rows: int,
        context: ReadContext,
    ) -> Iterator[Block]:
        assert self._text is not None
        if misfit is not None:
            raise Unreadable(misfit)
        files = self._opener(columns, block_rows, context)
        try:
            with content.reading():
                ahead = context.being_read.get((split.source, split.path))
                reader = ahead.reader(split, files) if isinstance(ahead, TextAhead) else None
                given = content.source if reader is None else reader
                yield from read_blocks(given, files, columns, split.source, split.path, self.mode)
        except _native.Unreadable as error:
            raise Unreadable(*error.args) from error

    def _opener(self, columns: FileColumns, block_rows: int, context: ReadContext) -> _native.TextFiles:
        """Return what opens the text files that have these columns."""
        limits = TextLimits(block_rows, BLOCK_BYTES, self._record_bytes)
        return opener(columns.in_file, self._text_beside(columns), limits, context.time_zone)

    def _text_beside(self, columns: FileColumns) -> TextFormat:
        assert self._text is not None
        return self._text.beside(columns.elsewhere) if isinstance(self._text, CsvFormat) else self._text

    def _parquet(
        self, split: Split, content: Content, columns: FileColumns, misfit: str | None, time_zone: str
    ) -> Iterator[pa.Table]:
        if misfit is not None:
            raise Unreadable(misfit)
        by_name = dataclasses.replace(self._by_name, elsewhere=columns.elsewhere)
        wanted = ParquetColumns(columns.in_file, columns.asked, by_name, time_zone)
        with content.reading():
            yield from read_parquet(content.ranges, wanted, split)

    def _entries(self, store: Store, only: str | None, name: str) -> list[ListedObject]:
        entries = entries_of(store, only, self.intake.selection.enters)
        if entries is not None:
            return entries
        hint = None
        if any(character in self.path for character in "*?[{"):
            hint = "give the folder as the path, and choose its files with pathGlobFilter"
        elif relative_folder(self.path) is not None:
            hint = f"relative paths resolve against the working directory of the process, which is {os.getcwd()}"
        missing = "no such folder" if store.local_path("x") is not None else "no object has this prefix"
        raise InvalidInput(f"list source `{name}` at `{self.path}`: {missing}", hint=hint)

    def _check_unchanged(self, store: Store, split: Split, read: ListedObject | None) -> None:
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


def _one_path(path: Any) -> str:
    if isinstance(path, str | os.PathLike):
        check_no_secrets(os.fspath(path), "the path of tm.Files")
        return os.fspath(path)
    raise InvalidInput(
        f"tm.Files reads one folder or file, found {path!r}",
        hint="give the folder above and choose files with pathGlobFilter, or read each folder as a source of its own "
        "and combine them: p.read(one, name=…).unionByName(p.read(two, name=…))",
    )


@functools.cache
def _defaults() -> dict[str, Any]:
    """Return every option and its default."""
    parameters = inspect.signature(Files.__init__).parameters
    return {name: one.default for name, one in parameters.items() if name not in ("self", "path", "format", "schema")}


def _whole(split: Split) -> Split:
    return dataclasses.replace(split, row_groups=None, first_row=0)


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
    """Return ranges of row groups; none if the file is gone or is not valid Parquet."""
    try:
        content = Content(store, file.path, file.size)
        with content.reading():
            return row_group_ranges(content.ranges, file.size, split_bytes)
    except ObjectMissing:
        return []


def _missing_file(split: Split, store: Store) -> InvalidInput:
    return InvalidInput(
        f"read file `{split.path}` of source `{split.source}`: the file is missing from `{store.uri}`",
        hint=f"restore the file, or {ABANDON_PLAN}",
    )
