"""A random game with branches, replays and promotions between runs, corrections and upkeep: the engine and the model.

Each step is made on both. A refused call changes nothing, and its error must be one that the model expects.
"""

from __future__ import annotations

import dataclasses
import json
import random
import re
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import tidemill as tm
from tests.model import branches as naive
from tests.model.branch_pipeline import keeps_names, number_of, pipeline
from tests.model.branches import Code, Input, Line, Version

UNCACHED = {"tidemill.disk_cache_bytes": 0}
REFUSED = {
    "branch": "no longer kept",
    "replay": "no longer kept|repeats none of|which was rewound|was rewound, or a promotion|starts at version"
    "|then dropped|there is no version yet",
    "promote": "has not read the input|was rewound|has taken over|took out of the input|has no version of its own"
    "|no longer kept|rewound to before|starts from branch|this code does not have the sink",
    "rewind": "no longer kept|nothing would change|has no version yet|read it, so its rows|waits? again",
    "into": "no longer kept|no promotion into|left what is published|nothing would change"
    "|this code does not have the sink",
    "drop": "needs its versions",
    "tag": "no longer kept|has no version",
    "requeue": "no longer kept|was requeued already|cannot come back|quarantined no rows|a promotion, replaced",
}


def number_of_head(r: tm.Repository) -> int:
    head = r.head
    return -1 if head is None else head.version


class Game:
    """The model and the engine side by side."""

    def __init__(self, folder: Path, seed: int, is_local: bool) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self.root = str(folder / "root") if is_local else f"memory://{uuid.uuid4().hex}"
        self.files: dict[str, Input] = {}
        for name in ("a", "b"):
            (folder / name).mkdir()
        self.lines = {"main": Line("main", Version(), Code())}
        self.tags: dict[str, tuple[str, int]] = {}
        self.counts: Counter[str] = Counter()
        self.pipelines: dict[Code, tm.Pipeline] = {}
        self.open("main").init()

    def open(self, name: str = "main", code: Code | None = None) -> tm.Repository:
        code = code or self.lines[name].code
        if code not in self.pipelines:
            self.pipelines[code] = pipeline(self.folder, code)
        return tm.open(self.pipelines[code], root=self.root, branch=name, conf=UNCACHED)

    # the steps of the game

    def step(self) -> str:
        actions: list[tuple[Callable[[], str], int]] = [
            (self.arrive, 5), (self.run, 5), (self.run_branch, 2), (self.sweep, 2), (self.skip, 1), (self.rewind, 3),
            (self.rewind_branch, 1), (self.requeue, 2), (self.tag, 1), (self.branch, 1), (self.replay, 6),
            (self.promote, 5), (self.rewind_into, 2), (self.drop, 2), (self.maintain, 1), (self.compact, 2),
            (self.fill, 2),
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
        return self._run(self.any_branch() or "main")

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
        return self._rewind(self.any_branch() or "main")

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
        main = self.lines["main"].code
        more = self.chance.choice([main.more, main.more, False])
        return self.chance.choice([main, Code(self.chance.randint(1, 3), self.chance.randint(0, 1), more)])

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
            assert line.head.number == number_of_head(self.open(name))
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
                with keeps_names(self.folder):
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

    def rewind_into(self) -> str:
        name, main = self.any_branch(), self.lines["main"]
        line = main if name is None else self.lines[name]
        own = [one for at, one in line.versions.items() if line.is_own(at) and one.is_effective(line.fork.number)]
        if line is main or line.parent is not main or not own:
            return "nothing"
        theirs = self.chance.choice(own)

        def act() -> str:
            with keeps_names(self.folder):
                made = self.open("main", line.code).rewind(f"{name}@{theirs.number}", "a test")
            main.add(naive.rewind_into(main.head, line.fork, theirs, made.version))
            main.code = line.code
            return f"{name}@{theirs.number} as {made.version}"

        return self._may("into", act)

    def drop(self) -> str:
        name = self.any_branch()
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

    def fill(self) -> str:
        main = self.lines["main"]
        if main.head.number < 0:
            return "nothing"
        main.code = dataclasses.replace(main.code, more=True)
        self.open().publish(0)
        numbers = [number for number in naive.lacking(main.head) if self.is_kept(main, number)]
        if numbers:
            main.add(naive.fill(main.head, numbers, main.id))
        return f"{numbers}"

    def any_branch(self) -> str | None:
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

    def is_kept(self, line: Line, number: int) -> bool:
        owner = self._owner(line, number)
        forks = {(one.parent.id, one.fork.number) for one in self.lines.values() if one.parent is not None}
        return number < 0 or number >= owner.floor or (owner.id, number) in {*self.tags.values(), *forks}
