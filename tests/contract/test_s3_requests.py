"""Copies, bulk deletes and the clock of the S3 store: their requests, and what they do when a server refuses."""

from __future__ import annotations

import os
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import Scripted, clients_of
from tests.servers.s3 import S3Server
from tidemill.errors import StoreUnavailable
from tidemill.store import ObjectReplaced, open_store, probe
from tidemill.store import s3 as s3_module

pytestmark = pytest.mark.usefixtures("no_pauses", "no_aws_around")


def test_a_copy_is_one_request_conditional_on_the_etag_of_the_source(s3_server: S3Server) -> None:
    store = open_store(s3_server.new_root(), s3_server.options)
    etag = store.put("a", b"content")
    sent: list[tuple[str, object]] = []
    events = clients_of(store).main.meta.events

    def note(model: Any, params: Any, **_: object) -> None:
        sent.append((model.name, params["headers"].get("x-amz-copy-source-if-match")))

    events.register("before-call.s3", note)
    try:
        store.copy("a", "b", etag)
    finally:
        events.unregister("before-call.s3", note)
    assert sent == [("CopyObject", f'"{etag}"')]


def test_a_thousand_names_are_deleted_in_one_request(scripted: Scripted) -> None:
    scripted.answers = [(200, "")]
    scripted.store().delete_many([str(number) for number in range(1500)])
    assert [(verb, path) for verb, path, _ in scripted.asked] == [("POST", "/bucket?delete")] * 2


def test_what_a_bulk_delete_refused_is_deleted_by_name(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(s3_server.new_root(), s3_server.options)
    for name in "abc":
        store.put(name, b"")
    key = f"{store.uri.removeprefix('s3://').partition('/')[2]}/b"
    error = {"Key": key, "Code": "InternalError", "Message": "try again"}
    monkeypatch.setattr(clients_of(store).main, "delete_objects", lambda **_: {"Errors": [error]})
    store.delete_many(["a", "b", "c"])
    assert [entry.name for entry in store.list()] == ["a", "c"]  # the answer reported `b` alone


@pytest.mark.parametrize("answer", [(400, "MissingContentMD5"), (501, "NotImplemented"), (405, "MethodNotAllowed")])
def test_a_server_without_bulk_delete_deletes_by_name(scripted: Scripted, answer: tuple[int, str]) -> None:
    scripted.answers = [answer, (204, ""), (204, "")]
    scripted.store().delete_many(["a", "b"])
    assert [verb for verb, _, _ in scripted.asked] == ["POST", "DELETE", "DELETE"]


def test_the_reason_of_a_refused_name_is_reported(scripted: Scripted) -> None:
    scripted.answers = [(501, "NotImplemented"), (403, "AccessDenied")]
    with pytest.raises(StoreUnavailable, match=r"^delete `s3://bucket/root/a`: .* \(403 AccessDenied\)"):
        scripted.store(max_attempts=1).delete_many(["a", "b"])


def test_a_failed_bulk_delete_says_how_many_objects(scripted: Scripted) -> None:
    scripted.answers = [(503, "SlowDown")]
    with pytest.raises(StoreUnavailable, match=r"^delete 2 objects of `s3://bucket/root`: .* failed \(503 SlowDown\)"):
        scripted.store(max_attempts=1).delete_many(["a", "b"])


def test_the_clock_is_the_date_of_the_last_answer(scripted: Scripted) -> None:
    store = scripted.store(connect_timeout=9.5)  # a client that no other test shares
    assert store.clock_ms() is None
    scripted.answers = [(404, "NoSuchKey")]
    scripted.date = "Sat, 01 Jan 2000 00:00:30 GMT"
    store.stat("a")
    found = store.at("below").clock_ms()
    assert found is not None
    assert 946_684_830_000 <= found < 946_684_890_000
    scripted.date = "soon"
    store.stat("a")
    assert store.clock_ms() is not None


def test_a_probe_that_gets_a_503_is_retried(scripted: Scripted) -> None:
    scripted.answers = [(503, "SlowDown"), (204, ""), (200, ""), (503, "SlowDown"), (204, ""), (403, "AccessDenied")]
    with pytest.raises(StoreUnavailable, match="403 AccessDenied"):
        probe(scripted.store())
    created = [path for verb, path, _ in scripted.asked if verb == "PUT"]
    assert created[0] != created[1] == created[2] != created[3], "a probe without an answer is repeated by a new name"


def test_a_clock_far_off_is_named_as_the_cause(scripted: Scripted) -> None:
    scripted.answers = [(403, "RequestTimeTooSkewed")]
    with pytest.raises(StoreUnavailable, match="the clock of this machine differs from its own by more than 15 min"):
        scripted.store(max_attempts=1).put("a", b"")


def test_a_very_large_object_is_copied_in_parts(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    part = 5 * 1024**2  # the least that S3 takes
    store = open_store(s3_server.new_root(), s3_server.options)
    data = os.urandom(2 * part + 12345)
    etag = store.put("a b", data)
    whole = store.copy("a b", "whole")
    assert whole is not None
    assert "-" not in whole
    refused = {"Error": {"Code": "InvalidRequest"}, "ResponseMetadata": {"HTTPStatusCode": 400}}

    def refuse(**_: object) -> None:
        raise ClientError(refused, "CopyObject")

    monkeypatch.setattr(clients_of(store).main, "copy_object", refuse)
    monkeypatch.setattr(s3_module, "COPY_WHOLE_BYTES", part)
    monkeypatch.setattr(s3_module, "COPY_PART_BYTES", part)
    copied = store.copy("a b", "c d", etag)
    assert store.get("c d") == data
    assert copied is not None
    assert copied.endswith("-3")  # of three parts
    store.put("a b", data[:-1])
    with pytest.raises(ObjectReplaced):
        store.copy("a b", "c d", etag)
    assert store.get("c d") == data
