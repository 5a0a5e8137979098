"""`which`: what the pipeline did with a file: which version read it, or whether it waits. Read only.

The ledger of the newest version decides, so a file that a rewind gave back waits again. INVARIANT: no folder is listed;
the file is looked up by its name, in the ledger, in the open plan and in the folders of the sources.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import unquote

import pyarrow as pa

from ..counts import count_of
from ..errors import CorruptState, InvalidInput, StoreUnavailable, TidemillError
from ..names import inside, number_of_file, requeued_branch, requeued_version
from ..notebook import NotebookResult
from ..protocol.records import Commit, Plan, VersionOf
from ..protocol.retained import version_of
from ..quarantine.rejects import quarantined
from ..repo.identity import folders, warn_if_moved
from ..repo.input_files import File, is_as_read, listed_files, planned_files, source_and_path
from ..repo.ledger_versions import commit_if_kept, line_of
from ..repo.opened import Opened
from ..secret_names import check_no_secrets
from ..sources.asked import intake_of, is_positioned, source_folder
from ..sources.contract import SourceFile
from ..sources.folder import open_folder
from ..sources.ledger import EARLIER, QUARANTINED, READ, SKIPPED, Known, look_up_files, requeued_objects
from ..sources.listing import Selection
from ..spelling import unknown
from ..store import ListedObject, folder_uri
from ..units import iso
from ..values import dataclass
from .first_read import has_requeued, requeued_rows

Standing = Literal["read", "quarantined", "skipped", "earlier", "planned", "waiting", "not selected"]
Now = Literal["same", "changed", "gone", "unknown"]


@dataclass(frozen=True)
class FileStanding(NotebookResult):
    """What a pipeline did with a file of a source.

    `standing` is `read`, `quarantined` (as a whole), `skipped`, `earlier` (it was there before `start="latest"`),
    `planned` (a batch that is in progress or failed reads it), `waiting`, or `not selected` (it is in the folder, but
    the source does not read it, because of its name, its time or its options).
    """

    source: str
    path: str
    """Relative to the folder of the source."""
    standing: Standing
    version: str | None = None
    """The version that read, quarantined, skipped or planned it: `12`, or `fix@12` of a promoted branch."""
    batch_time: str | None = None
    """The batch time of that version, in ISO 8601."""
    reason: str | None = None
    """Why the version skipped it."""
    now: Now = "unknown"
    """Whether the place of the source has the file as it was then. `unknown` also if only code can tell."""
    quarantined_rows: int | None = None
    """How many of its rows that version quarantined. None if the file was not read, or the rows are not kept."""
    requeued_rows: dict[str, int] | None = None
    """How many of these were requeued, by the version that did so. None as above, or if that is not known."""

    def in_notebook(self) -> dict[str, Any]:
        """Return all fields."""
        return dict(vars(self))

    def line(self) -> str:
        """Return the same in words."""
        at = "" if self.batch_time is None else f" (batch time {self.batch_time})"
        said = {
            "read": f"read by version {self.version}{at}",
            "quarantined": f"in quarantine as a whole since version {self.version}{at}",
            "skipped": f"skipped by version {self.version}" + (f": {self.reason}" if self.reason else ""),
            "earlier": 'left out by start="latest"',
            "planned": f"planned by version {self.version}, which is in progress or failed",
            "waiting": "waiting",
            "not selected": "not selected: its name, its time or the options of the source leave it out",
        }[self.standing]
        more = [f"{count_of(self.quarantined_rows, 'row')} of it in quarantine"] if self.quarantined_rows else []
        more += [f"{count_of(rows, 'row')} requeued by version {by}" for by, rows in (self.requeued_rows or {}).items()]
        more += [{"changed": "it has changed since", "gone": "it is gone now"}[self.now]] if self.now in _NOTED else []
        return "; ".join([f"`{self.path}` of source `{self.source}`: {said}", *more])


_NOTED = ("changed", "gone")


@dataclass(frozen=True)
class _Place:
    """The folder of a source, and which of its files the source reads. `uri` is None if it reads no folder."""

    uri: str | None
    selection: Selection


def which(repo: Opened, file: File | os.PathLike[str]) -> list[FileStanding]:
    """Return what the pipeline did with a file, once for each source that has it, or has read it.

    `InvalidInput` for an unknown source, and if no source has the file and none has read it.
    """
    warn_if_moved(repo)
    source, path = source_and_path(os.fspath(file) if isinstance(file, os.PathLike) else file, "which")
    check_no_secrets(path, "which: the file")
    head = repo.head()
    places = _places(repo, head)
    if source and source not in places:
        raise unknown("source", source, list(places))
    asked = [pair for name in places if source in ("", name) for pair in _pairs(name, places[name], path)]
    known = _known(repo, head, asked)
    look = _Look(repo, head, _open_plan(repo, head))
    standings = (look.standing(pair, places[pair[0]], known.get(pair)) for pair in asked)
    found = [one for one in standings if one is not None]
    if not found:
        raise _not_found(repo, head, path, source, places)
    return found


def _places(repo: Opened, head: Commit | None) -> dict[str, _Place]:
    """Return the places of all sources: of those of the code, or without code of those that are recorded."""
    if repo.recorded is None:
        found = {}
        for name, source in repo.job.sources.items():
            folder = source_folder(source)
            found[name] = _Place(None if folder is None else source.place, intake_of(source).selection)
        gone = {name: uri for name, uri in folders(repo, head).items() if name not in found}
        return found | {name: _Place(uri, Selection()) for name, uri in gone.items()}
    recorded = {} if head is None else head.sources
    return {
        name: _Place(
            uri if recorded.get(name, {}).get("is_folder", True) else None,
            Selection.of(recorded.get(name, {}).get("files", {})),
        )
        for name, uri in folders(repo, head).items()
    }


def _pairs(source: str, place: _Place, path: str) -> list[tuple[str, str]]:
    """Return what a text may mean as a file of a source: a path below its folder, or a path or URI of its own."""
    pairs, folder = [(source, path)], place.uri or ""
    for uri in _uris(path) if folder else ():
        below = f"{folder.rstrip('/')}/"
        if uri == folder:
            pairs.append((source, path.rpartition("/")[2]))
        elif uri.startswith(below):
            pairs.append((source, uri.removeprefix(below)))
    return [pair for pair in dict.fromkeys(pairs) if _may_be_file(pair[1])]


def _may_be_file(path: str) -> bool:
    """Whether a file of a folder can have a path."""
    try:
        inside(path)
    except CorruptState:
        return False
    return True


def _uris(path: str) -> Iterator[str]:
    """Yield the URIs that a path or a URI may mean. In one of a local folder, a `%` may be escaped or mean itself."""
    plain = path.removeprefix("file://")
    for text in dict.fromkeys((plain, plain if plain == path else unquote(plain))):
        above, _, name = text.rpartition("/")
        with contextlib.suppress(TidemillError):
            yield f"{folder_uri(above or ('/' if text.startswith('/') else '.')).rstrip('/')}/{name}"


def _known(repo: Opened, head: Commit | None, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Known]:
    files = [SourceFile(source, path, "", 0, 0) for source, path in pairs]
    found = look_up_files(repo.ledger(head).map, files)
    return {pair: known for pair, known in zip(pairs, found, strict=True) if known is not None}


def _open_plan(repo: Opened, head: Commit | None) -> Plan | None:
    """Return the plan after the head, if it has no commit yet. A plan that cannot be read counts as missing."""
    origin = repo.origin(head)
    try:
        return repo.log.plan(origin.number, origin.parent)
    except (CorruptState, StoreUnavailable):
        return None


@dataclass(frozen=True)
class _Look:
    """A look at the files of a repository, at its newest version and the plan after it."""

    repo: Opened
    head: Commit | None
    plan: Plan | None

    def standing(self, pair: tuple[str, str], place: _Place, known: Known | None) -> FileStanding | None:
        """Return what was done with one file. None: the source neither has it nor has read it."""
        is_looked_up, entry = _entry(self.repo, place, pair)
        planned = planned_files(self.plan).get(pair)
        if planned is not None and self.plan is not None:
            same = entry is not None and entry.etag == planned.etag
            return FileStanding(*pair, "planned", str(self.plan.number), now=_now(is_looked_up, entry, same))
        if known is not None:
            same_as_read = entry is not None and self._is_same(pair, entry, known)
            return self._known(pair, known, _now(is_looked_up, entry, same_as_read))
        if entry is None:
            return None
        return FileStanding(*pair, "waiting" if place.selection.has(entry) else "not selected", now="same")

    def _is_same(self, pair: tuple[str, str], entry: ListedObject, known: Known) -> bool | None:
        """Return whether a file is the one that the ledger has. None: only the pipeline's code can tell."""
        if entry.etag == known.etag or entry.size != known.size:
            return entry.etag == known.etag
        if self.repo.recorded is not None or pair[0] not in self.repo.job.sources:
            return None
        return is_as_read(self.repo, self.head, SourceFile(*pair, entry.etag, entry.size, entry.modified_ms))

    def _known(self, pair: tuple[str, str], known: Known, now: Now) -> FileStanding:
        """Return what the ledger says of a file, and the version that it names."""
        if known.how == EARLIER:
            return FileStanding(*pair, "earlier", now=now)
        line, label = line_of(self.repo, self.head, known.version)
        commit = None if line is None else commit_if_kept(line, known.version)
        rows = None if line is None or commit is None else _quarantined(line, commit, pair)
        return FileStanding(
            *pair,
            _STANDINGS[known.how],
            label,
            None if commit is None else iso(commit.batch_time_ms),
            commit.reason if commit is not None and known.how == SKIPPED else None,
            now,
            rows if known.how == READ else None,
            None
            if line is None or rows is None or known.how != READ
            else _requeued(self.repo, self.head, pair, line.version_of(known.version)),
        )


_STANDINGS: dict[str, Standing] = {QUARANTINED: "quarantined", SKIPPED: "skipped", READ: "read"}
"""By how the ledger got a file: what was done with it. Requeued rows are no files."""


def _entry(repo: Opened, place: _Place, pair: tuple[str, str]) -> tuple[bool, ListedObject | None]:
    """Return whether a file could be looked up in the place of its source, and its entry if it is there.

    Only code can look into a source that reads no folder.
    """
    source, path = pair
    try:
        if place.uri is not None:
            store, _ = open_folder(place.uri.removeprefix("file://"), dict(repo.storage_options.get("source") or {}))
            return True, store.stat(path)
        if source not in repo.job.sources or is_positioned(repo.job.sources[source]):
            return False, None
        found = listed_files(repo, {source}).get(pair)
    except (InvalidInput, StoreUnavailable):
        return False, None
    return True, None if found is None else ListedObject(path, found.size, found.etag, found.modified_ms)


def _now(is_looked_up: bool, entry: ListedObject | None, same: bool | None) -> Now:
    if not is_looked_up:
        return "unknown"
    if entry is None:
        return "gone"
    return "unknown" if same is None else "same" if same else "changed"


def _quarantined(repo: Opened, commit: Commit, pair: tuple[str, str]) -> int | None:
    """Return how many rows of a file a version quarantined. None if they are no longer kept."""
    try:
        tables = [quarantined(repo.store, file) for file in commit.quarantine]
    except (CorruptState, InvalidInput):
        return None
    return sum(places.count(pair) for places in (_places_of(rows) for rows in tables))


def _requeued(repo: Opened, head: Commit | None, pair: tuple[str, str], version: VersionOf) -> dict[str, int] | None:
    """Return how many rows of a file, which a version quarantined, were requeued, by the version that did so."""
    if not has_requeued(repo):
        return {}
    source, path = pair
    found: Counter[int] = Counter()
    refs = repo.initialised()
    for of, name, checksum in requeued_objects(repo.ledger(head).map):
        if of == source and version_of(refs, requeued_branch(name), requeued_version(name)) == version:
            try:
                held = requeued_rows(repo, name, checksum)
            except CorruptState:
                held = None
            if held is None:
                return None
            found[number_of_file(name) or 0] += held.column("file").to_pylist().count(path)
    return {str(by): rows for by, rows in sorted(found.items()) if rows}


def _places_of(rows: pa.Table) -> list[tuple[str, str]]:
    return list(zip(rows.column("source").to_pylist(), rows.column("file").to_pylist(), strict=True))


def _not_found(repo: Opened, head: Commit | None, path: str, source: str, places: Mapping[str, _Place]) -> InvalidInput:
    chosen = [name for name in places if source in ("", name)]
    positioned = [name for name, one in repo.job.sources.items() if is_positioned(one)]
    positioned += [name for name, one in ({} if head is None else head.sources).items() if one.get("by_position")]
    if chosen and all(name in positioned for name in chosen):
        return InvalidInput(
            f"which `{path}`: commits remember the position of source `{chosen[0]}`, and no file of it",
            hint="`tidemill log --files` shows what each version read",
        )
    shown = [_shown(places[name].uri, name) for name in chosen]
    return InvalidInput(
        f"which `{path}`: no source has this file, and none has read it",
        hint=f"give its path below the folder of its source, or its whole path or URI; {'; '.join(shown)}",
    )


def _shown(uri: str | None, name: str) -> str:
    return f"source `{name}`" + ("" if uri is None else f" reads {uri}")
