"""`Migrate`: rewrite the state of operators for code that declares them otherwise.

A `migrate` commit has the new state; nothing else changes. State is rewritten by key ranges, in tasks of an engine that
starts only if there is something to rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..counts import count_of
from ..names import ENGINES
from ..values import dataclass
from .contract import ActionPlan, CommitAction, Option, SeenBranch, option

if TYPE_CHECKING:
    from ..batch.rewriting import Function
    from ..protocol.kinds import Changes
    from ..protocol.records import Commit
    from ..protocol.successor import Origin
    from ..publishing.rest import Writing
    from ..repo.opened import Opened
    from .migration import Functions, Move


@dataclass(frozen=True, kw_only=True)
class MigratePlan(ActionPlan):
    """What will happen to each operator. `functions`: what each function rewrites, its name and its digest."""

    moves: list[Move]
    functions: list[list[str]]
    drop_keys: bool

    def lines(self) -> list[str]:
        """Return what will happen, in words."""
        return [line for move in self.moves for line in _lines(move)]

    def content(self) -> Any:
        """Return all that will happen."""
        return [self.lines(), self.functions, self.drop_keys]


def _lines(move: Move) -> Iterator[str]:
    of = f"operator `{move.name}`" + (f", until now `{move.old}`" if move.old != move.name else "")
    rows = count_of(sum(move.rows.values()), "row")
    yield f"{of}: {rows} " + ("will be rewritten" if move.rewrites else "will be kept as they are")
    for one in move.differences:
        yield f"  {one.what} `{one.field}`: {one.before or 'nothing'} -> {one.after or 'nothing'}"


@dataclass(frozen=True, kw_only=True)
class Migrate(CommitAction):
    """Rewrite the state of operators that the code of PIPELINE declares otherwise, with a commit that reads no files.

    `tidemill check` says which operators need it. Each function gets rows of the state, with the columns that they were
    written with, and returns them with the columns that the code declares now.
    """

    verb = "migrate"
    kind = "migrate"
    short_help = "Rewrite the state of operators for changed code."
    argument_order = ("functions", "reason", "rename", "drop_keys", "merge", "spark", "engine", "tasks")
    method = """Rewrite the state of operators that this code declares otherwise, and return the commit that does it.

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

    operators: Sequence[str] = option(
        Option(
            "Operator to migrate. Repeatable.",
            flag="operator",
            metavar="NAME",
            is_repeated=True,
            in_python=False,  # there functions have their operators as keys
        ),
        (),
    )
    functions: Functions | None = option(
        Option(
            "Function of a pyarrow.Table, as `module:name` or `path.py:name`: one for each --operator, in their order.",
            flag="function",
            metavar="REFERENCE",
            parsed="functions",
            is_repeated=True,
        ),
        None,
    )
    rename: Mapping[str, str] | None = option(
        Option(
            "Operator that has a new name. Repeatable.",
            metavar="OLD=NEW",
            parsed="pairs",
            is_repeated=True,
        ),
        None,
    )
    drop_keys: bool = option(Option("Allow the functions to drop or add keys.", parsed="flag"), False)
    merge: Function | None = option(
        Option(
            "Function that makes one row of all rows with the same new key.", metavar="REFERENCE", parsed="function"
        ),
        None,
    )
    spark: Any = option(Option("The session to use.", in_shell=False), None)
    engine: str = option(Option("Engine of the tasks.", choices=ENGINES), "local")
    tasks: int | Literal["auto"] = option(Option("Number of tasks at once.", in_shell=False), "auto")
    reason: str = option(Option("Why. The commit records it."))

    def begin(self, repo: Opened) -> bool:
        """Check the places of the pipeline."""
        from ..pipeline.places import check_places
        from ..store.probe import probe

        check_places(repo.pipeline, repo.root, repo.storage_options)
        probe(repo.store)
        return False

    def look(self, repo: Opened, seen: SeenBranch) -> MigratePlan:
        """Return what will happen. `InvalidInput` if it cannot be done. Calls no function."""
        from ..pipeline.definition import described_function
        from .migration import Wanted, moves_of

        repo.refresh()  # another caller may have recorded operators
        wanted = Wanted(self.functions or {}, self.rename or {}, self.drop_keys, self.merge)
        moves = moves_of(repo, seen.origin.head, wanted)
        called = [(f"{move.name}.{one.after.name}", one.function) for move in moves for one in move.rewrites]
        called += [] if self.merge is None else [("merge", self.merge)]
        described = [(what, described_function(one)) for what, one in called]
        functions = [[what, one["name"], one["digest"]] for what, one in described]
        return MigratePlan(verb=self.verb, seen=seen, moves=moves, functions=functions, drop_keys=self.drop_keys)

    def prepare(self, repo: Opened, plan: MigratePlan, origin: Origin, to: Writing) -> Changes:
        """Store the new state."""
        from ..run.engine import engine_of
        from .migrating import migrated_state

        assert origin.head is not None
        return migrated_state(
            repo, origin.head, plan.moves, to, lambda: engine_of(repo, self.spark, self.engine, self.tasks)
        )

    def done(self, plan: MigratePlan, commit: Commit) -> str:
        """Return what was done, in words."""
        which = ", ".join(f"`{move.name}`" for move in plan.moves)
        return f"migrated {which} in version {commit.version}: {self.reason}"
