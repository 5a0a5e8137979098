"""Small files that become large: memory is bounded by the longest record that is allowed, whatever they hold."""

from __future__ import annotations

import bz2
import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

TIMES = 96
BLOCK = 1024 * 1024
"""A file becomes 96 MiB, which is more than memory may grow."""
MOST_MIB = 80

READ = """
import resource, sys
import tidemill as tm
from tidemill.sources.contract import ReadContext

source = tm.Files(sys.argv[1], format=sys.argv[2], schema="a string, b string", mode="PERMISSIVE", maxRecordBytes="1m")
(split,) = source.splits(source.look("source"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = rejects = 0
try:
    for block in source.read(split, 10_000, ReadContext()):
        rows += block.rows.num_rows
        rejects += 0 if block.rejects is None else len(block.rejects)
        del block
    print(rows, rejects)
except tm.InvalidInput as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
"""Prints the rows and rejects or the error, then by how many MiB memory grew."""

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "zstd": lambda data: pa.Codec("zstd").compress(data, asbytes=True),  # type: ignore[no-any-return]
}


def read(path: Path, format: str) -> tuple[str, int]:
    run = [sys.executable, "-c", READ, str(path), format]
    *said, grown = subprocess.run(run, check=True, capture_output=True, text=True, timeout=300).stdout.splitlines()
    return "\n".join(said), int(grown)


ENDLESS = [
    ("csv", b",", "gzip"),
    ("csv", b"x", "zstd"),
    ("csv", b'"', "bzip2"),
    ("csv", b"\r\t", "gzip"),
    ("json", b"[", "zstd"),
    ("json", b" ", "bzip2"),
]


@pytest.mark.parametrize(("format", "filler", "codec"), ENDLESS)
def test_a_record_without_an_end_is_one_error_in_bounded_memory(
    tmp_path: Path, format: str, filler: bytes, codec: str
) -> None:
    start = COMPRESS[codec](b'a,"') if format == "csv" else b""
    (tmp_path / f"a.{format}").write_bytes(start + COMPRESS[codec](filler * (BLOCK // len(filler))) * TIMES)
    said, grown = read(tmp_path / f"a.{format}", format)
    assert "on line 1 has more than 1048576 bytes" in said
    assert grown < MOST_MIB


@pytest.mark.parametrize(("format", "line"), [("csv", b"a\n"), ("json", b"[\n"), ("json", b"{}\n")])
def test_many_short_records_take_the_memory_of_a_block(tmp_path: Path, format: str, line: bytes) -> None:
    count = 8192
    (tmp_path / f"a.{format}").write_bytes(gzip.compress(line * count) * TIMES)
    said, grown = read(tmp_path / f"a.{format}", format)
    assert sum(map(int, said.split())) == count * TIMES
    assert grown < MOST_MIB


def test_an_array_on_one_line_takes_the_memory_of_a_block(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(gzip.compress(b"[" + b"0," * (BLOCK // 2 - 2) + b"0]\n") * 2)
    said, grown = read(tmp_path / "a.json", "json")
    assert said == f"0 {(BLOCK // 2 - 1) * 2}"
    assert grown < MOST_MIB
