"""`publish_again`: make committed versions visible in their sinks, without planning anything.

INVARIANT: it changes no state, and commits only what `fill` adds to sinks. CRASH: every step can be repeated; run it
again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..counts import versions_of
from ..errors import InvalidInput
from ..pipeline.places import check_places
from ..protocol.records import VersionOf
from ..repo.identity import check_root
from ..repo.opened import Opened
from ..repo.versions import VersionSpec, number_of_version
from ..sinks import asked
from ..spelling import unknown
from ..store.probe import probe
from .copied import not_shown_by_original, shown_by_original
from .fill import fill
from .owners import Accepted, check_owners
from .publish import publish_work, repair
from .works import SinkWork, works

LOG = logging.getLogger("tidemill")


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


def republish(repo: Opened, since: int, only: str | None) -> list[int]:
    """Make the files of every version from `since` visible again. Return the versions for which that was done.

    Versions that a later commit withdrew are left out, as are sinks that the code does not have any more, and files
    that the original of this copy shows. A function is called again only if `only` names it.
    """
    commits = list(repo.log.commits(since))
    theirs = shown_by_original(repo, commits)
    for sink, versions in theirs.items():
        LOG.warning("sink `%s`: rows of %s are not published again if files of the original of this copy have them",
                    sink, versions_of(sorted(versions)))  # fmt: skip
    _warn_of_lost(repo, [work for commit in commits for work in works(repo, commit)])
    gone = {(name, one) for commit in commits for name, those in commit.withdraws.items() for one in those}
    done = []
    for commit in commits:
        ours = VersionOf(commit.branch, commit.version)
        wanted = []
        for work in works(repo, commit):
            if (work.name, ours) in gone or not _is_asked(repo, work, only):
                continue
            there = theirs.get(work.name, {}).get(commit.version, [])
            left = not_shown_by_original(repo, work, there) if there else work
            if left.files or not there:
                wanted.append(left)
        if [work for work in wanted if publish_work(repo, work)]:
            done.append(commit.version)
    return done


def _warn_of_lost(repo: Opened, works: Sequence[SinkWork]) -> None:
    for name in sorted({work.name for work in works if work.files and repo.declared_sink(work.name) is None}):
        LOG.warning("sink `%s` is left out, because this code does not have it; its files stay where they are", name)


def _is_asked(repo: Opened, work: SinkWork, only: str | None) -> bool:
    sink = repo.declared_sink(work.name)
    if sink is None:
        return False
    return work.name == only if asked.is_called(sink) or only is not None else bool(work.files)
