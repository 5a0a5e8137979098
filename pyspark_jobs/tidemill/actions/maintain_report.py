"""`MaintainReport`: what `maintain` did, or would do, in words and for machines."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..counts import count_of, versions_of
from ..values import dataclass
from .contract import ActionPlan

if TYPE_CHECKING:
    from ..protocol.garbage import Garbage
    from ..protocol.refs import Kept
    from ..upkeep.compacting import Compacted
    from ..upkeep.merging import Merged

SHOWN = 10
"""How many objects a dry run lists by name; with --json all."""


@dataclass(frozen=True, kw_only=True)
class MaintainReport(ActionPlan):
    """What `maintain` did, or in a dry run would do.

    `merged`: ranges of state whose runs were merged, with rows and bytes before and after. `to_merge`: ranges that are
    left to merge; in a dry run, all of them.
    `floor_before` and `floor`: the lowest version of which everything is kept, apart from tagged ones.
    `operator_floors` has the floors of operators with a rule of their own, `operator_floors_before` those that they
    had. `kept_by` are the tags that keep versions
    below the floor. `garbage` names every object that can be deleted, oldest first, with its size and the reason;
    `deleted` says how many of them were. `strays`: by sink, published files that a stalled process had copied after
    their withdrawal. `compacted`: groups of published files that were joined; in a dry run, that would be.
    `to_compact`: how many groups are left; in a dry run, all of them. `compact_waits`: whether they are left because a
    batch is planned.
    """

    floor_before: int
    floor: int
    operator_floors: dict[str, int]
    kept_by: dict[str, int]
    garbage: list[Garbage] = field(default_factory=list)
    deleted: int = 0
    merged: list[Merged] = field(default_factory=list)
    to_merge: int = 0
    strays: dict[str, list[str]] = field(default_factory=dict)
    compacted: list[Compacted] = field(default_factory=list)
    to_compact: int = 0
    compact_waits: bool = False
    dry_run: bool = False
    operator_floors_before: dict[str, int] = field(default_factory=dict)
    kept: Kept | None = field(default=None, repr=False)
    """What a look would keep. Steps after it keep at least that."""

    @property
    def raises_floor(self) -> bool:
        """Whether versions, or the state of an operator, can no longer be read that could be before."""
        before = self.operator_floors_before
        return self.floor > self.floor_before or any(
            max(at, 0) > before.get(name, self.floor_before) for name, at in self.operator_floors.items()
        )

    @property
    def garbage_bytes(self) -> int:
        """The bytes of all garbage."""
        return sum(one.size for one in self.garbage)

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        lines = []
        if self.floor > self.floor_before:
            gone = [at for at in range(self.floor_before, self.floor) if at not in self.kept_by.values()]
            lines += [f"{versions_of(gone)} will no longer be readable"] if gone else []
        lines += [f"tag `{name}` keeps version {version}" for name, version in self.kept_by.items()]
        lines += [
            f"state of operator `{name}`: versions from {at} on are kept" for name, at in self.operator_floors.items()
        ]
        lines += [f"{count_of(self.to_merge, 'range')} of state will be merged"] if self.to_merge else []
        for sink in dict.fromkeys(one.sink for one in self.compacted):
            ours = [one for one in self.compacted if one.sink == sink]
            files, size, into = (
                sum(getattr(one, name) for one in ours) for name in ("files_before", "bytes_before", "files_after")
            )
            lines.append(f"sink `{sink}`: {count_of(files, 'published file')} ({size:,} bytes) will become {into:,}")
        lines.append(f"{count_of(len(self.garbage), 'object')} ({self.garbage_bytes:,} bytes) will be deleted")
        return lines

    def details(self) -> list[str]:
        """Return the names of some of the objects that will be deleted."""
        lines = [f"  {one.name}: {one.why}" for one in self.garbage[:SHOWN]]
        rest = len(self.garbage) - SHOWN
        return lines + ([f"  … and {rest:,} more; --json lists all"] if rest > 0 else [])

    def content(self) -> Any:
        """Return all that is lost or written into sinks. Merging changes no row, so it does not count."""
        floors = [self.floor_before, self.floor, self.operator_floors, self.kept_by]
        joined = [[one.sink, one.first, one.last, one.files_before, one.bytes_before] for one in self.compacted]
        return [floors, [one.name for one in self.garbage], joined]

    def as_dict(self) -> dict[str, Any]:
        """Return what will happen, or was done, for machines."""
        own = (one.name for one in dataclasses.fields(self) if one.name not in ("verb", "seen", "kept"))
        return {**{name: _plain(getattr(self, name)) for name in own}, **super().as_dict()}

    def summary(self) -> str:
        """Return what was done, in words."""
        left = len(self.garbage) - self.deleted
        parts = [f"merged {count_of(len(self.merged), 'range')} of state"] if self.merged else []
        parts += [f"{count_of(self.to_merge, 'range')} left to merge"] if self.to_merge else []
        if self.compacted:
            before, after = (
                sum(getattr(one, name) for one in self.compacted) for name in ("files_before", "files_after")
            )
            parts += [f"joined {count_of(before, 'published file')} into {after:,}"]
        if self.to_compact:
            why = ", because a batch is planned" if self.compact_waits else ""
            parts += [f"{count_of(self.to_compact, 'group')} of published files left to join{why}"]
        parts += [f"deleted {count_of(self.deleted, 'object')}"]
        parts += [f"{left:,} left for the next call"] if left else []
        strays = sum(map(len, self.strays.values()))
        parts += [f"withdrew {count_of(strays, 'file')} that had appeared again in sinks"] if strays else []
        return f"versions from {self.floor} on are kept; " + ", ".join(parts)


def _plain(value: Any) -> Any:
    return [dataclasses.asdict(one) for one in value] if isinstance(value, list) else value
