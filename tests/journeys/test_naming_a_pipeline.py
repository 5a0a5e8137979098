"""How a pipeline and its root are named: a file with one pipeline, the root of the environment, a graph without one."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import tidemill as tm
from tests.journeys.conftest import Call
from tests.world import World
from tidemill.errors import Exit
from tidemill.pipeline.load import load

CODE = """
import tidemill as tm

p = tm.Pipeline("shop")
rows = p.read(tm.Files("in", format="csv", schema="k string, v int"))
rows.groupBy("k").agg(n=tm.count(), name="counts")
"""
GRAPH = ["pipeline `shop`, time zone UTC", "  operator `counts`: aggregate by k", "    sink `counts`: kept in the rep"]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `shop.py` and a file that waits. Commands run in it, without a root in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEMILL_ROOT", raising=False)
    World(tmp_path).arrive([("a", 1), ("b", 2)])
    file = tmp_path / "shop.py"
    file.write_text(CODE)
    return file


def test_a_file_with_one_pipeline_needs_no_name(shop: Path, call: Call) -> None:
    assert call("init", "shop.py", "--root", "root")[0] == Exit.DONE
    status, out, err = call("run", "shop.py", "--root", "root", "--engine", "local")
    assert status == Exit.DONE and "committed version 0: 2 rows" in out, err
    assert call("state", shop, "--root", "root", "--json") == call("state", f"{shop}:p", "--root", "root", "--json")
    assert load("shop.py").reference == "shop.py:p"


def test_a_second_name_of_the_same_pipeline_is_no_second_pipeline(shop: Path) -> None:
    shop.write_text(CODE + "again = p\n")
    assert load("shop.py").pipeline.name == "shop"


@pytest.mark.parametrize(
    ("code", "said", "hint"),
    [
        (CODE + "q = tm.Pipeline('q')\n", "the file has 2 pipelines, `p` and `q`", "name one of them: `shop.py:p`"),
        ("p = 3\n", "the file has no pipeline", "p = tm.Pipeline('name')"),
    ],
)
def test_a_file_with_none_or_several_says_so(shop: Path, call: Call, code: str, said: str, hint: str) -> None:
    shop.write_text(code)
    status, _, err = call("run", "shop.py", "--root", "root")
    assert status == Exit.FAILED and f"pipeline reference 'shop.py': {said}" in err and hint in err
    assert not (shop.parent / "root").exists()


def test_open_takes_the_root_of_the_environment(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(tm.InvalidInput, match="open: root is None, expected a URI") as caught:
        tm.open(tm.load("shop.py"))
    assert "set the environment variable TIDEMILL_ROOT" in str(caught.value)
    monkeypatch.setenv("TIDEMILL_ROOT", str(shop.parent / "lake"))
    tm.open(tm.load("shop.py")).init()
    assert (shop.parent / "lake/shop/refs").is_dir()
    assert tm.read(pipeline="shop").head is None and tm.read(None, "shop").head is None
    with pytest.raises(tm.InvalidInput, match="read: the name of the pipeline is missing"):
        tm.read(str(shop.parent / "lake"))
    tm.open(tm.load("shop.py"), "other").init()
    assert (shop.parent / "other/shop/refs").is_dir()


def test_a_graph_needs_no_root_but_a_key_and_a_branch_do(shop: Path, call: Call) -> None:
    status, out, err = call("explain", "shop.py")
    assert status == Exit.DONE and all(line in out for line in GRAPH), err
    assert call("explain", "shop.py", "--operator", "counts", "--json")[1].startswith('{"graph":["pipeline `shop`')
    assert "unknown operator `count`" in call("explain", "shop.py", "--operator", "count")[2]
    for more in (["--key", "a"], ["--branch", "fix"]):
        status, _, err = call("explain", "shop.py", *more)
        assert status == Exit.USAGE and "Missing option '--root'" in err
    assert call("init", "shop.py", "--root", "root")[0] == Exit.DONE
    with_root = call("explain", "shop.py", "--root", "root")
    assert with_root == call("explain", "shop.py")
    shown = io.StringIO()
    with redirect_stdout(shown):
        tm.load("shop.py").pipeline.explain()
    assert shown.getvalue() == with_root[1]


@pytest.mark.parametrize(
    ("delay", "shown"), [("30 days", "30 days"), ("720  hours", "720 hours"), (5_400_000, "1 hour 30 minutes")]
)
def test_a_delay_is_shown_as_it_was_written(delay: str | int, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    p = tm.Pipeline("late")
    rows = p.read(tm.Rows("k string, at timestamp")).withWatermark("at", delay)
    rows.dropDuplicates(["k", "at"])
    p.explain()
    assert f"watermark `source.at`: delay {shown}\n" in capsys.readouterr().out


def test_a_file_is_replaced_in_one_step_and_only_if_asked(shop: Path, call: Call, tmp_path: Path) -> None:
    place = ("shop.py", "--root", "root")
    assert call("init", *place)[0] == call("run", *place, "--engine", "local")[0] == Exit.DONE
    file, link = tmp_path / "state.csv", tmp_path / "link.csv"
    assert call("state", *place, "-o", file)[0] == Exit.DONE
    first = file.read_bytes()
    file.write_bytes(b"old")
    link.symlink_to(file)
    status, _, err = call("state", *place, "-o", file)
    assert status == Exit.FAILED and "the file exists\nhint: choose another name, or replace the file: --repl" in err
    assert file.read_bytes() == b"old"
    before = sorted(tmp_path.iterdir())
    for given in (file, link):
        file.write_bytes(b"old")
        assert call("state", *place, "-o", given, "--replace")[:2] == (Exit.DONE, f"wrote 2 rows to {given}\n")
        assert file.read_bytes() == first and link.is_symlink() and sorted(tmp_path.iterdir()) == before
    assert call("state", *place, "-o", tmp_path / "new.csv", "--replace")[0] == Exit.DONE
    assert call("state", *place, "-o", tmp_path / "no" / "new.csv", "--replace")[0] == Exit.FAILED
    assert "--replace is for the file of -o" in call("state", *place, "--replace")[2]
