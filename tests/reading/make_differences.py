"""Records what Tidemill reads where it differs from Spark on purpose: `python -m tests.reading.make_differences`.

Read what changes in `recorded/tidemill.json` before it is committed: it is what the tests expect.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.reading import differences
from tests.reading.inputs import CSV_FILES, CSV_VALUES, JSON_FILES, JSON_VALUES
from tests.reading.make import RECORDED
from tests.reading.reading import read_file, read_parquet, read_values


def main() -> None:
    """Read all inputs that differ, and write what was found."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {
            "csv values": {
                kind: {
                    text: value
                    for text, value in read_values(folder, kind, CSV_VALUES[kind], "csv").items()
                    if text in known
                }
                for kind, known in differences.CSV_VALUES.items()
            },
            "json values": {
                kind: {
                    text: value
                    for text, value in read_values(folder, kind, JSON_VALUES[kind], "json").items()
                    if text in known
                }
                for kind, known in differences.JSON_VALUES.items()
            },
            "csv files": {one: read_file(folder, CSV_FILES[one], "csv") for one in differences.CSV_FILES},
            "json files": {one: read_file(folder, JSON_FILES[one], "json") for one in differences.JSON_FILES},
            "parquet files": {one: read_parquet(folder, one) for one in differences.PARQUET_FILES},
        }
    (RECORDED / "tidemill.json").write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
