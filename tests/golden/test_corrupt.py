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
from tests.golden.conftest import EXPECTED, Golden, cells, without_checksum
from tests.golden.damaging import RESTORE, VERBS, first_segment, refused, rewritten
from tests.unit.protocol.valid_records import sealed
from tidemill.protocol.codec import decode, encode
from tidemill.protocol.records import Plan

CORRUPT = Path(__file__).parent / "corrupt-1"
HEAD = "branches/main/commits/0000000004.json"


@pytest.fixture(autouse=True)
def adopted(golden: Golden) -> None:
    """Let the copy be written: the tests here are about damage, not about its place."""
    golden.adopt()


def replaced(make_data: Callable[[bytes], bytes]) -> Callable[[Golden], None]:
    """Return damage that changes the bytes of the head's commit."""

    def damage(golden: Golden) -> None:
        golden.commit(4).write_bytes(make_data(golden.commit(4).read_bytes()))

    return damage


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
