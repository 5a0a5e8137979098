"""A scripted S3 server, which answers as a test says, and an environment without AWS settings."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tidemill.store import Store, open_store, probe
from tidemill.store import s3 as s3_module
from tidemill.store.s3 import S3Store
from tidemill.store.s3_client import Clients

SECRET = "wJalrXUtnFEMI-K7MDENG"


@dataclass
class Scripted:
    """A server that gives scripted answers, repeats the last one, and records the requests."""

    endpoint_url: str = ""
    answers: list[tuple[int, str]] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    date: str | None = None

    def options(self, **more: object) -> dict[str, object]:
        return {
            "endpoint_url": self.endpoint_url,
            "region_name": "us-east-1",
            "aws_access_key_id": "AKIATEST",
            "aws_secret_access_key": SECRET,
            **more,
        }

    def store(self, **more: object) -> Store:
        return open_store("s3://bucket/root", self.options(**more))

    def answer(self) -> tuple[int, str]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def clients_of(store: Store) -> Clients:
    assert isinstance(store, S3Store)
    return store._clients


@pytest.fixture
def scripted(scripted_server: Scripted) -> Scripted:
    scripted_server.answers.clear()
    scripted_server.asked.clear()
    scripted_server.date = None
    return scripted_server


@pytest.fixture(scope="module")
def scripted_server() -> Iterator[Scripted]:
    """One server for all tests, because boto3 is slow to make a client for an endpoint."""
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def date_time_string(self, timestamp: float | None = None) -> str:
            return script.date or super().date_time_string(timestamp)

        def handle_any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            script.asked.append((self.command, self.path, dict(self.headers.items())))
            status, code = script.answer()
            if status == 0:  # the request is processed, but the answer is lost
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            if status == -1:  # the answer breaks off
                self.send_response(200)
                self.send_header("Content-Length", "10")
                self.end_headers()
                self.wfile.write(b"half")
                self.close_connection = True
                return
            body = f"<Error><Code>{code}</Code><Message>because of {code}</Message></Error>".encode() if code else b""
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status == 301 and code:
                self.send_header("x-amz-bucket-region", "eu-central-1")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    script.endpoint_url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield script
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_module, "CONFLICT_PAUSES_S", (0.0, 0.0, 0.0))
    monkeypatch.setattr(sys.modules[probe.__module__], "_PAUSES_S", (0.0, 0.0, 0.0))


@pytest.fixture
def no_aws_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
