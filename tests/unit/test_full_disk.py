"""What counts as a full disk, by the text of an error, also after it came from another process."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from tidemill.batch import wire
from tidemill.engines.failure import failed
from tidemill.errors import InternalError, InvalidInput, StoreUnavailable
from tidemill.store import full

REASON = os.strerror(errno.ENOSPC)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_an_error_is_recognised_after_it_crossed_an_engine(number: int) -> None:
    error = StoreUnavailable(f"write `/x`: {os.strerror(number)}", hint=full.advice(number))
    sent = wire.decode_message(wire.encode_failure(error))
    assert isinstance(sent, wire.Failure)
    assert full.is_full(sent.error())


def test_a_write_that_may_still_complete_is_not_one_that_a_full_disk_refused() -> None:
    inner = f"create `/x`: {REASON}"
    assert not full.is_full(StoreUnavailable(f"create `/x`: outcome unknown after 5 attempts ({inner}); the write …"))
    assert not full.is_full(InvalidInput(inner))
    assert not full.is_full(StoreUnavailable(f"write `/x`: {os.strerror(errno.EIO)}"))


def test_the_space_of_a_folder_that_does_not_exist_yet_is_that_of_the_one_above(tmp_path: Path) -> None:
    found = full.space(errno.ENOSPC, str(tmp_path / "a" / "b" / "c"), 1234)
    assert found.startswith("; needed 1,234 bytes, ") and found.endswith(" bytes free")
    assert full.space(errno.EDQUOT, str(tmp_path), 1234) == ""  # a quota is not the space of the disk


def test_out_of_inodes_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = os.statvfs(tmp_path)
    fields = list(found)
    fields[5], fields[7] = 1000, 0  # inodes in all, and free for this user
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(fields))
    assert full.space(errno.ENOSPC, str(tmp_path)) == "; no inodes free"


def test_the_error_for_a_temporary_file_names_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    error = full.no_temporary_file(OSError(errno.ENOSPC, REASON), 7)
    assert error.first_line.startswith(f"write a temporary file in `{tmp_path}`: {REASON}; needed 7 bytes")
    assert error.hint == "free space there, or set TMPDIR to a folder on another disk, then run again"


def test_a_full_folder_of_spark_is_no_bug() -> None:
    found = failed(RuntimeError(f"java.io.IOException: {REASON}\n\tat org.apache.spark"), "spark")
    assert type(found) is StoreUnavailable and full.is_full(found)
    assert found.hint is not None and "`spark.local.dir`" in found.hint
    assert type(failed(RuntimeError("java.io.IOException: broken"), "spark")) is InternalError
