"""Migrations: what a function may do with rows, which keys and times they get, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidemill as tm
from tests.journeys.migrated import (
    USERS,
    Build,
    Place,
    euros,
    keep_sum,
    ms,
    sums,
    to_euros,
    values,
)
from tidemill.actions import migrating


def by_group(s: tm.Stream) -> Any:
    grouped = s.sql("SELECT cast(substr(user, 2) AS bigint) % 10 AS g, cents FROM rows").groupBy("g")
    return grouped.mapWithState(tm.StateSpec.function(keep_sum), "bigint", "string", name="sums")


def to_group(table: pa.Table) -> pa.Table:
    last = pc.utf8_slice_codeunits(table["user"], -1)
    return pa.table({"g": last.cast("int64"), "state": table["state"]})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_function_changes_columns_and_keeps_times_and_older_versions_keep_theirs(place: Place) -> None:
    before = place.begun(sums()).state("sums")
    r = place.opened(euros())
    assert r.check().status == "needs migration"
    commit = r.migrate({"sums": to_euros}, reason="count in euros")
    assert (commit.version, commit.kind, commit.reason) == (1, "migrate", "count in euros")
    assert commit.state_changes == {"sums": ["new column `euros double`", "removed column `state bigint`"]}
    assert [one["name"].rpartition(".")[2] for one in commit.code["functions"]["sums"]] == ["to_euros"]
    assert values(r) == {f"u{n}": n / 100 for n in range(USERS)}
    assert ms(r, "updated_at") == {1000}
    assert r.state("sums", version=0) == before
    assert r.check().status == "compatible"
    place.arrive([("u7", 3), ("new", 1)])
    r.run(engine="local")
    assert (values(r)["u7"], values(r)["new"]) == (0.10, 0.01)
    assert r.verify(deep=True).problems == []


@pytest.mark.parametrize("tasks", [1, 3])
def test_many_ranges_give_one_result_for_any_number_of_tasks(
    place: Place, monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    place.begun(sums())
    monkeypatch.setattr(migrating, "RANGE_ROWS", 30)
    r, seen = place.opened(euros()), []

    def counting(table: pa.Table) -> pa.Table:
        seen.append(table.num_rows)
        return to_euros(table).take(pa.array(range(table.num_rows))[::-1])

    commit = r.migrate({"sums": counting}, reason="a test", tasks=tasks)
    assert sum(seen) == USERS
    assert len(seen) == len(commit.state["sums"]["state"]) == 7
    assert values(r) == {f"u{n}": n / 100 for n in range(USERS)}
    checksums = [segment.checksum for segment in commit.state["sums"]["state"]]
    assert len(set(checksums)) == 7
    place.arrive([("u7", 3)])
    r.run(engine="local", tasks=tasks)
    assert values(r)["u7"] == 0.10


def test_keys_change_and_rows_with_one_key_are_merged(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.begun(sums())
    place.arrive([("u3", 1000)])
    place.opened(sums()).run(engine="local")
    monkeypatch.setattr(migrating, "RANGE_ROWS", 30)
    r, before = place.opened(by_group), place.segments()
    with pytest.raises(tm.InvalidInput, match=r"migrate operator `sums`: 20 rows get the key \d, expected one\nhint: "):
        r.migrate({"sums": to_group}, reason="a test")
    assert place.segments() == before
    given: list[int] = []

    def merge(table: pa.Table) -> pa.Table:
        given.append(table.num_rows)
        assert table.column_names == ["g", "state", "updated_at", "deadline"]
        return table.group_by("g").aggregate([("state", "sum")]).rename_columns(["g", "state"])

    results = []
    for tasks in (3, 1):
        commit = r.migrate({"sums": to_group if tasks == 3 else lambda t: t}, reason="a test", merge=merge, tasks=tasks)
        assert commit.rows["sums"] == {"state": 10}
        results.append(r.state("sums"))
    assert sum(given) == USERS
    assert results[0] == results[1]
    assert values(r) == {g: sum(n for n in range(USERS) if n % 10 == g) + 1000 * (g == 3) for g in range(10)}
    updated = dict(zip(r.state("sums")["g"].to_pylist(), r.state("sums")["updated_at"].to_pylist(), strict=True))
    assert updated == {g: datetime.fromtimestamp(2 if g == 3 else 1, UTC) for g in range(10)}
    kept = {one.name for commit in r.commits() for one in commit.state["sums"]["state"]}
    assert place.segments() == {Path(name).name for name in kept}
    place.arrive([("u3", 1)])
    r.run(engine="local")
    assert values(r)[3] == sum(range(3, USERS, 10)) + 1001


def test_keys_may_be_dropped_or_added_only_if_the_caller_says_so(place: Place) -> None:
    place.begun(sums(), users=4)
    r = place.opened(sums())
    few = {"sums": lambda t: t.filter(pc.greater(t["state"], 1))}
    with pytest.raises(tm.InvalidInput) as refused:
        r.migrate(few, reason="a test")
    assert refused.value.first_line == "migrate operator `sums`: the function made 2 rows of 4, expected one for each"
    other = {"sums": lambda t: t.set_column(0, "user", pc.utf8_upper(t["user"]))}
    with pytest.raises(tm.InvalidInput, match="returned the key 'U[0-3]', which the state does not have"):
        r.migrate(other, reason="a test")
    same = {"sums": lambda t: t.set_column(0, "user", pa.array(["u1"] * 4))}
    with pytest.raises(tm.InvalidInput, match="returned the key 'u1' in 4 rows, expected one"):
        r.migrate(same, reason="a test")
    r.migrate(few, reason="a test", drop_keys=True)
    assert values(r) == {"u2": 2, "u3": 3}
    assert r.head is not None and r.head.rows["sums"] == {"state": 2} and ms(r, "updated_at") == {1000}
    r.migrate(other, reason="a test", drop_keys=True)
    assert values(r) == {"U2": 2, "U3": 3}
    with pytest.raises(tm.InvalidInput, match="made 4 rows with other keys of 2, so their `updated_at` is not known"):
        r.migrate({"sums": lambda t: pa.table({"user": list("abcd"), "state": [1, 2, 3, 4]})}, "a test", drop_keys=True)


def test_an_operator_is_renamed_without_writing_its_state(place: Place) -> None:
    old = place.begun(sums())
    before = place.segments()
    r = place.opened(sums(name="totals"))
    commit = r.migrate({}, rename={"sums": "totals"}, reason="a better name")
    assert [(one.old, one.new) for one in commit.renamed] == [("sums", "totals")]
    assert (place.segments(), place.segments("totals")) == (before, set())
    assert values(r, "totals") == values(r, "sums", version=0)
    place.arrive([("u7", 3)])
    r.run(engine="local")
    assert values(r, "totals")["u7"] == 10
    with pytest.raises(tm.InvalidInput, match="operator `sums` has no state in this repository"):
        old.run(engine="local")
    both = place.opened(sums(name="totals"), sums())
    with pytest.raises(tm.InvalidInput, match="a migration renamed the operator `sums` to `totals`, so no other"):
        both.init()
    back = place.opened(sums())
    assert back.migrate({}, rename={"totals": "sums"}, reason="no").renamed == []
    assert back.run(engine="local") == [] and values(back)["u7"] == 10
    gone = place.opened(euros("other"))
    gone.init(drop=["sums"])
    place.arrive([("u7", 3)])
    gone.run(engine="local")
    assert values(gone, "other") == {"u7": 0.03}


def test_a_renamed_operator_can_be_dropped(place: Place) -> None:
    place.begun(sums())
    place.opened(sums(name="totals")).migrate({}, rename={"sums": "totals"}, reason="a test")
    r = place.opened(euros("other"))
    r.init(drop=["totals"])
    place.arrive([("a", 1)])
    r.run(engine="local")
    assert r.head is not None and set(r.head.state) == {"other"}
    with pytest.raises(tm.InvalidInput, match="no state in this repository, which has state for `other`"):
        place.opened(sums(name="totals")).run(engine="local")
    again = place.opened(sums(), euros("other"))
    again.init()
    place.arrive([("a", 1)])
    again.run(engine="local")
    assert again.head is not None and (set(again.head.state), again.head.renamed) == ({"sums", "other"}, [])


def test_names_can_be_exchanged_in_three_migrations(place: Place) -> None:
    def named(cents: str, rows: str) -> tuple[Build, Build]:
        return sums(name=cents), lambda s: s.groupBy("user").agg(n=tm.count(), name=rows)

    place.begun(*named("a", "b"), users=3)
    for cents, rows, rename in (("tmp", "b", {"a": "tmp"}), ("tmp", "a", {"b": "a"}), ("b", "a", {"tmp": "b"})):
        r = place.opened(*named(cents, rows))
        r.migrate({}, rename=rename, reason="a test")
        assert r.check().status == "compatible"
    assert r.head is not None and [(one.old, one.new) for one in r.head.renamed] == [("b", "a"), ("a", "b")]
    place.arrive([("u1", 5)])
    r.run(engine="local")
    assert (values(r, "b")["u1"], values(r, "a")["u1"]) == (6, 2)
    only = place.opened(sums(name="b"))
    only.init(drop=["a"])
    place.arrive([("u1", 5)])
    only.run(engine="local")
    assert values(only, "b")["u1"] == 11


TIMEOUT = {"duration": "10 seconds"}


def test_timeouts_are_kept_cleared_or_given_by_the_function(place: Place) -> None:
    place.begun(sums(timeout=TIMEOUT))
    r = place.opened(euros(timeout={"duration": "5 seconds"}))
    r.migrate({"sums": to_euros}, reason="the same clock")
    assert ms(r, "deadline") == {11_001} or ms(r, "deadline") == {11_000}
    assert r.head is not None and set(r.head.next_deadline.values()) == ms(r, "deadline")
    r = place.opened(euros())
    r.migrate({"sums": lambda t: t}, reason="no timeout")
    assert (ms(r, "deadline"), r.head.next_deadline) == ({None}, {})  # type: ignore[union-attr]
    r = place.opened(euros(timeout=TIMEOUT))
    with pytest.raises(tm.InvalidInput) as refused:
        r.migrate({"sums": lambda t: t}, reason="a timeout")
    assert refused.value.first_line == (
        "migrate operator `sums`: timeouts follow other rules now, but the function returned no column `deadline`"
    )

    def ten_seconds_later(table: pa.Table, times: pa.Table) -> pa.Table:
        return table.append_column("deadline", pc.add(times["updated_at"], pa.scalar(10_000, pa.duration("ms"))))

    r.migrate({"sums": ten_seconds_later}, reason="a timeout")
    assert ms(r, "deadline") == {11_000} and r.head.next_deadline == {"batch": 11_000}  # type: ignore[union-attr]
    assert [p.kind for p in r.sweep(engine="local", batch_time=11_000)] == ["sweep"]
    assert r.state("sums").num_rows == 0


def test_partial_values_of_aggregates_are_migrated(place: Place) -> None:
    def counts(**functions: Any) -> Build:
        return lambda s: s.groupBy("user").agg(name="counts", **functions)

    place.begun(counts(n=tm.count(), total=tm.sum("cents"), m=tm.mean("cents")), users=5)
    r = place.opened(counts(rows=tm.count(), m=tm.mean("cents")))
    r.migrate(
        {"counts": lambda t: t.drop_columns(["total"]).rename_columns(["user", "rows", "m.sum", "m.count"])},
        reason="fewer",
    )
    place.arrive([("u4", 8)])
    r.run(engine="local")
    rows = r.state("counts").drop_columns(["updated_at", "deadline"]).to_pylist()
    assert {row["user"]: (row["rows"], row["m"]) for row in rows}["u4"] == (2, 6.0)


class Visits(tm.StatefulProcessor):
    """A count and a list."""

    def __init__(self, count: str, item: str = "cents bigint") -> None:
        self.kind, self.item = count, item

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", self.kind)
        self.list = handle.getListState("list", self.item)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            known = self.count.get()
            self.count.update(((known[0] if known else 0) + 1,))
            self.list.appendValue((row.cents,))
        return iter(())


def visits(**arguments: str) -> Build:
    return lambda s: s.groupBy("user").transformWithState(Visits(**arguments), "x int", "update", "None", name="visits")


def test_each_variable_of_a_processor_has_a_function_and_lists_keep_their_order(place: Place) -> None:
    place.begun(visits(count="n int"), users=3)
    place.arrive([("u1", 5), ("u1", 6)])
    place.opened(visits(count="n int")).run(engine="local")
    r = place.opened(visits(count="times int", item="euros double"))
    times = {"count": lambda t: t.rename_columns(["user", "times"])}
    with pytest.raises(tm.InvalidInput, match="has the state variables `count`, `list`, expected a function for each"):
        r.migrate({"visits": lambda t: t}, reason="a test")
    with pytest.raises(tm.InvalidInput, match="the map `list` has other columns now .* but no function rewrites it"):
        r.migrate({"visits": times}, reason="a test")

    def list_in_euros(table: pa.Table) -> pa.Table:
        place, euros = table.column_names[1], pc.divide(table["cents"].cast("double"), 100)
        return pa.table({"user": table["user"], place: table[place], "euros": euros}).sort_by("euros")

    wanted = {**times, "list": list_in_euros}
    swapped = {"list": times["count"], "count": list_in_euros}
    with pytest.raises(tm.Fenced, match="what would happen now is not what was expected"):
        r.migrate({"visits": swapped}, reason="a test", expect=r.migrate({"visits": wanted}, dry_run=True))
    r.migrate({"visits": wanted}, reason="a test")
    rows = r.state("visits", variable="list").to_pylist()
    assert [row["euros"] for row in rows if row["user"] == "u1"] == [0.01, 0.05, 0.06]
    assert r.state("visits", variable="count", keys=["u1"])["times"].to_pylist() == [3]
    fewer = place.opened(
        lambda s: s.groupBy("user").transformWithState(OnlyCount(), "x int", "update", "None", name="visits")
    )
    gone = {"visits": {"count": lambda t: t}}
    with pytest.raises(tm.InvalidInput, match=r"has state in the variable `list` .*\nhint: to discard the rows"):
        fewer.migrate(gone, reason="a test")
    fewer.migrate(gone, reason="a test", drop_keys=True)
    assert fewer.head is not None and set(fewer.head.state["visits"]) == {"var-count", "timers"}
    assert fewer.check().status == "compatible"


class OnlyCount(tm.StatefulProcessor):
    """A count."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "times int")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        return iter(())


def test_a_timeout_is_added_to_groups_whose_rows_then_say_that_they_exist(place: Place) -> None:
    def grouped(timeout: str) -> Build:
        def keep(key: Any, rows: Any, state: Any) -> Any:
            state.update(((state.get[0] if state.exists else 0) + sum(row.cents for row in rows),))
            return []

        return lambda s: s.groupBy("user").flatMapGroupsWithState(
            keep, "x int", "n bigint", timeoutConf=timeout, name="g"
        )

    place.begun(grouped("NoTimeout"), users=3)
    r = place.opened(grouped("ProcessingTimeTimeout"))
    r.migrate({"g": lambda t: t.append_column("deadline", pa.nulls(t.num_rows, pa.timestamp("ms", "UTC")))}, "a test")
    place.arrive([("u1", 5)])
    r.run(engine="local")
    assert values(r, "g")["u1"] == 6
