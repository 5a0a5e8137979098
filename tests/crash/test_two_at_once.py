"""Several drains of one repository at once: every batch counts once, no run is fenced, and the results are equal."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.crash.drain import BATCHES, Project, command, seen

pytestmark = pytest.mark.slow("interrupt a run at every step")


def test_three_drains_at_once_equal_one(project: Project) -> None:
    calm, busy = project("calm"), project("busy")
    for folder in (calm, busy):
        subprocess.run(command(folder, "init"), check=True, capture_output=True)
    subprocess.run(command(calm, "run"), check=True, capture_output=True)
    drains = [
        subprocess.Popen([*command(busy, "run"), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    results = [(drain.communicate(timeout=300), drain.returncode) for drain in drains]
    assert all(status in (0, 3) for _, status in results), results
    committed = [v for (out, _), _ in results for v in json.loads(out.splitlines()[-1])["versions"]]
    assert sorted(committed) == list(range(BATCHES))
    expected, found = seen(calm), seen(busy)
    for part, value in expected.items():
        assert found[part] == value, part
