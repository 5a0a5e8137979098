"""Small text files that are decoded together have the blocks that they have when each is read alone."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pytest

from tidemill.batch.input import _groups
from tidemill.protocol.records import Split
from tidemill.sources import together
from tidemill.sources.contract import Block, ReadContext
from tidemill.sources.files import Files

SCHEMA = "a int, b string, t timestamp, d decimal(20,2)"
GOOD = {
    "json": ['{"a":1,"b":"x","t":"2024-01-01T00:00:00","d":1.25}', '{"b":"ü"}', "{}", '{"d":123456789012345678.91}'],
    "csv": ["1,x,2024-01-01 00:00:00,1.25", "2,,,", ",ü,,123456789012345678.91"],
}
BAD = {
    "json": [
        b"",
        b"no json\n",
        b'{"a":"x"}\n',
        b"\xff\n",
        b'{"a":1}\n\n',
        b"\xef\xbb\xbf\xef\xbb\xbf{}\n",
        b'{"a":1}\r\n',
    ],
    "csv": [
        b"",
        b"1\n",
        b"x,x,,\n",
        b"\xff,,,\n",
        b"1,,,\n\n2,,,\n",
        b'1,"a\nb",,\n',
        b"1,,,\r\n",
        b"\xef\xbb\xbf1,,,\n",
    ],
}


def both(source: Files, context: ReadContext | None = None) -> tuple[list[list[Block]], list[list[Block]] | None]:
    """Return the blocks of each file, read alone and together."""
    context = context or ReadContext()
    splits = source.splits(source.discover("s"))
    return [list(source.read(one, 1000, context)) for one in splits], source.read_together(splits, 1000, context)


def shown(found: list[list[Block]]) -> list[Any]:
    return [
        [(one.number, one.fingerprint, one.rows.schema, one.rows.to_pylist(), one.rejects) for one in of_file]
        for of_file in found
    ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_good_files_have_the_same_blocks(kind: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    for number in range(12):
        folder = tmp_path / f"p={number % 3}"
        folder.mkdir(exist_ok=True)
        lines = chance.choices(GOOD[kind], k=chance.randrange(1, 5))
        text = "\n".join(lines) + chance.choice(["", "\n"])
        (folder / f"{number:02d}.{kind}").write_bytes(chance.choice([b"", together.BOM]) + text.encode())
    (tmp_path / f"empty.{kind}").write_bytes(b"")
    source = Files(tmp_path, format=kind, schema=f"{SCHEMA}, p int")
    if kind == "csv":
        source = Files(tmp_path, format=kind, schema=f"{SCHEMA}, p int", pathGlobFilter="[0-9]*")
        assert both(source)[1] is not None
    alone, at_once = both(
        Files(tmp_path, format=kind, schema=f"{SCHEMA}, p int", pathGlobFilter="[0-9]*"),
        ReadContext(metadata=True, time_zone="Europe/Berlin"),
    )
    assert at_once is not None and shown(at_once) == shown(alone)


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_an_empty_file_among_others_has_no_block(kind: str, tmp_path: Path) -> None:
    for number, text in enumerate(["", f"{GOOD[kind][0]}\n", ""]):
        (tmp_path / f"{number}.{kind}").write_text(text)
    alone, at_once = both(Files(tmp_path, format=kind, schema=SCHEMA))
    assert at_once is not None and shown(at_once) == shown(alone)
    assert [len(of_file) for of_file in at_once] == [0, 1, 0]


def test_headers_are_no_rows(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text(f"a,b,t,d\n{GOOD['csv'][number]}\n")
    alone, at_once = both(Files(tmp_path, format="csv", header=True, schema=SCHEMA))
    assert at_once is not None and shown(at_once) == shown(alone)


@pytest.mark.parametrize(("kind", "data"), [(kind, data) for kind, all_of in BAD.items() for data in all_of])
def test_a_file_that_may_be_invalid_is_read_alone_or_alike(kind: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / f"0.{kind}").write_text(f"{GOOD[kind][0]}\n")
    (tmp_path / f"1.{kind}").write_bytes(data)
    (tmp_path / f"2.{kind}").write_text(f"{GOOD[kind][1]}\n")
    alone, at_once = both(Files(tmp_path, format=kind, schema=SCHEMA, mode="PERMISSIVE"))
    assert at_once is None or shown(at_once) == shown(alone)
    if any(block.rejects is not None for of_file in alone for block in of_file):
        assert at_once is None


@pytest.mark.parametrize("header", [b"", b"\xef\xbb\xbf", b"a,b\n", b"a,b,d,t\n1,,,\n"])
def test_a_file_with_another_header_is_read_alone(header: bytes, tmp_path: Path) -> None:
    (tmp_path / "0.csv").write_text(f"a,b,t,d\n{GOOD['csv'][0]}\n")
    (tmp_path / "1.csv").write_bytes(header)
    alone, at_once = both(Files(tmp_path, format="csv", header=True, schema=SCHEMA, mode="PERMISSIVE"))
    assert at_once is None or shown(at_once) == shown(alone)
    assert (at_once is None) == bool(header)


def test_compressed_missing_and_changed_files_are_read_alone(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.json").write_text("{}\n")
    source = Files(tmp_path, format="json", schema=SCHEMA)
    splits = source.splits(source.discover("s"))
    assert source.read_together(splits, 1000, ReadContext()) is not None
    assert source.read_together(splits, 0, ReadContext()) is None  # more rows than a block has
    (tmp_path / "1.json").write_text("{ }\n")
    assert source.read_together(splits, 1000, ReadContext()) is None
    (tmp_path / "1.json").unlink()
    assert source.read_together(splits, 1000, ReadContext()) is None
    (tmp_path / "1.json.gz").write_bytes(gzip.compress(b"{}\n"))
    assert source.read_together(source.splits(source.discover("s")), 1000, ReadContext()) is None


def test_only_small_files_of_one_source_that_follow_each_other_are_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [("a", 10), ("a", 20), ("b", 1), ("b", 10**6), ("b", 1), ("b", 2), ("b", 3)]
    splits = [Split(source, f"{number}", "e", size, 0) for number, (source, size) in enumerate(sizes)]
    assert list(_groups(splits, [0, 1, 2, 3, 4, 5, 6])) == [[0, 1], [2], [3], [4, 5, 6]]
    assert list(_groups(splits, [0, 2, 1])) == [[0], [2], [1]]
    monkeypatch.setattr("tidemill.batch.input.MOST_FILES", 2)
    assert list(_groups(splits, [4, 5, 6])) == [[4, 5], [6]]
    monkeypatch.setattr("tidemill.batch.input.MOST_BYTES", 25)
    assert list(_groups(splits, [0, 1])) == [[0], [1]]
    assert list(_groups(splits, [])) == []
