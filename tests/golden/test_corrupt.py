"""Damage to the golden repository: each kind raises `CorruptState` that names the object, and nothing starts empty.

The tests damage a copy. `corrupt-1` has a commit of a future format, which no code of Tidemill writes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.golden import make
from tests.golden.conftest import EXPECTED, Golden, cells, without_checksum
from tests.unit.protocol.valid_records import sealed
from tidemill.protocol.codec import decode, encode
from tidemill.protocol.records import Plan

CORRUPT = Path(__file__).parent / "corrupt-1"
HEAD = "branches/main/commits/0000000004.json"
RESTORE = "restore the object from a backup"

Verb = Callable[[Any], Any]
VERBS: dict[str, Verb] = {
    "head": lambda r: r.head,
    "commits": lambda r: r.commits(),
    "state": lambda r: r.state("visits"),
    "outputs": lambda r: r.outputs(sink="visits"),
    "quarantine": lambda r: r.quarantine(),
    "run": lambda r: r.run(engine="local", max_batches=1, batch_time=make.ms("2024-03-02T12:00")),
    "sweep": lambda r: r.sweep(engine="local", batch_time=make.ms("2024-03-03T12:00")),
}


def refused(
    golden: Golden, verb: str, message: str, hint: str | None = None, kind: type[tm.TidemillError] = tm.CorruptState
) -> str:
    """Check that `verb` raises `CorruptState` with this beginning and changes nothing. Return the first line."""
    make.arrive(golden.folder / "input", "04.csv", "ada,UK,2024-03-01 11:00:00,2.00\n", "2024-03-02T11:30:00")
    before = kept(golden)
    with pytest.raises(kind) as caught:
        VERBS[verb](golden.open())
    assert caught.value.first_line.startswith(message.replace("ROOT", f"file://{golden.repository}"))
    if verb not in ("run", "sweep"):
        with pytest.raises(kind):
            VERBS[verb](golden.read())
    assert hint is None or (caught.value.hint is not None and caught.value.hint.startswith(hint))
    assert kept(golden) == before
    return caught.value.first_line


@pytest.fixture(autouse=True)
def adopted(golden: Golden) -> None:
    """Let the copy be written: the tests here are about damage, not about its place."""
    golden.adopt()


def kept(golden: Golden) -> dict[Path, bytes]:
    """Return the files that a failing verb must not change: all except new plans and files that no commit names."""
    folders = (golden.commit(0).parent, golden.repository / "refs", golden.folder / "published")
    return {path: path.read_bytes() for folder in folders for path in folder.rglob("*.json")}


def segment(golden: Golden, operator: str = "visits") -> dict[str, Any]:
    """Return the oldest segment of the state of an operator at the head."""
    (segments,) = golden.record(4)["state"][operator].values()
    found: dict[str, Any] = segments[0]
    return found


# commits


def rewritten(change: Callable[[dict[str, Any]], Any]) -> Callable[[Golden], None]:
    """Return damage that changes the JSON of the head's commit and gives it a valid checksum."""

    def damage(golden: Golden) -> None:
        raw = golden.record(4)
        change(raw)
        golden.commit(4).write_bytes(sealed(raw))

    return damage


def replaced(make_data: Callable[[bytes], bytes]) -> Callable[[Golden], None]:
    """Return damage that changes the bytes of the head's commit."""

    def damage(golden: Golden) -> None:
        golden.commit(4).write_bytes(make_data(golden.commit(4).read_bytes()))

    return damage


def first_segment(raw: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = raw["state"]["visits"]["state"][0]
    return found


OUTSIDE = f"read commit `{HEAD}`: a record names the object '%s', which is outside the repository"
COMMITS = {
    "cut short": (replaced(lambda data: data[:1000]), f"read commit `{HEAD}`: not JSON (Unterminated string"),
    "cut by one byte": (replaced(lambda data: data[:-1]), f"read commit `{HEAD}`: not JSON (Expecting ',' delimiter"),
    "empty": (replaced(lambda data: b""), f"read commit `{HEAD}`: not JSON (Expecting value"),
    "of zeros": (replaced(lambda data: bytes(len(data))), f"read commit `{HEAD}`: not JSON ("),
    "another version's": (
        lambda golden: shutil.copy(golden.commit(3), golden.commit(4)),
        f"read commit `ROOT/{HEAD}`: expected number 4 of branch `main`, found number 3 of branch `main`",
    ),
    "another branch's": (
        rewritten(lambda raw: raw.update(branch="try")),
        f"read commit `ROOT/{HEAD}`: expected number 4 of branch `main`, found number 4 of branch `try`",
    ),
    "without a field": (rewritten(lambda raw: raw.pop("ledger")), f"read commit `{HEAD}`: field `ledger` is missing"),
    "without a segment's field": (
        rewritten(lambda raw: first_segment(raw).pop("checksum")),
        f"read commit `{HEAD}`: field `state.visits.state[0].checksum` is missing",
    ),
    "with a hash as a number": (
        rewritten(lambda raw: first_segment(raw).update(hi=2**64 - 1)),
        f"read commit `{HEAD}`: field `state.visits.state[0].hi`: expected 16 hex digits, found '18446744073709551615'",
    ),
    "naming a segment outside": (
        rewritten(lambda raw: first_segment(raw).update(name="../x")),
        OUTSIDE % "../x",
    ),
    "naming a ledger outside": (
        rewritten(lambda raw: raw["ledger"][0].update(name="state/../../x")),
        OUTSIDE % "state/../../x",
    ),
    "naming an output outside": (
        rewritten(lambda raw: raw["outputs"]["seen"][0].update(name="/etc/passwd")),
        OUTSIDE % "/etc/passwd",
    ),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("damage", COMMITS)
def test_a_damaged_commit_is_corrupt_state(golden: Golden, damage: str, verb: str) -> None:
    do, message = COMMITS[damage]
    do(golden)
    refused(golden, verb, message)


@pytest.mark.parametrize("verb", VERBS)
def test_a_commit_of_a_future_format_asks_for_an_upgrade(golden: Golden, verb: str) -> None:
    shutil.copy(CORRUPT / "commit-of-format-2.json", golden.commit(4))
    message = f"read commit `{HEAD}`: it has format 2, this Tidemill reads format 1; it was written by a newer Tidemill"
    refused(golden, verb, message, "upgrade tidemill", kind=tm.InvalidInput)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("hint", [4, 9])
def test_a_hint_to_a_missing_commit_shows_a_loss(golden: Golden, verb: str, hint: int) -> None:
    golden.commit(4).unlink()
    (golden.repository / "branches/main/head.json").write_text(json.dumps({"version": hint}))
    message = f"read `ROOT/branches/main/commits/{hint:010d}.json`: the commit is missing, but "
    refused(golden, verb, message, "restore `branches/main/commits/`")


@pytest.mark.parametrize("verb", ["commits", "outputs", "quarantine"])
@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_missing_commit_below_the_head_is_corrupt_state(golden: Golden, verb: str, version: int) -> None:
    golden.commit(version).unlink()
    refused(golden, verb, f"read `ROOT/branches/main/commits/{version:010d}.json`: ")


def test_a_version_without_its_commit_is_corrupt_state(golden: Golden) -> None:
    golden.commit(1).unlink()
    with pytest.raises(tm.CorruptState, match="0000000001.json"):
        golden.open().state("visits", version=1)


@pytest.mark.parametrize("verb", ["state", "run"])
@pytest.mark.parametrize(
    ("change", "lost"),
    [
        (lambda raw: raw["state"].pop("visits"), "operator `visits`"),
        (lambda raw: raw["state"]["visits"].pop("state"), "map `state` of operator `visits`"),
    ],
)
def test_a_commit_without_the_state_of_an_operator_is_corrupt_state(
    golden: Golden, verb: str, change: Callable[[dict[str, Any]], Any], lost: str
) -> None:
    rewritten(change)(golden)
    refused(golden, verb, f"read commit `{HEAD}`: {lost} is in `schemas`, but missing from `state`")


@pytest.mark.parametrize("verb", ["state", "run"])
@pytest.mark.parametrize(
    ("described", "fault"),
    [
        ({}, "field `schemas.visits.kind` is missing"),
        (
            {"kind": "map-with-state", "key": ["customer"], "maps": {"state": {"key": "customer strin"}}},
            "field `schemas.visits.maps.state.key`: read schema `customer strin`: at character 10: ",
        ),
    ],
)
def test_a_commit_with_invalid_schemas_is_corrupt_state(
    golden: Golden, verb: str, described: dict[str, Any], fault: str
) -> None:
    rewritten(lambda raw: raw["schemas"].update(visits=described))(golden)
    refused(golden, verb, f"read commit `{HEAD}`: {fault}", RESTORE)


@pytest.mark.parametrize("verb", ["outputs", "run"])
def test_a_commit_with_invalid_sinks_is_corrupt_state(golden: Golden, verb: str) -> None:
    rewritten(lambda raw: raw["sinks"]["visits"].pop("schema"))(golden)
    refused(golden, verb, f"read commit `{HEAD}`: field `sinks.visits.schema` is missing", RESTORE)


def test_versions_below_a_damaged_commit_can_be_read(golden: Golden) -> None:
    golden.commit(4).write_bytes(b"")
    r = golden.open()
    assert cells(r.state("visits", version=3)) == EXPECTED["3"]["state"]["visits"]
    assert cells(r.state("seen", version=1)) == EXPECTED["1"]["state"]["seen"]


# checksums of records


ALTERED = [
    (HEAD, "commit", b'"lo":"5555', b'"lo":"5554', ["head", "state", "run", "sweep", "outputs"]),
    (HEAD, "commit", b'"rows":1,"lo"', b'"rows":2,"lo"', ["head", "state", "run"]),
    ("refs/0000000000.json", "entry", b'"kind":"aggregate"', b'"kind":"aggregatd"', list(VERBS)),
    ("refs/0000000001.json", "entry", b'"created_ms":1', b'"created_ms":2', ["run", "sweep"]),
    ("branches/main/plans/0000000005.json", "plan", b'"path":"03.csv"', b'"path":"02.csv"', ["run", "sweep"]),
]


@pytest.mark.parametrize(
    ("name", "kind", "old", "new", "verb"), [(*altered, verb) for *altered, verbs in ALTERED for verb in verbs]
)
def test_an_altered_byte_of_a_record_is_corrupt_state(
    golden: Golden, name: str, kind: str, old: bytes, new: bytes, verb: str
) -> None:
    """The altered byte leaves the record valid in form, so only its checksum shows the damage."""
    if kind == "plan":
        waiting = dataclasses.replace(decode(Plan, golden.plan(3).read_bytes(), "plan 3"), number=5)
        golden.plan(5).write_bytes(encode(waiting))
    path = golden.repository / name
    if kind == "entry":
        (golden.repository / "refs/head.json").unlink()
    data = path.read_bytes()
    changed = data.replace(old, new, 1)
    assert changed != data
    path.write_bytes(changed)
    found = hashlib.blake2b(changed[:-47], digest_size=16).hexdigest()
    refused(golden, verb, f"read {kind} `{name}`: checksum of the content is {found}, expected {data[-34:-2].decode()}",
            f"{RESTORE}; nothing is repaired silently")  # fmt: skip


def test_records_without_a_checksum_are_corrupt(golden: Golden) -> None:
    golden.commit(4).write_text(json.dumps(without_checksum(golden.commit(4))))
    refused(golden, "run", f"read commit `{HEAD}`: the record does not end with its checksum", RESTORE)


# segments


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


# what else a run reads


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_a_lost_ledger_is_corrupt_state_before_any_file_is_read_again(golden: Golden, verb: str) -> None:
    name = golden.record(4)["ledger"][0]["name"]
    damaged(golden, name, lambda data: None)
    refused(golden, verb, f"read `{name}` in `ROOT`: a commit names this object, but it is missing", RESTORE)
    assert not golden.plan(5).exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: json.dumps(raw)[:100], "read plan `{name}`: not JSON ("),
        (lambda raw: json.dumps(raw | {"format": 0}), "read plan `{name}`: found format 0, expected 1"),
        (
            lambda raw: json.dumps(raw | {"number": 3}),
            "read plan `ROOT/{name}`: expected number 5 of branch `main`, found number 3 of branch `main`",
        ),
        (lambda raw: json.dumps({k: v for k, v in raw.items() if k != "splits"}), "read plan `{name}`: field `splits`"),
        (
            lambda raw: json.dumps(raw | {"splits": [raw["splits"][0] | {"path": "../x"}]}),
            "read plan 5 of branch `main` in `ROOT`: it is based on ",
        ),
    ],
)
@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_a_damaged_plan_is_corrupt_state(
    golden: Golden, verb: str, change: Callable[[dict[str, Any]], str], message: str
) -> None:
    raw = without_checksum(golden.plan(3)) | {"number": 5}
    text = change(raw)
    golden.plan(5).write_bytes(sealed(json.loads(text)) if text.endswith("}") else text.encode())
    refused(golden, verb, message.format(name="branches/main/plans/0000000005.json"))


@pytest.mark.parametrize("verb", VERBS)
def test_a_damaged_init_record_is_corrupt_state(golden: Golden, verb: str) -> None:
    name = "refs/0000000000.json"
    (golden.repository / name).write_bytes(b'{"pipeline":"ord')
    (golden.repository / "refs/head.json").unlink()
    refused(golden, verb, f"read entry `{name}`: not JSON (", RESTORE)


@pytest.mark.parametrize("verb", ["run", "sweep"])
def test_a_damaged_entry_of_refs_is_corrupt_state(golden: Golden, verb: str) -> None:
    name = "refs/0000000001.json"
    (golden.repository / name).write_bytes(b'{"schemas":{"seen"')
    (golden.repository / "refs/head.json").unlink()
    refused(golden, verb, "read ", RESTORE)
    with pytest.raises(tm.CorruptState, match=rf"`{name}`: not JSON \("):
        VERBS[verb](golden.open())


# output and quarantine files


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
