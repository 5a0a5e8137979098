"""Real processes of the command line on one repository, started, killed, stopped and continued at random.

`make chaos` runs `python -m tests.crash.chaos` for `CHAOS_SECONDS` (default: ten minutes). Its places take turns: a
folder, an S3 server and, if `TIDEMILL_MINIO` names a binary, MinIO. S3 is behind a proxy that loses, delays, repeats
and reorders requests. Now and then there is a disaster of `tests/crash/disasters.py`. `tests/crash/chaos_checker.py`
compares the result with the input files. INVARIANT: signals go only to processes that this one started, by their pid.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash import chaos_checker, disasters, ledger_model, worlds
from tests.servers import minio
from tests.servers.s3 import S3Server
from tests.servers.s3_proxy import Fault, Request, S3Proxy
from tidemill.protocol.codec import MOVED_TO
from tidemill.store import Store, open_store

PIPELINE = """
import pyarrow.compute as pc
import tidemill as tm
from pathlib import Path

def track(batch_time, user, row, state):
    if state.isTimingOut:
        return (user, state.get, True)
    state.update((state.getOption or 0) + row.n)
    return (user, state.get, False)

def add(table):
    return table.set_column(1, "state", pc.add(table["state"], MIGRATED))

base = "BASE"
p = tm.Pipeline("chaos")
p.batch_time(lambda plan: 3000 * max(int(Path(split.path).stem) for split in plan.splits))
rows = p.read(tm.Files(base + "/inbox", format="json", schema="user string, n int, ts timestamp", mode="PERMISSIVE",
                       maxFilesPerTrigger=2))
rows.groupBy("user").mapWithState(
    tm.StateSpec.function(track).timeout("500 ms"),
    stateSchema="long", outputSchema="user string, n long, closed boolean", name="users",
).write(tm.Parquet(base + "/sinks/users"))
rows.groupBy("n").agg(users=tm.count(), name="by-n").write(tm.Json(base + "/sinks/by-n"))
"""
AT_ONCE = 3
"""How many processes run at once, at most."""
FIRST_FILES = 6
"""How many files are read before, two a batch."""
DISASTER_SHARE = 0.05
"""The share of steps that are disasters."""
SHARE = 0.08
"""The share of requests that the proxy treats badly."""
FAULTS = {
    "lost before": Fault(),
    "lost after": Fault(after=True),
    "delayed": Fault(delay_s=0.3),
    "twice": Fault(twice=True),
    "late": Fault(late_s=0.7),
    "503": Fault(503, "SlowDown"),
}
ENDINGS = {0, 3, 4, -signal.SIGKILL}
"""Exit statuses of processes: done, nothing to do, fenced, killed."""
REFUSED = ("InvalidInput", "StoreUnavailable")
"""How the message of a process that ends with status 1 may begin."""
MAY_BE_INVALID = ("rewind", "migrate", "forget")
"""The commands that may be called for something that is not there, or not any more."""
MOST_SECONDS = 180
RUNS, REPAIRS, REWRITES = 6, 4, 2
"""How often runs, other commands, and `migrate` and `forget` are started, relative to each other."""


@dataclass(frozen=True)
class Place:
    """Where a repository, its inbox and its sinks are. `folder` holds the pipeline and logs."""

    folder: Path
    base: str
    store: Store
    environment: Mapping[str, str] = field(default_factory=dict)
    proxy: S3Proxy | None = None
    root: str = "root"

    def command(self, verb: str, *arguments: str) -> list[str]:
        root = f"{self.base}/{self.root}"
        return [sys.executable, "-m", "tidemill", verb, f"{self.folder}/pipeline.py:p", "--root", root, *arguments]

    def start(self, verb: str, *arguments: str) -> Started:
        log = self.folder / f"{verb}-{time.monotonic_ns()}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.command(verb, *arguments), stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **self.environment},
            )  # fmt: skip
        return Started(verb, process, log, self.root)

    def call(self, verb: str, *arguments: str) -> int:
        return self.said(verb, *arguments)[0]

    def said(self, verb: str, *arguments: str) -> tuple[int, str]:
        """Call a command to its end. Return its exit status, and what it wrote."""
        started = self.start(verb, *arguments)
        try:
            status = started.process.wait(MOST_SECONDS)
        finally:
            started.end()
        return status, started.log.read_text()


@dataclass
class Started:
    """A process of the command line."""

    verb: str
    process: subprocess.Popen[bytes]
    log: Path
    root: str
    is_stopped: bool = False

    def signal(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.is_stopped = number == signal.SIGSTOP

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def check(self, root: str) -> str:
        """Return how it ended. AssertionError for damage, an error of Tidemill, or a wrong call.

        `root` is where the repository is now. At a place that it has left, everything is refused.
        """
        status, said = self.process.returncode, self.log.read_text()
        if status == 1 and self.root != root and MOVED_TO in said:
            return "fenced by a move"
        refused = next((kind for kind in REFUSED if kind in said), None) if status == 1 else None
        assert status in ENDINGS or refused is not None, f"`{self.verb}` ended with status {status}: {said[-3000:]}"
        assert refused != "InvalidInput" or self.verb in MAY_BE_INVALID, f"`{self.verb}`: {said[-3000:]}"
        assert "CorruptState" not in said and "InternalError" not in said, f"`{self.verb}`: {said[-3000:]}"
        return refused or {0: "done", 3: "nothing to do", 4: "fenced"}.get(status, "killed")


class Storm:
    """Starts and disturbs processes for a while. `counts` has what was done."""

    def __init__(self, place: Place, chance: random.Random) -> None:
        self.place, self.chance = place, chance
        self.counts: Counter[str] = Counter()
        self.running: list[Started] = []
        self.files = self.roots = 0
        self.oldest = -1
        """The oldest version to go back to. Before it, the files of an original would stay in the sinks of a copy."""
        self.first_version = -1

    def blow(self, seconds: float) -> None:
        """Disturb for so long, then let all processes end, and run until nothing is left to do."""
        assert self.place.call("init") == 0
        for _ in range(FIRST_FILES):
            self.arrive()
        assert self.place.call("run", "--engine", "local", "--tasks", "1") == 0
        end = time.monotonic() + seconds
        try:
            with self._faults():
                while time.monotonic() < end:
                    self._step()
                    self._reap()
                    time.sleep(self.chance.random() * 0.4)
                self.end()
        finally:
            for one in self.running:
                one.end()
        self.arrive()
        for _ in range(20):
            if self.place.call("run", "--engine", "local", "--tasks", "1") == 3:
                break
        else:
            raise AssertionError("the repository is never drained")
        self.must("verify", "--deep")

    def must(self, verb: str, *arguments: str) -> None:
        """Call a command that must succeed, or find nothing to do."""
        status, said = self.place.said(verb, *arguments)
        assert status in (0, 3), f"`{verb} {' '.join(arguments)}` ended with status {status}: {said[-3000:]}"

    def next_place(self) -> Place:
        """Return the place with another root, where nothing is yet."""
        self.roots += 1
        return dataclasses.replace(self.place, root=f"root-{self.roots}")

    def _step(self) -> None:
        if self.chance.random() < DISASTER_SHARE:
            disaster = self.chance.choice(disasters.DISASTERS)
            with self._calm():
                disaster(self)
            self.counts[f"disaster: {disaster.__name__}"] += 1
        else:
            self.chance.choice([self.arrive, self._start, self._start, self._kill, self._stop, self._go_on])()

    def arrive(self) -> None:
        made = self.place.folder / "new.json"
        worlds.make_file(made, self.chance, self.files % 60)
        name, self.files = f"inbox/{self.files:04d}.json", self.files + 1
        self.place.store.create(name, made.read_bytes())

    def _start(self) -> None:
        if len(self.running) < AT_ONCE:
            verb, *arguments = self._command()
            self.running.append(self.place.start(verb, *arguments))

    def _command(self) -> list[str]:
        local, why = ["--engine", "local"], ["--reason", "chaos", "--yes"]
        commands = {
            ("run", *local, "--tasks", str(self.chance.choice([1, 2]))): RUNS,
            ("run", *local, "--tasks", "1", "--max-batches", "1"): RUNS,
            ("maintain", "--keep-versions", str(self.chance.choice([2, 6])), "--yes"): REPAIRS,
            ("rewind", "--to", str(self._some_version()), *why): REPAIRS,
            ("publish", *self.chance.choice([[], ["--from", "0"]])): REPAIRS,
            ("migrate", "--operator", "users", "--function", f"{self.place.folder}/pipeline.py:add", *local, *why):
                REWRITES,
            ("forget", "--operator", "users", "--key", chaos_checker.FORGOTTEN, "--column", "users=user",
             "--missing-ok", *why): REWRITES,
        }  # fmt: skip
        return list(self.chance.choices(list(commands), list(commands.values()))[0])

    def _some_version(self) -> int:
        commits = self.place.store.list(f"{self.place.root}/chaos/branches/main/commits/")
        return max(self.oldest, len(list(commits)) - self.chance.randint(2, 5))

    def _kill(self) -> None:
        if self.running and self.chance.random() < 0.4:
            self.chance.choice(self.running).signal(signal.SIGKILL)

    def _stop(self) -> None:
        if self.running:
            self.chance.choice(self.running).signal(signal.SIGSTOP)
            self.counts["stops"] += 1

    def _go_on(self) -> None:
        for one in self.running:
            if one.is_stopped and self.chance.random() < 0.7:
                one.signal(signal.SIGCONT)
                self.counts["continued"] += 1

    def _reap(self) -> None:
        for one in [one for one in self.running if one.process.poll() is not None]:
            self.running.remove(one)
            self.counts[f"{one.verb}: {one.check(self.place.root)}"] += 1

    def end(self) -> None:
        """Continue all processes, and wait until they have ended."""
        for one in self.running:
            one.signal(signal.SIGCONT)
        for one in list(self.running):
            one.process.wait(MOST_SECONDS)
            self._reap()

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        proxy, lock = self.place.proxy, threading.Lock()
        if proxy is None:
            yield
            return

        def fault(request: Request) -> Fault | None:
            with lock:
                if self.chance.random() >= SHARE:
                    return None
                kind = self.chance.choice(list(FAULTS))
                self.counts[f"answer: {kind}"] += 1
                return FAULTS[kind]

        proxy.plan = fault
        try:
            yield
        finally:
            proxy.plan = lambda request: None
            proxy.settle()

    @contextlib.contextmanager
    def _calm(self) -> Iterator[None]:
        """A good network, for a while."""
        proxy = self.place.proxy
        if proxy is None:
            yield
            return
        before, proxy.plan = proxy.plan, lambda request: None
        proxy.settle()
        try:
            yield
        finally:
            proxy.plan = before


def folder_place(folder: Path) -> Place:
    """A repository in a local folder."""
    return _place(folder, str(folder / "world"), open_store(str(folder / "world")))


def s3_place(folder: Path, server: S3Server, proxy: S3Proxy) -> Place:
    """A repository on the S3 server. Its processes use the proxy, this one does not."""
    root = server.new_root()
    return _place(folder, root, open_store(root, server.options), proxy.environment, proxy)


def _place(
    folder: Path, base: str, store: Store, environment: Mapping[str, str] | None = None, proxy: S3Proxy | None = None
) -> Place:
    folder.mkdir(parents=True, exist_ok=True)
    code = PIPELINE.replace("BASE", base).replace("MIGRATED", str(ledger_model.MIGRATED))
    (folder / "pipeline.py").write_text(code)
    return Place(folder, base, store, {"TIDEMILL_DISK_CACHE_BYTES": "0", **(environment or {})}, proxy)


def play(place: Place, seed: int, seconds: float) -> Counter[str]:
    """Disturb a repository for so long and check it. Return what was done and what was compared."""
    storm = Storm(place, random.Random(seed))
    try:
        storm.blow(seconds)
        copy = place.folder / "copy"
        for part in ("inbox", "sinks", storm.place.root):
            for entry in place.store.list(f"{part}/"):
                target = copy / entry.name.replace(f"{storm.place.root}/", "root/", 1)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(place.store.get(entry.name))
        found = chaos_checker.check(copy)
    except BaseException as error:
        error.add_note(f"seed {seed}, {place.base}, in {place.folder}: {dict(storm.counts)}")
        raise
    return storm.counts + found


def main() -> None:
    """Take turns between the places until the time is over."""
    end = time.monotonic() + float(os.environ.get("CHAOS_SECONDS", "600"))
    seed = int(os.environ.get("TIDEMILL_SEED", "0")) or random.SystemRandom().randrange(10**9)
    totals: dict[str, Counter[str]] = {}
    with contextlib.ExitStack() as stack:
        servers = {"S3 server": stack.enter_context(S3Server())}
        if os.environ.get(minio.BINARY):
            servers["MinIO"] = stack.enter_context(minio.MinioServer())
        proxies = {kind: stack.enter_context(S3Proxy(server)) for kind, server in servers.items()}
        while (left := end - time.monotonic()) > 0:
            for kind in ("folder", *servers):
                folder = Path(tempfile.mkdtemp(prefix="tidemill-chaos-"))
                place = folder_place(folder) if kind == "folder" else s3_place(folder, servers[kind], proxies[kind])
                done = play(place, seed, min(30, left))
                shutil.rmtree(folder)
                print(f"seed {seed}, {kind}: {dict(sorted(done.items()))}", flush=True)
                totals.setdefault(kind, Counter()).update(done | {"repositories": 1})
                seed += 1
    for kind, counts in totals.items():
        print(f"all of {kind}: {dict(sorted(counts.items()))}")


if __name__ == "__main__":
    main()
