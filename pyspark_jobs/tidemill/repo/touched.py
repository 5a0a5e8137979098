"""Fingerprints of files whose ETag is not the one in the ledger, so that each of these files is read once.

A batch records touched files in its ledger, but idle runs commit nothing. They keep what they read in a hint, which the
next runs use until a batch. INVARIANT: the hint says what the fingerprint of a file with an ETag is, which never
changes. So an old hint is right, and a lost or invalid one only costs reading the files again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import field

from ..errors import TidemillError
from ..sources.contract import SourceFile
from ..store import ObjectMissing, Store
from ..values import dataclass

_Content = tuple[str, str, str]
"""Source, path and ETag."""


@dataclass
class Touched:
    """The fingerprints that this process knows. `name` is the hint in `store`."""

    store: Store
    name: str
    _known: dict[_Content, str] = field(default_factory=dict)
    _asked: set[_Content] = field(default_factory=set)
    """What the newest listing asked for."""
    _hinted: set[_Content] | None = None
    """What the hint holds. None: not read yet."""

    def begin(self) -> None:
        """Forget what earlier listings asked for."""
        self._asked.clear()

    def fingerprint(self, file: SourceFile, compute: Callable[[SourceFile], str | None]) -> str | None:
        """Return the fingerprint of a file, which is read unless a run has done that before."""
        content = (file.source, file.path, file.etag)
        if self._hinted is None:
            found = _read(self.store, self.name)
            self._known.update(found)
            self._hinted = set(found)
        if content not in self._known:
            computed = compute(file)
            if computed is None:
                return None
            self._known[content] = computed
        self._asked.add(content)
        return self._known[content]

    def save(self) -> None:
        """Write the hint for the next runs, if it lacks something that the newest listing asked for."""
        if self._hinted is not None and not self._asked <= self._hinted:
            rows = sorted((*content, self._known[content]) for content in self._asked)
            with contextlib.suppress(TidemillError):  # the next run reads the files again
                self.store.put_hint(self.name, json.dumps({"files": rows}, ensure_ascii=False).encode())
                self._hinted = set(self._asked)


def _read(store: Store, name: str) -> dict[_Content, str]:
    """Return the fingerprints in a hint; none if it is missing or invalid."""
    try:
        rows = json.loads(store.get(name))["files"]
        found = {(source, path, etag): fingerprint for source, path, etag, fingerprint in rows}
    except (ObjectMissing, ValueError, TypeError, KeyError, RecursionError):
        return {}
    texts = (text for content, fingerprint in found.items() for text in (*content, fingerprint))
    return found if all(isinstance(text, str) for text in texts) else {}
