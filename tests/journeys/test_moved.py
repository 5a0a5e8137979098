"""`adopt --moved` fences the place that the repository has left, so that nothing is committed there any more."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.crash.worlds import dying
from tests.journeys.rewound import command
from tests.journeys.shop import PIPELINE, arrive, opened, published, world
from tests.world import run
from tidemill.protocol import codec
from tidemill.protocol.records import MOVED
from tidemill.repo.fence import fence_of
from tidemill.run import drain

FENCED = "the repository was moved to `file://.*/there/shop`, and nothing is committed here any more"


def copied(folder: Path, to: str = "there") -> tm.Repository:
    """The repository, copied to another place, where it is not adopted yet."""
    shutil.copytree(folder / "root", folder / to)
    return world(folder, to).open(init=False)


@pytest.fixture
def there(tmp_path: Path) -> tm.Repository:
    """Two batches, and a copy."""
    arrive(tmp_path, "a", "b")
    run(opened(tmp_path))
    return copied(tmp_path)


def test_nothing_is_committed_at_the_place_that_the_repository_has_left(there: tm.Repository, tmp_path: Path) -> None:
    plan = there.adopt("a new disk", moved=True, dry_run=True)
    fenced = f"file://{tmp_path}/root/shop is fenced: nothing is committed there any more"
    assert plan.lines() == [f"repository file://{tmp_path}/root/shop -> file://{tmp_path}/there/shop", fenced]
    arrive(tmp_path, "c")
    there.adopt("a new disk", moved=True, expect=plan)
    for act in (
        lambda: run(world(tmp_path).open(init=False)),
        lambda: world(tmp_path).open(init=False).rewind(0, "a test"),
        lambda: world(tmp_path).open(init=False).publish(0),
        lambda: world(tmp_path).open(init=False).state("counts"),
    ):
        with pytest.raises(tm.InvalidInput, match=FENCED):
            act()
    assert run(there) == [2]
    assert [(row["k"], row["version"]) for row in published(tmp_path)] == [("a", 0), ("b", 1), ("c", 2)]
    assert there.verify(deep=True).problems == []


def test_a_batch_that_is_about_to_commit_loses(
    there: tm.Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(tmp_path, "c")
    execute = drain.execute

    def moved_meanwhile(*given: Any) -> Any:
        monkeypatch.undo()
        made = execute(*given)
        there.adopt("a new disk", moved=True)
        assert run(there) == [2]
        return made

    monkeypatch.setattr(drain, "execute", moved_meanwhile)
    with pytest.raises(tm.InvalidInput, match=FENCED):
        run(world(tmp_path).open(init=False))
    assert list((tmp_path / "root/shop/output").rglob("0000000002-*")) == [], "what it stored is deleted"
    assert [(row["k"], row["version"]) for row in published(tmp_path)] == [("a", 0), ("b", 1), ("c", 2)]


def test_branches_are_fenced_too(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    r = opened(tmp_path)
    run(r)
    r.replay(1, into="fix", engine="local")
    r.branch("later", 1)
    there = copied(tmp_path)
    before = [world(tmp_path).open("fix"), world(tmp_path).open("later")]
    with dying("create", r"branches/later-[0-9a-f]+/commits/\d+\.json$", "before"):
        there.adopt("a new disk", moved=True)
    there.adopt("a new disk", moved=True)
    arrive(tmp_path, "c")
    for branch in (*before, world(tmp_path).open("fix")):
        with pytest.raises(tm.InvalidInput, match=FENCED):
            run(branch)
    assert run(world(tmp_path, "there").open("fix")) == [2]
    assert there.verify(deep=True).problems == []


def test_nothing_is_fenced_if_a_branch_has_gone_on(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    r = opened(tmp_path)
    run(r)
    r.branch("fix", 0)
    there = copied(tmp_path)
    fence = fence_of(there.opened, there.opened.initialised())
    assert fence is not None and len(fence.commits) == 2
    arrive(tmp_path, "b")
    assert run(world(tmp_path).open("fix")) == [1]
    for act in (fence.create, lambda: there.adopt("a new disk", moved=True)):
        with pytest.raises(tm.InvalidInput, match="has versions up to 1 that this copy, which has versions up to 0"):
            act()
    assert run(opened(tmp_path)) == [1], "the place before goes on"
    r.branch("other", 0)
    shutil.rmtree(tmp_path / "there")
    shutil.copytree(tmp_path / "root", tmp_path / "there")
    r.branch("newer", 0)
    with pytest.raises(tm.InvalidInput, match="has branch `newer`, which this copy does not have"):
        world(tmp_path, "there").open(init=False).adopt("a new disk", moved=True)


def test_a_copy_that_lacks_versions_is_not_adopted(there: tm.Repository, tmp_path: Path) -> None:
    fence = fence_of(there.opened, there.opened.initialised())
    arrive(tmp_path, "c")
    assert run(opened(tmp_path)) == [2]
    assert fence is not None
    for act in (lambda: there.adopt("a new disk", moved=True), fence.create):
        with pytest.raises(tm.InvalidInput, match="has versions up to 2 that this copy, which has versions up to 1"):
            act()
    assert run(opened(tmp_path)) == [], "the place before goes on"
    shutil.rmtree(tmp_path / "root")
    there.adopt("the other place is dead", moved=True)
    with pytest.raises(tm.CorruptState, match="has 1 file of versions after 1"):
        run(there)


def test_a_copy_that_has_gone_another_way_is_not_adopted(tmp_path: Path) -> None:
    arrive(tmp_path, "a")
    run(opened(tmp_path))
    shutil.copytree(tmp_path / "root", tmp_path / "there")
    arrive(tmp_path, "b")
    run(opened(tmp_path))
    shutil.move(tmp_path / "root", tmp_path / "other")
    shutil.move(tmp_path / "there", tmp_path / "root")
    (tmp_path / "in" / "b.csv").unlink()
    for path in (tmp_path / "out").glob("*-0000000001-*"):
        path.unlink()
    arrive(tmp_path, "c")
    run(opened(tmp_path))
    with pytest.raises(tm.InvalidInput, match="has versions up to 1 that this copy, which has versions up to 1"):
        world(tmp_path, "other").open(init=False).adopt("a test", moved=True)


def test_an_adopt_that_died_after_the_fence_is_done_again(there: tm.Repository, tmp_path: Path) -> None:
    with dying("create", r"refs/\d+\.json$", "before"):
        there.adopt("a new disk", moved=True)
    with pytest.raises(tm.InvalidInput, match=FENCED):
        run(world(tmp_path).open(init=False))
    there = world(tmp_path, "there").open(init=False)
    there.adopt("a new disk", moved=True)
    arrive(tmp_path, "c")
    assert run(there) == [2]


def test_a_repository_moves_to_one_place_only(there: tm.Repository, tmp_path: Path) -> None:
    third = copied(tmp_path, "third")
    there.adopt("a new disk", moved=True)
    with pytest.raises(tm.InvalidInput, match="where it was made, has moved to another place") as caught:
        third.adopt("a newer disk", moved=True)
    assert "--copy" in caught.value.hint
    third.adopt("a copy", copy=True)
    arrive(tmp_path, "c")
    assert (run(there), run(third, adopt_sink=True)) == ([2], [2])


def test_a_place_that_cannot_be_read_is_named(
    there: tm.Repository, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "root/shop/refs/0000000000.json").write_text("garbage")
    with caplog.at_level(logging.WARNING):
        there.adopt("a new disk", moved=True)
    assert f"`file://{tmp_path}/root/shop` could not be fenced: read " in caplog.text
    assert "Make sure that no process writes there" in caplog.text


def test_a_place_that_is_gone_or_has_another_repository_needs_no_fence(there: tm.Repository, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "root")
    opened(tmp_path)
    before = sorted((tmp_path / "root").rglob("*"))
    assert there.adopt("a new disk", moved=True, dry_run=True).fence is None
    there.adopt("a new disk", moved=True)
    assert sorted((tmp_path / "root").rglob("*")) == before


def test_a_repository_without_versions_is_fenced_and_moves_back_once_the_folder_is_removed(tmp_path: Path) -> None:
    opened(tmp_path)
    there = copied(tmp_path)
    there.adopt("a new disk", moved=True)
    arrive(tmp_path, "a")
    with pytest.raises(tm.InvalidInput, match=FENCED) as caught:
        run(world(tmp_path).open(init=False))
    assert caught.value.hint.endswith("to move the repository back, remove this folder and copy that one here")
    shutil.rmtree(tmp_path / "root")
    shutil.copytree(tmp_path / "there", tmp_path / "root")
    back = world(tmp_path).open(init=False)
    back.adopt("back again", moved=True)
    assert run(back) == [0]
    with pytest.raises(tm.InvalidInput, match="the repository was moved to `file://.*/root/shop`"):
        run(there)


def test_releases_before_refuse_the_fence_by_name(
    there: tm.Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.adopt("a new disk", moved=True)
    monkeypatch.setattr(codec, "MOVED", "")
    with pytest.raises(tm.InvalidInput, match=f"it requires {MOVED}; it was written by a newer Tidemill"):
        run(world(tmp_path).open(init=False))


def test_the_command_says_what_is_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text(PIPELINE)
    arrive(tmp_path, "a")
    run(opened(tmp_path, "before"))
    shutil.copytree(tmp_path / "before", tmp_path / "root")
    status, out, said = command(capfd, "adopt", "shop.py:p", "--moved", "--reason", "a new disk")
    assert status == 0
    assert f"file://{tmp_path}/before/shop is fenced: nothing is committed there any more" in said.splitlines()
    assert out == f"adopted: file://{tmp_path}/root/shop\n"
