"""Two actors at once on branches, interleaved at every store call in an order that a seed gives.

Each of the two succeeds or is refused. Then every branch has each file once, its state is that of these files, sinks
show the effective history of `main`, and `verify` finds nothing; also after a run and a replay that follow.
`TIDEMILL_SCHEDULES` sets the number of seeds for each pair (default: 1, and not for all pairs), `TIDEMILL_SEED` the
first one, and `TIDEMILL_PAIR` (such as `run+promote`) chooses one pair.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import random
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import tidemill as tm
from tests.crash import worlds
from tests.crash.scheduled import Schedule, ScheduledStore, determined
from tests.crash.test_scheduled import REFUSALS, Prepared, users
from tests.crash.test_scheduled import published as seen_by_readers
from tests.crash.worlds import Place
from tests.exhaustive import EXHAUSTIVE
from tests.world import state
from tidemill.repo.open import on_branch
from tidemill.repo.steps import Steps
from tidemill.store import open_store

pytestmark = pytest.mark.slow("interrupt a run at every step")

SEEDS = int(os.environ.get("TIDEMILL_SCHEDULES", "0"))
FIRST_SEED = int(os.environ.get("TIDEMILL_SEED", "0"))
PAIR = os.environ.get("TIDEMILL_PAIR", "")
BEGUN = 4
"""Versions of `main` before the two begin; two files wait. Branch `fix` has repeated two of them, `two` all."""
Actor = Callable[[tm.Repository, random.Random], Any]


def replay(r: tm.Repository, into: str, chance: random.Random, **arguments: Any) -> Any:
    return r.replay(0, into=into, engine="local", tasks=1, follow=chance.random() < 0.5, **arguments)


def on(r: tm.Repository, branch: str) -> tm.Repository:
    return tm.Repository(on_branch(r.opened, branch))


ACTORS: dict[str, Actor] = {
    "run": lambda r, chance: r.run(engine="local", tasks=1, max_batches=chance.choice([1, 2])),
    "maintain": lambda r, chance: r.maintain(keep_versions=1, compact_sinks=chance.random() < 0.5),
    "rewind": lambda r, chance: r.rewind(chance.randrange(-1, BEGUN - 1), "a test"),
    "replay": lambda r, chance: replay(r, "fix", chance),
    "replay into new": lambda r, chance: replay(r, "new", chance),
    "replay operators": lambda r, chance: replay(r, "new", chance, operators=["by-n"]),
    "promote": lambda r, chance: r.promote(
        "two", catch_up=chance.random() < 0.5, outputs=chance.choice(["correct", "correct", "keep"]), engine="local"
    ),
    "catch up": lambda r, chance: r.promote("fix", catch_up=True, engine="local"),
    "drop": lambda r, chance: r.drop_branch(chance.choice(["fix", "two"])),
    "run there": lambda r, chance: on(r, "fix").run(engine="local", tasks=1, max_batches=chance.choice([1, 9])),
    "rewind there": lambda r, chance: on(r, "fix").rewind(0, "a test"),
    "branch there": lambda r, chance: on(r, chance.choice(["fix", "two"])).branch("new", 1),
}  # fmt: skip
PAIRS = [f"{a}+{b}" for a, b in itertools.combinations_with_replacement(ACTORS, 2)]
USUAL = [
    "run+promote", "run+catch up", "run+replay", "replay+replay", "replay+drop", "maintain+replay operators",
    "replay into new+replay operators", "promote+promote", "promote+drop", "rewind+promote", "replay+run there",
    "maintain+catch up",
]  # fmt: skip
"""Pairs that are tried without `TIDEMILL_SCHEDULES`."""
assert {*USUAL} <= {*PAIRS}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    inner, key = open_store(f"memory://{uuid.uuid4().hex}"), uuid.uuid4().hex
    store = ScheduledStore(inner, Schedule(random.Random(0)), key)
    world = worlds.filled(tmp_path_factory.mktemp("branches"), store.uri, users)
    world.open().init()
    for _ in range(BEGUN):
        world.run(1)
    for name, batches in (("fix", 2), ("two", None)):
        world.open().replay(0, into=name, engine="local", tasks=1, max_batches=batches)
    return Prepared(inner, key, world)


def play(prepared: Prepared, pair: str, seed: int) -> None:
    chance = random.Random(f"{pair} {seed}")
    schedule = Schedule(chance)
    world, _store = prepared.opened(schedule)
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
        check(world)
        world.run()
        if "keep" not in repr(results):
            check(world, is_settled=True)
        for name in ("fix", "new"):
            with contextlib.suppress(tm.InvalidInput):
                world.open().replay(0, into=name, engine="local", tasks=1)
        world.open().maintain(keep_versions=1)
        check(world)
    except Exception as error:
        calls = "\n".join(map(str, schedule.calls))
        raise AssertionError(
            f"TIDEMILL_PAIR={pair} TIDEMILL_SEED={seed}: {error}\n"
            f"{ {name: repr(result)[:300] for name, result in results.items()} }\n{calls}"
        ) from error


def check(world: Place, is_settled: bool = False) -> None:
    """Compare every branch with its input files, and the sinks with the history of `main`."""
    r = world.open()
    for one in r.branches():
        b = on(r, one.name)
        head = b.opened.head()
        read: Counter[str] = Counter()
        steps = Steps(b.opened, head)
        for step in steps.all:
            plan = steps.plan_of(step, steps.commit(step))
            read.update(split.path for split in (() if plan is None else plan.splits))
        assert max(read.values(), default=1) == 1, (one, read)
        assert state(b, "by-n") == by_n(world, read), one
        assert b.verify(deep=True).problems == []
        if one.name == "main" and is_settled:
            assert sorted(read) == sorted(path.name for path in world.inbox.iterdir())
            assert not any(r.status().waiting_files.values())
    since = r.opened.initialised().floors.get("main")
    if since is None or since.highest <= 0:
        columns = {"users": ("user", "n", "closed"), "by-n": ("n", "users")}
        for sink, rows in seen_by_readers(world).items():
            table = r.outputs(sink=sink).to_pylist()
            ours = [repr((row["_batch_id"], *(row[c] for c in columns[sink]))) for row in table]
            if is_settled:
                assert sorted(ours) == rows, sink


def by_n(world: Place, read: Counter[str]) -> dict[int, int]:
    found: Counter[int] = Counter()
    for name in read:
        lines = (world.inbox / name).read_text().splitlines()
        found.update(json.loads(line)["n"] for line in lines if line.startswith("{"))
    return dict(found)


@pytest.mark.slow("two at once, in many orders")
@pytest.mark.parametrize("pair", [PAIR] if PAIR else PAIRS if SEEDS or EXHAUSTIVE else USUAL)
def test_two_at_once_on_branches_leave_each_file_once(prepared: Prepared, pair: str) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + (SEEDS or 1)):
        play(prepared, pair, seed)
