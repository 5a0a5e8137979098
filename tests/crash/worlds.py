"""Places for crash tests: files, a repository and two sinks in one place, what a user sees of them, and deaths.

INVARIANT: nothing here reads a record, so that the tests hold for any format; objects are known by their names, and
results by the public API.
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
import re
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import tidemill as tm
from tests.world import Build, World
from tidemill.store import Store, open_store
from tidemill.store.fault import Crash

FILES, BEFORE, MORE = 6, 5, 2
"""Input files, versions before a disaster, and the version at which the second operator is added."""
SINKS = ("users", "by-n")
UNCACHED = {"tidemill.cache_bytes": 0, "tidemill.disk_cache_bytes": 0}
MOST_SECONDS = 20
REFUSALS = (tm.CorruptState, tm.Fenced, tm.InvalidInput)
"""Errors that tell a user what to do about damage."""
Snapshot = dict[str, tuple[bytes, int]]
"""Objects by name, each with its time, which only files have."""


def track(batch_time: Any, user: Any, row: Any, state: Any) -> Any:
    """A sum a user, and a goodbye when the user times out."""
    if state.isTimingOut:
        return (user, int(state.get), True)
    state.update((state.getOption or 0) + row.n)
    return (user, int(state.get), False)


def by_file_name(plan: Any) -> int:
    """The batch time: a second a file."""
    return 1000 * max(int(re.sub(r"\D", "", Path(split.path).stem)) for split in plan.splits)


def make_inbox(folder: Path, files: int = FILES, seed: int = 3) -> None:
    """Write JSON files with a line each that is quarantined."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(seed)
    for number in range(files):
        make_file(folder / f"{number:04d}.json", chance, 3 * number)


def make_file(path: Path, chance: random.Random, second: int) -> None:
    """Write a file of the inbox."""
    rows = [
        {"user": f"u{chance.randrange(7)}", "n": chance.randrange(4), "ts": f"2024-01-01T00:00:{second:02d}"}
        for _ in range(6)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + f"not json {second}\n")


def users(sums: str = "long", by_n: str | None = "by-n", *, but: int | None = None, keeps: bool = False) -> Build:
    """Sums by user, whose state has the type `sums`. If there is a sink `by_n`, also counts by number into that.

    Rows with the number `but` are not counted. `keeps`: these counts have no sink, so the repository keeps them.
    """

    def build(p: tm.Pipeline, world: World) -> None:
        p.batch_time(by_file_name)
        rows = world.read(p).withWatermark("ts", "1 second")
        rows.groupBy("user").mapWithState(
            tm.StateSpec.function(track).timeout("2 seconds", clock="event"),
            stateSchema=sums, outputSchema="user string, n long, closed boolean", name="users",
        ).write(tm.Parquet(world.sink("users")))  # fmt: skip
        if by_n is not None:
            counted = rows if but is None else rows.sql(f"SELECT * FROM rows WHERE n <> {but}")
            counts = counted.groupBy("n").agg(users=tm.count(), name="by-n")
            if not keeps:
                counts.write(tm.Json(world.sink(by_n)), name=by_n)

    return build


class Place(World):
    """A world with its root and its sinks below `base`, a folder or a URI such as `memory://name`.

    `open` makes no repository, because that of most tests is damaged or gone.
    """

    def __init__(self, folder: Path, base: str, build: Build | None = None) -> None:
        read = {"format": "json", "schema": "user string, n int, ts timestamp", "mode": "PERMISSIVE"}
        super().__init__(folder, build or users(), name="damaged", root=f"{base}/root", conf=UNCACHED, **read)
        self.base, self.root_name, self.sink_name = base, "root", "sinks"

    def at(self, base: str, root_name: str = "root", sink_name: str = "sinks") -> Place:
        """Return the same files and code with another root and other sinks."""
        place = copy.copy(self)
        place.base, place.root_name, place.sink_name, place.root = base, root_name, sink_name, f"{base}/{root_name}"
        return place

    @property
    def store(self) -> Store:
        """Everything that can be damaged."""
        return open_store(self.base)

    def sink(self, name: str) -> str:
        return f"{self.base}/{self.sink_name}/{name}"

    def open(self, branch: str = "main", *, init: bool = False, conf: Mapping[str, Any] | None = None) -> tm.Repository:
        return super().open(branch, init=init, conf=conf)

    def run(self, max_batches: int | None = None, **options: Any) -> list[int]:
        return super().run(tasks=1, max_batches=max_batches, **options)

    def begin_with_one_operator(self) -> None:
        """Make the repository and its first versions with one operator, and add the second one."""
        first = self.but(users(by_n=None))
        first.open().init()
        for _ in range(MORE):
            first.run(1)
        self.open().init()

    def begin(self) -> None:
        """Make the repository and its versions before a disaster, the first of them with one operator."""
        self.begin_with_one_operator()
        for _ in range(BEFORE - MORE):
            self.run(1)

    def save(self, prefix: str = "") -> Snapshot:
        """Return all objects, with the times of files."""
        store = self.store
        return {entry.name: (store.get(entry.name), self._time(entry.name)) for entry in store.list(prefix)}

    def load(self, snapshot: Snapshot, prefix: str = "") -> None:
        """Make the objects those of a snapshot."""
        store = self.store
        for entry in list(store.list(prefix)):
            if entry.name not in snapshot or snapshot[entry.name][0] != store.get(entry.name):
                store.delete(entry.name)
        there = {entry.name for entry in store.list(prefix)}
        for name, (data, time_ns) in snapshot.items():
            if name.startswith(prefix):
                self.write(name, data, time_ns, is_there=name in there)

    def write(self, name: str, data: bytes, time_ns: int, is_there: bool = False) -> None:
        """Write an object behind Tidemill's back, without fsync; a file gets the time given."""
        path = self.store.local_path(name)
        if path is None:
            if not is_there:
                self.store.put(name, data)
            return
        if not is_there:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(data)
        os.utime(path, ns=(time_ns, time_ns))

    def _time(self, name: str) -> int:
        path = self.store.local_path(name)
        return 0 if path is None else os.stat(path).st_mtime_ns


def filled(folder: Path, base: str, build: Build | None = None) -> Place:
    """A place whose inbox has files."""
    place = Place(folder, base, build)
    make_inbox(place.inbox)
    return place


def memory_world(tmp_path: Path) -> Place:
    """A place in memory, where etags are digests of the content."""
    return filled(tmp_path, f"memory://{uuid.uuid4().hex}")


def folder_world(tmp_path: Path) -> Place:
    """A place in a folder."""
    return filled(tmp_path, str(tmp_path / "world"))


WORLDS: dict[str, Callable[[Path], Place]] = {"memory": memory_world, "folder": folder_world}


# what can be seen


def seen(world: Place) -> dict[str, Any]:
    """Return all that a user can read, by name; an error instead where reading fails."""
    found: dict[str, Any] = {}
    repository = world.open()
    found["head"] = _read(lambda: -1 if repository.head is None else repository.head.version)
    last = found["head"] if isinstance(found["head"], int) else BEFORE
    found["counts"] = _read(lambda: [commit.counts for commit in repository.commits()])
    for operator in SINKS:
        found[f"state {operator}"] = _read(lambda op=operator: _sorted(repository.state(op)))
        found[f"outputs {operator}"] = _read(lambda op=operator: repository.outputs(sink=op).to_pylist())
    for version in range(last + 1):
        for operator in SINKS:
            found[f"state {operator} {version}"] = _read(
                lambda op=operator, v=version: _sorted(repository.state(op, version=v))
            )
            found[f"outputs {operator} {version}"] = _read(
                lambda op=operator, v=version: repository.outputs(v, op).to_pylist()
            )
        found[f"quarantine {version}"] = _read(lambda v=version: repository.quarantine(v).to_pylist())
    return found


def _sorted(table: Any) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def _read(read: Callable[[], Any]) -> Any:
    try:
        with bounded():
            return read()
    except Exception as error:  # noqa: BLE001
        return error


def published(world: Place) -> dict[str, list[str]]:
    """Return the rows of every file that a plain reader of the sinks' folders sees."""
    store, found = world.store, {}
    for entry in store.list(f"{world.sink_name}/"):
        if "/_" not in entry.name:  # Spark, DuckDB and Polars skip these
            found[entry.name] = rows_of(entry.name, store.get(entry.name))
    return found


def rows_of(name: str, data: bytes) -> list[str]:
    """Return the rows of a file of a sink, as text that begins with the sink's name."""
    sink = name.split("/")[1]
    try:
        return [f"{sink} {row}" for row in cells_of(name, data)]
    except Exception:  # noqa: BLE001
        return [f"{sink} unreadable"]


def cells_of(name: str, data: bytes) -> list[dict[str, Any]]:
    """Return the rows of a file of a sink."""
    if name.endswith(".parquet"):
        return list(pq.read_table(io.BytesIO(data)).to_pylist())
    return [json.loads(line) for line in data.decode().splitlines()]


@contextmanager
def bounded(seconds: float = MOST_SECONDS) -> Iterator[None]:
    """Raise `TimeoutError` in the block after so long: a hang is a verdict, not the end of the campaign."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# phases: when the damage is done


def at_rest(world: Place) -> None:
    """Everything is published, and a file waits."""


def planned(world: Place) -> None:
    """The next batch is planned and has written its files, but is not committed."""
    with dying("create", rf"/commits/{BEFORE:010d}\.json$", "before"):
        world.run()


def unpublished(world: Place) -> None:
    """The next batch is committed, and nothing of it is published."""
    with dying("create", rf"/commits/{BEFORE:010d}\.json$", "after"):
        world.run()


PHASES: dict[str, Callable[[Place], None]] = {"rest": at_rest, "planned": planned, "unpublished": unpublished}


@contextmanager
def dying(verb: str, pattern: str, when: str) -> Iterator[None]:
    """Let the run of the block die before or after its first write of a name that fits."""
    from tidemill.store.local import LocalStore
    from tidemill.store.memory import MemoryStore
    from tidemill.store.s3 import S3Store

    dead = threading.Event()
    verbs = ("put", "put_hint", "create", "copy", "copy_from", "delete")
    real = {(kind, one): getattr(kind, one) for kind in (LocalStore, MemoryStore, S3Store) for one in verbs}

    def patched(kind: Any, one: str) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any) -> Any:
            if dead.is_set():
                raise Crash("the process is dead")
            name = f"{self.uri}/{arguments[-1] if one.startswith('copy') else arguments[0]}"
            if one != verb or not re.search(pattern, name):
                return real[kind, one](self, *arguments)
            if when == "after":
                real[kind, one](self, *arguments)
            dead.set()
            raise Crash(name)

        return call

    for kind, one in real:
        setattr(kind, one, patched(kind, one))
    try:
        yield
        raise AssertionError(f"the run did not {verb} {pattern}")
    except Crash:
        pass
    finally:
        for (kind, one), method in real.items():
            setattr(kind, one, method)
