"""A test-only sink in one new file. It appends one line for each row to a file, and each version once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tidemill.protocol.records import PublishedFile
from tidemill.sinks.contract import Options, Present, Publication
from tidemill.sinks.files import Json


class Journal(Json):
    """Stores JSON lines, and publishes them by appending to `path`. The last version is in a file beside it."""

    kind = "test-journal"

    def check_place(self, options: Options) -> None:
        """Accept any local path."""

    def publish(self, publication: Publication) -> list[PublishedFile]:
        """Append the rows, unless an earlier call did that and died before the version was recorded."""
        last, version = Path(self.path + ".version"), publication.identity.version
        if not last.exists() or json.loads(last.read_text()) < version:
            with open(self.path, "ab") as journal:
                for _, file in publication.files:
                    journal.write(publication.store.get(file.name))
            last.write_text(json.dumps(version))
        return [PublishedFile(Path(self.path).name, f.checksum, f.size, f.rows) for _, f in publication.files]

    def present(self, publication: Publication, after: int = -1) -> Iterator[Present]:
        """Return nothing: the journal does not say who wrote it."""
        return iter(())


def rows(path: Path) -> pa.Table:
    """Read the journal."""
    return pa.Table.from_pylist([json.loads(line) for line in path.read_text().splitlines()])
