"""The methods of `Repository` that carry out an action: one for each class in `actions/`.

Written by `python -m tests.surface.generate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from .reader import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from .actions.carry_out import Expect
    from .actions.replan import ReplanPlan
    from .actions.requeue import RequeuePlan
    from .actions.reset import ResetPlan
    from .actions.rewind import RewindPlan
    from .actions.skip import SkipPlan
    from .protocol.records import Commit


class ActionMethods(Reader):
    """Adds a method for each action to a `Reader`."""

    @overload
    def rewind(
        self,
        to_version: int | str,
        reason: str,
        without: Sequence[str | tuple[str, str]] = (),
        *,
        dry_run: Literal[False] = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> Commit: ...
    @overload
    def rewind(
        self,
        to_version: int | str,
        reason: str,
        without: Sequence[str | tuple[str, str]] = (),
        *,
        dry_run: Literal[True],
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> RewindPlan: ...
    def rewind(
        self,
        to_version: int | str,
        reason: str,
        without: Sequence[str | tuple[str, str]] = (),
        *,
        dry_run: bool = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> Commit | RewindPlan:
        """Go back to a version, by a commit that restores it. Return that commit.

        State, watermarks, batch time and the record of read files become those of `to_version`, a number or a tag; -1
        is what `init` made. Files that were read since wait again. `without`: files that are left out of the input
        instead, as paths relative to their source's folder, or (source, path). An open plan ends.

        Published files of the versions that are undone are deleted; meanwhile, readers may find some of them. A
        function of `foreachBatch` is called with `withdrawn=`, the ids of batches that no longer count; if it has no
        such parameter, the rewind is refused. All versions stay readable, and a later rewind may restore a version that
        was undone. Its files are then published again.

        `InvalidInput` for a version that does not exist or is no longer kept, a file that the version to restore has
        read, an unknown file, or an empty `reason`. `Fenced` if another run commits first. Then nothing has changed. A
        crash leaves the rewind committed or not; the next run completes what it does to the sinks.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`, or the commit of the head. `Fenced` if something else would happen
        now: what was agreed to is done, or nothing. A commit says only that no other one came since. `if_needed`: if an
        earlier try of this Airflow task did the same, return what it made; of no effect in a dry run.
        """
        from .actions.carry_out import act
        from .actions.rewind import Rewind

        made: Commit | RewindPlan = act(
            self.context, Rewind(to_version=to_version, reason=reason, without=without), dry_run, expect, if_needed
        )
        return made

    @overload
    def skip(
        self,
        file: str | tuple[str, str],
        reason: str,
        *,
        dry_run: Literal[False] = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> Commit: ...
    @overload
    def skip(
        self,
        file: str | tuple[str, str],
        reason: str,
        *,
        dry_run: Literal[True],
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> SkipPlan: ...
    def skip(
        self,
        file: str | tuple[str, str],
        reason: str,
        *,
        dry_run: bool = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> Commit | SkipPlan:
        """Take a file out of the input, because it cannot be read or must not be. Return the commit that does it.

        `file` is a path relative to its source's folder, or (source, path) if several sources have it. The file waits,
        or is in the plan of a batch that failed; then that plan ends, and the next run plans its other files. The
        commit records `reason`. The file is never read, whatever happens to it later, unless its bytes change and the
        source says `overwritten="new"`.

        `InvalidInput` for a file that was read already, for an unknown file, or if `reason` is empty. `Fenced` if
        another run commits first; then nothing has changed.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`, or the commit of the head. `Fenced` if something else would happen
        now: what was agreed to is done, or nothing. A commit says only that no other one came since. `if_needed`: if an
        earlier try of this Airflow task did the same, return what it made; of no effect in a dry run.
        """
        from .actions.carry_out import act
        from .actions.skip import Skip

        made: Commit | SkipPlan = act(self.context, Skip(file=file, reason=reason), dry_run, expect, if_needed)
        return made

    @overload
    def replan(
        self, reason: str, *, dry_run: Literal[False] = False, expect: Expect | None = None, if_needed: bool = False
    ) -> Commit: ...
    @overload
    def replan(
        self, reason: str, *, dry_run: Literal[True], expect: Expect | None = None, if_needed: bool = False
    ) -> ReplanPlan: ...
    def replan(
        self, reason: str, *, dry_run: bool = False, expect: Expect | None = None, if_needed: bool = False
    ) -> Commit | ReplanPlan:
        """Abandon a plan that cannot run, because a planned file is missing, changed or unreadable.

        A void commit takes the number of the plan. It reads no files and changes no state; the next run plans the files
        again. The commit records `reason`. `InvalidInput` if no plan waits, or if `reason` is empty.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`, or the commit of the head. `Fenced` if something else would happen
        now: what was agreed to is done, or nothing. A commit says only that no other one came since. `if_needed`: if an
        earlier try of this Airflow task did the same, return what it made; of no effect in a dry run.
        """
        from .actions.carry_out import act
        from .actions.replan import Replan

        made: Commit | ReplanPlan = act(self.context, Replan(reason=reason), dry_run, expect, if_needed)
        return made

    @overload
    def reset(
        self,
        watermark: int | str | datetime | Mapping[str, int | str | datetime] | None = None,
        batch_time: int | str | datetime | None = None,
        reason: str = "",
        *,
        dry_run: Literal[False] = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> Commit: ...
    @overload
    def reset(
        self,
        watermark: int | str | datetime | Mapping[str, int | str | datetime] | None = None,
        batch_time: int | str | datetime | None = None,
        reason: str = "",
        *,
        dry_run: Literal[True],
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> ResetPlan: ...
    def reset(
        self,
        watermark: int | str | datetime | Mapping[str, int | str | datetime] | None = None,
        batch_time: int | str | datetime | None = None,
        reason: str = "",
        *,
        dry_run: bool = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> Commit | ResetPlan:
        """Set watermarks or the batch time to another value, and return the commit that does it.

        Nothing else moves either of them back. `watermark`: a time for all watermarks, or a dict by name
        (`<source>.<column>`). `batch_time`: the time from which later batches count. Times are ms since the epoch, ISO
        text or datetimes. An open plan ends. State stays as it is: what has ended or timed out does not come back, and
        rows that were late stay dropped or in quarantine.

        `InvalidInput` for an unknown watermark, a batch time out of bounds, or an empty `reason`. `Fenced` if another
        run commits first; then nothing has changed.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`, or the commit of the head. `Fenced` if something else would happen
        now: what was agreed to is done, or nothing. A commit says only that no other one came since. `if_needed`: if an
        earlier try of this Airflow task did the same, return what it made; of no effect in a dry run.
        """
        from .actions.carry_out import act
        from .actions.reset import Reset

        made: Commit | ResetPlan = act(
            self.context, Reset(watermark=watermark, batch_time=batch_time, reason=reason), dry_run, expect, if_needed
        )
        return made

    @overload
    def requeue(
        self,
        version: int | str,
        source: str | None = None,
        rows: Any = None,
        reason: str = "",
        *,
        dry_run: Literal[False] = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> Commit: ...
    @overload
    def requeue(
        self,
        version: int | str,
        source: str | None = None,
        rows: Any = None,
        reason: str = "",
        *,
        dry_run: Literal[True],
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> RequeuePlan: ...
    def requeue(
        self,
        version: int | str,
        source: str | None = None,
        rows: Any = None,
        reason: str = "",
        *,
        dry_run: bool = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> Commit | RequeuePlan:
        """Give rows that `version` quarantined back to the pipeline, and return the commit that does it.

        The next batch reads them before any file. Unreadable rows go to the whole pipeline. Rows of a failed key go
        only to the operator whose function failed, because the others have taken them. Late rows go to the operators
        that they were late for, if those are declared with `late="keep"` now. `source`: only the rows of this source. A
        promotion has the rows that its branch has quarantined. The commit records `reason`.

        `rows`: the corrected rows, a table or the path of a Parquet, CSV or JSON file with the columns of
        `quarantine(…, export=True)`. Rows that are not in it stay in quarantine. Without it, all rows come back as they
        are. Unreadable ones are then parsed again by the schema that the source has now. A file that is in quarantine
        as a whole, with `badFiles="quarantine"`, is read again as a new file; correct it in its folder first.

        `InvalidInput` if a row cannot come back, is not one of this version, or was requeued already. Then nothing has
        changed. `Fenced` if another run commits first.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`, or the commit of the head. `Fenced` if something else would happen
        now: what was agreed to is done, or nothing. A commit says only that no other one came since. `if_needed`: if an
        earlier try of this Airflow task did the same, return what it made; of no effect in a dry run.
        """
        from .actions.carry_out import act
        from .actions.requeue import Requeue

        made: Commit | RequeuePlan = act(
            self.context, Requeue(version=version, source=source, rows=rows, reason=reason), dry_run, expect, if_needed
        )
        return made
