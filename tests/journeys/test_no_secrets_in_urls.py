"""URLs with secrets are refused wherever one can be given, and neither messages nor records repeat the secret."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.world import World
from tidemill.cli.main import main
from tidemill.engines.masters import check_connect, check_master
from tidemill.errors import InvalidInput
from tidemill.reading.results import read_result, results_in
from tidemill.secret_names import has_secret

SECRET = "hunter2"
URLS = (
    f"s3://AKIA:{SECRET}@lake/a",
    f"s3a://AKIA:{SECRET}/b@lake/a",
    f"s3:/AKIA:{SECRET}@lake/a",
    f"s3://{SECRET}@lake/a",
    f"https://me:{SECRET}@lake.example/a",
    f"https://lake.example/a?X-Amz-Date=1&X-Amz-Signature={SECRET}",
    f"https://lake.example/a?sv=1&sig={SECRET}#x",
    f"abfss://lake/a#access_token={SECRET}",
    f"file://me:{SECRET}@lake/a",
)
ENDPOINTS = (f"http://me:{SECRET}@127.0.0.1:1", f"http://127.0.0.1:1/?token={SECRET}", f"http://127.0.0.1:1?{SECRET}")
MESSAGE = "the URL contains credentials before an `@`, or a parameter that looks like a secret"
PIPELINE = """
import pathlib
import tidemill as tm
here = pathlib.Path(__file__).parent
p = tm.Pipeline("shop")
rows = p.read(tm.Files(str(here / "in"), format="csv", schema="k string, v int"))
rows.groupBy("k").agg(n=tm.count(), name="counts").write(tm.Json(str(here / "out")))
"""


class Place(tm.Files):
    """A source of the user, whose place is any URL."""

    url = ""

    @property
    def place(self) -> str:
        return self.url


class Described(tm.Json):
    """A sink of the user, which records any URL."""

    url = ""

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "options": {"to": [self.url]}}


def pipeline(folder: Path, source: Any = None, sink: Any = None) -> tm.Pipeline:
    (folder / "in").mkdir(exist_ok=True)
    p = tm.Pipeline("shop")
    rows = p.read(source or tm.Files(str(folder / "in"), format="csv", schema="k string"), name="orders")
    rows.groupBy("k").agg(n=tm.count(), name="counts").write(sink or tm.Json(str(folder / "out")), name="made")
    return p


def of_place(folder: Path, url: str) -> None:
    source = Place(str(folder / "in"), format="csv", schema="k string")
    source.url = url
    tm.open(pipeline(folder, source=source), root=str(folder / "root"))


def of_sink(folder: Path, url: str) -> None:
    sink = Described(str(folder / "out"))
    sink.url = url
    tm.open(pipeline(folder, sink=sink), root=str(folder / "root"))


def of_branch(folder: Path, url: str) -> None:
    r = tm.open(pipeline(folder), root=str(folder / "root"))
    r.init()
    r.branch("fix", publish_to=url)


def in_environment(folder: Path, url: str) -> None:
    tm.submit_args("shop:p", "s3://lake", env={"DATABASE": url}).environment_in_arguments()


PLACES: dict[str, Callable[[Path, str], object]] = {
    "root": lambda folder, url: tm.open(pipeline(folder), root=url),
    "root of a reader": lambda folder, url: tm.read(url, "shop"),
    "root of a state store": lambda folder, url: tm.StateStore(url, "counts", 0, key="string", state="bigint"),
    "source": lambda folder, url: tm.Files(url, format="csv", schema="k string"),
    "sink": lambda folder, url: tm.Parquet(url),
    "sink elsewhere": lambda folder, url: tm.open(pipeline(folder, sink=tm.Json("x").at(url)), root=str(folder / "r")),
    "own source": of_place,
    "own sink": of_sink,
    "publish_to": of_branch,
    "result": lambda folder, url: read_result(url),
    "results": lambda folder, url: results_in(url),
    "submitted root": lambda folder, url: tm.submit_args("shop:p", url),
    "submitted result": lambda folder, url: tm.submit_args("shop:p", "s3://lake", result=url),
    "submitted application": lambda folder, url: tm.submit_args("shop:p", "s3://lake", application=url),
    "submitted setting": lambda folder, url: tm.submit_args("shop:p", "s3://lake", conf={"spark.jars": url}),
    "submitted option": lambda folder, url: tm.submit_args(
        "shop:p", "s3://lake", storage_options={"root": {"endpoint_url": url}}
    ),
    "submitted environment": in_environment,
}


def run_once(p: tm.Pipeline, root: str, options: Any) -> None:
    r = tm.open(p, root=root, storage_options=options)
    r.init()
    r.run(engine="local")


def shown(error: BaseException) -> str:
    """Return everything that a traceback shows of an error."""
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("door", PLACES)
def test_a_url_with_a_secret_is_refused(door: str, url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        PLACES[door](tmp_path, url)
    said = f"{refused.value} {refused.value.hint}"
    assert MESSAGE in said or "looks like a secret" in said
    assert SECRET not in said + repr(refused.value) + shown(refused.value)
    assert not holds(tmp_path)


@pytest.mark.parametrize("url", ENDPOINTS)
@pytest.mark.parametrize("door", ["option", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "configuration"])
@pytest.mark.parametrize("section", ["root", "source", "sink"])
def test_an_endpoint_with_a_secret_is_refused(
    section: str, door: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, dict[str, Any]] = {section: {"region_name": "x"}}
    if door == "option":
        options[section]["endpoint_url"] = url
    elif door == "configuration":
        (tmp_path / "aws").write_text(f"[default]\nendpoint_url = {url}\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws"))
    else:
        monkeypatch.setenv(door, url)
    place = {one: f"s3://lake/{one}" if one == section else str(tmp_path / one) for one in ("root", "source", "sink")}
    source = tm.Files(place["source"], format="csv", schema="k string")
    made = pipeline(tmp_path, source, tm.Json(place["sink"]))
    with pytest.raises(InvalidInput) as refused:
        run_once(made, place["root"], options)
    assert SECRET not in f"{shown(refused.value)} {refused.value.hint}"
    (tmp_path / "aws").unlink(missing_ok=True)
    assert not holds(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        "run {code} --root {url}",
        "run {url} --root {root}",
        "state {url}",
        "state {url}/shop",
        "state {url} --root {root}",
        "run {code} --root {root} --result-file {url}",
        "branch {code} fix --root {root} --publish-to {url}",
        "state {code} --root {root} -o {url}",
        "report {code} --root {root} --html {url}",
        "run {leaky} --root {root}",
    ],
)
def test_commands_refuse_a_url_with_a_secret(
    arguments: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "shop.py").write_text(PIPELINE)
    (tmp_path / "leaky.py").write_text(PIPELINE.replace('str(here / "out")', "__import__('os').environ['PLACE']"))
    given = {"code": f"{tmp_path}/shop.py:p", "leaky": f"{tmp_path}/leaky.py:p", "root": str(tmp_path / "root")}
    assert main(["init", given["code"], "--root", given["root"]]) == 0
    for url in URLS:
        monkeypatch.setenv("PLACE", url)
        for more in ((), ("--debug",), *([] if arguments.startswith("report") else [("--json",)])):
            capfd.readouterr()
            status = main([one.format(url=url, **given) for one in arguments.split()] + list(more))
            said = "".join(capfd.readouterr())
            assert (status, SECRET in said, "looks like a secret" in said) == (1, False, True), said
    assert not holds(tmp_path)


def test_options_of_a_command_may_not_have_a_secret_in_a_url(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "shop.py").write_text(PIPELINE)
    command = ["status", f"{tmp_path}/shop.py:p", "--root", "s3://lake/a", "--debug"]
    for url in ENDPOINTS:
        assert main([*command, "--storage-option", f"root.endpoint_url={url}"]) == 1
        monkeypatch.setenv("TIDEMILL_STORAGE_OPTIONS", f'{{"root": {{"endpoint_url": "{url}"}}}}')
        assert main(command) == 1
        monkeypatch.delenv("TIDEMILL_STORAGE_OPTIONS")
    said = capfd.readouterr()
    assert said.err.count("InvalidInput: storage option `endpoint_url`") >= 2 * len(ENDPOINTS)
    assert SECRET not in said.out + said.err


def test_masters_are_not_shown_with_a_secret() -> None:
    with pytest.raises(InvalidInput, match="credentials before an `@`") as refused:
        check_master(f"spark://me:{SECRET}@127.0.0.1:1")
    with pytest.raises(InvalidInput, match=r"`sc://127\.0\.0\.1:1`") as away:
        check_connect(f"sc://127.0.0.1:1/;token={SECRET}")
    assert SECRET not in str(refused.value) + str(away.value)


def test_places_without_secrets_are_accepted(tmp_path: Path) -> None:
    for url in (
        "s3://lake/R&D/token=1/",
        "s3://lake/a#1;b",
        "s3a://lake:9000/a",
        "https://[::1]:9000",
        "postgres://host/db?sslmode=require",
        "sc://host:15002/;use_ssl=true;user_id=ann",
        "s3://{{ var.value.get('a@b', d='x?token=y') }}/{% if a %}b{% endif %}",
        "/data/me:pw@home/?token=1",
        "file:///data/me@home?token=1",
        "C:/data/me@home",
        "retail.py:p",
    ):
        assert not has_secret(url), url
    world = World(tmp_path / "me:pw@home?token=1&x", lambda p, world: _copied(p, world))
    world.arrive([("a", 1)])
    assert world.run() == [0]


def _copied(p: tm.Pipeline, world: World) -> None:
    world.read(p).groupBy("k").agg(n=tm.count(), name="counts").write(tm.Json(world.out))


def holds(folder: Path) -> bool:
    """Whether any file below a folder has the secret in its name or in its bytes."""
    return any(
        SECRET in path.name or (path.is_file() and SECRET.encode() in path.read_bytes()) for path in folder.rglob("*")
    )
