"""A repository in format 1: current code reads all its versions, writes equal records, and continues it.

The expected results are in `format-1/expected.json`. A loop over the rows computed them, not the engine.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import xxhash

from tests.golden import make
from tests.golden.conftest import EXPECTED, Golden, cells
from tidemill.protocol.codec import decode, encode
from tidemill.protocol.entries import ENTRIES, Init, Operators
from tidemill.protocol.progress import progress_of
from tidemill.protocol.records import (
    Commit,
    Counts,
    Furthest,
    OperatorMetrics,
    OutputFile,
    Parent,
    Plan,
    Published,
    PublishedFile,
    QuarantineFile,
    Segment,
    Split,
)
from tidemill.quarantine.rows import REJECT_SCHEMA
from tidemill.sources.ledger import LEDGER_SCHEMA
from tidemill.state.columns import SYSTEM_COLUMNS

VERSIONS = sorted(int(version) for version in EXPECTED)
KINDS = {"refs/0000000000.json": Init, "refs/0000000001.json": Operators}
RECORDS = sorted(
    path.relative_to(make.FOLDER / "root/orders").as_posix()
    for path in (make.FOLDER / "root").rglob("*.json")
    if path.name != "head.json" and path.relative_to(make.FOLDER / "root/orders").parts[0] != "output"
)


def kind_of(name: str) -> type:
    return KINDS.get(name, Plan if "/plans/" in name else Published if name.startswith("published/") else Commit)


def named(commit: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every object that a commit names."""
    segments = [segment for maps in commit["state"].values() for found in maps.values() for segment in found]
    outputs = [file for found in commit["outputs"].values() for file in found]
    return [*segments, *commit["ledger"], *outputs, *commit["quarantine"]]


# reading


def test_the_log_is_read(golden: Golden) -> None:
    r = golden.open()
    assert r.head == r.commit(4)
    assert [(c.version, c.kind, c.published_through) for c in r.commits()] == [
        (0, "batch", -1), (1, "batch", 0), (2, "void", 1), (3, "batch", 2), (4, "sweep", 3),
    ]  # fmt: skip
    assert [c.batch_time_ms for c in r.commits()] == [
        make.ms(time)
        for time in ("2024-03-01T10:00", "2024-03-01T10:30", "2024-03-01T10:30", "2024-03-01T11:00", "2024-03-02T10:45")
    ]
    assert [c.watermarks["shop.at"] for c in r.commits()] == [
        make.ms(f"2024-03-01T{time}") for time in ("09:42", "10:30", "10:30", "10:40", "10:40")
    ]
    assert r.commit(2).reason == "03.csv had a negative amount"
    assert r.version_at(make.ms("2024-03-01T10:59")) == 2
    assert {c.pipeline_uuid for c in r.commits()} == {r.opened.initialised().uuid}


def test_operators_of_old_commits_have_no_counts(golden: Golden) -> None:
    r = golden.open()
    assert all(not metrics.has_counts for metrics in r.commit(0).operators.values() if metrics.rows)
    assert progress_of("old", r.commit(0)).operators == {}


def test_counts_are_read(golden: Golden) -> None:
    counts = [(c.input_rows, c.applied_rows, c.late_rows, c.quarantined_rows) for c in
              (commit.counts for commit in golden.open().commits())]  # fmt: skip
    assert counts == [(23, 22, 0, 1), (3, 2, 1, 0), (0, 0, 0, 0), (2, 2, 0, 0), (0, 0, 0, 0)]


def test_the_entries_of_init_are_read(golden: Golden) -> None:
    repo = golden.open().opened
    for refs in (repo.initialised(), repo.refs_log.read_entries()):
        assert refs is not None
        assert list(refs.schemas) == ["visits", "by-country", "seen"]
        assert (refs.through, refs.root) == (1, f"file://{make.PLACE}/root/orders")
        assert refs.sources == {"shop": f"file://{make.PLACE}/input"}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_state_of_every_version_is_unchanged(golden: Golden, version: int) -> None:
    r, expected = golden.open(), EXPECTED[str(version)]["state"]
    assert list(r.commit(version).schemas) == list(expected)
    assert {operator: cells(r.state(operator, version=version, partial=True)) for operator in expected} == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_the_outputs_of_every_version_are_unchanged(golden: Golden, version: int) -> None:
    r, expected = golden.open(), EXPECTED[str(version)]["outputs"]
    found = {sink: r.outputs(version, sink) for sink in expected}
    assert {sink: cells(rows.drop_columns(["_seq"])) for sink, rows in found.items()} == expected
    for rows in found.values():
        numbers = rows.column("_seq").to_pylist()
        assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("version", [0, 1, 3])
def test_the_place_of_a_row_is_made_of_pass_group_and_counter(golden: Golden, version: int) -> None:
    for row in golden.open().outputs(version, "visits").to_pylist():
        group = xxhash.xxh3_64_intdigest((row["customer"] or "").encode()) >> 44
        is_due = int(row["closed"])  # no key was closed by its own rows
        assert row["customer"] is None or row["_seq"] >> 32 == (is_due << 20) + group


def test_the_quarantine_is_unchanged(golden: Golden) -> None:
    r = golden.open()
    apart = ["kind", "operator", "watermark", "requeued"]
    assert {str(version): cells(r.quarantine(version).drop_columns(apart)) for version in VERSIONS} == {
        version: expected["quarantine"] for version, expected in EXPECTED.items()
    }
    assert [(row["kind"], row["operator"]) for row in r.quarantine().to_pylist()] == [
        ("unreadable", None),
        ("late", "visits"),
    ]
    assert [(row["line"], row["row"]) for row in r.quarantine().to_pylist()] == [(12, None), (None, 3)]


def test_columns_keep_their_types(golden: Golden) -> None:
    schema = golden.open().state("visits", version=0).schema
    assert [str(field.type) for field in schema] == [
        "string", "int64", "decimal128(12, 2)", "timestamp[ms, tz=UTC]", "timestamp[ms, tz=UTC]",
    ]  # fmt: skip


@pytest.mark.parametrize("hint", [None, b"", b"\x00garbage", b'{"version": 0}', b'{"version": -1}', b"[4]"])
def test_the_head_is_found_with_any_hint(golden: Golden, hint: bytes | None) -> None:
    file = golden.repository / "branches/main/head.json"
    file.unlink() if hint is None else file.write_bytes(hint)
    head = golden.open().head
    assert head is not None and head.version == 4


# what docs/format.md says


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_written_as_it_was_read(name: str) -> None:
    data = (make.FOLDER / "root/orders" / name).read_bytes()
    assert encode(decode(kind_of(name), data, name)) == data


@pytest.mark.parametrize("name", RECORDS)
def test_the_documented_checksum_can_be_computed_without_tidemill(name: str) -> None:
    """Follow docs/format.md: serialise, omit the last brace, hash, append."""
    data = (make.FOLDER / "root/orders" / name).read_bytes()
    raw = json.loads(data)
    checksum = raw.pop("checksum")
    text = json.dumps(raw, separators=(",", ":"), ensure_ascii=False)[:-1]
    assert hashlib.blake2b(text.encode(), digest_size=16).hexdigest() == checksum
    assert f'{text},"checksum":"{checksum}"}}'.encode() == data


DOCUMENT = (Path(__file__).parents[2] / "docs/format.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "kind",
    [
        *ENTRIES.values(),
        Plan,
        Split,
        Parent,
        Commit,
        Segment,
        OutputFile,
        QuarantineFile,
        Counts,
        OperatorMetrics,
        Published,
        PublishedFile,
        Furthest,
    ],
)
def test_every_field_of_a_record_is_documented(kind: type) -> None:
    assert [f.name for f in dataclasses.fields(kind) if f"`{f.name}`" not in DOCUMENT] == []


def test_every_column_of_ledger_and_quarantine_is_documented() -> None:
    own = [name for name in LEDGER_SCHEMA.columns.names if name not in SYSTEM_COLUMNS]
    assert [name for name in [*own, *REJECT_SCHEMA.names] if f"| `{name}` | " not in DOCUMENT] == []


def test_there_is_a_record_of_every_kind() -> None:
    assert [kind_of(name) for name in RECORDS] == [*[Commit] * 5, *[Plan] * 5, *[Published] * 3, Init, Operators]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_named_object_has_its_size_and_checksum(golden: Golden, version: int) -> None:
    for entry in named(golden.record(version)):
        data = (golden.repository / entry["name"]).read_bytes()
        assert (len(data), hashlib.blake2b(data, digest_size=16).hexdigest()) == (entry["size"], entry["checksum"])


def test_every_object_is_named_by_a_record(golden: Golden) -> None:
    by_commits = {entry["name"] for version in VERSIONS for entry in named(golden.record(version))}
    assert set(golden.objects()) == {*by_commits, *RECORDS, "branches/main/head.json", "refs/head.json"}


def test_a_reader_without_tidemill_finds_the_state(golden: Golden) -> None:
    """Follow docs/format.md: the newest segment that holds a key counts, and a tombstone removes the key."""
    for operator, key in (("visits", 1), ("by-country", 1), ("seen", 2)):
        (segments,) = golden.record(4)["state"][operator].values()
        rows: dict[tuple[Any, ...], list[Any]] = {}
        for segment in sorted(segments, key=lambda s: s["sequence"]):
            for row in cells(pq.read_table(golden.repository / segment["name"])):
                rows[tuple(row[:key])] = row
        live = [row[:-1] for row in rows.values() if not row[-1]]
        assert sorted(live, key=str) == sorted(EXPECTED["4"]["state"][operator], key=str)


def test_the_head_shows_deltas_and_tombstones(golden: Golden) -> None:
    """Without deltas and tombstones, the test above would prove little."""
    segments = golden.record(4)["state"]["visits"]["state"]
    deleted = [sum(pq.read_table(golden.repository / s["name"])["deleted"].to_pylist()) for s in segments]
    assert {s["version"] for s in segments} == {0, 1, 3}
    assert {s["sequence"] for s in segments} == {1, 2, 3}
    assert sum(deleted) > 0


# going on


def go_on(golden: Golden, tasks: int = 1) -> Any:
    golden.adopt()
    make.arrive(golden.folder / "input", "04.csv", "ada,UK,2024-03-01 11:00:00,2.00\n", "2024-03-02T11:30:00")
    r = golden.open()
    (progress,) = r.run(engine="local", max_batches=1, batch_time=make.ms("2024-03-02T12:00"), tasks=tasks)
    assert (progress.version, progress.input_files, progress.numInputRows) == (5, 1, 1)
    return golden.open()


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_current_code_continues_the_repository(golden: Golden, tasks: int) -> None:
    r = go_on(golden, tasks)
    closed = ["Ümit", "ivy", "jan", "kim", "leo", "mia", "ned", "ola", "pia", "rob"]
    before = {row[0]: row for row in EXPECTED["4"]["state"]["visits"]}
    after = {name: row for name, row in before.items() if name not in closed}
    after["ada"] = ["ada", 4, "13.01", "2024-03-02T12:00:00.000Z", "2024-03-01T12:00:00.001Z"]
    assert {row[0]: row for row in cells(r.state("visits"))} == after
    countries = {row[0]: row[1:3] for row in cells(r.state("by-country", partial=True))}
    assert countries == {row[0]: row[1:3] for row in EXPECTED["4"]["state"]["by-country"]} | {"UK": [9, "41.01"]}
    # hal's day was over at 11:00, ada's order came first
    assert cells(r.state("seen")) == [
        ["UK", "ada", 2, "2024-03-02T12:00:00.000Z", "2024-03-03T12:00:00.001Z"],
    ]  # fmt: skip
    assert sorted(row[0] for row in cells(r.outputs(5, "visits")) if row[3]) == sorted(closed)
    assert cells(r.outputs(5, "seen").drop_columns(["_seq"])) == [["gone after 1", 5]]


def test_old_versions_stay_unchanged_when_the_repository_continues(golden: Golden) -> None:
    before = {name: (golden.repository / name).read_bytes() for name in golden.objects() if name[-9:] != "head.json"}
    r = go_on(golden)
    assert {name: (golden.repository / name).read_bytes() for name in before} == before
    assert cells(r.state("visits", version=4)) == EXPECTED["4"]["state"]["visits"]


def test_published_files_stay_and_the_new_version_is_added(golden: Golden) -> None:
    def published() -> dict[str, bytes]:
        folder = golden.folder / "published"
        return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*.json")}

    before = published()
    uuid = go_on(golden).opened.initialised().uuid[:8]
    fresh = {name: data for name, data in published().items() if before.get(name) != data}
    assert len(before) == 6 and len(published()) == 8
    assert [name.rpartition("-")[0] for name in sorted(fresh)] == [
        f"closed=false/orders.visits-0000000005-00000-{uuid}",
        f"closed=true/orders.visits-0000000005-00001-{uuid}",
    ]
    for name, data in fresh.items():
        assert name.endswith(f"-{hashlib.blake2b(data, digest_size=16).hexdigest()[:12]}.json")
    seq = xxhash.xxh3_64_intdigest(b"ada") >> 44 << 32
    row = f'{{"customer":"ada","orders":4,"total":13.01,"_batch_id":5,"_seq":{seq}}}\n'
    assert fresh[min(fresh)] == row.encode()


def test_golden_files_are_never_overwritten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="never regenerated"):
        make.main()
    assert list(tmp_path.iterdir()) == []
