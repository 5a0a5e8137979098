"""Earlier versions without forgotten keys: which of them are kept, whether all can be searched, and what replaces them.

INVARIANT: whatever names the keys in a kept version is searched, or an error names it before anything is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from ..counts import versions_of
from ..errors import InvalidInput
from ..protocol.compatible import first_name
from ..protocol.kinds import rules_of
from ..protocol.log import log_of
from ..protocol.named import Object, named
from ..protocol.records import Commit, RemovedRows, ReplacedObject, Segment
from ..protocol.refs import MAIN, Refs
from ..protocol.replacing import Replacements
from ..protocol.retained import kept_part, kept_versions, pinned, version_of
from ..repo.opened import Opened
from ..repo.operators import committed_state
from ..schema import to_arrow, to_ddl
from ..state.columns import MapColumns
from ..values import dataclass
from .keys import new_salt
from .left_out import is_left_out
from .parts import ForgetPart
from .rewriting import Rewriter
from .sought import Sought, SoughtKeys
from .state import ForgetTarget


@dataclass(frozen=True)
class RewrittenVersions:
    """What took the place of objects that kept versions name, and how many live rows each of them lacks.

    `versions` are those that are kept. `state` is that of the head, without `head_rows` of each map. `size` is that of
    the objects in bytes, `sinks` has the rows of each sink, and `quarantined` those of each file of quarantine.
    """

    versions: list[int] = field(default_factory=list)
    objects: list[ReplacedObject] = field(default_factory=list)
    rows: list[RemovedRows] = field(default_factory=list)
    state: Mapping[str, Mapping[str, list[Segment]]] = field(default_factory=dict)
    head_rows: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    size: int = 0
    sinks: Mapping[str, int] = field(default_factory=dict)
    quarantined: Mapping[str, int] = field(default_factory=dict)


def kept_commits(repo: Opened, refs: Refs, head: Commit) -> Iterator[Commit]:
    """Yield every version of `main` up to `head` of which something is kept, oldest first, with what is kept of it."""
    others = [one.id for one in refs.branches.values() if one.id != MAIN]
    heads = {MAIN: head.version} | {one: log_of(repo.store, refs, one).newest_version() for one in others}
    apart = pinned(refs, heads)
    versions = {*kept_versions(refs, MAIN, head.version), *(one.version for one in apart if one.branch == MAIN)}
    for version in sorted(versions):
        commit = repo.log.commit(version)
        yield kept_part(refs, commit, version_of(refs, MAIN, version) in apart)


def size_of_versions(repo: Opened, refs: Refs, head: Commit, parts: Sequence[ForgetPart]) -> tuple[int, int]:
    """Return how many objects kept versions name that may have keys, and their bytes. Reads no object."""
    operators = {first_name(one.operator, head.renamed) for one in parts}
    found: dict[str, Object] = {}
    for commit in kept_commits(repo, refs, head):
        state = {name: maps for name, maps in commit.state.items() if first_name(name, commit.renamed) in operators}
        found |= {one.name: one for one in named(dataclasses.replace(commit, state=state, ledger=[]))}
    return len(found), sum(one.size for one in found.values())


def versions_without_keys(
    repo: Opened, head: Commit, parts: Sequence[ForgetPart], left: Sequence[str], to: ForgetTarget
) -> RewrittenVersions:
    """Store what kept versions and initial state name again, without the keys. A dry run only looks.

    `InvalidInput` if a version has rows that cannot be searched.
    """
    refs = repo.initialised()
    commits = list(kept_commits(repo, refs, head))
    sought = _sought(head, parts, _columns(commits, parts, left), to.version)
    _refuse_other_keys(commits, head, sought)

    def is_in_text(text: str | None, is_unreadable: bool) -> bool:
        return any(one.keys.is_in_row(text, is_unreadable) for one in parts)

    made = Rewriter(repo, sought, is_in_text, to)
    for commit in commits:
        made.commit(commit)
    state = committed_state(repo, head)
    made.state(head, state)
    made.seeds(refs)
    rows = [
        RemovedRows(commit.version, *removed)
        for commit in commits
        for removed in made.removed(commit, commit.state)
        if removed[-1]
    ]
    head_rows: dict[str, dict[str, int]] = {}
    for operator, name, count in made.removed(head, state):
        head_rows.setdefault(operator, {})[name] = count
    replaced = list(made.objects.values())
    after = state if to.dry_run else Replacements({one.old: one for one in replaced}).state(state)
    return RewrittenVersions(
        [one.version for one in commits], replaced, rows, after, head_rows, sum(made.sizes.values()), made.sinks,
        made.quarantined,
    )  # fmt: skip


def _sought(head: Commit, parts: Sequence[ForgetPart], columns: Sequence[dict[str, list[str]]], version: int) -> Sought:
    salt = new_salt()
    found = []
    for part, of_sinks in zip(parts, columns, strict=True):
        entry = dataclasses.replace(part, columns=of_sinks).entry(version, salt, [], [])
        found.append(SoughtKeys(entry, part.keys.columns.schema, first_name(part.operator, head.renamed)))
    return Sought(found)


def _columns(commits: Iterable[Commit], parts: Sequence[ForgetPart], left: Sequence[str]) -> list[dict[str, list[str]]]:
    """Return for each part the columns of sinks that have its keys. `InvalidInput` for a sink that has none.

    A person is looked for in all outputs, also in those that no sink publishes. Several parts may have the same column;
    those with the type of the sink's column are used, if there are any.
    """
    types: dict[str, set[str]] = {}
    names: dict[str, list[str]] = {}
    undescribed: set[str] = set()
    for commit in commits:
        with_files = {name for name, files in commit.outputs.items() if files}
        with_files |= {name for name, added in commit.adds.items() if any(one.files for one in added)}
        undescribed |= with_files - commit.sinks.keys()
        for sink in with_files & commit.sinks.keys():
            schema = to_arrow(commit.sinks[sink]["schema"])
            types.setdefault(sink, set()).update(
                to_ddl(schema.empty_table().select([one]).schema) for one in schema.names
            )
            names.setdefault(sink, []).extend(schema.names)
    found = []
    for part in parts:
        column, ddl = part.keys.columns.schema.names[0], to_ddl(part.keys.columns.schema)
        ours = dict(part.columns)
        for sink in types if part.found_by else ():
            if is_left_out(left, "sink", sink):
                continue
            same = [one for one in parts if one.keys.columns.schema.names[0] == column]
            fits = ddl in types[sink] or not any(to_ddl(one.keys.columns.schema) in types[sink] for one in same)
            if column in names[sink] and fits:
                ours[sink] = [column]
        found.append(ours)
    lacking = [sink for sink in types if not any(sink in one for one in found)]
    lacking = [one for one in (*lacking, *sorted(undescribed - types.keys())) if not is_left_out(left, "sink", one)]
    if lacking:
        raise InvalidInput(
            f"forget: earlier versions keep the rows of {', '.join(f'sink `{one}`' for one in lacking)}, and no column "
            "says which of them have the key",
            hint="name the column with columns= or --column; or, if no row has the key, leave the sink with left= or "
            "--left; or forget without rewrite, which gives up these versions",
        )
    return found


def _refuse_other_keys(commits: Sequence[Commit], head: Commit, sought: Sought) -> None:
    """Raise `InvalidInput` for versions in which an operator has other keys, so that the given ones are not found."""
    for first in dict.fromkeys(one.operator for one in sought.keys if one.operator):
        of_operator = [(commit, _key_of(commit, first)) for commit in commits]
        changed = max((one.version for one in commits if _moves_keys(one, first)), default=-1)
        wrong = [
            commit.version
            for commit, key in of_operator
            if key is not None
            and (
                commit.version < changed
                or not all(sought.columns_in_state(one, first, key) for one in sought.keys if one.operator == first)
            )
        ]
        if wrong:
            raise InvalidInput(
                f"forget: in {versions_of(wrong)}, operator `{first}` has other keys, because a migration changed them "
                "later, so these versions cannot be rewritten",
                hint="forget without rewrite, which gives up all earlier versions; or first give up these with "
                f"`tidemill maintain --keep-versions {head.version - max(wrong)}`",
            )


def _key_of(commit: Commit, first: str) -> Sequence[str] | None:
    """Return the key columns of an operator in a version that has state of it, or None."""
    for name, maps in commit.state.items():
        if first_name(name, commit.renamed) == first and any(maps.values()):
            described = next(iter(commit.schemas[name]["maps"].values()))
            return list(MapColumns.described("keys", described).key.names)
    return None


def _moves_keys(commit: Commit, first: str) -> bool:
    """Whether a migration has called a function for an operator, which may have given it other keys."""
    rules = rules_of(commit)
    migrates = "schemas" in rules.changes and not rules.carries_out and not rules.withdraws
    return migrates and any(first_name(one, commit.renamed) == first for one in commit.code.get("functions", {}))
