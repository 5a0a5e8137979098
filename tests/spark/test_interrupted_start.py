"""Ctrl-C while Spark starts ends the command and leaves no JVM."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import in_session, living

pytestmark = pytest.mark.servers("start Spark")

PROGRAM = """
import tidemill.engines.session
print("begins", flush=True)
tidemill.engines.session.start_context({"spark.master": "local[1]"})
print("started", flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc: run it on Linux")
@pytest.mark.parametrize("delay", [0.3, 0.8, 1.2])
def test_no_jvm_stays_after_an_interrupted_start(tmp_path: Path, delay: float) -> None:
    with (tmp_path / "said").open("w+b") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=said, start_new_session=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"begins\n"
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        process.wait(60)
        until = time.monotonic() + 30
        while (left := living(in_session(process.pid))) and time.monotonic() < until:
            time.sleep(0.1)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        process.stdout.close()
        said.seek(0)
        text = said.read().decode()
    assert left == [], text
    assert process.returncode == -signal.SIGINT, text
    assert "NoSuchFileException" not in text
