"""`forget(rewrite=True)` among rewinds, tags, retention and compaction in random order, beside a naive model.

The model is that of `test_undo`: every version is a value of its own. Such a `forget` takes the key out of all of them,
and out of files that arrived before it, if they are read again in a history without it. After every step, the engine
agrees on every kept version, and no file of the repository or the sink has a forgotten key that did not arrive again.
"""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest

from tests.exhaustive import EXHAUSTIVE
from tests.journeys.forgotten import holding
from tests.model.test_undo import Both, rows

KEYS = ("ann-7391", "bob-5512", "carol-1180", "dan-6604")


class Rewriting(Both):
    """`forgets` has each one's version with its key, `histories` the effective history of each version."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self.forgets: dict[int, str] = {}
        self.arrived: dict[str, int] = {}
        self.content: dict[str, list[tuple[str, int]]] = {}
        self.histories: list[frozenset[int]] = [frozenset()]

    def step(self) -> str:
        actions = (
            [self.arrive_and_run] * 4 + [self.rewind] * 3 + [self.forget] * 3
            + [self.maintain, self.tag, self.untag, self.compact, self.skip]
        )  # fmt: skip
        said = self.chance.choice(actions)()
        base = self.histories[self.restored[0] + 1] if said.startswith("rewind") else self.histories[-1]
        for version in range(len(self.histories) - 1, self.model.head + 1):
            base = base | {version}
            self.histories.append(base)
        return said

    def arrive_and_run(self) -> str:
        for _ in range(self.chance.randint(1, 3)):
            lines = [(self.chance.choice(KEYS), self.chance.randint(0, 9)) for _ in range(3)]
            [file] = self.arrive(lines)
            self.content[file.name], self.arrived[file.name] = lines, self.model.head
        outside = {version: key for version, key in self.forgets.items() if version not in self.histories[-1]}
        for name, lines in self.content.items():
            gone = {key for version, key in outside.items() if self.arrived[name] < version}
            self.model.content[name] = [line for line in lines if line[0] not in gone]
        self.model.run()
        self.restored = None
        self.run()
        return f"run without {outside}"

    def skip(self) -> str:
        said = super().skip()
        name = said.removeprefix("skip ")
        self.content[name], self.arrived[name] = self.model.content[name], self.model.head - 1
        return said

    def forget(self) -> str:
        key = self.chance.choice(KEYS)
        if self.model.head < 0:
            return self._refused(lambda r: r.forget("totals", [key], "a test", rewrite=True), "no version yet")
        made = self.open().forget("totals", [key], "a test", {"totals": "k"}, missing_ok=True, rewrite=True)
        if made.version != self.model.head:
            for number, version in enumerate(self.model.versions):
                left = {one: total for one, total in version.totals.items() if one != key}
                gone = tuple(row for row in version.rows if row[0] != key)
                self.model.versions[number] = dataclasses.replace(version, totals=left, rows=gone)
            self.model.versions.append(self.model.at(self.model.head))
            self.forgets[self.model.head] = key
            self.restored = None
        return f"forget {key} in {made.version}"

    def check(self) -> None:
        super().check()
        r = self.open()
        for version in range(max(self.model.floor, 0), self.model.head + 1):
            if version in self.histories[-1]:
                ours = [row for row in self.model.at(self.model.head).rows if row[2] == version]
                assert rows(r.outputs(version=version)) == sorted(ours), version
        for key in self.forgets.values():
            if not any(key in one.totals or key in {row[0] for row in one.rows} for one in self.model.versions):
                assert holding(self.folder, key) == [], key
                assert r.history("totals", key) == []


def play(folder: Path, seed: int, steps: int) -> None:
    both = Rewriting(folder, random.Random(seed))
    done: list[str] = []
    for _ in range(steps):
        done.append(both.step())
        try:
            both.check()
        except Exception as error:
            raise AssertionError(f"seed {seed}, after {done}") from error


@pytest.mark.parametrize("seed", range(3))
def test_random_games_with_rewritten_history_agree_with_a_naive_model(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, 14)


@pytest.mark.slow("long random runs")
@pytest.mark.parametrize("seed", range(100, 108 if EXHAUSTIVE else 103))
def test_long_random_games_with_rewritten_history_agree_with_a_naive_model(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed, 40)
