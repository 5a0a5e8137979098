"""The entries of `refs/` as dataclasses. Entry 0 is the init record; `refs` folds them.

No I/O and no decisions here. INVARIANT: an entry names the checksum of the entry before it, so a lost or exchanged
entry is found by whoever reads the next one.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from ..values import dataclass
from .bounds import Ms, Number, Version
from .records import FORMAT_VERSION, Segment

Maps = dict[str, list[Segment]]
"""Segments by state map."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What all entries have in common.

    `number` is that of its name. `parent` is the checksum of entry `number - 1`, empty for entry 0. `uuid` is that of
    the repository when the entry was written. `attempt` is random, so that no two writers write the same bytes. A
    reader that does not know the kind of an entry skips it if it is `ignorable`, and stops otherwise.
    """

    number: Number
    parent: str
    uuid: str
    attempt: str
    created_ms: Ms
    reason: str = ""
    ignorable: bool = False
    requires: list[str] = field(default_factory=list)
    format: int = FORMAT_VERSION
    checksum: str = field(default="", compare=False)
    """The checksum of the record, known once it was read or written."""


@dataclass(frozen=True, kw_only=True)
class Init(Entry):
    """Entry 0: the identity of the repository and version -1.

    `root` is the URI of the repository. `sources` are the URIs of the sources' folders. `seeds` are the initial state,
    `ledger` holds the files that sources with `start="latest"` had then and leave out.
    """

    pipeline: str
    root: str
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    seeds: dict[str, Maps] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    ledger: list[Segment] = field(default_factory=list)
    kind: Literal["init"] = "init"


@dataclass(frozen=True, kw_only=True)
class Operators(Entry):
    """Operators that a later `init` added, described again or removed.

    An operator in `schemas` starts empty, or with its `seeds`, in the next commit. The state of removed ones ends with
    the next commit. `follows`: the operators are those of the newest commit, a promotion or a rewind; a later rewind
    may bring back those that such an entry removed.
    """

    schemas: dict[str, dict[str, Any]]
    removed: list[str] = field(default_factory=list)
    seeds: dict[str, Maps] = field(default_factory=dict)
    follows: bool = False
    kind: Literal["operators"] = "operators"


@dataclass(frozen=True, kw_only=True)
class NewBranch(Entry):
    """A branch that starts at `version` of the branch `fork_branch`, whose commit has `fork_checksum`.

    `id` names its objects: `<name>-<number>`, so a name can be used again after its branch was dropped. A branch
    publishes to `publish_to`, or not at all.
    """

    name: str
    id: str
    fork_branch: str
    fork_version: Version
    fork_checksum: str
    publish_to: str | None = None
    kind: Literal["branch"] = "branch"


@dataclass(frozen=True, kw_only=True)
class DropBranchEntry(Entry):
    """The branch `id` ends. Its objects remain until nothing else names them."""

    name: str
    id: str
    kind: Literal["drop-branch"] = "drop-branch"


@dataclass(frozen=True, kw_only=True)
class TagEntry(Entry):
    """A name for a version; `version` None removes the name."""

    name: str
    branch: str
    version: Version | None
    kind: Literal["tag"] = "tag"


@dataclass(frozen=True, kw_only=True)
class Base(Entry):
    """Merged segments: `outputs` may take the place of `inputs` in any version in which all `inputs` are live.

    `columns` are those of the map in `outputs`; versions with other columns keep the inputs. Empty: any version.
    `is_oldest`: whether `inputs` were the oldest segments of their range, so that `outputs` have no tombstones.
    `branch` is the id of the branch for whose head they were merged. `ends` are the numbers of earlier entries of this
    kind that are no longer laid under any version.
    """

    operator: str
    map: str
    inputs: list[Segment]
    outputs: list[Segment]
    columns: dict[str, str] = field(default_factory=dict)
    is_oldest: bool = True
    branch: str = ""
    ends: list[Number] = field(default_factory=list)
    kind: Literal["base"] = "base"


@dataclass(frozen=True, kw_only=True)
class DropBases(Entry):
    """Entries of merged segments, by number, that no kept version can use any more. Their segments may be deleted."""

    numbers: list[Number]
    kind: Literal["drop-bases"] = "drop-bases"


@dataclass(frozen=True, kw_only=True)
class Hold(Entry):
    """Keeps versions `first..version` of `branch` until `by_branch` has version `by_version`, which names them.

    A correction that restores a version holds it first. So no collector deletes the objects before they are named
    again, and a hold ends by itself, whoever commits that version.
    """

    branch: str
    first: Version
    version: Version
    by_branch: str
    by_version: Number
    kind: Literal["hold"] = "hold"


@dataclass(frozen=True, kw_only=True)
class Floor(Entry):
    """The lowest version of a branch that is kept. Lower ones can no longer be read.

    `operators` has a floor of their own for the state of some operators, which may be higher or lower.
    """

    branch: str
    version: Version
    operators: dict[str, Version] = field(default_factory=dict)
    kind: Literal["floor"] = "floor"


@dataclass(frozen=True, kw_only=True)
class RewriteEntry(Entry):
    """From here on, whoever reads a version before `version`, a `forget` of `main`, applies what it has replaced.

    `seeds` is the initial state of operators that takes the place of what it was, for the same commits as before.
    """

    version: Number
    seeds: dict[str, Maps] = field(default_factory=dict)
    kind: Literal["rewrite"] = "rewrite"


@dataclass(frozen=True, kw_only=True)
class AdoptEntry(Entry):
    """The repository was moved or copied on purpose, or a source's folder changed on purpose.

    From here on the repository is at `root` and has the uuid `new_uuid`. `sources` are the folders that the user
    confirmed.
    """

    root: str
    new_uuid: str
    sources: dict[str, str] = field(default_factory=dict)
    kind: Literal["adopt"] = "adopt"


ENTRIES: dict[str, type[Entry]] = {
    "init": Init,
    "operators": Operators,
    "branch": NewBranch,
    "drop-branch": DropBranchEntry,
    "tag": TagEntry,
    "base": Base,
    "drop-bases": DropBases,
    "floor": Floor,
    "hold": Hold,
    "adopt": AdoptEntry,
    "rewrite": RewriteEntry,
}
"""The entries that this Tidemill knows, by `kind`."""
