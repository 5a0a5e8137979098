"""Measure many small batches into a large state, with runs merged by `maintain` every night, by batches alone, and by
the rule before decision 0012.

    .venv/bin/python benchmarks/maintain.py [--keys 10000000] [--batches 200] [--every 50] [--json FILE]

All variants get the same files and take turns batch by batch, so that they share the noise of the machine. At the end
their states must be equal. Needs 6 GB of memory and 3 GB of disk with 10 million keys.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
from events import SCHEMA, machine, write_batch, write_each_key

import tidemill as tm
from tidemill._native import merge_count
from tidemill.state import layers
from tidemill.upkeep.merging import merge

ROWS = 10_000


def rule_before(rows: Sequence[int], changed_rows: int) -> int:
    """Return how many layers a batch merged before decision 0012, whatever their size."""
    count: int = merge_count([*rows, changed_rows])
    return count


@dataclass
class Variant:
    """A repository under one rule, and what was measured on it."""

    name: str
    repository: tm.Repository
    before: bool
    every: int
    seconds: list[float] = field(default_factory=list)
    nights: list[float] = field(default_factory=list)
    layers: list[int] = field(default_factory=list)
    rows: int = 0
    rows_at_night: int = 0

    def batch(self) -> None:
        """Run the batch that waits."""
        started = time.perf_counter()
        if self.before:
            with mock.patch.object(layers, "_layers_to_merge", rule_before):
                self.repository.run(engine="local")
        else:
            self.repository.run(engine="local")
        self.seconds.append(time.perf_counter() - started)
        head = self.repository.head
        live = head.state["op"]["state"] if "state" in head.state["op"] else next(iter(head.state["op"].values()))
        self.rows += sum(one.rows for one in live if one.version == head.version)
        spans = [layers.Span(one.lo, one.hi, one.rows) for one in sorted(live, key=lambda one: one.sequence)]
        self.layers.append(len(layers.layered(spans)))

    def night(self) -> None:
        """Merge runs, if this variant does so."""
        started = time.perf_counter()
        report = merge(self.repository.context)
        self.nights.append(time.perf_counter() - started)
        self.rows_at_night += sum(one.rows_after for one in report.merged)

    def figures(self) -> dict[str, Any]:
        """Return what was measured."""
        middle = statistics.median(self.seconds)
        changed = ROWS * len(self.seconds)
        return {
            "what": self.name,
            "median_ms": 1000 * middle,
            "slowest_ms": 1000 * max(self.seconds),
            "ratio": max(self.seconds) / middle,
            "five_slowest_ms": [1000 * one for one in sorted(self.seconds)[-5:]],
            "rows_written_for_each_changed": self.rows / changed,
            "most_layers": max(self.layers),
            "nights_s": self.nights,
            "rows_written_at_night_for_each_changed": self.rows_at_night / changed,
        }


def opened(base: Path, events: Path, name: str) -> tm.Repository:
    """Return a new repository that counts and sums the events by key."""
    p = tm.Pipeline("bench")
    rows = p.read(tm.Files(str(events), schema=SCHEMA, maxFilesPerTrigger=1))
    rows.groupBy("key").agg(n=tm.count(), s=tm.sum("value"), name="op")
    conf = {"tidemill.cache_bytes": 8 << 30, "tidemill.disk_cache_folder": str(base / "cache")}
    repository = tm.open(p, root=f"{base}/{name}", conf=conf)
    repository.init()
    return repository


def digest_of(repository: tm.Repository) -> tuple[Any, ...]:
    """Return the number of keys and the sums of their values."""
    found = repository.state("op")
    with duckdb.connect() as connection:
        connection.register("found", found)
        columns = ", ".join(f'sum("{name}")' for name in found.column_names if name in ("n", "s"))
        result: tuple[Any, ...] = connection.sql(f"SELECT count(*), {columns} FROM found").fetchall()[0]
    return result


def show(figures: dict[str, Any]) -> None:
    """Print the figures of a variant."""
    slowest = ", ".join(f"{one:.0f}" for one in figures["five_slowest_ms"])
    print(
        f"{figures['what']:<44} median {figures['median_ms']:.0f} ms, slowest {figures['slowest_ms']:.0f} ms: "
        f"{figures['ratio']:.1f}x (the five slowest: {slowest} ms)\n"
        f"    {figures['rows_written_for_each_changed']:.1f} rows written for each changed one, at night "
        f"{figures['rows_written_at_night_for_each_changed']:.1f}; at most {figures['most_layers']} layers; nights "
        + (", ".join(f"{one:.2f} s" for one in figures["nights_s"]) or "none"),
        flush=True,
    )


def main() -> None:
    """Run all variants and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--batches", type=int, default=200, help="counted batches")
    parser.add_argument("--every", type=int, default=50, help="batches from one night to the next")
    parser.add_argument("--json", help="file for the figures")
    given = parser.parse_args()
    print(f"{machine()}; {given.batches} batches of {ROWS:,} rows into {given.keys:,} keys, local engine")
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as folder:
        base, events = Path(folder), Path(folder) / "events"
        events.mkdir()
        write_each_key(events, 0, given.keys)
        variants = [
            Variant("before decision 0012", opened(base, events, "before"), True, 0),
            Variant("now, never maintained", opened(base, events, "alone"), False, 0),
            Variant("now, merged every night", opened(base, events, "nightly"), False, given.every),
        ]
        for one in variants:
            one.repository.run(engine="local")
        for number in range(1, 3 + given.batches):
            write_batch(events, number, ROWS, given.keys)
            turn = number % len(variants)
            for one in variants[turn:] + variants[:turn]:
                one.batch()
                if one.every and number % one.every == 0:
                    one.night()
        digests = {digest_of(one.repository) for one in variants}
        assert len(digests) == 1, f"the states differ: {digests}"
    for one in variants:
        one.seconds = one.seconds[2:]
    figures = [one.figures() for one in variants]
    for found in figures:
        show(found)
    if given.json:
        Path(given.json).write_text(json.dumps({"machine": machine(), "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
