"""`publish_again`: make committed versions visible in their sinks, without planning anything.

INVARIANT: it changes no state, and commits only what `fill` adds to sinks. CRASH: every step can be repeated; run it
again.
"""

from __future__ import annotations

from ..errors import InvalidInput
from ..pipeline.places import check_places
from ..repo.identity import check_root
from ..repo.opened import Opened
from ..repo.versions import VersionSpec, number_of_version
from ..spelling import unknown
from ..store.probe import probe
from .again import republish
from .fill import fill
from .owners import Accepted, check_owners
from .publish import repair


def publish_again(repo: Opened, since: VersionSpec | None = None, sink: str | None = None) -> list[int]:
    """Publish what earlier runs left and, with `since`, all versions from there on again. Return these versions.

    Sinks that were added later are filled, too.
    """
    check_places(repo.pipeline, repo.root, repo.storage_options)
    check_root(repo)
    head = repo.head()
    first = _first(repo, since, sink, -1 if head is None else head.version)
    probe(repo.store)
    done = repair(repo, head)
    if first is not None:
        check_owners(repo, head, Accepted())
        done += republish(repo, first, sink)
        assert head is not None  # or there would be no first version
        done += fill(repo, head, first, sink)
    return sorted(set(done))


def _first(repo: Opened, since: VersionSpec | None, sink: str | None, newest: int) -> int | None:
    """Return the first version to publish again, or None."""
    if sink is not None and repo.declared_sink(sink) is None:
        raise unknown("sink", sink, [name for name, output in repo.job.outputs.items() if output.sink is not None])
    if sink is not None and since is None:
        raise InvalidInput(
            "publish: found a sink without a version", hint="give the first version too: since=N or --from N"
        )
    if since is None:
        return None
    first = number_of_version(repo, since)
    if not 0 <= first <= newest:
        there = "there is no version yet" if newest < 0 else f"versions go from 0 to {newest}"
        raise InvalidInput(f"publish from version {first}: {there}")
    return first
