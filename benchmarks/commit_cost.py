"""Measure what a commit costs when its version has many live segments: one record, or a manifest for each operator.

    .venv/bin/python benchmarks/commit_cost.py [--runs 15] [--segments 500 3000] [--no-s3] [--json FILE]

Encoding and decoding are CPU time of one thread, creating is wall time. All variants run in turn. "one record" is the
format: a commit lists all live segments. "manifests" is what decision 0010 compares it with: the segments of each
operator are an object of their own, and the commit names it. A manifest is written only if its operator changed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import uuid
import zlib
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.servers.s3 import S3Server
from tidemill.protocol.codec import decode, encode
from tidemill.protocol.records import Commit, Counts, Parent, Segment, StoreVersion, digest
from tidemill.store import Store, open_store

OPERATORS = ("orders", "sessions", "spend", "visits")
RUNS_A_RANGE = 6
"""Live segments that show one hash: deltas and a base."""
DESCRIBED = {
    "kind": "map_with_state", "key": ["customer"], "output": "customer string, total double, visits bigint",
    "maps": {"state": {"key": "customer string", "sub_key": "", "value": "total double, visits bigint"}},
    "rules": {"timeout": "30 days", "late": "drop"},
}  # fmt: skip

Measured = dict[str, list[float]]


def segments(operator: str, count: int) -> list[Segment]:
    """Return live segments that cover the hash space, as batches leave them."""
    ranges = max(count // RUNS_A_RANGE, 1)
    width = 2**64 // ranges
    return [
        _segment(operator, number, (number // RUNS_A_RANGE % ranges) * width, width) for number in range(count)
    ]  # fmt: skip


def _segment(operator: str, number: int, lo: int, width: int) -> Segment:
    version = 100_000 + number % RUNS_A_RANGE * 7
    content = digest(f"{operator} {number}".encode())
    name = (
        f"state/{operator}/state/main/{version:010d}-{content[:12]}-{number // RUNS_A_RANGE:05d}-{content[:8]}.parquet"
    )
    deadline = 1_700_000_000_000 + number
    return Segment(
        name,
        content,
        123_456 + number,
        4_321,
        lo,
        lo + width - 1,
        version,
        version,
        deadline,
        lo + 17,
        digest(content.encode()),
    )


def commit(state: dict[str, dict[str, list[Segment]]]) -> Commit:
    """Return a commit with this state, and else what a small batch records."""
    return Commit(
        version=100_042, kind="batch", attempt="0123456789ab", plan_id="89abcdef0123", branch="main",
        pipeline_uuid="5e5b2c0f9d4a4f0e8b1f6c7d8e9f0a1b", parent=Parent("main", 100_041, "0" * 32), refs_through=4,
        refs_checksum="1" * 32, batch_time_ms=1_700_000_000_000, watermarks={"in.ts": 1_699_999_990_000},
        event_time={}, state=state, rows={}, ledger=[], outputs={}, quarantine=[], counts=Counts(input_rows=10_000),
        operators={}, schemas=dict.fromkeys(state, DESCRIBED), sinks={}, sources={}, code={}, next_deadline={},
        published_through=100_041, committed_ms=1_700_000_001_000,
    )  # fmt: skip


def manifest(operator: str, live: list[Segment]) -> StoreVersion:
    """Return a record that lists the segments of one operator, in the encoding that a manifest would have."""
    return StoreVersion(100_042, "0123456789ab", operator, "state", live, 4_321 * len(live), 1_700_000_001_000)


class Version:
    """One version with `count` live segments, and how long its writing and reading takes in each variant."""

    def __init__(self, count: int, stores: dict[str, Store]) -> None:
        self.live = {name: segments(name, count // len(OPERATORS)) for name in OPERATORS}
        self.whole = commit({name: {"state": live} for name, live in self.live.items()})
        named = {name: {"state": live[:1]} for name, live in self.live.items()}  # a reference is about one segment long
        self.short = commit(named)
        self.stores = stores
        self.times: Measured = defaultdict(list)
        self.bytes: dict[str, int] = {}

    def run(self) -> None:
        """Measure every variant once."""
        data = self._timed("encode, one record", lambda: [encode(self.whole)])
        for changed in (len(OPERATORS), 1):
            what = "manifests, all changed" if changed == len(OPERATORS) else "manifests, one changed"
            self._write(what, self._timed(f"encode, {what}", lambda some=changed: self._encoded(some)))
        self._write("one record", data)
        found = self._timed("decode, one record", lambda: decode(Commit, data[0], "commit"))
        assert found == self.whole, "the commit was not read back as it was written"
        self._timed("json.loads alone", lambda: json.loads(data[0]))
        self._timed("zlib level 1", lambda: zlib.compress(data[0], 1))
        self.bytes["one record, zlib level 1"] = len(zlib.compress(data[0], 1))

    def _encoded(self, changed: int) -> list[bytes]:
        return [*(encode(manifest(name, self.live[name])) for name in OPERATORS[:changed]), encode(self.short)]

    def _write(self, what: str, objects: list[bytes]) -> None:
        self.bytes[what] = sum(map(len, objects))
        for kind, store in self.stores.items():
            started = time.perf_counter()
            for data in objects:
                assert store.create(f"{uuid.uuid4().hex}.json", data)
            self.times[f"create on {kind}, {what}"].append(time.perf_counter() - started)

    def _timed(self, what: str, act: Callable[[], Any]) -> Any:
        started = time.thread_time()
        result = act()
        self.times[what].append(time.thread_time() - started)
        return result


def measured(count: int, runs: int, stores: dict[str, Store]) -> list[dict[str, Any]]:
    """Return a row for each figure of a version with `count` live segments: medians in ms, and bytes."""
    version = Version(count, stores)
    version.run()  # the first use makes readers and connections
    version.times.clear()
    for _ in range(runs):
        version.run()
    rows = [
        {"segments": count, "what": what, "value": statistics.median(times) * 1e3, "unit": "ms",
         "least": min(times) * 1e3, "greatest": max(times) * 1e3}
        for what, times in version.times.items()
    ]  # fmt: skip
    return rows + [
        {"segments": count, "what": f"size, {what}", "value": size, "unit": "bytes"}
        for what, size in version.bytes.items()
    ]


def main() -> None:
    """Parse arguments, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--segments", type=int, nargs="+", default=[500, 3_000])
    parser.add_argument("--no-s3", action="store_true", help="measure creates in a folder only")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    with ExitStack() as closing:
        stores = {"a folder": open_store(closing.enter_context(tempfile.TemporaryDirectory()))}
        if not options.no_s3:
            server = closing.enter_context(S3Server())
            stores["the S3 test server"] = open_store(server.new_root(), server.options)
        figures = [row for count in options.segments for row in measured(count, options.runs, stores)]
    for row in figures:
        spread = f" ({row['least']:.2f}–{row['greatest']:.2f})" if "least" in row else ""
        value = f"{row['value']:,.2f}" if row["unit"] == "ms" else f"{row['value']:,}"
        print(f"{row['segments']:>6}  {row['what']:<55} {value} {row['unit']}{spread}")
    if options.json:
        options.json.write_text(json.dumps({"figures": figures}))


if __name__ == "__main__":
    main()
