"""Messages beyond a limit wait in a mapped file, and read as if they were in memory."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tidemill.batch import spill, wire
from tidemill.batch.spill import received
from tidemill.batch.wire import Chunk, ChunkHead, Header, Observed
from tidemill.batch.work import Data


def chunk(number: int, rows: int) -> Data:
    values = pa.RecordBatch.from_pydict(
        {"v": pa.array(range(number, number + rows), pa.int64()), "t": ["x" * 7] * rows}
    )
    return wire.chunk(ChunkHead("rows", 0, "op", (number,)), values)


def plain(message: wire.Message) -> object:
    return (message.head, message.batch().to_pylist()) if isinstance(message, Chunk) else message


@settings(deadline=None)
@given(st.lists(st.integers(0, 50), max_size=8), st.integers(0, 6_000))
def test_a_spilled_message_reads_as_one_in_memory(sizes: list[int], limit: int) -> None:
    items = [
        *(chunk(number, rows) for number, rows in enumerate(sizes)),
        wire.header(Header(0, len(sizes), Observed())),
    ]
    assert [plain(one) for one in received(iter(items), limit)] == [plain(wire.decode_message(item)) for item in items]


def mapped_files(folder: Path) -> int:
    """How many files of a folder this process has mapped, with a name or without."""
    return sum(f" {folder}/" in line for line in Path("/proc/self/maps").read_text().splitlines())


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux: /proc/self/maps")
def test_only_what_exceeds_the_limit_is_mapped_and_freed_with_the_last_chunk(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    items = [chunk(number, 1_000) for number in range(4)]
    limit = 2 * len(items[0])
    messages = received(iter(items[:2]), limit)
    assert mapped_files(tmp_path) == 0
    messages = received(iter(items), limit)
    assert mapped_files(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []  # the file has no name
    last = messages[-1]
    del messages
    assert isinstance(last, Chunk)
    assert last.batch().column("v")[0].as_py() == 3
    assert all(buffer is None or buffer.address % 8 == 0 for c in last.batch().columns for buffer in c.buffers())
    del last
    assert mapped_files(tmp_path) == 0


def test_a_full_disk_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))

    class Full:
        def __init__(self, **options: object) -> None:
            self.folder = options["dir"]

        def write(self, data: memoryview) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self) -> None:
            pass

    monkeypatch.setattr(spill.tempfile, "TemporaryFile", Full)
    with pytest.raises(tm.StoreUnavailable) as caught:
        received([chunk(0, 1_000)], 10)
    assert caught.value.first_line.startswith(
        f"write a temporary file in `{tmp_path}`: No space left on device; needed "
    )
    assert caught.value.hint is not None
    assert "`spark.local.dir`" in caught.value.hint


def test_a_folder_that_is_gone_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(spill.tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(
        tm.StoreUnavailable, match="write a temporary file in `.*gone`: No such file or directory"
    ) as caught:
        received([chunk(0, 1_000)], 10)
    assert caught.value.hint is not None
    assert "TMPDIR" in caught.value.hint
