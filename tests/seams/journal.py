"""A test-only sink in one new file. It appends one line for each row to a file, and each version once."""

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
    """Stores JSON lines, and publishes them by appending to `path`. The last version is in a file beside it."""

    kind = "test-journal"

    def check_place(self, options: Options) -> None:
        """Accept any local path."""

    def publish(self, store: Store, files: Sequence[OutputFile], whose: Publication, options: Options) -> int:
        """Append the rows unless the version was published."""
        if self.is_published(store, files, whose, options):
            return 0
        with open(self.path, "ab") as journal:
            for file in files:
                journal.write(store.get(file.name))
        Path(self.path + ".version").write_text(json.dumps(whose.version))
        return len(files)

    def is_published(self, store: Store, files: Sequence[OutputFile], whose: Publication, options: Options) -> bool:
        """Whether the version was published."""
        last = Path(self.path + ".version")
        return last.exists() and json.loads(last.read_text()) >= whose.version


def rows(path: Path) -> pa.Table:
    """Read the journal."""
    return pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()])
