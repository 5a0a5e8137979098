"""The page of `tidemill report` from a small HTTP server: each load reads the repository again, and looks up a key.

INVARIANT: it listens on 127.0.0.1 alone, reads only, and answers only requests that name this machine as their host and
have the token of this start. So neither a web page elsewhere nor another user of this machine can read it.
"""

from __future__ import annotations

import contextlib
import hmac
import re
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from ..errors import InvalidInput, StoreUnavailable, TidemillError

HOST = "127.0.0.1"
_HOSTS = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]{1,5})?", re.IGNORECASE)
"""Any port, because a tunnel such as that of `ssh -L` may have another one."""
_TOKEN = "token"
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
    grace_s = 1.0
    """How long it waits when it is closed for requests of clients that have connected."""

    def __init__(self, port: int, page: Page) -> None:
        self.page = page
        self.token = secrets.token_urlsafe(32)
        self._connections: set[Any] = set()
        self._ended = threading.Condition()
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InvalidInput(
                f"serve the report on {HOST}:{port}: {getattr(error, 'strerror', None) or error}",
                hint="choose another port with --port, or leave it out for any that is free",
            ) from error

    @property
    def url(self) -> str:
        """Where the page is, without the token."""
        return f"http://{HOST}:{self.server_port}/"

    @property
    def url_with_token(self) -> str:
        """The address that opens the page."""
        return f"{self.url}?{_TOKEN}={self.token}"

    @property
    def cookie(self) -> str:
        """The name of the cookie. Browsers share cookies between the ports of a host, so it names the port."""
        return f"tidemill-{self.server_port}"

    def is_token(self, text: str) -> bool:
        """Return whether a text is the token, in a time that does not depend on the text."""
        return hmac.compare_digest(text.encode(errors="replace"), self.token.encode())

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread."""
        with self._ended:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        super().shutdown_request(request)
        with self._ended:
            self._connections.discard(request)
            self._ended.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing if the connection failed: clients may hang up at any time."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

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
        """Stop listening, answer clients that have connected, end the connections of silent ones.

        A client connects first and sends its request then, so a connection without a request is not silent yet.
        """
        self.socket.close()
        with self._ended:
            self._ended.wait_for(lambda: not self._connections, self.grace_s)
            for one in self._connections:
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
        hosts = self.headers.get_all("Host", [])
        if not self.path.startswith("/"):  # an absolute URI names a host of its own
            self._answer(HTTPStatus.BAD_REQUEST, "expected a path, such as /")
            return
        if len(hosts) != 1 or not _HOSTS.fullmatch(hosts[0]):
            self._answer(HTTPStatus.FORBIDDEN, f"this server is {self.server.url}")
            return
        asked = urlsplit(self.path)
        fields = parse_qsl(asked.query, keep_blank_values=True)
        given = [value for name, value in fields if name == _TOKEN]
        if not any(map(self.server.is_token, given or self._cookies())):
            self._answer(
                HTTPStatus.FORBIDDEN, "open the address with `?token=…` that `tidemill report --serve` printed"
            )
        elif asked.path != "/":
            self._answer(HTTPStatus.NOT_FOUND, f"there is only {self.server.url}")
        elif given:
            self._remember([(name, value) for name, value in fields if name != _TOKEN])
        else:
            self._show(dict(fields))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the paths of requests contain keys, and the token."""
        del format, args

    def _cookies(self) -> list[str]:
        """Return the values of the cookie. Other servers of this machine may have set cookies of any form."""
        pairs = (one.strip().partition("=") for given in self.headers.get_all("Cookie", []) for one in given.split(";"))
        return [value for name, _, value in pairs if name == self.server.cookie]

    def _remember(self, fields: list[tuple[str, str]]) -> None:
        """Give the browser the token as a cookie, and the address without it, which it then shows and keeps."""
        cookie = f"{self.server.cookie}={self.server.token}; Path=/; HttpOnly; SameSite=Strict"
        place = f"/?{urlencode(fields)}" if fields else "/"
        self._answer(HTTPStatus.SEE_OTHER, f"continue at {place}", {"Location": place, "Set-Cookie": cookie})

    def _show(self, fields: Mapping[str, str]) -> None:
        """Answer with the page."""
        try:
            page = self.server.page(fields)
        except TidemillError as error:
            status = HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, StoreUnavailable) else HTTPStatus.BAD_REQUEST
            self._answer(status, str(error))
        except Exception as error:  # noqa: BLE001 - the next load may succeed
            super(Server, self.server).handle_error(self.request, self.client_address)  # a bug: print its traceback
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
        else:
            self._answer(HTTPStatus.OK, page, {"Content-Type": "text/html; charset=utf-8"})

    def _answer(self, status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> None:
        body = text.encode(errors="replace")
        self.send_response(status)
        kind = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in {**kind, **_HEADERS, **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
