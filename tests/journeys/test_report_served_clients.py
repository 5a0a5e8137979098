"""Who gets the page of `tidemill report --serve`: the token and its cookie, hosts, and clients that hang up."""

from __future__ import annotations

import http.client
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tidemill.cli import serving
from tidemill.cli.serving import HOST, Server

PAGE = "the page"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(0, lambda asked: PAGE + "".join(f" {name}={value}" for name, value in asked.items())) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield served
        served.shutdown()
        thread.join()


def ask(
    server: Server, path: str = "/", headers: Mapping[str, str] | None = None, method: str = "GET"
) -> tuple[int, str, Mapping[str, str]]:
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=30)
    connection.request(method, path, headers=dict(headers or {}))
    found = connection.getresponse()
    text = found.read().decode()
    connection.close()
    return found.status, text, dict(found.getheaders())


def sent(server: Server, request: str) -> str:
    """Return the first line of the answer to a request, and its body."""
    with socket.create_connection((HOST, server.server_port), timeout=30) as client:
        client.sendall(request.encode())
        head, _, body = client.makefile("rb").read().decode().partition("\r\n\r\n")
    return f"{head.splitlines()[0]}: {body}"


def cookie(server: Server) -> dict[str, str]:
    return {"Cookie": f"{server.cookie}={server.token}"}


def test_the_token_becomes_a_cookie_and_leaves_the_address(server: Server) -> None:
    assert server.url_with_token == f"{server.url}?token={server.token}"
    status, text, headers = ask(server, f"/?key=a+b&token={server.token}&operator=")
    assert (status, headers["Location"]) == (303, "/?key=a+b&operator=")
    assert server.token not in text
    assert headers["Set-Cookie"] == f"{server.cookie}={server.token}; Path=/; HttpOnly; SameSite=Strict"
    assert (headers["Referrer-Policy"], headers["Cache-Control"]) == ("no-referrer", "no-store")
    assert ask(server, headers["Location"], cookie(server))[:2] == (200, f"{PAGE} key=a b operator=")
    assert ask(server, f"/?token={server.token}")[2]["Location"] == "/"


def test_every_request_needs_the_token(server: Server) -> None:
    token, name = server.token, server.cookie
    others = [{}, {"Cookie": ""}, {"Cookie": f"{name}="}, {"Cookie": f"{name}={token}x"}, {"Cookie": f"x={token}"}]
    for path in ("/", "/?key=a", "/?token=", f"/?token={token[:-1]}", "/?token=%C3%A4%FF", "/favicon.ico"):
        for headers in others:
            status, text, answered = ask(server, path, headers)
            assert (status, PAGE in text, token in text, "Set-Cookie" in answered) == (403, False, False, False)
            assert text == "open the address with `?token=…` that `tidemill report --serve` printed"
    assert ask(server, "/?token=wrong", cookie(server))[0] == 403
    assert ask(server, "/", {"Cookie": f'odd="; =; {{}}; {name}=old; {name}={token}'})[:2] == (200, PAGE)
    assert ask(server, "/favicon.ico", cookie(server))[:2] == (404, f"there is only {server.url}")
    assert ask(server, "/", cookie(server), "POST")[0] == 501


def test_each_start_has_a_token_of_its_own(server: Server) -> None:
    with Server(0, lambda _: PAGE) as other:
        assert server.token != other.token
        assert min(len(server.token), len(other.token)) >= 43  # 32 bytes


def test_it_answers_only_this_machine(server: Server) -> None:
    port = server.server_port
    assert server.server_address[0] == "127.0.0.1"
    for host in (f"localhost:{port}", "LOCALHOST:9000", "127.0.0.1"):
        assert ask(server, "/", {**cookie(server), "Host": host})[:2] == (200, PAGE)
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "",
        f"127.0.0.1.evil.example:{port}",
        "localhost:evil.example",
    ):
        assert ask(server, "/", {**cookie(server), "Host": host})[:2] == (403, f"this server is {server.url}")


def test_it_answers_no_absolute_uri_and_no_second_host(server: Server) -> None:
    end = f"Cookie: {server.cookie}={server.token}\r\n\r\n"
    host = f"Host: {HOST}:{server.server_port}\r\n"
    assert sent(server, f"GET / HTTP/1.1\r\n{host}{end}") == f"HTTP/1.0 200 OK: {PAGE}"
    for uri in (f"{server.url}", "http://evil.example/", "http://[", "*", "evil"):
        refused = "HTTP/1.0 400 Bad Request: expected a path, such as /"
        assert sent(server, f"GET {uri} HTTP/1.1\r\n{host}{end}") == refused
    for hosts in ("", host + "Host: evil.example\r\n", "Host: evil.example\r\n" + host):
        assert sent(server, f"GET / HTTP/1.1\r\n{hosts}{end}") == f"HTTP/1.0 403 Forbidden: this server is {server.url}"


def test_clients_may_hang_up_at_any_time(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(serving._Handler, "timeout", 0.2)
    failed = threading.Semaphore(0)

    class Watched(Server):
        def handle_error(self, request: Any, client_address: Any) -> None:
            super().handle_error(request, client_address)
            failed.release()

    with Watched(0, lambda _: "x" * (1 << 26)) as server:  # more than the buffers of a connection
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        whole = f"GET / HTTP/1.1\r\nHost: {HOST}\r\nCookie: {server.cookie}={server.token}\r\n\r\n".encode()
        for request in (b"", b"GET", whole[:40], whole, b"\x16\x03\x01\x00\xff\r\n", b"GET / x y z\r\n\r\n"):
            for end in (closed, reset, reset_later):
                client = socket.create_connection((HOST, server.server_port), timeout=30)
                client.sendall(request)
                end(client)
        silent = socket.create_connection((HOST, server.server_port), timeout=30)
        assert silent.recv(1) == b""  # after the timeout
        silent.close()
        assert ask(server, "/?token=x")[0] == 403
        server.shutdown()
        thread.join()
    assert failed.acquire(blocking=False)
    assert capsys.readouterr() == ("", "")


def closed(client: socket.socket) -> None:
    client.close()


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def reset_later(client: socket.socket) -> None:
    """Reset the connection in the middle of the answer, or when the server ends it."""
    select.select([client], [], [], 30)
    reset(client)


def test_a_defect_is_an_answer_and_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(asked: Mapping[str, str]) -> str:
        raise OSError(f"no page of {asked['key']}")

    with Server(0, fails) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        assert ask(server, "/?key=a", cookie(server))[:2] == (500, "OSError: no page of a")
        server.shutdown()
        thread.join()
    assert "OSError: no page of a" in capsys.readouterr().err


@pytest.mark.parametrize("asks", ["before", "after"])
def test_an_interrupt_ends_no_connection_as_it_begins(asks: str, capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted(Server):
        grace_s = 60.0
        closing = threading.Event()

        def process_request(self, request: Any, client_address: Any) -> None:
            if asks == "before":
                select.select([request], [], [], 30)
            signal.raise_signal(signal.SIGINT)
            super().process_request(request, client_address)

        def server_close(self) -> None:
            self.closing.set()
            super().server_close()

    def client(server: Interrupted) -> bytes:
        with socket.create_connection((HOST, server.server_port), timeout=60) as connection:
            if asks == "after":
                server.closing.wait(60)
                time.sleep(0.05)  # a server that ends connections at once does so now
            request = f"GET / HTTP/1.0\r\nHost: {HOST}\r\nCookie: {server.cookie}={server.token}\r\n\r\n"
            connection.sendall(request.encode())
            return connection.makefile("rb").read()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker of xdist ignores it
    try:
        with ThreadPoolExecutor(1) as pool, Interrupted(0, lambda _: PAGE) as server:
            answer = pool.submit(client, server)
            server.serve_until_interrupted()
            server.server_close()
            assert answer.result().endswith(b"\r\n\r\n" + PAGE.encode())
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == ""


def test_a_silent_client_is_ended_with_the_server(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.grace_s = 0.0
    with socket.create_connection((HOST, server.server_port), timeout=30) as silent:
        while not server._connections:
            time.sleep(0.01)
        server.shutdown()
        server.server_close()
        assert silent.recv(1) == b""
    assert capsys.readouterr().err == ""
