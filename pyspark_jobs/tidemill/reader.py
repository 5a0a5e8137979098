"""`Reader`, the object that `tm.read` returns: what a repository holds, read without the pipeline's code.

`Repository` has the same methods, and those that write or run code. INVARIANT: a method here only forwards to its verb,
writes nothing, and runs nothing that the repository stores.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .notebook import NotebookList
from .protocol.records import Commit
from .reading import read as reading
from .repo.opened import Opened
from .repo.recorded import as_recorded, open_recorded
from .units import time_ms

if TYPE_CHECKING:
    from .branches.branch import BranchInfo
    from .reading.diff import DiffReport
    from .reading.diff_outputs import OutputDiff
    from .reading.diff_state import StateDiff
    from .reading.history import KeyVersion
    from .reading.log import InputFile
    from .reading.status import Status
    from .reading.which import FileStanding
    from .repo.versions import Tagged
    from .report.data import Report


class Reader:
    """What a pipeline keeps under a root, to read. `tm.read` returns it, without the pipeline's code.

    All methods raise only the five kinds of `TidemillError`. Versions are the numbers of commits: 0, 1, 2 and so on.
    Version -1 is the state that `init` made, before the first batch. Each call sees what is committed by then. Nothing
    is written, so credentials that can only read suffice.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    @property
    def opened(self) -> Opened:
        """The branch, for verbs. Without code, it says what the newest version records."""
        return as_recorded(self._opened)

    def status(self) -> Status:
        """Return where the pipeline stands: head, watermarks, waiting files, ages, the open plan, the next deadline.

        A source or sink that cannot be reached is reported as `problem`. The call lists the sources and writes nothing.
        After `tm.read`, no source is listed, and `problem` says so.
        """
        from .reading.status import status

        return status(self.opened)

    @property
    def head(self) -> Commit | None:
        """The newest commit, or None before the first batch (version -1)."""
        return self.opened.head()

    def commits(self, since: int | str | None = None) -> list[Commit]:
        """Return the commits from version `since` to the newest, oldest first; default: all that are kept.

        `since` is a number or a tag. Commits that a rewind undid are among them. `InvalidInput` for a version that is
        not kept.
        """
        from .reading.log import commits_since, remarks_on

        found = commits_since(self.opened, since)
        return NotebookList(found, lambda: remarks_on(self.opened, found))

    def log(self, limit: int | None = None) -> list[Commit]:
        """Return the commits that are kept, newest first; with `limit`, only so many.

        Each has its `kind`, and a correction its `reason`. `replaced` of the newest has the ranges of versions that
        rewinds undid.
        """
        from .reading.log import log, remarks_on

        found = log(self.opened, limit)
        return NotebookList(found, lambda: remarks_on(self.opened, found))

    def input_files(self, version: int | str) -> list[InputFile]:
        """Return the files that a version read, in the order of its plan, with `source`, `path` and `size`.

        `version`: a number or a tag, or `"fix@12"`. Rows that were given back have no path; `requeued` is the version
        that had quarantined them. Nothing for versions that read no input. `InvalidInput` for an unknown version.
        """
        from .reading.log import input_files
        from .repo.versions import opened_at

        opened = self.opened
        opened.initialised()
        opened, number = opened_at(opened, version)
        return NotebookList(input_files(opened, opened.log.commit(number)))

    def commit(self, version: int | str) -> Commit:
        """Return the commit that made `version`, a number or a tag, or of another branch as `"fix@12"`.

        `InvalidInput` for any other number names the versions that exist. The record of a version outlives its state.
        """
        from .repo.versions import opened_at

        opened = self.opened
        opened.initialised()
        opened, number = opened_at(opened, version)
        return opened.log.commit(number)

    def version_at(self, time: Any) -> int:
        """Return the newest version whose batch time is at or before `time`, or -1 if all are later.

        `time` is ms since the epoch, a datetime or ISO text. Without a UTC offset it is in the pipeline's time zone.
        `tm.read` does not know that zone, and takes UTC.
        """
        opened = self.opened
        return reading.version_at(opened, time_ms(time, opened.job.time_zone))

    def state(
        self,
        operator: str | None = None,
        version: int | str | None = None,
        as_of: Any = None,
        keys: Iterable[Any] | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        variable: str | None = None,
        partial: bool = False,
    ) -> pa.Table:
        """Return the state of an operator as a table: key and state columns, `updated_at` and `deadline`.

        The state columns of `.agg` are its output columns, with the values that it would emit now. With `partial` they
        are what the state keeps, for example sum and count of a mean.

        `operator`: may be omitted if the pipeline has only one. `version`: a number or a tag, or `"fix@12"` for a
        version of branch `fix`, and `"fix"` for its newest one; default is the newest. `as_of`: the newest version
        whose batch time is at or before this time, without those that a rewind undid, in the forms that `version_at`
        takes; give `version` or `as_of`, not both. `keys`: return only these keys, which are scalars, or tuples if the
        key has several columns; nothing else is read. `where`: a DuckDB condition over the columns; times in it are in
        UTC, like those of the table, whatever the pipeline's time zone is. `columns`: the columns to return, in this
        order. `variable`: for a processor with several state variables, the one to return; default is the first, and
        `timers` are the processor's timers.

        If two columns have the same name, the later one is called `key.…`, `sub_key.…` or `value.…`. The call writes
        nothing. An unknown operator, variable or column is `InvalidInput` that names the nearest known one. So is a
        time before the first version.
        """
        return reading.state(self.opened, operator, version, as_of, keys, where, columns, variable, partial)

    def outputs(self, version: int | str | None = None, sink: str | None = None, limit: int | None = None) -> pa.Table:
        """Return the rows that were committed for a sink, in canonical order, with `_batch_id` and `_seq`.

        `version`: rows of this version only, by its number or a tag, or of another branch as `"fix@12"`; default: of
        all versions that are kept, without those that a rewind undid. `sink`: may be omitted if the pipeline has only
        one. An operator whose output nothing consumes keeps it here under the operator's name. `limit`: return only the
        first rows, and read nothing after them.
        """
        return reading.outputs(self.opened, version, sink, limit)

    def quarantine(
        self,
        version: int | str | None = None,
        limit: int | None = None,
        *,
        source: str | None = None,
        export: bool = False,
    ) -> pa.Table:
        """Return quarantined rows: source, file, line, row, column, reason, text, kind (`unreadable`, `failed`, `late`,
        `ahead`, or `forgotten`, of which nothing else is left), the operators that did not take the row, the version
        that quarantined it, and in `requeued` the version that gave it back, if one did.

        `version`: rows of this version only, by its number or a tag, or of another branch as `"fix@12"`; default: of
        all versions that are kept, without those that a rewind undid. `source`: only those of this source. `limit`:
        return only the first rows. `export`: return what `requeue` takes: `_version` and `_row_id`, which name a row,
        what is known of it in columns that begin with `_`, and the columns of its source, which are null if the row is
        unreadable. These columns are in the pipeline's code, so after `tm.read` it is `InvalidInput`.
        """
        from .returning.shown import quarantine_to_show

        return quarantine_to_show(self.opened, version, limit, source, export)

    def diff(
        self,
        a: int | str,
        b: int | str,
        operator: str | None = None,
        sink: str | None = None,
        limit: int | None = None,
        tolerance: float | None = None,
        *,
        variable: str | None = None,
        partial: bool = False,
        ids: bool = False,
    ) -> DiffReport | StateDiff | OutputDiff:
        """Compare two versions, of one branch or of two, and return what is different in `b`.

        `a`, `b`: numbers or tags of this branch, `"fix@12"` for a version of another branch, or `"fix"` for its newest.
        What both versions share is not read, so the call costs what differs.

        `operator`: compare its state. The result has the numbers of keys `added`, `removed` and `changed`, and `table`:
        the key columns, `before` and `after`, which are structs of the state's columns, or null for a key without
        state. `updated_at` is not compared. Keys whose values are equal and whose deadlines differ are only counted, as
        `deadlines`. `variable`, `partial`: as in `state`.

        `sink`: compare the rows that were committed for it up to each version, as bags: a row counts as often as it
        occurs. The result has `added`, `removed`, `added_rows` and `removed_rows`. `ids`: compare `_batch_id` and
        `_seq`, too.

        Without either, all operators and sinks are compared; the result has `operators` and `sinks` by name, and
        `problems`, which says of some why they cannot be compared.

        `limit`: tables have only the first rows; the numbers count all. `tolerance`: floats differ if they are further
        apart than this. Otherwise they are compared by their bits: NaN equals NaN, and −0.0 differs from 0.0. Rows of a
        sink that differ only in floats are then paired in the order of their floats.

        Columns that only one version has, or with a type that does not widen to the other, are not compared;
        `not_compared` names them. `InvalidInput` for an unknown version, operator or sink, a version that is not kept,
        or key columns that differ.

        >>> import tempfile, pathlib
        >>> import tidemill as tm
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "1.csv").write_text("hello\\nworld\\n")
        >>> _ = (folder / "2.csv").write_text("hello\\nagain\\n")
        >>> p = tm.Pipeline("words")
        >>> words = p.read(tm.Files(str(folder), format="csv", schema="word string", maxFilesPerTrigger=1))
        >>> _ = words.groupBy("word").agg(n=tm.count(), name="count")
        >>> r = tm.open(p, root="memory://docs-diff")
        >>> _ = r.init()
        >>> _ = r.run(engine="local")
        >>> found = r.diff(0, 1, operator="count")
        >>> found.added, found.removed, found.changed
        (1, 0, 1)
        >>> found.table.to_pylist()  # doctest: +NORMALIZE_WHITESPACE
        [{'word': 'again', 'before': None, 'after': {'n': 1}},
         {'word': 'hello', 'before': {'n': 1}, 'after': {'n': 2}}]
        """
        from .reading.diff import DiffRequest, diff

        return diff(self.opened, a, b, DiffRequest(operator, sink, limit, tolerance, variable, partial, ids))

    def changes(
        self,
        operator: str,
        from_version: int | str,
        to_version: int | str,
        each: bool = False,
        keys: Iterable[Any] | None = None,
        *,
        variable: str | None = None,
        partial: bool = False,
    ) -> pa.Table:
        """Return the keys whose state changed after `from_version` up to `to_version`, with both values.

        The table is that of `diff`: key columns, `before`, `after`. It is net: a key that changed and changed back is
        not in it. With `each`, it has a row for each version that changed a key, and the columns `version` and `branch`
        first. Versions that a rewind undid are left out, and those of a promoted branch stand in the place of its
        promotion, until it is dropped. `keys`: only these, which are scalars, or tuples if the key has several columns.
        `variable`, `partial`: as in `state`.

        `InvalidInput` for an unknown operator or version, or with `each` if the first version is not in the effective
        history of the second one.
        """
        from .reading.diff import ChangesRequest, changes

        asked = ChangesRequest(operator, from_version, to_version, each, keys, variable, partial)
        return changes(self.opened, asked)

    def history(
        self, operator: str, key: Any, *, variable: str | None = None, partial: bool = False
    ) -> list[KeyVersion]:
        """Return the versions in which the state of a key changed, oldest first, and what caused each of them.

        `key` is a scalar, or a tuple if the key has several columns. Each version has `version`, `batch_time_ms`,
        `value` (None: the state was removed), `kind`, `reason`, `code` and `airflow`, and what is read when it is first
        used: `files`, the input files; `rows`, those of the key in them, as the operator gets them; `fired`, the
        deadlines that ended. The rows are read again from the files of the version's plan. `unread` says which of them
        are gone, changed, or cannot be read by this code. After `tm.read`, `rows` is empty, and `fired` has only the
        deadlines that are known to have fired from the commit alone; `unread` says what is missing.

        Versions that a rewind undid are left out. Those of a promoted branch stand in the place of its promotion, until
        it is dropped; they have its name as `branch`, and `label` is `fix@12`. If old versions were given up, the first
        entry has `is_oldest`, and its value may be older. `variable`, `partial`: as in `state`. The cost follows the
        number of changes, not that of the versions. `InvalidInput` for an unknown operator, or a key that does not fit.

        >>> import tempfile, pathlib
        >>> import tidemill as tm
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> for day, word in enumerate(["hello", "world", "hello"]):
        ...     _ = (folder / f"{day}.csv").write_text(word)
        >>> p = tm.Pipeline("words")
        >>> words = p.read(tm.Files(str(folder), format="csv", schema="word string", maxFilesPerTrigger=1))
        >>> _ = words.groupBy("word").agg(n=tm.count(), name="count")
        >>> r = tm.open(p, root="memory://docs-history")
        >>> _ = r.init()
        >>> _ = r.run(engine="local")
        >>> [(one.version, one.value, one.files, one.rows) for one in r.history("count", "hello")]
        [(0, {'n': 1}, ['0.csv'], [{'word': 'hello'}]), (2, {'n': 2}, ['2.csv'], [{'word': 'hello'}])]
        """
        from .reading.history import history

        return NotebookList(history(self.opened, operator, key, variable, partial))

    def explain(self, operator: str | None = None, key: Any = ...) -> None:
        """Print how the state of a key came about: `history` for people. Without a key, print the pipeline's graph.

        With `operator` and no key, the graph has only what feeds the operator. The graph needs the pipeline's code, so
        after `tm.read` it is `InvalidInput`.

        >>> import tidemill as tm
        >>> p = tm.Pipeline("words")
        >>> _ = p.read(tm.Rows("word string")).groupBy("word").agg(n=tm.count(), name="count")
        >>> tm.open(p, root="memory://docs-explain").explain()
        pipeline `words`, time zone UTC
        source `source`: Rows('word string')
          operator `count`: aggregate by word
            sink `count`: kept in the repository
        """
        from .reading.explain import explain

        for line in explain(self.opened, operator, None if key is ... else key, key is not ...):
            print(line)  # noqa: T201

    def which(self, file: str | os.PathLike[str] | tuple[str, str]) -> list[FileStanding]:
        """Return what the pipeline did with a file: which version read it, or whether it waits.

        `file`: its path below the folder of its source, its whole path or URI, or a pair of source and path. The result
        has an entry for each source that has the file, or has read it, with `source`, `path`, `standing`, `version`,
        `batch_time`, `reason`, `now` and `quarantined_rows`. `standing` is one of `read`, `quarantined`, `skipped`,
        `earlier`, `planned`, `waiting` and `not selected`.

        The newest version decides, so a file that a rewind gave back waits. No folder is listed. `InvalidInput` for an
        unknown source, and if no source has the file and none has read it.

        >>> import tempfile, pathlib
        >>> import tidemill as tm
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "1.csv").write_text("hello")
        >>> p = tm.Pipeline("words")
        >>> words = p.read(tm.Files(str(folder), format="csv", schema="word string"))
        >>> _ = words.groupBy("word").agg(n=tm.count(), name="count")
        >>> r = tm.open(p, root="memory://docs-which")
        >>> _ = r.init()
        >>> _ = r.run(engine="local")
        >>> _ = (folder / "2.csv").write_text("world")
        >>> [(one.standing, one.version) for name in ("1.csv", "2.csv") for one in r.which(name)]
        [('read', '0'), ('waiting', None)]
        """
        from .reading.which import which

        return NotebookList(which(self.opened, file))

    def branches(self) -> list[BranchInfo]:
        """Return all branches with `name`, `id`, `fork_branch`, `fork_version`, `head` and `publish_to`; `main` first.

        Dropped ones are not among them.
        """
        from .branches.branch import branches

        return NotebookList(branches(self.opened))

    def tags(self) -> list[Tagged]:
        """Return all tags, sorted by name."""
        from .repo.versions import tags

        return NotebookList(tags(self.opened))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._opened.store.uri!r}, branch={self._opened.branch!r})"

    def report(
        self,
        commits: int = 500,
        diff: tuple[int | str, int | str] | bool | None = None,
        keys: Sequence[tuple[str | None, Any]] = (),
    ) -> Report:
        """Return what the page of `tidemill report` shows, as a dataclass of plain values; `as_dict()` is JSON.

        It has the head, watermarks and their lag, the state of each operator, branches and tags, the newest `commits`
        with their counts and durations, a few late and quarantined rows, and `problems`, which says what could not be
        read. Sources are not listed, so `outstanding_files` is what the newest commit knows.

        `diff`: two versions to compare, as in `diff`. By default they are the open branch, or else the newest one, and
        the branch from which it starts; False for no diff. `keys`: pairs of operator and key, whose state and history
        are looked up; the operator may be None if there is only one.

        `tidemill.report.page.page(report)` returns the HTML. The call writes nothing. `InvalidInput` for an unknown
        version or operator, or a key that does not fit.

        >>> import tidemill as tm
        >>> p = tm.Pipeline("reported")
        >>> _ = p.read(tm.Rows("word string")).groupBy("word").agg(n=tm.count(), name="count")
        >>> t = tm.testing.Tester(p)
        >>> _ = t.batch([("hello",), ("world",), ("hello",)])
        >>> found = t.repository.report(keys=[("count", "hello")])
        >>> found.head.rows, found.operators[0].rows, found.look_ups[0].state[0]["n"]
        (3, 2, 2)
        """
        from .report.collect import ReportRequest, collect_report

        return collect_report(self.opened, ReportRequest(commits, diff, keys))


def read(
    root: str | None = None,
    pipeline: str = "",
    branch: str = "main",
    conf: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Reader:
    """Open the repository of the pipeline named `pipeline` under `root` to read it, without the pipeline's code.

    The repository records operators, columns and sinks, so all kinds of state can be read, with the finished values of
    `.agg`. Only the code has the pipeline's graph and time zone, and the means to read input rows and list waiting
    files. Use `tm.open` for these, and for everything that writes.

    `root`: `s3://bucket/prefix`, `file:///dir` or a folder: the place above the repository. Default: the environment
    variable `TIDEMILL_ROOT`, with the name as `pipeline=`. `branch`, `conf`, `storage_options`: as in `tm.open`. The
    call writes nothing. `InvalidInput` if there is no such repository, or no root or name.

    >>> import tempfile, pathlib
    >>> import tidemill as tm
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "1.csv").write_text("ann,3\\nann,4\\n")
    >>> p = tm.Pipeline("scores")
    >>> scores = p.read(tm.Files(str(folder), format="csv", schema="user string, points int"))
    >>> _ = scores.groupBy("user").agg(mean=tm.mean("points"), name="averages")
    >>> r = tm.open(p, root="memory://docs-read")
    >>> _ = r.init()
    >>> _ = r.run(engine="local")
    >>> tm.read("memory://docs-read", "scores").state("averages", columns=["user", "mean"]).to_pylist()
    [{'user': 'ann', 'mean': 3.5}]
    """
    return Reader(open_recorded(root, pipeline, branch, conf, storage_options))
