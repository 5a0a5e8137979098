"""`tidemill report --serve`: the page from a server on this machine, read again at each load, with look-ups of keys."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def get(server: Server, path: str = "/") -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(HOST, server.server_port, timeout=30)
    connection.request("GET", path, headers={"Cookie": f"{server.cookie}={server.token}"})
    found = connection.getresponse()
    text = found.read().decode()
    connection.close()
    return found.status, text, found.getheader("Content-Type", "")


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


def test_a_key_that_cannot_be_looked_up_is_an_answer(server: Server) -> None:
    status, text, kind = get(server, "/?operator=%3Cb%3E&key=a")
    assert (status, kind) == (400, "text/plain; charset=utf-8")
    assert text.startswith("unknown operator `<b>`")


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
        ((port, token),) = re.findall(
            rf"^serving http://{HOST}:(\d+)/\?token=(\S+) until you end it with Ctrl-C$", line
        )
        connection = http.client.HTTPConnection(HOST, int(port), timeout=30)
        connection.request("GET", f"/?operator=counts&key=b&token={token}")
        answer = connection.getresponse()
        answer.read()
        cookie = answer.getheader("Set-Cookie", "").partition(";")[0]
        connection.request("GET", answer.getheader("Location", ""), headers={"Cookie": cookie})
        found = data(connection.getresponse().read().decode())
        connection.close()
        silent = socket.create_connection((HOST, int(port)))
        process.send_signal(signal.SIGINT)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
            silent.close()
    assert (found["head"]["version"], [one["key"] for one in found["look_ups"]]) == (1, ["b"])
    assert (process.returncode, said) == (0, "")


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
