"""Which tests `make test` leaves to `make check`, and why.

`make test` is the loop of a developer and ends in three minutes. `make check` runs everything. A folder or file is
listed in `LATER`; a single test has the mark `@pytest.mark.slow("reason")`. Both commands print how many tests they
left out, by reason.
"""

from __future__ import annotations

from collections import Counter

import pytest

IN_THE_LOOP = ""
LATER = {
    "tests/crash": "interrupt a run at every step",
    "tests/crash/test_damage.py": IN_THE_LOOP,
    "tests/crash/test_scheduled.py": IN_THE_LOOP,
    "tests/crash/test_restored.py": IN_THE_LOOP,
    "tests/spark": "start Spark",
    "tests/airflow/test_operators.py": "run Airflow tasks",
    "tests/airflow/test_outcome.py": "run Airflow tasks",
    "tests/airflow/test_process.py": "run Airflow tasks",
    "tests/airflow/test_remote_spark.py": "run jobs on a Spark cluster",
    "tests/airflow/test_scheduled.py": "run an Airflow scheduler",
    "tests/packaging": "build wheels and environments",
    "tests/packaging/test_hygiene.py": IN_THE_LOOP,
    "tests/docs/test_site.py": "build the documentation",
    "tests/docs/test_examples.py": "run every example",
    "tests/unit/native/test_stub.py": "compare the stub with the binary",
    "tests/unit/native/test_hostile_callers.py": "hostile input",
    "tests/unit/native/test_garbage_collection_during_calls.py": "hostile input",
    "tests/unit/native/test_broken_arrow.py": "hostile input",
    "tests/unit/native/test_forked_maps.py": "hostile input",
    "tests/unit/native/test_out_of_memory.py": "hostile input",
    "tests/unit/state/test_ten_thousand_batches.py": "ten thousand batches",
    "tests/unit/state/test_layers.py": "long random runs",
    "tests/unit/state/test_dead_segments.py": "long random runs",
    "tests/model/test_windows_and_duplicates.py": "long random runs",
    "tests/model/test_processor.py": "long random runs",
    "tests/model/test_rearmed_timeouts.py": "long random runs",
    "tests/model/test_every_operator.py": "long random runs",
    "tests/model/test_same_aggregates.py": "long random runs",
    "tests/model/test_cost.py": "long random runs",
    "tests/model/test_diff.py": "long random runs",
    "tests/model/test_function_fails_once.py": "long random runs",
    "tests/unit/sources/test_retail_files.py": "a year of real data",
    "tests/docs/test_readme.py": "start the command line as a process",
    "tests/unit/demo/test_demo.py": "run the demo",
    "tests/unit/state/test_disk_cache_writers.py": "kill processes that write the cache",
    "tests/journeys/test_disk_cache_in_use.py": "kill processes that write the cache",
}
"""Folders and files of `make check` alone, with what their tests do. A longer path overrides a shorter one."""
LONGEST = (
    "tests/airflow/test_scheduled.py",
    "tests/packaging/test_wheel_and_sdist.py",
    "tests/spark/test_cluster.py",
    "tests/airflow/test_remote_spark.py",
    "tests/crash/test_corrections.py",
    "tests/crash/test_damage.py",
    "tests/docs/test_pages.py",
    "tests/crash/test_kill_spark.py",
    "tests/spark/test_engine_session.py",
)
"""The slow tests of these files take longest. They begin first, so that no process waits for another at the end."""
_key = pytest.StashKey[Counter[str]]()


def mark(items: list[pytest.Item]) -> None:
    """Mark the tests of `LATER` as slow, and move those of `LONGEST` to the front."""
    places = {path: place for place, path in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))
    for item in items:
        path = item.nodeid.partition("::")[0]
        known = [place for place in LATER if path == place or path.startswith(f"{place}/")]
        reason = LATER[max(known, key=len)] if known else IN_THE_LOOP
        if reason and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.slow(reason))


def count(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Count deselected tests by reason."""
    counted = config.stash.setdefault(_key, Counter())
    for item in items:
        found = item.get_closest_marker("slow")
        counted[found.args[0] if found is not None else "run in make test"] += 1


def summary(config: pytest.Config, workers: list[dict[str, int]]) -> list[str]:
    """Return the lines that say what was left out. Each worker of xdist collects all tests, so one of them counts."""
    counted = config.stash.get(_key, Counter()) or Counter(workers[0] if workers else {})
    return [f"{number:5} {reason}" for reason, number in sorted(counted.items(), key=lambda one: (-one[1], one[0]))]


def counted(config: pytest.Config) -> dict[str, int]:
    """Return the counts of this process, for the controller of xdist."""
    return dict(config.stash.get(_key, Counter()))
