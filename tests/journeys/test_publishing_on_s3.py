"""Publishing on S3: the requests that it costs, and that copies are conditional."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.shop import arrive, world
from tests.servers.s3 import S3Server
from tests.world import run
from tidemill.store import open_store
from tidemill.store.s3 import S3Store


@pytest.fixture
def requests(s3_server: S3Server) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
    """A root, storage options, and the requests that were made: verb and place."""
    root = s3_server.new_root()
    store = open_store(root, s3_server.options)
    assert isinstance(store, S3Store)
    made: list[str] = []
    clients = store._clients

    def note(model: Any, params: Any, **_: object) -> None:
        verb = {"CopyObject": "COPY", "ListObjectsV2": "LIST", "DeleteObjects": "DELETE"}.get(model.name)
        prefix = params["query_string"].get("prefix", "") if verb == "LIST" else ""
        where = f"{params['url_path']}/{prefix}"
        place = "sink" if "/sink/" in where else "record" if "/published/" in where else "root"
        made.append(f"{verb or params['method']} {place}")

    for client in (clients.main, clients.once):
        client.meta.events.register("before-call.s3", note)
    yield root, dict.fromkeys(("root", "sink"), s3_server.options), made
    for client in (clients.main, clients.once):
        client.meta.events.unregister("before-call.s3", note)


def on_s3(tmp_path: Path, root: str, options: dict[str, Any], partition_by: tuple[str, ...] = ()) -> tm.Repository:
    shop = world(tmp_path, sink=tm.Parquet(f"{root}/sink", partitionBy=partition_by))
    p = shop.but(maxFilesPerTrigger=None).pipeline()
    r = tm.open(p, root=f"{root}/root", storage_options=options)
    r.init()
    return r


def test_an_idle_run_asks_for_one_record_and_never_for_the_sink(
    tmp_path: Path, requests: tuple[str, dict[str, Any], list[str]]
) -> None:
    root, options, made = requests
    arrive(tmp_path, *"abcdefgh")
    run(on_s3(tmp_path, root, options, ("k",)))
    r = on_s3(tmp_path, root, options, ("k",))
    made.clear()
    assert run(r) == []
    assert [one for one in made if not one.endswith("root")] == ["GET record"]


def test_publishing_costs_a_listing_and_a_copy_and_a_record(
    tmp_path: Path, requests: tuple[str, dict[str, Any], list[str]]
) -> None:
    root, options, made = requests
    arrive(tmp_path, "a")
    r = on_s3(tmp_path, root, options)
    run(r)
    arrive(tmp_path, "b")
    run(r)  # finds that the place has no files of others
    arrive(tmp_path, "c")
    made.clear()
    assert run(r) == [2]
    asked = [one for one in made if not one.endswith("root")]  # nothing for the version before, which we published
    assert sorted(asked[:2]) == ["GET record", "LIST sink"]  # at once
    assert asked[2:] == ["COPY sink", "PUT record"]


def test_an_output_object_that_was_replaced_on_s3_is_not_published(
    tmp_path: Path, requests: tuple[str, dict[str, Any], list[str]]
) -> None:
    root, options, _ = requests
    arrive(tmp_path, "a")
    r = on_s3(tmp_path, root, options)
    run(r)
    [file] = r.head.outputs["counts"]
    [record_name] = [entry.name for entry in r.opened.store.list("published/")]
    r.opened.store.delete(record_name)
    sink = open_store(f"{root}/sink", options["sink"])
    sink.delete_many([entry.name for entry in sink.list()])
    r.opened.store.put(file.name, b"another object")
    with pytest.raises(tm.CorruptState, match="found checksum .*, but the commit records"):
        run(on_s3(tmp_path, root, options))
    assert list(sink.list()) == []


def test_an_output_object_that_was_copied_in_parts_has_another_etag_and_is_published(
    tmp_path: Path, requests: tuple[str, dict[str, Any], list[str]]
) -> None:
    root, options, _ = requests
    arrive(tmp_path, "a")
    r = on_s3(tmp_path, root, options)
    run(r)
    [file] = r.head.outputs["counts"]
    store, sink = r.opened.store, open_store(f"{root}/sink", options["sink"])
    assert isinstance(store, S3Store)
    [published] = sink.list()
    data = sink.get(published.name)
    sink.delete(published.name)
    [record_name] = [entry.name for entry in store.list("published/")]
    store.delete(record_name)
    where, client = store._where(file.name), store._clients.main
    upload = client.create_multipart_upload(**where)["UploadId"]
    part = client.upload_part(**where, UploadId=upload, PartNumber=1, Body=store.get(file.name))["ETag"]
    parts = {"Parts": [{"ETag": part, "PartNumber": 1}]}
    client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload=parts)
    copied = store.stat(file.name)
    assert copied is not None and copied.etag != file.etag
    assert r.verify().problems == []
    assert run(on_s3(tmp_path, root, options)) == []
    assert [entry.name for entry in sink.list()] == [published.name] and sink.get(published.name) == data
    assert on_s3(tmp_path, root, options).verify(deep=True).problems == []
