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
from ..protocol.named import Object
from ..protocol.records import Commit, Kind
from ..protocol.successor import Origin, successor
from ..repo.identity import check_root
from ..repo.opened import Opened, airflow
from ..repo.stored import check_stored
from ..store.probe import probe
from .lost_versions import check_history
from .publish import Unneeded, published_through, repair


def required(verb: str, reason: str) -> None:
    """Raise `InvalidInput` for an empty reason."""
    if not isinstance(reason, str) or not reason.strip():
        raise InvalidInput(f"{verb}: the reason is empty", hint="say why; the commit records it")


def correct(repo: Opened, origin: Origin, kind: Kind, changes: Changes, unneeded: Unneeded | None = None) -> Commit:
    """Publish what earlier runs left, commit the correction, publish it, and return its commit.

    `unneeded` versions are not published first. `Fenced` if another run commits first, and `CorruptState` if an object
    is damaged that the correction would publish. Then nothing has changed.
    """
    check_root(repo)
    probe(repo.store)
    repair(repo, origin.head, unneeded)
    check_history(repo, origin.head, origin.number - 1)
    _check_added(repo, kind, changes)
    plan = repo.log.plan(origin.number, origin.parent)
    through = published_through(repo, origin.head) if any((unneeded or {}).values()) else origin.number - 1
    said: Changes = {
        "attempt": uuid.uuid4().hex[:12],
        "plan_id": "" if plan is None else plan.plan_id,
        "code": {"reference": repo.reference, "tidemill": version_of_tidemill()},
        "airflow": airflow(),
        "published_through": through if repo.publishes else -1,
        "committed_ms": now_ms(),
    }
    made = repo.log.create_commit(successor(origin, kind, said | changes)).commit
    repair(repo, made)
    return made


def _check_added(repo: Opened, kind: Kind, changes: Changes) -> None:
    """Raise `CorruptState` if an object that would be published is missing or damaged.

    Those that this attempt has just stored are not read again.
    """
    ours = f"-{changes.get('attempt', '')}-"
    adds = (one for those in changes.get("adds", {}).values() for one in those)
    files = [file for one in adds for file in one.files if ours not in file.name]
    if repo.publishes:
        expected = [Object(one.name, one.checksum, one.size, one.etag) for one in files]
        check_stored(repo.store, expected, f"{kind}: publish again", reads=True)
