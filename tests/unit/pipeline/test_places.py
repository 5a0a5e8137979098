"""A pipeline may not write where it reads, nor into folders that readers interpret as other times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World, over
from tidemill.errors import InvalidInput
from tidemill.pipeline.places import check_places
from tidemill.testing import Tester

SCHEMA = "k string, at timestamp"


def looped(source: Any, sink: Any) -> tm.Pipeline:
    """A pipeline that reads and writes without a state."""
    p = tm.Pipeline("loop")
    p.read(tm.Files(source, format="json", schema=SCHEMA) if isinstance(source, str) else source).write(sink)
    return p


def refusal(p: tm.Pipeline, **storage_options: Any) -> str | None:
    """Return the message of `check_places` about a pipeline, or None if it accepts the pipeline."""
    try:
        check_places(p, "memory://elsewhere", storage_options)
    except InvalidInput as error:
        return error.message
    return None


@pytest.mark.parametrize(
    "same",
    [
        "{}",
        "{}/",
        "/{}",
        "file://{}",
        "file:///{}",
        "file:{}",
        "~",
        "~/",
        "file:~",
        ".",
        "{}/../home",
        "../home",
        "../link",
    ],
)
def test_a_sink_in_a_folder_that_a_source_reads_is_refused(
    tmp_path: Path, same: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "link").symlink_to(home)
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    sink = same.format(home)
    assert refusal(looped(str(home), tm.Json(sink))) == (
        f"sink `output` writes to `{sink}`, the folder that source `source` reads"
    )


@pytest.mark.parametrize(
    ("source", "sink"),
    [("s3://lake/in", "s3a://lake/in/"), ("s3://lake", "s3://lake/"), ("memory://lake/in", "memory://lake/in")],
)
def test_a_folder_is_the_same_in_every_spelling(source: str, sink: str) -> None:
    assert "the folder that source `source` reads" in str(refusal(looped(source, tm.Json(sink))))


@pytest.mark.parametrize("source", ["s3://", "s3://lake/in?versionId=1"])
def test_a_path_that_no_store_opens_is_reported(source: str) -> None:
    read = tm.Files(source, format="json", schema=SCHEMA, recursiveFileLookup=True)
    assert "expected `s3://bucket/prefix`" in str(refusal(looped(read, tm.Json("s3://lake/out"))))


def test_one_name_at_two_endpoints_is_two_folders() -> None:
    p, here, there = looped("s3://lake/in", tm.Json("s3://lake/in")), "http://a", "http://b"
    assert refusal(p, source={"endpoint_url": here}, sink={"endpoint_url": there}) is None
    assert refusal(p, source={"endpoint_url": here}, sink={"endpoint_url": f"{here}/"}) is not None


def test_an_endpoint_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    p = looped("s3://lake/in", tm.Json("s3://lake/in"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://a")
    assert refusal(p, source={"endpoint_url": "http://a"}) is not None
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://b")
    assert refusal(p, source={"endpoint_url": "http://a"}) is None


def test_an_endpoint_does_not_apply_to_local_folders(tmp_path: Path) -> None:
    p = looped(str(tmp_path), tm.Json(tmp_path))
    assert refusal(p, source={"endpoint_url": "http://a"}, sink={"endpoint_url": "http://b"}) is not None


def test_folders_on_s3_are_compared_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: Any) -> Any:
        raise AssertionError("a client is made")

    monkeypatch.setattr("tidemill.store.s3.clients", made)
    assert refusal(looped("s3://lake/in", tm.Json("s3://lake/in"))) is not None
    assert refusal(looped("s3://lake/in", tm.Json("s3://lake/out"))) is None


@pytest.mark.parametrize(
    ("source", "by", "is_read"),
    [
        ("k=a", ["k"], True),
        ("k=a", ["k", "at"], True),
        ("k=a/at=1", ["k", "at"], True),
        ("at=1", ["k", "at"], False),
        ("k=a/at=1", ["k"], False),
        ("ka", ["k"], False),
        ("k=a", [], False),
        ("other", ["k"], False),
    ],
)
def test_a_sink_above_the_folder_is_refused_if_the_folder_is_one_of_its_partitions(
    tmp_path: Path, source: str, by: list[str], is_read: bool
) -> None:
    p = tm.Pipeline("loop")
    read = tm.Files(tmp_path / source, format="json", schema="n int")
    p.read(read).sql("SELECT n, 'a' AS k, 1 AS at FROM rows").write(tm.Json(tmp_path, partitionBy=by))
    found = refusal(p)
    assert (found is not None) == is_read
    assert not is_read or "above the folder that source `source` reads" in str(found)


def test_every_sink_is_compared_with_every_source(tmp_path: Path) -> None:
    p = tm.Pipeline("many")
    sources = [
        p.read(tm.Files(tmp_path / name, format="json", schema="n int"), name=name) for name in ("one", "two", "three")
    ]
    sources[0].write(tm.Json(tmp_path / "out"), name="first")
    sources[0].write(tm.Json(tmp_path / "three"), name="second")
    assert refusal(p) == (f"sink `second` writes to `{tmp_path / 'three'}`, the folder that source `three` reads")


@pytest.mark.parametrize(
    ("sink", "recursive", "is_read"),
    [
        ("in/out", True, True),
        ("in/day=1", False, True),
        ("in/out", False, False),
        ("in/_out", True, False),
        ("in-out", True, False),
        (".", True, False),
    ],
)
def test_a_sink_below_the_folder_is_refused_if_its_files_are_read(
    tmp_path: Path, sink: str, recursive: bool, is_read: bool
) -> None:
    source = tm.Files(tmp_path / "in", format="json", schema=SCHEMA, recursiveFileLookup=recursive)
    found = refusal(looped(source, tm.Json(tmp_path / sink)))
    assert (found is not None) == is_read
    assert not is_read or "below the folder that source `source` reads" in str(found)


@pytest.mark.parametrize(
    ("pattern", "is_read"),
    [("*.json", True), ("loop.output-*", True), ("*.jsonl", False), ("*.{csv,parquet}", False), ("[0-9]*", False)],
)
def test_a_sink_whose_names_the_source_skips_is_accepted(tmp_path: Path, pattern: str, is_read: bool) -> None:
    source = tm.Files(tmp_path, format="json", schema=SCHEMA, pathGlobFilter=pattern)
    assert (refusal(looped(source, tm.Json(tmp_path))) is not None) == is_read


class Table:
    """A sink of an unknown kind. Tidemill does not know the meaning of its path and columns."""

    def __init__(self, path: Any) -> None:
        self.path, self.partitionBy = path, ["at"]

    def check(self, schema: Any) -> None:
        """Accept every schema."""

    stage = apply = None


@pytest.mark.parametrize("path", ["customers", b"customers", None, "jdbc://db/table", ["a"]])
def test_a_sink_of_another_kind_is_not_checked(path: Any) -> None:
    assert refusal(looped("customers", Table(path)), source={"endpoint_url": "http://a"}) is None
    p = tm.Pipeline("days", timeZone="America/New_York")
    p.read(tm.Rows(SCHEMA)).write(Table(path))
    assert refusal(p) is None


def test_foreach_batch_has_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    p = tm.Pipeline("called")
    p.read(tm.Files(".", format="json", schema=SCHEMA)).foreachBatch(lambda table, batch_id: None)
    assert refusal(p) is None


def by_instants(time_zone: str, folder: Path) -> tm.Pipeline:
    """A pipeline whose sink has folders by a timestamp."""
    p = tm.Pipeline("days", timeZone=time_zone)
    p.read(tm.Rows(SCHEMA)).write(tm.Parquet(folder / "out", partitionBy=["at"]))
    return p


@pytest.mark.parametrize(
    "zone", ["UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "UCT", "Universal", "Greenwich", "Etc/GMT+0"]
)
def test_folders_by_instants_are_accepted_in_utc_under_any_name(tmp_path: Path, zone: str) -> None:
    assert refusal(by_instants(zone, tmp_path)) is None


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/London", "Etc/GMT+1", "Africa/Abidjan"])
def test_folders_by_instants_are_refused_outside_utc(tmp_path: Path, zone: str) -> None:
    expected = f"sink `output` is partitioned by `at`, a timestamp, and the pipeline's time zone is {zone}: "
    assert str(refusal(by_instants(zone, tmp_path))).startswith(expected)


def test_the_hint_about_instants_runs(tmp_path: Path) -> None:
    p = by_instants("America/New_York", tmp_path)
    with pytest.raises(InvalidInput) as refused:
        Tester(p)
    hint = str(refused.value.hint)
    assert hint == (
        """partition by a date or a string: .sql('SELECT *, CAST("at" AS DATE) AS day FROM rows'), """
        "then partitionBy=['day']"
    )
    statement = hint.partition(".sql('")[2].partition("')")[0]
    days = tm.Pipeline("days", timeZone="America/New_York")
    days.read(tm.Rows(SCHEMA)).sql(statement).write(tm.Parquet(tmp_path / "out", partitionBy=["day"]))
    tester = Tester(days)
    tester.batch([("a", "2013-01-01T02:00:00Z")])
    (output,) = tester.repository.opened.job.outputs.values()
    assert [folder.name for folder in Path(output.sink.path).glob("day=*")] == ["day=2012-12-31"]
    assert not (tmp_path / "out").exists(), "a test writes nothing where users read"


@pytest.mark.parametrize(
    "write",
    [
        lambda r: r.init(),
        lambda r: r.run(engine="local", max_batches=1),
        lambda r: r.sweep(engine="local"),
        lambda r: r.replan("it cannot run"),
    ],
)
def test_a_repository_that_fails_a_check_can_still_be_read(tmp_path: Path, write: Any) -> None:
    world = World(tmp_path, over(lambda rows: rows.write(tm.Json(tmp_path / "out"))))
    world.arrive("a,1\n")
    world.run()
    now = world.but(over(lambda rows: rows.write(tm.Json(tmp_path / "in")))).open(init=False)
    with pytest.raises(InvalidInput, match="the folder that source `source` reads"):
        write(now)
    assert (now.head.version, now.outputs().num_rows, len(now.commits())) == (0, 1, 1)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("source", "root", "options", "refusal"),
    [
        ("data", "data/root", {"recursiveFileLookup": True}, "contains the repository"),
        ("data", "data", {"recursiveFileLookup": True}, "contains the repository"),
        ("link", "data/root", {"recursiveFileLookup": True}, "contains the repository"),
        ("data", "link/root", {"recursiveFileLookup": True, "pathGlobFilter": "*.json"}, "contains the repository"),
        ("data", "data/root", {"recursiveFileLookup": True, "pathGlobFilter": "*.csv"}, None),
        ("data", "data/root", {}, None),
        ("data/root/own/refs", "data/root", {}, "is inside of the repository"),
        ("data/root/own", "data/root", {}, "is inside of the repository"),
        ("data/root/other", "data/root", {"recursiveFileLookup": True}, None),
    ],
)
def test_a_source_that_would_read_the_repository_is_refused(tmp_path, source, root, options, refusal) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    p = tm.Pipeline("own")
    p.read(tm.Files(str(tmp_path / source), format="json", schema="k string", **options)).groupBy("k").agg(n=tm.count())
    if refusal is None:
        check_places(p, str(tmp_path / root), {})
        return
    with pytest.raises(tm.InvalidInput, match=refusal):
        check_places(p, str(tmp_path / root), {})


def test_an_init_that_is_refused_writes_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, root="in/root", recursiveFileLookup=True)
    with pytest.raises(tm.InvalidInput, match="contains the repository"):
        world.open()
    assert not list(world.inbox.iterdir())


@pytest.mark.parametrize(
    ("sink", "is_refused"),
    [
        ("root/own", True),
        ("root/own/state/counts", True),
        ("link/own/output", True),
        ("root/other", False),
        ("root", False),
        ("root/own-files", False),
    ],
)
def test_a_sink_inside_of_the_repository_is_refused(tmp_path: Path, sink: str, is_refused: bool) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "root")
    p = tm.Pipeline("own")
    p.read(tm.Files(str(tmp_path / "in"), format="json", schema=SCHEMA)).write(tm.Json(str(tmp_path / sink)))
    if not is_refused:
        check_places(p, str(tmp_path / "root"), {})
        return
    with pytest.raises(InvalidInput, match="which is inside of the repository .*/root/own"):
        check_places(p, str(tmp_path / "root"), {})
