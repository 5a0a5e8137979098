"""Small published files become larger ones: what readers see, and what later corrections make of the larger files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.journeys.compacting import sink_of, six
from tests.journeys.rewound import command
from tests.journeys.shop import PIPELINE, arrive, files, opened, published, totals, world
from tests.servers.s3 import S3Server
from tests.world import run
from tidemill.publishing import publish as publishing
from tidemill.sinks import folder as sink_folder
from tidemill.store import open_store


def plain(folder: Path) -> Counter[tuple[Any, ...]]:
    """The rows that DuckDB finds in the sink: k, n, `_batch_id`, `_seq`."""
    if not files(folder):
        return Counter()
    ending = files(folder)[0].suffix.removeprefix(".")
    place = f"read_{ending}('{folder}/out/**/*.{ending}', hive_partitioning=true)"
    return Counter(duckdb.sql(f"SELECT k, n, _batch_id, _seq FROM {place}").fetchall())


@pytest.mark.parametrize("kind", ["parquet", "json", "parquet in folders", "json in folders"])
def test_rows_stay_the_same_in_fewer_files_and_a_second_call_has_nothing_to_do(tmp_path: Path, kind: str) -> None:
    r = six(tmp_path, kind)
    before, names, outputs = plain(tmp_path), {path.name for path in files(tmp_path)}, r.outputs()
    state, waiting = totals(r), r.status().waiting_files
    report = r.maintain(compact_sinks=True, reason="nightly")
    [made] = report.compacted
    count = 2 if "folders" in kind else 1
    assert (made.sink, made.first, made.last, made.files_before, made.files_after) == ("counts", 0, 5, 6, count)
    assert (made.version, r.head.kind, r.head.reason) == (6, "compact", "nightly")
    assert made.bytes_after == sum(path.stat().st_size for path in files(tmp_path))
    assert len(files(tmp_path)) == count
    assert not names & {path.name for path in files(tmp_path)}
    assert plain(tmp_path) == before
    assert r.outputs() == outputs and (totals(r), r.status().waiting_files) == (state, waiting)
    assert r.verify(deep=True).problems == []
    again = opened(tmp_path, sink=sink_of(tmp_path, kind)).maintain(compact_sinks=True)
    assert (again.compacted, again.to_compact, r.head.version) == ([], 0, 6)


def test_a_file_has_its_rows_in_the_order_of_versions_and_the_columns_of_the_small_ones(tmp_path: Path) -> None:
    r = opened(
        tmp_path, sink=sink_of(tmp_path, "parquet"), n=tm.count(), total=tm.sum("v"), all=tm.collect_set("v", 10)
    )
    for number in range(4):
        world(tmp_path).put(f"{number}", [(f"k{one}", one) for one in range(9)])
    run(r)
    small = [pq.read_table(path) for path in files(tmp_path)]
    r.maintain(compact_sinks=True)
    [path] = files(tmp_path)
    found = pq.read_table(path)
    assert found.schema.equals(small[0].schema)
    assert found.to_pylist() == [row for table in small for row in table.to_pylist()]
    order = list(zip(found["_batch_id"].to_pylist(), found["_seq"].to_pylist(), strict=True))
    assert order == sorted(order) and len(order) == 36
    assert pq.ParquetFile(path).num_row_groups == 1


def test_json_is_the_small_files_one_after_the_other(tmp_path: Path) -> None:
    r = six(tmp_path)
    small = b"".join(path.read_bytes() for path in files(tmp_path))
    r.maintain(compact_sinks=True)
    assert [path.read_bytes() for path in files(tmp_path)] == [small]


def test_readers_never_miss_a_row_and_see_those_of_one_folder_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = six(tmp_path, "json in folders")
    before, seen = plain(tmp_path), []

    def watched(change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any) -> Any:
            made = change(*arguments)
            seen.append(plain(tmp_path))
            return made

        return changed

    monkeypatch.setattr(sink_folder, "_publish", watched(sink_folder._publish))
    monkeypatch.setattr(sink_folder, "_remove", watched(sink_folder._remove))
    r.maintain(compact_sinks=True)
    assert len(seen) == 4 and seen[1] == seen[3] == before
    for moment in seen:
        assert moment.keys() == before.keys() and moment >= before
        twice = {row[0] for row, count in (moment - before).items() if count}
        assert len(twice) <= 1


def test_without_being_asked_nothing_is_joined(tmp_path: Path) -> None:
    r = six(tmp_path)
    before = files(tmp_path)
    assert r.maintain(keep_versions=2).compacted == []
    assert files(tmp_path) == before


def test_a_dry_run_changes_nothing_and_says_what_would_be_joined(tmp_path: Path) -> None:
    r = six(tmp_path)
    everything = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    size = sum(path.stat().st_size for path in files(tmp_path))
    report = r.maintain(compact_sinks=True, dry_run=True)
    [would] = report.compacted
    assert (would.files_before, would.files_after, would.bytes_before, would.version) == (6, 1, size, None)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == everything


def test_a_file_size_bounds_what_is_joined(tmp_path: Path) -> None:
    r = six(tmp_path)
    size = max(path.stat().st_size for path in files(tmp_path))
    assert r.maintain(compact_sinks=True, sink_file_size=2 * size - 1).compacted == []
    made = r.maintain(compact_sinks=True, sink_file_size=3 * size, dry_run=True).compacted
    assert [one.files_before for one in made] == [3, 3]
    for wrong, said in ((0, "sink_file_size=0, expected at least one byte"), ("much", "invalid size 'much'")):
        with pytest.raises(tm.InvalidInput, match=said):
            r.maintain(compact_sinks=True, sink_file_size=wrong)


def test_a_time_budget_of_nothing_joins_one_group_and_the_next_call_goes_on(tmp_path: Path) -> None:
    r = six(tmp_path)
    size = 3 * max(path.stat().st_size for path in files(tmp_path))
    first = r.maintain(compact_sinks=True, sink_file_size=size, time_budget=0)
    assert (len(first.compacted), first.to_compact, first.compact_waits) == (1, 1, False)
    second = r.maintain(compact_sinks=True, sink_file_size=size)
    assert (len(second.compacted), second.to_compact) == (1, 0)
    assert [row["version"] for row in published(tmp_path)] == list(range(6))


@pytest.mark.parametrize("kind", ["parquet", "json in folders"])
@pytest.mark.parametrize("to", [-1, 0, 3, 5])
def test_a_rewind_into_what_was_joined_withdraws_the_rows_since(tmp_path: Path, kind: str, to: int) -> None:
    r = six(tmp_path, kind)
    before = plain(tmp_path)
    r.maintain(compact_sinks=True)
    arrive(tmp_path, "later")
    run(r)
    r.rewind(to, "a test")
    left = Counter({row: count for row, count in before.items() if row[2] <= to})
    assert plain(tmp_path) == left
    assert r.outputs()["_batch_id"].to_pylist() == list(range(to + 1))
    assert r.verify(deep=True).problems == []
    r.maintain(compact_sinks=True)
    assert plain(tmp_path) == left
    run(r)
    assert r.verify(deep=True).problems == []
    assert sum(plain(tmp_path).values()) == 7


def test_a_rewind_may_itself_be_undone(tmp_path: Path) -> None:
    r = six(tmp_path)
    r.maintain(compact_sinks=True)
    r.rewind(2, "a mistake")
    r.maintain(compact_sinks=True)
    r.rewind(6, "undone")
    assert [row["version"] for row in published(tmp_path)] == list(range(6))
    assert r.maintain(compact_sinks=True).compacted[0].files_after == 1
    assert [row["version"] for row in published(tmp_path)] == list(range(6))
    assert r.verify(deep=True).problems == []


def test_below_the_floor_joined_files_stay_and_a_rewind_above_it_takes_rows_from_them(tmp_path: Path) -> None:
    r = six(tmp_path)
    r.maintain(compact_sinks=True)  # version 6 shows 0 to 5
    r.maintain(keep_versions=3)  # and 0 to 3 are no longer kept
    assert [row["version"] for row in published(tmp_path)] == list(range(6))
    assert r.verify(deep=True).problems == []
    r.rewind(4, "a test")
    assert [row["version"] for row in published(tmp_path)] == list(range(5))
    assert r.verify(deep=True).problems == []


def test_below_the_floor_small_files_are_joined_too(tmp_path: Path) -> None:
    r = six(tmp_path)
    report = r.maintain(keep_versions=1, compact_sinks=True)
    assert (report.floor, len(report.compacted), len(files(tmp_path))) == (5, 1, 1)
    assert r.maintain(keep_versions=1).floor == 6  # the objects of the joined files go
    assert [row["version"] for row in published(tmp_path)] == list(range(6))
    assert r.verify(deep=True).problems == []
    arrive(tmp_path, "later")
    run(r)
    assert [row["version"] for row in published(tmp_path)] == [*range(6), 7]


def test_forget_rewrites_joined_files(tmp_path: Path) -> None:
    r = six(tmp_path, "parquet")
    r.maintain(compact_sinks=True)
    r.forget("counts", ["c"], "a test", columns={"counts": "k"})
    assert sorted(row[0] for row in plain(tmp_path)) == list("abdef")
    assert r.verify(deep=True, forgotten=True).problems == []
    arrive(tmp_path, "g")
    run(r)
    r.maintain(compact_sinks=True)
    assert sorted(row[0] for row in plain(tmp_path)) == list("abdefg") and len(files(tmp_path)) == 1
    assert r.verify(deep=True, forgotten=True).problems == []
    r.rewind(7, "a test")  # back to the forget: its rows come from the joined file, not from earlier outputs
    assert sorted(row[0] for row in plain(tmp_path)) == list("abdef")
    assert r.verify(deep=True, forgotten=True).problems == []


def test_joined_files_can_be_published_again(tmp_path: Path) -> None:
    r = six(tmp_path)
    r.maintain(compact_sinks=True)
    for path in files(tmp_path):
        path.unlink()
    assert r.publish(0) == [6]
    assert [row["version"] for row in published(tmp_path)] == list(range(6))


def test_what_a_stalled_publisher_copies_afterwards_is_deleted_by_the_next_run_and_by_maintain(tmp_path: Path) -> None:
    r = six(tmp_path)
    small = {path: path.read_bytes() for path in files(tmp_path)}
    r.maintain(compact_sinks=True)
    for path, data in small.items():
        path.write_bytes(data)
    assert len(r.verify().problems) == 6
    assert r.maintain().strays == {"counts": sorted(path.name for path in small)}
    for path, data in small.items():
        path.write_bytes(data)
    arrive(tmp_path, "later")
    run(opened(tmp_path))
    assert [row["version"] for row in published(tmp_path)] == [*range(6), 7]


def test_a_process_that_stalls_in_publishing_withdraws_its_copies_itself(tmp_path: Path) -> None:
    r = six(tmp_path)
    [stalled] = publishing.works(r.opened, r.commit(2))
    r.maintain(compact_sinks=True)
    assert publishing.publish_work(opened(tmp_path).opened, stalled)
    assert [row["version"] for row in published(tmp_path)] == list(range(6))


def test_a_rewind_does_not_publish_again_what_a_consumer_took(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    r = six(tmp_path)
    r.maintain(compact_sinks=True)
    [path] = files(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-2])
    with pytest.raises(tm.CorruptState, match="^rewind: read `file://.*: found checksum .* was published"):
        r.rewind(2, "a test")
    assert r.head.version == 6
    path.unlink()
    r.rewind(2, "a test")
    assert "is not there any more, so its rows are not published again" in caplog.text
    assert files(tmp_path) == [] and r.outputs()["_batch_id"].to_pylist() == [0, 1, 2]
    assert r.verify(deep=True).problems == []


def test_the_command_says_what_will_be_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(PIPELINE)
    arrive(tmp_path, *"abc")
    command(capfd, "init", "shop.py:p")
    command(capfd, "run", "shop.py:p", "--engine", "local")
    size = sum(path.stat().st_size for path in files(tmp_path))
    maintain = ("maintain", "shop.py:p", "--compact-sinks")
    what = f"sink `counts`: 3 published files ({size:,} bytes) will become 1"
    status, out, _ = command(capfd, *maintain, "--dry-run")
    assert (status, out.splitlines()[0], out.splitlines()[-1]) == (0, what, "dry run: nothing was changed")
    status, out, err = command(capfd, *maintain, "--reason", "nightly")
    assert (status, what in err) == (0, True)
    assert out == "versions from 0 on are kept; joined 3 published files into 1, deleted 0 objects\n"
    assert "compact" in command(capfd, "log", "shop.py:p")[1] and "nightly" in command(capfd, "log", "shop.py:p")[1]
    status, out, _ = command(capfd, *maintain, "--json")
    assert (status, json.loads(out.splitlines()[-1])["compacted"]) == (3, [])
    status, _, err = command(capfd, *maintain, "--sink-file-size", "much")
    assert (status, "invalid size 'much'" in err) == (1, True)


@pytest.mark.parametrize("by", [(), ("k",)])
def test_files_on_s3_are_joined(tmp_path: Path, s3_server: S3Server, by: tuple[str, ...]) -> None:
    root, options = s3_server.new_root(), dict.fromkeys(("root", "sink"), s3_server.options)
    shop = world(tmp_path, sink=tm.Json(f"{root}/sink", partitionBy=by))
    shop.arrive("a,1\n", "b,1\n", "a,1\nb,1\n", "a,1\nb,1\n")
    r = tm.open(shop.pipeline(), root=f"{root}/root", storage_options=options)
    r.init()
    run(r)
    sink = open_store(f"{root}/sink", s3_server.options)

    def lines() -> list[str]:
        return sorted(f"{entry.name.rpartition('/')[0]} {line.decode()}"
                      for entry in sink.list() for line in sink.get(entry.name).splitlines())  # fmt: skip

    before = lines()
    [made] = r.maintain(compact_sinks=True).compacted
    assert len(list(sink.list())) == made.files_after == (2 if by else 1)
    assert lines() == before
    assert r.verify(deep=True).problems == []
    r.rewind(2, "a test")
    assert lines() == [one for one in before if '"_batch_id":3' not in one]
    assert r.maintain(compact_sinks=True).compacted == []
