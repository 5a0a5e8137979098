"""Exceptions without rows: the errors of the real command line, and the words in which others put values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidemill.airflow.calls import report
from tidemill.airflow.calls.command import Command, Outcome
from tidemill.airflow.calls.rowless import without_rows
from tidemill.cli.main import main

PIPELINE = """
from pathlib import Path
import tidemill as tm

def track(batchTime, who, row, state):
    {body}

p = tm.Pipeline("people")
rows = p.read(tm.Files(str(Path(__file__).parent / "in"), format="csv", header=True, schema="who string, n int"))
rows.groupBy("who").mapWithState(tm.StateSpec.function(track), name="track", stateSchema="int", outputSchema="n int")
"""
NAME = "Joe `the` (Smith), for key"


def error_of(folder: Path, body: str, number: str, capfd: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Run a pipeline that fails on a row of `NAME`; return its error event."""
    (folder / "people.py").write_text(PIPELINE.format(body=body))
    (folder / "in").mkdir()
    (folder / "in/a.csv").write_text(f'who,n\n"{NAME}",{number}\n')
    target = [f"{folder}/people.py:p", "--root", str(folder / "root"), "--json"]
    assert main(["init", *target]) == 0
    capfd.readouterr()
    assert main(["run", *target, "--engine", "local"]) == 1
    found: dict[str, str] = json.loads(capfd.readouterr().out.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("body", "number", "first"),
    [
        ("pass", "Joe", "InvalidInput: read file `a.csv` of source `source`, line 2, column `n`"),
        (
            "raise ValueError(f'Joe {row}')",
            "1",
            "InvalidInput: function `track` of operator `track` raised `ValueError`",
        ),
        ("state.update('Joe')", "1", "InvalidInput: cannot store the state of key"),
        ("return row", "1", "InvalidInput: cannot emit the result of function `track` of operator `track` for key"),
    ],
)
def test_exception_of_a_real_error_has_no_value_of_a_row(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], body: str, number: str, first: str
) -> None:
    error = error_of(tmp_path, body, number, capfd)
    assert "Joe" in error["message"]
    command = Command("run", "people.py:p", "/lake")
    text = report.failure_message(command, Outcome(status=1, error=error))
    assert text.split("\n")[:2] == [first, "the log of this task has the rest"]
    assert "Joe" not in text
    assert "Joe" in report.failure_message(command, Outcome(status=1, error=error), with_rows=True)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            "run a batch on engine `spark`: a task raised ValueError: Joe",
            "run a batch on engine `spark`: a task raised V",
        ),
        ("unexpected `ArrowInvalid`: cannot convert Joe", "unexpected `ArrowInvalid`"),
        ("migrate: the function returned the key (Joe,) in 2 rows", "migrate: the function returned the key"),
        ("operator `o`: the function failed for keys among `Joe`, `Jim`", "operator `o`: the function failed for key"),
        (
            "the function of p.batch_time raised `KeyError: 'Joe'` for batch 3",
            "the function of p.batch_time raised `Key",
        ),
    ],
)
def test_words_before_values_are_cut(message: str, text: str) -> None:
    first, second = without_rows(message)
    assert first.startswith(text)
    assert "Joe" not in first
    assert second == "the log of this task has the rest"


@pytest.mark.parametrize(
    "message",
    [
        "operator `spend` has state schema `double`, this code declares `long`\nhint: deploy it as a migration",
        "read file `a.csv` of source `source`: the file changed after it was planned: found 5 bytes",
        "put `x` of `s3://lake`: no answer",
        "pipeline reference 'x.py:p': file `/x.py` does not exist",
    ],
)
def test_other_messages_stay_whole(message: str) -> None:
    assert "\n".join(without_rows(message)) == message
