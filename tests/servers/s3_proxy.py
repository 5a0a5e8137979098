"""A proxy before the S3 server of the tests: it records every request, and fails those that a plan names.

It runs in threads of the test's process, on 127.0.0.1, so that child processes can use it too. INVARIANT: requests are
numbered in the order in which they arrive, and a fault never changes what an answer says about the object.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import sys
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from tests.servers.s3 import S3Server

_DROPPED = {"connection", "transfer-encoding", "content-length", "keep-alive", "date", "server"}


@dataclass(frozen=True)
class Request:
    """A request: its number from 0, its kind as S3 bills it, and the object's key (of LIST: the prefix)."""

    number: int
    kind: str
    key: str
    is_conditional: bool = False


@dataclass(frozen=True)
class Fault:
    """What happens to one request. `status`: the server is not asked, and the answer is this error.

    `status` 0: the connection is closed. `after`: the server does what is asked first, so that only its answer is lost.
    `delay_s`: the request waits before it is passed on. `twice`: the server is asked twice, and the second answer is
    passed on. `late_s`: the connection is closed at once, and the server is asked so much later, after other requests.
    """

    status: int = 0
    code: str = ""
    after: bool = False
    delay_s: float = 0.0
    twice: bool = False
    late_s: float = 0.0


Plan = Callable[[Request], "Fault | None"]


class _Quiet(ThreadingHTTPServer):
    """Does not print that a client was killed."""

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class S3Proxy:
    """A running proxy: `endpoint_url`, `environment` for clients, `requests` so far, and `plan`, which makes faults."""

    def __init__(self, server: S3Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self.requests: list[Request] = []
        self.sizes: Counter[int] = Counter()
        """Bytes of the bodies of a request and its answers, by the number of the request."""
        self.spans: dict[int, tuple[float, float]] = {}
        """When a request arrived and when it was answered, in seconds of one clock, by the number of the request."""
        self.plan: Plan = lambda request: None
        self._late: list[threading.Timer] = []
        self._http = _Quiet(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of AWS for a client of the proxy."""
        return self._server.environment | {"AWS_ENDPOINT_URL": self.endpoint_url}

    @contextmanager
    def recorded(self) -> Iterator[list[Request]]:
        """Yield a list that has the requests of the block when the block ends."""
        found: list[Request] = []
        start = len(self.requests)
        yield found
        found.extend(self.requests[start:])

    def settle(self) -> None:
        """Wait until the server has been asked everything that arrives late."""
        while self._late:
            self._late.pop().join()

    def _later(self, delay_s: float, verb: str, target: str, body: bytes, headers: dict[str, str]) -> None:
        def ask() -> None:
            with contextlib.suppress(http.client.HTTPException, OSError):
                connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
                known = {k: v for k, v in headers.items() if k.lower() not in ("connection", "expect")}
                connection.request(verb, target, body, known)
                connection.getresponse().read()
                connection.close()

        thread = threading.Timer(delay_s, ask)
        thread.daemon = True
        self._late.append(thread)
        thread.start()

    def stop(self) -> None:
        self.settle()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def __enter__(self) -> S3Proxy:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _numbered(self, verb: str, target: str, headers: http.client.HTTPMessage) -> Request:
        path, _, query = target.partition("?")
        asked = urllib.parse.parse_qs(query, keep_blank_values=True)
        key = urllib.parse.unquote(path).removeprefix(f"/{self._server.bucket}").removeprefix("/")
        kind = verb
        if verb == "GET" and not key:
            kind, key = "LIST", asked.get("prefix", [""])[0]
        elif verb == "PUT" and headers.get("x-amz-copy-source"):
            kind = "COPY"
        elif verb == "POST" and "delete" in asked:
            kind = "DELETE"
        with self._lock:
            request = Request(len(self.requests), kind, key, headers.get("If-None-Match") is not None)
            self.requests.append(request)
        return request

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy, upstream = self, ("127.0.0.1", self._server.port)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # or a body waits 40 ms, until the client has acknowledged the headers
            connection_: http.client.HTTPConnection | None = None

            def handle_any(self) -> None:
                started = time.perf_counter()
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = proxy._numbered(self.command, self.path, self.headers)
                self._answer(request, body)
                proxy.spans[request.number] = started, time.perf_counter()

            def _answer(self, request: Request, body: bytes) -> None:
                fault = proxy.plan(request)
                if fault is not None:
                    if fault.late_s:
                        proxy._later(fault.late_s, self.command, self.path, body, dict(self.headers.items()))
                        self._hang_up()
                        return
                    time.sleep(fault.delay_s)
                    if fault.twice:
                        self._ask(body)
                    if fault.after:
                        self._ask(body)
                    if fault.status:
                        self._send(fault.status, {}, _error(fault.code))
                        return
                    if fault.after or not (fault.delay_s or fault.twice):
                        self._hang_up()
                        return
                answer = self._ask(body)
                proxy.sizes[request.number] += len(body) + len(answer[2])
                self._send(*answer)

            def _ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
                for is_last in (False, True):
                    try:
                        if self.connection_ is None:
                            self.connection_ = http.client.HTTPConnection(*upstream, timeout=60)
                        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("connection", "expect")}
                        self.connection_.request(self.command, self.path, body, headers)
                        found = self.connection_.getresponse()
                        return found.status, dict(found.getheaders()), found.read()
                    except (http.client.HTTPException, OSError):
                        self.connection_ = None  # the server closed a connection that was kept
                        if is_last:
                            raise
                raise AssertionError

            def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in _DROPPED:
                        self.send_header(name, value)
                length = len(body)
                if self.command == "HEAD":
                    length = int({k.lower(): v for k, v in headers.items()}.get("content-length", 0))
                self.send_header("Content-Length", str(length))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def _hang_up(self) -> None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any

            def log_message(self, format: str, *args: object) -> None:
                return

        return Handler


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>a planned fault</Message></Error>".encode()


def longest_chain(spans: Sequence[tuple[float, float]]) -> int:
    """Return the greatest number of requests of which each began after the one before it had been answered."""
    length, last_end = 0, float("-inf")
    for start, end in sorted(spans, key=lambda span: span[1]):
        if start >= last_end:
            length, last_end = length + 1, end
    return length


def counts(requests: Sequence[Request]) -> dict[str, int]:
    """Return how many requests there are of each kind."""
    return dict(sorted(Counter(request.kind for request in requests).items()))
