"""`tidemill ls`: the pipelines under a root, whatever else is there, and without their code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tidemill as tm
from tests.journeys.conftest import Call
from tests.servers.s3 import S3Server
from tests.world import World
from tidemill.branches.under_root import pipelines_under
from tidemill.errors import Exit, InvalidInput
from tidemill.store import open_store


def three(folder: Path, root: str) -> None:
    """Pipelines `a`, `a-b` and `a0`, whose names sort otherwise than those of their objects, beside other objects."""
    for number, name in enumerate(("a0", "a", "a-b")):
        world = World(folder, name=name, root=root)
        world.open()
        if number:
            world.arrive([("k", number)])
            world.run()
    World(folder, name="a", root=root).open().branch("fix", at=0)


def test_pipelines_are_listed_with_versions_and_branches(tmp_path: Path, call: Call) -> None:
    three(tmp_path, "root")
    root = tmp_path / "root"
    (root / "notes.txt").write_text("not a repository")
    (root / "Other/refs").mkdir(parents=True)
    (root / "Other/refs/0000000000.json").write_text("{}")
    (root / "empty/refs").mkdir(parents=True)
    status, out, err = call("ls", root)
    assert status == Exit.DONE, err
    lines = dict(line.split(": ", 1) for line in out.splitlines())
    assert list(lines) == ["a-b", "a", "a0"]
    assert lines["a0"] == "no batch yet" and lines["a-b"].startswith("version 1, committed 2")
    assert lines["a"].startswith("version 0, committed 2") and lines["a"].endswith("Z, branch `fix` at 0")
    rows = {one["name"]: one for one in map(json.loads, call("ls", root, "--json")[1].splitlines())}
    assert [(one["head"], [b["name"] for b in one["branches"]], one["problem"]) for one in rows.values()] == [
        (1, ["main"], None),
        (0, ["main", "fix"], None),
        (-1, ["main"], None),
    ]


def test_a_damaged_repository_does_not_hide_the_others(tmp_path: Path, call: Call) -> None:
    three(tmp_path, "root")
    for record in (tmp_path / "root/a-b/refs").iterdir():
        record.write_text("{")
    status, out, _ = call("ls", tmp_path / "root")
    assert status == Exit.FAILED and "a-b: no batch yet, PROBLEM: " in out and "\na: version 0" in out


@pytest.mark.parametrize(("place", "said"), [("root/a", "it is a repository itself"), ("no", "it has no repository")])
def test_a_place_that_is_no_root_is_an_error(tmp_path: Path, call: Call, place: str, said: str) -> None:
    three(tmp_path, "root")
    status, _, err = call("ls", tmp_path / place)
    assert status == Exit.FAILED and said in err and "hint: a repository is the folder ROOT/NAME" in err


def test_the_root_of_the_environment_is_the_default(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(tmp_path, "root")
    monkeypatch.delenv("TIDEMILL_ROOT", raising=False)
    assert call("ls")[0] == Exit.USAGE
    monkeypatch.setenv("TIDEMILL_ROOT", str(tmp_path / "root"))
    assert call("ls") == call("ls", tmp_path / "root")
    with pytest.raises(InvalidInput, match="the URL contains credentials"):
        pipelines_under("s3://key:secret@lake/x")


def test_a_listing_does_not_follow_the_number_of_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        world = World(tmp_path, name=name)
        world.arrive(*([("k", number)] for number in range(5)))
        world.run()
    seen: list[str] = []
    store = type(open_store(str(tmp_path / "root")))
    listed = store.list
    monkeypatch.setattr(
        store, "list", lambda self, *given: (seen.append(one.name) or one for one in listed(self, *given))
    )
    assert [one.name for one in pipelines_under(str(tmp_path / "root"))] == ["one", "two"]
    assert len(seen) <= 12


def test_pipelines_on_s3(tmp_path: Path, s3_server: S3Server, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    root, options = s3_server.new_root(), {"root": s3_server.options}
    for name in ("a0", "a", "a-b"):
        tm.open(World(tmp_path, name=name).pipeline(), root, storage_options=options).init()
    monkeypatch.setenv("TIDEMILL_STORAGE_OPTIONS", json.dumps(options))
    status, out, err = call("ls", root)
    assert (status, out) == (Exit.DONE, "a-b: no batch yet\na: no batch yet\na0: no batch yet\n"), err
    assert [one.name for one in pipelines_under(root, options)] == ["a-b", "a", "a0"]
