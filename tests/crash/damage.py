"""Every way to damage an object of a world, and the verdict on what a run makes of it.

INVARIANT: a verdict compares with what an undisturbed run of the same world gives, and never with a record.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.crash.worlds import REFUSALS, SINKS, Place, Snapshot, bounded, published, seen

_NAMED = re.compile(r"[a-z_]+/\S+\.(json|parquet)|(entry|plan|commit|version) \d+ ")


@dataclass(frozen=True)
class Damage:
    """New content of some objects; None deletes. `way` names the damage, `kind` the kind of the object."""

    way: str
    kind: str
    change: dict[str, bytes | None]

    @property
    def names(self) -> list[str]:
        return list(self.change)


def kind_of(name: str) -> str:
    """Return the kind of an object by its name: `commit`, `segment users`, …; objects of a kind can be confused."""
    parts = name.split("/")
    if parts[0] != "root":
        return f"sink file {parts[1]}"
    kind = parts[2]
    if name.endswith("/head.json"):
        return "hint of refs" if kind == "refs" else "hint of commits"
    if kind == "refs":
        return "init" if parts[-1] == f"{0:010d}.json" else "refs entry"
    if kind == "branches":
        return parts[4].removesuffix("s")
    if kind == "state":
        return "segment of ledger" if parts[3] == "_ledger" else f"segment of {parts[3]}"
    if kind in ("output", "published", "called"):
        return f"{kind} {parts[3]}"
    return kind


def by_kind(snapshot: Snapshot) -> dict[str, list[str]]:
    """Return the names of a snapshot by kind, in order."""
    found: dict[str, list[str]] = {}
    for name in sorted(snapshot):
        found.setdefault(kind_of(name), []).append(name)
    return found


def damages(snapshot: Snapshot, others: dict[str, Snapshot], flips: int, seed: int) -> Iterator[Damage]:
    """Yield every damage of every object. `others`: snapshots of other repositories, by the name of the way."""
    chance = random.Random(seed)
    kinds = by_kind(snapshot)
    there = {way: by_kind(other) for way, other in others.items()}
    for kind, names in kinds.items():
        for place, name in enumerate(names):
            data = snapshot[name][0]
            yield from (Damage(way, kind, {name: new}) for way, new in _alone(data, flips, chance))
            for way, other in _of_kind(snapshot, names, place):
                yield Damage(way, kind, other)
            for way, found in there.items():
                counterpart = _counterpart(name, place, found.get(kind, []))
                if counterpart is not None and others[way][counterpart][0] != data:
                    yield Damage(way, kind, {name: others[way][counterpart][0]})


def _alone(data: bytes, flips: int, chance: random.Random) -> Iterator[tuple[str, bytes | None]]:
    for _ in range(flips if data else 0):
        at, bit = chance.randrange(len(data)), chance.randrange(8)
        yield "flip", data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
    yield "cut", data[: len(data) // 2]
    yield "cut", data[:-1]
    yield "append", data + b"x"
    yield "append", data + b"\n"
    yield "append", data + data
    if data:
        yield "empty", b""
    yield "delete", None


def _of_kind(snapshot: Snapshot, names: Sequence[str], place: int) -> Iterator[tuple[str, dict[str, bytes | None]]]:
    name, data = names[place], snapshot[names[place]][0]
    for other in {*names[max(place - 1, 0) : place], *names[:1]} - {name}:
        if snapshot[other][0] != data:
            yield "older", {name: snapshot[other][0]}
    for other in names[place + 1 : place + 2]:
        if snapshot[other][0] != data:
            yield "swap", {name: snapshot[other][0], other: data}


def _counterpart(name: str, place: int, names: Sequence[str]) -> str | None:
    """Return the object of the same name, or that of the same place where names have an attempt."""
    if name in names:
        return name
    return names[place] if place < len(names) else None


def apply(world: Place, snapshot: Snapshot, damage: Damage) -> None:
    """Make the world that of the snapshot, and damage it. Files keep their times, as bit rot leaves them."""
    world.load(snapshot)
    for name, data in damage.change.items():
        if data is None:
            world.store.delete(name)
        else:
            world.write(name, data, snapshot[name][1])


# verdicts


@dataclass
class Expected:
    """What an undisturbed run of the same snapshot gives, before and after it."""

    seen: dict[str, Any]
    published_before: dict[str, list[str]]
    published_after: dict[str, list[str]]
    head_before: int


@dataclass
class Verdict:
    """`word`: `recovered`, `refused` or `WRONG`; `why` says what is wrong, or what refused."""

    word: str
    why: list[str] = field(default_factory=list)


def expect(world: Place, snapshot: Snapshot) -> Expected:
    """Run undisturbed."""
    world.load(snapshot)
    before = published(world)
    head = world.open().head
    world.run()
    return Expected(seen(world), before, published(world), -1 if head is None else head.version)


def run_and_judge(world: Place, expected: Expected, damaged: Sequence[str], run: Callable[[], Any]) -> Verdict:
    """Run, read everything back, and compare."""
    failed: Exception | None = None
    try:
        with bounded():
            run()
    except Exception as error:  # noqa: BLE001
        failed = error
    found = seen(world)
    wrong, errors = [], [] if failed is None else [failed]
    if failed is not None and not isinstance(failed, REFUSALS):
        wrong.append(f"the run ended with {_short(failed)}")
    wrong += _differences(found, expected, failed is not None, errors)
    wrong += _sink_differences(published(world), expected, damaged, failed is not None)
    wrong += _unclear(errors, damaged)
    if wrong:
        return Verdict("WRONG", wrong)
    return Verdict("refused", [_short(errors[0])]) if errors else Verdict("recovered")


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"


def _differences(found: dict[str, Any], expected: Expected, is_refused: bool, errors: list[Exception]) -> list[str]:
    wrong = []
    for part, value in found.items():
        should = expected.seen.get(part)
        if isinstance(value, Exception):
            if is_refused and part.split()[-1].isdigit() and int(part.split()[-1]) > expected.head_before:
                continue  # a version that the run, which was refused, did not make
            if isinstance(should, Exception) and type(should) is type(value):
                continue
            errors.append(value)
            if not isinstance(value, REFUSALS):
                wrong.append(f"{part}: {_short(value)}")
        elif part == "head":
            if not (value == should or (is_refused and 0 <= value <= should)):
                wrong.append(f"head is {value}, expected {should}")
        elif part in ("counts", *(f"{word} {name}" for word in ("state", "outputs") for name in SINKS)):
            if value != should and not is_refused:  # of the newest version, or of all; those are compared one by one
                wrong.append(f"{part} differs")
        elif value != should:
            wrong.append(f"{part} differs: {str(value)[:200]}, expected {str(should)[:200]}")
    return wrong


def _sink_differences(
    found: dict[str, list[str]], expected: Expected, damaged: Sequence[str], is_refused: bool
) -> list[str]:
    """Compare the rows that a plain reader of the sinks sees. A damaged file of a sink counts for nothing."""
    ours = _bag(found, damaged)
    after, before = _bag(expected.published_after, damaged), _bag(expected.published_before, damaged)
    least = before if is_refused else after
    more, less = ours - after, least - ours
    wrong = [f"the sink has {sum(more.values())} rows too many: {list(more)[:2]}"] if more else []
    return wrong + ([f"the sink lacks {sum(less.values())} rows: {list(less)[:2]}"] if less else [])


def _bag(files: dict[str, list[str]], damaged: Sequence[str]) -> Counter[str]:
    return Counter(row for name, rows in files.items() if name not in damaged for row in rows)


def _unclear(errors: Sequence[Exception], damaged: Sequence[str]) -> list[str]:
    """Return a refusal that names no object, by its name or as `commit 3`."""
    return [f"UNCLEAR {_short(one)}" for one in errors if damaged and not _NAMED.search(str(one))][:1]
