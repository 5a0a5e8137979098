"""Damage to segments, outputs and quarantine files of the golden repository."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from typing import Any

import pytest

import tidemill as tm
from tests.golden.conftest import EXPECTED, Golden, cells
from tests.golden.damaging import RESTORE, first_segment, refused, rewritten
from tests.unit.protocol.valid_records import sealed


@pytest.fixture(autouse=True)
def adopted(golden: Golden) -> None:
    """Let the copy be written: the tests here are about damage, not about its place."""
    golden.adopt()


def segment(golden: Golden, operator: str = "visits") -> dict[str, Any]:
    """Return the oldest segment of the state of an operator at the head."""
    (segments,) = golden.record(4)["state"][operator].values()
    found: dict[str, Any] = segments[0]
    return found


def damaged(golden: Golden, name: str, change: Callable[[bytes], bytes | None]) -> str:
    """Change an object, or delete it if `change` returns None. Return the checksum of the new content."""
    path = golden.repository / name
    data = change(path.read_bytes())
    path.unlink() if data is None else path.write_bytes(data)
    return hashlib.blake2b(data or b"", digest_size=16).hexdigest()


def flipped(data: bytes, offset: int) -> bytes:
    found = bytearray(data)
    found[offset] ^= 1
    return bytes(found)


@pytest.mark.parametrize("verb", ["state", "run", "sweep"])
@pytest.mark.parametrize(
    "change",
    [lambda data: flipped(data, 50), lambda data: flipped(data, -50), lambda data: data[:-1], lambda data: data[:100],
     lambda data: b"", lambda data: bytes(len(data)), lambda data: data + b"\0"],
    ids=["a byte of a row group flipped", "a byte of the footer flipped", "a byte short", "cut", "empty", "zeros",
         "a byte long"],
)  # fmt: skip
def test_a_damaged_segment_is_corrupt_state(golden: Golden, verb: str, change: Callable[[bytes], bytes]) -> None:
    known = segment(golden)
    found = damaged(golden, known["name"], change)
    message = f"read `{known['name']}`: found checksum {found}, but the commit records {known['checksum']}"
    refused(golden, verb, message, RESTORE)


@pytest.mark.parametrize("verb", ["state", "run", "sweep"])
def test_a_missing_segment_is_corrupt_state(golden: Golden, verb: str) -> None:
    name = segment(golden)["name"]
    damaged(golden, name, lambda data: None)
    refused(golden, verb, f"read `{name}` in `ROOT`: a commit names this object, but it is missing", RESTORE)


def test_a_damaged_segment_of_another_operator_does_not_prevent_reading(golden: Golden) -> None:
    damaged(golden, segment(golden)["name"], lambda data: None)
    assert cells(golden.open().state("by-country", partial=True)) == EXPECTED["4"]["state"]["by-country"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: flipped(data, 50), "row group 0 does not match its checksum "),
        (
            lambda data: data.replace(b"tidemill.format\x18\x011", b"tidemill.format\x18\x012"),
            "`tidemill.format` is `2`",
        ),
        (lambda data: data[:-8], "not a valid Tidemill segment: "),
    ],
)
@pytest.mark.parametrize("verb", ["state", "run"])
def test_a_segment_with_an_invalid_footer_is_corrupt_state_despite_its_checksum(
    golden: Golden, verb: str, change: Callable[[bytes], bytes], message: str
) -> None:
    known = segment(golden)
    found = damaged(golden, known["name"], change)
    assert found != known["checksum"]
    rewritten(lambda raw: first_segment(raw).update(checksum=found))(golden)
    refused(golden, verb, f"cannot read segment `{known['name']}` of state map `state`: {message}")


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_a_lost_ledger_is_corrupt_state_before_any_file_is_read_again(golden: Golden, verb: str) -> None:
    name = golden.record(4)["ledger"][0]["name"]
    damaged(golden, name, lambda data: None)
    refused(golden, verb, f"read `{name}` in `ROOT`: a commit names this object, but it is missing", RESTORE)
    assert not golden.plan(5).exists()


@pytest.mark.parametrize(("sink", "version"), [("visits", 3), ("by-country", 1), ("seen", 4)])
def test_a_damaged_output_file_is_corrupt_state(golden: Golden, sink: str, version: int) -> None:
    known = golden.record(version)["outputs"][sink][0]
    found = damaged(golden, known["name"], lambda data: flipped(data, 20))
    r = golden.open()
    for asked in (version, None):
        with pytest.raises(tm.CorruptState) as caught:
            r.outputs(asked, sink)
        message = f"read `{known['name']}`: found checksum {found}, but the commit records {known['checksum']}"
        assert (caught.value.first_line, caught.value.hint) == (message, f"{RESTORE}; nothing is repaired silently")


@pytest.mark.parametrize("version", [0, 1])
def test_a_missing_quarantine_file_is_corrupt_state(golden: Golden, version: int) -> None:
    name = golden.record(version)["quarantine"][0]["name"]
    damaged(golden, name, lambda data: None)
    refused(golden, "quarantine", f"read `{name}` in `ROOT`: a commit names this object, but it is missing", RESTORE)


def not_published(golden: Golden) -> None:
    """Let version 3 be unpublished, as if the run that made it had died."""
    rewritten(lambda raw: raw.update(published_through=2))(golden)
    shutil.rmtree(golden.folder / "published")
    (golden.repository / "published/main/visits/0000000003.json").unlink()


def test_a_missing_output_that_must_be_published_is_corrupt_state(golden: Golden) -> None:
    not_published(golden)
    name = golden.record(3)["outputs"]["visits"][0]["name"]
    damaged(golden, name, lambda data: None)
    refused(golden, "run", f"publish version 3 of sink `visits`, which is committed: copy `{name}` ", RESTORE)


def test_a_damaged_output_is_not_published(golden: Golden) -> None:
    not_published(golden)
    known = golden.record(3)["outputs"]["visits"][0]
    found = damaged(golden, known["name"], lambda data: data.replace(b"11.01", b"91.01"))
    message = f": found checksum {found}, but the commit records {known['checksum']}"
    assert found != known["checksum"]
    where = f"publish version 3 of sink `visits`, which is committed: copy `{known['name']}` "
    assert message in refused(golden, "run", where, RESTORE)


def test_an_output_outside_the_sink_is_not_published(golden: Golden) -> None:
    raw = golden.record(3)
    raw["outputs"]["visits"][0]["suffix"] = "../../"
    golden.commit(3).write_bytes(sealed(raw))
    not_published(golden)
    parent = {"branch": "main", "version": 3, "checksum": sealed(raw)[-34:-2].decode()}
    rewritten(lambda raw: raw.update(parent=parent))(golden)
    refused(golden, "run", "publish version 3 of sink `visits`, which is committed: a record names the object '../..'")
    assert not list(golden.folder.parent.glob("orders.visits*"))
