"""Guarantees of the S3 store alone: answers of a scripted server become one of the five kinds of error."""

from __future__ import annotations

import os
import re
import socket

import pytest

from tests.contract.conftest import SECRET, Scripted, clients_of
from tests.servers.minio import MinioServer
from tests.servers.s3 import S3Server
from tidemill.errors import InvalidInput, StoreUnavailable, TidemillError
from tidemill.store import ObjectMissing, Store, open_store, probe

pytestmark = pytest.mark.usefixtures("no_pauses", "no_aws_around")


# conditional create


def test_create_asks_for_a_free_name(scripted: Scripted) -> None:
    scripted.answers = [(200, "")]
    assert scripted.store().create("a b", b"content") is True
    [(verb, path, headers)] = scripted.asked
    assert (verb, path, headers["If-None-Match"]) == ("PUT", "/bucket/root/a%20b", "*")


def test_a_taken_name_is_not_an_error(scripted: Scripted) -> None:
    scripted.answers = [(412, "PreconditionFailed")]
    assert scripted.store().create("a", b"") is False
    assert len(scripted.asked) == 1


@pytest.mark.parametrize("answer", [(500, "InternalError"), (503, "SlowDown"), (429, "TooManyRequests"), (0, "")])
def test_a_failed_create_is_not_retried(scripted: Scripted, answer: tuple[int, str]) -> None:
    scripted.answers = [answer, (412, "PreconditionFailed")]
    with pytest.raises(StoreUnavailable, match="^create `s3://bucket/root/a`: "):
        scripted.store().create("a", b"")
    assert len(scripted.asked) == 1


def test_a_failed_put_is_retried(scripted: Scripted) -> None:
    scripted.answers = [(500, "InternalError"), (200, "")]
    scripted.store().put("a", b"")
    assert len(scripted.asked) == 2


def test_a_broken_off_answer_is_read_again(scripted: Scripted) -> None:
    scripted.answers = [(-1, ""), (-1, ""), (200, "")]
    assert scripted.store().get("a") == b""
    assert len(scripted.asked) == 3
    scripted.answers = [(-1, "")]
    with pytest.raises(StoreUnavailable, match="^read `s3://bucket/root/a`: no answer from "):
        scripted.store().get("a")
    assert len(scripted.asked) == 6


def test_a_conflict_is_retried(scripted: Scripted) -> None:
    scripted.answers = [(409, "ConditionalRequestConflict"), (409, "ConditionalRequestConflict"), (200, "")]
    assert scripted.store().create("a", b"") is True
    assert len(scripted.asked) == 3


def test_a_lasting_conflict_is_an_error(scripted: Scripted) -> None:
    scripted.answers = [(409, "ConditionalRequestConflict")]
    message = "create `s3://bucket/root/a`: 4 attempts were answered 409, because another writer is busy"
    with pytest.raises(StoreUnavailable, match=message):
        scripted.store().create("a", b"")
    assert len(scripted.asked) == 4


def test_a_server_without_conditional_create_is_refused(scripted: Scripted) -> None:
    scripted.answers = [(501, "NotImplemented"), (501, "NotImplemented"), (204, "")]
    with pytest.raises(
        InvalidInput,
        match=r"does not support this request \(501 NotImplemented\)\nhint: use a store with conditional create",
    ):
        probe(scripted.store())


def test_a_server_that_ignores_the_condition_is_refused(scripted: Scripted) -> None:
    scripted.answers = [(200, "")]
    with pytest.raises(InvalidInput, match="a second create of the same name succeeded; expected conditional create"):
        probe(scripted.store())


# what answers mean


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        ((403, "AccessDenied"), StoreUnavailable, "refused the credentials (403 AccessDenied)"),
        ((403, "InvalidAccessKeyId"), StoreUnavailable, "refused the credentials (403 InvalidAccessKeyId)"),
        ((401, "Unauthorized"), StoreUnavailable, "refused the credentials (401 Unauthorized)"),
        ((400, "ExpiredToken"), StoreUnavailable, "refused the credentials (400 ExpiredToken)"),
        ((404, "NoSuchBucket"), InvalidInput, "the bucket `bucket` does not exist at http://127.0.0.1"),
        ((301, "PermanentRedirect"), InvalidInput, "the bucket `bucket` is in another region"),
        (
            (400, "InvalidArgument"),
            InvalidInput,
            "refused the request (400 InvalidArgument: because of InvalidArgument)",
        ),
        ((500, "InternalError"), StoreUnavailable, "failed (500 InternalError)"),
        ((503, "SlowDown"), StoreUnavailable, "failed (503 SlowDown)"),
        ((400, "RequestTimeout"), StoreUnavailable, "failed (400 RequestTimeout)"),
        ((0, ""), StoreUnavailable, "no answer from http://127.0.0.1"),
    ],
)
@pytest.mark.parametrize("verb", ["get", "put", "create", "list", "delete"])
def test_an_answer_is_one_of_the_kinds(
    scripted: Scripted, answer: tuple[int, str], kind: type[TidemillError], message: str, verb: str
) -> None:
    scripted.answers = [answer]
    store = scripted.store(max_attempts=1)
    acts = {
        "get": lambda: store.get("a"),
        "put": lambda: store.put("a", b""),
        "create": lambda: store.create("a", b""),
        "list": lambda: list(store.list("a")),
        "delete": lambda: store.delete("a"),
    }
    with pytest.raises(kind) as raised:
        acts[verb]()
    assert message in str(raised.value)
    words = {"get": "read", "put": "write"}
    assert str(raised.value).startswith(f"{words.get(verb, verb)} `s3://bucket/root/a`: ")
    assert SECRET not in str(raised.value)
    assert "because" not in str(raised.value) or kind is InvalidInput


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        ((403, ""), StoreUnavailable, "refused the credentials"),
        ((503, ""), StoreUnavailable, "failed (503"),
        ((400, ""), StoreUnavailable, "refused the request and gave no reason (400)"),
        ((400, "InvalidArgument"), StoreUnavailable, "refused the request and gave no reason (400)"),  # to its HEAD
        ((0, ""), StoreUnavailable, "no answer from"),
    ],
)
def test_a_failed_copy_raises_an_error(
    scripted: Scripted, answer: tuple[int, str], kind: type[TidemillError], message: str
) -> None:
    scripted.answers = [answer]
    with pytest.raises(kind, match=f"^copy to `s3://bucket/root/b`: .*{re.escape(message)}"):
        scripted.store(max_attempts=1).copy("a", "b")


@pytest.mark.parametrize("code", ["", "ExpiredToken", "InvalidArgument"])
def test_a_head_that_is_refused_without_a_reason_may_be_repeated(scripted: Scripted, code: str) -> None:
    """No answer to a HEAD has a body, so an expired token looks like any other bad request."""
    scripted.answers = [(400, code)]
    with pytest.raises(StoreUnavailable, match="^stat `s3://bucket/root/a`: .* gave no reason") as raised:
        scripted.store(max_attempts=1).stat("a")
    assert raised.value.hint == "run again; if that does not help, look whether the credentials have expired"


def test_an_endpoint_that_only_redirects_is_refused(scripted: Scripted) -> None:
    scripted.answers = [(301, "")]
    with pytest.raises(InvalidInput, match="redirects without naming a region; expected the address of an S3 server"):
        scripted.store(max_attempts=1).get("a")


def test_a_missing_object_is_not_a_missing_bucket(scripted: Scripted) -> None:
    scripted.answers = [(404, "NoSuchKey")]
    with pytest.raises(ObjectMissing):
        scripted.store().get("a")
    assert scripted.store().stat("a") is None


def test_an_unreachable_server_is_named() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{bound.getsockname()[1]}"
        store = open_store(
            "s3://bucket",
            {"endpoint_url": endpoint, "aws_access_key_id": "a", "aws_secret_access_key": SECRET, "max_attempts": 1},
        )
        with pytest.raises(StoreUnavailable, match=re.escape(f"no answer from {endpoint} (EndpointConnectionError)")):
            store.get("a")


def test_a_silent_server_times_out(scripted: Scripted) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        store = open_store("s3://bucket", scripted.options(endpoint_url=endpoint, read_timeout=0.1, max_attempts=1))
        with pytest.raises(StoreUnavailable, match=r"\(ReadTimeoutError\)"):
            store.create("a", b"")


# credentials and options


def test_missing_credentials_are_named(scripted: Scripted) -> None:
    store = open_store("s3://bucket", {"endpoint_url": scripted.endpoint_url})
    with pytest.raises(
        StoreUnavailable, match=r"no usable AWS credentials \(NoCredentialsError\)\nhint: give them in storage options"
    ):
        store.get("a")
    assert scripted.asked == []


def test_half_of_the_credentials_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="`aws_access_key_id` and `aws_secret_access_key` must be given together"):
        open_store("s3://bucket", {"aws_secret_access_key": SECRET})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    with pytest.raises(StoreUnavailable, match=r"no usable AWS credentials \(PartialCredentialsError\)"):
        open_store("s3://bucket", {"region_name": "x"}).get("a")


def test_a_missing_profile_is_named() -> None:
    with pytest.raises(StoreUnavailable, match=r"no usable AWS credentials \(ProfileNotFound\)"):
        open_store("s3://bucket", {"profile_name": "missing"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endpoint": "x"}, "unknown storage option `endpoint`.*\nhint: did you mean `endpoint_url`"),
        ({"aws_secret_acces_key": SECRET}, "did you mean `aws_secret_access_key`"),
        ({"zzz": 1}, "unknown storage option `zzz`; expected one of `aws_access_key_id`"),
        ({"addressing_style": "paths"}, "`addressing_style` is 'paths'; expected one of `auto`, `path`, `virtual`"),
        ({"read_timeout": "soon"}, "`read_timeout` is 'soon'; expected a number above 0"),
        ({"max_attempts": 0}, "`max_attempts` is 0; expected a number above 0"),
        ({"endpoint_url": "not a url"}, "open S3: Invalid endpoint: not a url"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        open_store("s3://bucket", options)
    assert SECRET not in str(refused.value)


def test_an_invalid_bucket_name_is_refused(scripted: Scripted) -> None:
    with pytest.raises(InvalidInput, match="Invalid bucket name"):
        open_store("s3://no bucket/a", scripted.options()).get("a")


def test_no_secret_shows(scripted: Scripted) -> None:
    store = scripted.store()
    assert SECRET not in repr(store) + str(store) + store.uri + repr(clients_of(store))


def test_the_endpoint_may_come_from_the_environment(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    store = open_store(s3_server.new_root())
    assert store.create("a", b"content")
    assert open_store(store.uri, s3_server.options).get("a") == b"content"


def test_stores_of_the_same_options_share_their_clients(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = scripted.store(), open_store("s3://other", scripted.options())
    assert clients_of(one) is clients_of(two)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert clients_of(scripted.store()) is not clients_of(one)


def test_a_fork_uses_connections_of_its_own(s3_server: S3Server) -> None:
    store = open_store(s3_server.new_root(), s3_server.options)
    store.put("a", b"content")
    child = os.fork()
    if child == 0:
        fine = store.get("a") == b"content" and clients_of(store).process == os.getpid()
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert clients_of(store).process == os.getpid()


# on the real server


def test_a_bucket_that_does_not_exist_is_named(s3_server: S3Server) -> None:
    store = open_store("s3://no-such-bucket/a", s3_server.options)
    for act in (lambda: store.get("a"), lambda: store.create("a", b""), lambda: list(store.list())):
        with pytest.raises(InvalidInput, match="the bucket `no-such-bucket` does not exist at http://127.0.0.1"):
            act()


def put_key(store: Store, name: str) -> None:
    """Put an object whose name the store itself would refuse."""
    bucket, _, prefix = store.uri.removeprefix("s3://").partition("/")
    clients_of(store).main.put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=b"")


def test_folder_markers_are_skipped(s3_server: S3Server) -> None:
    store = open_store(s3_server.new_root(), s3_server.options)
    store.put("a/b", b"")
    for name in ("", "a/", "empty/"):
        put_key(store, name)
    assert [entry.name for entry in store.list()] == ["a/b"]
    assert [entry.name for entry in store.at("a").list()] == ["b"]


def test_keys_with_an_empty_part_are_skipped_with_one_warning(
    s3_server: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    if isinstance(s3_server, MinioServer):
        pytest.skip("MinIO refuses such keys")
    store = open_store(s3_server.new_root(), s3_server.options)
    store.put("a/b", b"")
    for name in ("a//b", "/c", "a/b//c//d"):
        put_key(store, name)
    for _ in range(2):
        assert [entry.name for entry in store.list()] == ["a/b"]
    [warning] = caplog.messages
    assert warning.startswith(f"list `{store.uri}`: 3 objects are skipped, because no store can address the name")


def test_keys_that_no_store_can_address_are_skipped(s3_server: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(s3_server.new_root(), s3_server.options)
    store.put("a", b"")
    put_key(store, "back\\slash.csv")
    assert [entry.name for entry in store.list()] == ["a"]
    assert "1 object is skipped" in caplog.messages[0]
