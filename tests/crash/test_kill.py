"""`kill -9` of a running drain at some of ten points, then a rerun: everything equals an undisturbed run's."""

from __future__ import annotations

import subprocess

import pytest

from tests.crash.drain import BATCHES, ROOT, Point, Project, command, kill_at, seen
from tests.exhaustive import some

pytestmark = pytest.mark.slow("interrupt a run at every step")

MARKS = [  # what appears – the drain is killed as soon as it is seen
    f"{ROOT}/branches/main/plans/0000000001.json",
    f"{ROOT}/state/users/*/main/0000000002-*.parquet",
    f"{ROOT}/output/users/main/0000000003-*",
    f"{ROOT}/state/_ledger/files/main/0000000004-*",
    f"{ROOT}/branches/main/commits/0000000005.json",
    "published/killed.users-0000000006-*",
    "json/killed.by-n-0000000007-*",
    f"{ROOT}/branches/main/plans/0000000008.json",
    f"{ROOT}/state/by-n/*/main/0000000009-*.parquet",
    f"{ROOT}/branches/main/commits/0000000010.json",
]


def test_kills_and_reruns_equal_an_undisturbed_run(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    calm, killed = project("calm"), project("killed")
    for folder in (calm, killed):
        subprocess.run(command(folder, "init"), check=True, capture_output=True)
    subprocess.run(command(calm, "run"), check=True, capture_output=True)
    between, marks = 0, some(MARKS, 5)
    for number, mark in enumerate(marks):
        death = kill_at(killed, "local", Point(mark))
        with capsys.disabled():
            print(f"kill {number + 1}: {death.step}")
        between += death.is_between
    assert between > len(marks) // 2
    subprocess.run(command(killed, "run"), check=True, capture_output=True)
    expected, found = seen(calm), seen(killed)
    assert expected["version"] == BATCHES - 1
    for part, value in expected.items():
        assert found[part] == value, part
    assert subprocess.run(command(killed, "run"), capture_output=True).returncode == 3
