"""`kill -9` of a drain on real Spark, five times on one root, then a rerun: equal to an undisturbed run (of the
local engine), with no process left.

Only the driver is killed. Its JVM, Spark's daemon and workers must end by themselves; what their tasks still write
is of an attempt that no commit names.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections import Counter

import pytest

from tests.crash.drain import BATCHES, ROOT, Death, Point, Project, command, kill_at, seen
from tests.crash.processes import Process, family, living

pytestmark = pytest.mark.servers("kill Spark drivers", seconds=80)

MOST_SECONDS_TO_END = 20
WORKING = Counter(java=1, python=3)  # the driver, Spark's daemon, and a worker at least
POINTS = {
    "Spark starts": Point(f"{ROOT}/branches/main/plans/0000000000.json", Counter(java=1)),
    "the first job runs": Point(f"{ROOT}/branches/main/plans/0000000000.json", WORKING),
    "a job stores state": Point(f"{ROOT}/state/users/*/main/0000000001-*.parquet", WORKING),
    "a commit": Point(f"{ROOT}/branches/main/commits/0000000004.json", WORKING),
    "publishing": Point("json/killed.by-n-0000000008-*", WORKING),
}


def test_kills_on_spark_leave_no_process_and_reruns_equal_an_undisturbed_run(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    calm, killed = project("calm"), project("killed")
    for folder in (calm, killed):
        subprocess.run(command(folder, "init"), check=True, capture_output=True)
    subprocess.run(command(calm, "run", "local"), check=True, capture_output=True)
    deaths = []
    for wanted, point in POINTS.items():
        death = kill_at(killed, "spark", point)
        seconds = seconds_to_end(death)
        with capsys.disabled():
            print(f"kill at {wanted}: {death.step}; {dict(death.names)}, all gone after {seconds:.1f} s")
        deaths.append(death)
    assert sum(death.is_between for death in deaths) >= 3
    subprocess.run(command(killed, "run", "spark"), check=True, capture_output=True)
    expected, found = seen(calm), seen(killed)
    assert expected["version"] == BATCHES - 1
    for part, value in expected.items():
        assert found[part] == value, part
    assert subprocess.run(command(killed, "run", "local"), capture_output=True).returncode == 3


def seconds_to_end(death: Death) -> float:
    """How long the drain's processes outlived it. Those that stay fail the test, and are ended one by one."""
    began = time.monotonic()
    while left := outliving(death):
        if time.monotonic() - began > MOST_SECONDS_TO_END:
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            raise AssertionError(f"{MOST_SECONDS_TO_END} s after {death.step} there still run {left}")
        time.sleep(0.1)
    return time.monotonic() - began


def outliving(death: Death) -> set[Process]:
    """Return the live processes of the drain: those seen before the kill, and those started since."""
    return (death.processes & living()) | family(death.session)
