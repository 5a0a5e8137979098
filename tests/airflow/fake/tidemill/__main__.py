"""Behaves as the environment name FAKE says; writes its process ids to FAKE_PIDS where a test wants to watch them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

# Like Spark's JVM: the same process group, ends when its stdin does. Like Spark's Python daemon: its own group.
JVM = "import sys; sys.stdin.read()"
DAEMON = "import os, signal, sys; os.setpgid(0, 0); signal.signal(signal.SIGTERM, signal.SIG_IGN); sys.stdin.read()"


def say(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


def progress(version: int) -> None:
    say("progress", version=version, numInputRows=1200, processedRowsPerSecond=2400.0, late_rows=3, quarantined_rows=0)


def done() -> int:
    print("starting", file=sys.stderr, flush=True)
    progress(4)
    print("a line of a user function")
    progress(5)
    say("result", verb=sys.argv[1], status="done", versions=[4, 5], already_committed=[], published=[3, 4, 5], head=5)
    return 0


def changed() -> int:
    """Commits version 5, which has rows for one of two sinks."""
    progress(5)
    say("result", verb=sys.argv[1], status="done", versions=[5], already_committed=[], published=[5], head=5,
        pipeline="shop", branch="main", watermarks={"source": "2026-01-05T00:00:00.000Z"}, next_deadline={},
        sinks={"orders": {"first_version": 5, "last_version": 5, "rows": 7, "path": "/data/orders"}})  # fmt: skip
    return 0


def nothing() -> int:
    say("result", verb=sys.argv[1], status="nothing", versions=[], already_committed=[], published=[], head=5)
    return 3


def already() -> int:
    say("result", verb=sys.argv[1], status="done", versions=[], already_committed=[4], published=[], head=5)
    return 0


def error(kind: str, message: str, status: int = 1) -> int:
    progress(4)
    say("error", kind=kind, message=message, versions=[4])
    return status


def flaky() -> int:
    """Commits version 4 and then loses its store at the first try; finds nothing to do at the second."""
    if os.environ["AIRFLOW_CTX_TRY_NUMBER"] == "1":
        return BEHAVIOURS["unavailable"]()
    say("earlier", versions=[4])
    return nothing()


def again() -> int:
    """Fails at each try; the commits tell of version 4."""
    say("earlier", versions=[4])
    return error("CorruptState", "segment `s` is missing")


def usage() -> int:
    print("Usage: tidemill run [OPTIONS]\nError: no such option: --rot", file=sys.stderr)
    return 2


def crash() -> int:
    progress(4)
    print("about to crash", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
    return 0


def hang(ignore: bool = False) -> int:
    if ignore:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    children = [subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) for code in (JVM, DAEMON)]
    with open(os.environ["FAKE_PIDS"] + ".part", "w") as file:
        file.write(" ".join(str(pid) for pid in (os.getpid(), *(child.pid for child in children))))
    os.rename(os.environ["FAKE_PIDS"] + ".part", os.environ["FAKE_PIDS"])
    progress(4)
    while True:
        time.sleep(60)


def stalls() -> int:
    """Commits version 4 and is silent for ever at the first try; finds nothing to do at the second."""
    if os.environ.get("AIRFLOW_CTX_TRY_NUMBER", "1") == "1":
        return hang()
    return nothing()


def slow() -> int:
    """Never silent for as long as a second, and done after two."""
    for number in range(8):
        if number % 2:
            progress(number)
        else:
            print("at work", file=sys.stderr, flush=True)
        time.sleep(0.25)
    return done()


def says() -> int:
    """Writes the text that a test asks for to stderr, with the values of variables."""
    sys.stderr.buffer.write(os.path.expandvars(os.environ["FAKE_SAYS"]).encode() + b"\n")
    sys.stderr.flush()
    return done()


def endless() -> int:
    """Writes a line of 100 MB, and one of as many bytes to stdout."""
    for stream in (sys.stderr, sys.stdout):
        for _ in range(100):
            stream.write("x" * 1_000_000)
        stream.write("\n")
        stream.flush()
    return done()


def realtime() -> int:
    os.kill(os.getpid(), signal.SIGRTMIN + 3)
    return 0


def leave() -> int:
    """Ends at once and leaves a process that keeps neither pipe."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], **quiet)
    with open(os.environ["FAKE_PIDS"], "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    return done()


def echo() -> int:
    heard = {"arguments": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd(), "path": sys.path}
    print(json.dumps(heard), file=sys.stderr)
    return done()


BEHAVIOURS: dict[str, Callable[[], int]] = {
    "done": done,
    "changed": changed,
    "nothing": nothing,
    "already": already,
    "fenced": lambda: error("Fenced", "commit 5 of `flights` is another batch\nhint: look at who commits", 4),
    "invalid": lambda: error("InvalidInput", "column `a` is not there\nhint: name it"),
    "corrupt": lambda: error("CorruptState", "segment `s` is missing"),
    "unavailable": lambda: error("StoreUnavailable", "put `x` of `s3://lake`: no answer"),
    "internal": lambda: error("InternalError", "ranges do not tile"),
    "flaky": flaky,
    "again": again,
    "stalls": stalls,
    "slow": slow,
    "says": says,
    "endless": endless,
    "realtime": realtime,
    "rows": lambda: error(
        "InvalidInput",
        "function `f` of operator `o` raised `ValueError: Joe Smith` for key `1`, processing the row (k=1, v='Joe')\n"
        "Traceback (most recent call last):\nValueError: Joe Smith\nhint: repair the function",
    ),
    "usage": usage,
    "crash": crash,
    "silent": lambda: 0,
    "hang": hang,
    "stubborn": lambda: hang(ignore=True),
    "leave": leave,
    "echo": echo,
}

if __name__ == "__main__":
    sys.exit(BEHAVIOURS[os.environ["FAKE"]]())
