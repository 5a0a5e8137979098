"""`correct`: commit a correction, which takes the next number, so that an open plan of that number dies.

Each correcting verb decides what to change; the rest is the same for all. CRASH: one conditional create is the whole
correction. A run that executes the open plan at that time gets `Fenced`.
"""

from __future__ import annotations

import uuid

from ..clock import now_ms
from ..errors import InvalidInput
from ..installed import version_of_tidemill
from ..protocol.kinds import Changes
from ..protocol.records import Commit, Kind
from ..protocol.successor import Origin, successor
from ..repo.identity import check_root
from ..repo.opened import Opened, airflow
from ..store.probe import probe
from .lost_versions import check_history
from .publish import publish_version, repair


def required(verb: str, reason: str) -> None:
    """Raise `InvalidInput` for an empty reason."""
    if not isinstance(reason, str) or not reason.strip():
        raise InvalidInput(f"{verb}: the reason is empty", hint="say why; the commit records it")


def correct(repo: Opened, origin: Origin, kind: Kind, changes: Changes) -> Commit:
    """Publish what earlier runs left, commit the correction, publish it, and return its commit.

    `Fenced` if another run commits first. Then nothing has changed.
    """
    check_root(repo)
    probe(repo.store)
    repair(repo, origin.head)
    check_history(repo, origin.head, origin.number - 1)
    plan = repo.log.plan(origin.number, origin.parent)
    said: Changes = {
        "attempt": uuid.uuid4().hex[:12],
        "plan_id": "" if plan is None else plan.plan_id,
        "code": {"reference": repo.reference, "tidemill": version_of_tidemill()},
        "airflow": airflow(),
        "published_through": origin.number - 1 if repo.publishes else -1,
        "committed_ms": now_ms(),
    }
    made = repo.log.create_commit(successor(origin, kind, said | changes)).commit
    publish_version(repo, made)
    return made
