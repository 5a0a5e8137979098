"""The page in Airflow: a real API server, its permissions, and clicks in a real Chromium."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.airflow.conftest import wait_until
from tests.browser import MISSING, Browser, chromium

pytestmark = pytest.mark.servers("run an Airflow API server", seconds=70)

PIPELINE = """
from pathlib import Path
import tidemill as tm

HERE = Path(__file__).parent
p = tm.Pipeline("orders")
rows = p.read(tm.Files(str(HERE / "in"), format="csv", schema="k string, n int", maxFilesPerTrigger=1))
rows.groupBy("k").agg(n=tm.sum("n"), name="sums").write(tm.Json(str(HERE / "out")))
"""
DAG = """
# an airflow dag
from tidemill.airflow import tidemill_dags
for name in ("shop", "idle"):
    tidemill_dags({reference!r}, root={root!r}, schedule="@daily", name=name, engine="local", sweep=False)
tidemill_dags({example!r}, root={root!r}, schedule="@daily", name="customers", engine="local")
"""
EXAMPLE = """
import runpy
p = runpy.run_path({path!r})["pipeline"]("cents", {folder!r})
"""
PICTURES = Path(__file__).resolve().parents[2] / "docs/pictures"
WRITES = bool(os.environ.get("WRITE_PICTURES"))
"""Whether to write the pictures of the documentation again. Their bytes depend on the Chromium and its fonts."""


@dataclass
class Server:
    """An API server with three pipelines, of which `shop` and `customers` have run."""

    port: int
    folder: Path

    def get(self, path: str, token: str | None) -> tuple[int, Any]:
        """Return the status and the answer, which is JSON if it can be."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, body = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, body = error.code, error.read()
        with contextlib.suppress(ValueError):
            return status, json.loads(body)
        return status, body.decode()


def token(role: str | None, name: str | None = None) -> str:
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    return SimpleAuthManager().generate_jwt(SimpleAuthManagerUser(username=name or f"a {role}", role=role))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shop")
    (made / "in").mkdir()
    (made / "shop.py").write_text(PIPELINE)
    for n in range(3):
        (made / f"in/{n}.csv").write_text(f"a,{n + 1}\nb,1\n")
    return made


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> str:
    """Return the pipeline of the report's pictures, which has run on some days, and waits for the last."""
    made = tmp_path_factory.mktemp("customers")
    source = PICTURES / "report/example.py"
    (made / "customers.py").write_text(EXAMPLE.format(path=str(source), folder=str(made)))
    runpy.run_path(str(source))["runs"](made, str(folder / "lake"), days=45 if WRITES else 5)
    return f"{made}/customers.py:p"


@pytest.fixture(scope="module")
def server(airflow_home: Path, folder: Path, example: str) -> Iterator[Server]:
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    from tidemill.pipeline.load import load

    assert "tidemill" in entry_points(group="airflow.plugins").names, "install the package again: make build"
    reference = f"{folder}/shop.py:p"
    tm.open(load(reference), str(folder / "lake")).init()
    for old in (airflow_home / "dags").glob("*.py"):
        old.unlink()
    text = DAG.format(reference=reference, root=str(folder / "lake"), example=example)
    (airflow_home / "dags/page_dag.py").write_text(text)
    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(dag_folder=str(airflow_home / "dags"), load_op_links=False)
    assert bag.import_errors == {}
    sync_bag_to_db(bag, "dags-folder", None)
    for name in ("shop", "customers"):
        assert bag.dags[name].test().state == "success"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    env = {
        **os.environ, "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__AUTH_MANAGER": "tests.airflow.half_open.HalfOpen",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(Path(tm.__file__).parents[1])]),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
    }  # fmt: skip
    with open(airflow_home / "page-server.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "api-server", "--host", "127.0.0.1", "--port", str(port)],
            env=env, cwd=airflow_home, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    found = Server(port, folder)

    def is_up() -> bool:
        try:
            return found.get("/api/v2/version", None)[0] == 200
        except OSError:
            return False

    try:
        wait_until(is_up, "the API server starts", 120)
        yield found
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


ROUTES = ("/tidemill/pipelines", "/tidemill/pipelines/shop/report", "/tidemill/page.js")


@pytest.mark.parametrize("path", ROUTES)
def test_no_route_answers_who_may_not_see_it(server: Server, path: str) -> None:
    assert server.get(path, None)[0] == 401
    assert server.get(path, token(None))[0] == 403
    assert server.get(path, "nonsense")[0] == 403
    assert server.get(path, token("VIEWER"))[0] == 200


def test_who_may_not_read_xcoms_sees_neither_figures_nor_reports(server: Server) -> None:
    from tests.airflow.half_open import STRANGER

    stranger = token("VIEWER", STRANGER)
    status, found = server.get("/tidemill/pipelines", stranger)
    assert status == 200
    (shop,) = [one for one in found["pipelines"] if one["dag_id"] == "shop"]
    assert (shop["summary"], shop["repository"], shop["states"]) == ({}, None, ["success"])
    for dag in ("shop", "shop__replay"):
        assert server.get(f"/tidemill/pipelines/{dag}/report", stranger) == (403, {"detail": "Forbidden"})


def test_there_is_no_other_route(server: Server) -> None:
    viewer = token("VIEWER")
    for path in ("/tidemill/", "/tidemill/docs", "/tidemill/openapi.json", "/tidemill/pipelines/shop"):
        assert server.get(path, viewer)[0] == 404


def test_all_pipelines_with_what_their_newest_run_left(server: Server) -> None:
    status, found = server.get("/tidemill/pipelines", token("VIEWER"))
    assert status == 200
    by_dag = {one["dag_id"]: one for one in found["pipelines"]}
    assert not [name for name in by_dag if "__" in name], "one line for the DAGs of a pipeline"
    shop, idle = by_dag["shop"], by_dag["idle"]  # DAGs of other tests may be there, too
    assert shop["states"] == ["success"]
    said = shop["summary"]
    assert (said["head"], said["rows"], said["state_rows"], said["files_waiting"]) == (2, 6, 2, 0)
    assert shop["repository"] == (server.folder / "lake/orders").as_uri()
    assert (idle["repository"], idle["summary"], idle["states"]) == (None, {}, [])


def test_the_report_of_a_pipeline_by_any_of_its_dags_with_a_look_up(server: Server) -> None:
    viewer = token("VIEWER")
    status, found = server.get("/tidemill/pipelines/shop/report?operator=sums&key=a", viewer)
    assert (status, found["pipeline"], found["head"]["version"]) == (200, "orders", 2)
    assert [one["value"]["n"] for one in found["look_ups"][0]["history"]] == [1, 3, 6]
    assert server.get("/tidemill/pipelines/shop__maintain/report", viewer)[1]["pipeline"] == "orders"
    status, found = server.get("/tidemill/pipelines/shop/report?operator=none&key=a", viewer)
    assert (status, "unknown operator `none`" in found["detail"]) == (502, True)
    status, found = server.get("/tidemill/pipelines/shop/report?branch=--html%3D/tmp/x", viewer)
    assert status == 502 and "--html" in found["detail"]
    status, found = server.get("/tidemill/pipelines/idle/report", viewer)
    assert (status, found["detail"]) == (404, "no run of `idle` has said yet where its repository is")
    assert server.get("/tidemill/pipelines/other/report", viewer)[0] == 404


@pytest.fixture(scope="module")
def browser(server: Server) -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip(MISSING)
    with Browser() as opened:
        address = f"http://127.0.0.1:{server.port}/"
        opened.call("Network.setCookie", name="_token", value=token("ADMIN"), url=address)
        yield opened


INSIDE = "document.querySelector('.tidemill-place')?.shadowRoot"
NAMES = f"[...({INSIDE}?.querySelectorAll('button.link') || [])].map((one) => one.textContent)"
LISTED = f"(() => {{ const names = {NAMES}; return names.includes('shop') && names.includes('idle'); }})()"


def press(browser: Browser, selector: str) -> None:
    browser.evaluate(f"{INSIDE}.querySelector({json.dumps(selector)}).click()")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_lists_the_pipelines_and_opens_one(browser: Browser, server: Server, dark: bool) -> None:
    browser.open(f"http://127.0.0.1:{server.port}/plugin/tidemill", dark=dark)
    browser.wait(LISTED)
    shown = browser.evaluate(f"{INSIDE}.querySelector('table').textContent")
    assert "shop" in shown and "6, " in shown
    back = f"getComputedStyle({INSIDE}.querySelector('.tidemill-report')).backgroundColor"
    assert browser.evaluate(back) == ("rgb(13, 13, 13)" if dark else "rgb(249, 249, 247)")
    browser.evaluate(f"[...{INSIDE}.querySelectorAll('button.link')].find((one) => one.textContent === 'shop').click()")
    browser.wait(f"{INSIDE}.querySelector('h1')?.textContent.startsWith('orders')")
    assert browser.evaluate(f"{INSIDE}.querySelectorAll('canvas').length") >= 5
    browser.evaluate(f"Object.assign({INSIDE}.querySelector('form.look-up input'), {{ value: 'a' }}).value")
    press(browser, "form.look-up button")
    browser.wait(f"{INSIDE}.querySelector('#tidemill-look-ups h3 code')?.textContent === 'a'")
    assert browser.evaluate(f"{INSIDE}.querySelectorAll('#tidemill-look-ups tbody tr').length") == 3
    assert browser.evaluate(f"{INSIDE}.querySelector('[role=alert]') === null")
    browser.evaluate(
        f"Object.assign({INSIDE}.querySelector('form.look-up input'), {{ value: 'x'.repeat(3000) }}).value"
    )
    press(browser, "form.look-up button")
    browser.wait(f"{INSIDE}.querySelector('[role=alert]')")
    assert browser.evaluate(f"{INSIDE}.querySelectorAll('canvas').length") >= 5, "the report stays"
    press(browser, "button.back")
    browser.wait(LISTED)


def test_each_dag_of_the_pipeline_has_a_tab_with_its_report(browser: Browser, server: Server) -> None:
    browser.open(f"http://127.0.0.1:{server.port}/dags/shop__replay/plugin/tidemill-pipeline")
    browser.wait(f"{INSIDE}?.querySelector('h1')?.textContent.startsWith('orders')")
    browser.open(f"http://127.0.0.1:{server.port}/dags/idle/plugin/tidemill-pipeline")
    browser.wait(f"{INSIDE}?.querySelector('[role=alert]')")
    assert "no run of `idle`" in browser.evaluate(f"{INSIDE}.querySelector('[role=alert]').textContent")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pictures_of_the_documentation(browser: Browser, server: Server, dark: bool) -> None:
    word = "dark" if dark else "light"
    browser.open(f"http://127.0.0.1:{server.port}/plugin/tidemill", height=420, dark=dark)
    browser.wait(LISTED)
    photograph(browser, f"airflow-pipelines-{word}")
    browser.open(f"http://127.0.0.1:{server.port}/dags/customers/plugin/tidemill-pipeline", dark=dark)
    browser.wait(f"{INSIDE}?.querySelectorAll('canvas').length >= 5")
    uri = (server.folder / "lake/shop").as_uri()
    found = f"[...{INSIDE}.querySelectorAll('*')].find((one) => one.childNodes[0]?.nodeValue === {json.dumps(uri)})"
    browser.evaluate(f"{found}.textContent = 's3://lake/tidemill/shop'")  # a temporary folder says nothing to readers
    photograph(browser, f"airflow-pipeline-{word}")


def photograph(browser: Browser, name: str) -> None:
    """Take a picture of the window. With `WRITE_PICTURES` it becomes one of the documentation."""
    png = browser.picture()
    assert png.startswith(b"\x89PNG") and len(png) > 20_000, "an empty page is smaller"
    if WRITES:
        (PICTURES / f"{name}.png").write_bytes(png)


def test_the_dashboard_has_a_summary(browser: Browser, server: Server) -> None:
    browser.open(f"http://127.0.0.1:{server.port}/")
    browser.wait(LISTED)


def test_the_plugin_is_light(airflow_home: Path) -> None:
    code = (
        "import sys, airflow.plugins_manager; before = set(sys.modules); import tidemill.airflow.plugin; "
        "print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = {name for name in done.stdout.split() if not name.startswith("_")}
    assert "tidemill.airflow.plugin" in found
    assert found <= {"tidemill", "tidemill.airflow", "tidemill.airflow.page", "tidemill.airflow.plugin"}


def test_a_later_sweep_says_where_the_head_is(server: Server, airflow_home: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    from tidemill.pipeline.load import load

    def listed() -> Any:
        found = server.get("/tidemill/pipelines", token("VIEWER"))[1]["pipelines"]
        return next(one for one in found if one["dag_id"] == "customers")["summary"]

    before = listed()
    reference = next(one for one in DagBag(dag_folder=str(airflow_home / "dags")).dags["customers"].tasks).pipeline
    tm.open(load(reference), str(server.folder / "lake")).reset(watermark="2026-03-01", reason="a test")
    bag = DagBag(dag_folder=str(airflow_home / "dags"), load_op_links=False)
    assert bag.dags["customers__sweep"].test().state == "success"
    after = listed()
    assert (after["head"], after["rows"]) == (before["head"] + 1, before["rows"])
    assert after["watermarks"]["source.at"].startswith("2026-03-01")
