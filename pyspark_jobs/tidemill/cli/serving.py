"""The page of `tidemill report` from a small HTTP server: each load reads the repository again, and looks up a key.

INVARIANT: it listens on 127.0.0.1 alone, reads only, and answers only requests that name this machine as their host, so
that no web page elsewhere can read it under a name of its own.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..errors import InvalidInput, StoreUnavailable, TidemillError

HOST = "127.0.0.1"
_NAMES = (HOST, "localhost")
_TIMEOUT_S = 60
"""After this long the connection of a silent client is closed."""
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}

Page = Callable[[Mapping[str, str]], str]
"""Returns the page for the fields of a query, such as `operator` and `key`."""


class Server(ThreadingHTTPServer):
    """Serves one page on 127.0.0.1. Port 0 is any that is free.

    When it is closed, it waits for the answers under way. A thread that Python ends in the middle of native code would
    abort the process.
    """

    daemon_threads = False

    def __init__(self, port: int, page: Page) -> None:
        self.page = page
        self._connections: set[Any] = set()
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InvalidInput(
                f"serve the report on {HOST}:{port}: {getattr(error, 'strerror', None) or error}",
                hint="choose another port with --port, or leave it out for any that is free",
            ) from error

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def serve_until_interrupted(self) -> None:
        """Serve until Ctrl-C, which raises nothing here: it could end a connection in the middle of its first call."""
        before = signal.getsignal(signal.SIGINT)
        is_asked = threading.current_thread() is threading.main_thread() and before not in (signal.SIG_IGN, None)
        if is_asked:  # a job in the background ignores it, and other threads cannot ask for it
            signal.signal(signal.SIGINT, lambda *_: threading.Thread(target=self.shutdown).start())
        try:
            self.serve_forever()
        finally:
            if is_asked:
                signal.signal(signal.SIGINT, before)

    def server_close(self) -> None:
        """Stop listening, end the connections of silent clients, and wait for the answers under way."""
        for one in list(self._connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RD)
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = _TIMEOUT_S
    server_version = "Tidemill"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the page, or with why it cannot be made."""
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if host not in _NAMES:
            self._answer(HTTPStatus.FORBIDDEN, f"this server is {self.server.url}")
            return
        asked = urlsplit(self.path)
        if asked.path != "/":
            self._answer(HTTPStatus.NOT_FOUND, f"there is only {self.server.url}")
            return
        query = {name: values[-1] for name, values in parse_qs(asked.query, keep_blank_values=True).items()}
        try:
            page = self.server.page(query)
        except TidemillError as error:
            status = HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, StoreUnavailable) else HTTPStatus.BAD_REQUEST
            self._answer(status, str(error))
        else:
            self._answer(HTTPStatus.OK, page, "text/html")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the paths of requests contain keys."""
        del format, args

    def _answer(self, status: HTTPStatus, text: str, kind: str = "text/plain") -> None:
        body = text.encode(errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
