"""`mapWithState` as Spark Streaming has it: the program of `Track.java` for Tidemill, and what runs that one.

A row's `say` is commands by commas: `u5` updates, `r` removes, `g o s` tell the state, `x` whether it exists, `t`
whether it is timing out, `e` at the end emits nothing. A key `name:program` runs the program when it times out.
INVARIANT: a micro-batch is a second of Spark's clock, which the test alone moves on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.oracle import groups

SOURCE = Path(__file__).parent / "Track.java"
SCHEMA = "k string, say string"
OUTPUT = "k string, said string"


def advanced(batchTime: int, key: Any, row: Any, state: Any) -> Any:
    """The function of four arguments; what ends in `e` emits nothing."""
    said = _said(f"{batchTime} ", key, row, state)
    return None if said.endswith("nothing") else (key, said)


def simple(key: Any, row: Any, state: Any) -> Any:
    """The function of three arguments."""
    return (key, _said("", key, row, state))


def _said(prefix: str, key: Any, row: Any, state: Any) -> str:
    name = "null" if key is None else key
    program = row.say if row is not None else name.split(":")[1] if ":" in name else ""
    said = [f"{prefix}{'timing out' if row is None else row.say} exists={_text(state.exists)}"]
    return " ".join(said + [f"{command}={_answer(command, state)}" for command in filter(None, program.split(","))])


def _answer(command: str, state: Any) -> str:
    try:
        match command[0]:
            case "u":
                state.update(int(command[1:]))
                return "ok"
            case "r":
                state.remove()
                return "ok"
            case "g":
                return str(state.get)
            case "o":
                return "none" if state.getOption is None else str(state.getOption)
            case "x":
                return _text(state.exists)
            case "t":
                return _text(state.isTimingOut)
            case "s":
                return str(state)
            case "e":
                return "nothing"
    except LookupError:
        return "refused: not set"
    except ValueError:
        return "refused"
    return "unknown"


def _text(value: bool) -> str:
    return "true" if value else "false"


Found = list[tuple[list[tuple[Any, ...]], dict[Any, int]]]


def run(
    spark: Any,
    batches: Sequence[Sequence[tuple[Any, ...]]],
    form: str,
    timeout_ms: int,
    partitions: int,
    initial: Sequence[tuple[Any, int]],
) -> Found:
    """Return the outputs of Spark Streaming in each micro-batch, and the states after it. 0 ms means no timeout."""
    program = groups.compiled(spark, SOURCE)
    context = spark.sparkContext._jsc.sc()
    rows = [[list(row) for row in batch] for batch in batches]
    with tempfile.TemporaryDirectory(prefix="tidemill-oracle-") as folder:
        found = program.run(context, folder, rows, [list(pair) for pair in initial], timeout_ms, partitions, form)
    return [_parted([list(line) for line in lines]) for lines in found]


def _parted(lines: list[list[Any]]) -> tuple[list[tuple[Any, ...]], dict[Any, int]]:
    emitted = [(key, said) for kind, key, said in lines if kind == "e"]
    return emitted, {key: int(state) for kind, key, state in lines if kind == "s"}
