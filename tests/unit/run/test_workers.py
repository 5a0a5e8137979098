"""Checks before a plan if tasks run on other machines. The engine is the local one that says it is remote."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World
from tidemill.batch import inspection
from tidemill.batch.inspection import Inspection
from tidemill.engines.local import LocalEngine
from tidemill.run import engine as engine_of_run


class Remote(LocalEngine):
    """Runs tasks in this process, in the place of a worker. `before` is called when it is asked what it has."""

    is_remote = True

    def __init__(self, tasks: int, before: Callable[[Inspection], Inspection]) -> None:
        super().__init__(tasks)
        self.before = before
        self.asked: list[Inspection] = []

    def execute(self, work: Any) -> list[bytes]:
        if isinstance(work, Inspection):
            self.asked.append(work)
            work = self.before(work)
        return super().execute(work)


Open = Callable[..., tm.Repository]


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Remote]:
    def install(before: Callable[[Inspection], Inspection] = lambda work: work) -> Remote:
        engine = Remote(3, before)
        monkeypatch.setattr(engine_of_run, "engine_for", lambda *_: engine)
        return engine

    return install


@pytest.fixture
def shop(tmp_path: Path) -> Open:
    def build(p: tm.Pipeline, world: World) -> None:
        world.read(p, inbox="in 100%").groupBy("k").agg(n=tm.count(), name="counts")

    world = World(tmp_path, build)
    for name in "ab":
        world.put(name, "a,1\n", inbox="in 100%")
    return lambda **conf: world.open(conf=conf)


def has_no_plan(root: Path) -> bool:
    return not [path for path in root.rglob("*") if "plans" in path.parts and path.is_file()]


def test_a_folder_of_this_machine_is_refused_before_a_plan(
    shop: Open, tmp_path: Path, remote: Callable[..., Remote]
) -> None:
    engine = remote()
    with pytest.raises(tm.InvalidInput) as caught:
        shop().run(engine="spark")
    text = str(caught.value)
    assert text.startswith(
        f"the root `file://{tmp_path}/root` is a folder of this machine, and the tasks run on others"
    )
    assert "hint: use s3://…, or set `tidemill.shared_folders` to the folder that all machines share" in text
    assert has_no_plan(tmp_path / "root") and not engine.asked
    with pytest.raises(tm.InvalidInput, match="the source `source` `file://"):
        shop(**{"tidemill.shared_folders": f"{tmp_path}/root"}).run(engine="spark")
    with pytest.raises(tm.InvalidInput, match="the root"):
        shop(**{"tidemill.shared_folders": f"{tmp_path}/roo:/else"}).run(engine="spark")


def test_shared_folders_are_accepted_and_workers_are_asked_once(
    shop: Open, tmp_path: Path, remote: Callable[..., Remote]
) -> None:
    engine = remote()
    done = shop(**{"tidemill.shared_folders": f"/else:{tmp_path}"}).run(engine="spark")
    assert [one.version for one in done] == [0, 1]
    (asked,) = engine.asked
    assert asked.ranges == 3
    assert [(one.what, one.name) for one in asked.folders] == [
        ("repository", "refs/0000000000.json"), ("source `source`", "a.csv")
    ]  # fmt: skip


def test_a_folder_that_is_another_one_on_a_worker_is_named(
    shop: Open, tmp_path: Path, remote: Callable[..., Remote]
) -> None:
    def without_files(work: Inspection) -> Inspection:
        shutil.rmtree(tmp_path / "in 100%")
        return work

    remote(without_files)
    with pytest.raises(tm.InvalidInput) as caught:
        shop(**{"tidemill.shared_folders": str(tmp_path)}).run(engine="spark")
    text = str(caught.value)
    assert text.startswith("run on engine `local`: a worker on `")
    assert f"does not see `a.csv` in the source `source` `file://{tmp_path}/in 100%`" in text
    assert "hint: give the workers the credentials, the endpoint and the folders that the driver has" in text
    assert has_no_plan(tmp_path / "root")


def test_another_version_of_tidemill_is_named(
    shop: Open, tmp_path: Path, remote: Callable[..., Remote], monkeypatch: pytest.MonkeyPatch
) -> None:
    def older(work: Inspection) -> Inspection:
        monkeypatch.setattr(inspection, "version_of_tidemill", lambda: "0.0.1")
        return work

    remote(older)
    ours = tm.__version__
    with pytest.raises(tm.InvalidInput, match=f"has tidemill 0.0.1, the driver has tidemill {ours}") as caught:
        shop(**{"tidemill.shared_folders": str(tmp_path)}).run(engine="spark")
    assert "hint: ship the driver's environment to them (`spark.archives`)" in str(caught.value)
    assert has_no_plan(tmp_path / "root")


def test_modules_that_a_worker_lacks_are_named_together(
    shop: Open, tmp_path: Path, remote: Callable[..., Remote]
) -> None:
    remote(lambda work: dataclasses.replace(work, imports=("json", "no_such_one", "no_such_two")))
    with pytest.raises(tm.InvalidInput, match="cannot import `no_such_one`, `no_such_two`\n") as caught:
        shop(**{"tidemill.shared_folders": str(tmp_path)}).run(engine="spark")
    assert "hint: ship the driver's environment to them (`spark.archives`)" in str(caught.value)
    assert has_no_plan(tmp_path / "root")


def test_a_store_that_workers_cannot_reach_is_named(shop: Open, tmp_path: Path, remote: Callable[..., Remote]) -> None:
    def elsewhere(work: Inspection) -> Inspection:
        options = {"endpoint_url": "http://127.0.0.1:9", "aws_access_key_id": "a", "aws_secret_access_key": "hush"}
        away = dataclasses.replace(work.folders[0], uri="s3://lake/shop", options=options)
        return dataclasses.replace(work, folders=(away,))

    remote(elsewhere)
    with pytest.raises(tm.InvalidInput, match="cannot read the repository `s3://lake/shop`: ") as caught:
        shop(**{"tidemill.shared_folders": str(tmp_path)}).run(engine="spark")
    assert "hush" not in str(caught.value)


def test_a_cache_that_a_worker_cannot_write_is_a_warning(
    shop: Open, tmp_path: Path, remote: Callable[..., Remote], caplog: pytest.LogCaptureFixture
) -> None:
    remote()
    (tmp_path / "cache").mkdir(mode=0o755)
    (tmp_path / "cache").chmod(0o755)
    conf = {"tidemill.shared_folders": str(tmp_path), "tidemill.disk_cache_folder": str(tmp_path / "cache")}
    with caplog.at_level(logging.WARNING):
        assert shop(**conf).run(engine="spark")
    assert f"the cache folder `{tmp_path}/cache` is not private and writable" in caplog.text


def test_a_relative_path_is_resolved_for_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import cloudpickle

    monkeypatch.chdir(tmp_path)
    source = tm.Files("in", format="csv", schema="n int")
    assert cloudpickle.loads(cloudpickle.dumps(source)).path == str(tmp_path / "in")
    assert source.path == "in"
    away = tm.Files("s3://lake/in", format="csv", schema="n int")
    assert cloudpickle.loads(cloudpickle.dumps(away)).path == "s3://lake/in"
