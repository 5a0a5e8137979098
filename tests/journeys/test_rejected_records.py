"""Every kind of rejected record: it is counted, exported with its whole text, corrected, and comes back once.

The naive model: after that the state has each good row and each corrected row once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.world import World, run, state

GOOD = {"csv": "g,1\n", "json": '{"k":"g","n":1}\n'}
SCHEMA = "k string, n int"


@dataclass(frozen=True)
class Kind:
    """A record that is no row: what the file has, the text and the reason that are kept, and the options.

    `as_it_is` is the row that the text is with `wider`, the schema that the source gets later; None if that is no row.
    """

    format: str
    record: bytes
    text: str
    reason: str
    options: dict[str, Any] = field(default_factory=dict)
    wider: str = SCHEMA
    as_it_is: tuple[str, Any] | None = None


KINDS = {
    "a value": Kind("csv", b"a,2.5\n", "a,2.5", "found `2.5`", wider="k string, n double", as_it_is=("a", 2.5)),
    "too few": Kind("csv", b"a\n", "a", "too few columns: found 1, expected 2"),
    "too many": Kind("csv", b"a,2,3\n", "a,2,3", "too many columns: found 3, expected 2"),
    "open quote": Kind("csv", b'"a,2\n', '"a,2\n', "a quote is not closed"),
    "not UTF-8": Kind("csv", b"\xe4,2\n", "\\xe4,2", "not UTF-8"),
    "not ASCII": Kind("csv", b"\xe4,2\n", "\\xff,2", "not US-ASCII", {"encoding": "US-ASCII"}),
    "like another format": Kind(
        "csv", b"PK\x03\x04,x\n", "PK\x03\x04,x", "found `x`", wider="k string, n string", as_it_is=("PK\x03\x04", "x")
    ),
    "a JSON value": Kind(
        "json", b'{"k":"a","n":2.5}\n', '{"k":"a","n":2.5}', "found `2.5`",
        wider="k string, n double", as_it_is=("a", 2.5),
    ),
    "no JSON": Kind("json", b'{"k":"a","n":}\n', '{"k":"a","n":}', "not a JSON object: byte 14"),
    "no end": Kind("json", b'{"k":"a",\n', '{"k":"a",', "multiLine=True"),
    "more": Kind("json", b'{"k":"a"}{}\n', '{"k":"a"}{}', "expected the end of the line"),
    "no object": Kind("json", b'[{"k":"b","n":2},7]\n', "7", "not a JSON object"),
    "not UTF-8 in JSON": Kind("json", b'{"k":"\xe4","n":2}\n', '{"k":"\\xe4","n":2}', "not UTF-8"),
    "too deep": Kind("json", b'{"x":' + b"[" * 2000 + b"\n", '{"x":' + "[" * 2000, "nested too deeply"),
}  # fmt: skip


def counting(p: tm.Pipeline, world: World) -> None:
    world.read(p, "shop").groupBy("k").agg(rows=tm.count(), name="totals")


def world_of(folder: Path, kind: Kind) -> World:
    return World(folder, counting, format=kind.format, schema=SCHEMA, mode="PERMISSIVE", **kind.options)


def started(folder: Path, kind: Kind) -> World:
    """Return a world whose first batch has read the record after a good one."""
    world = world_of(folder, kind)
    world.put("a", GOOD[kind.format].encode() + kind.record)
    (progress,) = world.open().run(engine="local")
    good = 2 if kind.text == "7" else 1
    assert (progress.applied_rows, progress.quarantined_rows, progress.numInputRows) == (good, 1, good + 1)
    return world


def totals(r: tm.Repository) -> dict[str, int]:
    return state(r, "totals")


def before(kind: Kind) -> dict[str, int]:
    return {"g": 1} | ({"b": 1} if kind.text == "7" else {})


@pytest.mark.parametrize(("name", "ending"), list(zip(KINDS, ["parquet", "csv", "json"] * len(KINDS), strict=False)))
def test_a_corrected_record_comes_back_once(tmp_path: Path, name: str, ending: str) -> None:
    kind = KINDS[name]
    r = started(tmp_path, kind).open()
    (row,), exported = r.quarantine(0).to_pylist(), r.quarantine(0, export=True)
    assert exported.column("_text").to_pylist() == [kind.text]
    assert (row["line"], row["text"], row["kind"]) == (2, kind.text, "unreadable")
    assert kind.reason in row["reason"]
    assert totals(r) == before(kind)
    correct = exported.select(["_version", "_row_id"]).append_column("k", pa.array(["c"]))
    correct = correct.append_column("n", pa.array([3], pa.int32()))
    r.requeue(0, rows=stored(correct, tmp_path / f"corrected.{ending}"), reason="corrected")
    (progress,) = r.run(engine="local")
    assert (progress.numInputRows, progress.applied_rows, progress.quarantined_rows) == (1, 1, 0)
    assert totals(r) == before(kind) | {"c": 1}
    with pytest.raises(tm.InvalidInput, match="requeued"):
        r.requeue(0, rows=correct)
    assert r.verify(deep=True).problems == []


@pytest.mark.parametrize("name", KINDS)
def test_a_record_comes_back_as_it_is_or_is_refused(tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    r = started(tmp_path, kind).but(schema=kind.wider).open(init=False)
    if kind.as_it_is is None:
        with pytest.raises(tm.InvalidInput, match="still unreadable|its text is not known"):
            r.requeue(0)
        assert totals(r) == before(kind)
        return
    r.requeue(0)
    (progress,) = r.run(engine="local")
    assert (progress.numInputRows, progress.applied_rows, progress.quarantined_rows) == (1, 1, 0)
    assert totals(r) == before(kind) | {kind.as_it_is[0]: 1}


def stored(table: pa.Table, path: Path) -> Path:
    """Write corrected rows as a user does, by hand."""
    (row,) = table.to_pylist()
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".csv":
        path.write_text(",".join(row) + "\n" + ",".join(str(value) for value in row.values()) + "\n")
    else:
        path.write_text(str(row).replace("'", '"') + "\n")
    return path


def test_a_record_comes_back_by_the_header_of_its_file(tmp_path: Path) -> None:
    world = world_of(tmp_path, Kind("csv", b"", "", "", {"header": True}))
    world.put("a", "n,k\n5,g\nx,a\n")
    r = world.open()
    run(r)
    assert totals(r) == {"g": 1}
    wider = world.but(schema="k string, n string").open(init=False)
    wider.requeue(0)
    run(wider)
    assert totals(wider) == {"g": 1, "a": 1}


def test_a_record_of_the_wrong_width_with_broken_bytes_is_not_taken_as_it_is_shown(tmp_path: Path) -> None:
    kind = Kind("csv", b"\xe4\n", "\\xe4", "not UTF-8", wider="k string")
    r = started(tmp_path, kind).but(schema=kind.wider).open(init=False)
    with pytest.raises(tm.InvalidInput, match="its text is not known"):
        r.requeue(0)
