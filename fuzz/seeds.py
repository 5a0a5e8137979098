"""Seeds for `make fuzz`: the golden segments, one file of the cache on disk, and the files of tests/reading.

Each segment is written again without compression, with plain pages and with dictionaries, so that changed bytes reach
the decoder. `python fuzz/seeds.py FOLDER` writes to a folder for each target in `FOLDER`.
"""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.reading.inputs import CSV_FILES, JSON_FILES
from tests.reading.make_parquet import ARCHIVE
from tidemill._native import MapSchema, StateMap

GOLDEN = Path(__file__).parents[1] / "tests/golden"
FOLDERS = ("segments-1", "segments-1-sealed")
ROW_GROUPS = b"tidemill.row_groups"


def uncompressed(data: bytes, *, dictionary: bool) -> bytes:
    """Return the segment without compression, with plain pages or dictionaries. The target corrects the checksums."""
    given = pq.ParquetFile(io.BytesIO(data))
    table, metadata = given.read(), dict(given.metadata.metadata)
    lines = metadata[ROW_GROUPS].decode().splitlines()
    for _ in range(2):  # the first round only finds the lengths of the row groups
        out = io.BytesIO()
        writer = pq.ParquetWriter(
            out, table.schema.remove_metadata(), compression="none", use_dictionary=dictionary,
            write_statistics=False, store_schema=False,
        )  # fmt: skip
        with writer:
            start = 0
            for line in lines:
                rows = int(line.split()[0])
                writer.write_table(table.slice(start, rows).replace_schema_metadata(None), row_group_size=rows)
                start += rows
            writer.add_key_value_metadata({**metadata, ROW_GROUPS: "\n".join(lines)})
        found = pq.ParquetFile(out).metadata
        groups = [found.row_group(number) for number in range(found.num_row_groups)]
        sizes = [sum(one.column(at).total_compressed_size for at in range(one.num_columns)) for one in groups]
        words = [line.split() for line in lines]
        lines = [" ".join([each[0], str(size), *each[2:]]) for each, size in zip(words, sizes, strict=True)]
    return out.getvalue()


def write_cached(path: Path) -> None:
    """Write a run as a file of the cache on disk, with the columns that the target expects."""
    schema = MapSchema("fuzz", pa.schema([("key", pa.string())]), pa.schema([]), pa.schema([("value", pa.int64())]))
    state = StateMap.open(schema, [], 0, 2**64 - 1)
    keys = pa.record_batch({"key": ["a", None, "b"]})
    state.put_many(keys, pa.record_batch({"value": pa.array([1, None, 3])}), 5, pa.array([9, None, 7], pa.int64()))
    with path.open("wb") as file:
        state.base().keep(file.fileno(), "fuzz")


def main(folder: Path) -> None:
    """Write all seeds."""
    for name in ("segment", "cache", "csv", "json", "parquet"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    write_cached(folder / "cache/run")
    for target, inputs in (("csv", CSV_FILES), ("json", JSON_FILES)):
        for name, given in inputs.items():
            for options in (b"\0", b"\1"):  # the first byte decides the options
                (folder / target / f"{name}-{options[0]}").write_bytes(options + given.data.encode())
    with zipfile.ZipFile(ARCHIVE) as archive:
        for name in archive.namelist():
            (folder / "parquet" / name).write_bytes(archive.read(name))
    for path in sorted(path for name in FOLDERS for path in (GOLDEN / name).glob("*.parquet")):
        data, name = path.read_bytes(), f"{path.parent.name}-{path.name}"
        (folder / "segment" / name).write_bytes(data)
        for form, dictionary in (("plain", False), ("dictionary", True)):
            try:
                (folder / "segment" / f"{form}-{name}").write_bytes(uncompressed(data, dictionary=dictionary))
            except (pa.ArrowInvalid, OSError):  # a corrupt segment
                continue


if __name__ == "__main__":
    main(Path(sys.argv[1]))
