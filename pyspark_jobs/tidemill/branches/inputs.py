"""`Inputs`: the files that a replay reads: those of the recorded plans, as they are now.

INVARIANT: with "recorded", a plan is carried out only with the bytes that it read the first time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from ..counts import count_of
from ..errors import InvalidInput
from ..protocol.records import Commit, Plan, Split
from ..repo.input_files import is_as_read, listed_files
from ..repo.opened import Opened
from ..sources import asked
from ..sources.contract import SourceFile
from ..spelling import unknown
from ..values import dataclass

ReplayFiles = Literal["recorded", "current"]
_LISTED = 3
"""How many files an error names."""


@dataclass(frozen=True)
class RecordedFile:
    """A file that a version has read: its source, its path there, and the version."""

    source: str
    path: str
    version: int


class Inputs:
    """The files that the sources of `repo` have. `files`: "recorded" refuses others than a plan has read."""

    def __init__(self, repo: Opened, files: ReplayFiles) -> None:
        self.repo, self.files = repo, files
        self._there: dict[tuple[str, str], SourceFile] | None = None
        self._same: dict[tuple[str, str, str, str], bool] = {}

    def look(self) -> None:
        """List the sources again when a file is needed next."""
        self._there = None

    def check(self, plan: Plan, source: Opened, read: Commit | None) -> None:
        """Raise `InvalidInput` for a plan with a source that this code lacks, or with files that changed or are gone.

        `read` is a version of `source` whose ledger knows the files as the plan read them.
        """
        refuse_wrong_inputs({plan.number: self.wrong(plan, source, read)}, self.repo.initialised().named(plan.branch))

    def wrong(self, plan: Plan, source: Opened, read: Commit | None) -> list[str]:
        """Return the files of a plan that changed or are gone, in words. `InvalidInput` for a source that is lost."""
        for split in plan.splits:
            if split.source not in self.repo.job.sources:
                raise unknown(f"source of version {plan.number}", split.source, self.repo.job.sources)
        if self.files != "recorded":
            return []
        splits = [split for split in plan.splits if split.requeued is None]
        wrong = [(split, self._present(split, source, read)) for split in splits]
        return list(dict.fromkeys(_named(split, now) for split, now in wrong if isinstance(now, str)))

    def splits(self, plan: Plan, source: Opened, read: Commit | None) -> list[Split]:
        """Return the splits of a plan with the present ETags. `InvalidInput` as in `check`."""
        self.check(plan, source, read)
        found: list[Split] = []
        seen: set[tuple[str, str]] = set()
        for split in plan.splits:
            at = (split.source, split.path)
            if split.requeued is not None:
                found.append(split)
                continue
            now = self._present(split, source, read)
            if isinstance(now, SourceFile):
                found.append(dataclasses.replace(split, etag=now.etag, modified_ms=now.modified_ms))
            elif at in self.there and at not in seen:
                options = dict(self.repo.storage_options.get("source") or {})
                settings = self.repo.settings
                source_now = self.repo.job.sources[split.source]
                found += asked.splits(source_now, [self.there[at]], options, settings.split_bytes)
            seen.add(at)
        return found

    def changed(self, recorded: Plan, ours: Plan, source: Opened, read: Commit | None) -> list[RecordedFile]:
        """Return the files that a plan reads with other bytes than the recorded one did."""
        before = {(split.source, split.path): split for split in recorded.splits}
        found: dict[tuple[str, str], RecordedFile] = {}
        for split in ours.splits:
            was = before.get((split.source, split.path))
            if was is None or split.requeued is not None or was.etag == split.etag:
                continue
            now = SourceFile.of_split(split)
            if not self._is_same(was, now, source, read):
                found[split.source, split.path] = RecordedFile(split.source, split.path, recorded.number)
        return list(found.values())

    def _present(self, split: Split, source: Opened, read: Commit | None) -> SourceFile | str:
        """Return the file of a split, if it has the bytes that the plan read, or else what became of it."""
        if asked.is_positioned(self.repo.job.sources[split.source]):
            return SourceFile.of_split(split)  # `read` finds out if it is there no more
        now = self.there.get((split.source, split.path))
        if now is None:
            return "is gone"
        return now if self._is_same(split, now, source, read) else "changed"

    def _is_same(self, split: Split, now: SourceFile, source: Opened, read: Commit | None) -> bool:
        """Whether a file has the bytes that the plan of a split read. A file with another ETag is read once."""
        if split.etag == now.etag:
            return True
        asked = (split.source, split.path, split.etag, now.etag)
        if asked not in self._same:
            self._same[asked] = is_as_read(source, read, now)
        return self._same[asked]

    @property
    def there(self) -> dict[tuple[str, str], SourceFile]:
        """The files that all sources have, as they were listed last."""
        if self._there is None:
            self._there = listed_files(self.repo)
        return self._there


def _named(split: Split, what: str) -> str:
    return f"`{split.path}` of source `{split.source}` {what}"


def refuse_wrong_inputs(wrong: Mapping[int, Sequence[str]], branch: str) -> None:
    """Raise `InvalidInput` if files of versions of a branch are wrong. The error names the first few.

    `branch` is how users know the branch, for the message.
    """
    named = {version: found for version, found in wrong.items() if found}
    if not named:
        return
    first, *others = named.items()
    shown = [*first[1], *(f"version {version}: {one}" for version, found in others for one in found)]
    more = f", and {count_of(len(shown) - _LISTED, 'other')}" if len(shown) > _LISTED else ""
    raise InvalidInput(
        f"replay version {first[0]} of {branch}: {', '.join(shown[:_LISTED])}{more}",
        hint='restore these files, or take what is there now: files="current" or --files current',
    )


def missing_from(ours: Plan, recorded: Plan) -> list[Split]:
    """Return the first split of each file that a recorded plan has read and `ours` does not have."""
    there = {(split.source, split.path) for split in ours.splits}
    splits = [split for split in recorded.splits if split.requeued is None]
    gone = {(one.source, one.path): one for one in reversed(splits) if (one.source, one.path) not in there}
    return list(reversed(gone.values()))
