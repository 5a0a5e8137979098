"""Measure whether history makes a pipeline slower: opening with `status`, an idle run and one batch, on a local folder.

    .venv/bin/python benchmarks/history.py [--commits 10 10000 100000] [--entries 1000] [--files 100000] [--rounds 15]

The history is simulated: its records are written directly, as a pipeline would have written them. All variants run in
turn, each action in a new `tm.open`. "requests" are calls to the store, "names" are names that the system returned from
folders, and "bytes" are read and written bytes of objects. Needs 2 GB of disk with 100,000 commits.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from events import machine

import tidemill as tm
from tidemill import names
from tidemill.protocol import hint
from tidemill.protocol.codec import checksum_of, encode
from tidemill.protocol.entries import Base, Hold, TagEntry
from tidemill.protocol.records import Commit, Forgotten, Shown
from tidemill.protocol.refs_log import RefsLog, position
from tidemill.protocol.successor import Origin, successor
from tidemill.store import local, open_store, walk

FEW = 10
SCHEMA = "user string, n int, ts timestamp"
ACTIONS = ("open, status", "idle run", "batch")


@dataclass
class Cost:
    """What an action asked of the store."""

    requests: int = 0
    names: int = 0
    bytes: int = 0


@contextlib.contextmanager
def counted() -> Iterator[Cost]:
    """Count the calls of all local stores while the block runs."""
    cost = Cost()

    def passing(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            found = method(*arguments, **named)
            cost.requests += 1
            cost.bytes += sum(len(one) for one in (*arguments, found) if isinstance(one, bytes))
            return found

        return call

    def scanned(path: str) -> Any:
        with scandir(path) as items:
            found = list(items)
        cost.names += len(found)
        return contextlib.nullcontext(found)

    scandir = os.scandir
    with contextlib.ExitStack() as patches:
        for verb in ("get", "get_range", "put", "put_hint", "create", "copy_from", "list", "stat", "delete"):
            method = getattr(local.LocalStore, verb)
            patches.enter_context(mock.patch.object(local.LocalStore, verb, passing(method)))
        patches.enter_context(mock.patch.object(walk.os, "scandir", scanned))
        yield cost


@dataclass
class Place:
    """A repository with a history, and what was measured on it."""

    base: Path
    name: str
    start: str = "earliest"
    given: int = 0
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    costs: dict[str, Cost] = field(default_factory=dict)

    @property
    def repository(self) -> Path:
        return self.base / "root" / "history"

    def open(self) -> tm.Repository:
        p = tm.Pipeline("history")
        source = tm.Files(str(self.base / "inbox"), format="json", schema=SCHEMA, start=self.start)
        rows = p.read(source).withWatermark("ts", "1 second")
        users = rows.groupBy("user").agg(n=tm.sum("n"), closed=tm.max("n"), name="users")
        users.groupBy("closed").agg(n=tm.count(), name="closed").write(tm.Parquet(str(self.base / "published")))
        return tm.open(p, root=str(self.base / "root"))

    def file(self) -> None:
        """One more input file."""
        rows = [{"user": f"u{n}", "n": n, "ts": "2024-01-01T00:00:00"} for n in range(5)]
        folder = self.base / "inbox"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"n{self.given:06d}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.given += 1

    def run(self) -> None:
        self.open().run(engine="local", tasks=1)

    def measure(self) -> None:
        """Take the time of every action once, and count what it asks of the store."""
        for what in ACTIONS:
            if what == "batch":
                self.file()
            act = self.run if what != ACTIONS[0] else lambda: self.open().status()
            with counted() as cost:
                started = time.perf_counter()
                act()
                self.seconds[what].append(time.perf_counter() - started)
            self.costs[what] = cost


def made(base: Path, name: str, start: str = "earliest") -> Place:
    """Return a repository with a few versions, in the folder `base/name`."""
    place = Place(base / name, name, start)
    place.file()
    place.open().init()
    for _ in range(FEW):
        place.file()
        place.run()
    return place


def write(store_folder: Path, name: str, data: bytes) -> None:
    """Write an object without fsync."""
    path = store_folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def with_commits(place: Place, number: int, **changes: Any) -> None:
    """Add commits until the branch has so many, with plans and published records, all for the same few live segments.

    They are void commits, so that the state stays small. `changes` are fields that all of them have.
    """
    repository = place.open()
    refs, head = repository.opened.initialised(), repository.head
    plan = (place.repository / names.plan("main", head.version)).read_bytes()
    for version in range(head.version + 1, max(number, head.version + 2)):
        said = {"attempt": f"{version:012x}", "published_through": version - 1, "committed_ms": head.committed_ms}
        record = successor(Origin(refs, "main", head), "void", {**said, "reason": "a simulation"})
        data = encode(dataclasses.replace(record, **changes))
        write(place.repository, names.commit("main", version), data)
        write(place.repository, names.plan("main", version), plan)  # no run reads it, but a listing would show it
        write(place.repository, f"{names.published('main', 'closed')}{version:010d}.json", b"{}")
        head = dataclasses.replace(record, checksum=checksum_of(data), **changes)
    hint.write_hint(open_store(str(place.repository)), names.head_hint("main"), head.version)


def with_entries(place: Place, number: int, make: Callable[[int, dict[str, Any]], Any]) -> None:
    """Append entries to `refs/`. `make` gets a number from 0 on, and the fields that place an entry."""
    log = RefsLog(open_store(str(place.repository)))
    for count in range(number):
        log.append(lambda refs, _, count=count: make(count, position(refs, 0)))


def with_published(place: Place, number: int) -> None:
    """Add files to the folder of the sink, named as further files of version 0, as if it had had many."""
    one = next((place.base / "published").glob("*.parquet"))
    before, _, after = re.split(r"-([0-9]{10})-", one.name, maxsplit=1)
    for count in range(number):
        (one.parent / f"{before}-{0:010d}-{count + 1:05d}{after[5:]}").write_bytes(b"")


def with_bases(place: Place, number: int) -> None:
    """Append entries of merged segments, each of which ends the one before, as `maintain` every night leaves them."""
    head = place.open().head
    which, live = next(iter(head.state["users"].items()))

    def base(count: int, fields: dict[str, Any]) -> Base:
        ends = [fields["number"] - 1] if count else []
        return Base(**fields, operator="users", map=which, inputs=live[:1], outputs=live[:1], branch="main", ends=ends)

    with_entries(place, number, base)


def held(count: int, fields: dict[str, Any]) -> Hold:
    """Return the hold of a correction."""
    return Hold(**fields, branch="main", first=0, version=0, by_branch="main", by_version=count)


def rewound(number: int) -> dict[str, Any]:
    """Return what a commit says after so many rewinds, each of the version before it."""
    # Ranges of one version each: no merging of neighbours makes them shorter.
    return {
        "replaced": [(2 * one + 20, 2 * one + 20) for one in range(number)],
        "shown_by": [Shown(2 * one + 21, 2 * one + 21, 2 * one + 22) for one in range(number)],
    }


def variants(base: Path, given: argparse.Namespace) -> Iterator[Place]:
    """Yield a repository for each history."""
    for commits in given.commits:
        place = made(base, f"{commits:,} commits")
        with_commits(place, commits)
        yield place
    some = given.entries
    for what, make in (
        ("entries of one tag", lambda count, fields: TagEntry(**fields, name="here", branch="main", version=0)),
        ("tags", lambda count, fields: TagEntry(**fields, name=f"t{count}", branch="main", version=0)),
        ("holds", held),
    ):
        place = made(base, f"{some:,} {what}")
        with_entries(place, some, make)
        yield place
    place = made(base, f"{some:,} merges of segments")
    with_bases(place, some)
    yield place
    place = made(base, f"{given.files:,} published files")
    with_published(place, given.files)
    yield place
    place = made(base, f"{some:,} rewinds")
    with_commits(place, 2 * some + 500, **rewound(some))
    yield place
    place = made(base, f"{some:,} forgotten keys")
    with_commits(place, FEW + 2, forgotten=forgotten_keys(place.open().head, some))
    yield place
    if given.files:
        yield with_files(base, given.files)


def forgotten_keys(head: Commit, number: int) -> list[Forgotten]:
    """Return what a commit says after so many calls of `forget`, each of one key."""
    return [
        Forgotten(head.version, "users", f"{one:032x}", [f"{one:032x}"], {"closed": ["closed"]})
        for one in range(number)
    ]


def with_files(base: Path, number: int) -> Place:
    """Return a repository whose ledger has so many files, all still in the source's folder."""
    place = Place(base / f"{number:,} files in the ledger", f"{number:,} files in the ledger", "latest")
    inbox = place.base / "inbox"
    inbox.mkdir(parents=True)
    for count in range(number):
        (inbox / f"f{count:06d}.json").write_bytes(b"")
        os.utime(inbox / f"f{count:06d}.json", (1_600_000_000, 1_600_000_000))
    place.open().init()
    for _ in range(FEW):
        place.file()
        place.run()
    return place


def figures_of(place: Place) -> list[dict[str, Any]]:
    """Return a row for each action: counts of the last round, and the median, least and greatest time."""
    return [
        {
            "history": place.name,
            "what": what,
            **dataclasses.asdict(place.costs[what]),
            "ms": 1000 * statistics.median(place.seconds[what]),
            "least_ms": 1000 * min(place.seconds[what]),
            "greatest_ms": 1000 * max(place.seconds[what]),
        }
        for what in ACTIONS
    ]


def main() -> None:
    """Simulate the histories, measure in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, nargs="+", default=[FEW, 10_000, 100_000])
    parser.add_argument("--entries", type=int, default=1_000, help="entries, tags, holds, merges and corrections")
    parser.add_argument("--files", type=int, default=100_000, help="files in the ledger; 0 leaves this out")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", help="file for the figures")
    given = parser.parse_args()
    print(f"{machine()}; local folder, medians of {given.rounds} rounds", flush=True)
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as folder:
        places = list(variants(Path(folder), given))
        for one in places:
            one.measure()  # not counted: the first use makes readers
            one.seconds.clear()
        for number in range(given.rounds):
            turn = number % len(places)
            for one in places[turn:] + places[:turn]:
                one.measure()
    figures = [row for one in places for row in figures_of(one)]
    for row in figures:
        print(
            f"{row['history']:<30} {row['what']:<14}{row['requests']:>5} requests{row['names']:>9,} names"
            f"{row['bytes']:>11,} bytes {row['ms']:>8.1f} ms ({row['least_ms']:.1f}–{row['greatest_ms']:.1f})"
        )
    if given.json:
        Path(given.json).write_text(json.dumps({"machine": machine(), "figures": figures}, indent=1))


if __name__ == "__main__":
    main()
