"""Two actors at once, interleaved at every store call in an order that a seed gives, beside a naive model of the log.

Each of the two succeeds or is refused. Then the log has no gap and no number twice, no row is lost or doubled, sinks
show the effective history, and `verify` finds nothing. A run that follows finishes everything.
`TIDEMILL_SCHEDULES` sets the number of seeds for each pair (default: 1, and for a sample of the pairs),
`TIDEMILL_SEED` the first one, and `TIDEMILL_PAIR` (such as `run+forget`) chooses one pair.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import random
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidemill as tm
from tests.crash import ledger_model, worlds
from tests.crash.ledger_model import Happened, Version
from tests.crash.scheduled import Schedule, ScheduledStore, determined
from tests.crash.worlds import FILES, Place
from tests.exhaustive import EXHAUSTIVE, some
from tests.world import World
from tests.world import state as state_of
from tidemill.repo.open import on_branch
from tidemill.store import Store, open_store
from tidemill.upkeep.merge_choice import MergeRule
from tidemill.upkeep.merging import merge

SEEDS = int(os.environ.get("TIDEMILL_SCHEDULES", "0"))
FIRST_SEED = int(os.environ.get("TIDEMILL_SEED", "0"))
PAIR = os.environ.get("TIDEMILL_PAIR", "")
FORGOTTEN = "once"
"""A user of one file."""
BEGUN = 3
"""Versions before the two begin. Three files wait."""
SWEEP_MS = 1000 * 3 * (BEGUN - 1) + 900
"""When all deadlines of the last version are due, and before the next file's time."""
REFUSALS = (tm.Fenced, tm.InvalidInput, tm.StoreUnavailable)


def users(p: tm.Pipeline, world: World) -> None:
    """Totals by user, which end half a second of batch time after the last row, and counts by number."""
    p.batch_time(lambda plan: 3000 * max(int(Path(split.path).stem) for split in plan.splits))
    rows = world.read(p)
    rows.groupBy("user").mapWithState(
        tm.StateSpec.function(worlds.track).timeout(f"{ledger_model.TIMEOUT_MS} ms"),
        stateSchema="long", outputSchema="user string, n long, closed boolean", name="users",
    ).write(tm.Parquet(world.sink("users")))  # fmt: skip
    rows.groupBy("n").agg(users=tm.count(), name="by-n").write(tm.Json(world.sink("by-n")))


def add(table: pa.Table) -> pa.Table:
    """Migrate the state of `users`."""
    return table.set_column(1, "state", pc.add(table["state"], ledger_model.MIGRATED))


def never(table: pa.Table) -> pa.Table:
    """Merge rows of one key: with this, a migration exchanges all rows."""
    raise AssertionError(f"no two rows have one key: {table}")


def requeue(r: tm.Repository, version: int) -> Any:
    """Correct the rows that a version quarantined, and give them back."""
    table = r.quarantine(version, export=True)
    rows = [row | ledger_model.RETURNED for row in table.to_pylist()]
    return r.requeue(version, rows=pa.Table.from_pylist(rows, schema=table.schema))


Actor = Callable[[tm.Repository, random.Random], Any]
ACTORS: dict[str, Actor] = {
    "run": lambda r, chance: r.run(engine="local", tasks=chance.choice([1, 1, 2]), max_batches=chance.choice([1, 2])),
    "sweep": lambda r, chance: r.sweep(engine="local", tasks=1, batch_time=SWEEP_MS),
    "maintain": lambda r, chance: r.maintain(keep_versions=chance.choice([1, 1, 2])),
    "rewind": lambda r, chance: r.rewind(chance.randrange(-1, BEGUN - 1), "a test"),
    "forget": lambda r, chance: forget(r),
    "skip": lambda r, chance: r.skip(f"{chance.choice([BEGUN, BEGUN, FILES - 1]):04d}.json", "a test"),
    "publish": lambda r, chance: r.publish(chance.choice([0, None])),
    "compact": lambda r, chance: r.maintain(compact_sinks=True, sink_file_size=chance.choice(["1 MiB", "3 KiB"])),
    "migrate": lambda r, chance: r.migrate({"users": add}, "a test", merge=chance.choice([None, never]), tasks=1),
    "requeue": lambda r, chance: requeue(r, chance.choice([BEGUN - 1, BEGUN - 1, 0])),
    "branch": lambda r, chance: branch(r, chance.choice([0, BEGUN - 1, None]), chance.random() < 0.5),
    "tag": lambda r, chance: r.tag("month-end", chance.choice([0, BEGUN - 1, None]), move=True),
    "untag": lambda r, chance: r.untag("before-deploy"),
}  # fmt: skip
"""Everything that may be done at once, each of it also beside itself."""
APART = {"sweep+compact", "compact+tag", "compact+untag"}
"""Pairs that touch nothing in common but the number of the next commit, which other pairs compete for, too."""
USUAL = 45
"""Of so many pairs every run tries one order; an exhaustive run does of all."""
PAIRS = [pair for a, b in itertools.combinations_with_replacement(ACTORS, 2) if (pair := f"{a}+{b}") not in APART]


def three_versions(world: Place) -> None:
    world.open().init()
    for _ in range(BEGUN):
        world.run(1)
    world.open().tag("before-deploy", 1)


def planned(world: Place) -> None:
    """The next batch is planned and has written its files, but is not committed."""
    three_versions(world)
    with worlds.dying("create", rf"/commits/{BEGUN:010d}\.json$", "before"):
        world.run()


def unpublished(world: Place) -> None:
    """The last version is committed, and nothing of it is published."""
    world.open().init()
    for _ in range(BEGUN - 1):
        world.run(1)
    world.open().tag("before-deploy", 1)
    with worlds.dying("create", rf"/commits/{BEGUN - 1:010d}\.json$", "after"):
        world.run(1)


def rewound(world: Place) -> None:
    """Version 1 was undone, and its file was read again."""
    world.open().init()
    for _ in range(BEGUN - 1):
        world.run(1)
    world.open().rewind(0, "a test")
    world.run(1)
    world.open().tag("before-deploy", 1)


BEGINNINGS = (three_versions, planned, unpublished, rewound)


@dataclass(frozen=True)
class Prepared:
    """A repository before the two begin, under the key of the store in which it was made."""

    inner: Store
    key: str
    place: Place

    def opened(self, schedule: Schedule) -> tuple[Place, ScheduledStore]:
        copy = open_store(f"memory://{uuid.uuid4().hex}")
        for entry in self.inner.list():
            copy.put(entry.name, self.inner.get(entry.name))
        store = ScheduledStore(copy, schedule, self.key)
        return self.place.at(store.uri), store


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> list[Prepared]:
    place = worlds.filled(tmp_path_factory.mktemp("scheduled"), "memory://", users)
    with (place.inbox / f"{BEGUN - 2:04d}.json").open("a") as file:
        file.write(json.dumps({"user": FORGOTTEN, "n": 1, "ts": "2024-01-01T00:00:00"}) + "\n")
    made = []
    for begin in BEGINNINGS:
        inner, key = open_store(f"memory://{uuid.uuid4().hex}"), uuid.uuid4().hex
        store = ScheduledStore(inner, Schedule(random.Random(0)), key)
        begin(place.at(store.uri))
        made.append(Prepared(inner, key, place))
    return made


@pytest.fixture(autouse=True)
def everything_is_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge however few rows there are."""
    monkeypatch.setattr("tidemill.actions.maintaining.merge", functools.partial(merge, rule=MergeRule(1 << 40, 0)))


def play(prepared: list[Prepared], pair: str, seed: int) -> tuple[list[str], dict[str, Any], str]:
    """Let two actors act at once, check what is left, run to the end, and check again.

    Returns the calls, the results, and the name of the repository's beginning.
    """
    chance = random.Random(f"{pair} {seed}")
    which = chance.randrange(len(BEGINNINGS))
    schedule = Schedule(chance)
    world, _store = prepared[which].opened(schedule)
    first, second = pair.split("+")
    actors = {
        f"{side} {name}": functools.partial(ACTORS[name], world.open(), random.Random(chance.random()))
        for side, name in (("A", first), ("B", second))
    }
    with determined(chance):
        results = schedule.run(actors)
    try:
        for name, result in results.items():
            if isinstance(result, BaseException) and not isinstance(result, REFUSALS):
                raise AssertionError(f"{name} raised {result!r}") from result
        numbers = [call.name for call in schedule.created if "/commits/" in call.name or "/refs/" in call.name]
        assert len(numbers) == len(set(numbers))
        check(world, is_settled=False)
        world.run()
        check(world, is_settled=True)
    except Exception as error:
        calls = "\n".join(map(str, schedule.calls))
        raise AssertionError(
            f"TIDEMILL_PAIR={pair} TIDEMILL_SEED={seed}, {BEGINNINGS[which].__name__}: {error}\n"
            f"{ {name: repr(result)[:200] for name, result in results.items()} }\n{calls}"
        ) from error
    return [str(call) for call in schedule.calls], results, BEGINNINGS[which].__name__


def check(world: Place, is_settled: bool) -> None:
    """Compare a repository with the model. `is_settled`: a run has ended since the last action."""
    r = world.open()
    log = list(happened(r))
    model = ledger_model.versions(log, world.inbox, FORGOTTEN)
    assert [one.version for one in log] == list(range(len(log)))
    assert r.verify(deep=True).problems == []
    refs, head, back = r.opened.refresh(), model[-1], {path for one in log for path in one.requeued}
    floor = max(0, refs.floors["main"].highest if "main" in refs.floors else 0)
    for number in range(-1, len(log)):
        if number == -1 or number >= floor or number in [one.version for one in refs.tags.values()]:
            assert state(r, number) == (dict_of(model[number + 1]), model[number + 1].by_n), number
    for sink in ("users", "by-n"):
        kept = [row for row in head.rows[sink] if row[0] >= floor and row[0] >= forgotten_at(log)]
        assert emitted(r, sink, kept_from=forgotten_at(log)) == sorted(kept), sink
    check_branches(r, model)
    if is_settled:
        assert {name for name in head.done if name not in back} == {f"{number:04d}.json" for number in range(FILES)}
        assert not head.waiting
        assert set(r.status().waiting_files.values()) == {0}
        since = [one for one in log if one.version >= forgotten_at(log)]
        came_back = any(FORGOTTEN in (world.inbox / name).read_text() for one in since for name in {*one.files} - back)
        assert published(world) == {sink: sorted(map(repr, rows)) for sink, rows in head.rows.items()}
        if not came_back:
            problems = r.verify(forgotten=True).problems
            if problems and all("/fix-" in one.object for one in problems):
                forget(r)  # a run of the branch began before the first `forget`, which dropped the branch meanwhile
                problems = r.verify(forgotten=True).problems
            assert problems == []


def forget(r: tm.Repository) -> Any:
    return r.forget("users", [FORGOTTEN], "a test", {"users": "user"}, drop_refs=True, missing_ok=True)


def branch(r: tm.Repository, at: int | None, runs: bool) -> None:
    """Start a branch, and perhaps run on it."""
    r.branch("fix", at)
    if runs:
        tm.Repository(on_branch(r.opened, "fix")).run(engine="local", tasks=1, max_batches=1)


def check_branches(r: tm.Repository, model: list[Version]) -> None:
    """A branch has the version from which it starts, whatever became of it, and its own ones."""
    for one in r.branches()[1:]:
        b = tm.Repository(on_branch(r.opened, one.name))
        start = model[one.fork_version + 1]
        assert state(b, one.fork_version) == (dict_of(start), start.by_n), one
        read = [split.path for commit in b.commits() for split in (b.opened.log.plan(commit.version).splits
                if commit.branch == one.id else ())]  # fmt: skip
        assert len(read) == len(set(read)) and not set(read) & start.done
        assert b.verify(deep=True).problems == []


def happened(r: tm.Repository) -> Iterator[Happened]:
    for commit in r.opened.log.commits():
        plan = r.opened.log.plan(commit.version)
        ran = commit.kind in ("batch", "sweep")
        assert plan is not None or not ran
        files = tuple(split.path for split in plan.splits) if plan is not None and ran else ()
        skipped = tuple(one.path for one in commit.skipped)
        restores = commit.restores.version if commit.restores is not None else -1
        back = tuple(split.path for split in commit.requeued)
        yield Happened(commit.version, commit.kind, commit.batch_time_ms, files, skipped, restores, back)


def forgotten_at(log: list[Happened]) -> int:
    return max((one.version for one in log if one.kind == "forget"), default=0)


def dict_of(version: Version) -> dict[str, int]:
    return {name: total for name, (total, _) in version.users.items()}


def state(r: tm.Repository, version: int) -> tuple[dict[str, int], dict[int, int]]:
    return state_of(r, "users", version), state_of(r, "by-n", version)


def emitted(r: tm.Repository, sink: str, kept_from: int) -> list[tuple[Any, ...]]:
    columns = {"users": ("user", "n", "closed"), "by-n": ("n", "users")}[sink]
    table = r.outputs(sink=sink).to_pylist()
    return sorted((row["_batch_id"], *(row[c] for c in columns)) for row in table if row["_batch_id"] >= kept_from)


def published(world: Place) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"users": [], "by-n": []}
    for entry in world.store.list(f"{world.sink_name}/"):
        sink = entry.name.split("/")[1]
        columns = {"users": ("user", "n", "closed"), "by-n": ("n", "users")}[sink]
        for row in worlds.cells_of(entry.name, world.store.get(entry.name)):
            found[sink].append(repr((row["_batch_id"], *(row[c] for c in columns))))
    return {sink: sorted(rows) for sink, rows in found.items()}


def chosen(pairs: list[str]) -> list[str]:
    return [PAIR] if PAIR else pairs


def pairs_of(*names: str) -> list[str]:
    return [pair for pair in PAIRS if {*names} & {*pair.split("+")}]


@pytest.mark.parametrize("pair", chosen(some([pair for pair in PAIRS if pair not in pairs_of("untag")], USUAL)))
def test_two_at_once_leave_what_the_log_says(prepared: list[Prepared], pair: str) -> None:
    play(prepared, pair, FIRST_SEED)


@pytest.mark.slow("two at once, in many orders")
@pytest.mark.parametrize("pair", chosen(PAIRS if SEEDS or EXHAUSTIVE else pairs_of("untag")))
def test_two_at_once_leave_what_the_log_says_in_many_orders(prepared: list[Prepared], pair: str) -> None:
    for seed in range(FIRST_SEED + 1, FIRST_SEED + 1 + (SEEDS or 1)):
        play(prepared, pair, seed)


@pytest.mark.parametrize("name", list(ACTORS))
def test_each_actor_alone_is_not_refused(prepared: list[Prepared], name: str) -> None:
    schedule = Schedule(random.Random(0))
    world, _store = prepared[0].opened(schedule)
    ACTORS[name](world.open(), random.Random(1))
    world.run()
    check(world, is_settled=True)


@pytest.mark.parametrize("pair", ["run+maintain", "rewind+run"])
def test_a_seed_gives_the_same_calls_again(prepared: list[Prepared], pair: str) -> None:
    calls, results, _ = play(prepared, pair, 7)
    again, _, _ = play(prepared, pair, 7)
    assert calls == again
    assert len({call.partition(":")[0] for call in calls}) == 2
    assert Counter(map(type, results.values())).total() == 2
