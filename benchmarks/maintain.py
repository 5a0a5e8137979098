"""Measure many small batches into a large state, with runs merged by `maintain` every night, by batches alone, and by
the rule before decision 0012.

    .venv/bin/python benchmarks/maintain.py [--keys 10000000] [--batches 200] [--every 50] [--rounds 3]

All variants get the same files and take turns batch by batch, so that they share the noise of the machine. At the end
their states must be equal. The same batches merge the same runs in each round, so the least time of a batch in all
rounds is its time without noise. CPU time does not count waiting for the disk. Needs 6 GB of memory and 3 GB of disk
with 10 million keys.
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
WARM = 2
"""Batches that are not counted."""


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
    cpu: list[float] = field(default_factory=list)
    nights: list[float] = field(default_factory=list)
    layers: list[int] = field(default_factory=list)
    rows: int = 0
    rows_at_night: int = 0

    def batch(self) -> None:
        """Run the batch that waits."""
        started, used = time.perf_counter(), time.process_time()
        if self.before:
            with mock.patch.object(layers, "_layers_to_merge", rule_before):
                self.repository.run(engine="local")
        else:
            self.repository.run(engine="local")
        self.seconds.append(time.perf_counter() - started)
        self.cpu.append(time.process_time() - used)
        head = self.repository.head
        live = head.state["op"]["state"] if "state" in head.state["op"] else next(iter(head.state["op"].values()))
        self.rows += sum(one.rows for one in live if one.version == head.version)
        spans = [layers.HashSpan(one.lo, one.hi, one.rows) for one in sorted(live, key=lambda one: one.sequence)]
        self.layers.append(len(layers.layered(spans)))

    def night(self) -> None:
        """Merge runs, if this variant does so."""
        started = time.perf_counter()
        report = merge(self.repository.opened)
        self.nights.append(time.perf_counter() - started)
        self.rows_at_night += sum(one.rows_after for one in report.merged)


def figures_of(rounds: Sequence[Variant]) -> dict[str, Any]:
    """Return what was measured of one variant in all rounds."""
    first = rounds[0]
    quiet = [min(of_batch) for of_batch in zip(*(one.seconds[WARM:] for one in rounds), strict=True)]
    cpu = [min(of_batch) for of_batch in zip(*(one.cpu[WARM:] for one in rounds), strict=True)]
    return {
        "what": first.name,
        "quiet": _spread(quiet),
        "cpu": _spread(cpu),
        "rounds": [_spread(one.seconds[WARM:]) for one in rounds],
        "rows_written_for_each_changed": first.rows / ROWS / len(first.seconds),
        "most_layers": max(first.layers),
        "nights_s": [min(of_night) for of_night in zip(*(one.nights for one in rounds), strict=True)],
        "rows_written_at_night_for_each_changed": first.rows_at_night / ROWS / len(first.seconds),
    }


def _spread(seconds: Sequence[float]) -> dict[str, Any]:
    middle, slowest = statistics.median(seconds), sorted(seconds)[-5:]
    slow_ms = [1000 * one for one in slowest]
    return {"median_ms": 1000 * middle, "slowest_ms": slow_ms, "ratio": slowest[-1] / middle}


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
    for what, found in [
        ("", figures["quiet"]),
        ("  CPU time", figures["cpu"]),
        *(("  one round", one) for one in figures["rounds"]),
    ]:
        slowest = ", ".join(f"{one:.0f}" for one in found["slowest_ms"])
        print(
            f"{what or figures['what']:<28} median {found['median_ms']:.0f} ms; the slowest takes {found['ratio']:.1f} "
            f"times as long (the five slowest: {slowest} ms)"
        )
    print(
        f"    {figures['rows_written_for_each_changed']:.1f} rows written for each changed one, at night "
        f"{figures['rows_written_at_night_for_each_changed']:.1f}; at most {figures['most_layers']} layers; nights "
        + (", ".join(f"{one:.2f} s" for one in figures["nights_s"]) or "none"),
        flush=True,
    )


def played(given: argparse.Namespace) -> list[Variant]:
    """Return the variants after one round."""
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
        for number in range(1, 1 + WARM + given.batches):
            write_batch(events, number, ROWS, given.keys)
            turn = number % len(variants)
            for one in variants[turn:] + variants[:turn]:
                one.batch()
                if one.every and number % one.every == 0:
                    one.night()
        digests = {digest_of(one.repository) for one in variants}
        assert len(digests) == 1, f"the states differ: {digests}"
    return variants


def main() -> None:
    """Run all variants and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--batches", type=int, default=200, help="counted batches")
    parser.add_argument("--every", type=int, default=50, help="batches from one night to the next")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured")
    parser.add_argument("--json", help="file for the figures")
    given = parser.parse_args()
    print(f"{machine()}; {given.batches} batches of {ROWS:,} rows into {given.keys:,} keys, local engine", flush=True)
    rounds = [played(given) for _ in range(given.rounds)]
    figures = [figures_of(of_variant) for of_variant in zip(*rounds, strict=True)]
    for found in figures:
        show(found)
    if given.json:
        Path(given.json).write_text(json.dumps({"machine": machine(), "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
