"""A retried task of Airflow: what an earlier try has made is found, and what it has not made is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tidemill as tm
from tests.journeys.agreed import ACTS, Call, called, versions
from tests.journeys.shop import world
from tests.world import World
from tidemill.actions.migrate import Migrate
from tidemill.actions.requeue import Requeue


@pytest.mark.parametrize("verb", list(ACTS))
def test_if_needed_returns_the_commit_of_an_earlier_try(
    verb: str, agreed_shop: tm.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = {"DAG_ID": "d", "TASK_ID": "t", "DAG_RUN_ID": "r", "TRY_NUMBER": "1"}
    for name, value in task.items():
        monkeypatch.setenv(f"AIRFLOW_CTX_{name}", value)
    made = ACTS[verb](agreed_shop, if_needed=True)
    assert made.version == 2
    monkeypatch.setenv("AIRFLOW_CTX_TRY_NUMBER", "2")
    assert ACTS[verb](agreed_shop, if_needed=True, expect="main@1:gone") == made
    assert [version for version, _ in versions(agreed_shop)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (lambda r, **how: r.skip("bad.csv", "why", **how), lambda r, **how: r.skip("worse.csv", "why", **how)),
        (lambda r, **how: r.rewind(0, "why", **how), lambda r, **how: r.rewind(-1, "why", **how)),
        (
            lambda r, **how: r.rewind(0, "why", ["b.csv"], **how),
            lambda r, **how: r.rewind(0, "why", ["b.csv", "bad.csv"], **how),
        ),
        (
            lambda r, **how: r.reset(batch_time="2020-01-01T00:00:00Z", reason="why", **how),
            lambda r, **how: r.reset(batch_time="2020-01-02T00:00:00Z", reason="why", **how),
        ),
    ],
    ids=["skip", "rewind", "rewind without", "reset"],
)
def test_if_needed_makes_what_an_earlier_try_of_the_task_did_not(
    first: Call, then: Call, agreed_shop: tm.Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in" / "worse.csv").write_text("a,more\n")
    task = {"DAG_ID": "d", "TASK_ID": "t", "DAG_RUN_ID": "r", "TRY_NUMBER": "1"}
    for name, value in task.items():
        monkeypatch.setenv(f"AIRFLOW_CTX_{name}", value)
    first(agreed_shop, if_needed=True)
    monkeypatch.setenv("AIRFLOW_CTX_TRY_NUMBER", "2")
    assert first(agreed_shop, if_needed=True).version == 2
    assert then(agreed_shop, if_needed=True).version == 3
    assert (first(agreed_shop, if_needed=True).version, then(agreed_shop, if_needed=True).version) == (2, 3)


def test_a_time_that_an_earlier_try_did_not_set_is_set(tmp_path: Path, later_try: Callable[[], None]) -> None:
    def build(p: tm.Pipeline, world: World) -> None:
        rows = world.read(p).withWatermark("at", "1 second")
        rows.groupBy("k").agg(n=tm.count(), name="counts")

    world = World(tmp_path, build, schema="k string, at timestamp")
    world.arrive("a,2026-01-01 00:00:00\n")
    world.run()
    r = world.open()
    carried = r.head.batch_time_ms
    assert r.reset(watermark=1000, reason="why", if_needed=True).version == 1
    r.reset(batch_time=carried - 10**6, reason="another")
    later_try()
    assert r.reset(watermark=1000, reason="why", if_needed=True).version == 1
    assert r.reset(batch_time=carried, reason="why", if_needed=True).version == 3
    with pytest.raises(tm.InvalidInput, match="found neither a watermark nor a batch time"):
        r.reset(reason="why", if_needed=True)


def test_a_try_on_a_branch_does_not_count_what_it_inherits(
    agreed_shop: tm.Repository, tmp_path: Path, later_try: Callable[[], None]
) -> None:
    time = "2020-01-01T00:00:00Z"
    agreed_shop.reset(batch_time=time, reason="why", if_needed=True)
    agreed_shop.reset(batch_time="2020-01-02T00:00:00Z", reason="another")
    agreed_shop.branch("fix")
    later_try()
    assert world(tmp_path).open("fix").reset(batch_time=time, reason="why", if_needed=True).version == 4


def test_a_try_with_a_tag_that_moved_since_is_the_same(
    agreed_shop: tm.Repository, later_try: Callable[[], None]
) -> None:
    agreed_shop.tag("good", 0)
    assert agreed_shop.rewind("good", "why", if_needed=True).version == 2
    agreed_shop.tag("good", 1, move=True)
    later_try()
    assert agreed_shop.rewind("good", "why", if_needed=True).version == 2


def test_actions_with_other_fields_ask_for_something_else() -> None:
    rows = [pa.table({"k": ["a"]}), pa.table({"k": ["b"]}), "a.parquet", "b.parquet", None]
    requeues = [Requeue(version=version, rows=one, source=source) for version in (0, 1) for one in rows
                for source in (None, "s")]  # fmt: skip
    migrations = [Migrate(functions={"one": len}, reason="a"), Migrate(functions={"two": len}, reason="a"),
                  Migrate(functions={"one": max}, reason="a"), Migrate(rename={"one": "two"}, reason="a")]  # fmt: skip
    asked = [one.asked() for one in (*requeues, *migrations)]
    assert len(set(asked)) == len(asked)
    again = Requeue(version=0, rows=pa.table({"k": ["a"]}), reason="another")
    assert again.asked() == requeues[0].asked(), "the reason is compared by itself"


def test_the_shell_says_also_in_a_dry_run_that_an_earlier_try_made_it(
    agreed_shop: tm.Repository, agreed_code: list[str], capfd: pytest.CaptureFixture[str], later_try: Callable[[], None]
) -> None:
    agreed_shop.rewind(0, "why")
    agreed_shop.rewind(-1, "why")
    later_try()
    asked = ["rewind", *agreed_code, "--to=0", "--reason=why", "--dry-run"]
    assert called(capfd, *asked)[1]["requires"] == agreed_shop.rewind(0, "why", dry_run=True, if_needed=True).requires
    status, out, _ = called(capfd, *asked, "--if-needed")
    assert (status, out["already_committed"]) == (3, [2])


def test_a_try_is_found_although_maintain_has_given_up_its_version_since(
    agreed_shop: tm.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = {"DAG_ID": "d", "TASK_ID": "t", "DAG_RUN_ID": "r", "TRY_NUMBER": "1"}
    for name, value in task.items():
        monkeypatch.setenv(f"AIRFLOW_CTX_{name}", value)
    made = agreed_shop.rewind(0, "why", if_needed=True)
    monkeypatch.delenv("AIRFLOW_CTX_DAG_ID")
    agreed_shop.reset(batch_time="2020-01-01", reason="later")
    agreed_shop.maintain(keep_versions=1)
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "d")
    monkeypatch.setenv("AIRFLOW_CTX_TRY_NUMBER", "2")
    assert agreed_shop.rewind(0, "why", if_needed=True) == made
