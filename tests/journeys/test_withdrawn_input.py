"""A pipeline that reads the sink of another one notices files that were withdrawn after it had read them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.two_pipelines import error_of, read_shop, seen, totals
from tests.servers.s3 import S3Server
from tests.world import World, run, state
from tidemill.cli.main import main

Step = Callable[[World], Any]


def by_part(p: tm.Pipeline, world: World) -> None:
    """Count the rows of each key, in a folder for each key."""
    rows = world.read(p).groupBy("k").agg(n=tm.count(), name="counts")
    rows.write(tm.Json(f"{world.sink('lake')}/by key", partitionBy=["k"]))


@pytest.fixture
def shop(tmp_path: Path) -> World:
    return read_shop(tmp_path)


def test_the_next_run_names_the_pipeline_the_version_and_the_rewind(shop: World) -> None:
    reader = totals(shop.folder)
    shop.open().rewind(0, reason="a bad file")
    gone = "shop.counts-0000000001-00000-"
    error = error_of(reader)
    message, end = error.message.split(gone)
    assert message == (
        "source `changes`: pipeline `shop` withdrew 1 file from its sink `counts` after this pipeline had read them, "
        "for example `"
    )
    assert end.partition("`")[2] == (": read by version 1, withdrawn by version 2 of `shop` (rewind: a bad file)")
    assert error.hint == (
        "`tidemill rewind --to 0` removes these rows, and the next run reads the sink as it is now. Or `tidemill "
        "skip --withdrawn` keeps the rows, also those that the sink has again in other files"
    )
    assert error_of(reader).message == error.message  # idle runs say it again
    shop.run()
    assert error_of(reader).message == error.message  # and it comes before new files
    assert seen(reader) == {"a": 1, "b": 1}


def test_the_rewind_of_the_hint_makes_the_reader_right(shop: World) -> None:
    reader = totals(shop.folder)
    shop.open().rewind(0, reason="a bad file")
    error_of(reader)
    reader.open().rewind(0, reason="as the hint says")
    assert reader.run() == []
    shop.run()
    reader.run()
    assert seen(reader) == {"a": 1, "b": 1}
    assert reader.run() == []


@pytest.mark.parametrize("rewrite", [True, False])
def test_the_rewind_is_named_if_a_forget_of_the_reader_has_kept_that_version(shop: World, rewrite: bool) -> None:
    reader = totals(shop.folder)
    reader.open().forget("seen", ["a"], "a test", {"seen": "k"} if rewrite else None, rewrite=rewrite)
    shop.open().rewind(0, reason="a bad file")
    assert ("`tidemill rewind --to 0`" in str(error_of(reader).hint)) == rewrite
    if rewrite:
        reader.open().rewind(0, reason="as the hint says")
        assert reader.run() == []
        assert seen(reader) == {}


def test_rows_can_be_kept_and_what_is_withdrawn_later_is_noticed(shop: World) -> None:
    reader = totals(shop.folder)
    shop.open().rewind(0, reason="a bad file")
    plan = reader.open().skip(withdrawn=True, reason="known", dry_run=True)
    assert [one.partition("/")[0] for one in plan.lines()] == [
        f"1 file that `shop` withdrew, for example `{plan.files[0].path}`: the rows that were read of them stay"
    ]
    reader.open().skip(withdrawn=True, reason="known", expect=plan)
    assert (reader.run(), seen(reader)) == ([], {"a": 1, "b": 1})
    shop.run()
    reader.run()
    assert seen(reader) == {"a": 1, "b": 2}
    shop.open().rewind(-1, reason="all of it")
    error = error_of(reader)
    assert "withdrew 2 files from" in error.message
    assert "rewind --to -1`" in (error.hint or "")
    with pytest.raises(tm.InvalidInput, match="expected a file or `withdrawn`, found both"):
        reader.open().skip("x", withdrawn=True, reason="known")
    with pytest.raises(tm.InvalidInput, match="expected a file or `withdrawn`, found neither"):
        reader.open().skip(reason="known")


def test_nothing_is_skipped_if_nothing_was_withdrawn(shop: World) -> None:
    with pytest.raises(tm.InvalidInput, match="no file was withdrawn after it was read"):
        totals(shop.folder).open().skip(withdrawn=True, reason="known")


def promoted(shop: World, outputs: str = "correct") -> None:
    """Take over a branch whose code leaves out a key."""

    def without_a(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p).sql("SELECT * FROM rows WHERE k <> 'a'")
        rows.groupBy("k").agg(n=tm.count(), name="counts").write(tm.Json(world.out))

    changed = shop.but(without_a).open(init=False)
    changed.replay(0, into="fix", engine="local")
    changed.promote("fix", outputs=outputs, reason="new code")


def rewound_twice(shop: World) -> None:
    """Withdraw version 1 by a rewind that is itself undone by one to an earlier version."""
    shop.open().rewind(0, reason="first")
    shop.run()
    shop.open().rewind(-1, reason="second")


def rewound_while_unpublished(shop: World) -> None:
    """Undo a version of which a file was published, but no record."""
    (record,) = (shop.folder / "root" / "shop" / "published" / "main" / "counts").glob("*1.json")
    record.unlink()
    shop.open().rewind(0, reason="half published")


@pytest.mark.parametrize(
    ("withdraw", "version", "kind"),
    [
        (lambda shop: shop.open().forget("counts", ["b"], "asked", {"counts": "k"}), 2, "forget: asked"),
        (promoted, 2, "promote: new code"),
        (rewound_twice, 4, "rewind: second"),
        (rewound_while_unpublished, 2, "rewind: half published"),
    ],
    ids=["forget", "promoted", "rewound-twice", "half-published"],
)
def test_every_correction_that_withdraws_is_noticed(shop: World, withdraw: Step, version: int, kind: str) -> None:
    withdraw(shop)
    assert f"withdrawn by version {version} of `shop` ({kind})" in error_of(totals(shop.folder)).message


def moved(shop: World) -> None:
    for path in (shop.folder / "out").iterdir():
        path.rename(shop.folder / path.name)


@pytest.mark.parametrize(
    "harmless",
    [
        moved,
        lambda shop: shop.open().verify(deep=True),
        lambda shop: shop.open().maintain(keep_versions=1),
        lambda shop: shop.open().skip(shop.put("9", "x,1\n").name, reason="no"),
        partial(promoted, outputs="keep"),
    ],
    ids=["moved", "verify", "retention", "skip", "promoted"],
)
def test_nothing_else_is_taken_for_a_withdrawal(shop: World, harmless: Step) -> None:
    harmless(shop)
    assert totals(shop.folder).run() == []


def test_joined_files_are_not_withdrawn(shop: World) -> None:
    shop.open().maintain(compact_sinks=True)
    reader = totals(shop.folder, overwritten="ignore")
    reader.run()  # it takes the joined file for a new one, as the guide says
    assert reader.run() == []


def test_a_file_that_was_withdrawn_before_it_was_read_does_not_matter(shop: World) -> None:
    shop.arrive("c,1\n")
    shop.run()
    shop.open().rewind(1, reason="not read yet")
    reader = totals(shop.folder)
    assert reader.run() == []
    shop.run()
    reader.run()
    assert seen(reader) == {"a": 1, "b": 1, "c": 1}


def test_a_sink_below_the_folder_of_the_source_with_a_folder_for_each_key(tmp_path: Path) -> None:
    shop, reader = World(tmp_path, by_part), totals(tmp_path, "lake")
    shop.arrive("a,1\n", "b,1\n")
    shop.run()
    reader.run()
    shop.open().rewind(0, reason="a bad file")
    assert "for example `by key/k=b/shop.counts-" in error_of(reader).message


def test_another_root_or_a_damaged_writer_says_nothing(shop: World) -> None:
    far = totals(shop.folder, name="far", root="other-root")
    far.run()
    shop.open().rewind(0, reason="a bad file")
    assert far.run() == []
    commits = shop.folder / "root" / "shop" / "branches" / "main" / "commits"
    shutil.copytree(commits, shop.folder / "aside")
    for path in commits.iterdir():
        path.write_text("{")
    assert totals(shop.folder).run() == []
    shutil.copytree(shop.folder / "aside", commits, dirs_exist_ok=True)
    error_of(totals(shop.folder))  # it was not forgotten


def test_on_a_branch_and_after_a_promotion_the_hint_names_its_versions(shop: World) -> None:
    reader = totals(shop.folder)
    reader.open().replay(0, into="fix", engine="local")
    shop.open().rewind(0, reason="a bad file")
    with pytest.raises(tm.InvalidInput) as error:
        run(reader.open("fix"))
    assert "`tidemill rewind --to 0 --branch fix`" in (error.value.hint or "")
    assert "`tidemill skip --withdrawn --branch fix`" in (error.value.hint or "")
    reader.open().promote("fix", reason="the same")
    error_after = error_of(reader)
    assert ": read by version fix@1," in error_after.message
    assert "`tidemill rewind --to fix@0`" in (error_after.hint or "")
    reader.open().rewind("fix@0", reason="as the hint says")
    assert (reader.run(), seen(reader)) == ([], {"a": 1})


def test_without_a_kept_version_the_hint_does_not_name_a_rewind(shop: World) -> None:
    reader = totals(shop.folder)
    reader.open().maintain(keep_versions=1)
    shop.open().rewind(0, reason="a bad file")
    hint = error_of(reader).hint or ""
    assert hint.startswith("no version from before they were read is kept")
    reader.open().skip(withdrawn=True, reason="known")
    assert reader.run() == []


def test_the_shell_says_it_and_skips(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    shop.open().rewind(0, reason="a bad file")
    code = shop.folder / "totals.py"
    code.write_text(
        "import tidemill as tm\np = tm.Pipeline('totals')\n"
        f"files = tm.Files({shop.out!r}, format='json', schema='k string, n bigint', recursiveFileLookup=True)\n"
        "p.read(files, name='changes').groupBy('k').agg(rows=tm.count(), name='seen')\n"
    )
    where = [f"{code}:p", "--root", shop.root]
    assert main(["run", *where, "--engine", "local"]) == 1
    assert "hint: `tidemill rewind --to 0` removes these rows" in capsys.readouterr().err
    assert main(["skip", *where, "--withdrawn", "--reason", "known", "--yes"]) == 0
    assert "skipped 1 file that `shop` withdrew, for example `shop.counts-" in capsys.readouterr().out
    assert main(["run", *where, "--engine", "local"]) == 3
    assert main(["skip", *where, "--reason", "known", "--yes"]) == 1
    assert "expected a file or `withdrawn`, found neither" in capsys.readouterr().err


def test_on_s3(s3_server: S3Server, tmp_path: Path) -> None:
    root = s3_server.new_root()
    options: Mapping[str, Any] = dict.fromkeys(("root", "sink", "source"), s3_server.options)
    inbox = World(tmp_path)

    def shop() -> tm.Repository:
        p = tm.Pipeline("shop")
        rows = inbox.read(p).groupBy("k").agg(n=tm.count(), name="counts")
        rows.write(tm.Json(f"{root}/out", partitionBy=["k"]))
        return tm.open(p, root=f"{root}/root", storage_options=options)

    def reader() -> tm.Repository:
        p = tm.Pipeline("totals")
        files = tm.Files(f"{root}/out", format="json", schema="n bigint, k string")
        p.read(files, name="changes").groupBy("k").agg(rows=tm.count(), name="seen")
        return tm.open(p, root=f"{root}/root", storage_options=options)

    inbox.arrive("a,1\n", "b,1\n")
    shop().init()
    run(shop())
    reader().init()
    run(reader())
    assert run(reader()) == []
    shop().rewind(0, reason="a bad file")
    with pytest.raises(tm.InvalidInput, match=r"for example `k=b/shop.counts-.*rewind: a bad file"):
        run(reader())
    reader().rewind(-1, reason="as the hint says")
    run(reader())
    assert state(reader(), "seen") == {"a": 1}
