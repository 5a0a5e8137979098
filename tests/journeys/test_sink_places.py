"""Who owns the place of a sink, that only the code says where it is, and that its output stays the same."""

from __future__ import annotations

import dataclasses
import json
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tidemill as tm
from tests.journeys.shop import arrive, corrected, files, opened, published, record, world
from tests.world import World, run
from tidemill.protocol.codec import encode
from tidemill.protocol.records import Commit, VersionOf, digest
from tidemill.publishing.owners import Accepted
from tidemill.publishing.publish import publish_version
from tidemill.run import drain

# places


def test_a_pipeline_under_a_new_root_does_not_double_the_rows_of_its_sink(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    run(opened(tmp_path, "one"))
    before = published(tmp_path)
    two = opened(tmp_path, "two")
    with pytest.raises(
        tm.InvalidInput, match="has 2 files that another repository of pipeline `shop` published"
    ) as said:
        run(two)
    assert "--adopt-sink" in str(said.value.hint)
    assert "--replace-sink" in str(said.value.hint)
    assert published(tmp_path) == before
    assert not list((tmp_path / "two").rglob("plans/*.json")), "refused before a plan is written"


def test_published_versions_whose_commits_are_lost_are_refused_before_a_plan(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    opened(tmp_path)
    shutil.copytree(tmp_path / "root", tmp_path / "backup")
    arrive(tmp_path, "a")
    run(opened(tmp_path))
    before = published(tmp_path)
    shutil.rmtree(tmp_path / "root")
    (tmp_path / "backup").rename(tmp_path / "root")
    with pytest.raises(tm.CorruptState, match="has 1 file of versions after -1, for example `shop.counts-0000000000"):
        run(opened(tmp_path))
    assert published(tmp_path) == before
    assert not list((tmp_path / "root").rglob("plans/*.json"))


def test_two_repositories_that_begin_at_once_find_each_other_with_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(tmp_path, "a")
    one, two = opened(tmp_path, "one"), opened(tmp_path, "two")
    execute, together = drain.execute, threading.Barrier(2, timeout=60)

    def meanwhile(*given: object) -> object:
        together.wait()  # both have listed the sink, which is empty
        return execute(*given)

    monkeypatch.setattr(drain, "execute", meanwhile)
    with ThreadPoolExecutor(2) as both:
        assert list(both.map(run, (one, two))) == [[0], [0]]
    monkeypatch.setattr(drain, "execute", execute)
    arrive(tmp_path, "b")
    for root in ("one", "two"):
        with pytest.raises(tm.InvalidInput, match="has 1 file that another repository of pipeline `shop` published"):
            run(opened(tmp_path, root))


def test_a_relative_sink_is_looked_at_again_from_another_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    arrive(tmp_path, "a")
    monkeypatch.chdir(tmp_path / "here")
    run(opened(tmp_path, "one", tm.Json("out")))
    monkeypatch.chdir(tmp_path / "there")
    run(opened(tmp_path, "two", tm.Json("out")))
    arrive(tmp_path, "b")
    with pytest.raises(tm.InvalidInput, match="sink `counts` at `out` has 1 file that another repository"):
        run(opened(tmp_path, "one", tm.Json("out")))


def test_adopting_keeps_the_files_of_the_other_repository(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    run(opened(tmp_path, "one"))
    before = published(tmp_path)
    assert run(opened(tmp_path, "two"), adopt_sink=True) == [0]
    assert published(tmp_path) == [row for row in before for _ in range(2)]
    arrive(tmp_path, "b")
    assert run(opened(tmp_path, "two")) == [1], "adopted once is adopted"


def test_adopting_lasts_also_if_the_batch_has_no_rows_for_the_sink(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    run(opened(tmp_path, "one"))
    world(tmp_path).put("a")
    assert run(opened(tmp_path, "two"), adopt_sink=True) == [0]
    arrive(tmp_path, "b")
    assert run(opened(tmp_path, "two")) == [1]


def test_replacing_deletes_the_files_of_the_other_repository_once_ours_stand(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    run(opened(tmp_path, "one"))
    before = published(tmp_path)
    theirs = files(tmp_path)
    assert run(opened(tmp_path, "two"), replace_sink=True, max_batches=1) == [0]
    assert set(theirs) < set(files(tmp_path)), "one file still waits"
    with pytest.raises(tm.InvalidInput, match="another repository"):
        run(opened(tmp_path, "two"))
    assert run(opened(tmp_path, "two"), replace_sink=True) == [1]
    assert published(tmp_path) == before
    assert not set(theirs) & set(files(tmp_path))
    arrive(tmp_path, "c")
    assert run(opened(tmp_path, "two")) == [2]


def test_nothing_is_replaced_by_a_repository_without_a_version(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    run(opened(tmp_path, "one"))
    before = published(tmp_path)
    (tmp_path / "in" / "a.csv").unlink()
    assert run(opened(tmp_path, "two"), replace_sink=True) == []
    assert published(tmp_path) == before


def test_two_ways_with_foreign_files_exclude_each_other() -> None:
    with pytest.raises(tm.InvalidInput, match="found both adopt_sink and replace_sink"):
        Accepted(adopt_sink=True, replace_sink=True)


# what only a record says


def forged(r: tm.Repository, change: Callable[[Commit], Commit]) -> None:
    """Overwrite the newest commit by a changed one."""
    head = r.head
    assert head is not None
    r.opened.store.put(f"branches/main/commits/{head.version:010d}.json", encode(change(head)))


def test_a_place_that_only_a_commit_names_is_never_written_to(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    r = opened(tmp_path)
    run(r)
    (tmp_path / "root/shop/published/main/counts/0000000000.json").unlink()
    victim = tmp_path / "victim"
    forged(r, lambda c: dataclasses.replace(c, sinks={"counts": {**c.sinks["counts"], "path": str(victim)}}))
    run(opened(tmp_path))
    assert not victim.exists(), "the code's own path counts"
    (tmp_path / "root/shop/published/main/counts/0000000000.json").unlink()
    arrive(tmp_path, "b")
    with pytest.raises(
        tm.InvalidInput, match="publish version 0 of sink `counts`, which is committed: this code "
    ) as said:
        run(opened(tmp_path, sink=False))
    assert said.value.hint == "restore the sink, with this path or another one, and run once; then remove it"
    assert not victim.exists()
    assert run(opened(tmp_path, sink=tm.Json(str(tmp_path / "elsewhere")))) == [1]
    assert run(opened(tmp_path, sink=False)) == []


def test_a_withdrawal_deletes_only_published_files_of_the_sink(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    r = opened(tmp_path)
    run(r)
    (tmp_path / "out" / "precious.json").write_text("{}")
    name = "published/main/counts/0000000000.json"
    raw = record(tmp_path, 0)
    raw["files"][0]["name"] = "precious.json"
    raw.pop("checksum")
    body = json.dumps(raw, separators=(",", ":"), ensure_ascii=False).encode()[:-1]
    r.opened.store.put(name, body + f',"checksum":"{digest(body)}"}}'.encode())
    made = corrected(r, withdraws={"counts": [VersionOf("main", 0)]})
    with pytest.raises(tm.CorruptState, match="this is not the name of a file of sink `counts`"):
        publish_version(r.opened, made, made)
    assert (tmp_path / "out" / "precious.json").exists()


# a changed output


def totals(folder: Path) -> tm.Repository:
    """The pipeline of `opened` with one more column in its output."""

    def build(p: tm.Pipeline, world: World) -> None:
        counts = world.read(p).groupBy("k").agg(n=tm.count(), name="counts")
        counts.sql("SELECT *, n * 2 AS total FROM rows").write(tm.Json(world.out), name="counts")

    return world(folder).but(build).open(init=False)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (totals, "has columns `k string, n bigint`, this code writes `k string, n bigint, total bigint`"),
        (
            lambda folder: opened(folder, sink=tm.Parquet(str(folder / "out"))),
            "has format `json`, this code writes `parquet`",
        ),
        (
            lambda folder: opened(folder, sink=tm.Json(str(folder / "out"), partitionBy=["k"])),
            "has partition columns none, this code writes `k`",
        ),
    ],
)
def test_a_changed_output_is_refused_before_a_plan(
    tmp_path: Path, changed: Callable[[Path], tm.Repository], message: str
) -> None:
    arrive(tmp_path, "a")
    run(opened(tmp_path))
    arrive(tmp_path, "b")
    with pytest.raises(tm.InvalidInput, match=f"^sink `counts` at `{tmp_path}/out`: {message}") as said:
        run(changed(tmp_path))
    assert "--accept-output-change" in str(said.value.hint)
    assert not list((tmp_path / "root").rglob("plans/0000000001.json"))
    assert run(changed(tmp_path), accept_output_change=True) == [1]
    arrive(tmp_path, "c")
    assert run(changed(tmp_path)) == [2], "accepted once is accepted"


@pytest.mark.parametrize("spelling", ["{}/out/", "{}/in/../out", "file://{}/out", "{}/link"])
def test_another_spelling_of_the_path_is_no_new_path(tmp_path: Path, spelling: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    arrive(tmp_path, "a")
    run(opened(tmp_path))
    arrive(tmp_path, "b")
    sink = tm.Json(spelling.format(tmp_path), partitionBy=["k"])
    with pytest.raises(tm.InvalidInput, match="has partition columns none, this code writes `k`"):
        run(opened(tmp_path, sink=sink))


def test_a_sink_with_a_new_path_may_have_other_columns(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    run(opened(tmp_path))
    arrive(tmp_path, "b")
    assert run(opened(tmp_path, sink=tm.Parquet(str(tmp_path / "out2"), partitionBy=["k"]))) == [1]
