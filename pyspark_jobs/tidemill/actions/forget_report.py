"""`ForgetReport`: what `forget` did, or would do, in words and for machines."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..counts import count_of, versions_of
from ..values import dataclass
from .contract import ActionPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..forgetting.parts import ForgetPart
    from ..protocol.records import Commit


@dataclass(frozen=True, kw_only=True)
class ForgetReport(ActionPlan):
    """What `forget` did, or in a dry run would do.

    `version` is that of the commit; None in a dry run. `rows`: by map of the operator, live rows that went.
    `rewritten`: objects and published files that held a key and were written again. `removed`: objects that were
    deleted. `quarantined_rows`: by file, rows of quarantine that went. `versions`: first and last version that can no
    longer be read; None if there is none. `dropped`: tags and branches that were removed. `left`: data that Tidemill
    cannot clean, in words. `done_in`: the newest version, if it has forgotten these keys already; then the call only
    completes what is left. `clean`: objects and files that were read and have none of them.

    For a person, `person` names the columns, and `operator` and `rows` are empty. `operators` has the rows of all
    operators, by map, and `sinks` how many rows of each sink went. `agreed` is what the caller agreed to leave.

    With `rewrite`, `kept` has the first and last version that stay, of which `objects` objects with `size` bytes held a
    key. Without it, `objects` and `size` are those that `rewrite` would search.
    """

    operator: str
    keys: int
    rows: dict[str, int]
    rewritten: list[str]
    quarantined_rows: dict[str, int]
    versions: tuple[int, int] | None
    dropped: list[str]
    left: list[str]
    parts: Sequence[ForgetPart] = field(repr=False)
    person: str = ""
    operators: dict[str, dict[str, int]] = field(default_factory=dict)
    sinks: dict[str, int] = field(default_factory=dict)
    agreed: list[str] = field(default_factory=list)
    clean: set[str] = field(default_factory=set, repr=False)
    removed: list[str] = field(default_factory=list)
    done_in: int | None = None
    rewrite: bool = False
    kept: tuple[int, int] | None = None
    objects: int = 0
    size: int = 0
    version: int | None = None
    commit: Commit | None = field(default=None, repr=False)

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        lines = [
            f"operator `{name}`: {self._said_keys(name)} will be removed ({_said_rows(rows)})"
            for name, rows in self.operators.items()
        ]
        lines = lines if self.done_in is None else [self.said_done()]
        lines += [f"sink `{name}`: {count_of(count, 'row')} will be removed" for name, count in self.sinks.items()]
        lines += [f"rewritten: {one}" for one in (self.rewritten[self.objects :] if self.rewrite else self.rewritten)]
        lines += [f"quarantine: {count_of(count, 'row')} of {name}" for name, count in self.quarantined_rows.items()]
        lines += [f"removed: {one}" for one in self.dropped]
        if self.versions is not None:
            first, last = self.versions
            lines.append(f"{versions_of(range(first, last + 1))} will no longer be readable")
            if self.objects and self.done_in is None:
                searched = f"{count_of(self.objects, 'object')} ({self.size:,} bytes)"
                lines.append(f"`--rewrite` would keep them; it has to read {searched}")
        if self.kept is not None and self.done_in is None:
            first, last = self.kept
            written = f"{count_of(self.objects, 'object')} ({self.size:,} bytes)"
            lines.append(
                f"{versions_of(range(first, last + 1))} stay readable: {written} with the keys will be rewritten; "
                "without `--rewrite`, these versions would be given up"
            )
        return lines + [f"left: {one}" for one in self.left]

    def _said_keys(self, operator: str) -> str:
        if not self.person:
            return count_of(self.keys, "key")
        ours = (one.keys.columns.schema.names[0] for one in self.parts if one.operator == operator)
        return "keys with " + ", ".join(f"`{name}`" for name in sorted(set(ours)))

    def said_done(self) -> str:
        """Return that an earlier call has done it, in words."""
        return f"version {self.done_in} has forgotten {count_of(self.keys, 'key')} already"

    def content(self) -> Any:
        """Return all that will happen, and to which keys."""
        return [self.lines(), [[one.operator, one.keys.columns.to_pylist(), one.columns] for one in self.parts]]

    def as_dict(self) -> dict[str, Any]:
        """Return what will happen, or was done, for machines."""
        shown = ("operator", "person", "keys", "rows", "operators", "sinks", "rewritten", "removed", "quarantined_rows",
                 "dropped", "left", "agreed", "done_in")  # fmt: skip
        given_up, kept = (None if one is None else list(one) for one in (self.versions, self.kept))
        costs = {
            "given_up": given_up, "kept": kept, "rewrite": self.rewrite, "rewrite_objects": self.objects,
            "rewrite_bytes": self.size,
        }  # fmt: skip
        return {**{name: getattr(self, name) for name in shown}, **costs, **super().as_dict()}


def _said_rows(rows: dict[str, int]) -> str:
    return ", ".join(f"{count_of(count, 'row')} of map `{name}`" for name, count in rows.items()) or "no live row"
