"""A test-only sink as a new file: one file that grows by a line a row, each version once, as a table's log would."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from tidemill.protocol.records import OutputFile
from tidemill.sinks.contract import Options, Publication
from tidemill.sinks.files import Json
from tidemill.store import Store


class Journal(Json):
    """Kept as JSON lines, published by appending to `path`; the last version stands beside it."""

    kind = "test-journal"

    def check_place(self, options: Options) -> None:
        """Any local path."""

    def publish(self, store: Store, files: Sequence[OutputFile], whose: Publication, options: Options) -> int:
        """Appends unless the version is there."""
        if self.is_published(store, files, whose, options):
            return 0
        with open(self.path, "ab") as journal:
            for file in files:
                journal.write(store.get(file.name))
        Path(self.path + ".version").write_text(json.dumps(whose.version))
        return len(files)

    def is_published(self, store: Store, files: Sequence[OutputFile], whose: Publication, options: Options) -> bool:
        """Whether the version is there."""
        last = Path(self.path + ".version")
        return last.exists() and json.loads(last.read_text()) >= whose.version


def rows(path: Path) -> pa.Table:
    """What the journal holds."""
    return pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()])
