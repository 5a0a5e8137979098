"""docs/format.md is sufficient to read a repository: a reader that shares no code gives what a plain loop computes."""

from __future__ import annotations

import ast
import hashlib
import json
import random
import shutil
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.golden import foreign_reader
from tests.golden.foreign_reader import Corrupt, Reader
from tests.unit.native.naive_keys import naive_hash
from tests.world import World, run
from tidemill import names
from tidemill.protocol.entries import NewBranch, TagEntry
from tidemill.protocol.log import Fork, Log
from tidemill.protocol.refs_log import RefsLog, position
from tidemill.protocol.successor import Origin, successor

VERSIONS, FORK, MOST_LINES = 6, 2, 200
Key = tuple[str | None, int]


def total(key: Any, n: int, state: Any) -> Any:
    """Sum the numbers of a key; 0 removes it."""
    if n == 0:
        state.remove()
        return (*key, None)
    state.update((state.getOption or 0) + n)
    return (*key, state.get)


def sums(p: tm.Pipeline, world: World) -> None:
    rows = world.read(p)
    rows.groupBy("user", "shop").mapWithState(
        tm.StateSpec.function(total), value="n", name="totals", stateSchema="long",
        outputSchema="user string, shop int, total long",
    ).write(tm.Parquet(world.out), name="totals")  # fmt: skip
    by_shop = rows.groupBy("shop").agg(rows=tm.count(), name="by-shop")
    by_shop.write(tm.Json(world.sink("by-shop")), name="by-shop")


class Model:
    """What each version must give, by a loop over the rows."""

    def __init__(self) -> None:
        self.totals: list[dict[Key, int]] = []
        self.outputs: list[Counter[tuple[Any, ...]]] = []
        self.shops: list[dict[int, int]] = []

    def batch(self, rows: list[dict[str, Any]]) -> None:
        totals = dict(self.totals[-1]) if self.totals else {}
        shops = dict(self.shops[-1]) if self.shops else {}
        emitted: Counter[tuple[Any, ...]] = Counter()
        for row in rows:
            key = (row["user"], row["shop"])
            if row["n"] == 0:
                totals.pop(key, None)
            else:
                totals[key] = totals.get(key, 0) + row["n"]
            emitted[(*key, totals.get(key))] += 1
            shops[row["shop"]] = shops.get(row["shop"], 0) + 1
        self.totals.append(totals)
        self.outputs.append(emitted)
        self.shops.append(shops)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Model]:
    """A repository with a branch and a tag, whose batches had several tasks, and what it must hold."""
    folder, chance, model = tmp_path_factory.mktemp("read"), random.Random(4), Model()
    world = World(folder, sums, name="read", format="json", schema="user string, shop int, n int")
    repository = world.open()
    for _ in range(VERSIONS):
        users = ["", "ü", None, *"abcdefgh"]
        rows = [
            {"user": chance.choice(users), "shop": chance.randrange(3), "n": chance.choice([0, 1, 2, 3])}
            for _ in range(40)
        ]
        world.arrive(rows)
        run(repository, tasks=chance.choice([1, 2, 3]))
        model.batch(rows)
    add_branch(repository)
    return folder / "root/read", model


def add_branch(repository: tm.Repository) -> None:
    """Add the branch `fix` from an old version, with a commit of its own, and a tag."""
    store, fork = repository.opened.store, repository.commit(FORK).as_parent
    log = RefsLog(store)
    forked = {"fork_branch": fork.branch, "fork_version": fork.version, "fork_checksum": fork.checksum}
    made = log.append(lambda refs, number: NewBranch(**position(refs, 1), name="fix", id=f"fix-{number}", **forked))
    refs = log.append(lambda refs, _: TagEntry(**position(refs, 1), name="good", branch="main", version=1))
    branch = made.branches["fix"].id
    commits = Log(store, branch, Fork(repository.opened.log, fork))
    void = {"reason": "a test", "attempt": uuid.uuid4().hex[:12]}
    commits.create_commit(successor(Origin(refs, branch, commits.head()), "void", void))


def totals(reader: Reader, commit: dict[str, Any]) -> dict[Key, int]:
    return {(row["user"], row["shop"]): row["state"] for row in reader.state(commit, "totals", "state")}


def test_the_reader_shares_no_code_and_is_short() -> None:
    source = Path(foreign_reader.__file__).read_text()
    assert len(source.splitlines()) < MOST_LINES
    imported = {
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names])
    }
    assert not {name for name in imported if name and name.split(".")[0] in ("tidemill", "tests")}


def test_the_head_is_read(made: tuple[Path, Model]) -> None:
    path, model = made
    reader = Reader(path)
    assert reader.head()["version"] == VERSIONS - 1
    assert totals(reader, reader.head()) == model.totals[-1]


@pytest.mark.parametrize("version", range(VERSIONS))
def test_old_versions_are_read(made: tuple[Path, Model], version: int) -> None:
    path, model = made
    reader = Reader(path)
    commit = reader.commit(version)
    assert totals(reader, commit) == model.totals[version]
    shops = reader.state(commit, "by-shop", "partials")
    assert {row["shop"] for row in shops} == model.shops[version].keys()


@pytest.mark.parametrize("version", range(VERSIONS))
def test_outputs_are_read(made: tuple[Path, Model], version: int) -> None:
    path, model = made
    reader = Reader(path)
    rows = reader.outputs(reader.commit(version), "totals")
    assert Counter((row["user"], row["shop"], row["total"]) for row in rows) == model.outputs[version]
    assert {row["_batch_id"] for row in rows} == {version}
    found = {row["shop"]: row["rows"] for row in reader.outputs(reader.commit(version), "by-shop")}
    before = model.shops[version - 1] if version else {}
    assert found == {shop: n for shop, n in model.shops[version].items() if before.get(shop) != n}


def test_a_branch_is_read_across_its_fork(made: tuple[Path, Model]) -> None:
    path, model = made
    reader = Reader(path)
    head = reader.head("fix")
    assert (head["version"], head["kind"]) == (FORK + 1, "void")
    assert totals(reader, head) == totals(reader, reader.commit(FORK, "fix")) == model.totals[FORK]
    assert totals(reader, reader.commit(0, "fix")) == model.totals[0]
    assert reader.tags == {"good": ("main", 1)}


@pytest.fixture
def copy(made: tuple[Path, Model], tmp_path: Path) -> Path:
    """A copy of the repository that a test may change."""
    return Path(shutil.copytree(made[0], tmp_path / "copy"))


def reseal(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a record and give it a right checksum again."""
    record = json.loads(path.read_bytes())
    del record["checksum"]
    change(record)
    body = json.dumps(record).encode()[:-1]
    path.write_bytes(body + f',"checksum":"{hashlib.blake2b(body, digest_size=16).hexdigest()}"}}'.encode())


@pytest.mark.parametrize("name", [names.ref(0), names.ref(1), names.commit("main", 3)])
def test_a_changed_record_is_corrupt(copy: Path, name: str) -> None:
    assert Reader(copy).commit(3)
    data = (copy / name).read_bytes()
    (copy / name).write_bytes(data.replace(b'"format":1', b'"format": 1'))
    with pytest.raises(Corrupt, match="wrong checksum"):
        Reader(copy).commit(3)


def test_a_commit_that_follows_another_one_is_corrupt(copy: Path) -> None:
    reseal(copy / names.commit("main", 2), lambda record: record.update(reason="another history"))
    with pytest.raises(Corrupt, match="another parent"):
        Reader(copy).commit(3)


def test_rows_outside_of_the_range_of_a_segment_are_not_read(copy: Path, made: tuple[Path, Model]) -> None:
    half = 2**63

    def narrow(record: dict[str, Any]) -> None:
        for segment in record["state"]["totals"]["state"]:
            segment["hi"] = f"{min(int(segment['hi'], 16), half):016x}"
        del record["rows"]["totals"]

    reseal(copy / names.commit("main", VERSIONS - 1), narrow)
    reader = Reader(copy)
    expected = {
        key: total
        for key, total in made[1].totals[-1].items()
        if naive_hash(key[1], pa.int32(), naive_hash(key[0], pa.string())) <= half
    }
    assert 0 < len(expected) < len(made[1].totals[-1])
    assert totals(reader, reader.head()) == expected
