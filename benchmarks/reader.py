"""Files into Arrow rows, one thread: Tidemill's reader beside DuckDB (CSV, JSON lines) and pyarrow (Parquet).

`make bench BENCH=reader ARGS="--rows 2000000 --rounds 5"`. Both read the same file in turn; the medians and their ratio
are printed. The files have ten columns of mixed types and are made in a temporary folder.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from tidemill import _native
from tidemill.schema import to_arrow
from tidemill.sources.contract import BLOCK_BYTES
from tidemill.sources.text_format import CsvFormat, JsonFormat, TextLimits

SCHEMA = (
    "id bigint, user bigint, amount double, price decimal(10,2), flag boolean, day date, ts timestamp, name string, "
    "code string, note string"
)
WORDS = ["alpha", "bravo charlie", "delta", "echo foxtrot golf", "hotel", "india juliet", "kilo", "lima"]
TYPES = {
    "bigint": "BIGINT", "double": "DOUBLE", "decimal(10,2)": "DECIMAL(10,2)", "boolean": "BOOLEAN", "date": "DATE",
    "timestamp": "TIMESTAMP", "string": "VARCHAR",
}  # fmt: skip
BLOCK_ROWS = 131_072


def main() -> None:
    """Make the files, read each with both readers in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as folder:
        csv, lines, parquet = write(Path(folder), given.rows)
        compare("CSV", csv, given.rounds, lambda: text(csv), lambda: in_duckdb("read_csv", csv, ", header=true"))
        compare("JSON", lines, given.rounds, lambda: text(lines), lambda: in_duckdb("read_ndjson", lines, ""))
        compare("Parquet", parquet, given.rounds, lambda: ours(parquet), lambda: in_pyarrow(parquet))


def write(folder: Path, rows: int) -> tuple[Path, Path, Path]:
    """Write the same rows in three formats."""
    chance = random.Random(1)
    csv, lines, parquet = folder / "rows.csv", folder / "rows.json", folder / "rows.parquet"
    names = [column.split()[0] for column in SCHEMA.split(", ")]
    with csv.open("w") as as_csv, lines.open("w") as as_json:
        as_csv.write(",".join(names) + "\n")
        for number in range(rows):
            day = f"2024-{number % 12 + 1:02d}-{number % 28 + 1:02d}"
            at = f"{day} {number % 24:02d}:{number % 60:02d}:{number * 7 % 60:02d}.{number % 1000:03d}"
            values = [
                number,
                chance.randrange(10**9),
                f"{chance.random() * 1000:.4f}",
                f"{chance.randrange(10**6) / 100}",
            ]
            values += ["true" if number % 3 else "false"]
            texts = [day, at, WORDS[number % 8], f"{number % 997}x", f"{WORDS[number * 3 % 8]} {WORDS[number * 5 % 8]}"]
            as_csv.write(",".join(map(str, [*values, *texts])) + "\n")
            pairs = [f'"{name}":{value}' for name, value in zip(names, values, strict=False)]
            pairs += [f'"{name}":"{value}"' for name, value in zip(names[5:], texts, strict=True)]
            as_json.write("{" + ",".join(pairs) + "}\n")
    reader = opened(csv)
    with pq.ParquetWriter(parquet, to_arrow(SCHEMA)) as writer:
        while (found := reader.next_block()) is not None:
            writer.write_batch(found[0].select(names))
    return csv, lines, parquet


def opened(path: Path) -> _native.TextReader:
    """Open a text file with Tidemill's reader."""
    limits = TextLimits(BLOCK_ROWS, BLOCK_BYTES)
    if path.suffix == ".csv":
        return _native.csv_files(to_arrow(SCHEMA), CsvFormat(matching="name"), limits, "UTC").open(str(path))
    return _native.json_files(to_arrow(SCHEMA), JsonFormat(), limits, "UTC").open(str(path))


def text(path: Path) -> int:
    """Read a text file here and return its number of rows."""
    reader, rows = opened(path), 0
    while (found := reader.next_block()) is not None:
        rows += found[0].num_rows
        assert not found[1]
    return rows


def ours(path: Path) -> int:
    """Read a Parquet file here and return its number of rows."""
    file = _native.ParquetFile(str(path))
    batches, rows = file.rows(to_arrow(SCHEMA), "fail", 0, len(file.row_groups) - 1, BLOCK_ROWS), 0
    while (batch := batches.next_batch()) is not None:
        rows += batch.num_rows
    return rows


def in_duckdb(function: str, path: Path, options: str) -> int:
    """Read a text file in DuckDB, with one thread, and return its number of rows."""
    pairs = (column.split() for column in SCHEMA.split(", "))
    columns = ", ".join(f"'{name}': '{TYPES[kind]}'" for name, kind in pairs)
    connection = duckdb.connect(config={"threads": "1", "preserve_insertion_order": "true"})
    query = f"SELECT * FROM {function}('{path}', columns={{{columns}}}{options})"
    return sum(batch.num_rows for batch in connection.sql(query).to_arrow_reader(BLOCK_ROWS))


def in_pyarrow(path: Path) -> int:
    """Read a Parquet file in pyarrow, with one thread, and return its number of rows."""
    return sum(batch.num_rows for batch in pq.ParquetFile(path).iter_batches(BLOCK_ROWS, use_threads=False))


def compare(name: str, path: Path, rounds: int, here: Callable[[], int], peer: Callable[[], int]) -> None:
    """Read in turn and print the medians."""
    assert here() == peer()
    times = [(timed(here), timed(peer)) for _ in range(rounds)]
    mine, theirs = (statistics.median(column) for column in zip(*times, strict=True))
    ratios = sorted(b / a for a, b in times)
    size = path.stat().st_size / 1e6
    print(
        f"{name}, {size:.0f} MB: {mine:.2f} s, peer {theirs:.2f} s, "
        f"{statistics.median(ratios):.2f} times as fast ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    )


def timed(call: Callable[[], int]) -> float:
    """Return how many seconds a call takes."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
