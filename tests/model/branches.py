"""A naive model of branches: every version is a value with its whole history, and nothing is shared or looked up.

INVARIANT: nothing here imports Tidemill. A step is a batch, a sweep, skipped files or requeued rows. A replay applies
the steps of another line again, a promotion takes a version over as it is.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]
Made = Mapping[str, tuple[Row, ...]]
"""By sink the rows of a version; `quarantine` has the kinds of rows that were quarantined."""
IDLE_MS, DELAY_MS, WINDOW_MS = 4500, 3000, 10_000
OPERATORS = ("hours", "levels", "seen", "totals")
SINKS = ("levels", "seen", "totals", "hours")


@dataclass(frozen=True)
class Code:
    """What a change of code changes. With `more`, the rows of `totals` have a second sink."""

    factor: int = 1
    bonus: int = 0
    more: bool = False


@dataclass(frozen=True)
class Input:
    """The rows of a file or of requeued rows: key, value and event time. `unreadable`: how many lines are not rows."""

    source: str
    name: str
    rows: tuple[tuple[str, int, int], ...]
    unreadable: int = 0


@dataclass(frozen=True)
class Step:
    """What a version did, with the line and the number of the version that did it first."""

    line: str
    number: int
    kind: str
    inputs: tuple[Input, ...] = ()
    time_ms: int = 0
    recorded: Version | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Version:
    """One version. `history` has the rows of each version that counts, by number, `steps` what led to it."""

    number: int = -1
    state: Mapping[str, Mapping[Any, Any]] = field(default_factory=lambda: {name: {} for name in OPERATORS})
    read: frozenset[Input] = frozenset()
    skipped: frozenset[str] = frozenset()
    waiting: tuple[Input, ...] = ()
    time_ms: int = 0
    watermark_ms: int | None = None
    history: tuple[tuple[int, Made], ...] = ()
    steps: tuple[Step, ...] = ()
    repeats: Step | None = None
    restores: tuple[int, tuple[str, ...]] | None = None
    kind: str = "init"

    @property
    def done(self) -> frozenset[str]:
        """The names of files that do not wait any more."""
        return self.skipped | {one.name for one in self.read}

    def is_effective(self, number: int) -> bool:
        return number < 0 or any(one == number for one, _ in self.history)

    def rows(self, sink: str, since: int = 0) -> list[Row]:
        return sorted(row for number, made in self.history if number >= since for row in made.get(sink, ()))


def advanced(
    before: Version, made: Made, line: str, kind: str, inputs: Sequence[Input] = (), **changes: Any
) -> Version:
    """The version after another one, with what it made."""
    number = before.number + 1 if "number" not in changes else changes.pop("number")
    after = dataclasses.replace(
        before,
        number=number,
        history=(*before.history, (number, made)),
        repeats=None,
        restores=None,
        kind=kind,
        **changes,
    )
    step = Step(line, number, kind, tuple(inputs), after.time_ms, after)
    return dataclasses.replace(after, steps=(*before.steps, step))


def batch(before: Version, inputs: Sequence[Input], time_ms: int, code: Code, line: str) -> Version:
    """One batch over inputs, file by file, row by row."""
    now, state = max(before.time_ms, time_ms), {name: dict(those) for name, those in before.state.items()}
    made: dict[str, list[Row]] = {name: [] for name in (*SINKS, "quarantine")}
    made["quarantine"] += [("unreadable",)] * sum(one.unreadable for one in inputs)
    _totals(inputs, code, state, made)
    if code.more:
        made["more"] = made["totals"]
    _seen([row for one in inputs if one.source == "a" for row in one.rows], now, code, state["seen"], made["seen"])
    mark = _hours([row for one in inputs if one.source == "a" for row in one.rows], before.watermark_ms, state, made)
    requeued = {one.name for one in inputs if one.name.startswith("requeued")}
    return advanced(
        before, {name: tuple(rows) for name, rows in made.items()}, line, "batch", inputs, state=state, time_ms=now,
        watermark_ms=mark, read=before.read | set(inputs),
        waiting=tuple(one for one in before.waiting if one.name not in requeued),
    )  # fmt: skip


def _totals(inputs: Sequence[Input], code: Code, state: dict[str, Any], made: dict[str, list[Row]]) -> None:
    rows = [row for one in inputs for row in one.rows]
    for key, value, _ in rows:
        state["totals"][key] = state["totals"].get(key, 0) + value * code.factor
    touched = sorted({key for key, _, _ in rows})
    made["totals"] += [(key, state["totals"][key]) for key in touched]
    levels = [state["totals"][key] % 3 for key in touched]
    for level in levels:
        state["levels"][level] = state["levels"].get(level, 0) + 1
    made["levels"] += [(level, state["levels"][level]) for level in sorted(set(levels))]


def _seen(rows: Sequence[Any], now: int, code: Code, state: dict[Any, Any], made: list[Row]) -> None:
    for key, value, _ in rows:
        total = (state[key][0] if key in state else 0) + value + code.bonus
        state[key], row = (total, now + IDLE_MS), (key, total, False)
        made.append(row)
    _end(now, state, made)


def _end(now: int, state: dict[Any, Any], made: list[Row]) -> None:
    ended = sorted(key for key, (_, due) in state.items() if due <= now)
    made.extend((key, state.pop(key)[0], True) for key in ended)


def _hours(rows: Sequence[Any], mark: int | None, state: dict[str, Any], made: dict[str, list[Row]]) -> int | None:
    touched = set()
    for _, _, at in rows:
        start = at // WINDOW_MS * WINDOW_MS
        if mark is not None and start + WINDOW_MS <= mark:
            made["quarantine"].append(("late",))
        else:
            state["hours"][start] = state["hours"].get(start, 0) + 1
            touched.add(start)
    made["hours"] += [(start, state["hours"][start]) for start in sorted(touched)]
    newest = max((at for _, _, at in rows), default=None)
    after = mark if newest is None else max(newest - DELAY_MS, mark if mark is not None else 0, 0)
    for start in [one for one in state["hours"] if after is not None and one + WINDOW_MS <= after]:
        del state["hours"][start]
    return after


def is_due(head: Version, now: int) -> bool:
    return any(due <= now for _, due in head.state["seen"].values())


def sweep(before: Version, time_ms: int, line: str) -> Version:
    """A batch without input."""
    now, state = max(before.time_ms, time_ms), {name: dict(those) for name, those in before.state.items()}
    rows: list[Row] = []
    _end(now, state["seen"], rows)
    return advanced(before, {"seen": tuple(rows)}, line, "sweep", state=state, time_ms=now)


def skip(before: Version, inputs: Sequence[Input], line: str) -> Version:
    return advanced(before, {}, line, "skip", inputs, skipped=before.skipped | {one.name for one in inputs})


def requeue(before: Version, inputs: Sequence[Input], line: str) -> Version:
    return advanced(before, {}, line, "requeue", inputs, waiting=(*before.waiting, *inputs))


def nothing(before: Version, line: str, kind: str) -> Version:
    """A version that changes no state: a compaction."""
    made = advanced(before, {}, line, kind)
    return dataclasses.replace(made, steps=before.steps, repeats=before.repeats)


def lacking(head: Version) -> list[int]:
    """The versions whose rows of `totals` the second sink does not show, because their code did not have it."""
    return [number for number, made in head.history if made.get("totals") and "more" not in made]


def fill(before: Version, numbers: Sequence[int], line: str) -> Version:
    """A version that shows the rows of earlier ones in the second sink."""
    history = [
        (number, {**made, "more": made["totals"]} if number in numbers else made) for number, made in before.history
    ]
    return nothing(dataclasses.replace(before, history=tuple(history)), line, "fill")


def _still_filled(target: Version, head: Version) -> tuple[tuple[int, Made], ...]:
    """The history of a version, with the rows that a later one has filled in the second sink."""
    filled = {number: made for number, made in head.history if "more" in made}
    return tuple(
        (number, filled[number] if filled.get(number) == {**made, "more": made.get("totals")} else made)
        for number, made in target.history
    )


def rewind(head: Version, target: Version, without: Sequence[Input], line: str) -> Version:
    taken = target.skipped | {one.name for one in without}
    target = dataclasses.replace(target, history=_still_filled(target, head))
    made = advanced(target, {}, line, "skip", without, number=head.number + 1, skipped=taken)
    steps = made.steps if without else target.steps
    restores = (target.number, tuple(sorted(one.name for one in without)))
    return dataclasses.replace(made, steps=steps, restores=restores, kind="rewind")


def rewind_into(head: Version, fork: Version, theirs: Version, number: int) -> Version:
    """The version that goes back inside of a promotion of a branch: all is as on the branch, also the batch time."""
    history = (*_still_filled(fork, head), (number, _together(fork, theirs)))
    return dataclasses.replace(theirs, number=number, history=history, repeats=None, restores=None, kind="rewind")


def _together(fork: Version, theirs: Version) -> Made:
    """The rows of all versions that are a branch's own."""
    own = [made for at, made in theirs.history if at > fork.number]
    names = dict.fromkeys(name for made in own for name in made)
    return {name: tuple(row for made in own for row in made.get(name, ())) for name in names}


def promote(head: Version, fork: Version, theirs: Version, number: int, outputs: str) -> Version:
    """The version that takes over a branch: its state, its input, and unless they are kept, its outputs."""
    together = _together(fork, theirs)
    history = _still_filled(fork, head) if outputs == "correct" else head.history
    return dataclasses.replace(
        theirs, number=number, history=(*history, (number, together if outputs == "correct" else {})),
        time_ms=max(head.time_ms, theirs.time_ms), repeats=None, restores=None, kind="promote",
    )  # fmt: skip


def repeat(before: Version, step: Step, code: Code, operators: Sequence[str] | None, line: str) -> Version:
    """A version that does what a step did, with some code; with `operators`, the rest is as recorded."""
    if step.kind == "batch":
        made = batch(before, step.inputs, step.time_ms, code, line)
    elif step.kind == "sweep":
        made = sweep(before, step.time_ms, line)
    elif step.kind == "skip":
        made = skip(before, step.inputs, line)
    else:
        made = requeue(before, step.inputs, line)
    if operators is not None and step.recorded is not None and step.kind in ("batch", "sweep"):
        made = _merged(made, step.recorded, operators)
    return dataclasses.replace(made, repeats=step)


def _merged(made: Version, recorded: Version, operators: Sequence[str]) -> Version:
    state = {name: (made if name in operators else recorded).state[name] for name in OPERATORS}
    (number, ours), (_, theirs) = made.history[-1], recorded.history[-1]
    rows = {name: (ours if name in operators else theirs).get(name, ()) for name in SINKS}
    if "more" in (chosen := ours if "totals" in operators else theirs):
        rows["more"] = chosen["more"]
    rows["quarantine"] = (ours if "hours" in operators else theirs).get("quarantine", ())
    merged = dataclasses.replace(made, state=state, history=(*made.history[:-1], (number, rows)))
    return dataclasses.replace(merged, steps=(*made.steps[:-1], dataclasses.replace(made.steps[-1], recorded=merged)))


def left(steps: Sequence[Step], head: Version, fork: Version) -> list[Step] | None:
    """The steps that a branch has not repeated yet; None if what it repeated does not count any more."""
    done = head.repeats if head.number > fork.number else (fork.steps[-1] if fork.steps else None)
    if done is None:
        return list(steps) if head.number == fork.number else None
    places = [place for place, step in enumerate(steps) if step == done]
    return list(steps[places[0] + 1 :]) if places else None


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
