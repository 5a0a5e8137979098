"""`tm.read`: everything that reading with the code gives, without the code."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import tidemill as tm
from tests.journeys.everything import make, pipeline
from tests.servers.s3 import S3Server
from tests.world import World, over, run
from tidemill.store.s3 import S3Store


class Both(NamedTuple):
    """A repository opened with its code, and read without it; on `main` and on the branch `fix`."""

    folder: Path
    root: str
    options: Any
    code: tm.Repository
    none: tm.Reader
    fix: tm.Repository
    fix_none: tm.Reader


def made(folder: Path, root: str, options: Any = None) -> Both:
    make(folder, root, options)
    return Both(
        folder, root, options,
        tm.open(pipeline(folder, "sums"), root, storage_options=options),
        tm.read(root, "everything", storage_options=options),
        tm.open(pipeline(folder), root, branch="fix", storage_options=options),
        tm.read(root, "everything", branch="fix", storage_options=options),
    )  # fmt: skip


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("everything")
    return made(folder, str(folder / "root"))


def test_reading_from_s3_is_the_same(tmp_path: Path, s3_server: S3Server) -> None:
    on_s3 = made(tmp_path, s3_server.new_root(), {"root": s3_server.options})
    store = on_s3.none.opened.store
    assert isinstance(store, S3Store)
    verbs: set[str] = set()
    for client in (store._clients.main, store._clients.once):
        client.meta.events.register("before-call.s3", lambda params, **_: verbs.add(params["method"]))
    for operator in on_s3.code.opened.job.operators:
        same(lambda: on_s3.code.state(operator), lambda: on_s3.none.state(operator))  # noqa: B023
    for sink in on_s3.code.opened.job.outputs:
        same(lambda: on_s3.code.outputs(sink=sink), lambda: on_s3.none.outputs(sink=sink))  # noqa: B023
    same(lambda: on_s3.code.diff(0, "fix"), lambda: on_s3.none.diff(0, "fix"))
    assert on_s3.none.history("sums", "a") == on_s3.code.history("sums", "a")
    on_s3.none.status(), on_s3.none.quarantine(), on_s3.none.changes("sums", 0, "main")
    assert verbs <= {"GET", "HEAD"}, "reading needs no permission to write"
    assert on_s3.none.log() == on_s3.code.log() and on_s3.fix_none.head == on_s3.fix.head
    with pytest.raises(tm.InvalidInput, match="pipeline `other` has no repository under s3://"):
        tm.read(on_s3.root, "other", storage_options=on_s3.options)


def outcome(call: Callable[[], Any]) -> Any:
    """The result of a call, or its error."""
    try:
        return call()
    except tm.TidemillError as error:
        return type(error), str(error)


def same(with_code: Callable[[], Any], without: Callable[[], Any]) -> Any:
    expected, found = outcome(with_code), outcome(without)
    assert type(expected) is type(found), (expected, found)
    if isinstance(expected, pa.Table):
        assert found.schema == expected.schema
    assert found == expected
    return found


VERSIONS: list[Any] = [None, -1, *range(12), "noon", "fix", "fix@tried", "fix@0", "main", "nothing", "fix@99"]
VARIABLES = {"pages": ["count", "seen", "by", "timers", "none"]}


def test_state_of_every_operator_in_every_version_is_the_same(both: Both) -> None:
    tables = 0
    operators = [*both.code.opened.job.operators, "totals", "unknown", None]
    for operator in operators:
        for version in VERSIONS:
            for partial in (False, True):
                asked: dict[str, Any] = {"operator": operator, "version": version, "partial": partial}
                found = same(lambda: both.code.state(**asked), lambda: both.none.state(**asked))  # noqa: B023
                tables += isinstance(found, pa.Table) and found.num_rows > 0
                for variable in VARIABLES.get(str(operator), []):
                    same(
                        lambda: both.code.state(**asked, variable=variable),  # noqa: B023
                        lambda: both.none.state(**asked, variable=variable),  # noqa: B023
                    )
    assert tables > 100
    assert both.none.state("sums").num_rows == 3 and "mean" in both.none.state("totals", version=0).column_names


def test_state_of_a_branch_is_the_same_in_every_version(both: Both) -> None:
    for operator in (*both.fix.opened.job.operators, "sums"):
        for version in VERSIONS:
            same(lambda: both.fix.state(operator, version), lambda: both.fix_none.state(operator, version))  # noqa: B023
    assert both.fix_none.state("totals").num_rows and repr(both.fix_none).startswith("Reader(")


def test_state_by_keys_condition_columns_and_time_is_the_same(both: Both) -> None:
    for asked in (
        {"operator": "sums", "keys": ["a", "zz"]}, {"operator": "sums", "where": "total > 4"},
        {"operator": "sums", "columns": ["k", "mean"]}, {"operator": "sums", "columns": ["kk"]},
        {"operator": "sums", "as_of": 101_000}, {"operator": "sums", "as_of": "1970-01-01T00:01:41+00:00"},
        {"operator": "latest", "as_of": 0}, {"operator": "sums", "keys": [1]},
        {"operator": "sums", "as_of": 1, "version": 1},
    ):  # fmt: skip
        same(lambda: both.code.state(**asked), lambda: both.none.state(**asked))  # type: ignore[arg-type]  # noqa: B023
    assert both.code.version_at(101_000) == both.none.version_at(101_000) >= 0


def test_outputs_of_every_sink_in_every_version_are_the_same(both: Both) -> None:
    sinks = [*both.code.opened.job.outputs, "unknown", None]
    filled = 0
    for sink in sinks:
        for version in VERSIONS:
            found = same(lambda: both.code.outputs(version, sink), lambda: both.none.outputs(version, sink))  # noqa: B023
            filled += isinstance(found, pa.Table) and found.num_rows > 0
        same(lambda: both.code.outputs(sink=sink, limit=2), lambda: both.none.outputs(sink=sink, limit=2))  # noqa: B023
        same(lambda: both.fix.outputs(sink=sink), lambda: both.fix_none.outputs(sink=sink))  # noqa: B023
    assert filled > 20


def test_quarantine_is_the_same(both: Both) -> None:
    for version in VERSIONS:
        same(lambda: both.code.quarantine(version), lambda: both.none.quarantine(version))  # noqa: B023
    for source in ("days", "unknown"):
        same(lambda: both.code.quarantine(1, source=source), lambda: both.none.quarantine(1, source=source))  # noqa: B023
    kinds = {kind for version in range(6) for kind in both.none.quarantine(version)["kind"].to_pylist()}
    assert kinds == {"late", "failed", "unreadable"}
    with pytest.raises(tm.InvalidInput, match="columns of the sources, needs the pipeline's code"):
        both.none.quarantine(1, export=True)


def test_commits_log_branches_tags_and_head_are_the_same(both: Both) -> None:
    for code, none in ((both.code, both.none), (both.fix, both.fix_none)):
        assert none.commits() == code.commits() and none.log() == code.log() and none.head == code.head
        assert none.commits(since="noon") == code.commits(since="noon") and none.log(2) == code.log(2)
        assert none.branches() == code.branches() and none.tags() == code.tags()
        assert none.commit("fix@tried") == code.commit("fix@tried")
    same(lambda: both.code.commit(77), lambda: both.none.commit(77))
    assert {one.kind for one in both.none.log()} >= {"batch", "rewind", "migrate", "sweep"}


def test_status_is_the_same_but_for_waiting_files(both: Both) -> None:
    moving = ("since_commit_s", "watermark_lag_s", "problem", "waiting_files")
    for code, none in ((both.code.status(), both.none.status()), (both.fix.status(), both.fix_none.status())):
        assert none.problem == "waiting files are not listed, because that needs the pipeline's code"
        assert none.waiting_files == {} and code.problem is None
        found, expected = dataclasses.asdict(none), dataclasses.asdict(code)
        assert {name: one for name, one in found.items() if name not in moving} == {
            name: one for name, one in expected.items() if name not in moving
        }


PAIRS: list[tuple[Any, Any]] = [(-1, 0), (0, "main"), ("main", "fix"), ("noon", 0)]


def test_diff_and_changes_are_the_same(both: Both) -> None:
    found = 0
    for a, b in PAIRS:
        for operator in (*both.code.opened.job.operators, "totals"):
            for partial in (False, True) if operator in ("sums", "hourly", "visits") else (False,):
                asked: dict[str, Any] = {"operator": operator, "partial": partial}
                one = same(lambda: both.code.diff(a, b, **asked), lambda: both.none.diff(a, b, **asked))  # noqa: B023
                found += getattr(one, "total", 0)
            for each in (False, True):
                same(
                    lambda: both.code.changes(operator, a, b, each),  # noqa: B023
                    lambda: both.none.changes(operator, a, b, each),  # noqa: B023
                )
        for sink in both.code.opened.job.outputs:
            same(lambda: both.code.diff(a, b, sink=sink), lambda: both.none.diff(a, b, sink=sink))  # noqa: B023
        same(lambda: both.code.diff(a, b), lambda: both.none.diff(a, b))  # noqa: B023
    assert found > 20


def test_history_is_the_same_but_for_rows(both: Both) -> None:
    checked, fired = 0, 0
    for operator in both.code.opened.job.operators:
        placed = both.code.opened.job.operators[operator]
        for version in [None] if operator == "sums" else [0, 3, None]:
            rows = both.code.state(operator, version, partial=True)
            keys = {tuple(row[name] for name in placed.operator.maps[0].key.names) for row in rows.to_pylist()}
            for key in keys:
                asked = key[0] if len(key) == 1 else key
                expected, found = both.code.history(operator, asked), both.none.history(operator, asked)
                assert [one.version for one in found] == [one.version for one in expected]
                for one, other in zip(expected, found, strict=True):
                    assert other == one and (other.value, other.files) == (one.value, one.files)
                    assert other.rows == [] and (other.unread != []) == bool(one.files)
                    assert set(other.fired) <= set(one.fired)
                    if other.fired != one.fired:
                        assert "fired" in other.unread[-1]
                    fired += len(other.fired)
                    checked += 1
    assert checked > 30 and fired > 3


def test_explain_gives_the_history_of_a_key_and_refuses_the_graph(
    both: Both, capsys: pytest.CaptureFixture[str]
) -> None:
    both.none.explain("sums", key="a")
    said = capsys.readouterr().out
    assert "version 0 (batch" in said and "not read: input rows are read by the pipeline's code" in said
    with pytest.raises(tm.InvalidInput, match="the graph of a pipeline needs the pipeline's code"):
        both.none.explain()
    with pytest.raises(tm.InvalidInput, match="the pipeline has 8 operators"):
        both.none.explain(key="a")


def test_reading_writes_nothing_and_needs_neither_code_nor_input(both: Both, tmp_path: Path) -> None:
    shutil.copytree(both.root, tmp_path / "copy")
    copy = tmp_path / "copy"
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    reader = tm.read(str(copy), "everything")
    assert reader.state("sums") == both.code.state("sums")
    assert reader.outputs(sink="windows") == both.code.outputs(sink="windows")
    reader.diff(0, "main"), reader.history("sums", "a"), reader.status(), reader.quarantine()
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in copy.iterdir()) == ["everything"]


def test_a_reader_has_no_member_that_writes() -> None:
    writers = [one for one in tm.Repository.__mro__ if one not in tm.Reader.__mro__]
    only = {name for one in writers for name in vars(one) if not name.startswith("_")}
    assert only >= {"run", "init", "sweep", "tag", "rewind", "maintain", "migrate", "replay", "verify", "check"}
    assert not {name for name in only if hasattr(tm.Reader, name)}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"pipeline": "everythin"},
            "pipeline `everythin` has no repository under .*\nhint: a repository is the folder",
        ),
        ({"pipeline": "No Name"}, "invalid pipeline name 'No Name'"),
        ({"pipeline": 7}, "found pipeline=7, expected the name of a pipeline"),
        ({"branch": "fux"}, "unknown branch `fux`; did you mean `fix`"),
        ({"conf": {"tidemill.no": 1}}, "no"),
        ({"root": ""}, "read: root is ''"),
        ({"root": "s3://key:secret@lake/x"}, "read: root: the URL contains credentials"),
        ({"storage_options": {"rot": {}}}, "unknown section of storage_options `rot`; did you mean `root`"),
    ],
)
def test_what_read_refuses(both: Both, asked: dict[str, Any], said: str) -> None:
    given = {"root": both.root, "pipeline": "everything", "storage_options": both.options, **asked}
    with pytest.raises(tm.InvalidInput, match=said):
        tm.read(**given)


def test_a_repository_given_as_root_is_refused(both: Both) -> None:
    with pytest.raises(tm.InvalidInput, match="is the repository of a pipeline, expected the folder above it"):
        tm.read(f"{both.root}/everything", "everything", storage_options=both.options)


def test_a_reader_sees_what_is_committed_after_it_was_opened(tmp_path: Path) -> None:
    one, two = (
        lambda rows, name=name: rows.groupBy("k").agg(n=tm.count(), mean=tm.mean("v"), name=name)
        for name in ("one", "two")
    )
    world = World(tmp_path, over(one), name="later")
    first = world.open()
    reader = tm.read(world.root, "later")
    assert reader.head is None and reader.state().num_rows == 0 and reader.state("one").column_names[:2] == ["k", "n"]
    with pytest.raises(tm.InvalidInput, match="has no version yet, so it does not know the sinks"):
        reader.outputs()
    assert reader.quarantine().num_rows == 0 and reader.log() == [] and reader.status().head == -1
    world.arrive("a,1\na,2\n")
    run(first)
    assert reader.state(columns=["k", "n", "mean"]).to_pylist() == [{"k": "a", "n": 2, "mean": 1.5}]
    assert reader.outputs().num_rows == 1
    second = world.but(over(one, two)).open()
    assert reader.state("two").num_rows == 0
    world.arrive("b,1\n")
    run(second)
    assert reader.state("two", columns=["k"]).to_pylist() == [{"k": "b"}] and reader.outputs(sink="two").num_rows == 1
    with pytest.raises(tm.InvalidInput, match="unknown operator `too`; did you mean `two`"):
        reader.state("too")


def test_initial_state_is_read_before_the_first_batch(tmp_path: Path) -> None:
    p = tm.Pipeline("seeded")
    p.read(tm.Rows("k string, v int")).groupBy("k").agg(total=tm.sum("v"), name="totals")
    r = tm.open(p, str(tmp_path / "root"))
    r.init(initial_state={"totals": pa.table({"k": ["a"], "total": pa.array([4], pa.int64())})})
    reader = tm.read(str(tmp_path / "root"), "seeded")
    assert reader.state("totals") == r.state("totals") and reader.state("totals", version=-1).num_rows == 1


def test_times_without_an_offset_are_in_utc(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.csv").write_text("a\n")
    p = tm.Pipeline("zones", timeZone="America/New_York")
    p.read(tm.Files(str(tmp_path / "in"), format="csv", schema="k string")).groupBy("k").agg(n=tm.count(), name="n")
    r = tm.open(p, str(tmp_path / "root"))
    r.init()
    r.run(engine="local", batch_time="2020-01-01T00:00:00-05:00")
    reader = tm.read(str(tmp_path / "root"), "zones")
    assert (r.version_at("2020-01-01 00:00"), reader.version_at("2020-01-01 00:00")) == (0, -1)
    assert reader.version_at("2020-01-01 05:00") == 0 and reader.state(as_of="2020-01-01 05:00").num_rows == 1
    with pytest.raises(tm.InvalidInput, match="before the first version"):
        reader.state(as_of="2020-01-01 04:59")


def test_nothing_that_the_repository_names_is_imported_or_run(both: Both, tmp_path: Path) -> None:
    script = f"""
import sys, tidemill as tm
r = tm.read({both.root!r}, "everything")
assert r.state("sums").num_rows == 3 and r.state("pages", variable="seen", version=0).num_rows
r.history("latest", "a"), r.outputs(sink="visits"), r.diff(0, "main"), r.commits(), r.quarantine()
loaded = [name for name in sys.modules if "everything" in name or name in ("pyspark", "airflow")]
assert not loaded, loaded
print("read")
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("read\n", 0), done.stderr
