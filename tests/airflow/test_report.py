"""The words of the task log: versions, progress, summaries."""

from __future__ import annotations

import pytest

from tidemill.airflow.calls import report
from tidemill.airflow.calls.command import Command, Outcome
from tidemill.counts import versions_of

COMMAND = Command("run", "retail.py:p", "s3://lake")


def ended(result: dict[str, object]) -> Outcome:
    return Outcome(status=0, result=result)


@pytest.mark.parametrize(
    ("versions", "text"),
    [
        ([], "no version"),
        ([4], "version 4"),
        ([5, 4], "versions 4–5"),
        ([9, 4, 5, 6, 4, 11], "versions 4–6, 9, 11"),
    ],
)
def test_versions_are_drawn_together(versions: list[int], text: str) -> None:
    assert versions_of(versions) == text


def test_progress_leaves_out_counts_of_zero() -> None:
    batch = {"version": 7, "kind": "batch", "numInputRows": 1200, "processedRowsPerSecond": 340.6, "late_rows": 0}
    assert report.progress(batch) == "committed version 7, 1,200 rows, 341 rows/s"
    more = {**batch, "late_rows": 2, "quarantined_rows": 1, "numFilesOutstanding": 30}
    assert report.progress(more).endswith("341 rows/s, 2 late, 1 quarantined, 30 files waiting")


def test_progress_of_a_sweep_counts_no_rows() -> None:
    sweep = {"version": 8, "kind": "sweep", "numInputRows": 0, "processedRowsPerSecond": 0.0}
    assert report.progress(sweep) == "committed version 8, a sweep"


def test_summary_before_the_first_batch_says_there_is_no_version() -> None:
    outcome = ended({"status": "nothing", "versions": [], "head": -1})
    assert report.success_lines(outcome) == ["tidemill: nothing to do (no version yet)"]


def test_summary_ends_with_the_pipeline_as_a_folded_group() -> None:
    outcome = ended({"status": "done", "versions": [4], "head": 4, "graph": ["pipeline `shop`", "source `a`"]})
    assert report.success_lines(outcome) == [
        "tidemill: committed version 4 (head 4)",
        *("::group::tidemill: the pipeline", "pipeline `shop`", "source `a`", "::endgroup::"),
    ]
    assert "graph" not in report.xcom(outcome.result or {})


def test_summary_names_published_versions_of_earlier_runs() -> None:
    first, second = report.success_lines(ended({"status": "done", "versions": [], "published": [2, 3], "head": 3}))
    assert first == "tidemill: committed nothing new (head 3)"
    assert second == "tidemill: published versions 2–3, left unpublished by an earlier run"


def test_summary_does_not_repeat_committed_versions() -> None:
    lines = report.success_lines(ended({"status": "done", "versions": [4], "published": [4], "head": 4}))
    assert lines == ["tidemill: committed version 4 (head 4)"]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"status": "nothing"}, "nothing to do"),
        ({"dry_run": True, "garbage": [1, 2]}, "dry run: 2 objects would be deleted"),
        ({"deleted": 1, "floor": 4}, "deleted 1 object; versions from 4 on are kept"),
        (
            {"deleted": 2, "merged": [1], "compacted": [1, 2], "floor": 0},
            "deleted 2 objects, merged 1 range of state, joined 2 groups of published files; versions from 0 on are "
            "kept",
        ),
    ],
)
def test_summary_of_upkeep(result: dict[str, object], text: str) -> None:
    assert report.success_lines(ended({"verb": "maintain", **result})) == [f"tidemill: {text}"]


def test_failure_without_a_word_shows_the_last_lines() -> None:
    outcome = Outcome(status=1, last_lines=("Traceback", "ImportError: no pyarrow"))
    assert report.failure_message(COMMAND, outcome) == (
        "`tidemill run retail.py:p` failed with exit status 1\nthe log of this task has the rest"
    )
    text = report.failure_message(COMMAND, outcome, with_rows=True)
    first, *rest = text.split("\n")
    assert first == "`tidemill run retail.py:p` failed with exit status 1"
    assert rest == ["last lines of its output:", "Traceback", "ImportError: no pyarrow"]


@pytest.mark.parametrize(
    ("last_lines", "status", "is_so"),
    [
        (("/x/python: No module named tidemill",), 1, True),
        (("before", "/x/python: No module named tidemill"), 1, True),
        (("/x/python: No module named tidemill", "after"), 1, False),
        (("/x/python: No module named tidemill",), -9, False),
        (("/x/python: No module named tidemill_extras",), 1, False),
        (("ImportError: No module named tidemill._native",), 1, False),
        (
            ("python: No module named tidemill.__main__; 'tidemill' is a package and cannot be directly executed",),
            1,
            False,
        ),
        ((), 1, False),
    ],
)
def test_only_the_interpreters_own_words_say_that_tidemill_is_not_there(
    last_lines: tuple[str, ...], status: int, is_so: bool
) -> None:
    assert Outcome(status=status, last_lines=last_lines).not_installed == is_so
    error = {"kind": "InternalError", "message": "x"}
    assert not Outcome(status=status, last_lines=last_lines, error=error).not_installed


def test_failure_keeps_the_first_line_of_the_error_alone() -> None:
    error = {"kind": "InvalidInput", "message": "operator `spend` is not there\nhint: name it", "versions": [1, 2]}
    text = report.failure_message(COMMAND, Outcome(status=1, error=error, versions=(1, 2)))
    assert text == "InvalidInput: operator `spend` is not there (versions 1–2 committed before)\nhint: name it"
