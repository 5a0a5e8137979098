"""Looks for forgotten keys in the places that published records name, also those of sinks that left the code.

INVARIANT: a place that was not looked into is a problem, unless the caller of `forget` agreed to leave it. Files that
readers have taken are counted.
"""

from __future__ import annotations

from ..forgetting.places import FileThere, PublishedPlace, PublishedPlaces
from ..forgetting.sought import Sought, SoughtKeys
from ..protocol.records import Commit
from ..repo.opened import Opened
from .findings import Findings

_LEAVE = "forget the keys again with `--left {}`, which says that you cleaned it yourself"


class ForgottenFiles:
    """The search. `unsearched` are sinks in whose rows some keys were not sought, `gone` counts files."""

    def __init__(self, repo: Opened, head: Commit, sought: Sought, found: Findings) -> None:
        self.sought, self.found = sought, found
        self.places = PublishedPlaces(repo, head)
        self.unsearched: set[str] = set()
        self.gone = 0

    def search(self, hint: str, affects: str) -> None:
        """Note every published file with a forgotten key, and every place that was not looked into."""
        for sink in self.places.sinks:
            places, present = self.places.of(sink), set[str]()
            for place in places:
                with self.found.of(place.uri or sink, f"files of sink `{sink}` were not looked at: {affects}"):
                    present |= self._place(place, hint, affects)
            for place in places:
                missing = self.places.expected(place) - present if place.folder is not None else set()
                if missing and self.places.is_lost(place):
                    self._note(place, f"the folder does not exist, but sink `{sink}` published files there", affects)
                else:
                    self.gone += len(missing)

    def _place(self, place: PublishedPlace, hint: str, affects: str) -> set[str]:
        """Search a place, and return the names of its files."""
        if place.is_function:
            self.unsearched.add(place.sink)
            return set()
        if place.folder is not None:
            if any(self._is_left(one, place) and place.sink not in one.entry.columns for one in self.sought.keys):
                self.unsearched.add(place.sink)
            return self._files(place, hint, affects)
        if not place.is_declared:
            self._note(place, f"this code does not have sink `{place.sink}` at this place", affects)
        elif place.records and not self._columns_are_known(place):
            self._note(place, f"no `forget` named a column of sink `{place.sink}`", affects)
        return set()

    def _files(self, place: PublishedPlace, hint: str, affects: str) -> set[str]:
        """Search the files of a folder, and return their names."""
        present, elsewhere = set(), self.sought.but("folder", place.uri)
        for file in self.places.files(place):
            uri = f"{place.uri}/{file.name}"
            data = self.places.content(place, file)
            if data is None:
                continue
            present.add(file.name)
            with self.found.unless_known(uri, affects):
                sought = self.sought if place.is_declared and file.is_ours else elsewhere
                count = sought.in_sink(place.sink, self.places.rows(place, file.name, data))
                if count:
                    keys = "a forgotten key" if count == 1 else f"{count} forgotten keys"
                    self.found.add(
                        uri, f"it holds {keys}", f"readers of sink `{place.sink}`", self._hint(place, file, hint)
                    )
        return present

    def _hint(self, place: PublishedPlace, file: FileThere, hint: str) -> str:
        if not file.is_ours:
            return (
                "published by the original of this copy; forget the key there, and here again with "
                f"`--left {place.uri}`"
            )
        if self._columns_are_known(place):
            return hint
        return (
            "no `forget` named a column of the sink; forget the key again, with "
            f"`--column {place.sink}=COLUMN`, or with `--left {place.sink}` if these values are no such keys"
        )

    def _columns_are_known(self, place: PublishedPlace) -> bool:
        """Whether it is known for all keys in which columns of a sink they are."""
        schemas = self.places.schemas(place.sink)
        return all(
            any(self.sought.columns_in(one, place.sink, columns.names) for one in keys for columns in schemas)
            for keys in self.sought.groups
        )

    def _note(self, place: PublishedPlace, why: str, affects: str) -> None:
        """Note a place that was not looked into, unless all callers of `forget` agreed to leave it."""
        self.unsearched.add(place.sink)
        if not all(any(self._is_left(one, place) for one in keys) for keys in self.sought.groups):
            leave = _LEAVE.format(place.uri if place.folder is not None else place.sink)
            self.found.add(place.uri, f"not looked into: {why}", affects, f"make it reachable, or {leave}")

    def _is_left(self, one: SoughtKeys, place: PublishedPlace) -> bool:
        names = (("sink", place.sink), ("folder", place.uri))
        return any(self.sought.is_agreed(one, kind, name) for kind, name in names)
