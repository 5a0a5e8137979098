"""`r.forget({"customer": […]}, reason)`: one commit for all operators and sinks that the records ever named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import tidemill as tm
from tests.crash import worlds
from tests.world import World, over, run
from tidemill.cli.main import main
from tidemill.protocol import codec
from tidemill.protocol.records import PERSON

PERSONAL = {"customer": [17850]}
ROWS = [
    {"customer": 17850, "day": 1, "item": "tea", "n": 1}, {"customer": 17850, "day": 2, "item": "mug", "n": 2},
    {"customer": 13047, "day": 1, "item": "tea", "n": 3},
]  # fmt: skip
MORE = [{"customer": 17850, "day": 3, "item": "tea", "n": 4}, {"customer": 12583, "day": 17850, "item": "mug", "n": 5}]


def shop(p: tm.Pipeline, world: World) -> None:
    """Operators by customer, and by customer and day; a sink in which the customer is text."""
    orders = world.read(p)
    orders.groupBy("customer").agg(total=tm.sum("n"), name="totals").write(tm.Parquet(world.sink("totals")))
    days = orders.groupBy("customer", "day").agg(n=tm.count(), name="days")
    days.write(tm.Json(world.sink("days"), partitionBy=["day"]))
    text = orders.sql("SELECT CAST(customer AS VARCHAR) AS customer, item FROM rows")
    text.dropDuplicates(["customer", "item"], name="bought").write(tm.Json(world.sink("bought")))


def with_items(p: tm.Pipeline, world: World) -> None:
    """The same, with an operator and a sink without the customer."""
    shop(p, world)
    world.read(p, "again").groupBy("item").agg(n=tm.count(), name="items").write(tm.Json(world.sink("items")))


def made(folder: Path, build: Any = shop) -> tm.Repository:
    world = World(folder, build, format="json", schema="customer long, day int, item string, n int", mode="PERMISSIVE")
    world.arrive(ROWS, [*MORE, {"customer": 17850, "day": "x"}, {"customer": 13047, "day": "y"}])
    r = world.open()
    run(r)
    return r


def again(folder: Path, build: Any = shop) -> World:
    return World(folder, build, format="json", schema="customer long, day int, item string, n int", mode="PERMISSIVE")


def published(folder: Path, *sinks: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted(path for sink in sinks for path in (folder / sink).rglob("*.*")):
        if path.suffix == ".parquet":
            found += pq.ParquetFile(path).read().to_pylist()
        else:
            found += [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(found, key=lambda row: (row["_batch_id"], row["_seq"], str(row)))


def without(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if str(row["customer"]) != "17850"]


SINKS = ("totals", "days", "bought")


def test_one_commit_removes_a_person_everywhere_and_all_other_rows_stay(tmp_path: Path) -> None:
    r = made(tmp_path)
    states = {name: r.state(name).to_pylist() for name in SINKS}
    rows = {name: published(tmp_path, name) for name in SINKS}
    looked = r.forget(PERSONAL, "request 17", dry_run=True)
    assert r.head.version == 1
    done = r.forget(PERSONAL, "request 17", expect=looked)
    assert (done.version, r.head.kind, r.head.reason, r.head.requires) == (2, "forget", "request 17", [PERSON])
    assert (done.person, done.keys, done.operator) == ("customer", 1, "")
    assert {name: sum(maps.values()) for name, maps in done.operators.items()} == {"totals": 1, "days": 3, "bought": 2}
    assert done.sinks == {"totals": 2, "days": 3, "bought": 2} and list(done.quarantined_rows.values()) == [1]
    for name in SINKS:
        assert r.state(name).to_pylist() == without(states[name])
        assert published(tmp_path, name) == without(rows[name])
    assert [one.operator for one in r.head.forgotten] == ["totals", "days", "bought", "", ""]
    found = r.verify(deep=True, forgotten=True)
    assert (found.problems, found.forgotten_keys) == ([], 1)
    assert (looked.rewritten, looked.left) == (done.rewritten, done.left)
    assert [one for one in looked.lines() if "will be removed" in one] == [
        "operator `totals`: keys with `customer` will be removed (1 row of map `partials`)",
        "operator `days`: keys with `customer` will be removed (3 rows of map `partials`)",
        "operator `bought`: keys with `customer` will be removed (2 rows of map `seen`)",
        "sink `bought`: 2 rows will be removed", "sink `days`: 3 rows will be removed",
        "sink `totals`: 2 rows will be removed",
    ]  # fmt: skip


def test_verify_finds_a_person_that_comes_back_in_each_place_once(tmp_path: Path) -> None:
    r = made(tmp_path)
    r.forget(PERSONAL, "request 17")
    again(tmp_path).put("x", [{"customer": 17850, "day": 9, "item": "pen", "n": 1}, {"customer": 17850, "day": "z"}])
    run(r)
    problems = r.verify(forgotten=True).problems
    assert {one.affects for one in problems} == {
        *(f"state of `{name}`" for name in SINKS), *(f"rows of sink `{name}`" for name in SINKS),
        *(f"readers of sink `{name}`" for name in SINKS), "quarantined rows",
    }  # fmt: skip
    assert {one.what for one in problems} == {"it holds a forgotten key"}
    r.forget(PERSONAL, "request 17, again")
    assert r.verify(deep=True, forgotten=True).problems == []


def test_the_same_call_again_has_nothing_to_do_and_a_batch_goes_on(tmp_path: Path) -> None:
    r = made(tmp_path)
    r.forget(PERSONAL, "request 17")
    repeated = r.forget(PERSONAL, "request 17")
    assert (repeated.done_in, repeated.rewritten, r.head.version) == (2, [], 2)
    again(tmp_path).put("x", [{"customer": 13047, "day": 1, "item": "pen", "n": 1}])
    assert run(again(tmp_path).open()) == [3]
    assert r.verify(deep=True, forgotten=True).problems == []


def test_sinks_and_operators_that_left_the_code_are_searched_too(tmp_path: Path) -> None:
    made(tmp_path)

    def fewer(p: tm.Pipeline, world: World) -> None:
        orders = world.read(p)
        orders.groupBy("customer").agg(total=tm.sum("n"), name="totals").write(tm.Parquet(world.sink("new")))
        orders.groupBy("customer", "day").agg(n=tm.count(), name="days").write(
            tm.Json(world.sink("days"), partitionBy=["day"]), name="renamed"
        )

    r = again(tmp_path, fewer).open(init=False)
    r.init(drop=["bought"])
    again(tmp_path).put("x", [{"customer": 17850, "day": 9, "item": "pen", "n": 1}])
    run(r)
    rows = published(tmp_path, *SINKS, "new")
    done = r.forget(PERSONAL, "request 17")
    assert sorted(done.sinks) == ["bought", "days", "renamed", "totals"]
    assert published(tmp_path, *SINKS, "new") == without(rows)
    assert "bought" in [one.operator for one in r.head.forgotten]
    assert r.verify(deep=True, forgotten=True).problems == []


def test_what_cannot_be_searched_is_an_error_by_name_unless_it_is_left(tmp_path: Path) -> None:
    r = made(tmp_path, with_items)
    with pytest.raises(tm.InvalidInput) as error:
        r.forget(PERSONAL, "request 17")
    assert "operator `items` (its key (item) has no such column)" in error.value.message
    assert "sink `items` (its columns (item, n) have no such one)" in error.value.message
    assert "--left items" in str(error.value.hint)
    with pytest.raises(tm.InvalidInput, match="cannot be searched for `customer`: sink `items`"):
        r.forget(PERSONAL, "request 17", left=["operator items"])
    done = r.forget(PERSONAL, "request 17", left=["items"])
    assert done.agreed == ["operator `items`", "sink `items`"] == r.head.forgotten[0].left
    assert "sink `items`: not searched, as you agreed" in done.left
    assert r.state("items").num_rows == 2
    assert r.verify(forgotten=True).problems == []


def test_a_function_and_a_folder_that_is_gone_are_errors_by_name(tmp_path: Path) -> None:
    def called(p: tm.Pipeline, world: World) -> None:
        totals = world.read(p).groupBy("customer").agg(total=tm.sum("n"), name="totals")
        totals.foreachBatch(lambda rows, version: None, name="mail")
        totals.write(tm.Json(world.sink("totals")))

    r = made(tmp_path, called)
    (tmp_path / "totals").rename(tmp_path / "away")
    with pytest.raises(tm.InvalidInput) as error:
        r.forget(PERSONAL, "request 17")
    uri = (tmp_path / "totals").as_uri()
    assert "sink `mail` (only your function knows where its rows are)" in error.value.message
    assert f"folder `{uri}` (sink `totals` published there, and it does not exist)" in error.value.message
    (tmp_path / "away").rename(tmp_path / "totals")
    r.forget(PERSONAL, "request 17", left=["mail"])
    assert without(published(tmp_path, "totals")) == published(tmp_path, "totals") != []
    found = r.verify(forgotten=True)
    assert (found.problems, found.unsearched) == ([], ["mail"])


def test_files_of_the_repository_of_which_this_is_a_copy_are_an_error_by_name(tmp_path: Path) -> None:
    r = made(tmp_path)
    shutil.copytree(tmp_path / "root", tmp_path / "copy")
    copied = again(tmp_path).but(root="copy").open(init=False)
    copied.adopt("a test", copy=True)
    with pytest.raises(tm.InvalidInput, match="published by the original of this copy") as error:
        copied.forget(PERSONAL, "request 17")
    folders = [(tmp_path / name).as_uri() for name in SINKS]
    assert all(f"folder `{one}`" in error.value.message for one in folders)
    rows = published(tmp_path, *SINKS)
    copied.forget(PERSONAL, "request 17", left=folders)
    assert published(tmp_path, *SINKS) == rows, "the files are not those of the copy"
    assert copied.verify(forgotten=True).problems == []
    r.forget(PERSONAL, "request 17")
    assert published(tmp_path, *SINKS) == without(rows)
    assert r.verify(deep=True, forgotten=True).problems == []


def test_several_columns_of_a_person_are_alternatives(tmp_path: Path) -> None:
    r = made(tmp_path, over(lambda rows: rows.groupBy("customer").agg(n=tm.count(), name="by-customer"),
                            lambda rows: rows.groupBy("item").agg(n=tm.count(), name="by-item")))  # fmt: skip
    done = r.forget({"customer": ["17850", 13047], "item": ["mug"]}, reason="request 17")
    assert done.keys == 3
    assert r.state("by-customer")["customer"].to_pylist() == [12583]
    assert r.state("by-item")["item"].to_pylist() == ["tea"]
    assert r.verify(deep=True, forgotten=True).problems == []


def test_a_process_that_died_after_the_commit_is_completed_by_maintain(tmp_path: Path) -> None:
    r = made(tmp_path)
    rows = published(tmp_path, *SINKS)
    with worlds.dying("create", r"/refs/\d+\.json$", "before"):
        r.forget(PERSONAL, "request 17")
    assert r.verify(forgotten=True).problems
    again(tmp_path).open().maintain()
    assert published(tmp_path, *SINKS) == without(rows)
    assert again(tmp_path).open().verify(deep=True, forgotten=True).problems == []


@pytest.mark.parametrize(
    ("person", "options", "said"),
    [
        ({"client": [1]}, {}, "no key of an operator and no sink has a column `client`"),
        ({"customer": ["ann"]}, {}, "expected int64 for the column `customer`, found 'ann'"),
        ({"customer": 17850}, {}, "found 17850 for column `customer`, expected a list of values"),
        ({"customer": [99]}, {}, "no state, published file or quarantined row has customer=99 in version 1"),
        ({"customer": [17850]}, {"columns": {"totals": "customer"}}, "found a person and also an operator, keys or"),
        ({"customer": [17850]}, {"reason": " "}, "the reason is empty"),
    ],
)
def test_bad_input_is_refused_and_nothing_changes(person: Any, options: Any, said: str, tmp_path: Path) -> None:
    r = made(tmp_path)
    with pytest.raises(tm.InvalidInput, match=said.replace("(", r"\(")):
        r.forget(person, **{"reason": "request 17", **options})
    assert r.head.version == 1
    r.forget({"customer": [99]}, "request 18", missing_ok=True)
    assert r.head.version == 2


def test_a_reader_without_the_feature_refuses_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path).forget(PERSONAL, "request 17")
    monkeypatch.setattr(codec, "FEATURES", frozenset())
    with pytest.raises(tm.InvalidInput, match=f"it requires {PERSON}; it was written by a newer Tidemill"):
        again(tmp_path).open(init=False).head  # noqa: B018


def test_the_command_takes_a_person(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, with_items)
    (tmp_path / "code.py").write_text(
        "from pathlib import Path\nfrom tests.journeys.test_forget_person import again, with_items\n"
        f"p = again(Path({str(tmp_path)!r}), with_items).pipeline()\n"
    )
    given = ["forget", f"{tmp_path}/code.py:p", "--root", str(tmp_path / "root"), "--person", "customer=17850",
             "--reason", "request 17"]  # fmt: skip
    assert main([*given, "--dry-run"]) == 1
    assert "--left items" in capfd.readouterr().err
    assert main([*given, "--left", "items", "--dry-run"]) == 0
    assert "sink `days`: 3 rows will be removed" in capfd.readouterr().out
    assert main([*given, "--left", "items", "--yes", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert (said["versions"], said["sinks"]) == ([2], {"bought": 2, "days": 3, "totals": 2})
    assert without(published(tmp_path, *SINKS)) == published(tmp_path, *SINKS) != []
    assert main(["verify", f"{tmp_path}/code.py:p", "--root", str(tmp_path / "root"), "--forgotten"]) == 0
