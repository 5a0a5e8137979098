"""`state`, `outputs`, `quarantine`: committed data as Arrow tables.

INVARIANT: reading writes nothing, not even a probe of the store, so it works with read-only credentials.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any

import pyarrow as pa

from .. import names
from ..clock import now_ms
from ..errors import CorruptState, InvalidInput
from ..names import SEQ
from ..operators.keys import cells
from ..protocol.history import effective, is_effective
from ..protocol.named import output_files
from ..protocol.records import HASH_END, Commit, OutputFile
from ..protocol.refs import MAIN
from ..protocol.retained import is_kept, seen_floor
from ..quarantine.rejects import quarantined
from ..quarantine.rows import REJECT_SCHEMA
from ..repo.identity import warn_if_moved
from ..repo.opened import Opened
from ..repo.versions import VersionSpec, commit_at, kept_commit, unless_given_up
from ..schema import cell_array, empty_table, int64_scalar, to_arrow
from ..sinks.forms import unstaged, with_added
from ..sources import connections
from ..spelling import unknown
from ..state.point import rows_of_keys
from ..state.table import live_rows
from ..state.versions import fetch
from ..store import Store
from ..units import check_unit, iso, time_ms
from .finished import finished
from .first_read import FirstRead
from .located import Located, located


def resolve_version(
    repo: Opened, version: VersionSpec | None, as_of: Any = None, operator: str | None = None
) -> tuple[Opened, Commit | None]:
    """Return the commit of `version`, of the newest version at the time `as_of`, or of the newest. None: version -1.

    The branch is that of the version's branch. With `operator`, only the state of that operator must be kept.
    """
    warn_if_moved(repo)
    if version is not None and as_of is not None:
        raise InvalidInput("found both version and as_of, expected at most one of them")
    if as_of is not None:
        return repo, kept_commit(repo, version_as_of(repo, as_of), operator=operator)
    return (repo, repo.head()) if version is None else commit_at(repo, version, operator=operator)


@contextlib.contextmanager
def kept(repo: Opened, commit: Commit | None, operator: str | None = None) -> Iterator[None]:
    """Turn the error for a missing object into `InvalidInput` if its version was given up while we read it."""
    try:
        yield
    except CorruptState:
        if commit is not None:
            repo.refresh()
            kept_commit(repo, commit.version, operator=operator)
        raise


def _before_the_first(repo: Opened, as_of: Any, what: str) -> InvalidInput:
    """Return the error for a time before the first version of the effective history."""
    as_of = as_of.isoformat() if isinstance(as_of, date) else as_of
    head = repo.head()
    if head is None:
        return InvalidInput(f"{what}={as_of!r}: there is no version yet; version -1 is what `init` made")
    number = next(effective(head), head.version)
    first = "the first version" if number == 0 else f"version {number}, the first one that counts"
    time = iso(repo.log.commit(number).batch_time_ms)
    return InvalidInput(f"{what}={as_of!r} is before {first}, whose batch time is {time}")


def version_as_of(repo: Opened, as_of: Any, what: str = "as_of") -> int:
    """Return the newest version at a time of any kind. `InvalidInput` for a time before version 0."""
    if isinstance(as_of, int):
        check_unit(as_of, what, now_ms())
    found = version_at(repo, time_ms(as_of, repo.job.time_zone))
    if found < 0:
        raise _before_the_first(repo, as_of, what)
    return found


def version_at(repo: Opened, at_ms: int) -> int:
    """Return the newest version of the effective history whose batch time is at or before `at_ms`, or -1.

    Batch times do not fall within an effective history, unless a `reset` set one back.
    """
    versions = list(effective(repo.head()))
    found = bisect.bisect_right(versions, at_ms, key=lambda version: repo.log.commit(version).batch_time_ms)
    return versions[found - 1] if found else -1


def state(
    repo: Opened,
    operator: str | None,
    version: VersionSpec | None,
    as_of: Any,
    keys: Iterable[Any] | None,
    where: str | None,
    columns: Sequence[str] | None,
    variable: str | None = None,
    partial: bool = False,
) -> pa.Table:
    """Return the state of an operator at a version: key columns, state columns, `updated_at`, `deadline`.

    The state columns of aggregates are their finished values, or with `partial` what the state keeps.
    """
    only = next(iter(repo.operators)) if len(repo.operators) == 1 else None

    def read() -> tuple[Located, pa.Table]:
        of, commit = resolve_version(repo, version, as_of, only if operator is None else operator)
        at = located(of, commit, version is None and as_of is None, operator, variable)
        with kept(of, commit, at.operator):
            return at, _state_rows(of, commit, at, keys)

    at, table = unless_given_up(repo, read)
    if not partial:
        table = finished(at.operator, at.recorded, table)
    if where is not None:
        table = _where(table, where)
    return table if columns is None else table.select([_column(table, name) for name in columns])


def _state_rows(repo: Opened, commit: Commit | None, at: Located, keys: Iterable[Any] | None) -> pa.Table:
    """Return the live rows of a map, or with `keys` only theirs, which reads no more than these need."""
    if keys is not None:
        wanted = key_batch(list(keys), at.columns.key)
        return rows_of_keys(repo.store, repo.cache, at.columns, at.segments, wanted)
    table = live_rows(repo.store, repo.cache, at.columns, at.segments, 0, HASH_END)
    _check_rows(commit, at.operator, at.map, table.num_rows)
    return table


def _check_rows(commit: Commit | None, operator: str, map_name: str, found: int) -> None:
    """Raise `CorruptState` if a whole map has not as many rows as its commit says."""
    if commit is None or operator not in commit.state:
        return
    expected = commit.rows.get(operator, {}).get(map_name)
    if expected is not None and found != expected:
        raise CorruptState(
            f"read the state of operator `{operator}` at version {commit.version}: found {found} rows, but the commit "
            f"records {expected}",
            hint="restore the commit and its segments from one backup",
        )


def _column(table: pa.Table, name: str) -> str:
    if name not in table.column_names:
        raise unknown("column of the state", name, table.column_names)
    return name


def key_batch(keys: Sequence[Any], key: pa.Schema, verb: str = "state") -> pa.RecordBatch:
    """Return keys as columns. A key is a scalar for one key column, and a tuple for several, or for none."""
    rows = [cells(value, key) for value in keys]
    for row in rows:
        if len(row) != len(key):
            raise InvalidInput(f"{verb}: expected keys of {len(key)} columns ({', '.join(key.names)}), found {row!r}")
    asked = [_column_of([row[place] for row in rows], field, verb) for place, field in enumerate(key)]
    if not asked:  # a batch of columns alone would have no rows
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.record_batch(asked, schema=key)


def _column_of(values: list[Any], field: pa.Field, verb: str) -> pa.Array:
    cells = [pa.nulls(0, field.type)]
    for value in values:  # each by itself, because some structs may be tuples and others dicts
        try:
            cells.append(cell_array(value, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(
                f"{verb}: expected {field.type} for the key column `{field.name}`, found {value!r}"
            ) from error
    return pa.concat_arrays(cells)


def _where(table: pa.Table, where: str) -> pa.Table:
    def filtered() -> pa.Table:
        return connections.for_user_sql().from_arrow(table).filter(where).to_arrow_table().cast(table.schema)

    try:
        return connections.guarded(filtered)
    except connections.Refused as error:
        raise InvalidInput(
            f"state: where={where!r} is not a valid condition over the columns of the state: {error}"
        ) from error


def outputs(repo: Opened, version: VersionSpec | None, sink: str | None, limit: int | None = None) -> pa.Table:
    """Return the rows committed for a sink, in canonical order, with `_batch_id` and `_seq`; of one version, or of all.

    With `limit`, only the first rows are returned, and no commit or file after them is read.
    """
    return unless_given_up(repo, lambda: _outputs(repo, version, sink, limit))


def _outputs(repo: Opened, version: VersionSpec | None, sink: str | None, limit: int | None) -> pa.Table:
    commits = commits_of(repo, version)
    name, schema = sink_schema(repo, sink)
    filled: list[pa.Table] = []
    for commit in commits if limit != 0 else ():
        table = _rows(repo, commit, name, limit)
        if table is not None:
            filled.append(table)
        if _has_rows(filled, limit):
            break
    if not filled:
        return empty_table(with_added(schema))
    try:
        return pa.concat_tables(filled, promote_options="default").slice(0, limit)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInput(
            f"read the outputs of `{name}`: versions have different schemas: {error}",
            hint="read one version at a time with outputs(version=…)",
        ) from error


def _has_rows(tables: Sequence[pa.Table], limit: int | None) -> bool:
    """Whether there are as many rows as were asked for."""
    return limit is not None and sum(table.num_rows for table in tables) >= limit


def commits_of(repo: Opened, version: VersionSpec | None) -> Iterator[Commit]:
    """Yield the commit of a version, or those of the effective history that are kept. Each is read when it is needed.

    Without a version, every commit is checked to follow the one before.
    """
    warn_if_moved(repo)
    if version is not None:
        repo, commit = commit_at(repo, version)
        return iter([repo.log.commit(-1) if commit is None else commit])
    head, since = repo.head(), seen_floor(repo.initialised(), repo.branch).version
    commits = repo.log.commits(since, repo.initialised().start if since <= 0 else None, head)
    return (commit for commit in commits if head is not None and is_effective(head, commit.version))


def sink_schema(repo: Opened, sink: str | None) -> tuple[str, pa.Schema]:
    """Return the name and schema of a sink.

    If the pipeline no longer has the sink, the schema is that of the newest commit with the sink.
    """
    ours = repo.sinks
    if repo.recorded is not None and repo.head() is None:
        raise InvalidInput(
            f"outputs: the repository `{repo.store.uri}` has no version yet, so it does not know the sinks",
            hint="run a batch first, or open the repository with the pipeline's code",
        )
    if sink is None:
        if len(ours) == 1:
            return next(iter(ours.items()))
        raise InvalidInput(
            f"the pipeline has {len(ours)} sinks, expected the name of one",
            hint=f"add sink=… or --sink: {', '.join(f'`{n}`' for n in sorted(ours))}",
        )
    if sink in ours:
        return sink, ours[sink]
    recorded = {name: sink["schema"] for commit in repo.log.commits() for name, sink in commit.sinks.items()}
    if sink not in recorded:
        raise unknown("sink", sink, sorted({*ours, *recorded}))
    return sink, to_arrow(recorded[sink])


def _rows(repo: Opened, commit: Commit, name: str, limit: int | None = None) -> pa.Table | None:
    """Return the rows of a sink in a version; with `limit`, at least so many of the first ones if there are."""
    tables = [_rows_of(repo.store, commit, name, files, limit) for files in output_files(commit, name)]
    return pa.concat_tables(tables) if tables else None


def _rows_of(store: Store, commit: Commit, name: str, files: list[OutputFile], limit: int | None) -> pa.Table:
    is_in_order = not any(file.suffix for file in files)  # files of partition folders share the places of a range
    if limit is not None and is_in_order:
        before = itertools.accumulate((file.rows for file in files), initial=0)
        files = [file for file, rows in zip(files, before, strict=False) if rows < max(limit, 1)]
    rows = decode_files(store, commit, name, files)
    return rows if is_in_order else rows.sort_by(SEQ)


def decode_files(store: Store, commit: Commit, name: str, files: Sequence[OutputFile]) -> pa.Table:
    """Return the rows of some files of a sink in a version, with `_batch_id` and `_seq`."""
    schema = with_added(to_arrow(commit.sinks[name]["schema"]))
    data = [(fetch(store, file.name, file.checksum), file.suffix) for file in files]
    return unstaged(data, schema, files[0].extension, files[0].name)


def sink_names(repo: Opened, commit: Commit | None) -> list[str]:
    """Return the sinks of the pipeline, and those of a version."""
    return list(dict.fromkeys([*repo.sinks, *(() if commit is None else commit.sinks)]))


def quarantine(repo: Opened, version: VersionSpec | None, limit: int | None = None) -> pa.Table:
    """Return quarantined rows in the columns of `REJECT_SCHEMA`, and the version that quarantined them.

    With `limit`, only commits of versions with quarantine files are read, up to the first rows. A lost quarantine file
    may then be passed over; without a limit every commit is read, so that a loss is found. On a branch, and after a
    promotion, every commit up to the first rows is read, because other branches have stored files of these versions.
    """
    return unless_given_up(repo, lambda: _quarantine(repo, version, limit))


def _quarantine(repo: Opened, version: VersionSpec | None, limit: int | None) -> pa.Table:
    tables = [_with_version(empty_table(REJECT_SCHEMA), -1)]
    head = repo.head()
    if head is None:
        return tables[0]
    is_partial = limit is not None and version is None and repo.branch == MAIN and not head.promotions
    is_partial = is_partial and repo.log.rewrites.at is None  # objects in the place of others have later names
    commits = _with_quarantine(repo) if is_partial else commits_of(repo, version)
    for commit in commits:
        for file in commit.quarantine:
            found = quarantined(repo.store, file).select(REJECT_SCHEMA.names)
            tables.append(_with_version(found, commit.version))
        if _has_rows(tables, limit):
            break
    return FirstRead(repo, head).shown(pa.concat_tables(tables).slice(0, limit))


def _with_quarantine(repo: Opened) -> Iterator[Commit]:
    """Yield the commits of versions for which quarantine files were stored, oldest first.

    A listing names the versions. Files of attempts that failed may be among them; the commit decides.
    """
    warn_if_moved(repo)
    head = repo.head()
    folder = names.quarantine_folder(repo.branch)
    numbers = {names.number_of_file(entry.name) for entry in repo.store.list(folder)}
    for number in sorted(number for number in numbers if number is not None):
        if head is not None and is_effective(head, number) and is_kept(repo.initialised(), repo.version_of(number)):
            yield repo.log.commit(number)


def _with_version(table: pa.Table, version: int) -> pa.Table:
    return table.append_column("version", pa.repeat(int64_scalar(version), table.num_rows))
