"""Each action that is no batch, with the repository that it needs, and what a user sees afterwards."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

import tidemill as tm
from tests.crash import worlds
from tests.crash.worlds import Place, users
from tidemill.store import open_store
from tidemill.store.fault import Fault, FaultStore
from tidemill.upkeep.merge_choice import MergeRule
from tidemill.upkeep.merging import merge

SKIPPED = "0003.json"
WATERMARK = "2024-01-01T00:00:00"
FIRST = 3
"""Versions before the action; the file to skip is then the next to be read."""


@dataclass(frozen=True)
class Action:
    """`begin` makes the repository, `act` is the action."""

    begin: Callable[[Place], None]
    act: Callable[[Place], Any]
    is_once: bool
    """Whether the action is refused once it has taken effect."""
    accepts: tuple[str, ...] = ()
    """Arguments of later runs: a copy shares the folders of its sinks with the original."""
    adds_entries: bool = False
    """Whether each call adds an entry: a copy that is adopted again gets another uuid, which changes no rows."""


def one_operator(world: Place) -> None:
    two_operators(world.but(users(by_n=None)))


def two_operators(world: Place) -> None:
    world.open().init()
    for _ in range(FIRST):
        world.run(1)


def in_doubles(world: Place) -> None:
    """Earlier code kept the sums as doubles."""
    two_operators(world.but(users("double")))


def to_longs(table: pa.Table) -> pa.Table:
    if table.schema.field("state").type != pa.float64():
        raise ValueError("migrated already")
    return table.set_column(1, "state", table["state"].cast("int64"))


def merged(table: pa.Table) -> pa.Table:
    raise AssertionError(f"no two rows have one key: {table}")


def open_plan(world: Place) -> None:
    """The next batch is planned, and failed."""
    two_operators(world)
    with worlds.dying("create", rf"/commits/{FIRST:010d}\.json$", "before"):
        world.run()


def requeued(world: Place) -> None:
    """Rows that version 1 quarantined wait, corrected."""
    two_operators(world)
    requeue(world)


def requeue(world: Place) -> Any:
    """Correct the unreadable row of version 1, and give it back."""
    repository = world.open()
    rows = repository.quarantine(1, export=True).to_pylist()
    fixed = [row | {"user": "u1", "n": 100, "ts": datetime(2024, 1, 1, tzinfo=UTC)} for row in rows]
    schema = repository.quarantine(1, export=True).schema
    return repository.requeue(1, rows=pa.Table.from_pylist(fixed, schema=schema))


def rewound(world: Place) -> None:
    """The repository went back, and on from there."""
    two_operators(world)
    world.open().rewind(0, "a test")
    world.run(1)


def tagged(world: Place) -> None:
    """A version has a tag, and a failed attempt left files."""
    open_plan(world)
    world.open().replan("a test")
    world.open().tag("month-end", 1)


def moved(world: Place) -> None:
    """The root was moved."""
    two_operators(world.at(world.base, root_name="before"))
    for name, (data, time_ns) in world.save("before/").items():
        world.write(f"root{name.removeprefix('before')}", data, time_ns)
        world.store.delete(name)


def unpublished(world: Place) -> None:
    """The last version is committed, and nothing of it is published."""
    two_operators(world)
    with worlds.dying("create", rf"/commits/{FIRST:010d}\.json$", "after"):
        world.run()


def lost(world: Place) -> None:
    """The last version is committed, nothing of it is published, and its output objects are lost."""
    unpublished(world)
    store = world.open().opened.store
    store.delete_many([entry.name for entry in store.list("output/") if f"/{FIRST:010d}-" in entry.name])


def files_gone(world: Place) -> None:
    """Consumers took all published files."""
    two_operators(world)
    for entry in list(world.store.list("sinks/")):
        world.store.delete(entry.name)


def shared_sink(world: Place) -> None:
    """Another repository published in the sinks of a new one."""
    two_operators(world.at(world.base, root_name="other"))
    world.open().init()


def without_sink(world: Place) -> None:
    """Earlier code had no sink for the counts by number."""
    two_operators(world.but(users(keeps=True)))


def compact(world: Place) -> Any:
    """Small published files become larger ones."""
    return world.open().maintain(compact_sinks=True)


def compacted(world: Place) -> None:
    """The files of three versions were joined."""
    two_operators(world)
    compact(world)


def compacted_before(world: Place) -> None:
    """The files of three versions were joined, and another one was published since."""
    compacted(world)
    world.run(1)


def forget(world: Place) -> Any:
    """A key leaves the state, a sink and quarantine, and its history and a tag go."""
    return world.open().forget("users", ["u3"], "a test", columns={"users": "user"}, drop_refs=True, missing_ok=True)


def forget_person(world: Place) -> Any:
    """Remove a user whose sink has moved since, so that the files at the place before are replaced."""
    moved = world.at(world.base, world.root_name, "moved")
    return moved.open().forget({"user": ["u3"]}, "a test", left=["by-n"], drop_refs=True, missing_ok=True)


def forget_and_keep(world: Place) -> Any:
    """A person leaves all versions, which stay, and so does the tag."""
    return world.open().forget({"user": ["u3"]}, "a test", left=["by-n"], missing_ok=True, rewrite=True)


def forgotten_and_kept(world: Place) -> None:
    """A person has left all versions, and a batch has come since."""
    tagged(world)
    forget_and_keep(world)
    world.run(1)


def half_forgotten(world: Place) -> None:
    """The same, but the call died after its commit, so nothing is deleted yet."""
    tagged(world)
    with worlds.dying("create", rf"/commits/{FIRST + 1:010d}\.json$", "after"):
        forget_and_keep(world)


def branched(world: Place) -> None:
    """A branch has been replayed, and is level."""
    two_operators(world)
    world.open().replay(1, into="fix", engine="local")


def promoted(world: Place) -> None:
    """A branch was replayed and promoted, and a batch has come since."""
    branched(world)
    world.open().promote("fix")
    world.run(1)


def with_another_sink(world: Place) -> Place:
    """The world of code that has another sink in place of that of `by-n`."""
    return world.but(users(by_n="better"))


def branched_with_another_sink(world: Place) -> None:
    """A branch has been replayed by code with another sink, and is level."""
    two_operators(world)
    with_another_sink(world).open().replay(1, into="fix", engine="local")


def with_other_counts(world: Place) -> Place:
    """The world of code that counts one number less. What it makes of users is the same."""
    return world.but(users(but=1))


def branched_with_other_counts(world: Place) -> None:
    """A branch has been replayed by code whose results differ in one sink, and is level."""
    two_operators(world)
    with_other_counts(world).open().replay(1, into="fix", engine="local")


def promoted_with_other_counts(world: Place) -> None:
    """Such a branch was promoted, and a batch has come since."""
    branched_with_other_counts(world)
    other = with_other_counts(world)
    other.open().promote("fix")
    other.run(1)


def replay_and_promote(world: Place) -> Any:
    """A branch is replayed, and takes the place of the versions since its start."""
    world.open().replay(1, into="fix", engine="local")
    return world.open().promote("fix")


def replay_an_operator(world: Place) -> Any:
    """One operator is replayed, and takes the place of the versions since its start."""
    world.open().replay(1, into="fix", operators=["by-n"], engine="local")
    return world.open().promote("fix")


ACTIONS = {
    "init": Action(lambda world: None, lambda world: world.open().init(), is_once=False),
    "init adds an operator": Action(one_operator, lambda world: world.open().init(), is_once=False),
    "skip": Action(two_operators, lambda world: world.open().skip(SKIPPED, "a test"), is_once=True),
    "skip before the first batch": Action(
        lambda world: world.open().init(), lambda world: world.open().skip(SKIPPED, "a test"), is_once=True
    ),
    "skip in a plan": Action(open_plan, lambda world: world.open().skip(SKIPPED, "a test"), is_once=True),
    "replan": Action(open_plan, lambda world: world.open().replan("a test"), is_once=True),
    "requeue": Action(two_operators, requeue, is_once=True),
    "requeue in a plan": Action(open_plan, requeue, is_once=True),
    "a batch of requeued rows": Action(requeued, lambda world: world.run(1), is_once=False),
    "reset": Action(
        two_operators,
        lambda world: world.open().reset(watermark=WATERMARK, reason="a test"),
        is_once=True,
    ),
    "migrate": Action(
        in_doubles, lambda world: world.open().migrate({"users": to_longs}, reason="a test"), is_once=True
    ),
    "migrate keys": Action(
        in_doubles,
        lambda world: world.open().migrate({"users": to_longs}, reason="a test", merge=merged),
        is_once=True,
    ),
    "rewind": Action(two_operators, lambda world: world.open().rewind(0, "a test"), is_once=True),
    "rewind what cannot be published": Action(
        lost, lambda world: world.open().rewind(FIRST - 1, "a test"), is_once=True
    ),
    "rewind beside a plan": Action(open_plan, lambda world: world.open().rewind(1, "a test"), is_once=True),
    "rewind without a file": Action(
        two_operators, lambda world: world.open().rewind(1, "a test", ["0002.json"]), is_once=True
    ),
    "rewind to before the first batch": Action(
        two_operators, lambda world: world.open().rewind(-1, "a test"), is_once=True
    ),
    "restore what was rewound": Action(rewound, lambda world: world.open().rewind(2, "a test"), is_once=True),
    "rewind into a promotion": Action(promoted, lambda world: world.open().rewind("fix@1", "a test"), is_once=True),
    "tag": Action(two_operators, lambda world: world.open().tag("month-end", 1), is_once=False),
    "untag": Action(tagged, lambda world: world.open().untag("month-end"), is_once=True),
    "maintain": Action(tagged, lambda world: world.open().maintain(keep_versions=1), is_once=False),
    "adopt a move": Action(moved, lambda world: world.open().adopt("a test", moved=True), is_once=True),
    "adopt a copy": Action(
        moved,
        lambda world: world.open().adopt("a test", copy=True),
        is_once=False,
        adds_entries=True,
        accepts=("adopt_sink",),
    ),
    "branch": Action(two_operators, lambda world: world.open().branch("fix", 1), is_once=True),
    "drop a branch": Action(branched, lambda world: world.open().drop_branch("fix"), is_once=True),
    "promote": Action(branched, lambda world: world.open().promote("fix"), is_once=True),
    "replay and promote": Action(two_operators, replay_and_promote, is_once=True),
    "promote another sink": Action(
        branched_with_another_sink, lambda world: with_another_sink(world).open().promote("fix"), is_once=True
    ),
    "promote other counts": Action(
        branched_with_other_counts, lambda world: with_other_counts(world).open().promote("fix"), is_once=True
    ),
    "rewind to before other counts": Action(
        promoted_with_other_counts, lambda world: with_other_counts(world).open().rewind(1, "a test"), is_once=True
    ),
    "replay an operator": Action(two_operators, replay_an_operator, is_once=True),
    "forget": Action(tagged, forget, is_once=False),
    "forget a person": Action(tagged, forget_person, is_once=False),
    "forget and keep history": Action(tagged, forget_and_keep, is_once=False),
    "rewind past a forget": Action(forgotten_and_kept, lambda world: world.open().rewind(0, "a test"), is_once=True),
    "rewind past half a forget": Action(half_forgotten, lambda world: world.open().rewind(0, "a test"), is_once=True),
    "complete half a forget": Action(half_forgotten, lambda world: world.open().maintain(), is_once=False),
    "replay from before a forget": Action(forgotten_and_kept, replay_and_promote, is_once=True),
    "compact what was compacted": Action(compacted_before, compact, is_once=False),
    "rewind into what was compacted": Action(compacted, lambda world: world.open().rewind(1, "a test"), is_once=True),
    "merge": Action(two_operators, lambda world: merge(world.open().opened, rule=MergeRule(1 << 40, 0)), is_once=False),
    "publish": Action(unpublished, lambda world: world.open().publish(), is_once=False),
    "publish again": Action(files_gone, lambda world: world.open().publish(0), is_once=False),
    "fill a sink": Action(without_sink, lambda world: world.open().publish(0), is_once=False),
    "adopt a sink": Action(
        shared_sink, lambda world: world.run(adopt_sink=True), is_once=False, accepts=("adopt_sink",)
    ),
    "replace a sink": Action(shared_sink, lambda world: world.run(replace_sink=True), is_once=False),
}


def in_faults(world: Place, inner: Any, plan: list[Fault], key: str) -> tuple[Place, FaultStore]:
    store = FaultStore(inner, plan, key)
    return world.at(store.uri), store


def prepared(world: Place, action: Action) -> tuple[Any, str]:
    """A store with the repository before the action, and the key under which it was made."""
    inner, key = open_store(f"memory://{uuid.uuid4().hex}"), uuid.uuid4().hex
    before, store = in_faults(world, inner, [], key)
    action.begin(before)
    del store
    return inner, key


def copied(inner: Any) -> Any:
    made = open_store(f"memory://{uuid.uuid4().hex}")
    for entry in inner.list(""):
        made.put(entry.name, inner.get(entry.name))
    return made


def settle(world: Place, action: Action) -> dict[str, Any]:
    """Run to the end, and return all that a user sees, with the kinds of commits and the entries of `refs/`."""
    world.run(**dict.fromkeys(action.accepts, True))
    repository = world.open()
    entries = [entry.name for entry in world.store.list(f"root/{world.name}/refs/") if "head" not in entry.name]
    kinds = [commit.kind for commit in repository.commits()]
    rows = sorted(row for file in worlds.published(world).values() for row in file)
    return worlds.seen(world) | {"kinds": kinds, "entries": len(entries), "rows": rows}


def differences(action: Action, found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Return the parts that differ."""
    parts = {part for part, value in expected.items() if not _same(found[part], value)}
    if action.adds_entries and found["entries"] > expected["entries"]:
        parts.discard("entries")
    return sorted(parts)


def _same(found: Any, expected: Any) -> bool:
    """Whether both are equal; of errors, whether both are of one kind."""
    if isinstance(found, Exception) or isinstance(expected, Exception):
        return type(found) is type(expected)
    return bool(found == expected)


def again(world: Place, action: Action) -> None:
    """Call the action again after a failure; it is refused if it had taken effect."""
    try:
        action.act(world)
    except tm.InvalidInput:
        assert action.is_once
