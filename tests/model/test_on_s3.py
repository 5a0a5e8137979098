"""A whole pipeline on an S3 server: files, repository and sink in a bucket give the same result as local folders."""

from __future__ import annotations

import pyarrow.parquet as pq

import tidemill as tm
from tests.model import same_result
from tidemill.store import open_store


def pipeline_at(source: str, sink: str):
    """Return the pipeline of `same_result` with other places for source and sink."""

    def make(folder):
        p = tm.Pipeline("same")
        p.batch_time(lambda plan: same_result.START_US // 1000 + 600_000 * (int(plan.splits[-1].path[:3]) + 1))
        rows = p.read(
            tm.Files(source, schema="user string, shop int, ts timestamp, value double", maxFilesPerTrigger=2)
        ).withWatermark("ts", "5 minutes", late="drop")
        rows.groupBy("user").mapWithState(
            tm.StateSpec.function(same_result.running).timeout("3 minutes", clock="event"), name="running",
            stateSchema="total double, n long",
            outputSchema="user string, total double, bucket long, at long, closed boolean",
        ).write(tm.Parquet(sink))  # fmt: skip
        return p

    return make


def test_files_state_and_outputs_in_a_bucket_equal_those_in_folders(tmp_path, s3_server, monkeypatch):
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "data").mkdir()
    folder = same_result.make_files(tmp_path / "data")
    root = s3_server.new_root()
    inbox = open_store(f"{root}/inbox")
    for file in sorted(folder.iterdir()):
        inbox.put(file.name, file.read_bytes())
    make_local = pipeline_at(str(folder), str(tmp_path / "published"))
    local = same_result.result(folder, f"{tmp_path}/root", "local", 2, pipeline=make_local)
    make_remote = pipeline_at(f"{root}/inbox", f"{root}/published")
    remote = same_result.result(folder, f"{root}/repository", "local", 3, pipeline=make_remote)
    same_result.same(local, remote)
    published = open_store(f"{root}/published")
    names = [entry.name for entry in published.list("")]
    assert names and all(name.startswith("same.running-") for name in names)
    rows = [row for name in names for row in pq.read_table(_buffer(published.get(name))).to_pylist()]
    assert rows == remote["outputs running"].to_pylist()


def _buffer(data: bytes):
    import pyarrow as pa

    return pa.BufferReader(data)


def test_unreadable_credentials_give_one_clear_error_without_the_secret(tmp_path, s3_server, monkeypatch):
    import pytest

    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "nowhere"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    p = tm.Pipeline("secret")
    p.read(tm.Rows("k string")).groupBy("k").agg(n=tm.count())
    with pytest.raises(tm.StoreUnavailable) as caught:
        tm.open(p, root=f"{s3_server.new_root()}/other").init()
    assert "credentials" in caught.value.first_line
