"""Identity: is this repository the one that `init` made here, and do its sources still read the same folders?

Whatever moved is refused until an `adopt` entry confirms it. INVARIANT: a file is never read twice because the folder
of its source changed, and two repositories never take each other for themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _native
from ..counts import count_of
from ..errors import CorruptState, InvalidInput
from ..protocol.records import Commit, Plan
from ..protocol.refs import Refs
from ..sources.asked import intake_of, is_positioned, source_folder
from ..sources.contract import SourceFile
from ..sources.ledger import paths_of
from .opened import Opened

LOG = logging.getLogger("tidemill")


def check_root(repo: Opened) -> None:
    """Raise `InvalidInput` if the repository was made elsewhere, or the branch was dropped.

    Every verb that writes calls this first.
    """
    moved = _moved(repo, repo.initialised())
    if moved is not None:
        raise InvalidInput(
            f"open the repository `{repo.place}` to write: {moved}",
            hint="if this is the repository now and the other place is dead, run `tidemill adopt --moved`; if both "
            "remain, run `tidemill adopt --copy`",
        )
    refs = repo.initialised()
    if repo.branch in refs.dropped:
        raise InvalidInput(f"write to {refs.named(repo.branch)}", hint="start another branch")


def check_plan(repo: Opened, plan: Plan) -> None:
    """Raise `CorruptState` if a plan was made by another repository."""
    refs = repo.initialised()
    if plan.pipeline_uuid not in refs.uuids:
        raise CorruptState(
            f"execute plan {plan.number} of `{repo.place}`: it was made by repository {plan.pipeline_uuid}, this is "
            f"{refs.uuid}",
            hint="restore `branches/` and `refs/` from one backup, or abandon the plan with `tidemill replan`",
        )


def warn_if_moved(repo: Opened) -> None:
    """Log a warning if the repository was made elsewhere. Reading changes nothing, so it is allowed."""
    moved = _moved(repo, repo.initialised())
    if moved is not None:
        LOG.warning("the repository `%s` can be read only: %s; see `tidemill adopt`", repo.place, moved)


def _moved(repo: Opened, refs: Refs) -> str | None:
    if refs.root == repo.place:
        return None
    return f"it was made at `{refs.root}`, so it is a copy, a restored backup, or has moved"


def check_folders(
    repo: Opened, head: Commit | None, fresh: Mapping[str, Sequence[SourceFile]], ledger: _native.StateMap
) -> None:
    """Raise `InvalidInput` if the folder of a source changed so that files would be read a second time."""
    for name, before in folders(repo, head).items():
        source = repo.job.sources.get(name)
        now = None if source is None else source.place
        if source is None or is_positioned(source):
            continue  # see `check_positions`
        if now is None or before is None or now == before or not fresh[name]:
            continue
        places = [before, *_former(head, name)]
        read = {uri for path in paths_of(ledger, name) for place in places for uri in _uris(place, path)}
        twice = [file for file in fresh[name] if not read.isdisjoint(_uris(now, file.path))]
        if twice:
            raise InvalidInput(
                f"source `{name}` would read file `{twice[0].path}` again: its folder was `{before}`, this code "
                f"declares `{now}`" + (f"; {len(twice)} files are in both" if len(twice) > 1 else ""),
                hint=f"restore the folder; or, to read these files again, run `tidemill adopt --source {name}`",
            )


def check_positions(repo: Opened, head: Commit | None, ledger: _native.StateMap) -> None:
    """Raise `InvalidInput` if a source would not go on where it was read to, because its name, place or kind changed.

    That concerns sources whose positions commits remember.
    """
    known = {} if head is None else head.positions
    places = folders(repo, head)
    lost = {uri: name for name, uri in places.items() if name in known and name not in repo.job.sources}
    for name, source in repo.job.sources.items():
        before, now = places.get(name), source.place
        if is_positioned(source) and name in known and before != now:
            raise InvalidInput(
                f"source `{name}` was read from `{before}` up to position `{known[name]}`, this code declares `{now}`, "
                "to which that position need not belong",
                hint=f"restore the place; or, if the same data is there, run `tidemill adopt --source {name}`; or give "
                "the source another name, which reads it from the beginning",
            )
        was_read = name in known if not is_positioned(source) else name not in known and bool(paths_of(ledger, name))
        if was_read:
            kinds = ("a position", "the ledger of files")
            was, now_by = kinds if name in known else kinds[::-1]
            raise InvalidInput(
                f"source `{name}` was remembered by {was}, this code remembers it by {now_by}, so all of it would be "
                "read again",
                hint="restore the source; or give it another name, which reads it from the beginning",
            )
        if is_positioned(source) and name not in known and (old := lost.get(now)) is not None:
            raise InvalidInput(
                f"source `{name}` would read `{now}` again from the beginning: it was read as `{old}`; you renamed the "
                "source",
                hint=f"restore the name: p.read(…, name={old!r})",
            )


def check_latest(repo: Opened, head: Commit | None, fresh: Mapping[str, Sequence[SourceFile]]) -> None:
    """Raise `InvalidInput` for a source with `start="latest"` that was added after `init`, which lists such sources."""
    known = {**repo.initialised().sources, **folders(repo, head)}
    for name, source in repo.job.sources.items():
        if intake_of(source).start == "latest" and source.place is not None and name not in known and fresh[name]:
            raise InvalidInput(
                f'source `{name}` has start="latest", but was added after `init`, so nothing says which of '
                f"{count_of(len(fresh[name]), 'file')}, for example `{fresh[name][0].path}`, were there then",
                hint='give a time instead, for example start="2024-05-01", which leaves out files with an earlier '
                "modification time",
            )


def _uris(place: str, path: str) -> list[str]:
    """Return what the URI of a file may be. If the place may be a single file, the file is the place itself."""
    inside = f"{place.rstrip('/')}/{path}"
    return [inside, place] if place.endswith(f"/{path}") else [inside]


def folders_read(repo: Opened, head: Commit | None) -> dict[str, dict[str, Any]]:
    """Return the description of every source for the next commit: its folder, and those that it had before."""
    found: dict[str, dict[str, Any]] = {}
    before = folders(repo, head)
    for name, source in repo.job.sources.items():
        known = [*_former(head, name), before.get(name), *_recorded(head, name)]
        former = [place for place in dict.fromkeys(known) if place is not None and place != source.place]
        chosen = intake_of(source).selection.recorded()
        found[name] = {"uri": source.place} | ({"by_position": True} if is_positioned(source) else {})
        found[name] |= {"is_folder": False} if source.place is not None and source_folder(source) is None else {}
        found[name] |= ({"former": former} if former else {}) | ({"files": chosen} if chosen else {})
    removed = {} if head is None else {name: one for name, one in head.sources.items() if one.get("by_position")}
    return removed | found  # of a source that left the code, its position stays


def _recorded(head: Commit | None, name: str) -> list[str]:
    source = {} if head is None else head.sources.get(name, {})
    return [source["uri"]] if source.get("uri") else []


def _former(head: Commit | None, name: str) -> list[str]:
    source = {} if head is None else head.sources.get(name, {})
    return list(source.get("former", ()))


def folders(repo: Opened, head: Commit | None) -> dict[str, str | None]:
    """Return the folder that each source had in the newest commit, or at `init`, or as the user confirmed since."""
    refs = repo.initialised()
    if head is None:
        return dict(refs.sources)
    found = {name: source["uri"] for name, source in head.sources.items()}
    confirmed = {name: place for name, place in refs.sources.items() if refs.confirmed.get(name, 0) > head.refs_through}
    return found | confirmed
