"""Migrations that are refused, fenced, lost or undone, and the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.journeys.migrated import (
    USERS,
    Build,
    Place,
    euros,
    keep_sum,
    refused,
    sums,
    to_euros,
    values,
)
from tidemill.actions import carry_out
from tidemill.cli.exits import Exit
from tidemill.cli.main import main


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_wrong_rows_are_refused_and_nothing_is_left(place: Place) -> None:
    place.begun(sums())
    r, before = place.opened(euros()), place.segments()
    wrong: dict[str, Callable[[Any], Any]] = {
        "the function returned a list, expected a pyarrow.Table": lambda t: [t],
        "the function returned the columns `user`, `state`, expected `user`, `euros`; missing column `euros double`; "
        "unexpected column `state bigint`": lambda t: t,
        "column `euros` is string, expected double: Failed to parse string: 'x' as a scalar of type double": lambda t: (
            pa.table({"user": t["user"], "euros": ["x"] * t.num_rows})
        ),
        "the function `<lambda>` raised ZeroDivisionError: division by zero": lambda t: 1 / 0,
        "the function returned a null in `updated_at`": lambda t: to_euros(t).append_column(
            "updated_at", pa.nulls(t.num_rows, pa.timestamp("ms", "UTC"))
        ),
    }
    for said, function in wrong.items():
        line = refused(lambda function=function: r.migrate({"sums": function}, reason="a test"))
        assert line == f"migrate operator `sums`: {said}"
    assert (r.head.version if r.head else None, place.segments()) == (0, before)
    with pytest.raises(tm.InvalidInput, match="Traceback"):
        r.migrate({"sums": lambda t: 1 / 0}, reason="a test")


def test_a_state_without_a_name_cannot_become_null(place: Place) -> None:
    place.begun(sums(), users=3)
    nulls = {"sums": lambda t: t.set_column(1, "state", pa.nulls(t.num_rows, pa.int64()))}
    line = refused(lambda: place.opened(sums()).migrate(nulls, reason="a test"))
    assert line == "migrate operator `sums`: the state of a key is null"


def test_wrong_calls_are_refused(place: Place) -> None:
    empty = place.opened(sums())
    empty.init()
    assert "has had no batch yet" in refused(lambda: empty.migrate({"sums": to_euros}, reason="a test"))
    place.begun(sums(), lambda s: s.groupBy("user").agg(n=tm.count(), name="counts"))
    count: Build = lambda s: s.groupBy("user").agg(n=tm.count(), name="counts")  # noqa: E731
    r = place.opened(euros(), count)
    said = {
        "migrate: the reason is empty": lambda: r.migrate({"sums": to_euros}),
        "migrate: found neither a function nor a rename, expected at least one of them": lambda: r.migrate({}, "x"),
        "unknown operator to migrate `sum`; did you mean `sums`?": lambda: r.migrate({"sum": to_euros}, "x"),
        "unknown operator to rename `suns`; did you mean `sums`?": lambda: r.migrate({}, "x", {"suns": "sums"}),
        "migrate: cannot rename operator `sums`: this code still has it": lambda: r.migrate(
            {}, "x", {"sums": "counts"}
        ),
        "migrate: operator `sums`: found 3, expected a function of a pyarrow.Table": lambda: r.migrate(
            {"sums": 3}, "x"
        ),  # type: ignore[dict-item]
    }
    for line, call in said.items():
        assert refused(call) == line
    other = place.opened(euros("counts"), sums(name="totals"))
    assert "operator `counts` has state of a `aggregate`, this code declares a `map-with-state`; state of one kind" in (
        refused(lambda: other.migrate({"counts": to_euros}, reason="a test"))
    )
    assert "operator `totals` has no state in version 0; there is state for `counts`, `sums`" in refused(
        lambda: other.migrate({"totals": to_euros}, reason="a test")
    )
    taken = place.opened(euros("counts"))
    assert refused(lambda: taken.migrate({}, "x", {"sums": "counts"})) == (
        "migrate: cannot rename operator `sums` to `counts`: the repository has an operator with that name"
    )
    renamed = place.opened(euros("totals"))
    assert refused(lambda: renamed.migrate({}, "x", {"sums": "totals"})) == (
        "migrate: operator `totals` has state schema `state bigint`, this code declares `euros double` (missing column "
        "`state bigint`; unexpected column `euros double`), so its state must be rewritten"
    )


def test_an_open_plan_ends_and_a_run_at_work_is_fenced(place: Place) -> None:
    place.begun(sums())
    r = place.opened(euros())
    place.arrive([("u7", 3)])
    migrated: list[int] = []

    def meanwhile(row: Any, state: Any) -> None:
        if not migrated:
            migrated.append(r.migrate({"sums": to_euros}, reason="meanwhile").version)
        keep_sum(row, state)

    with pytest.raises(tm.Fenced):
        place.opened(sums(function=meanwhile)).run(engine="local")
    assert migrated == [1]
    assert [p.version for p in r.run(engine="local")] == [2]
    assert values(r)["u7"] == 0.10
    assert r.verify(deep=True).problems == []


def test_a_migration_that_a_run_overtakes_is_fenced_and_discards_what_it_wrote(place: Place) -> None:
    place.begun(sums())
    r, other = place.opened(sums()), place.opened(sums())
    place.arrive([("u7", 3)])

    def overtaken(table: pa.Table) -> pa.Table:
        other.run(engine="local")
        return table

    with pytest.raises(tm.Fenced):
        r.migrate({"sums": overtaken}, reason="too late")
    assert r.head is not None and r.head.kind == "batch"
    named = {Path(one.name).name for commit in r.commits() for one in commit.state["sums"]["state"]}
    assert place.segments() == named


def test_after_a_commit_whose_answer_was_lost_its_segments_stay(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.begun(sums())
    r, real = place.opened(euros()), carry_out.correct

    def lost(*arguments: Any) -> Any:
        real(*arguments)
        raise tm.StoreUnavailable("the answer was lost")

    monkeypatch.setattr(carry_out, "correct", lost)
    with pytest.raises(tm.StoreUnavailable):
        r.migrate({"sums": to_euros}, reason="a test")
    assert values(r) == {f"u{n}": n / 100 for n in range(USERS)}
    assert r.verify(deep=True).problems == []


def test_a_rewind_past_a_migration_restores_columns_and_names_and_can_be_undone(place: Place) -> None:
    old = place.begun(sums())
    r = place.opened(euros("totals"))
    r.migrate({"totals": to_euros}, rename={"sums": "totals"}, reason="euros")
    place.arrive([("u7", 3)])
    r.run(engine="local")
    r.rewind(0, reason="cents were right")
    with pytest.raises(tm.InvalidInput, match="operator `totals` has no state in this repository"):
        r.run(engine="local")
    assert values(old)["u7"] == 7
    old.run(engine="local")
    assert values(old)["u7"] == 10
    r.rewind(2, reason="euros were right")
    assert values(r, "totals")["u7"] == 0.10
    assert r.check().status == "compatible" and r.run(engine="local") == []
    r.maintain(keep_versions=1)
    assert r.verify(deep=True).problems == [] and values(r, "totals")["u7"] == 0.10


CODE = """
import pyarrow as pa
import pyarrow.compute as pc
import tidemill as tm

def keep(row, state):
    if row is not None:
        state.update((row.cents,))

def pipeline(kind):
    p = tm.Pipeline("bank")
    s = p.read(tm.Files({inbox!r}, format="csv", schema="user string, cents bigint"))
    s.groupBy("user").mapWithState(tm.StateSpec.function(keep), kind, "string", name="sums")
    return p

before, after = pipeline("cents bigint"), pipeline("euros double")

def to_euros(table):
    return pa.table({{"user": table["user"], "euros": pc.divide(table["cents"].cast("double"), 100)}})
"""


def test_the_command_says_what_it_will_do_and_check_says_what_is_needed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path)
    place.arrive([("ann", 500)])
    code = tmp_path / "bank.py"
    code.write_text(CODE.format(inbox=str(place.inbox)))
    root = ["--root", place.root]
    assert main(["check", f"{code}:before", *root]) == Exit.FAILED
    assert capfd.readouterr().out.splitlines()[0] == "code: needs init, compared with version -1"
    assert main(["init", f"{code}:before", *root]) == Exit.DONE
    assert main(["run", f"{code}:before", *root, "--engine", "local"]) == Exit.DONE
    assert main(["check", f"{code}:before", *root]) == Exit.DONE
    capfd.readouterr()
    assert main(["check", f"{code}:after", *root, "--json"]) == Exit.FAILED
    found = json.loads(capfd.readouterr().out)
    assert found["status"] == "needs migration"
    assert [(one["field"], one["before"], one["after"]) for one in found["differences"]] == [
        ("euros", "", "double"),
        ("cents", "bigint", ""),
    ]
    call = [
        "migrate",
        f"{code}:after",
        *root,
        "--operator",
        "sums",
        "--function",
        f"{code}:to_euros",
        "--reason",
        "euros",
    ]
    assert main([*call, "--dry-run"]) == Exit.DONE
    said = capfd.readouterr().out
    assert "operator `sums`: 1 row will be rewritten" in said and "dry run: nothing was changed" in said
    assert main([*call[:-4], "--function", f"{code}:to_euro", "--reason", "x"]) == Exit.FAILED
    assert "`to_euro` is not defined" in capfd.readouterr().err
    assert main([*call[:4], "--operator", "sums", "--reason", "x"]) == Exit.USAGE
    capfd.readouterr()
    assert main(call) == Exit.DONE
    assert "migrated `sums` in version 1: euros" in capfd.readouterr().out
    assert main(["state", f"{code}:after", *root, "--json"]) == Exit.DONE
    assert json.loads(capfd.readouterr().out)["euros"] == 5.0
