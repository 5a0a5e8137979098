"""Branches, replays and promotions between runs, corrections and upkeep, in random order, beside a naive model.

The pipeline has two sources, four operators (one of them after another), sinks of each kind, late and unreadable rows.
After each step, state, outputs, what plain readers find, quarantine and differences are those of the model, and
`verify` finds nothing. A refused call changes nothing. `TIDEMILL_SEED` and `TIDEMILL_STEPS` choose a game.
"""

from __future__ import annotations

import datetime
import json
import os
import random
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

import tidemill as tm
from tests.model import branches as naive
from tests.model.branches import OPERATORS, SINKS, Code, Input, Version

EPOCH = datetime.datetime(1970, 1, 1)
SCHEMA = "k string, v int, ts timestamp"
UNCACHED = {"tidemill.disk_cache_bytes": 0}
REFUSED = {
    "branch": "no longer kept",
    "replay": "no longer kept|repeats none of|which was rewound|was rewound, or a promotion|starts at version"
    "|then dropped|there is no version yet",
    "promote": "has not read the input|was rewound|has taken over|took out of the input|has no version of its own"
    "|no longer kept|rewound to before|starts from branch",
    "rewind": "no longer kept|nothing would change|has no version yet|read it, so its rows|waits? again",
    "drop": "needs its versions",
    "tag": "no longer kept|has no version",
    "requeue": "no longer kept|was requeued already|cannot come back|quarantined no rows|a promotion, replaced",
}


def by_name(plan: Any) -> int:
    """The batch time: a second a file."""
    return 1000 * max(number_of(split.path) for split in plan.splits)


def number_of(path: str) -> int:
    return int(re.sub(r"\D", "", Path(path).stem))


class Functions:
    """The functions of the pipeline."""

    def __init__(self, code: Code, calls: dict[int, list[dict[str, Any]]]) -> None:
        self.code, self.calls = code, calls

    def seen(self, key: Any, row: Any, state: Any) -> Any:
        if state.isTimingOut:
            return (key, state.get, True)
        state.update((state.getOption or 0) + row.v + self.code.bonus)
        return (key, state.get, False)

    def call(self, table: Any, batch_id: int, withdrawn: Sequence[int] = ()) -> None:
        for gone in (*withdrawn, batch_id):
            self.calls.pop(gone, None)
        self.calls[batch_id] = table.to_pylist()


class Line:
    """A branch of the model: its versions by number, and the code that runs on it."""

    def __init__(self, name: str, fork: Version, code: Code, parent: Line | None = None) -> None:
        self.name, self.fork, self.code, self.parent = name, fork, code, parent
        self.id = f"{name}/{uuid.uuid4().hex}"
        self.versions: dict[int, Version] = {} if parent is None else dict(parent.up_to(fork.number))
        self.versions[fork.number] = fork
        self.operators: tuple[str, ...] | None = None
        self.floor = -1
        self.published: Path | None = None

    @property
    def head(self) -> Version:
        return self.versions[max(self.versions)]

    def up_to(self, number: int) -> Iterator[tuple[int, Version]]:
        return ((at, version) for at, version in self.versions.items() if at <= number)

    def add(self, version: Version) -> None:
        self.versions[version.number] = version

    def is_own(self, number: int) -> bool:
        return self.parent is None or number > self.fork.number


class Game:
    """The model and the engine side by side."""

    def __init__(self, folder: Path, seed: int, is_local: bool) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.root = str(folder / "root") if is_local else f"memory://{uuid.uuid4().hex}"
        self.files: dict[str, Input] = {}
        self.calls: dict[int, list[dict[str, Any]]] = {}
        for name in ("a", "b"):
            (folder / name).mkdir()
        self.lines = {"main": Line("main", Version(), Code())}
        self.tags: dict[str, tuple[str, int]] = {}
        self.counts: Counter[str] = Counter()
        self.pipelines: dict[Code, tm.Pipeline] = {}
        self.open("main").init()

    def pipeline(self, code: Code) -> tm.Pipeline:
        p, functions = tm.Pipeline("game"), Functions(code, self.calls)
        p.batch_time(by_name)
        raw = [
            p.read(
                tm.Files(str(self.folder / name), format="csv", schema=SCHEMA, mode="PERMISSIVE", maxFilesPerTrigger=1),
                name=name,
            )
            for name in ("a", "b")
        ]
        a = raw[0].withWatermark("ts", "3 seconds", late="quarantine")
        both = raw[0].unionByName(raw[1]).sql(f"SELECT k, v * {code.factor} AS v FROM rows")
        totals = both.groupBy("k").agg(total=tm.sum("v"), name="totals")
        totals.write(tm.Json(str(self.folder / "out/totals")))
        totals.foreachBatch(functions.call, name="calls")
        levels = totals.sql("SELECT total % 3 AS level FROM rows").groupBy("level").agg(n=tm.count(), name="levels")
        levels.write(tm.Json(str(self.folder / "out/levels")))
        spec = tm.StateSpec.function(functions.seen).timeout("4500 milliseconds", clock="batch")
        raw[0].groupBy("k").mapWithState(
            spec, stateSchema="int", outputSchema="k string, total int, closed boolean", name="seen"
        ).write(tm.Parquet(str(self.folder / "out/seen"), partitionBy=["k"]))
        hours = a.groupBy(tm.window("ts", "10 seconds")).agg(n=tm.count(), name="hours", outputMode="update")
        hours.write(tm.Parquet(str(self.folder / "out/hours")))
        return p

    def open(self, name: str = "main", code: Code | None = None) -> tm.Repository:
        code = code or self.lines[name].code
        if code not in self.pipelines:
            self.pipelines[code] = self.pipeline(code)
        return tm.open(self.pipelines[code], root=self.root, branch=name, conf=UNCACHED)

    # the steps of the game

    def step(self) -> str:
        actions: list[tuple[Callable[[], str], int]] = [
            (self.arrive, 5), (self.run, 5), (self.run_branch, 2), (self.sweep, 2), (self.skip, 1), (self.rewind, 3),
            (self.rewind_branch, 1), (self.requeue, 2), (self.tag, 1), (self.branch, 1), (self.replay, 6),
            (self.promote, 5), (self.drop, 2), (self.maintain, 1), (self.compact, 2), (self.compare, 2),
        ]  # fmt: skip
        action = self.chance.choices([one for one, _ in actions], [weight for _, weight in actions])[0]
        said = action()
        self.counts[f"{action.__name__}{' refused' if said.startswith('refused') else ''}"] += 1
        return f"{action.__name__}: {said}"

    def arrive(self) -> str:
        for _ in range(self.chance.randint(1, 3)):
            number, source = len(self.files), self.chance.choice("aab")
            rows = tuple(
                (self.chance.choice("wxyz"), self.chance.randint(0, 9), self._event_time(number))
                for _ in range(self.chance.randint(0, 4))
            )  # fmt: skip
            name, unreadable = f"{number:03d}.csv", self.chance.choice([0, 0, 1])
            self.files[name] = Input(source, name, rows, unreadable)
            text = "".join(f"{k},{v},1970-01-01 00:{at // 60000:02d}:{at % 60000 / 1000:06.3f}\n" for k, v, at in rows)
            (self.folder / source / name).write_text(text + "bad,bad,bad\n" * unreadable)
        return f"{len(self.files)} files"

    def _event_time(self, number: int) -> int:
        return max(0, 1000 * (number - self.chance.choice([0, 1, 4, 25]))) + 300

    def run(self) -> str:
        return self._run("main")

    def run_branch(self) -> str:
        return self._run(self._any_branch() or "main")

    def _run(self, name: str) -> str:
        line = self.lines[name]
        made = self.open(name).run(engine="local", tasks=self.chance.choice([1, 1, 3]))
        while inputs := self._next(line.head):
            files = [number_of(one.name) for one in inputs if not one.name.startswith("requeued")]
            line.add(
                naive.batch(line.head, inputs, 1000 * max(files) if files else line.head.time_ms, line.code, line.id)
            )
        if line.head.number >= 0 and naive.is_due(line.head, line.head.time_ms):
            line.add(naive.sweep(line.head, line.head.time_ms, line.id))
        return f"{name} {[one.version for one in made]}"

    def _next(self, head: Version) -> list[Input]:
        if head.waiting:
            return list(head.waiting)
        waiting = [file for name, file in sorted(self.files.items()) if name not in head.done]
        firsts = [[one for one in waiting if one.source == source][:1] for source in ("a", "b")]
        return [one for those in firsts for one in those]

    def sweep(self) -> str:
        line = self.lines[self.chance.choice(list(self.lines))]
        at = line.head.time_ms + 1000 * self.chance.randint(0, 6)
        self.open(line.name).sweep(engine="local", batch_time=at)
        if line.head.number >= 0 and naive.is_due(line.head, at):
            line.add(naive.sweep(line.head, at, line.id))
        return f"{line.name} at {at}"

    def skip(self) -> str:
        line = self.lines[self.chance.choice(list(self.lines))]
        waiting = sorted(self.files.keys() - line.head.done)
        if not waiting:
            return "nothing"
        name = self.chance.choice(waiting)
        self.open(line.name).skip(name, "a test")
        line.add(naive.skip(line.head, [self.files[name]], line.id))
        return f"{line.name} {name}"

    def rewind(self) -> str:
        return self._rewind("main")

    def rewind_branch(self) -> str:
        return self._rewind(self._any_branch() or "main")

    def _rewind(self, name: str) -> str:
        line = self.lines[name]
        to = self.chance.randint(-1, line.head.number) if line.head.number >= 0 else -1
        target = line.versions[to]
        ahead = sorted({one for one in self.files if one not in target.done})
        without = self.chance.sample(ahead, min(len(ahead), self.chance.choice([0, 0, 1])))

        def act() -> str:
            self.open(name).rewind(to, "a test", without)
            line.add(naive.rewind(line.head, target, [self.files[one] for one in without], line.id))
            return f"{name} to {to} without {without}"

        return self._may("rewind", act)

    def requeue(self) -> str:
        line = self.lines[self.chance.choice(["main", *self.lines])]
        numbers = [number for number, made in line.head.history if ("unreadable",) in made.get("quarantine", ())]
        if not numbers:
            return "nothing"
        version = self.chance.choice(numbers)

        def act() -> str:
            r = self.open(line.name)
            rows = r.quarantine(version, export=True)
            lines = [row for row in rows.to_pylist() if row["_kind"] == "unreadable"]
            value = self.chance.randint(1, 9)
            fixed = [
                {
                    "_version": row["_version"],
                    "_row_id": row["_row_id"],
                    "k": "q",
                    "v": value,
                    "ts": "1970-01-01T00:00:00.300",
                }
                for row in lines
            ]
            path = self.folder / f"fixed-{uuid.uuid4().hex}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in fixed))
            made = r.requeue(version, rows=str(path))
            inputs = []
            for split in made.requeued:
                ours = [row for row in lines if row["_source"] == split.source]
                inputs.append(Input(split.source, f"requeued {split.path}", tuple(("q", value, 300) for _ in ours)))
            line.add(naive.requeue(line.head, inputs, line.id))
            return f"{line.name} {version}"

        return self._may("requeue", act)

    def tag(self) -> str:
        line = self.lines[self.chance.choice(list(self.lines))]
        if line.head.number < 0:
            return "nothing"
        version, name = self.chance.randint(0, line.head.number), self.chance.choice(["one", "two"])

        def act() -> str:
            self.open(line.name).tag(name, version, move=True)
            self.tags[name] = (self._owner(line, version).id, version)
            return f"{name} = {line.name}@{version}"

        return self._may("tag", act)

    def branch(self) -> str:
        parent = self.lines[self.chance.choice(["main", *self.lines])]
        at, name = self.chance.randint(-1, parent.head.number), f"b{self.chance.randint(0, 3)}"
        if name in self.lines:
            return "nothing"

        def act() -> str:
            self.open(parent.name).branch(name, at)
            self._started(name, parent, at, self._code())
            return f"{name} at {parent.name}@{at}"

        return self._may("branch", act)

    def _started(self, name: str, parent: Line, at: int, code: Code) -> None:
        self.lines[name] = Line(name, parent.versions[at], code, self._owner(parent, at))
        self.lines[name].versions |= dict(parent.up_to(at))

    def _owner(self, line: Line, number: int) -> Line:
        while not line.is_own(number):
            assert line.parent is not None
            line = line.parent
        return line

    def _code(self) -> Code:
        return self.chance.choice([self.lines["main"].code, Code(self.chance.randint(1, 3), self.chance.randint(0, 1))])

    def replay(self) -> str:
        name = self.chance.choice([*(one for one in self.lines if one != "main"), f"b{self.chance.randint(0, 3)}"])
        if name == "main" or self.lines["main"].head.number < 0:
            return "nothing"
        old = self.lines.get(name)
        source = self.lines["main"] if old is None or old.parent is None else self.lines[self._name_of(old.parent)]
        first = self.chance.randint(0, source.head.number) if old is None else old.fork.number + 1
        code = self._code() if old is None else old.code
        chosen = (
            self.chance.choice([None, None, ["seen"], ["levels"], ["totals", "levels"], ["hours"]])
            if old is None
            else None
        )
        if first > source.head.number:
            return "nothing"
        limit = self.chance.choice([None, None, 1, 2])
        follow = self.chance.choice([False, True])

        def act() -> str:
            made = self.open(source.name, code).replay(
                first, into=name, operators=chosen, engine="local", max_batches=limit, follow=follow,
                tasks=self.chance.choice([1, 3]),
            )  # fmt: skip
            if old is None:
                self._started(name, source, first - 1, code)
                self.lines[name].operators = None if chosen is None else tuple(chosen)
            line = self.lines[name]
            todo = naive.left(source.head.steps, line.head, line.fork)
            assert todo is not None, "replayed what does not count any more"
            batches = 0
            for step in todo:
                if limit is not None and batches == limit:
                    break
                line.add(naive.repeat(line.head, step, code, line.operators, line.id))
                batches += step.kind in ("batch", "sweep")
            assert line.head.number == self.open(name).head.version
            return f"{source.name} from {first} into {name}, {code}, {chosen}: {made.versions}"

        said = self._may("replay", act)
        if said.startswith("refused") and old is None and name in {one.name for one in self.open().branches()}:
            self.open().drop_branch(name)
            self.counts["replay refused after the branch was made"] += 1
        return said

    def _name_of(self, line: Line) -> str:
        return next(name for name, one in self.lines.items() if one is line)

    def promote(self) -> str:
        names = [name for name in self.lines if name != "main"]
        if not names:
            return "nothing"
        line = self.lines[self.chance.choice(names)]
        target = (
            line.parent
            if line.parent is not None and line.parent.id in {one.id for one in self.lines.values()}
            else self.lines["main"]
        )
        if line.fork.number < 0:
            target = self.lines["main"]
        outputs, catch_up = self.chance.choice(["correct", "correct", "keep"]), self.chance.choice([True, False])

        def act() -> str:
            before = self.open(line.name).head
            number = None if before is None else before.version
            try:
                made = self.open(target.name, line.code).promote(
                    line.name, outputs=outputs, catch_up=catch_up, engine="local"
                )
            finally:
                after = self.open(line.name).head
                if catch_up and after is not None and after.version != number:
                    for step in naive.left(target.head.steps, line.head, line.fork) or []:
                        line.add(naive.repeat(line.head, step, line.code, line.operators, line.id))
                    assert line.head.number == after.version
            while target.head.number + 1 < made.version:
                target.add(naive.nothing(target.head, target.id, "void"))
            lost = target.head.done - line.head.done
            assert not lost, f"the promotion loses {lost}"
            target.add(naive.promote(target.head, line.fork, line.head, made.version, outputs))
            target.code = line.code
            return f"{line.name} into {target.name} as {made.version}, {outputs}"

        return self._may("catch up" if catch_up else "promote", act)

    def drop(self) -> str:
        name = self._any_branch()
        if name is None:
            return "nothing"

        def act() -> str:
            self.open().drop_branch(name)
            del self.lines[name]
            return name

        return self._may("drop", act)

    def maintain(self) -> str:
        line = self.lines[self.chance.choice(["main", "main", *self.lines])]
        keep = self.chance.randint(2, 8)
        self.open(line.name).maintain(keep_versions=keep)
        line.floor = max(line.floor, line.head.number - keep + 1)
        assert self.open().maintain(dry_run=True).garbage == []
        return f"{line.name} {keep}"

    def compact(self) -> str:
        made = self.open().maintain(compact_sinks=True).compacted
        main = self.lines["main"]
        for _ in made:
            main.add(naive.nothing(main.head, main.id, "compact"))
        return f"{[(one.sink, one.first, one.last) for one in made]}"

    def _any_branch(self) -> str | None:
        names = [name for name in self.lines if name != "main"]
        return self.chance.choice(names) if names else None

    def _may(self, verb: str, act: Callable[[], str]) -> str:
        try:
            return act()
        except tm.InvalidInput as error:
            expected = REFUSED["replay"] + "|" + REFUSED["promote"] if verb == "catch up" else REFUSED[verb]
            if not re.search(expected, str(error)):
                raise
            return f"refused: {error.message[:90]}"

    # what is compared

    def is_kept(self, line: Line, number: int) -> bool:
        owner = self._owner(line, number)
        forks = {(one.parent.id, one.fork.number) for one in self.lines.values() if one.parent is not None}
        return number < 0 or number >= owner.floor or (owner.id, number) in {*self.tags.values(), *forks}

    def compare(self) -> str:
        """Differences between any two versions, changes and the history of a key."""
        a, b = (self.lines[self.chance.choice(list(self.lines))] for _ in range(2))
        v, w = (self.chance.randint(-1, line.head.number) for line in (a, b))
        operator = self.chance.choice(["totals", "levels"])
        if not (self.is_kept(a, v) and self.is_kept(b, w)):
            return "nothing"
        before, after = a.versions[v].state[operator], b.versions[w].state[operator]
        found = self.open().diff(f"{a.name}@{v}", f"{b.name}@{w}", operator=operator)
        both = before.keys() & after.keys()
        assert (found.added, found.removed, found.changed) == (
            len(after.keys() - both), len(before.keys() - both), sum(before[key] != after[key] for key in both)
        )  # fmt: skip
        line, floors = a, max((one.floor for one in self.lines.values()), default=0)
        if floors <= 0 and line.head.number >= 0:
            key, last, expected = self.chance.choice("wxyz"), None, []
            for number, _ in line.head.history:
                value = line.versions[number].state["totals"].get(key)
                if value != last:
                    expected.append((number, value))
                last = value
            got = [
                (one.version, one.value and one.value["total"]) for one in self.open(line.name).history("totals", key)
            ]
            assert got == expected, (line.name, key)
        name = self._any_branch()
        if name is not None and self.lines[name].head.number > self.lines[name].fork.number:
            try:
                report = self.open(code=self.lines[name].code).check(against=name).against
            except tm.InvalidInput as error:
                if "no longer kept" not in str(error):
                    raise
                return "not kept"
            level = int(report.before.partition("@")[2])
            pair = [self.lines["main"].versions[level].state["totals"], self.lines[name].head.state["totals"]]
            assert report.operators["totals"].total == len(
                set(pair[0].items() ^ pair[1].items()) and {k for k, _ in pair[0].items() ^ pair[1].items()}
            )
        return f"{a.name}@{v} {b.name}@{w}"

    def check(self) -> None:
        for name, line in self.lines.items():
            r = self.open(name)
            assert (-1 if r.head is None else r.head.version) == line.head.number, name
            numbers = {line.head.number, self.chance.randint(-1, line.head.number)}
            for number in sorted(one for one in numbers if self.is_kept(line, one)):
                assert state(r, number) == plain(line.versions[number]), (name, number)
            if line.head.number >= 0:
                self._check_rows(r, line)
        self._check_published()
        main = self.open()
        if self.chance.random() < 0.25:
            assert main.verify(deep=True).problems == []
        waiting = main.status().waiting_files
        missing = Counter(file.source for one, file in self.files.items() if one not in self.lines["main"].head.done)
        assert {name: waiting[name] for name in ("a", "b")} == {name: missing[name] for name in ("a", "b")}

    def _check_rows(self, r: tm.Repository, line: Line) -> None:
        since = max((one.floor for one in self._ancestors(line)), default=0)
        for sink in SINKS:
            got = sorted(cells(sink, row) for row in r.outputs(sink=sink).to_pylist() if row["_batch_id"] >= 0)
            if since <= 0:
                assert got == line.head.rows(sink), (line.name, sink)
        if since <= 0:
            kinds = Counter((kind,) for kind in r.quarantine()["kind"].to_pylist())
            assert kinds == Counter(line.head.rows("quarantine")), line.name

    def _ancestors(self, line: Line) -> Iterator[Line]:
        at: Line | None = line
        while at is not None:
            yield at
            at = at.parent

    def _check_published(self) -> None:
        main = self.lines["main"].head
        for sink in SINKS:
            folder = self.folder / "out" / sink
            files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(("_", "."))]
            kind, partitioning = ("json", None) if sink in ("totals", "levels") else ("parquet", "hive")
            table = (
                ds.dataset([str(one) for one in files], format=kind, partitioning=partitioning).to_table()
                if files
                else None
            )
            rows = [] if table is None else table.to_pylist()
            assert sorted(cells(sink, row) for row in rows) == main.rows(sink), sink
            ids = Counter((row["_batch_id"], row["_seq"]) for row in rows)
            assert max(ids.values(), default=1) == 1, (sink, ids.most_common(3))
        called = sorted(cells("totals", row) for rows in self.calls.values() for row in rows)
        assert called == main.rows("totals"), "foreachBatch"


def cells(sink: str, row: dict[str, Any]) -> tuple[Any, ...]:
    if sink == "totals":
        return (row["k"], row["total"])
    if sink == "levels":
        return (row["level"], row["n"])
    if sink == "seen":
        return (row["k"], row["total"], row["closed"])
    start = row["window"]["start"]
    return (round((start.replace(tzinfo=None) - EPOCH).total_seconds() * 1000), row["n"])


def state(r: tm.Repository, number: int) -> dict[str, dict[Any, Any]]:
    found: dict[str, dict[Any, Any]] = {}
    for name in OPERATORS:
        table = r.state(name, number).to_pylist()
        if name == "totals":
            found[name] = {row["k"]: row["total"] for row in table}
        elif name == "levels":
            found[name] = {row["level"]: row["n"] for row in table}
        elif name == "seen":
            found[name] = {row["k"]: row["state"] for row in table}
        else:
            found[name] = {cells("hours", row)[0]: row["n"] for row in table}
    return found


def plain(version: Version) -> dict[str, dict[Any, Any]]:
    return {**version.state, "seen": {key: total for key, (total, _) in version.state["seen"].items()}}


def play(folder: Path, seed: int, steps: int, is_local: bool = False) -> Counter[str]:
    game, done = Game(folder, seed, is_local), list[str]()
    try:
        for _ in range(steps):
            done.append(game.step())
            game.check()
    except Exception as error:
        raise AssertionError(f"seed {seed}, after {len(done)} steps:\n" + "\n".join(done)) from error
    return game.counts


def test_a_random_game_agrees_with_a_naive_model(tmp_path: Path) -> None:
    play(tmp_path, 3, 15)


@pytest.mark.slow("long random runs")
@pytest.mark.parametrize("seed", [int(os.environ.get("TIDEMILL_SEED", "0"))])
@pytest.mark.parametrize("is_local", [False, True])
def test_a_long_random_game_agrees_with_a_naive_model(tmp_path: Path, seed: int, is_local: bool) -> None:
    counts = play(tmp_path, seed, int(os.environ.get("TIDEMILL_STEPS", "30")), is_local)
    print(f"TIDEMILL_SEED={seed}: {dict(counts)}")
