"""`Refs`: what all entries of `refs/` together say: identity, operators, branches, tags, bases, floors. A pure fold.

INVARIANT: `fold` depends on the entries alone. Each entry must be the successor of the one before, or it raises
`CorruptState`; an entry that contradicts what is known does so, too, because the writer checked it first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import field
from functools import singledispatch
from typing import Any

from .. import names
from ..errors import CorruptState
from ..notebook import NotebookResult
from ..values import dataclass
from .bounds import Ms, Number, Version
from .entries import (
    AdoptEntry,
    Base,
    DropBases,
    DropBranchEntry,
    Entry,
    Floor,
    Hold,
    Init,
    Maps,
    NewBranch,
    Operators,
    RewriteEntry,
    TagEntry,
)
from .records import FORMAT_VERSION, REWRITE, Parent, Segment

MAIN = "main"
"""The name and the id of the first branch."""


@dataclass(frozen=True)
class BranchRef:
    """A branch. `fork` is the version from which it starts; None for `main`, which starts at version -1."""

    name: str
    id: str
    fork: Parent | None = None
    publish_to: str | None = None


@dataclass(frozen=True)
class Seeds:
    """The initial state of an operator: segments by map, and the number of the entry that gave it."""

    number: Number
    maps: Maps


@dataclass(frozen=True)
class TaggedVersion:
    """The version that a tag names, by the id of its branch."""

    branch: str
    version: Version


@dataclass(frozen=True)
class BaseOf:
    """Merged segments of a map that may take the place of `inputs`; `number` is that of the entry `entries.Base`."""

    number: Number
    operator: str
    map: str
    inputs: list[Segment]
    outputs: list[Segment]
    columns: dict[str, str] = field(default_factory=dict)
    is_oldest: bool = True
    branch: str = ""


@dataclass(frozen=True)
class Kept:
    """From which version on a branch is kept, and since when (ms since the epoch).

    `operators` has the floors of operators whose state is kept from another version on.
    """

    version: Version
    since_ms: Ms
    operators: dict[str, Version] = field(default_factory=dict)

    def of(self, operator: str | None) -> int:
        """Return the floor of an operator's state; None: of everything else."""
        return self.version if operator is None else self.operators.get(operator, self.version)

    @property
    def highest(self) -> int:
        """The lowest version of which everything is kept."""
        return max(self.version, *self.operators.values()) if self.operators else self.version


@dataclass(frozen=True)
class HeldVersions:
    """Versions `first..version` that stay until `by_branch` has version `by_version`."""

    branch: str
    first: Version
    version: Version
    by_branch: str
    by_version: Number


@dataclass(frozen=True)
class Refs(NotebookResult):
    """All entries up to `through`, folded. `refs_checksum` is the checksum of that entry.

    `uuid` and `root` are those in force, `uuids` all that the repository ever had, `origin` the checksum of the init
    record. `sources` are the folders at `init` or as confirmed later; `confirmed` says by which entry. `former` are
    operators that were removed and not added again.
    """

    through: Number
    refs_checksum: str
    origin: str
    pipeline: str
    uuid: str
    uuids: list[str]
    root: str
    created_ms: Ms
    schemas: dict[str, dict[str, Any]]
    seeds: dict[str, Seeds]
    ledger: list[Segment]
    sources: dict[str, str]
    confirmed: dict[str, Number] = field(default_factory=dict)
    former: list[str] = field(default_factory=list)
    """Operators that `init` removed. Those that a promotion does not have may come back by a rewind."""
    following: list[str] = field(default_factory=list)
    """Operators that a promotion brought. They go if it is rewound."""
    operators_through: Number = 0
    """The newest entry that changed the operators."""
    branches: dict[str, BranchRef] = field(default_factory=lambda: {MAIN: BranchRef(MAIN, MAIN)})
    dropped: list[str] = field(default_factory=list)
    tags: dict[str, TaggedVersion] = field(default_factory=dict)
    bases: list[BaseOf] = field(default_factory=list)
    bases_ended: Number = 0
    """The newest entry that ended merged segments. A run that has not read it may still use them."""
    floors: dict[str, Kept] = field(default_factory=dict)
    holds: list[HeldVersions] = field(default_factory=list)
    rewrote_at: Number | None = None
    """The last `forget` that has replaced objects of earlier versions. Whoever reads these applies it."""
    requires: list[str] = field(default_factory=list)
    format: int = FORMAT_VERSION
    checksum: str = field(default="", compare=False)

    def in_notebook(self) -> dict[str, Any]:
        """Return what the repository is, and its operators, branches and tags."""
        return {
            "pipeline": self.pipeline, "uuid": self.uuid, "root": self.root, "operators": list(self.schemas),
            "branches": list(self.branches), "tags": list(self.tags),
        }  # fmt: skip

    @property
    def start(self) -> Parent:
        """What the first plan and commit of `main` record as their parent."""
        return Parent("", -1, self.origin)

    def name_of(self, branch: str) -> str:
        """Return the name of a branch by its id, also of one that was dropped."""
        known = next((one.name for one in self.branches.values() if one.id == (branch or MAIN)), None)
        return known or branch.rpartition("-")[0] or branch

    def named(self, branch: str) -> str:
        """Return a branch for a message, by its id: "branch `fix`", or "dropped branch `fix`"."""
        return f"{'dropped ' if branch in self.dropped else ''}branch `{self.name_of(branch)}`"


def fold(init: Init, entries: Iterable[Entry]) -> Refs:
    """Return what the init record and the entries after it say. `CorruptState` if one does not follow the other."""
    refs = begin(init)
    for entry in entries:
        refs = follow(refs, entry)
    return refs


def begin(init: Init) -> Refs:
    """Return what the init record says by itself."""
    return Refs(
        through=0,
        refs_checksum=init.checksum,
        origin=init.checksum,
        pipeline=init.pipeline,
        uuid=init.uuid,
        uuids=[init.uuid],
        root=init.root,
        created_ms=init.created_ms,
        schemas=init.schemas,
        seeds={name: Seeds(0, maps) for name, maps in init.seeds.items()},
        ledger=init.ledger,
        sources=init.sources,
    )


def follow(refs: Refs, entry: Entry) -> Refs:
    """Return `refs` with one more entry. An `Entry` of no known kind changes nothing but the position."""
    expected = (refs.through + 1, refs.refs_checksum, refs.uuid)
    if (entry.number, entry.parent, entry.uuid) != expected:
        raise CorruptState(
            f"read entry `{names.ref(refs.through + 1)}`: expected entry {expected[0]} of repository {expected[2]} "
            f"after the entry with checksum {expected[1]}; found entry {entry.number} of repository {entry.uuid} after "
            f"{entry.parent}",
            hint="restore the objects below `refs/` from one backup",
        )
    changed = _apply(entry, refs)
    return dataclasses.replace(changed, through=entry.number, refs_checksum=entry.checksum, checksum="")


def branch_id(name: str, number: int) -> str:
    """Return the id of a branch that entry `number` makes.

    >>> branch_id("fix", 12)
    'fix-12'
    """
    return f"{name}-{number}"


@singledispatch
def _apply(entry: Entry, refs: Refs) -> Refs:
    """Return `refs` changed by an entry. This is the entry of an unknown kind that may be ignored."""
    del entry
    return refs


@_apply.register
def _operators(entry: Operators, refs: Refs) -> Refs:
    gone = {*entry.removed, *entry.schemas}
    seeds = {name: known for name, known in refs.seeds.items() if name not in gone}
    seeds |= {name: Seeds(entry.number, maps) for name, maps in entry.seeds.items()}
    schemas = {name: schema for name, schema in refs.schemas.items() if name not in entry.removed} | entry.schemas
    removed = () if entry.follows else (name for name in entry.removed if name in refs.schemas)
    former = {*refs.former, *removed} - schemas.keys()
    following = (set(refs.following) - gone) | (entry.schemas.keys() if entry.follows else set())
    return dataclasses.replace(
        refs, schemas=schemas, seeds=seeds, former=sorted(former), following=sorted(following),
        operators_through=entry.number,
    )  # fmt: skip


@_apply.register
def _branch(entry: NewBranch, refs: Refs) -> Refs:
    if entry.name in refs.branches or entry.id != branch_id(entry.name, entry.number):
        raise _contradiction(entry, f"adds branch `{entry.name}` with id `{entry.id}`")
    if entry.fork_branch not in {branch.id for branch in refs.branches.values()} | set(refs.dropped) | {""}:
        raise _contradiction(entry, f"forks the unknown branch `{entry.fork_branch}`")
    fork = Parent(entry.fork_branch, entry.fork_version, entry.fork_checksum)
    branch = BranchRef(entry.name, entry.id, fork, entry.publish_to)
    return dataclasses.replace(refs, branches=refs.branches | {entry.name: branch})


@_apply.register
def _drop_branch(entry: DropBranchEntry, refs: Refs) -> Refs:
    known = refs.branches.get(entry.name)
    if known is None or known.id != entry.id or entry.name == MAIN:
        raise _contradiction(entry, f"drops branch `{entry.name}` with id `{entry.id}`")
    left = {name: branch for name, branch in refs.branches.items() if name != entry.name}
    return dataclasses.replace(refs, branches=left, dropped=[*refs.dropped, entry.id])


@_apply.register
def _tag(entry: TagEntry, refs: Refs) -> Refs:
    tags = {name: tagged for name, tagged in refs.tags.items() if name != entry.name}
    if entry.version is not None:
        tags[entry.name] = TaggedVersion(entry.branch, entry.version)
    return dataclasses.replace(refs, tags=tags)


@_apply.register
def _base(entry: Base, refs: Refs) -> Refs:
    unknown = set(entry.ends) - {base.number for base in refs.bases}
    if unknown:
        raise _contradiction(entry, f"ends the merged segments of entry {min(unknown)}")
    left = [base for base in refs.bases if base.number not in entry.ends]
    base = BaseOf(
        entry.number,
        entry.operator,
        entry.map,
        entry.inputs,
        entry.outputs,
        entry.columns,
        entry.is_oldest,
        entry.branch,
    )
    ended = entry.number if entry.ends else refs.bases_ended
    return dataclasses.replace(refs, bases=[*left, base], bases_ended=ended)


@_apply.register
def _drop_bases(entry: DropBases, refs: Refs) -> Refs:
    return dataclasses.replace(refs, bases=[base for base in refs.bases if base.number not in entry.numbers])


@_apply.register
def _floor(entry: Floor, refs: Refs) -> Refs:
    before = refs.floors.get(entry.branch, Kept(-1, 0))
    operators = before.operators | entry.operators
    after = Kept(entry.version, entry.created_ms, operators)
    if entry.version < before.version or any(after.of(name) < before.of(name) for name in operators):
        raise _contradiction(entry, f"lowers the floor of branch `{entry.branch}` to version {entry.version}")
    return dataclasses.replace(refs, floors=refs.floors | {entry.branch: after})


@_apply.register
def _hold(entry: Hold, refs: Refs) -> Refs:
    """A later hold by the same branch shows that its earlier ones have ended."""
    rest = [one for one in refs.holds if one.by_branch != entry.by_branch or one.by_version >= entry.by_version]
    held = HeldVersions(entry.branch, entry.first, entry.version, entry.by_branch, entry.by_version)
    return dataclasses.replace(refs, holds=[*rest, held])


@_apply.register
def _rewrite(entry: RewriteEntry, refs: Refs) -> Refs:
    if entry.version <= (-1 if refs.rewrote_at is None else refs.rewrote_at) or entry.seeds.keys() - refs.seeds.keys():
        raise _contradiction(entry, f"applies the `forget` of version {entry.version}")
    seeds = {name: Seeds(refs.seeds[name].number, maps) for name, maps in entry.seeds.items()}
    return dataclasses.replace(refs, rewrote_at=entry.version, requires=[REWRITE], seeds=refs.seeds | seeds)


@_apply.register
def _adopt(entry: AdoptEntry, refs: Refs) -> Refs:
    uuids = [*refs.uuids, *([] if entry.new_uuid in refs.uuids else [entry.new_uuid])]
    return dataclasses.replace(
        refs,
        root=entry.root,
        uuid=entry.new_uuid,
        uuids=uuids,
        sources=refs.sources | entry.sources,
        confirmed=refs.confirmed | dict.fromkeys(entry.sources, entry.number),
    )


def _contradiction(entry: Entry, what: str) -> CorruptState:
    return CorruptState(
        f"read entry `{names.ref(entry.number)}`: it {what}, which contradicts the entries before it",
        hint="restore the objects below `refs/` from one backup",
    )
