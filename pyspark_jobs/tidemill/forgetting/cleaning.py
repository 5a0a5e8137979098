"""Cleans the places that sinks had before: of sinks that were removed, renamed or moved, and of branches.

INVARIANT: there, only a file that this repository published, with the content for which it is named, is replaced, by
one with some of its rows. CRASH: the commit has the hashes of the keys, so the same call, or `maintain`, can repeat all
steps. A process that dies in between leaves both files; the next one finds the old one again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field

import pyarrow as pa

from ..errors import CorruptState, TidemillError
from ..protocol.records import Commit, digest
from ..publishing.works import place_of
from ..repo.opened import Opened
from ..schema.kernels import pc
from ..sinks.forms import staged
from ..sinks.partitions import folder_values
from ..sinks.public import has_content, with_content
from ..values import dataclass
from .left_out import is_left_out, left_label
from .places import FileThere, PublishedPlace, PublishedPlaces
from .sought import Sought


@dataclass
class Cleaned:
    """Files at former places that have the keys, and how many rows of each sink.

    `foreign` are files with the keys that the repository published of which this is a copy. `there` are all files.
    """

    there: set[str] = field(default_factory=set)
    files: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)


def clean_former(repo: Opened, head: Commit, sought: Sought, clean: set[str]) -> Cleaned:
    """Remove the rows of keys from all former places."""
    found = Cleaned()
    for place, file, rows, ours in _with_keys(PublishedPlaces(repo, head), sought, found, clean):
        assert place.folder is not None
        left, at = rows.filter(pc.invert(pa.array(ours, pa.bool_()))), place_of(repo, place.sink)
        suffix, extension = file.name.removesuffix(file.name.rpartition("/")[2]), f".{file.name.rpartition('.')[2]}"
        left = left.drop_columns(list(folder_values(suffix)))
        if left.num_rows:
            data = staged(left, extension)[0].data
            place.folder.replace(at, file.name, with_content(file.name, digest(data)), data)
        else:
            place.folder.remove(at, [file.name])
    return found


def look_at_former(places: PublishedPlaces, sought: Sought, clean: set[str]) -> Cleaned:
    """Return which files of former places have the keys. `CorruptState` if one of them was altered."""
    found = Cleaned()
    for _ in _with_keys(places, sought, found, clean):
        pass
    return found


def _with_keys(
    places: PublishedPlaces, sought: Sought, found: Cleaned, clean: set[str]
) -> Iterator[tuple[PublishedPlace, FileThere, pa.Table, list[bool]]]:
    """Yield the files that have keys, with their rows and which of these go. `clean` gets the names of the others."""
    named = {sink for one in sought.keys for sink in one.entry.columns}
    for place in (one for sink in places.sinks if sink in named for one in places.of(sink)):
        if place.is_declared or place.folder is None or sought.is_left(place.sink, place.uri):
            continue
        for file in list(places.files(place)):
            uri = f"{place.uri}/{file.name}"
            found.there.add(uri)
            data = None if uri in clean else places.content(place, file)
            if data is None:
                continue
            rows = places.rows(place, file.name, data)
            ours = sought.rows_in_sink(place.sink, rows)
            if not any(ours):
                clean.add(uri)
            elif not file.is_ours:
                found.foreign.append(uri)
            else:
                _refuse_altered(uri, file.name, data)
                found.files.append(uri)
                found.rows[place.sink] = found.rows.get(place.sink, 0) + sum(ours)
                yield place, file, rows, ours


def unreachable(places: PublishedPlaces, sinks: Collection[str], left: Sequence[str]) -> dict[str, str]:
    """Return the folders of sinks that cannot be searched, as labels with the reason, without those that are left."""
    found: dict[str, str] = {}
    for sink in sorted(sinks):
        there, missing = set[str](), {}
        folders = [place for place in places.of(sink) if place.folder is not None]
        for place in (one for one in folders if not is_left_out(left, "folder", one.uri)):
            try:
                there |= {file.name for file in places.files(place)}
            except TidemillError as error:
                found[left_label("folder", place.uri)] = error.message
            missing[place.uri] = places.expected(place) if places.is_lost(place) else set()
        lost = {uri for uri, expected in missing.items() if expected - there}
        found |= {left_label("folder", uri): f"sink `{sink}` published there, and it does not exist" for uri in lost}
    return found


def of_original(places: PublishedPlaces, sought: Sought, left: Sequence[str]) -> dict[str, str]:
    """Return the folders in which the repository of which this is a copy published the keys, as labels."""
    found: dict[str, str] = {}
    named = {sink for one in sought.keys for sink in one.entry.columns}
    for place in (one for sink in places.sinks if sink in named for one in places.of(sink)):
        if place.folder is None or is_left_out(left, "folder", place.uri):
            continue
        for file in places.files(place):
            data = None if file.is_ours else places.content(place, file)
            if data is not None and any(sought.rows_in_sink(place.sink, places.rows(place, file.name, data))):
                found[left_label("folder", place.uri)] = "published by the original of this copy"
                break
    return found


def _refuse_altered(uri: str, name: str, data: bytes) -> None:
    if not has_content(name, digest(data)):
        raise CorruptState(
            f"forget: read `{uri}`: its content is not the one for which it is named",
            hint="restore the file, or move it away and remove the key from it yourself",
        )
