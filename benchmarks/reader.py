"""Files into Arrow rows, on one processor: Tidemill beside DuckDB, Polars and pyarrow, and beside an earlier Tidemill.

`make bench BENCH=reader ARGS="--blocks 9 --rounds 5 --before CHECKOUT"`. A file has so many blocks of a million rows of
ten columns of mixed types; Parquet has one. Every reader reads the same file in a process of its own, bound to one
processor, in turn; the medians of the rounds and their ratios are printed. `CHECKOUT` is a folder in which an earlier
version was built (`make build`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = (
    "id bigint, user bigint, amount double, price decimal(10,2), flag boolean, day date, ts timestamp, name string, "
    "code string, note string"
)
NAMES = [column.split()[0] for column in SCHEMA.split(", ")]
WORDS = ["alpha", "bravo charlie", "delta", "echo foxtrot golf", "hotel", "india juliet", "kilo", "lima"]
TYPES = {
    "bigint": "BIGINT", "double": "DOUBLE", "decimal(10,2)": "DECIMAL(10,2)", "boolean": "BOOLEAN", "date": "DATE",
    "timestamp": "TIMESTAMP", "string": "VARCHAR",
}  # fmt: skip
BLOCK_ROWS = 131_072
LINE_BYTES = 160_000


def main() -> None:
    """Make the files, read each with all readers in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", help="the checkout of an earlier version")
    parser.add_argument("--folder", help="where the files are made; a temporary folder by default")
    parser.add_argument("--child", nargs=2, metavar=("READER", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(*given.child)
        return
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-", dir=given.folder) as folder:
        files = write(Path(folder), given.blocks)
        for file in files:
            peers = ["pyarrow"] if file.suffix == ".parquet" else ["duckdb", "polars"]
            compare(file, ["tidemill", *peers, *(["before"] if given.before else [])], given.rounds, given.before)
        print(f"a line of {LINE_BYTES:,} separators: {1000 * run('tidemill', long_line(Path(folder)), None)[0]:.1f} ms")


def write(folder: Path, blocks: int) -> list[Path]:
    """Write the same rows in three formats; Parquet has one block."""
    csv, lines, parquet = folder / "rows.csv", folder / "rows.json", folder / "rows.parquet"
    as_csv, as_json = one_block()
    header = (",".join(NAMES) + "\n").encode()
    block = folder / "block.csv"
    block.write_bytes(header + as_csv)
    with csv.open("wb") as file:
        file.write(header)
        file.writelines(as_csv for _ in range(blocks))
    with lines.open("wb") as file:
        file.writelines(as_json for _ in range(blocks))
    from tidemill.schema import to_arrow

    with pq.ParquetWriter(parquet, to_arrow(SCHEMA)) as writer:
        for batch in batches_of(block):
            writer.write_batch(batch.select(NAMES))
    block.unlink()
    return [csv, lines, parquet]


def one_block() -> tuple[bytes, bytes]:
    """Return a million rows as CSV without a header and as JSON lines."""
    chance = random.Random(1)
    as_csv, as_json = [], []
    for number in range(1_000_000):
        day = f"2024-{number % 12 + 1:02d}-{number % 28 + 1:02d}"
        at = f"{day} {number % 24:02d}:{number % 60:02d}:{number * 7 % 60:02d}.{number % 1000:03d}"
        values = [number, chance.randrange(10**9), f"{chance.random() * 1000:.4f}", f"{chance.randrange(10**6) / 100}"]
        values += ["true" if number % 3 else "false"]
        texts = [day, at, WORDS[number % 8], f"{number % 997}x", f"{WORDS[number * 3 % 8]} {WORDS[number * 5 % 8]}"]
        as_csv.append(",".join(map(str, [*values, *texts])))
        pairs = [f'"{name}":{value}' for name, value in zip(NAMES, values, strict=False)]
        pairs += [f'"{name}":"{value}"' for name, value in zip(NAMES[5:], texts, strict=True)]
        as_json.append("{" + ",".join(pairs) + "}")
    return ("\n".join(as_csv) + "\n").encode(), ("\n".join(as_json) + "\n").encode()


def long_line(folder: Path) -> Path:
    """Write a file with one line that is nothing but separators."""
    file = folder / "line.csv"
    file.write_text("," * LINE_BYTES + "\n")
    return file


def compare(file: Path, readers: list[str], rounds: int, before: str | None) -> None:
    """Read a file with each reader in turn, and print the medians."""
    times: dict[str, list[float]] = {reader: [] for reader in readers}
    for _ in range(rounds):
        rows = set()
        for reader in readers:
            seconds, found = run(reader, file, before)
            times[reader].append(seconds)
            rows.add(found)
        assert len(rows) == 1, rows
    ours = times["tidemill"]
    print(f"{file.suffix[1:]}, {file.stat().st_size / 1e6:.0f} MB: tidemill {statistics.median(ours):.2f} s")
    for reader in readers[1:]:
        ratios = sorted(other / own for other, own in zip(times[reader], ours, strict=True))
        print(
            f"    {reader} {statistics.median(times[reader]):.2f} s, so {statistics.median(ratios):.2f} times "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )


def run(reader: str, file: Path, before: str | None) -> tuple[float, int]:
    """Read a file in a child process. Return the seconds and the number of rows."""
    env = os.environ | {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--child", "tidemill" if reader == "before" else reader, str(file)]
    if reader == "before":
        command[0] = str(Path(before or "") / ".venv/bin/python")
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    seconds, rows = json.loads(done.stdout)
    return seconds, rows


def child(reader: str, file: str) -> None:
    """Read a file on one processor, once to warm up what is loaded late, and print the seconds and the rows."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    read = READERS[reader]
    folder = Path(tempfile.mkdtemp(prefix="tidemill-bench-"))
    small = folder / Path(file).name
    if Path(file).stem == "line":
        small.write_text("v\n")
    elif small.suffix == ".parquet":
        with pq.ParquetFile(file) as whole:
            pq.write_table(whole.read_row_group(0).slice(0, 100), small)
    else:
        with open(file, "rb") as whole:
            small.write_bytes(b"".join(whole.readline() for _ in range(100)))
    read(small)
    small.unlink()
    folder.rmdir()
    begun = time.perf_counter()
    rows = read(Path(file))
    print(json.dumps([time.perf_counter() - begun, rows]))


def here(path: Path) -> int:
    """Read a file as a source of Tidemill does, and return its number of rows."""
    return sum(batch.num_rows for batch in batches_of(path))


def batches_of(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file as a source of Tidemill does."""
    from tidemill.sources.contract import ReadContext
    from tidemill.sources.files import Files

    kind = path.suffix[1:]
    if path.stem == "line":
        source = Files(str(path), format="csv", schema="line string", mode="PERMISSIVE")
    elif kind == "csv":
        source = Files(str(path), format="csv", schema=SCHEMA, header=True)
    else:
        source = Files(str(path), format=kind, schema=SCHEMA)
    for split in source.splits(source.look("source")):
        for block in source.read(split, BLOCK_ROWS, ReadContext()):
            yield block.rows


def in_duckdb(path: Path) -> int:
    """Read a text file in DuckDB, with one thread."""
    import duckdb

    pairs = (column.split() for column in SCHEMA.split(", "))
    columns = ", ".join(f"'{name}': '{TYPES[kind]}'" for name, kind in pairs)
    call = f"read_csv('{path}', header=true, " if path.suffix == ".csv" else f"read_ndjson('{path}', "
    connection = duckdb.connect(config={"threads": "1", "preserve_insertion_order": "true"})
    rows = connection.sql(f"SELECT * FROM {call}columns={{{columns}}})")
    return sum(batch.num_rows for batch in rows.to_arrow_reader(BLOCK_ROWS))


def in_polars(path: Path) -> int:
    """Read a text file in Polars, with one thread. It reads no decimals, dates or times from JSON: these stay text."""
    import polars

    kinds = {
        "bigint": polars.Int64(), "double": polars.Float64(), "decimal(10,2)": polars.Decimal(10, 2),
        "boolean": polars.Boolean(), "date": polars.Date(), "timestamp": polars.Datetime("us"),
        "string": polars.String(),
    }  # fmt: skip
    if path.suffix == ".json":
        kinds |= {"decimal(10,2)": polars.Float64(), "date": polars.String(), "timestamp": polars.String()}
    schema = {name: kinds[kind] for name, kind in (column.split() for column in SCHEMA.split(", "))}
    found = polars.read_csv(path, schema=schema) if path.suffix == ".csv" else polars.read_ndjson(path, schema=schema)
    return found.to_arrow().num_rows


def in_pyarrow(path: Path) -> int:
    """Read a Parquet file in pyarrow, with one thread."""
    with pq.ParquetFile(path) as file:
        return sum(batch.num_rows for batch in file.iter_batches(BLOCK_ROWS, use_threads=False))


READERS: dict[str, Callable[[Path], int]] = {
    "tidemill": here, "duckdb": in_duckdb, "polars": in_polars, "pyarrow": in_pyarrow
}  # fmt: skip


if __name__ == "__main__":
    main()
