"""Going back: what a user sees of a rewind, in the state, in the sinks, in the files that wait, and in errors."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

import tidemill as tm
from tests.journeys.shop import arrive, files, opened, published, run
from tidemill.actions.rewind import RewindPlan
from tidemill.cli.main import main
from tidemill.publishing.correct import correct

BAD = "x,not a number\n"


def totals(r: tm.Repository, version: int | str | None = None) -> dict[str, int]:
    table = r.state("counts", version=version)
    return dict(zip(table["k"].to_pylist(), table["n"].to_pylist(), strict=True))


def three(folder: Path, **options: Any) -> tm.Repository:
    """Three batches of a file each: a, b, a."""
    arrive(folder, "a", "b")
    r = opened(folder, **options)
    run(r)
    (folder / "in" / "c.csv").write_text("a,1\n")
    run(r)
    return r


# state and input


def test_a_rewind_restores_state_watermark_and_batch_time_and_files_wait_again(tmp_path: Path) -> None:
    r = three(tmp_path)
    made = r.rewind(0, "wrong prices")
    assert (made.version, made.kind, made.reason) == (3, "rewind", "wrong prices")
    assert made.restores is not None and made.restores.version == 0
    assert totals(r) == {"a": 1}
    assert made.batch_time_ms == r.commit(0).batch_time_ms
    assert r.status().waiting_files == {"source": 2}
    assert run(opened(tmp_path)) == [4, 5]
    assert totals(r) == {"a": 2, "b": 1}


def test_old_versions_stay_readable_and_outputs_follow_the_effective_history(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.rewind(0, "a test")
    assert totals(r, 2) == {"a": 2, "b": 1}
    assert r.outputs(version=2)["k"].to_pylist() == ["a"]
    assert r.outputs()["_batch_id"].to_pylist() == [0]
    run(r)
    assert r.outputs()["_batch_id"].to_pylist() == [0, 4, 5]
    assert [commit.version for commit in r.log()] == [5, 4, 3, 2, 1, 0]


def test_a_bad_file_is_one_command(tmp_path: Path) -> None:
    r = three(tmp_path)
    made = r.rewind(0, "b.csv is wrong", without=["b.csv"])
    assert [(one.source, one.path) for one in made.skipped] == [("source", "b.csv")]
    run(opened(tmp_path))
    assert totals(opened(tmp_path)) == {"a": 2}
    assert [row["version"] for row in published(tmp_path)] == [0, 4]


def test_a_file_that_was_corrected_before_the_rewind_is_read_with_its_new_content(tmp_path: Path) -> None:
    r = three(tmp_path)
    (tmp_path / "in" / "b.csv").write_text("corrected,1\n")
    r.rewind(0, "b.csv was corrected")
    run(opened(tmp_path))
    assert totals(opened(tmp_path)) == {"a": 2, "corrected": 1}


def test_a_rewind_to_before_the_first_batch_starts_again_from_what_init_made(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.rewind(-1, "start again")
    assert totals(r) == {}
    assert files(tmp_path) == []
    assert run(opened(tmp_path)) == [4, 5, 6]
    assert totals(opened(tmp_path)) == {"a": 2, "b": 1}


def test_a_rewind_goes_to_a_tag(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.tag("before-b", 0)
    assert r.rewind("before-b", "a test").restores == r.commit(0).as_parent


def test_a_rewind_can_be_undone_and_the_files_appear_again(tmp_path: Path) -> None:
    r = three(tmp_path)
    before = [(row["k"], row["n"], row["version"]) for row in published(tmp_path)]
    r.rewind(0, "a mistake")
    assert len(files(tmp_path)) == 1
    r.rewind(2, "it was right")
    assert [(row["k"], row["n"], row["version"]) for row in published(tmp_path)] == before
    assert totals(r) == {"a": 2, "b": 1}
    assert r.status().waiting_files == {"source": 0}
    assert r.verify(deep=True).problems == []


# sinks


def test_what_a_rewind_restores_is_held_while_retention_gives_it_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = opened(tmp_path)
    arrive(tmp_path, "a", "b", "c")
    run(r)
    before = published(tmp_path)
    r.rewind(0, "a mistake")

    def meanwhile(*arguments: Any) -> Any:
        assert opened(tmp_path).maintain(keep_versions=1).floor == 3
        return correct(*arguments)

    monkeypatch.setattr("tidemill.actions.carry_out.correct", meanwhile)
    assert r.rewind(2, "no mistake").version == 4
    assert opened(tmp_path).verify(deep=True).problems == []
    assert [(row["k"], row["n"]) for row in published(tmp_path)] == [(row["k"], row["n"]) for row in before]
    assert r.state().num_rows == 3


def test_published_files_of_undone_versions_are_deleted(tmp_path: Path) -> None:
    r = three(tmp_path)
    assert len(files(tmp_path)) == 3
    made = r.rewind(1, "a test")
    assert [one.version for one in made.withdraws["counts"]] == [2]
    assert [row["version"] for row in published(tmp_path)] == [0, 1]


def test_files_that_a_stalled_process_copies_after_the_withdrawal_are_withdrawn_by_the_next_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    r = three(tmp_path)
    kept = {path: path.read_bytes() for path in files(tmp_path)}
    r.rewind(0, "a test", without=["b.csv", "c.csv"])
    for path, data in kept.items():  # what a process does that stalled before the rewind
        path.write_bytes(data)
    assert len(files(tmp_path)) == 3
    with caplog.at_level(logging.WARNING, "tidemill"):
        assert run(opened(tmp_path)) == []  # nothing waits
    assert [row["version"] for row in published(tmp_path)] == [0]
    assert "2 files of withdrawn versions appeared again" in caplog.text
    arrive(tmp_path, "d")
    run(opened(tmp_path))
    for path, data in kept.items():
        path.write_bytes(data)
    assert opened(tmp_path).maintain().strays == {"counts": sorted(path.name for path in list(kept)[1:])}
    assert [row["version"] for row in published(tmp_path)] == [0, 4]


def test_a_process_that_stalls_in_publishing_withdraws_its_copies_itself(tmp_path: Path) -> None:
    from tidemill.publishing import publish as publishing

    r = three(tmp_path)
    stalled = [work for work in publishing.works(r.context, r.commit(2)) if work.files]
    r.rewind(0, "a test")
    assert publishing._publish(opened(tmp_path).context, stalled[0])  # it copies, and finds the record there
    assert [row["version"] for row in published(tmp_path)] == [0]


def test_a_function_is_called_with_the_batches_that_no_longer_count(tmp_path: Path) -> None:
    calls: list[Any] = []

    def fn(table: Any, batch_id: int, withdrawn: Any = ()) -> None:
        calls.append((batch_id, sorted(table["n"].to_pylist()), list(withdrawn)))

    arrive(tmp_path, "a", "b")
    r = function_of(tmp_path, fn)
    run(r)
    r.rewind(0, "a test")
    assert calls[2:] == [(2, [], [1])]
    r.rewind(1, "undone")
    assert calls[3:] == [(3, [1], [2])] or calls[3:] == [(3, [1], [])]
    run(r)
    assert totals(r) == {"a": 1, "b": 1}


def test_a_function_that_cannot_undo_its_batches_refuses_the_rewind(tmp_path: Path) -> None:
    arrive(tmp_path, "a", "b")
    r = function_of(tmp_path, lambda table, batch_id: None)
    run(r)
    with pytest.raises(
        tm.InvalidInput, match="sink `calls`: the function given to foreachBatch has no parameter `withd"
    ):
        r.rewind(0, "a test")
    assert r.head is not None and r.head.version == 1


def function_of(folder: Path, fn: Any) -> tm.Repository:
    p = tm.Pipeline("shop")
    rows = p.read(tm.Files(str(folder / "in"), format="csv", schema="k string, v int", maxFilesPerTrigger=1))
    rows.groupBy("k").agg(n=tm.count(), name="counts").foreachBatch(fn, name="calls")
    r = tm.open(p, root=str(folder / "root"))
    r.init()
    return r


def test_a_sink_that_left_the_code_is_withdrawn_but_shows_no_version_again(tmp_path: Path) -> None:
    three(tmp_path)
    without = opened(tmp_path, sink=False)
    without.rewind(0, "a test")
    assert [row["version"] for row in published(tmp_path)] == [0]
    said = "rewind: sink `counts`: the rows of version 1 would have to be published again, but this code does not have"
    with pytest.raises(tm.InvalidInput, match=said) as refused:
        without.rewind(2, "undo")
    assert refused.value.hint == "rewind with code that has the sink, and then remove it"
    opened(tmp_path).rewind(2, "undo")
    assert [row["version"] for row in published(tmp_path)] == [0, 1, 2]


def test_files_of_a_sink_that_was_gone_for_a_while_follow_a_rewind(tmp_path: Path) -> None:
    three(tmp_path)
    arrive(tmp_path, "d")
    run(opened(tmp_path, sink=False))
    r = opened(tmp_path)
    r.rewind(0, "a test")
    assert [row["version"] for row in published(tmp_path)] == [0]
    run(opened(tmp_path, sink=False))
    r.rewind(2, "undo")
    assert [row["version"] for row in published(tmp_path)] == [0, 1, 2]
    assert r.verify(deep=True).problems == []


# refused


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((7, "a test"), "^rewind to version 7: the newest version is 2$"),
        ((-2, "a test"), "^version=-2, expected at least -1, which is before the first batch$"),
        ((True, "a test"), "^version=True, expected a whole number or a tag"),
        ((0, ""), "^rewind: the reason is empty"),
        ((2, "a test"), "^rewind to version 2: this is what the newest version has, so nothing would change$"),
        (("month-end", "a test"), "^unknown tag `month-end`; tags: there is none"),
        (
            (1, "a test", ["b.csv"]),
            "^rewind without `b.csv`: version 1 read it, so its rows are part of the version to",
        ),
        ((0, "a test", ["d.csv"]), "unknown file to leave out `d.csv`"),
        ((0, "a test", [("days", "b.csv")]), "unknown source `days`"),
        ((0, "a test", [3]), "^rewind: found 3, expected a path or a pair of source and path$"),
    ],
)
def test_a_wrong_rewind_changes_nothing(tmp_path: Path, arguments: Any, said: str) -> None:
    r = three(tmp_path)
    before = sorted(path for path in (tmp_path / "root").rglob("*") if path.is_file())
    with pytest.raises(tm.InvalidInput, match=said):
        r.rewind(*arguments)
    assert sorted(path for path in (tmp_path / "root").rglob("*") if path.is_file()) == before
    assert len(files(tmp_path)) == 3


def test_a_rewind_before_the_first_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tm.InvalidInput, match="pipeline `shop` has no version yet"):
        opened(tmp_path).rewind(-1, "a test")


def test_a_version_that_is_no_longer_kept_cannot_be_restored(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.maintain(keep_versions=1)
    with pytest.raises(
        tm.InvalidInput, match="^rewind to version 0 of branch `main`: it is no longer kept; versions from"
    ):
        r.rewind(0, "a test")
    assert r.head is not None and r.head.version == 2


def test_outputs_that_are_no_longer_kept_cannot_be_published_again(tmp_path: Path) -> None:
    r = three(tmp_path)
    r.tag("was-right", 2)
    r.rewind(-1, "a mistake", without=["a.csv", "b.csv", "c.csv"])
    r.maintain(keep_versions=1)
    with pytest.raises(
        tm.InvalidInput, match="^rewind: publish again version 0 of branch `main`: it is no longer kept"
    ):
        r.rewind("was-right", "undo")


def test_a_run_at_work_is_fenced_by_a_rewind(tmp_path: Path) -> None:
    three(tmp_path)
    (tmp_path / "in" / "d.csv").write_text("d,1\n")
    p = tm.Pipeline("shop")
    rows = p.read(tm.Files(str(tmp_path / "in"), format="csv", schema="k string, v int", maxFilesPerTrigger=1))

    def meanwhile(batch: Any) -> Any:
        if r.head is not None and r.head.version == 2:
            opened(tmp_path).rewind(0, "beside a run")
        return batch

    rows.map_batches(meanwhile, schema="k string, v int").groupBy("k").agg(n=tm.count(), name="counts").write(
        tm.Json(str(tmp_path / "out"))
    )
    r = tm.open(p, root=str(tmp_path / "root"))
    with pytest.raises(tm.Fenced, match="another run is committing to this pipeline"):
        r.run(engine="local", tasks=1)
    assert r.head is not None and (r.head.version, r.head.kind) == (3, "rewind")
    assert run(opened(tmp_path)) == [4, 5, 6]
    assert totals(opened(tmp_path)) == {"a": 2, "b": 1, "d": 1}


# the command line


PIPELINE = """
import tidemill as tm
p = tm.Pipeline("shop")
rows = p.read(tm.Files("in", format="csv", schema="k string, v int", maxFilesPerTrigger=1))
rows.groupBy("k").agg(n=tm.count(), name="counts").write(tm.Json("out"))
"""


def command(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main([*arguments, "--root", "root"])
    shown = capfd.readouterr()
    return status, shown.out, shown.err


def test_the_command_says_before_what_will_happen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(PIPELINE)
    arrive(tmp_path, "a", "b", "c")
    command(capfd, "init", "shop.py:p")
    command(capfd, "run", "shop.py:p", "--engine", "local")
    rewind = ("rewind", "shop.py:p", "--to", "0", "--without", "b.csv", "--reason", "a bad file")
    status, out, _ = command(capfd, *rewind, "--dry-run")
    assert (status, out.splitlines()) == (
        0,
        [
            "the state becomes that of version 0",
            "undone: versions 1–2",
            "1 file (`c.csv`) will be read again",
            "1 file (`b.csv`) will not be read",
            "sink `counts`: files are deleted: versions 1–2",
            "dry run: nothing was changed",
        ],
    )
    assert len(files(tmp_path)) == 3
    status, out, err = command(capfd, *rewind, "--json")
    assert "undone: versions 1–2" in err
    found = json.loads(out.splitlines()[-1])
    assert (found["versions"], found["undone"], found["waiting"]) == ([3], [1, 2], [["source", "c.csv"]])
    command(capfd, "tag", "shop.py:p", "month-end", "0")
    assert command(capfd, "tag", "shop.py:p")[1] == "month-end  0\n"
    status, out, _ = command(capfd, "log", "shop.py:p", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(one["version"], one["kind"], one["undone"]) for one in lines] == [
        (3, "rewind", False), (2, "batch", True), (1, "batch", True), (0, "batch", False),
    ]  # fmt: skip
    assert (lines[0]["reason"], lines[0]["restores"], lines[3]["tags"]) == ("a bad file", 0, ["month-end"])
    status, out, _ = command(capfd, "state", "shop.py:p", "--version", "month-end", "--json")
    assert [json.loads(line)["k"] for line in out.splitlines()] == ["a"]
    assert command(capfd, "log", "shop.py:p")[1].count("\n") > 4
    assert command(capfd, "untag", "shop.py:p", "month-end")[1] == "removed tag `month-end`, which named version 0\n"
    status, _, err = command(capfd, "state", "shop.py:p", "--version", "month-end")
    assert (status, "unknown tag or branch `month-end`" in err) == (1, True)


def test_a_copied_repository_cannot_be_rewound_before_it_is_adopted(tmp_path: Path) -> None:
    three(tmp_path)
    shutil.copytree(tmp_path / "root", tmp_path / "copy")
    p = opened(tmp_path).context.pipeline
    with pytest.raises(tm.InvalidInput, match="to write: it was made at"):
        tm.open(p, root=str(tmp_path / "copy")).rewind(0, "a test")


def test_a_copy_that_goes_back_leaves_what_the_original_published(tmp_path: Path) -> None:
    three(tmp_path)
    shutil.copytree(tmp_path / "root", tmp_path / "copy")
    p = opened(tmp_path).context.pipeline
    copy = tm.open(p, root=str(tmp_path / "copy"))
    copy.adopt("a copy", copy=True)
    before = files(tmp_path)
    made = copy.rewind(0, "a test")
    assert (made.withdraws, made.adds) == ({}, {})
    assert files(tmp_path) == before
    assert totals(copy) == {"a": 1}
    copy.rewind(2, "back")
    assert files(tmp_path) == before


def test_a_function_of_a_copy_is_not_called_for_batches_of_the_original(tmp_path: Path) -> None:
    calls: list[Any] = []

    def fn(table: Any, batch_id: int, withdrawn: Any = ()) -> None:
        calls.append((batch_id, list(withdrawn)))

    arrive(tmp_path, "a", "b")
    run(function_of(tmp_path, fn))
    shutil.copytree(tmp_path / "root", tmp_path / "copy")
    copy = tm.open(function_of(tmp_path, fn).context.pipeline, root=str(tmp_path / "copy"))
    copy.adopt("a copy", copy=True)
    calls.clear()
    copy.rewind(0, "a test")
    assert calls == []


def test_files_that_are_gone_and_files_that_were_skipped_are_named_before(tmp_path: Path) -> None:
    r = three(tmp_path)
    (tmp_path / "in" / "d.csv").write_text("d,1\n")
    r.skip("d.csv", "a test")
    (tmp_path / "in" / "b.csv").unlink()
    found = r.rewind(0, "a test", dry_run=True)
    assert isinstance(found, RewindPlan)
    assert [file.path for file in found.waiting] == ["c.csv", "d.csv"]
    assert [file.path for file in found.gone] == ["b.csv"]
    r.rewind(0, "a test")
    assert r.status().waiting_files == {"source": 2}
