"""The methods of `Repository` that carry out an action: one for each class in `actions/`.

Written by `python -m tests.surface.generate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from .reader import Reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime, timedelta
    from typing import Any

    from .actions.adopt import AdoptPlan
    from .actions.branch import BranchPlan
    from .actions.carry_out import Expect
    from .actions.drop_branch import DropBranchPlan
    from .actions.forget_report import ForgetReport
    from .actions.maintain_report import MaintainReport
    from .actions.migrate import MigratePlan
    from .actions.migration import Functions
    from .actions.promote import PromotePlan
    from .actions.replan import ReplanPlan
    from .actions.requeue import RequeuePlan
    from .actions.reset import ResetPlan
    from .actions.rewind import RewindPlan
    from .actions.skip import SkipPlan
    from .actions.tag import TagPlan
    from .actions.untag import UntagPlan
    from .batch.rewriting import Function
    from .branches.branch import BranchInfo
    from .protocol.records import Commit
    from .protocol.refs import Refs
    from .repo.versions import Tagged
    from .upkeep.collect import OnUpkeep


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
        is what `init` made. `"fix@2"` is a version of a branch that this one has promoted: the rewind goes back inside
        of the promotion, and keeps the results of the branch. Files that were read since wait again. `without`: files
        that are left out of the input instead, as paths relative to their source's folder, or (source, path). An open
        plan ends.

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
        earlier try of this Airflow task made the correction, return what that made; of no effect in a dry run.
        """
        from .actions.carry_out import act
        from .actions.rewind import Rewind

        made: Commit | RewindPlan = act(
            self.opened, Rewind(to_version=to_version, reason=reason, without=without), dry_run, expect, if_needed
        )
        return made

    @overload
    def skip(
        self,
        file: str | tuple[str, str] | None = None,
        reason: str = "",
        withdrawn: bool = False,
        *,
        dry_run: Literal[False] = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> Commit: ...
    @overload
    def skip(
        self,
        file: str | tuple[str, str] | None = None,
        reason: str = "",
        withdrawn: bool = False,
        *,
        dry_run: Literal[True],
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> SkipPlan: ...
    def skip(
        self,
        file: str | tuple[str, str] | None = None,
        reason: str = "",
        withdrawn: bool = False,
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

        `withdrawn`, instead of a file: all files that were read, and that the pipeline which published them has
        withdrawn since. Runs fail because of them. The rows that were read of them stay, and the next run continues.

        `InvalidInput` for a file that was read already, for an unknown file, if no file was withdrawn, or if `reason`
        is empty. `Fenced` if another run commits first; then nothing has changed.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`, or the commit of the head. `Fenced` if something else would happen
        now: what was agreed to is done, or nothing. A commit says only that no other one came since. `if_needed`: if an
        earlier try of this Airflow task made the correction, return what that made; of no effect in a dry run.
        """
        from .actions.carry_out import act
        from .actions.skip import Skip

        made: Commit | SkipPlan = act(
            self.opened, Skip(file=file, reason=reason, withdrawn=withdrawn), dry_run, expect, if_needed
        )
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
        earlier try of this Airflow task made the correction, return what that made; of no effect in a dry run.
        """
        from .actions.carry_out import act
        from .actions.replan import Replan

        made: Commit | ReplanPlan = act(self.opened, Replan(reason=reason), dry_run, expect, if_needed)
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
        earlier try of this Airflow task made the correction, return what that made; of no effect in a dry run.
        """
        from .actions.carry_out import act
        from .actions.reset import Reset

        made: Commit | ResetPlan = act(
            self.opened, Reset(watermark=watermark, batch_time=batch_time, reason=reason), dry_run, expect, if_needed
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
        only to the operator whose function failed, because the others have taken them; rows that another operator had
        emitted go there as they were. Late rows go to the operators
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
        earlier try of this Airflow task made the correction, return what that made; of no effect in a dry run.
        """
        from .actions.carry_out import act
        from .actions.requeue import Requeue

        made: Commit | RequeuePlan = act(
            self.opened, Requeue(version=version, source=source, rows=rows, reason=reason), dry_run, expect, if_needed
        )
        return made

    @overload
    def migrate(
        self,
        functions: Functions | None = None,
        reason: str = "",
        rename: Mapping[str, str] | None = None,
        drop_keys: bool = False,
        merge: Function | None = None,
        spark: Any = None,
        engine: str = "local",
        tasks: int | Literal["auto"] = "auto",
        *,
        dry_run: Literal[False] = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> Commit: ...
    @overload
    def migrate(
        self,
        functions: Functions | None = None,
        reason: str = "",
        rename: Mapping[str, str] | None = None,
        drop_keys: bool = False,
        merge: Function | None = None,
        spark: Any = None,
        engine: str = "local",
        tasks: int | Literal["auto"] = "auto",
        *,
        dry_run: Literal[True],
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> MigratePlan: ...
    def migrate(
        self,
        functions: Functions | None = None,
        reason: str = "",
        rename: Mapping[str, str] | None = None,
        drop_keys: bool = False,
        merge: Function | None = None,
        spark: Any = None,
        engine: str = "local",
        tasks: int | Literal["auto"] = "auto",
        *,
        dry_run: bool = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> Commit | MigratePlan:
        """Rewrite the state of operators that this code declares otherwise, and return the commit that does it.

        `functions` maps an operator to a function of a `pyarrow.Table`. The function gets some rows of the operator's
        state, with the key and state columns that they were written with, and returns them with the key and state
        columns that this code declares. It must treat each row by itself. A function of two arguments also gets a table
        with `updated_at` and `deadline` of the rows. A processor with several variables has a dict of functions by
        variable instead. `rename` maps old names of operators to new ones.

        Rows keep `updated_at` and `deadline`, unless the function returns these columns. It must return each key once
        and no other ones, unless `drop_keys`. If the key columns change, every row may get a new key; two rows with one
        key are an error, unless `merge` is given: a function that gets all rows of such keys, with their times, and
        returns one row for each key. If timeouts follow another clock, the function must return `deadline`.

        `engine`: "local" or "spark", which uses the session `spark` or starts one. `tasks`: how many run at once. Tasks
        hold about 262,144 rows at once. The commit records `reason`. An open plan ends. `InvalidInput` if rows do not
        fit, `Fenced` if another run commits first; then nothing has changed. Older versions keep their columns.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`, or the commit of the head. `Fenced` if something else would happen
        now: what was agreed to is done, or nothing. A commit says only that no other one came since. `if_needed`: if an
        earlier try of this Airflow task made the correction, return what that made; of no effect in a dry run.

        >>> import tidemill as tm
        >>> def renamed(table):
        ...     return table.rename_columns(["user", "euros"])
        >>> p = tm.Pipeline("spending")
        >>> _ = p.read(tm.Rows("user string, x int")).groupBy("user").agg(n=tm.count(), name="spend")
        >>> r = tm.open(p, root="memory://docs-migrate")
        >>> _ = r.init()
        >>> r.migrate({"spend": renamed}, reason="new names")
        Traceback (most recent call last):
        tidemill.errors.InvalidInput: migrate: pipeline `spending` has had no batch yet, so there is no state to migrate
        hint: run init again, which records the operators of this code
        """
        from .actions.carry_out import act
        from .actions.migrate import Migrate

        made: Commit | MigratePlan = act(
            self.opened,
            Migrate(
                functions=functions,
                reason=reason,
                rename=rename,
                drop_keys=drop_keys,
                merge=merge,
                spark=spark,
                engine=engine,
                tasks=tasks,
            ),
            dry_run,
            expect,
            if_needed,
        )
        return made

    def forget(
        self,
        operator: str | Mapping[str, Sequence[Any]] = "",
        keys: Sequence[Any] = (),
        reason: str = "",
        columns: Mapping[str, str | Sequence[str]] | None = None,
        drop_refs: bool = False,
        missing_ok: bool = False,
        left: Sequence[str] = (),
        rewrite: bool = False,
        *,
        dry_run: bool = False,
        expect: Expect | None = None,
    ) -> ForgetReport:
        """Remove keys from everything that the repository keeps and publishes. Return a report.

        `operator` and `keys`, as in `r.forget("totals", ["ann"], reason)`, are keys of one operator, as `state` prints
        them. A mapping of columns to values in their place, as in `r.forget({"customer": [17850]}, reason)`, is a
        person: the rows with these values of a column, or of one of several columns, in all operators and sinks that
        the records ever named, also in sinks that were removed, renamed or moved, and in places of branches.
        `InvalidInput` names everything that cannot be searched for a person, unless `left` names it, which the commit
        and the report then list: an operator whose key has no such column, a sink without it, a function of
        `foreachBatch`, a folder that cannot be reached.

        A commit has the state without the keys, and records `reason`. All earlier versions are given up, and their
        objects are deleted, because they hold the keys. `columns`, for keys of an operator: by sink, the column (or
        columns, in the order of the key) that holds the key in published files; files with the keys are written again
        without their rows. Quarantined rows whose text contains a key go, too. The commit keeps a salted hash of each
        key, with which `verify(forgotten=True)` looks for keys that are still there.

        `rewrite`: keep all earlier versions that are kept now, with the rows of other keys. Their objects with the keys
        are written again without them, and then deleted. History, differences, rewinds and replays go on as before, and
        none of them shows the keys. `InvalidInput` if a version cannot be searched.

        `drop_refs`: also remove tags and branches that keep earlier versions; otherwise they are an error. With
        `rewrite`, only branches are.
        `missing_ok`: accept keys that have no state now, or a person whom nothing has. `left` of the report lists what
        Tidemill cannot clean: the source's files, rows that functions wrote, files that were moved. In a dry run, the
        plan is such a report, with the rows of each operator and sink, and what it costs to keep earlier versions.

        `InvalidInput` for an unknown operator, sink or column, a key that does not fit or has no state, or an empty
        `reason`. `Fenced` if another run commits first. Then nothing has changed. After a crash, call it again, or run
        `maintain`: both complete it.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`, or the commit of the head. `Fenced` if something else would happen
        now: what was agreed to is done, or nothing. A commit says only that no other one came since.
        """
        from .actions.carry_out import act
        from .actions.forget import Forget

        made: ForgetReport = act(
            self.opened,
            Forget(
                operator=operator,
                keys=keys,
                reason=reason,
                columns=columns,
                drop_refs=drop_refs,
                missing_ok=missing_ok,
                left=left,
                rewrite=rewrite,
            ),
            dry_run,
            expect,
            False,
        )
        return made

    @overload
    def adopt(
        self,
        reason: str = "",
        moved: bool = False,
        copy: bool = False,
        sources: Sequence[str] = (),
        *,
        dry_run: Literal[False] = False,
        expect: Expect | None = None,
    ) -> Refs: ...
    @overload
    def adopt(
        self,
        reason: str = "",
        moved: bool = False,
        copy: bool = False,
        sources: Sequence[str] = (),
        *,
        dry_run: Literal[True],
        expect: Expect | None = None,
    ) -> AdoptPlan: ...
    def adopt(
        self,
        reason: str = "",
        moved: bool = False,
        copy: bool = False,
        sources: Sequence[str] = (),
        *,
        dry_run: bool = False,
        expect: Expect | None = None,
    ) -> Refs | AdoptPlan:
        """Confirm that this repository was moved or copied on purpose, or that the folder of a source changed.

        `moved`: this is the repository now, and the place where it was made is dead. It keeps its uuid. If that place
        can still be reached, it is fenced first: a batch that is at work there cannot commit. `copy`: both
        remain. This one gets a new uuid, and files that were published stay those of the other one. `sources`: names of
        sources whose files may be read again from the folder that this code declares. The entry records `reason`.
        Returns what the repository records about itself then.

        `InvalidInput` if nothing is to be confirmed, without `moved` or `copy` at another place, or if the place where
        it was made has versions that this one lacks. A crash leaves the repository adopted or not.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`. `Fenced` if something else would happen now: what was agreed to is
        done, or nothing.
        """
        from .actions.adopt import Adopt
        from .actions.carry_out import act

        made: Refs | AdoptPlan = act(
            self.opened, Adopt(reason=reason, moved=moved, copy=copy, sources=sources), dry_run, expect, False
        )
        return made

    @overload
    def promote(
        self,
        branch: str,
        reason: str = "",
        catch_up: bool = False,
        outputs: str = "correct",
        accept_output_change: bool = False,
        spark: Any = None,
        engine: str = "auto",
        drop: Sequence[str] = (),
        *,
        dry_run: Literal[False] = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> Commit: ...
    @overload
    def promote(
        self,
        branch: str,
        reason: str = "",
        catch_up: bool = False,
        outputs: str = "correct",
        accept_output_change: bool = False,
        spark: Any = None,
        engine: str = "auto",
        drop: Sequence[str] = (),
        *,
        dry_run: Literal[True],
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> PromotePlan: ...
    def promote(
        self,
        branch: str,
        reason: str = "",
        catch_up: bool = False,
        outputs: str = "correct",
        accept_output_change: bool = False,
        spark: Any = None,
        engine: str = "auto",
        drop: Sequence[str] = (),
        *,
        dry_run: bool = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> Commit | PromotePlan:
        """Take over the state of `branch` by a commit of this one, and return the commit.

        The branch must start from this one and must have read all that this one has read since. `catch_up` first
        replays what is missing, with this code, on `engine` or the session `spark`, as `replay` does. `outputs`:
        "correct" withdraws what was published since the fork, and publishes what the branch made instead, but leaves
        files alone that are the same; "keep" leaves what is published as it is. A function of `foreachBatch` is called
        with the versions that no longer count. Files of a sink that this code does not have are deleted where they were
        published. `accept_output_change`: write a sink with other columns than before. `drop`: operators that the
        branch does not have, whose state ends. The commit records `reason`. `rewind` undoes a promotion.

        `InvalidInput` if the branch does not fit, if the fork was rewound, if this code lacks what began on the
        branch, if an operator would end that `drop` does not name, or if a sink cannot withdraw what it has published.
        `Fenced` if another run commits first. Then nothing has changed. `expect` cannot be combined with
        `catch_up`, because a dry run cannot show what a replay will make.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`, or the commit of the head. `Fenced` if something else would happen
        now: what was agreed to is done, or nothing. A commit says only that no other one came since. `if_needed`: if
        the branch was promoted before, return what that made; of no effect in a dry run.
        """
        from .actions.carry_out import act
        from .actions.promote import Promote

        made: Commit | PromotePlan = act(
            self.opened,
            Promote(
                branch=branch,
                reason=reason,
                catch_up=catch_up,
                outputs=outputs,
                accept_output_change=accept_output_change,
                spark=spark,
                engine=engine,
                drop=drop,
            ),
            dry_run,
            expect,
            if_needed,
        )
        return made

    def maintain(
        self,
        keep: str | timedelta | Mapping[str, str | timedelta] | None = None,
        keep_versions: int | Mapping[str, int] | None = None,
        time_budget: float | None = None,
        dry_run: bool = False,
        reason: str = "",
        on_progress: OnUpkeep | None = None,
        spark: Any = None,
        engine: str = "local",
        compact_sinks: bool = False,
        sink_file_size: str | int = "128 MiB",
        *,
        expect: Expect | None = None,
    ) -> MaintainReport:
        """Merge segments of state, discard old versions, and delete the objects that no kept version needs.

        Returns what was done. Merging keeps batches short: a batch that would rewrite a large part of the state leaves
        that to this call, as long as it comes often enough, such as every night.

        `keep`: an age such as "90 days"; versions of this period are kept, so the state can be read as of any time in
        it. `keep_versions`: the newest so many versions are kept. With both, whichever keeps more. A dict gives rules
        for the state of single operators, and under "*" for everything else. Without either, only leftovers of failed
        attempts are deleted. The head, tagged versions, versions from which branches start, and versions that are not
        published yet are always kept. Published files are not touched, except that files which a stalled process
        copied after they had been withdrawn are deleted.

        `compact_sinks`: join published files of `tm.Parquet` and `tm.Json` that are smaller than half of
        `sink_file_size`, folder by folder, into files of about that size. Rows keep their values, columns and order.
        Each group of versions is one commit with `reason`. Larger files appear before the small ones are deleted, so a
        plain reader may see rows twice for a moment. `outputs()` does not change. While a batch is planned, nothing is
        joined.

        `time_budget`: seconds after which nothing more is merged, joined or deleted; the next call does the rest.
        `on_progress`: called with what is being done, how much of it is done, and how much there is. `engine`: "local"
        merges two ranges of state at once in this process; "spark" merges as many as there are cores, in tasks, on the
        session `spark` or one that is started. A range has about 4 million rows or 64 MiB.

        The call may run beside runs, corrections and other calls. A crash leaves garbage for the next call.
        `InvalidInput` for an unknown operator, or a rule that keeps nothing. In a dry run, the report names every
        object that would go, and why, and the files that would be joined.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`. `Fenced` if something else would happen now: what was agreed to is
        done, or nothing.
        """
        from .actions.carry_out import act
        from .actions.maintain import Maintain

        made: MaintainReport = act(
            self.opened,
            Maintain(
                keep=keep,
                keep_versions=keep_versions,
                time_budget=time_budget,
                reason=reason,
                on_progress=on_progress,
                spark=spark,
                engine=engine,
                compact_sinks=compact_sinks,
                sink_file_size=sink_file_size,
            ),
            dry_run,
            expect,
            False,
        )
        return made

    @overload
    def tag(
        self,
        name: str,
        version: int | str | None = None,
        reason: str = "",
        move: bool = False,
        *,
        dry_run: Literal[False] = False,
        expect: Expect | None = None,
    ) -> Tagged: ...
    @overload
    def tag(
        self,
        name: str,
        version: int | str | None = None,
        reason: str = "",
        move: bool = False,
        *,
        dry_run: Literal[True],
        expect: Expect | None = None,
    ) -> TagPlan: ...
    def tag(
        self,
        name: str,
        version: int | str | None = None,
        reason: str = "",
        move: bool = False,
        *,
        dry_run: bool = False,
        expect: Expect | None = None,
    ) -> Tagged | TagPlan:
        """Name a version; default: the newest. A tag can stand for the number of a version everywhere.

        `name` names `version`, a number or another tag. A tagged version stays readable when retention discards its
        neighbours. `move`: let the name, which has another version now, name this one. The entry records `reason`.
        `InvalidInput` for a version that does not exist or is not kept, for a name that is in use, or is a number.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`. `Fenced` if something else would happen now: what was agreed to is
        done, or nothing.

        >>> import tidemill as tm
        >>> p = tm.Pipeline("tagged")
        >>> _ = p.read(tm.Rows("word string")).groupBy("word").agg(n=tm.count(), name="count")
        >>> r = tm.open(p, root="memory://docs-tag")
        >>> _ = r.init()
        >>> r.tags()
        []
        """
        from .actions.carry_out import act
        from .actions.tag import Tag

        made: Tagged | TagPlan = act(
            self.opened, Tag(name=name, version=version, reason=reason, move=move), dry_run, expect, False
        )
        return made

    @overload
    def untag(
        self, name: str, reason: str = "", *, dry_run: Literal[False] = False, expect: Expect | None = None
    ) -> Tagged: ...
    @overload
    def untag(
        self, name: str, reason: str = "", *, dry_run: Literal[True], expect: Expect | None = None
    ) -> UntagPlan: ...
    def untag(
        self, name: str, reason: str = "", *, dry_run: bool = False, expect: Expect | None = None
    ) -> Tagged | UntagPlan:
        """Remove the tag `name`, and return what it named. The entry records `reason`.

        The version stays readable only as long as retention keeps it. `InvalidInput` for an unknown tag.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`. `Fenced` if something else would happen now: what was agreed to is
        done, or nothing.
        """
        from .actions.carry_out import act
        from .actions.untag import Untag

        made: Tagged | UntagPlan = act(self.opened, Untag(name=name, reason=reason), dry_run, expect, False)
        return made

    @overload
    def branch(
        self,
        name: str,
        at: int | str | date | None = None,
        publish_to: str | None = None,
        reason: str = "",
        *,
        dry_run: Literal[False] = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> BranchInfo: ...
    @overload
    def branch(
        self,
        name: str,
        at: int | str | date | None = None,
        publish_to: str | None = None,
        reason: str = "",
        *,
        dry_run: Literal[True],
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> BranchPlan: ...
    def branch(
        self,
        name: str,
        at: int | str | date | None = None,
        publish_to: str | None = None,
        reason: str = "",
        *,
        dry_run: bool = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> BranchInfo | BranchPlan:
        """Start a branch at a version of this one, and return what it is. Nothing is copied.

        `at`: a number, a tag, or a time (a datetime or ISO text), which means the newest version with a batch time up
        to then; default is the newest version. `tm.open(…, branch=name)` opens the branch: it has the
        versions of this one up to `at`, and its own ones after that, with the next numbers. It publishes nothing,
        unless `publish_to` gives its sinks a place of their own: each gets a folder with its `name` there. Functions of
        `foreachBatch` are not called for a branch. The entry records `reason`.

        `InvalidInput` for a name in use or not allowed, a version that is not kept, or a place with files of this
        pipeline. Then nothing has changed.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`. `Fenced` if something else would happen now: what was agreed to is
        done, or nothing. `if_needed`: if the branch is there with this start, return what that made; of no effect in a
        dry run.

        >>> import tidemill as tm
        >>> p = tm.Pipeline("tries")
        >>> _ = p.read(tm.Rows("word string")).groupBy("word").agg(n=tm.count(), name="count")
        >>> r = tm.open(p, root="memory://docs-branch")
        >>> _ = r.init()
        >>> r.branch("fix").fork_version
        -1
        >>> tm.open(p, root="memory://docs-branch", branch="fix")
        Repository('memory://docs-branch/tries', branch='fix-1')
        """
        from .actions.branch import Branch
        from .actions.carry_out import act

        made: BranchInfo | BranchPlan = act(
            self.opened, Branch(name=name, at=at, publish_to=publish_to, reason=reason), dry_run, expect, if_needed
        )
        return made

    @overload
    def drop_branch(
        self,
        name: str,
        reason: str = "",
        *,
        dry_run: Literal[False] = False,
        expect: Expect | None = None,
        if_needed: Literal[False] = False,
    ) -> BranchInfo: ...
    @overload
    def drop_branch(
        self,
        name: str,
        reason: str = "",
        *,
        dry_run: Literal[False] = False,
        expect: Expect | None = None,
        if_needed: bool,
    ) -> BranchInfo | None: ...
    @overload
    def drop_branch(
        self,
        name: str,
        reason: str = "",
        *,
        dry_run: Literal[True],
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> DropBranchPlan: ...
    def drop_branch(
        self,
        name: str,
        reason: str = "",
        *,
        dry_run: bool = False,
        expect: Expect | None = None,
        if_needed: bool = False,
    ) -> BranchInfo | DropBranchPlan | None:
        """End the branch `name`, and return what it was. `maintain` then deletes the objects that only it needed.

        The entry records `reason`. `InvalidInput` for an unknown branch, for `main`, or while a tag or another branch
        needs its versions.

        `dry_run`: change nothing, and return what would happen: a plan with `lines()`, `as_dict()` and `requires`.
        `expect`: such a plan, or its `requires`. `Fenced` if something else would happen now: what was agreed to is
        done, or nothing. `if_needed`: if the branch does not exist, return None; of no effect in a dry run.
        """
        from .actions.carry_out import act
        from .actions.drop_branch import DropBranch

        made: BranchInfo | DropBranchPlan | None = act(
            self.opened, DropBranch(name=name, reason=reason), dry_run, expect, if_needed
        )
        return made
