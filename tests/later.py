"""Which tests each command leaves out, why, and which ones begin first.

A test says itself what it is, by `@pytest.mark.slow("reason")` or `@pytest.mark.servers("reason")`, for a file
`pytestmark`. `make test` runs tests without a mark. `make check` adds the slow ones. `make check-servers` runs those
that need servers: S3, PostgreSQL, Airflow, Spark and its clusters, a browser, or environments made from wheels. A test
that asks for a fixture of `FIXTURES` has the mark `servers` without saying so. Each command prints how many tests it
left out, by reason.

A file that takes longer than a minute says so by `seconds=`. The longest files begin first, so that no process waits
for another at the end.
"""

from __future__ import annotations

from collections import Counter

import pytest

FIXTURES = {
    "s3_server": "use an S3 server",
    "cluster": "run jobs on a Spark cluster",
    "connect_session": "start Spark",
    "spark_session": "start Spark",
}
"""Fixtures that start a server, and what their tests do."""
_key = pytest.StashKey[Counter[str]]()


def mark(items: list[pytest.Item]) -> None:
    """Mark the tests that use servers, and sort the longest files to the front."""
    for item in items:
        used = [what for fixture, what in FIXTURES.items() if fixture in getattr(item, "fixturenames", ())]
        if used and item.get_closest_marker("servers") is None:
            item.add_marker(pytest.mark.servers(used[0]))
    items.sort(key=_seconds, reverse=True)


def _seconds(item: pytest.Item) -> int:
    marks = (item.get_closest_marker(name) for name in ("servers", "slow"))
    return max((mark.kwargs.get("seconds", 0) for mark in marks if mark is not None), default=0)


def count(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Count deselected tests by reason."""
    counted = config.stash.setdefault(_key, Counter())
    for item in items:
        found = item.get_closest_marker("servers") or item.get_closest_marker("slow")
        counted[found.args[0] if found is not None else "run in make test"] += 1


def summary(config: pytest.Config, workers: list[dict[str, int]]) -> list[str]:
    """Return the lines that say what was left out. Each worker of xdist collects all tests, so one of them counts."""
    counted = config.stash.get(_key, Counter()) or Counter(workers[0] if workers else {})
    return [f"{number:5} {reason}" for reason, number in sorted(counted.items(), key=lambda one: (-one[1], one[0]))]


def counted(config: pytest.Config) -> dict[str, int]:
    """Return the counts of this process, for the controller of xdist."""
    return dict(config.stash.get(_key, Counter()))
