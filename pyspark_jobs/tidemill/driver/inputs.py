"""`Inputs`: the files that a replay reads: those of the recorded plans, as they are now.

INVARIANT: with "recorded", a plan is carried out only with the bytes that it read the first time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from ..counts import count_of
from ..errors import InvalidInput
from ..protocol.records import Commit, Plan, Split
from ..sources.contract import SourceFile
from ..spelling import unknown
from .context import Context
from .listing import is_as_read, listed_files

Files = Literal["recorded", "current"]
LISTED = 3
"""How many files an error names."""


class Inputs:
    """The files that the sources of `context` have. `files`: "recorded" refuses others than a plan has read."""

    def __init__(self, context: Context, files: Files) -> None:
        self.context, self.files = context, files
        self._there: dict[tuple[str, str], SourceFile] | None = None

    def look(self) -> None:
        """List the sources again when a file is needed next."""
        self._there = None

    def refuse_gone(self, plan: Plan) -> None:
        """Raise `InvalidInput` for a plan with a source that this code does not have, or with files that are gone."""
        for split in plan.splits:
            if split.source not in self.context.job.sources:
                raise unknown(f"source of version {plan.number}", split.source, self.context.job.sources)
        if self.files == "recorded":
            splits = (split for split in plan.splits if split.requeued is None)
            _refuse(plan, [_named(one, "is gone") for one in splits if (one.source, one.path) not in self.there])

    def splits(self, plan: Plan, source: Context, read: Commit | None) -> list[Split]:
        """Return the splits of a plan with the present ETags. `InvalidInput` names files that changed or vanished.

        `read` is a version of `source` whose ledger knows the files as the plan read them.
        """
        self.refuse_gone(plan)
        found: list[Split] = []
        changed: list[str] = []
        seen: set[tuple[str, str]] = set()
        for split in plan.splits:
            at = (split.source, split.path)
            if split.requeued is not None:
                found.append(split)
                continue
            now = self.there.get(at)
            if now is not None and (split.etag == now.etag or is_as_read(source, read, now)):
                found.append(dataclasses.replace(split, etag=now.etag, modified_ms=now.modified_ms))
            elif self.files == "recorded":
                changed.append(_named(split, "changed"))
            elif now is not None and at not in seen:
                options = dict(self.context.storage_options.get("source") or {})
                settings = self.context.settings
                found += self.context.job.sources[split.source].splits([now], options, settings.split_bytes)
            seen.add(at)
        _refuse(plan, changed)
        return found

    @property
    def there(self) -> dict[tuple[str, str], SourceFile]:
        """The files that all sources have, as they were listed last."""
        if self._there is None:
            self._there = listed_files(self.context)
        return self._there


def _named(split: Split, what: str) -> str:
    return f"`{split.path}` of source `{split.source}` {what}"


def _refuse(plan: Plan, wrong: Sequence[str]) -> None:
    """Raise `InvalidInput` if files of a plan are wrong. A file with several splits is named once."""
    named = list(dict.fromkeys(wrong))
    if named:
        more = f", and {count_of(len(named) - LISTED, 'other')}" if len(named) > LISTED else ""
        raise InvalidInput(
            f"replay version {plan.number} of `{plan.branch}`: {', '.join(named[:LISTED])}{more}",
            hint='restore these files, or take what is there now: files="current" or --files current',
        )
