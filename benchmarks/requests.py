"""Measure warm small batches on S3 where each request takes 30 ms: their requests, the longest chain, and the time.

    .venv/bin/python benchmarks/requests.py [--rounds 15] [--keys 100000] [--rows 10000] [--delay-ms 30]
        [--engine local] [--tasks 1 2 4 8] [--show] [--json FILE]

Source, root and sink are on the S3 server of the tests, behind a proxy that delays each request. One process runs the
batches through one repository, after one batch that has every key. "open": each run opens it again. "chain" is the
greatest number of requests of which each began after the one before it was answered. `--show` prints the requests of
the last run of each kind in order, in ms from the first one.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from events import machine

import tidemill as tm
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import Fault, Request, S3Proxy, counts, longest_chain
from tidemill.store import open_store

WARM = 3
"""Batches that are not measured: they open connections, and import what a batch needs."""


@dataclass
class Measured:
    """What the runs of one kind cost: seconds, and requests with their spans."""

    seconds: list[float] = field(default_factory=list)
    chains: list[int] = field(default_factory=list)
    requests: list[list[Request]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)

    def row(self, what: str, tasks: int) -> dict[str, Any]:
        """Return the figures: medians of time, requests, chain and bytes."""
        last = self.requests[-1]
        twice = [name for name, times in Counter((one.kind, one.key) for one in last).items() if times > 1]
        return {
            "what": what,
            "tasks": tasks,
            "ms": statistics.median(self.seconds) * 1e3,
            "least_ms": min(self.seconds) * 1e3,
            "greatest_ms": max(self.seconds) * 1e3,
            "all_ms": [second * 1e3 for second in self.seconds],
            "requests": statistics.median(map(len, self.requests)),
            "chain": statistics.median(self.chains),
            "bytes": statistics.median(self.sizes),
            "kinds": counts(last),
            "twice": sorted(f"{kind} {key}" for kind, key in twice),
        }


class Place:
    """A repository on S3, run with a number of tasks, and its input files. `opens_again`: before each run."""

    opens_again = False

    def __init__(self, server: S3Server, proxy: S3Proxy, options: argparse.Namespace, tasks: int) -> None:
        self.proxy, self.options, self.tasks = proxy, options, tasks
        self.root = server.new_root()
        self.inbox = open_store(f"{self.root}/inbox", server.options)
        self.random = np.random.default_rng(tasks)
        self.given = 0
        through = {**server.options, "endpoint_url": proxy.endpoint_url}
        self.sections = dict.fromkeys(("root", "source", "sink"), through)
        self.repository = self.open()
        self.repository.init()
        self.file(np.arange(options.keys))
        self.run()

    @property
    def actions(self) -> dict[str, Callable[[], None]]:
        """The actions of each round, in order. A file waits before each batch."""
        if self.opens_again:
            return {"open, batch": self.run_opened, "open, idle run": self.run_opened}
        return {"batch": self.run, "idle run": self.run}

    def open(self) -> tm.Repository:
        """Return the repository, opened again."""
        p = tm.Pipeline("requests")
        rows = p.read(tm.Files(f"{self.root}/inbox", format="parquet", schema="k bigint, v bigint"))
        sums = rows.groupBy("k").agg(n=tm.count(), total=tm.sum("v"), name="sums")
        sums.write(tm.Parquet(f"{self.root}/published"))
        conf = {"spark.master": "local[2]"} if self.options.engine == "spark" else {}
        return tm.open(p, root=f"{self.root}/root", conf=conf, storage_options=self.sections)

    def file(self, keys: Any) -> None:
        """Add an input file, not through the proxy."""
        data = io.BytesIO()
        pq.write_table(pa.table({"k": keys, "v": self.random.integers(0, 1000, len(keys))}), data)
        self.inbox.put(f"{self.given:06d}.parquet", data.getvalue())
        self.given += 1

    def run(self) -> None:
        """Run whatever waits."""
        self.repository.run(engine=self.options.engine, tasks=self.tasks)

    def run_opened(self) -> None:
        """Run whatever waits, with the repository opened again."""
        self.open().run(engine=self.options.engine, tasks=self.tasks)

    def measure(self, act: Callable[[], None], found: Measured) -> None:
        """Take the time of an action, and what it asked of S3."""
        proxy = self.proxy
        with proxy.recorded() as requests:
            started = time.perf_counter()
            act()
            found.seconds.append(time.perf_counter() - started)
        time.sleep(0.05)  # the proxy notes the end of an answer after the client has it
        found.spans = [proxy.spans[one.number] for one in requests]
        found.requests.append(requests)
        found.chains.append(longest_chain(found.spans))
        found.sizes.append(sum(proxy.sizes[one.number] for one in requests))


class OpenedAgain(Place):
    """A repository that every run opens again."""

    opens_again = True


def measured(place: Place) -> dict[str, Measured]:
    """Return what warm batches and idle runs cost."""
    options, found = place.options, {what: Measured() for what in place.actions}
    for number in range(WARM + options.rounds):
        for what, act in place.actions.items():
            if what.endswith("batch"):
                place.file(place.random.choice(options.keys, options.rows, replace=False))
            place.measure(act, found[what] if number >= WARM else Measured())
    return found


def show(found: Measured, root: str) -> None:
    """Print the requests of the last run in order, with when each began and ended."""
    base = found.spans[0][0]
    for one, (start, end) in zip(found.requests[-1], found.spans, strict=True):
        key = one.key.removeprefix(root.split("/", 3)[3]).lstrip("/")
        print(f"    {(start - base) * 1e3:6.0f}–{(end - base) * 1e3:<6.0f} {one.kind:<6} {key}")


def main() -> None:
    """Parse arguments, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--delay-ms", type=float, default=30)
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    parser.add_argument("--tasks", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--show", action="store_true", help="print the requests of the last run of each kind")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    figures = []
    with ExitStack() as closing:
        proxy = closing.enter_context(S3Proxy(server := closing.enter_context(S3Server())))
        delay = Fault(delay_s=options.delay_ms / 1e3)
        for tasks, kind in itertools.product(options.tasks, (Place, OpenedAgain)):
            place = kind(server, proxy, options, tasks)
            proxy.plan = lambda _: delay if delay.delay_s else None
            for what, found in measured(place).items():
                row = found.row(what, tasks)
                figures.append(row)
                spread = f"({row['least_ms']:,.0f}–{row['greatest_ms']:,.0f})"
                print(
                    f"{what:<16}{tasks} tasks  {row['ms']:>6,.0f} ms {spread:<14} {row['requests']:>4.0f} requests, "
                    f"chain {row['chain']:>3.0f}, {row['bytes']:>9,.0f} bytes  {row['kinds']}",
                    flush=True,
                )
                if row["twice"]:
                    print(f"    more than once: {', '.join(row['twice'])}")
                if options.show:
                    show(found, place.root)
            proxy.plan = lambda _: None
    print(machine())
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
