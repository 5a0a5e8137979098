"""`history`: the versions in which the state of one key changed, with what caused each of them. Read only.

Most versions are passed over: the newest segment with the key says when the key was last written, and between that
version and this one it did not change. The versions of a promoted branch stand in the place of its promotion, which
changes nothing that they did not. INVARIANT: only versions of the effective history count, and each is compared with
the version before it there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from typing import Any

import pyarrow as pa

from .. import _native
from ..errors import InvalidInput
from ..notebook import NotebookResult
from ..operators.transform_with_state import TIMERS
from ..protocol.compatible import first_name
from ..protocol.differing import ContentId, contents_at
from ..protocol.history import is_effective
from ..protocol.records import Commit, Plan
from ..protocol.retained import seen_floor
from ..repo.code import DEFINITIONS
from ..repo.identity import warn_if_moved
from ..repo.open import on_branch_of
from ..repo.opened import Opened
from ..repo.versions import branch_name
from ..schema import differs, field_changes, one_array
from ..schema.kernels import pc
from ..sinks.json_text import python_rows
from ..state.point import last_write, rows_of_keys
from ..state.seeds import UPDATED_MS
from ..units import iso
from ..values import dataclass
from .causes import Fired, KeyInput, files_in_words, files_of, fired_as_recorded, key_input
from .finished import finished, key_columns
from .located import Located, located, operator_in, same_operator, schemas_at
from .read import key_batch

_TIMES = ("updated_at", "deadline")
_INITIAL = "init"
"""The kind of version -1."""


@dataclass(frozen=True)
class KeyVersion(NotebookResult):
    """A version in which the state of a key changed. `value` is the new state, or None if it was removed.

    The value is a scalar for an unnamed state, a dict for named columns, and a list of dicts if a key has several rows,
    such as windows or the elements of a list. Times outside of the years 1 to 9999 are ISO text. `kind` is that of the
    commit, `init` for initial state. `code` says which functions ran, `airflow` in which Airflow task.

    `files`, `rows` and `fired` are read when they are first used. `is_oldest`: older versions are no longer kept, so
    the value may be older than this version. `branch`: the promoted branch to which the version belongs, or None.
    """

    version: int
    batch_time_ms: int | None
    value: Any
    kind: str
    code: dict[str, Any]
    airflow: dict[str, str]
    reason: str | None = None
    is_oldest: bool = False
    branch: str | None = None
    _cause: _Cause | None = field(default=None, repr=False, compare=False)

    def in_notebook(self) -> dict[str, Any]:
        """Return the version and the value; no input is read again."""
        time = None if self.batch_time_ms is None else iso(self.batch_time_ms)
        return {
            "version": self.label, "kind": self.kind, "batch time": time, "value": self.value, "files": self.files,
            "reason": self.reason,
        }  # fmt: skip

    @property
    def label(self) -> str:
        """The version as users write it: `12`, or `fix@12` for one of a promoted branch."""
        return str(self.version) if self.branch is None else f"{self.branch}@{self.version}"

    @property
    def files(self) -> list[str]:
        """The input files of the version, by their paths in their sources' folders."""
        return [] if self._cause is None else files_of(self._cause.plan)

    @property
    def files_in_words(self) -> list[str]:
        """The same for people: if the pipeline has several sources, each file has the name of its source, too."""
        return [] if self._cause is None else files_in_words(self._cause.plan, self._cause.repo.sources)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the key in those files, late ones too, with the columns that the operator gets."""
        return [] if self._cause is None else self._cause.input.rows

    @property
    def unread(self) -> list[str]:
        """Why rows are missing in `rows`, such as files that are gone or changed; without code, also in `fired`."""
        return [] if self._cause is None else [*self._cause.input.unread, *self._cause.fired.unknown]

    @property
    def fired(self) -> list[int]:
        """The deadlines of the key, in ms, that were due in this version and that the key has no longer."""
        return [] if self._cause is None else self._cause.fired.due

    def as_dict(self, with_rows: bool = True) -> dict[str, Any]:
        """Return everything as plain values. Without `with_rows`, no input file is read again."""
        caused = {"fired": self.fired, "rows": self.rows, "unread": self.unread} if with_rows else {}
        return {
            "version": self.version, "branch": self.branch, "kind": self.kind,
            "batch_time_ms": self.batch_time_ms, "value": self.value,
            "files": self.files, **caused, "code": self.code, "airflow": self.airflow, "reason": self.reason,
            "is_oldest": self.is_oldest,
        }  # fmt: skip


@dataclass(frozen=True)
class _Cause:
    """The plan and the input of one version, read on demand."""

    repo: Opened
    commit: Commit
    at: Located
    key: pa.RecordBatch
    ended: tuple[int, ...]
    """Deadlines of the key before this version that it does not have after it."""

    @cached_property
    def plan(self) -> Plan | None:
        return self.repo.log.plan_of(self.commit)

    @cached_property
    def input(self) -> KeyInput:
        return key_input(self.repo, self.plan, self.at.operator, self.key)

    @cached_property
    def fired(self) -> Fired:
        if self.plan is None:
            return Fired([])
        if self.repo.recorded is not None:
            return fired_as_recorded(self.commit, self.at.recorded, sorted(self.ended), bool(self.plan.splits))
        placed = self.repo.job.operators.get(self.at.operator)
        clock = None if placed is None else placed.operator.clock
        if placed is None or clock is None:
            return Fired([])
        now = self.commit.batch_time_ms if clock == "batch" else placed.least(self.commit.watermarks)
        due = sorted(one for one in self.ended if now is not None and one <= now)
        return Fired([] if due and clock == "batch" and self.input.rows else due)


@dataclass(frozen=True)
class _Sight:
    """What a key sees in one version."""

    reader: _Reader
    commit: Commit | None
    at: Located
    contents: frozenset[ContentId]

    @property
    def version(self) -> int:
        return -1 if self.commit is None else self.commit.version

    @cached_property
    def raw(self) -> pa.Table:
        """The rows of the key."""
        return self.reader.rows(self.at)

    @cached_property
    def shown(self) -> pa.Table:
        """The rows as `state` shows them, without the key."""
        return self.reader.shown(self.at, self.raw)


def history(
    repo: Opened, operator: str, key: Any, variable: str | None = None, partial: bool = False
) -> list[KeyVersion]:
    """Return the versions in which the state of a key changed, oldest first."""
    warn_if_moved(repo)
    head = repo.head()
    name = operator_in(operator, schemas_at(repo, head, True, operator))
    reader: _Reader | None = _Reader(repo, head, name, key, variable, partial)
    found: list[KeyVersion] = []
    while reader is not None:
        found += [reader.described(now, before) for now, before in _changes(reader)]
        reader = reader.promoted()
    return found[::-1]


def _changes(reader: _Reader) -> Iterator[tuple[_Sight, _Sight | None]]:
    """Yield the versions in which the key changed, newest first, each with the one before it."""
    now = reader.sight(reader.newest)
    while now is not None:
        target = reader.last_write(now)
        far = reader.sight(target) if target < now.version else None
        if far is not None and _is_same_state(now, far):
            now = far
            continue
        before = None if now.version <= reader.oldest else reader.sight(reader.effective(now.version - 1))
        if before is None:
            if now.raw.num_rows and reader.promotion is None:
                yield now, None
            return
        if not _is_same_state(now, before) and not _is_same(now.shown, before.shown):
            yield now, before
        now = before


def _is_same_state(one: _Sight, other: _Sight) -> bool:
    return one.contents == other.contents or _is_same(one.raw, other.raw)


class _Reader:
    """Reads one key in the versions up to `head`. If one of them is a promotion, the reader begins with the newest one.

    `opened` is the branch that the user has open. `is_tip`: `head` is its newest version.
    """

    def __init__(
        self,
        repo: Opened,
        head: Commit | None,
        operator: str,
        key: Any,
        variable: str | None,
        partial: bool,
        opened: Opened | None = None,
    ) -> None:
        self.repo, self.head, self.operator, self.variable, self.partial = repo, head, operator, variable, partial
        self.given, self.opened, self.is_tip = key, opened or repo, opened is None
        self.first = located(repo, head, self.is_tip, operator, variable)
        self.key = key_batch([key], self.first.columns.key, "history")
        self.commits: dict[int, Commit] = {}
        self.hash: int = _native.key_hashes(self.key)[0].as_py()
        kept = seen_floor(repo.initialised(), repo.branch)
        lowest = kept.of(first_name(operator, () if head is None else head.renamed))
        self.oldest = -1 if lowest <= 0 else lowest
        if head is not None and self.oldest > 0 and not is_effective(head, self.oldest):
            self.oldest = next(n for n in range(self.oldest, head.version + 1) if is_effective(head, n))
        self.promotion = self._promotion()
        if self.promotion is not None:
            self.oldest = self.promotion.version

    def _promotion(self) -> Commit | None:
        """Return the newest promotion in the history whose branch can still be read, unless older versions are lost."""
        dropped = self.repo.initialised().dropped
        for version in reversed([] if self.head is None else self.head.promotions):
            if self.head is not None and is_effective(self.head, version) and version >= self.oldest:
                made = self.commit(version)
                if made.promoted is not None and made.promoted.branch not in dropped:
                    return made
        return None

    def promoted(self) -> _Reader | None:
        """Return a reader of the branch that was promoted, up to the version that the promotion names.

        None if nothing was promoted, or the branch has the operator not, or with another key.
        """
        if self.promotion is None or self.promotion.promoted is None:
            return None
        repo = on_branch_of(self.repo, self.promotion.promoted.branch)
        theirs = repo.log.commit(self.promotion.promoted.version)
        name = same_operator(self.operator, theirs, self.head, schemas_at(repo, theirs, False, self.operator))
        if name is None:
            return None
        try:
            at = located(repo, theirs, False, name, self.variable)
        except InvalidInput:  # the variable came later
            return None
        if any(not one.is_accepted for one in field_changes(at.columns.key, self.first.columns.key, grows=False)):
            return None
        return _Reader(repo, theirs, name, self.given, self.variable, self.partial, self.opened)

    def _is_tip(self, version: int) -> bool:
        return self.is_tip and version == self.newest

    @property
    def newest(self) -> int:
        """The newest version."""
        return -1 if self.head is None else self.head.version

    def effective(self, version: int) -> int:
        """Return the newest version of the effective history up to a version, at least the oldest one that is kept."""
        while self.head is not None and version >= 0 and not is_effective(self.head, version):
            version = next(first for first, last in self.head.replaced if first <= version <= last) - 1
        return max(version, self.oldest)

    def sight(self, version: int) -> _Sight | None:
        """Return what the key sees in a version. None if the operator, or its key, was another one there."""
        commit = None if version < 0 else self.commit(version)
        schemas = schemas_at(self.repo, commit, self._is_tip(version), self.operator)
        name = same_operator(self.operator, commit, self.head, schemas)
        if name is None:
            return None
        try:
            at = located(self.repo, commit, self._is_tip(version), name, self.variable)
        except InvalidInput:  # the variable came later
            return None
        if any(not one.is_accepted for one in field_changes(at.columns.key, self.first.columns.key, grows=False)):
            return None
        return _Sight(self, commit, at, contents_at(at.segments, self.hash))

    def last_write(self, now: _Sight) -> int:
        """Return a version of the effective history up to `now` after which the key was not written.

        Batch times do not fall within a history, unless a `reset` set one back. So the write was in the last version
        with the batch time that is the row's `updated_at`. If there is none, as after a `migrate` that set it, the
        version of the segment is returned.
        """
        cache, store = self.repo.cache, self.repo.store
        trace = last_write(store, cache, now.at.columns, now.at.segments, self.key)
        if trace is None:
            return now.version  # all rows of the range were removed, and no segment says when
        last = self.effective(min(trace.version, now.version))
        if trace.updated_ms is None or last < 0 or self._batch_time_ms(last) <= trace.updated_ms:
            return last
        if trace.updated_ms == UPDATED_MS:
            return self.effective(-1)
        if trace.updated_ms < self._batch_time_ms(self.oldest):
            return self.oldest
        low, high = self.oldest, last  # the time of `low` is not after the write, that of `high` is
        while high - low > 1:
            middle = (low + high) // 2
            if self._batch_time_ms(self.effective(middle)) <= trace.updated_ms:
                low = middle
            else:
                high = middle
        found = self.effective(low)
        return found if found >= 0 and self._batch_time_ms(found) == trace.updated_ms else last

    def _batch_time_ms(self, version: int) -> int:
        return -1 if version < 0 else self.commit(version).batch_time_ms

    def commit(self, version: int) -> Commit:
        """Return the commit of a version, which is read once."""
        if version not in self.commits:
            self.commits[version] = self.repo.log.commit(version)
        return self.commits[version]

    def rows(self, at: Located) -> pa.Table:
        """Return the rows of the key in a state map."""
        return rows_of_keys(self.repo.store, self.repo.cache, at.columns, at.segments, self.key)

    def shown(self, at: Located, raw: pa.Table) -> pa.Table:
        """Return rows as `state` shows them, without the key."""
        table = raw if self.partial else finished(at.operator, at.recorded, raw)
        first = () if len(at.columns.sub_key) else key_columns(at.operator, at.recorded, self.partial) or ()
        names = [name for name in table.column_names if name not in {*_TIMES, *self.key.schema.names, *first}]
        return table.select(names or ["deadline"])

    def described(self, now: _Sight, before: _Sight | None) -> KeyVersion:
        """Return a version for people and machines."""
        commit = now.commit
        value = _value(now, bool(len(now.at.columns.sub_key)))
        if commit is None:
            return KeyVersion(-1, None, value, _INITIAL, {}, {})
        ended = () if before is None else tuple(_deadlines(self._timed(before)) - _deadlines(self._timed(now)))
        cause = _Cause(self.repo, commit, now.at, self.key, ended)
        is_oldest = before is None and self.oldest > 0
        is_own = self.opened.version_of(commit.version).branch == commit.branch
        return KeyVersion(
            commit.version, commit.batch_time_ms, value, commit.kind, _code_of(commit, now.at.operator),
            dict(commit.airflow), commit.reason, is_oldest, None if is_own else branch_name(self.opened, commit.branch),
            None if is_oldest else cause,
        )  # fmt: skip

    def _timed(self, sight: _Sight) -> pa.Table:
        """Return the rows whose deadlines fire: those of the timers, if there are timers."""
        if TIMERS not in sight.at.recorded["maps"] or sight.at.map == TIMERS:
            return sight.raw
        is_tip = self._is_tip(sight.version)
        return self.rows(located(self.repo, sight.commit, is_tip, sight.at.operator, TIMERS))


def _code_of(commit: Commit, operator: str) -> dict[str, Any]:
    """Return the code that ran, with only the functions and the definition of one operator."""
    functions = commit.code.get("functions", {})
    code = {name: one for name, one in commit.code.items() if name != DEFINITIONS}
    code["functions"] = {name: one for name, one in functions.items() if name == operator or name.startswith("step ")}
    definition = commit.code.get(DEFINITIONS, {}).get("operators", {}).get(operator)
    return code if definition is None else {**code, "definition": definition}


def _deadlines(rows: pa.Table) -> set[int]:
    return {one for one in rows.column("deadline").cast(pa.int64()).to_pylist() if one is not None}


def _value(sight: _Sight, has_sub_keys: bool) -> Any:
    rows = python_rows(sight.shown)
    if has_sub_keys:
        return rows or None
    if not rows:
        return None
    return rows[0]["state"] if list(rows[0]) == ["state"] else rows[0]


def _is_same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables have the same columns and rows."""
    if (
        one.num_rows != other.num_rows
        or one.schema.names != other.schema.names
        or one.schema.types != other.schema.types
    ):
        return False
    pairs = zip(one.columns, other.columns, strict=True)
    return not any(pc.any(differs(one_array(a), one_array(b))).as_py() for a, b in pairs)
