"""`tidemill report --serve`: the page from a server on this machine, read again at each load, with look-ups of keys."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

import tidemill as tm
from tests.browser import MISSING, Browser, chromium
from tests.journeys.shop import arrive, opened
from tests.world import run
from tidemill.cli.serving import HOST, Server
from tidemill.errors import InvalidInput
from tidemill.report.page import page


@pytest.fixture
def repository(tmp_path: Path) -> tm.Repository:
    arrive(tmp_path, "a", "b")
    r = opened(tmp_path)
    run(r)
    return r


@pytest.fixture
def server(repository: tm.Repository) -> Iterator[Server]:
    def made(asked: Any) -> str:
        keys = [(asked["operator"], asked["key"])] if "key" in asked else []
        return page(repository.report(keys=keys), served=True)

    with Server(0, made) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield served
        served.shutdown()
        thread.join()


def answered(server: Server, path: str = "/", method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=30)
    connection.request(method, path, headers=headers)
    found = connection.getresponse()
    found.text = found.read().decode()  # type: ignore[attr-defined]
    connection.close()
    return found


def get(server: Server, path: str = "/", host: str | None = None, method: str = "GET") -> tuple[int, str, str]:
    """Ask with the cookie that the server gives for its token."""
    headers = {"Cookie": f"other=x; {server.cookie}={server.token}"} | ({} if host is None else {"Host": host})
    found = answered(server, path, method, **headers)
    return found.status, found.text, found.getheader("Content-Type", "")  # type: ignore[attr-defined]


def sent(server: Server, request: bytes) -> bytes:
    """Send bytes, and return the first line of the answer."""
    with socket.create_connection((HOST, server.server_port), timeout=30) as connection:
        connection.sendall(request)
        return connection.makefile("rb").readline().strip()


def data(text: str) -> dict[str, Any]:
    (found,) = re.findall(r'id="tidemill-data">(.*?)</script>', text)
    return dict(json.loads(found))


def test_each_load_shows_the_repository_as_it_is(server: Server, repository: tm.Repository, tmp_path: Path) -> None:
    status, text, kind = get(server)
    assert (status, kind, data(text)["head"]["version"]) == (200, "text/html; charset=utf-8", 1)
    arrive(tmp_path, "c")
    run(repository)
    assert data(get(server, "/?")[1])["head"]["version"] == 2
    found = data(get(server, "/?operator=counts&key=c")[1])["look_ups"]
    assert [(one["key"], one["changes"]) for one in found] == [("c", 1)]


def test_it_answers_only_this_machine_and_only_the_page(server: Server) -> None:
    port = server.server_port
    assert server.server_address[0] == "127.0.0.1"
    assert get(server, host=f"localhost:{port}")[0] == 200
    for host in ("evil.example", f"evil.example:{port}", "", f"127.0.0.1.evil.example:{port}"):
        assert get(server, host=host)[:2] == (403, f"this server is {server.url}")
    assert get(server, "/etc/passwd")[:2] == (404, f"there is only {server.url}")
    assert get(server, method="POST")[0] == 501
    status, text, kind = get(server, "/?operator=%3Cb%3E&key=a")
    assert (status, kind) == (400, "text/plain; charset=utf-8")
    assert text.startswith("unknown operator `<b>`")


def test_it_answers_only_who_has_the_token(server: Server) -> None:
    refused = (403, "open the address with `?token=…` that `tidemill report --serve` printed")
    for path in ("/", "/?token=", "/?token=wrong", "/?token=%C3%A4", "/etc/passwd", "/?operator=counts&key=a"):
        found = answered(server, path)
        assert (found.status, found.text) == refused  # type: ignore[attr-defined]
    for cookie in ("", server.token, f"{server.cookie}=", f"{server.cookie}=wrong", f"other={server.token}", "ä=;=;"):
        assert answered(server, Cookie=cookie).status == 403
    wrong_beside_right = answered(server, "/?token=wrong", Cookie=f"{server.cookie}={server.token}")
    assert wrong_beside_right.status == 403
    assert server.token not in refused[1] and len(server.token) >= 40


def test_the_token_becomes_a_cookie_and_leaves_the_address(server: Server) -> None:
    found = answered(server, f"/?operator=counts&token={server.token}&key=b%26c")
    assert (found.status, found.getheader("Location")) == (303, "/?operator=counts&key=b%26c")
    cookie = f"{server.cookie}={server.token}; Path=/; HttpOnly; SameSite=Strict"
    assert found.getheader("Set-Cookie") == cookie
    assert (found.getheader("Referrer-Policy"), found.getheader("Cache-Control")) == ("no-referrer", "no-store")
    assert answered(server, f"/?token={server.token}").getheader("Location") == "/"
    assert get(server)[0] == 200
    with Server(0, lambda _: "") as other:
        assert (other.token == server.token, other.cookie == server.cookie) == (False, False)


def test_no_other_host_and_no_absolute_address_is_answered(server: Server) -> None:
    cookie = f"Cookie: {server.cookie}={server.token}\r\n"
    good = f"Host: {HOST}:{server.server_port}\r\n"
    for first, host, expected in (
        ("GET / HTTP/1.1", good, b"200 OK"),
        (f"GET http://{HOST}:{server.server_port}/ HTTP/1.1", good, b"400 Bad Request"),
        ("GET http://evil.example/ HTTP/1.1", good, b"400 Bad Request"),
        ("GET / HTTP/1.1", "", b"403 Forbidden"),
        ("GET / HTTP/1.1", good + "Host: evil.example\r\n", b"403 Forbidden"),
        ("GET / HTTP/1.1", "Host: localhost@evil.example\r\n", b"403 Forbidden"),
    ):
        request = f"{first}\r\n{host}{cookie}\r\n".encode()
        assert sent(server, request).endswith(expected), (first, host)


def test_clients_that_hang_up_are_survived_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    reset = struct.pack("ii", 1, 0)
    with Server(0, lambda _: "a page" * 10**6) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        whole = f"GET / HTTP/1.1\r\nHost: {HOST}\r\nCookie: {server.cookie}={server.token}\r\n\r\n".encode()
        for part in (b"", b"GET / HT", whole[:-2], whole, b"\xff\x00\r\n\r\n"):
            for is_reset in (False, True):
                with socket.create_connection((HOST, server.server_port)) as client:
                    if is_reset:
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                    client.sendall(part)
        assert get(server)[0] == 200
        server.shutdown()
        thread.join()
    assert capsys.readouterr().err == ""


def test_a_defect_is_printed_and_answered(capsys: pytest.CaptureFixture[str]) -> None:
    def page(_: Any) -> str:
        raise OSError("no such thing")

    with Server(0, page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        assert get(server)[:2] == (500, "OSError: no such thing")
        server.shutdown()
        thread.join()
    assert "OSError: no such thing" in capsys.readouterr().err


def test_a_port_that_is_in_use_is_one_clear_error(server: Server) -> None:
    with pytest.raises(
        InvalidInput, match=f"serve the report on 127.0.0.1:{server.server_port}: Address already in use"
    ):
        Server(server.server_port, lambda _: "")


def test_the_command_serves_until_it_is_interrupted(repository: tm.Repository, tmp_path: Path) -> None:
    arguments = ["report", repository.opened.store.uri, "--serve", "--port", "0"]
    command = [sys.executable, "-m", "tidemill", *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.default_int_handler
        ),  # a job in the background ignores it
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        printed = rf"^serving (http://{HOST}:(\d+)/\?token=[\w-]+) until you end it with Ctrl-C$"
        ((url, port),) = re.findall(printed, line)
        browser = build_opener(HTTPCookieProcessor())
        with browser.open(f"{url}&operator=counts&key=b", timeout=30) as answer:
            assert answer.url == f"http://{HOST}:{port}/?operator=counts&key=b"
            found = data(answer.read().decode())
        silent = socket.create_connection((HOST, int(port)))
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
            silent.close()
    assert (found["head"]["version"], [one["key"] for one in found["look_ups"]]) == (1, ["b"])
    assert (process.returncode, said) == (0, "")


def test_an_interrupt_ends_no_connection_as_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted(Server):
        def process_request(self, request: Any, client_address: Any) -> None:
            signal.raise_signal(signal.SIGINT)
            super().process_request(request, client_address)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker of xdist ignores it
    try:
        with ThreadPoolExecutor(1) as pool, Interrupted(0, lambda _: "the page") as server:
            answer = pool.submit(get, server)
            server.serve_until_interrupted()
            server.server_close()
            assert answer.result()[:2] == (200, "the page")
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == ""


def test_the_command_serves_no_repository_that_cannot_be_read(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tidemill", "report", str(tmp_path / "none"), "--serve"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "") and "has no repository under" in done.stderr


@pytest.mark.servers("start Chromium")
@pytest.mark.skipif(chromium() is None, reason=MISSING)
def test_a_key_is_looked_up_in_the_page(server: Server) -> None:
    with Browser() as browser:
        browser.open(server.url_with_token)
        assert browser.evaluate("location.href") == server.url
        assert browser.evaluate("document.querySelector('form.look-up').checkVisibility()")
        assert browser.evaluate("document.querySelectorAll('#tidemill-look-ups h3').length") == 0
        browser.evaluate("document.querySelector('form.look-up input').value = 'b'")
        browser.click("form.look-up button")
        browser.wait("document.querySelector('#tidemill-look-ups h3 code')?.textContent === 'b'")
        assert browser.evaluate("document.querySelector('form.look-up input').value") == "b"
        assert "operator=counts&key=b" in browser.evaluate("location.href")
        assert (browser.errors, browser.messages) == ([], [])
