"""The peak of a process's private memory is seen, and mapped files do not count."""

from __future__ import annotations

import gc
import mmap
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tidemill.batch import memory
from tidemill.batch.memory import PeakMemory, private_bytes

SIZE = 64 * 1024**2
linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux: /proc/self/status")


@linux
def test_memory_that_is_freed_before_the_end_counts() -> None:
    before = private_bytes()
    with PeakMemory() as peak:
        held = bytearray(b"x") * SIZE
        assert peak.look() >= before + SIZE * 0.9
        del held
    assert peak.bytes >= before + SIZE * 0.9
    assert private_bytes() < peak.bytes


@linux
def test_it_looks_by_itself_while_the_block_runs() -> None:
    before = private_bytes()
    with PeakMemory() as peak:
        held = bytearray(b"x") * SIZE
        deadline = time.monotonic() + 10
        while peak.bytes < before + SIZE * 0.9 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert peak.bytes >= before + SIZE * 0.9
        del held


def test_a_slow_look_does_not_lose_a_greater_value(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_began, go_on = threading.Event(), threading.Event()

    def looked() -> int:
        if threading.current_thread() is threading.main_thread():
            return 100
        slow_began.set()
        go_on.wait(10)
        return 10

    monkeypatch.setattr(memory, "private_bytes", looked)
    peak = PeakMemory()
    slow = threading.Thread(target=peak.look)
    slow.start()
    assert slow_began.wait(10)
    assert peak.look() == 100
    go_on.set()
    slow.join()
    assert peak.bytes == 100


@linux
def test_mapped_files_do_not_count() -> None:
    build = Path(__file__).parents[3] / "build"  # a temporary folder may be in memory
    build.mkdir(exist_ok=True)
    large = tempfile.NamedTemporaryFile(dir=build)  # noqa: SIM115
    large.write(b"x" * SIZE)
    large.flush()
    before = private_bytes()
    with large as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[place] for place in range(0, SIZE, 4096)) > 0
        assert private_bytes() < before + SIZE / 2


def test_a_system_without_proc_reports_the_greatest_resident_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_STATUS", "/nowhere/status")
    assert private_bytes() > 10 * 1024**2


def test_no_thread_outlives_the_block() -> None:
    with pytest.raises(KeyError), PeakMemory():
        raise KeyError
    assert not _watchers()


def test_no_thread_outlives_an_interrupt_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt), PeakMemory():
            pass
    deadline = time.monotonic() + 10
    while (left := _watchers()) and time.monotonic() < deadline:
        gc.collect()  # the traceback may keep the object
        time.sleep(0.01)
    assert not left


def _watchers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "tidemill-memory"]


KEEPS = """
import sys
from tidemill.batch.memory import keep_freed_memory, private_bytes
if sys.argv[1] != "default":
    keep_freed_memory(int(sys.argv[1]) << 20)
for _ in range(2):  # what glibc does by default depends on what was freed before
    chunks = [bytearray(b"x") * (6 << 20) for _ in range(16)]
    del chunks
print(private_bytes() >> 20)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs the C library glibc, as on most Linux systems")
@pytest.mark.parametrize(
    ("keep", "variables", "keeps"),
    [
        ("default", {}, False),
        ("256", {}, True),
        ("8", {}, False),
        ("256", {"MALLOC_ARENA_MAX": "4"}, True),
        ("256", {"MALLOC_TRIM_THRESHOLD_": "1"}, False),
    ],
)
def test_freed_memory_is_kept_up_to_the_limit(keep: str, variables: dict[str, str], keeps: bool) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    environment = kept | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables
    printed = subprocess.check_output([sys.executable, "-c", KEEPS, keep], env=environment, text=True)
    assert (int(printed) >= 96) == keeps, printed
