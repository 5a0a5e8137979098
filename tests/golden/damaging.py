"""Damage to a copy of the golden repository."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.golden import make
from tests.golden.conftest import Golden
from tests.unit.protocol.valid_records import sealed

RESTORE = "restore the object from a backup"
Verb = Callable[[Any], Any]
VERBS: dict[str, Verb] = {
    "head": lambda r: r.head,
    "commits": lambda r: r.commits(),
    "state": lambda r: r.state("visits"),
    "outputs": lambda r: r.outputs(sink="visits"),
    "quarantine": lambda r: r.quarantine(),
    "run": lambda r: r.run(engine="local", max_batches=1, batch_time=make.ms("2024-03-02T12:00")),
    "sweep": lambda r: r.sweep(engine="local", batch_time=make.ms("2024-03-03T12:00")),
}


def refused(
    golden: Golden, verb: str, message: str, hint: str | None = None, kind: type[tm.TidemillError] = tm.CorruptState
) -> str:
    """Check that `verb` raises `CorruptState` with this beginning and changes nothing. Return the first line."""
    make.arrive(golden.folder / "input", "04.csv", "ada,UK,2024-03-01 11:00:00,2.00\n", "2024-03-02T11:30:00")
    before = kept(golden)
    with pytest.raises(kind) as caught:
        VERBS[verb](golden.open())
    assert caught.value.first_line.startswith(message.replace("ROOT", f"file://{golden.repository}"))
    if verb not in ("run", "sweep"):
        with pytest.raises(kind):
            VERBS[verb](golden.read())
    assert hint is None or (caught.value.hint is not None and caught.value.hint.startswith(hint))
    assert kept(golden) == before
    return caught.value.first_line


def kept(golden: Golden) -> dict[Path, bytes]:
    """Return the files that a failing verb must not change: all except new plans and files that no commit names."""
    folders = (golden.commit(0).parent, golden.repository / "refs", golden.folder / "published")
    return {path: path.read_bytes() for folder in folders for path in folder.rglob("*.json")}


def rewritten(change: Callable[[dict[str, Any]], Any]) -> Callable[[Golden], None]:
    """Return damage that changes the JSON of the head's commit and gives it a valid checksum."""

    def damage(golden: Golden) -> None:
        raw = golden.record(4)
        change(raw)
        golden.commit(4).write_bytes(sealed(raw))

    return damage


def first_segment(raw: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = raw["state"]["visits"]["state"][0]
    return found
