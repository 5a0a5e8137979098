"""The only key of an operator without key columns: `()` in Python, `'[]'` in the shell."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import tidemill as tm
from tests.world import World, run
from tidemill.cli.main import main
from tidemill.pipeline.load import load

PIPELINE = """
import pathlib
import tidemill as tm
here = pathlib.Path(__file__).parent
p = tm.Pipeline("shop")
rows = p.read(tm.Files(str(here / "in"), format="csv", schema="k string, ts timestamp", maxFilesPerTrigger=1))
rows.withWatermark("ts", "1 hour").groupBy(tm.session_window("ts", "10 minutes")).agg(n=tm.count(), name="sessions")
"""


@pytest.fixture
def r(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tm.Repository:
    """Three batches with one row each: the second one extends the session of the first, the third begins another."""
    monkeypatch.chdir(tmp_path)
    for name in [one for one in os.environ if one.startswith("AIRFLOW_CTX_")]:
        monkeypatch.delenv(name)  # Airflow leaves them in a process that has run a task, and commits record them
    world = World(tmp_path)
    for minute in ("00", "05", "50"):
        world.arrive(f"a,2024-01-01 00:{minute}:00\n")
    Path("shop.py").write_text(PIPELINE)
    r = tm.open(load(f"{tmp_path}/shop.py:p").pipeline, root="root")
    r.init()
    run(r)
    return r


def test_the_key_is_the_empty_tuple(r: tm.Repository) -> None:
    assert r.state("sessions", keys=[()]).column("n").to_pylist() == [2, 1]
    assert r.state("sessions", keys=[]).num_rows == 0
    found = r.history("sessions", ())
    assert [[row["n"] for row in one.value] for one in found] == [[1], [2], [2, 1]]
    assert [[row["ts"].minute for row in one.rows] for one in found] == [[0], [5], [50]]
    with pytest.raises(tm.InvalidInput, match=r"history: expected keys of 0 columns \(\), found \('a',\)"):
        r.history("sessions", "a")


def test_the_key_is_an_empty_array_in_the_shell(r: tm.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    def lines(*arguments: str) -> list[str]:
        assert main([*arguments, "--key", "[]", "--root", "root"]) == 0
        return capfd.readouterr().out.splitlines()

    assert [json.loads(one)["n"] for one in lines("state", "shop.py:p", "--json")] == [2, 1]
    assert [json.loads(one)["version"] for one in lines("history", "shop.py:p", "--json")] == [0, 1, 2]
    assert len(lines("changes", "shop.py:p", "sessions", "0..2", "--json")) == 2
    assert lines("explain", "shop.py:p")[0] == "operator `sessions`, key []: 3 changes"
    assert r.head is not None


TIME = re.compile(r"\d{4}-\d\d-\d\d[^\d]\d\d:\d\d:\d\d\S*?(?=[\",):;\s]|$)")


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["log"],
        ["state"],
        ["history", "--key", "[]"],
        ["explain", "--key", "[]"],
        ["changes", "sessions", "0..2"],
    ],
)
def test_all_times_have_one_format(arguments: list[str], r: tm.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    del r
    verb, *more = arguments
    assert main([verb, "shop.py:p", *more, "--root", "root"]) == 0
    found = TIME.findall(capfd.readouterr().out)
    assert found
    for one in found:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}(\d{3})?)?Z", one), one


def test_a_key_that_does_not_fit_says_what_to_give(r: tm.Repository, capfd: pytest.CaptureFixture[str]) -> None:
    del r
    assert main(["state", "shop.py:p", "--key", "a", "--root", "root"]) == 1
    assert "give '[]': there are no key columns, so all rows have one key" in capfd.readouterr().err
