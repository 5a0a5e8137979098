"""Two folders of files, orders and clicks, and a pipeline that pairs them before and after other operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tidemill as tm
from tests.seams.pairs import Pairs
from tests.world import World

ORDERS, CLICKS = "id string, at timestamp, amount bigint", "k string, seen timestamp, page string"


def joined(left: Any, right: Any) -> str:
    if left == 13:
        raise ValueError("unlucky")
    return f"{left}-{right}"


class Shop(World):
    """Some keys, some late rows on either side, and an amount on which the function fails."""

    def __init__(self, folder: Path, batches: int = 4, **world: Any) -> None:
        super().__init__(folder, pairs_of_two_sources, **world)
        for number in range(batches):
            orders = [f"{'abc'[n % 3]}{n % 5},{self._time(number * 30 + n)},{n}" for n in range(3 + number, 23)]
            clicks = [f"{'abc'[n % 3]}{n % 5},{self._time(number * 31 + n)},p{n}" for n in range(2 * number, 20)]
            orders += [f"late,{self._time(number)},7"] if number > 1 else []
            clicks += [f"a0,{self._time(number)},old", f"b1,{self._time(number)},old"] if number > 1 else []
            for source, found in (("orders", orders), ("clicks", clicks)):
                self.arrive("\n".join(found) + "\n", inbox=source)

    def _time(self, seconds: int) -> str:
        return f"2026-01-01 {8 + seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def pairs_of_two_sources(p: tm.Pipeline, world: World) -> None:
    """`pairs` reads two sources; `mixed` an operator above it and a source; `per-key` and `per-time` read pairs."""
    orders = world.read(p, "orders", "orders", schema=ORDERS).withWatermark("at", "10 seconds", late="quarantine")
    clicks = world.read(p, "clicks", "clicks", schema=CLICKS).withWatermark("seen", "2 seconds", late="quarantine")
    pairs = orders.groupBy("id").add(Pairs("pairs", "amount", "page", joined, "quarantine"), clicks.groupBy("k"))
    pairs.groupBy("id").agg(n=tm.count(), last=tm.last("pair"), name="per-key")
    once = orders.dropDuplicates(["id", "at"], name="once")
    mixed = once.groupBy("id").add(Pairs("mixed", "amount", "page", joined, "quarantine"), clicks.groupBy("k"))
    mixed.groupBy(tm.window("at", "10 seconds")).agg(n=tm.count(), name="per-time")


OPERATORS = ("mixed", "once", "pairs", "per-key", "per-time")


def everything(r: tm.Repository) -> dict[int, Any]:
    """What a user sees of every version: states, outputs with their places, quarantined rows, counts."""
    found = {}
    for commit in r.commits():
        version = commit.version
        states = [
            sorted(map(repr, r.state(name, version).drop_columns(["updated_at"]).to_pylist())) for name in OPERATORS
        ]
        outputs = [r.outputs(version, sink=name).to_pylist() for name in sorted(commit.outputs)]
        late = {name: (one.late_rows, one.late_inputs, one.failed) for name, one in commit.operators.items()}
        rejects = sorted(map(repr, r.quarantine(version).to_pylist()))
        found[version] = (states, outputs, rejects, commit.counts, late, commit.watermarks)
    return found


def bits(r: tm.Repository) -> dict[int, Any]:
    """The checksums of all segments, output files and quarantine files of every version."""
    found = {}
    for commit in r.commits():
        segments = {
            (operator, name): [one.checksum for one in of_map]
            for operator, maps in commit.state.items()
            for name, of_map in maps.items()
        }
        outputs = {name: [one.checksum for one in files] for name, files in commit.outputs.items()}
        found[commit.version] = segments, outputs, [one.checksum for one in commit.quarantine]
    return found
