"""Rewinds, skips, tags, retention, compaction and garbage collection in random order, beside a naive model.

The model keeps every version as a value of its own: totals, files that were read, and the rows of its history. The
engine must agree on every version that is kept, in state, outputs, published files and waiting files; `verify` must
find nothing, and garbage collection must leave nothing that no kept version needs.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.exhaustive import EXHAUSTIVE
from tests.world import World, state

Row = tuple[str, int, int]
"""Key, total and the version that emitted it."""


@dataclass(frozen=True)
class Version:
    """One version: the totals by key, the files that were read or skipped, and the rows of its effective history."""

    totals: dict[str, int] = field(default_factory=dict)
    done: frozenset[str] = frozenset()
    rows: tuple[Row, ...] = ()


@dataclass
class Model:
    """All versions, by number; version -1 is the first. `content` has the rows of each file."""

    versions: list[Version] = field(default_factory=lambda: [Version()])
    content: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    floor: int = 0
    has_forgotten: bool = False

    @property
    def head(self) -> int:
        return len(self.versions) - 2

    def at(self, version: int) -> Version:
        return self.versions[version + 1]

    def is_kept(self, version: int) -> bool:
        return version == -1 or version >= self.floor or version in self.tags.values()

    @property
    def waiting(self) -> list[str]:
        return sorted(self.content.keys() - self.at(self.head).done)

    def run(self) -> None:
        for name in self.waiting:  # one file a batch
            before = self.at(self.head)
            totals = dict(before.totals)
            for key, value in self.content[name]:
                totals[key] = totals.get(key, 0) + value
            touched = {key for key, _ in self.content[name]}
            emitted = tuple((key, totals[key], self.head + 1) for key in sorted(touched))
            self.versions.append(Version(totals, before.done | {name}, before.rows + emitted))

    def rewind(self, to: int, without: list[str]) -> None:
        target = self.at(to)
        self.versions.append(dataclasses.replace(target, done=target.done | set(without)))

    def forget(self, key: str) -> None:
        head = self.at(self.head)
        totals = {one: total for one, total in head.totals.items() if one != key}
        rows = tuple(row for row in head.rows if row[0] != key)
        self.versions.append(Version(totals, head.done, rows))
        self.floor, self.has_forgotten = self.head, True
        self.tags = {}

    def skip(self, name: str) -> None:
        head = self.at(self.head)
        self.versions.append(dataclasses.replace(head, done=head.done | {name}))


def totals(p: tm.Pipeline, world: World) -> None:
    world.read(p).groupBy("k").agg(total=tm.sum("v"), name="totals").write(tm.Json(world.out))


class Both(World):
    """The model and the engine side by side."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, totals)
        self.chance, self.model = chance, Model()
        self.restored: tuple[int, list[str]] | None = None
        """The version that the head restores, and the files that it took out."""

    def step(self) -> str:
        """Do something at random, and return what."""
        actions = (
            [self.arrive_and_run] * 4
            + [self.rewind] * 3
            + [self.maintain] * 2
            + [self.tag, self.untag, self.skip, self.forget, self.compact, self.compact]
        )
        return self.chance.choice(actions)()

    def arrive_and_run(self) -> str:
        for _ in range(self.chance.randint(1, 3)):
            rows = [(self.chance.choice("abcd"), self.chance.randint(0, 9)) for _ in range(3)]
            [file] = self.arrive(rows)
            self.model.content[file.name] = rows
        self.model.run()
        self.restored = None
        self.run()
        return "run"

    def rewind(self) -> str:
        to = self.chance.randint(-1, self.model.head)
        if self.model.head < 0 or not self.model.is_kept(to):
            return self._refused(lambda r: r.rewind(to, "a test"), "no longer kept|has no version yet")
        if to < 0 and self.model.has_forgotten:
            return self._refused(lambda r: r.rewind(to, "a test"), "forgot keys")
        target = self.model.at(to)
        ahead = sorted(self.model.content.keys() - target.done)
        without = self.chance.sample(ahead, min(len(ahead), self.chance.randint(0, 1)))
        back = {version for *_, version in target.rows} - {
            version for *_, version in self.model.at(self.model.head).rows
        }
        if not all(self.model.is_kept(version) for version in back):
            return self._refused(lambda r: r.rewind(to, "a test"), "no longer kept")
        if (to == self.model.head and not without) or (to, without) == self.restored:
            return self._refused(lambda r: r.rewind(to, "a test", without), "nothing would change")
        self.open().rewind(to, "a test", without)
        self.model.rewind(to, without)
        self.restored = (to, without)
        return f"rewind to {to} without {without}"

    def maintain(self) -> str:
        keep = self.chance.randint(1, 6)
        self.open().maintain(keep_versions=keep)
        self.model.floor = max(self.model.floor, self.model.head - keep + 1)
        assert self.open().maintain(dry_run=True).garbage == []
        return f"maintain {keep}"

    def compact(self) -> str:
        """Small published files become fewer; each group is a version that changes nothing else."""
        made = self.open().maintain(compact_sinks=True).compacted
        for _ in made:
            self.model.versions.append(self.model.at(self.model.head))
            self.restored = None
        assert self.open().maintain(compact_sinks=True, dry_run=True).compacted == []
        return f"compact {[(one.first, one.last, one.files_before) for one in made]}"

    def tag(self) -> str:
        version = self.chance.randint(0, max(self.model.head, 0))
        if version > self.model.head or not self.model.is_kept(version):
            return self._refused(lambda r: r.tag("t", version, move=True), "no longer kept|no version yet")
        name = self.chance.choice(["month-end", "before-deploy"])
        self.open().tag(name, version, move=True)
        self.model.tags[name] = version
        return f"tag {name} {version}"

    def untag(self) -> str:
        for name in list(self.model.tags)[:1]:
            self.open().untag(name)
            del self.model.tags[name]
        return "untag"

    def forget(self) -> str:
        key = self.chance.choice("abcd")
        if self.model.head < 0:
            return self._refused(lambda r: r.forget("totals", [key], "a test"), "no version yet")
        made = self.open().forget("totals", [key], "a test", columns={"totals": "k"}, drop_refs=True, missing_ok=True)
        if made.version == self.model.head:  # the head has forgotten the key already
            return f"forget {key} again"
        self.model.forget(key)
        self.restored = None
        return f"forget {key}"

    def skip(self) -> str:
        [file] = self.arrive("x,1\n")
        self.model.content[file.name] = [("x", 1)]
        self.open().skip(file.name, "a test")
        self.model.skip(file.name)
        self.restored = None
        return f"skip {file.name}"

    def _refused(self, call: Any, said: str) -> str:
        with pytest.raises(tm.InvalidInput, match=said):
            call(self.open())
        return "refused"

    def check(self) -> None:
        r, model = self.open(), self.model
        head = model.at(model.head)
        assert (-1 if r.head is None else r.head.version) == model.head
        for version in range(-1, model.head + 1):
            if model.is_kept(version):
                assert state(r, "totals", version) == model.at(version).totals, version
            else:
                with pytest.raises(tm.InvalidInput, match="no longer kept"):
                    r.state(version=version)
        for name, version in model.tags.items():
            assert state(r, "totals", name) == model.at(version).totals
        assert rows(r.outputs()) == sorted(row for row in head.rows if row[2] >= model.floor)
        assert self.rows_of_files() == sorted(head.rows)
        assert r.status().waiting_files == ({"source": len(model.waiting)} if model.waiting else {"source": 0})
        assert r.verify(deep=True).problems == []

    def rows_of_files(self) -> list[Row]:
        return sorted((row["k"], row["total"], row["_batch_id"]) for row in self.published())


def rows(table: Any) -> list[Row]:
    return sorted(zip(*(table[name].to_pylist() for name in ("k", "total", "_batch_id")), strict=True))


def play(folder: Path, seed: int, steps: int) -> None:
    both = Both(folder, random.Random(seed))
    done: list[str] = []
    for _ in range(steps):
        done.append(both.step())
        try:
            both.check()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, after {done}") from error


@pytest.mark.parametrize("seed", range(3))
def test_random_corrections_and_upkeep_agree_with_a_naive_model(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, 15)


@pytest.mark.slow("long random runs")
@pytest.mark.parametrize("seed", range(100, 108 if EXHAUSTIVE else 104))
def test_long_random_corrections_and_upkeep_agree_with_a_naive_model(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, 40)
