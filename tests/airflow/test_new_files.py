"""The trigger of new files on real folders and on S3: what it announces, what it keeps, what it lists."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest

import tidemill as tm
from tests.servers.s3 import S3Server
from tests.world import World
from tidemill.errors import InvalidInput, StoreUnavailable

POLL_S = 0.05


class Kept(dict[str, str]):
    """What Airflow keeps with an asset, as JSON."""

    async def aget(self, key: str, default: Any = None) -> Any:
        return json.loads(self[key]) if key in self else default

    async def aset(self, key: str, value: Any) -> None:
        self[key] = json.dumps(value)


@pytest.fixture
def make(airflow_home: Path) -> Callable[..., Any]:
    """Return the function that makes a trigger, as another triggerer would from its arguments."""

    def make_trigger(kept: Kept | None = None, **arguments: Any) -> Any:
        from airflow._shared.module_loading import import_string

        from tidemill.airflow import NewFilesTrigger

        place, given = NewFilesTrigger(**{"pipeline": "shop", "poll_s": POLL_S, **arguments}).serialize()
        trigger = import_string(place)(**json.loads(json.dumps(given)))
        trigger.asset_state_store = kept
        return trigger

    return make_trigger


def counted(rows: tm.Stream) -> None:
    rows.groupBy("k").agg(n=tm.count(), name="n")


def opened(folder: Path, **options: Any) -> tm.Repository:
    """A repository whose batches read all files of the folder `in`."""
    read = {"schema": "k int, v int", "maxFilesPerTrigger": None, **options}
    return World(folder, lambda p, world: counted(world.read(p)), **read).open()


@pytest.fixture
def shop(tmp_path: Path) -> tm.Repository:
    return opened(tmp_path)


def add(tmp_path: Path, *names: str) -> None:
    for name in names:
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1,1\n")


async def next_files(events: AsyncIterator[Any], seconds: float = 30) -> int:
    event = await asyncio.wait_for(anext(events), seconds)
    found: int = event.payload["files"]
    return found


NO_REPOSITORY = "pipeline `shop` has no repository under"


async def is_quiet(events: AsyncIterator[Any], seconds: float = 0.6) -> bool:
    """Whether no event comes for so long. It ends the stream of events."""
    task = asyncio.ensure_future(anext(events))
    done, _ = await asyncio.wait([task], timeout=seconds)
    if not done:
        task.cancel()
        await asyncio.wait([task])
    return not done


def test_each_new_file_makes_one_event_until_it_is_committed(
    shop: tm.Repository, tmp_path: Path, make: Callable[..., Any]
) -> None:
    add(tmp_path, "a.csv", "b.csv")

    async def play() -> None:
        trigger = make(Kept(), root=str(tmp_path / "root"))
        events = trigger.run()
        event = await asyncio.wait_for(anext(events), 30)
        assert event.payload == {"pipeline": "shop", "branch": "main", "files": 2, "sources": {"source": 2}}
        add(tmp_path, "c.csv")
        assert await next_files(events) == 1
        await asyncio.to_thread(shop.run, engine="local")
        add(tmp_path, "d.csv", "_hidden.csv", "e.csv.tmp", "deep/f.csv")
        assert await next_files(events) == 1
        assert await is_quiet(events)

    asyncio.run(play())


def test_another_triggerer_announces_nothing_twice_and_what_came_meanwhile_once(
    shop: tm.Repository, tmp_path: Path, make: Callable[..., Any]
) -> None:
    kept = Kept()

    async def one(expected: int) -> None:
        events = make(kept, root=str(tmp_path / "root")).run()
        if expected:
            assert await next_files(events) == expected
        assert await is_quiet(events)

    add(tmp_path, "a.csv", "b.csv")
    asyncio.run(one(2))
    asyncio.run(one(0))
    add(tmp_path, "c.csv")
    asyncio.run(one(1))
    shop.run(engine="local")
    asyncio.run(one(0))
    assert len(kept) == 1


def test_nothing_is_announced_for_committed_files_without_a_cursor(
    shop: tm.Repository, tmp_path: Path, make: Callable[..., Any]
) -> None:
    add(tmp_path, "a.csv", "b.csv")
    shop.run(engine="local")

    async def play() -> None:
        events = make(root=str(tmp_path / "root")).run()
        assert await is_quiet(events)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("options", "wanted", "others"),
    [
        ({"pathGlobFilter": "*.csv"}, "b.csv", ["b.txt", "deep/c.csv"]),
        ({"recursiveFileLookup": True}, "deep/b.csv", ["_x/c.csv"]),
        ({"modifiedAfter": "2020-01-01T00:00:00"}, "b.csv", ["old.csv"]),
    ],
)
def test_only_files_of_the_source_are_announced(
    tmp_path: Path, make: Callable[..., Any], options: dict[str, Any], wanted: str, others: list[str]
) -> None:
    """The commit records which these are, because the trigger has no code."""
    import os

    add(tmp_path, "a.csv")
    repository = opened(tmp_path, **options)
    repository.run(engine="local")
    add(tmp_path, *others)
    for name in others:
        if name.startswith("old"):
            os.utime(tmp_path / "in" / name, (1_000_000, 1_000_000))

    async def play() -> None:
        events = make(root=str(tmp_path / "root")).run()
        assert await is_quiet(events)
        events = make(root=str(tmp_path / "root")).run()
        add(tmp_path, wanted)
        assert await next_files(events) == 1

    asyncio.run(play())
    assert repository.run(engine="local")[0].input_files == 1


def test_a_plain_source_records_nothing_new(shop: tm.Repository, tmp_path: Path) -> None:
    add(tmp_path, "a.csv")
    shop.run(engine="local")
    head = shop.head
    assert head is not None
    assert head.sources["source"].keys() == {"uri"}


def test_a_folder_and_a_repository_that_come_later_are_waited_for(
    tmp_path: Path, make: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    async def play() -> None:
        said = ""
        while NO_REPOSITORY not in said:  # the first look imports much, and may take longer
            assert await is_quiet(make(root=str(tmp_path / "root")).run())
            said = capsys.readouterr().out
        assert said.count(NO_REPOSITORY) == 1
        add(tmp_path, "a.csv")
        opened(tmp_path)
        events = make(root=str(tmp_path / "root")).run()
        assert await next_files(events) == 1

    asyncio.run(play())


def test_an_outage_is_a_warning_and_is_tried_again(
    shop: tm.Repository, tmp_path: Path, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    from tidemill.airflow.waiting import listings

    real, calls = listings.list_folder, []

    def failing(uri: str, options: Any) -> Any:
        calls.append(uri)
        if len(calls) < 3:
            raise StoreUnavailable("the store did not answer")
        return real(uri, options)

    monkeypatch.setattr(listings, "list_folder", failing)
    add(tmp_path, "a.csv")

    async def play() -> None:
        assert await next_files(make(root=str(tmp_path / "root")).run()) == 1

    asyncio.run(play())
    assert capsys.readouterr().out.count("the store did not answer") == 1


def test_an_idle_round_lists_each_folder_once_and_reads_no_repository(
    shop: tm.Repository, tmp_path: Path, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two triggers share their listings, in threads. Only a folder that changed makes them read the repository."""
    from airflow.triggers.shared_stream import SharedStreamManager

    from tidemill.airflow.waiting import heads, listings

    listed, read, here = [], [], threading.get_ident()
    real_list, real_waiting = listings.list_folder, heads.Heads.waiting

    def list_folder(uri: str, options: Any) -> Any:
        assert threading.get_ident() != here
        listed.append(uri)
        return real_list(uri, options)

    def waiting(self: Any, entries: Any) -> Any:
        assert threading.get_ident() != here
        read.append(self.branch)
        return real_waiting(self, entries)

    monkeypatch.setattr(listings, "list_folder", list_folder)
    monkeypatch.setattr(heads.Heads, "waiting", waiting)
    add(tmp_path, "a.csv")
    shop.run(engine="local")
    shop.branch("trial")
    add(tmp_path, "b.csv")

    async def play() -> None:
        manager = SharedStreamManager()
        triggers = [make(Kept(), root=str(tmp_path / "root"), branch=branch) for branch in ("main", "trial")]
        assert triggers[0].shared_stream_key() == triggers[1].shared_stream_key()
        streams = []
        for number, trigger in enumerate(triggers):
            shared = manager.subscribe(trigger_id=number, trigger=trigger, key=trigger.shared_stream_key())
            streams.append(trigger.filter_shared_stream(shared))
        assert [await next_files(stream) for stream in streams] == [1, 1]
        listed.clear()
        read.clear()
        for _ in range(30):  # a busy machine may list nothing for a while
            assert await asyncio.gather(*(is_quiet(stream, 2.0) for stream in streams)) == [True, True]
            if len(listed) > 1:
                break
        rounds = len(listed)
        assert rounds > 1
        assert read == []
        await manager.stop_all()

    asyncio.run(play())


def test_triggers_with_other_credentials_or_rhythms_do_not_share(make: Callable[..., Any]) -> None:
    others: list[dict[str, Any]] = [
        {},
        {"poll_s": 7},
        {"conn_id": "lake"},
        {"source_options": {"endpoint_url": "http://127.0.0.1:1"}},
    ]
    keys = {make(root="/root", **other).shared_stream_key() for other in others}
    assert len(keys) == len(others)
    assert make(root="/a", pipeline="x").shared_stream_key() == make(root="/b", branch="y").shared_stream_key()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"options": {"aws_secret_access_key": "hush"}},
            "options of the trigger of new files has `aws_secret_access_key`",
        ),
        ({"source_options": {"aws_access_key_id": "AKIA"}}, "hint: use conn_id=… with a connection of Airflow"),
        ({"source_options": {"endpoint_url": "{{ conn.x.host }}"}}, "renders no templates"),
        ({"root": "{{ var.value.root }}"}, "got the template root="),
        ({"root": "relative"}, "root `relative` is relative"),
        ({"poll_s": 0}, "poll_s is 0"),
    ],
)
def test_arguments_are_checked_and_secrets_are_refused(
    make: Callable[..., Any], arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        make(**{"root": "/root", **arguments})
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


def test_new_files_on_s3_with_a_connection_of_airflow(
    s3_server: S3Server, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The credentials come from the connection when the trigger runs, and are in no argument."""
    from tidemill.airflow.waiting.heads import list_folder

    root, folder = s3_server.new_root(), s3_server.new_root()
    options = dict(s3_server.options)
    storage_options = {"root": options, "source": options}
    bucket, _, prefix = folder.removeprefix("s3://").partition("/")
    client = boto3.client("s3", **options)
    with ThreadPoolExecutor(8) as pool:  # more than one page
        keys = [f"{prefix}/{number:04}.csv" for number in range(1_005)]
        list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=b"1,1\n"), keys))
    p = tm.Pipeline("shop")
    counted(p.read(tm.Files(folder, format="csv", schema="k int, v int", pathGlobFilter="*.csv")))
    repository = tm.open(p, root=root, storage_options=storage_options)
    repository.init()
    repository.run(engine="local")
    connection = {
        "conn_type": "aws", "login": options["aws_access_key_id"], "password": options["aws_secret_access_key"],
        "extra": {"endpoint_url": options["endpoint_url"], "region_name": options.get("region_name", "us-east-1")},
    }  # fmt: skip
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)

    async def play() -> None:
        trigger = make(Kept(), root=root, conn_id="lake")
        assert options["aws_secret_access_key"] not in json.dumps(trigger.serialize()) + repr(trigger)
        events = trigger.run()
        await asyncio.sleep(0)
        client.put_object(Bucket=bucket, Key=f"{prefix}/1.txt", Body=b"1,1\n")
        client.put_object(Bucket=bucket, Key=f"{prefix}/0000-late.csv", Body=b"1,1\n")
        assert await next_files(events) == 1

    asyncio.run(play())
    end = list_folder(folder, options, "1002.csv")
    assert [entry.name for entry in end] == ["1003.csv", "1004.csv"]
