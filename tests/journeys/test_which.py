"""`which`, `log --files` and names of files: what became of a file, for whoever asks."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.journeys.conftest import Call
from tests.journeys.shop import PIPELINE
from tests.servers.s3 import S3Server
from tests.world import World, run
from tidemill.cli import render
from tidemill.errors import Exit
from tidemill.store import open_store


def two(p: tm.Pipeline, world: World) -> None:
    """Counts over two sources, of which one quarantines what it cannot read."""
    left = world.read(p, "left", "left", mode="PERMISSIVE", badFiles="quarantine")
    left.unionByName(world.read(p, "right", "right")).groupBy("k").agg(n=tm.count(), name="counts")


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, two)
    for inbox in ("left", "right"):
        (tmp_path / inbox).mkdir()
    return made


def put(world: World, name: str, content: Any, inbox: str = "left") -> Path:
    return world.put(name, content, inbox)


def standings(r: tm.Reader, file: Any) -> list[tuple[str, str, str | None, str]]:
    return [(one.source, one.standing, one.version, one.now) for one in r.which(file)]


def readers(world: World) -> list[tm.Reader]:
    """The repository with its code, and without."""
    return [world.open(init=False), tm.read(world.root, world.name)]


def test_a_file_is_followed_from_its_arrival_to_its_version(world: World) -> None:
    world.open()
    path = put(world, "a.csv", "a,1\nb,x\nc,y\n")
    for r in readers(world):
        assert standings(r, "a.csv") == [("left", "waiting", None, "same")]
    world.run()
    for r in readers(world):
        for named in ("a.csv", ("left", "a.csv"), str(path), f"file://{path}"):
            assert standings(r, named) == [("left", "read", "0", "same")]
        (found,) = r.which("a.csv")
        assert found.quarantined_rows == 2
        assert found.line().startswith("`a.csv` of source `left`: read by version 0 (batch time ")
        assert found.line().endswith("Z); 2 rows of it in quarantine")
    path.write_text("a,1\nb,2\nc,3\nd,4\n")
    assert [standings(r, "a.csv") for r in readers(world)] == [[("left", "read", "0", "changed")]] * 2
    assert world.open(init=False).which("a.csv")[0].line().endswith("; it has changed since")
    path.unlink()
    assert [standings(r, "a.csv") for r in readers(world)] == [[("left", "read", "0", "gone")]] * 2


def test_only_code_recognises_a_touched_file(world: World) -> None:
    path = put(world, "a.csv", "a,1\n")
    world.run()
    path.write_text("a,1\n")
    path.touch()
    with_code, without = readers(world)
    assert standings(with_code, "a.csv") == [("left", "read", "0", "same")]
    assert standings(without, "a.csv") == [("left", "read", "0", "unknown")]


def test_both_sources_are_named_if_both_have_the_file(world: World, tmp_path: Path, monkeypatch: Any) -> None:
    put(world, "a.csv", [("a", 1)])
    world.run()
    put(world, "a.csv", [("b", 1)], "right")
    for r in readers(world):
        assert standings(r, "a.csv") == [("left", "read", "0", "same"), ("right", "waiting", None, "same")]
        assert standings(r, ("right", "a.csv")) == [("right", "waiting", None, "same")]
        monkeypatch.chdir(tmp_path)
        assert standings(r, "right/a.csv") == [("right", "waiting", None, "same")]


def test_what_a_source_leaves_out_is_said(world: World) -> None:
    put(world, "a.csv", [("a", 1)])
    put(world, "_b.csv", [("a", 1)])
    put(world, "c.csv", [("a", 1)])
    bad = put(world, "d.csv.gz", gzip.compress(b"a,1\n" * 50)[:-20])
    world.open().skip(("left", "c.csv"), "a test")
    world.run()
    for r in readers(world):
        assert standings(r, "_b.csv") == [("left", "not selected", None, "same")]
        assert standings(r, "c.csv") == [("left", "skipped", "0", "same")]
        assert r.which("c.csv")[0].line() == "`c.csv` of source `left`: skipped by version 0: a test"
        assert [(one.standing, one.now) for one in r.which(str(bad))] == [("quarantined", "same")]


def test_a_rewound_file_waits_and_an_open_plan_is_said(world: World) -> None:
    put(world, "a.csv", [("a", 1)])
    world.run()
    put(world, "b.csv", [("b", 1)])
    world.run()
    world.open().rewind(0, "wrong")
    assert [standings(r, "b.csv") for r in readers(world)] == [[("left", "waiting", None, "same")]] * 2

    def fails(*_: Any) -> Any:
        raise ConnectionError

    def broken(p: tm.Pipeline, world: World) -> None:
        left = world.read(p, "left", "left", mode="PERMISSIVE", badFiles="quarantine")
        both = left.unionByName(world.read(p, "right", "right"))
        both.map_batches(fails, "k string, v int").groupBy("k").agg(n=tm.count(), name="counts")

    with pytest.raises(tm.TidemillError):
        run(world.but(broken).open(init=False))
    for r in readers(world):
        assert standings(r, "b.csv") == [("left", "planned", "3", "same")]
        assert "planned by version 3, which is in progress or failed" in r.which("b.csv")[0].line()


def test_files_of_a_promoted_branch_have_its_versions(world: World) -> None:
    for number in range(3):
        put(world, f"{number}.csv", [("a", number)])
    world.run()
    r = world.open()
    r.replay(from_version=1, into="fix", engine="local")
    r.promote("fix", "better")
    for one in readers(world):
        found = [standings(one, f"{number}.csv") for number in range(3)]
        assert found == [[("left", "read", label, "same")] for label in ("0", "fix@1", "fix@2")]
    assert r.which("2.csv")[0].quarantined_rows == 0
    r.drop_branch("fix", "done")
    assert standings(world.open(), "2.csv") == [("left", "read", "fix@2", "same")]


def test_a_file_that_is_nowhere_is_an_error_that_names_the_places(world: World) -> None:
    world.open()
    for r in readers(world):
        with pytest.raises(tm.InvalidInput, match=r"which `x.csv`: no source has this file, and none has read it") as e:
            r.which("x.csv")
        assert f"source `left` reads file://{world.folder}/left" in str(e.value)
        with pytest.raises(tm.InvalidInput, match="unknown source `lefd`; did you mean `left`?"):
            r.which(("lefd", "x.csv"))
        with pytest.raises(tm.InvalidInput, match="which: found 7, expected a path or a pair of source and path"):
            r.which(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", ".", "/", "..", "a.csv/", "s3://x/a.csv", "http://x/a", "a\0b", "/requeued/x", "~"]
)
def test_a_text_that_can_be_no_file_is_no_file(world: World, text: str) -> None:
    put(world, "a.csv", [("a", 1)])
    world.run()
    for r in readers(world):
        with pytest.raises(tm.InvalidInput, match="no source has this file, and none has read it"):
            r.which(text)
        with pytest.raises(tm.InvalidInput, match="credentials") as refused:
            r.which("s3://key:hidden@lake/a.csv")
        assert "hidden" not in str(refused.value)


def test_a_path_may_be_written_in_any_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a b%20c"
    folder.mkdir()
    world = World(folder)
    path = world.put("x %41.csv", [("a", 1)])
    world.run()
    monkeypatch.chdir(folder)
    (folder / "link").symlink_to("in")
    ways = ["x %41.csv", path, str(path), f"file://{path}", path.as_uri(), "in/x %41.csv", "./link/../in/x %41.csv",
            "link/x %41.csv"]  # fmt: skip
    for r in readers(world):
        for way in ways:
            assert standings(r, way) == [("source", "read", "0", "same")], way


def test_a_source_of_one_file_has_it_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "one.csv"
    file.write_text("a,1\n")

    def single(p: tm.Pipeline, world: World) -> None:
        rows = p.read(tm.Files(str(file), format="csv", schema="k string, v int"), name="single")
        rows.groupBy("k").agg(n=tm.count(), name="counts")

    world = World(tmp_path, single)
    world.run()
    for r in readers(world):
        assert standings(r, "one.csv") == standings(r, file) == [("single", "read", "0", "same")]


def test_earlier_files_of_a_source_that_starts_with_the_latest(tmp_path: Path) -> None:
    world = World(tmp_path, start="latest")
    world.put("old.csv", [("a", 1)])
    world.open()
    assert [standings(r, "old.csv") for r in readers(world)] == [[("source", "earlier", None, "same")]] * 2


def test_the_log_names_files_with_their_sources(world: World) -> None:
    put(world, "a.csv", [("a", 1)])
    put(world, "a.csv", [("b", 1)], "right")
    world.run()
    r = world.open()
    assert [(one.source, one.path) for one in r.input_files(0)] == [("left", "a.csv"), ("right", "a.csv")]
    r.tag("here", 0)
    assert r.input_files("here") == r.input_files(0)
    r.rewind(-1, "again", without=[("left", "a.csv")])
    assert r.input_files(1) == []


def test_requeued_rows_are_named_by_their_version(world: World) -> None:
    put(world, "a.csv", "a,1\nb,x\n")
    world.run()
    r = world.open()
    table = r.quarantine(export=True)
    rows = [{**row, "k": "b", "v": 7} for row in table.to_pylist()]
    r.requeue(0, rows=pa.Table.from_pylist(rows, schema=table.schema), reason="corrected")
    (version,) = run(r)
    (found,) = r.input_files(version)
    assert (found.source, found.path, found.requeued) == ("left", None, 0)
    assert found.line() == "rows of version 0, requeued of source `left`"


def test_the_commands_print_the_same(tmp_path: Path, call: Call, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEMILL_ROOT", "root")
    (tmp_path / "shop.py").write_text(PIPELINE)
    World(tmp_path).arrive(*([(f"k{number}", 1)] for number in range(3)))
    assert call("init", "shop.py")[0] == call("run", "shop.py", "--engine", "local")[0] == Exit.DONE
    for place in ("shop.py", "root/shop"):
        status, out, _ = call("which", place, "in/0001.csv")
        assert status == Exit.DONE and out.startswith("`0001.csv` of source `source`: read by version 1 (batch time 2")
        (line,) = call("which", place, "0001.csv", "--source", "source", "--json")[1].splitlines()
        assert json.loads(line) == dataclasses.asdict(tm.read("root", "shop").which("0001.csv")[0])
        assert call("which", place, "0009.csv")[0] == Exit.FAILED
        table = call("log", place, "--files")[1]
        assert [f"`000{number}.csv` of source `source`" in table for number in range(4)] == [True, True, True, False]
        assert "`0000.csv`" not in call("log", place)[1]
        assert "version 0\n  `0000.csv` of source `source`\n" in table, "no line is wrapped"
        rows = [json.loads(line) for line in call("log", place, "--files", "--json")[1].splitlines()]
        assert [one["path"] for row in rows for one in row["files"]] == ["0002.csv", "0001.csv", "0000.csv"]


def test_the_log_wraps_no_name_of_a_file_on_a_terminal(tmp_path: Path, call: Call, monkeypatch: Any) -> None:
    name = f"{'long-' * 20}name.csv"
    world = World(tmp_path)
    world.put(name, [("a", 1)])
    world.run()
    monkeypatch.setattr(render, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    out = call("log", f"{world.root}/shop", "--files")[1]
    assert f"version 0\n  `{name}` of source `source`\n" in out
    assert max(len(line) for line in out.splitlines() if name not in line) <= 60, "the table is as wide as the terminal"


def test_files_are_named_with_their_source_if_there_are_several(world: World, capsys: Any) -> None:
    put(world, "a.csv", [("a", 1)])
    put(world, "a.csv", [("a", 2)], "right")
    world.run()
    r = world.open()
    r.explain(operator="counts", key="a")
    assert "  files: `a.csv` of source `left`, `a.csv` of source `right`\n" in capsys.readouterr().out
    plan = r.rewind(-1, "again", dry_run=True)
    assert "2 files (`a.csv` of source `left`, `a.csv` of source `right`) will be read again" in plan.lines()
    with pytest.raises(tm.InvalidInput, match="skip `a.csv` of source `right`: version 0 has read it"):
        r.skip(("right", "a.csv"), "a test")

    def fails(key: Any, rows: Any, state: Any) -> Any:
        raise ValueError(key)

    def failing(p: tm.Pipeline, world: World) -> None:
        left = world.read(p, "left", "left").unionByName(world.read(p, "right", "right"))
        left.groupBy("k").flatMapGroupsWithState(fails, "k string", "n int", "update", "NoTimeout", name="fails")

    with pytest.raises(tm.InvalidInput, match="`a.csv` of source `(left|right)`"):
        run(world.but(failing, root="other").open())


def test_a_file_on_s3_is_found_by_its_uri(s3_server: S3Server) -> None:
    root, lake = s3_server.new_root(), s3_server.new_root()
    options = {"root": s3_server.options, "source": s3_server.options}
    p = tm.Pipeline("shop")
    rows = p.read(tm.Files(lake, format="csv", schema="k string, v int", recursiveFileLookup=True), name="lake")
    rows.groupBy("k").agg(n=tm.count(), name="counts")
    store = open_store(lake, s3_server.options)
    store.put("day/a b.csv", b"a,1\n")
    r = tm.open(p, root, storage_options=options)
    r.init()
    run(r)
    store.put("day/c.csv", b"a,1\n")
    for one in (r, tm.read(root, "shop", storage_options=options)):
        for way in ("day/a b.csv", f"{lake}/day/a b.csv"):
            assert standings(one, way) == [("lake", "read", "0", "same")]
        assert standings(one, f"{lake}/day/c.csv") == [("lake", "waiting", None, "same")]
