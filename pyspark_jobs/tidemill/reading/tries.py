"""Which versions earlier tries of the same Airflow task committed. Reads commits only.

INVARIANT: the answer comes from the commits, which stay when a task is cleared, and not from notes in Airflow.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from datetime import datetime

from ..clock import now_ms
from ..protocol.records import Commit
from ..repo.opened import Opened, airflow

_MOST_COMMITS = 1000
"""How many commits are searched, newest first. A task that is cleared after more commits reports no earlier try."""
_SLACK_MS = 3_600_000
_SAME = ("dag_id", "task_id", "dag_run_id")


def earlier_tries(repo: Opened) -> list[int]:
    """Return the versions that earlier tries of this process's Airflow task committed, ascending.

    The first try, and a process outside of Airflow, read nothing. Later ones search the newest commits, back to the
    logical date of the run.
    """
    task = airflow()
    if task.get("try_number", "1") == "1" or any(name not in task for name in _SAME):
        return []
    return committed_by(repo, task)


def committed_by(repo: Opened, task: Mapping[str, str]) -> list[int]:
    """Return the versions that an Airflow task committed in all its tries, ascending. It searches the newest commits.

    `task` has `dag_id`, `task_id`, `dag_run_id`, and `logical_date` if the run has one.
    """
    since = _since_ms(task.get("logical_date"))
    found = []
    for commit in itertools.islice(_newest_first(repo), _MOST_COMMITS):
        if commit.committed_ms < since:
            break
        if all(commit.airflow.get(name) == task[name] for name in _SAME):
            found.append(commit.version)
    return found[::-1]


def _newest_first(repo: Opened) -> Iterator[Commit]:
    """Yield the commits, newest first, also those that `maintain` has given up since: their records stay."""
    head = repo.head()
    for version in range(-1 if head is None else head.version, -1, -1):
        yield repo.log.commit(version)


def _since_ms(logical_date: str | None) -> int:
    """Return a time before which the run cannot have committed. A run may have no date, or one in the future."""
    try:
        at_ms = int(datetime.fromisoformat(logical_date or "").timestamp() * 1000)
    except ValueError:
        return 0
    return at_ms - _SLACK_MS if at_ms <= now_ms() else 0
