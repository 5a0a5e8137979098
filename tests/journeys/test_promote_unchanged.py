"""A promotion leaves files alone whose rows are the same: they keep their names."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.two_pipelines import seen, totals
from tests.servers.s3 import S3Server
from tests.world import Build, World, run
from tidemill.protocol.records import VersionOf
from tidemill.publishing import publish as publishing
from tidemill.sinks.contract import Applied, Change, SinkPlace

Files = dict[str, tuple[bytes, int]]


def corrected(sink: Callable[[World], Any]) -> Build:
    """Return the code of the branch: it counts each row of `b` twice."""

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p).sql("SELECT k, CASE WHEN k = 'b' THEN 2 ELSE 1 END AS v FROM rows")
        rows.groupBy("k").agg(n=tm.sum("v"), name="counts").write(sink(world))

    return build


def first(sink: Callable[[World], Any]) -> Build:
    """Return the code before, which counts each row once."""

    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p).sql("SELECT k, CASE WHEN k = 'b' THEN 1 ELSE 1 END AS v FROM rows")
        rows.groupBy("k").agg(n=tm.sum("v"), name="counts").write(sink(world))

    return build


def in_json(world: World) -> tm.Json:
    return tm.Json(world.out)


def by_key(world: World) -> tm.Parquet:
    return tm.Parquet(world.out, partitionBy=["k"])


def files(world: World) -> Files:
    found = (path for path in Path(world.out).rglob("*") if path.is_file())
    return {str(path.relative_to(world.out)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def of_version(found: Files, version: int) -> Files:
    return {name: one for name, one in found.items() if f"-{version:010d}-" in name}


class Shop(World):
    """A pipeline with versions 0 to 2, of which the branch `fix` makes version 1 otherwise."""

    def __init__(self, folder: Path, sink: Callable[[World], Any] = in_json) -> None:
        super().__init__(folder, first(sink))
        self.fixed = self.but(corrected(sink))
        self.arrive("a,1\n", "b,1\n", "c,1\n")
        self.run()

    def promote(self, name: str = "fix") -> tm.Repository:
        """Replay into a branch and promote it. From then on the code is that of the branch."""
        r = self.fixed.open(init=False)
        r.replay(0, into=name, engine="local")
        r.promote(name, reason="a test")
        self.build = self.fixed.build
        return r

    def rows(self) -> list[tuple[str, int]]:
        return [(row["k"], row["n"]) for row in self.published()]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


FIXED = [("a", 1), ("b", 2), ("c", 1)]


@pytest.mark.parametrize("sink", [in_json, by_key], ids=["json", "partitions"])
def test_files_with_the_same_rows_keep_their_names_and_times(tmp_path: Path, sink: Callable[[World], Any]) -> None:
    shop = Shop(tmp_path, sink)
    before = files(shop)
    r = shop.promote()
    after = files(shop)
    same = of_version(before, 0) | of_version(before, 2)
    assert {name: after[name] for name in same} == same
    (changed,) = after.keys() - same.keys()
    assert "-0000000003-" in changed
    record = publishing.read_record(r.opened, VersionOf("main", 3), "counts")
    assert record is not None
    assert ({one.name for one in record.files}, record.withdrawn) == (set(after), list(of_version(before, 1)))
    assert r.verify(deep=True).problems == []
    assert shop.run() == []
    r.maintain()
    assert files(shop) == after


def test_a_pipeline_that_reads_the_sink_reads_only_what_changed(shop: Shop) -> None:
    reader = totals(shop.folder)
    reader.run()
    shop.promote()
    with pytest.raises(tm.InvalidInput, match="pipeline `shop` withdrew 1 file from its sink"):
        reader.run()
    reader.open().skip(withdrawn=True, reason="it is corrected by the next file")
    reader.run()
    assert seen(reader) == {"a": 1, "b": 2, "c": 1}


def test_a_branch_with_the_same_results_changes_nothing(shop: Shop) -> None:
    reader, before = totals(shop.folder), files(shop)
    reader.run()
    shop.fixed = shop.but()
    shop.promote()
    assert (files(shop), reader.run()) == (before, [])


def test_what_was_moved_away_stays_away_until_it_is_published_again(shop: Shop) -> None:
    before = files(shop)
    for name in of_version(before, 0):
        (Path(shop.out) / name).unlink()
    r = shop.promote()
    assert shop.rows() == FIXED[1:]
    r.publish(0)
    after = files(shop)
    assert {name: data for name, (data, _) in of_version(after, 0).items()} == {
        name: data for name, (data, _) in of_version(before, 0).items()
    }
    assert shop.rows() == FIXED
    assert r.verify(deep=True).problems == []


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        (2, [("a", 1), ("b", 1), ("c", 1)]),
        (0, [("a", 1)]),
        (-1, []),
        ("fix@1", [("a", 1), ("b", 2)]),
        (4, [*FIXED, ("a", 2)]),
    ],
)
def test_a_rewind_after_the_promotion(shop: Shop, to: int | str, expected: list[tuple[str, int]]) -> None:
    shop.promote()
    shop.arrive("a,1\n", "b,1\n")
    shop.run()
    r = shop.open(init=False)
    r.rewind(to, reason="a test")
    assert shop.rows() == expected
    assert r.verify(deep=True).problems == []
    shop.run()
    assert shop.open(init=False).verify(deep=True).problems == []
    assert len(shop.rows()) == 5 and shop.rows()[0] == ("a", 1)


def test_a_rewind_into_the_promotion_keeps_names_too(shop: Shop) -> None:
    shop.promote()
    before = files(shop)
    shop.open(init=False).rewind("fix@1", reason="a test")
    assert files(shop) == {name: one for name, one in before.items() if name not in of_version(before, 2)}


def test_a_second_promotion_keeps_what_the_first_one_kept(shop: Shop) -> None:
    shop.promote()
    before = files(shop)
    shop.fixed = shop.but(first(in_json))
    r = shop.promote("back")
    kept = of_version(before, 0) | of_version(before, 2)
    assert kept.items() <= files(shop).items()
    assert shop.rows() == [("a", 1), ("b", 1), ("c", 1)]
    assert r.verify(deep=True).problems == []


def test_files_that_were_kept_are_joined(shop: Shop) -> None:
    shop.promote()
    shop.arrive("d,1\n")
    shop.run()
    r = shop.open(init=False)
    r.maintain(compact_sinks=True)
    assert len(files(shop)) == 1
    assert shop.rows() == [*FIXED, ("d", 1)]
    assert r.verify(deep=True).problems == []
    r.rewind(3, reason="a test")
    assert shop.rows() == FIXED
    assert r.verify(deep=True).problems == []


def test_a_key_that_is_forgotten_goes_from_a_file_that_was_kept(shop: Shop) -> None:
    r = shop.promote()
    r.forget("counts", ["a"], "asked", columns={"counts": "k"}, drop_refs=True)
    assert shop.rows() == FIXED[1:]
    assert r.verify(forgotten=True).problems == []


def test_a_sink_that_has_left_the_code(shop: Shop) -> None:
    """Its files are found by the records, whatever version is in their names."""
    shop.promote()

    def without(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p).sql("SELECT k, CASE WHEN k = 'b' THEN 2 ELSE 1 END AS v FROM rows")
        rows.groupBy("k").agg(n=tm.sum("v"), name="counts")

    shop.build = without
    shop.arrive("d,1\n")
    shop.run()
    before = files(shop)
    r = shop.open(init=False)
    r.rewind(3, reason="only version 4")
    shop.run()
    r.maintain()
    assert files(shop) == before
    r.rewind(-1, reason="all of it")
    assert files(shop) == {}


@pytest.mark.parametrize("dies_before_it_is_recorded", [True, False])
def test_a_publisher_of_a_withdrawn_version_leaves_what_the_promotion_took(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, dies_before_it_is_recorded: bool
) -> None:
    """It stalled before its record, and goes on when the promotion is committed, or also published."""
    r = shop.fixed.open(init=False)
    r.replay(0, into="fix", engine="local")
    stalled = shop.open(init=False).opened
    work = next(publishing.works(stalled, stalled.log.commit(2)))
    claim = publishing.claim

    def late(repo: Any, record: Any) -> bool:
        if record.version != 3:
            return claim(repo, record)
        monkeypatch.setattr(publishing, "claim", claim)
        assert publishing.publish_work(stalled, work)
        if dies_before_it_is_recorded:
            raise KeyboardInterrupt
        return claim(repo, record)

    before = files(shop)
    monkeypatch.setattr(publishing, "claim", late)
    if dies_before_it_is_recorded:
        with pytest.raises(KeyboardInterrupt):
            r.promote("fix", reason="a test")
    else:
        r.promote("fix", reason="a test")
    shop.build = shop.fixed.build
    shop.run()
    assert publishing.publish_work(stalled, work)
    kept = of_version(before, 0) | of_version(before, 2)
    assert kept.items() <= files(shop).items()
    assert shop.rows() == FIXED
    assert shop.open(init=False).verify(deep=True).problems == []


@pytest.mark.parametrize("dies", [True, False])
def test_a_publisher_of_a_promotion_that_was_undone_meanwhile(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    """It copies files under the names that the promotion took, and deletes them, or a later run does."""
    r = shop.promote()
    stalled = r.opened
    work = next(publishing.works(stalled, stalled.log.commit(3)))
    shop.open(init=False).rewind(1, reason="a test")
    shop.arrive("z,1\n")
    before = files(shop)
    if dies:
        with monkeypatch.context() as patched:
            patched.setattr(publishing, "claim", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                publishing.publish_work(stalled, work)
        assert files(shop).keys() > before.keys()
        shop.run()
    else:
        publishing.publish_work(stalled, work)
        assert files(shop).keys() == before.keys()
        shop.run()
    rows = shop.rows()
    assert len(rows) == len(set(rows)) == 4
    assert shop.open(init=False).verify(deep=True).problems == []


def test_a_copy_publishes_what_the_promotion_took(shop: Shop, tmp_path: Path) -> None:
    """A copy that replaces the files of the original publishes the promotion, not what that replaced."""
    shop.promote().maintain(keep_versions=1)  # the copy keeps the promotion alone
    shutil.copytree(tmp_path / "root", tmp_path / "copy")
    copy = shop.but(root="copy")
    copy.open(init=False).adopt("a test", copy=True)
    copy.arrive("d,1\n")
    copy.run(replace_sink=True)
    assert copy.rows() == [*FIXED, ("d", 1)]


def test_a_copy_beside_its_original_publishes_no_row_twice_that_a_promotion_has_left(
    shop: Shop, tmp_path: Path
) -> None:
    shop.promote()
    shutil.copytree(tmp_path / "root", tmp_path / "copy")
    copy = shop.but(root="copy")
    copy.open(init=False).adopt("a test", copy=True)
    copy.arrive("d,1\n")
    copy.run(adopt_sink=True)
    before = copy.rows()
    copy.open(init=False).publish(0)
    assert copy.rows() == before == [*FIXED, ("d", 1)]


class Keeping:
    """A sink from outside whose place is a folder that only it knows. It shows unchanged files as they are."""

    kind, extension = "keeping", ".json"
    keeps_unchanged = True

    def __init__(self, path: str) -> None:
        self.inner = tm.Json(path)

    def __getattr__(self, name: str) -> Any:
        if name in ("folder", "inner") or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def describe(self) -> dict[str, Any]:
        return {**self.inner.describe(), "kind": self.kind}

    def apply(self, change: Change, at: SinkPlace) -> Applied:
        return self.inner.folder.apply(change, at)

    def seen(self, at: SinkPlace, since: int = -1) -> Any:
        return self.inner.folder.seen(at, since)


@pytest.mark.parametrize("keeps", [True, False])
def test_a_sink_from_outside_keeps_files_if_it_says_that_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    monkeypatch.setattr(Keeping, "keeps_unchanged", keeps)
    shop = Shop(tmp_path, lambda world: Keeping(world.out))
    before = files(shop)
    shop.promote()
    assert shop.rows() == FIXED
    assert (of_version(before, 0).items() <= files(shop).items()) is keeps


def test_on_s3(s3_server: S3Server, tmp_path: Path) -> None:
    root = s3_server.new_root()
    options = dict.fromkeys(("root", "sink"), s3_server.options)
    inbox = World(tmp_path)
    inbox.arrive("a,1\n", "b,1\n", "c,1\n")

    def shop(build: Callable[[Callable[[World], Any]], Build]) -> tm.Repository:
        p = tm.Pipeline("shop")
        build(lambda _: tm.Json(f"{root}/out"))(p, inbox)
        return tm.open(p, root=f"{root}/root", storage_options=options)

    def there() -> dict[str, tuple[str, int]]:
        store = publishing.asked.sink_folder(tm.Json(f"{root}/out"))
        assert store is not None
        listed = store._store(publishing.place_of(shop(first).opened, "counts")).list()
        return {one.name: (one.etag, one.modified_ms) for one in listed}

    shop(first).init()
    run(shop(first))
    before = there()
    r = shop(corrected)
    r.replay(0, into="fix", engine="local")
    r.promote("fix", reason="a test")
    after = there()
    assert sorted(name.split("-")[1] for name in after) == ["0000000000", "0000000002", "0000000003"]
    assert len(before.items() & after.items()) == 2
    r.publish(0)
    assert (there(), r.verify(deep=True).problems) == (after, [])
