"""Reads changed copies of recorded Parquet files: `python -m tests.unit.sources.mutants FIRST LAST`.

The number of each mutant is printed before it is read, so that the parent knows which one ended or stopped the process.
INVARIANT: a number always gives the same mutant.
"""

from __future__ import annotations

import random
import resource
import sys
import zipfile
from itertools import islice
from pathlib import Path

import pyarrow as pa

from tests.reading.make_parquet import ARCHIVE
from tests.reading.parquet_files import INPUTS
from tidemill.protocol.records import Split
from tidemill.schema.ddl import parse_ddl
from tidemill.sources.columns_by_name import ColumnsByName
from tidemill.sources.parquet import ParquetColumns, read_parquet
from tidemill.sources.unreadable import Unreadable

MEMORY = 2 << 30
"""Address space for one mutant. More is refused by the system, which aborts the process."""
BATCHES = 50
"""A mutant may truthfully have billions of nulls; its first batches are read."""
HUGE = [
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x10",
]
"""Large numbers as Parquet's metadata stores them."""


def changed(data: bytes, dice: random.Random) -> bytes:
    """Return data with one to three changes. Mostly the footer keeps its right length, so that it is read."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    parts = [bytearray(data[:start]), bytearray(data[start:-8])]
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        change(dice.choice(parts), dice)
    made = bytes(parts[0] + parts[1]) + len(parts[1]).to_bytes(4, "little") + b"PAR1"
    match dice.randrange(20):
        case 0:
            return made[: dice.randrange(len(made))]
        case 1:
            return made[:-8] + dice.randbytes(4) + b"PAR1"
        case _:
            return made


def change(part: bytearray, dice: random.Random) -> None:
    """Change some bytes of a part in place."""
    place = dice.randrange(max(1, len(part)))
    match dice.randrange(10):
        case 0 | 1 | 2:
            part[place : place + 1] = bytes([part[place] ^ 1 << dice.randrange(8)]) if part else b""
        case 3 | 4:
            part[place : place + 1] = bytes([dice.choice([0, 1, 0x7F, 0x80, 0xFE, 0xFF])])
        case 5:
            huge = dice.choice(HUGE)
            part[place : place + len(huge)] = huge
        case 6:
            part[place : place + 1] = dice.choice(HUGE)
        case 7:
            part[place : place + 4] = dice.randbytes(4)
        case 8:
            del part[place : place + dice.choice([1, 4, 50])]
        case 9:
            part[place:place] = part[place : place + dice.choice([1, 4, 50])]


def mutant(number: int, inputs: list[tuple[str, bytes]]) -> tuple[str, bytes]:
    """Return the schema and the bytes of a mutant."""
    dice = random.Random(number)
    schema, data = dice.choice(inputs)
    return schema, changed(data, dice)


def read(schema: str, data: bytes) -> str:
    """Read a mutant; return "rows", "error", or what is odd."""
    wanted = pa.schema(parse_ddl(schema))
    split = Split("source", "a.parquet", "", len(data), 0)
    try:
        for table in islice(
            read_parquet(data, ParquetColumns(wanted, wanted, ColumnsByName(missing="null")), split), BATCHES
        ):
            table.validate(full=True)
    except Unreadable as error:
        return "error" if error.reason.isprintable() and len(error.reason) < 1000 else f"reason {error.reason!r}"
    return "rows"


def main(first: int, last: int) -> None:
    """Read mutants `first` to `last`, and print how each ended."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        inputs = [(schema, archive.read(file)) for file, schema in INPUTS.values()]
    inputs = [(schema, data) for schema, data in inputs if read(schema, data) == "rows"]
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    for number in range(first, last + 1):
        print(number, end=" ", flush=True)
        print(read(*mutant(number, inputs)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
