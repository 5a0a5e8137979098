"""Promotions of code that removes or replaces a sink: what the sink has published is withdrawn by its records."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.crash.worlds import dying
from tests.servers.s3 import S3Server
from tests.world import Build, World, over, run
from tidemill.cli.main import main
from tidemill.protocol.records import digest

Write = Callable[[Any], Any]


def counted(write: Write) -> Build:
    return over(lambda rows: write(rows.groupBy("k").agg(n=tm.count(), name="counts")))


class Shop(World):
    """Counts by key over three files, one in a batch. `old` is the folder of the first code's sink."""

    def __init__(self, folder: Path, root: str = "root") -> None:
        super().__init__(folder, counted(self.json("old")), root=root, schema="k string")

    def arrive(self, *names: Any, inbox: str = "in") -> list[Path]:
        return [self.put(name, f"{name}\nall\n", inbox) for name in names]

    def to(self, write: Write) -> tm.Repository:
        """Open the repository with the code that writes the counts in this way."""
        return self.but(counted(write)).open(init=False)

    def json(self, place: str, name: str | None = None) -> Write:
        return lambda counts: counts.write(tm.Json(self.sink(place)), name)

    def rows(self, place: str) -> list[tuple[int, str, int]]:
        """The rows that a plain reader finds in a folder."""
        return sorted((row["_batch_id"], row["k"], row["n"]) for row in self.published(place))


ALL = [(0, "a", 1), (0, "all", 1), (1, "all", 2), (1, "b", 1), (2, "all", 3), (2, "c", 1)]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Three versions, published in `old` by a sink with the name of its operator."""
    made = Shop(tmp_path)
    made.arrive("a", "b", "c")
    assert made.run() == [0, 1, 2]
    return made


def kept(counts: Any) -> None:
    """The code without a sink: the rows are only kept in the repository."""


def test_a_sink_that_the_code_removed_is_withdrawn_and_a_rewind_publishes_it_again(shop: Shop) -> None:
    (shop.folder / "old/mine.txt").write_text("not published by Tidemill")
    before = shop.to(shop.json("old"))
    after = shop.to(kept)
    after.replay(0, into="less", engine="local")
    assert after.check(against="less").against.refused is None
    assert after.promote("less").withdraws.keys() == {"counts"}
    assert shop.rows("old") == [] and (shop.folder / "old/mine.txt").exists()
    assert after.verify(deep=True).problems == before.verify(deep=True).problems == []
    shop.arrive("d")
    assert run(after) == [4] and shop.rows("old") == []
    shop.to(shop.json("old")).rewind(2, "undo")
    assert shop.rows("old") == ALL
    assert before.verify(deep=True).problems == []


def test_a_sink_that_another_one_replaces_is_withdrawn_in_both_directions(shop: Shop) -> None:
    after = shop.to(shop.json("new", "better"))
    after.replay(0, into="fix", engine="local")
    after.promote("fix")
    assert (shop.rows("old"), shop.rows("new")) == ([], ALL)
    before = shop.to(shop.json("old"))
    before.rewind(2, "undo")
    assert (shop.rows("old"), shop.rows("new")) == (ALL, [])
    after.rewind(3, "redo")
    assert (shop.rows("old"), shop.rows("new")) == ([], ALL)
    assert after.verify(deep=True).problems == before.verify(deep=True).problems == []


def test_what_was_published_before_the_start_of_the_branch_stays(shop: Shop) -> None:
    after = shop.to(shop.json("new", "better"))
    after.replay(1, into="fix", engine="local")
    after.promote("fix")
    assert (shop.rows("old"), shop.rows("new")) == (ALL[:2], ALL[2:])


def test_a_withdrawal_that_died_is_completed_by_the_next_run_of_the_new_code(shop: Shop) -> None:
    after = shop.to(shop.json("new", "better"))
    after.replay(0, into="fix", engine="local")
    with dying("create", r"published/main/counts/0000000003\.json$", "before"):
        after.promote("fix")
    shop.arrive("d")
    assert run(shop.to(shop.json("new", "better"))) == [4]
    assert shop.rows("old") == [] and shop.rows("new")[:6] == ALL
    assert shop.to(shop.json("new", "better")).publish() == []


def test_files_that_a_stalled_process_copies_after_the_promotion_are_deleted(shop: Shop) -> None:
    before = {path: path.read_bytes() for path in (shop.folder / "old").glob("*.json")}
    after = shop.to(shop.json("new", "better"))
    after.replay(1, into="fix", engine="local")
    after.promote("fix")
    for path, data in before.items():
        path.write_bytes(data)
    assert run(shop.to(shop.json("new", "better"))) == []
    assert shop.rows("old") == ALL[:2]
    for path, data in before.items():
        path.write_bytes(data)
    strays = shop.to(shop.json("new", "better")).maintain().strays
    assert (list(strays), len(strays["counts"])) == (["counts"], 2)


def test_files_are_deleted_where_they_were_published_if_the_folder_was_renamed_since(shop: Shop) -> None:
    moved = shop.to(shop.json("moved"))
    shop.arrive("d")
    run(moved)
    after = shop.to(kept)
    after.replay(0, into="less", engine="local")
    after.promote("less")
    assert (shop.rows("old"), shop.rows("moved")) == ([], [])


def test_a_folder_that_another_repository_took_over_is_not_touched(
    shop: Shop, capfd: pytest.CaptureFixture[str]
) -> None:
    other = Shop(shop.folder, "other")
    other.run(adopt_sink=True)
    both = shop.rows("old")
    after = shop.to(kept)
    after.replay(0, into="less", engine="local")
    said = "promote: sink `counts`: another repository has files in `file:.*/old`, for example `shop.counts-0000000000-"
    with pytest.raises(tm.InvalidInput, match=said) as refused:
        after.promote("less")
    assert refused.value.hint == 'leave what is published as it is: outputs="keep" or --outputs keep'
    found = after.check(against="less").against
    assert found.refused is not None and found.refused.startswith("promote: sink `counts`: another repository")
    assert found.hint == refused.value.hint
    after.promote("less", outputs="keep")
    assert shop.rows("old") == both and len(both) == 2 * len(ALL)


def test_files_that_another_repository_replaced_are_no_obstacle(shop: Shop) -> None:
    other = Shop(shop.folder, "other")
    other.run(replace_sink=True)
    after = shop.to(kept)
    after.replay(0, into="less", engine="local")
    after.promote("less")
    assert shop.rows("old") == ALL, "they are those of the other repository"


def test_a_function_that_left_the_code_cannot_undo_its_calls(tmp_path: Path) -> None:
    shop, calls = Shop(tmp_path), []

    def fn(table: Any, batch_id: int, withdrawn: Any = ()) -> None:
        calls.append((batch_id, list(withdrawn)))

    shop.arrive("a", "b")
    r = shop.to(lambda counts: counts.foreachBatch(fn, name="calls"))
    r.init()
    run(r)
    after = shop.to(shop.json("new", "calls"))
    after.replay(0, into="fix", engine="local")
    said = "promote: sink `calls`: its function was called for versions 0–1, and only the function could undo that"
    with pytest.raises(tm.InvalidInput, match=said):
        after.promote("fix")
    found = after.check(against="fix").against
    assert found.refused is not None and said in found.refused and "--outputs keep" in found.hint
    after.promote("fix", outputs="keep")
    assert calls == [(0, []), (1, [])] and shop.rows("new") == []


def test_a_function_that_takes_the_place_of_a_folder_is_called_and_the_files_go(shop: Shop) -> None:
    calls = []

    def fn(table: Any, batch_id: int, withdrawn: Any = ()) -> None:
        calls.append((batch_id, table.num_rows, list(withdrawn)))

    after = shop.to(lambda counts: counts.foreachBatch(fn, name="counts"))
    after.replay(0, into="fix", engine="local")
    after.promote("fix")
    assert shop.rows("old") == []
    assert calls == [(3, 6, [])], "it was never called for the versions that were files"


def test_joined_files_are_not_split_in_a_folder_that_the_code_does_not_have(shop: Shop) -> None:
    shop.to(shop.json("old")).maintain(compact_sinks=True)
    after = shop.to(kept)
    after.replay(1, into="less", engine="local")
    said = "promote: sink `counts`: the rows of version 0 would have to be published again, but this code does not have"
    with pytest.raises(tm.InvalidInput, match=said):
        after.promote("less")
    after.replay(0, into="all", engine="local")
    after.promote("all")
    assert shop.rows("old") == []


def test_a_version_that_is_not_published_yet_need_not_be_published_first(shop: Shop) -> None:
    shop.arrive("d")
    with dying("create", r"published/main/counts/0000000003\.json$", "before"):
        run(shop.to(shop.json("old")))
    after = shop.to(kept)
    after.replay(0, into="less", engine="local")
    assert (3, "d", 1) in shop.rows("old"), "its file is there, but no record says so"
    assert not after.check(against="less").against.refused
    shop.to(kept).promote("less")
    assert shop.rows("old") == []


def test_a_folder_that_is_gone_is_no_obstacle(shop: Shop) -> None:
    shutil.rmtree(shop.folder / "old")
    after = shop.to(kept)
    after.replay(0, into="less", engine="local")
    after.promote("less")
    assert not (shop.folder / "old").exists()


def test_the_dry_run_says_what_is_withdrawn(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    code = (
        "import tidemill as tm\n"
        "p = tm.Pipeline('shop')\n"
        f"rows = p.read(tm.Files({str(shop.folder / 'in')!r}, format='csv', schema='k string', maxFilesPerTrigger=1))\n"
        "counts = rows.groupBy('k').agg(n=tm.count(), name='counts')\n"
        f"counts.write(tm.Json({str(shop.folder / 'new')!r}), name='better')"
    )
    (shop.folder / "shop.py").write_text(code)
    where = [f"{shop.folder / 'shop.py'}:p", "--root", str(shop.folder / "root")]
    assert main(["replay", *where, "--from", "0", "--into", "fix", "--engine", "local"]) == 0
    capfd.readouterr()
    assert main(["promote", *where, "fix", "--dry-run"]) == 0
    assert capfd.readouterr().out.splitlines()[2:4] == [
        "sink `counts`, which this code does not have: what was published of versions 0–2 is withdrawn",
        "sink `better`: versions 0–2 of the branch are published",
    ]
    assert shop.rows("old") == ALL


def test_a_removed_sink_on_s3_is_withdrawn_with_the_options_of_sinks(tmp_path: Path, s3_server: S3Server) -> None:
    from tidemill.store import open_store

    root, options = s3_server.new_root(), dict.fromkeys(("root", "sink"), s3_server.options)
    shop = Shop(tmp_path)
    shop.arrive("a", "b")

    def opened(write: Write) -> tm.Repository:
        return tm.open(shop.but(counted(write)).pipeline(), root=f"{root}/root", storage_options=options)

    r = opened(lambda counts: counts.write(tm.Parquet(f"{root}/old", partitionBy=["k"])))
    r.init()
    run(r)
    folder = open_store(f"{root}/old", s3_server.options)
    assert len(list(folder.list())) == 4
    after = opened(lambda counts: counts.write(tm.Parquet(f"{root}/new"), name="better"))
    after.replay(0, into="fix", engine="local")
    after.promote("fix")
    assert list(folder.list()) == []
    assert len(list(open_store(f"{root}/new", s3_server.options).list())) == 2


def test_a_sink_with_another_name_may_use_the_same_folder(shop: Shop) -> None:
    after = shop.to(shop.json("old", "better"))
    after.replay(0, into="fix", engine="local")
    after.promote("fix")
    assert shop.rows("old") == ALL
    assert {path.name.split("-")[0] for path in (shop.folder / "old").iterdir()} == {"shop.better"}
    shop.to(shop.json("old")).rewind(2, "undo")
    assert {path.name.split("-")[0] for path in (shop.folder / "old").iterdir()} == {"shop.counts"}
    assert shop.to(shop.json("old")).verify(deep=True).problems == []


def test_a_false_record_reaches_no_file_of_anybody_else(shop: Shop) -> None:
    victim = shop.folder / "victim"
    shutil.copytree(shop.folder / "old", victim)
    names = sorted(path.name for path in victim.iterdir())
    (victim / names[1].replace("shop.counts", "shop.others")).write_text("{}")
    (victim / "precious.json").write_text("{}")
    path = shop.folder / "root/shop/published/main/counts/0000000001.json"
    raw = json.loads(path.read_text())
    raw["uri"] = f"file://{victim}"
    raw["files"] = [
        raw["files"][0] | {"name": one.name} for one in sorted(victim.iterdir()) if "counts" not in one.name
    ]
    raw.pop("checksum")
    body = json.dumps(raw, separators=(",", ":"), ensure_ascii=False).encode()[:-1]
    path.unlink()
    path.write_bytes(body + f',"checksum":"{digest(body)}"}}'.encode())
    after = shop.to(kept)
    after.replay(0, into="less", engine="local")
    with pytest.raises(tm.CorruptState, match="this is not the name of a file of sink `counts`"):
        after.promote("less")
    assert len(list(victim.iterdir())) == 5
