"""`tidemill quarantine --export` and `tidemill requeue`: exit statuses, lines, JSON, and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tidemill.cli.main import main
from tidemill.errors import Exit

PIPELINE = """
from pathlib import Path
import tidemill as tm

p = tm.Pipeline("words")
words = p.read(tm.Files(str(Path(__file__).parent / "in"), format="csv", header=True, mode="PERMISSIVE",
                        schema="word string, n int"))
words.groupBy("word").agg(n=tm.sum("n"), name="sums")
"""
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line on a pipeline with a version that quarantined two rows."""
    (tmp_path / "words.py").write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("word,n\nx,1\ny,two\nz,three\n")

    def run(verb: str, *options: str) -> tuple[int, str, str]:
        capfd.readouterr()
        engine = ["--engine", "local"] if verb == "run" else []
        status = main([verb, f"{tmp_path / 'words.py'}:p", "--root", str(tmp_path / "root"), *engine, *options])
        return status, *capfd.readouterr()

    run("init")
    run("run")
    return run


def test_exported_rows_come_back_corrected(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert call("quarantine", "--export", str(file)) == (Exit.DONE, f"wrote 2 rows to {file}\n", "")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(row["_version"], row["_row_id"], row["_kind"], row["_text"]) for row in rows] == [
        (0, 0, "unreadable", "y,two"), (0, 1, "unreadable", "z,three"),
    ]  # fmt: skip
    file.write_text(json.dumps(rows[1] | {"word": "z", "n": 3}) + "\n")
    options = ("--version", "0", "--rows", str(file))
    what = "1 row of source `source` that version 0 quarantined (unreadable) will be read again by the whole pipeline\n"
    assert call("requeue", *options, "--dry-run") == (Exit.DONE, what + "dry run: nothing was changed\n", "")
    assert call("requeue", *options, "--reason", "typing errors") == (
        Exit.DONE, "requeued 1 row of version 0 in version 1\n", what,
    )  # fmt: skip
    assert "requeued     source  1 row waiting" in call("status")[1]
    assert json.loads(call("status", "--json")[1])["requeued_rows"] == {"source": 1}
    assert call("run")[0] == Exit.DONE
    state = [json.loads(line) for line in call("state", "--operator", "sums", "--json")[1].splitlines()]
    assert sorted((row["word"], row["n"]) for row in state) == [("x", 1), ("z", 3)]
    status, _, err = call("requeue", *options)
    assert status == Exit.FAILED
    assert "row 1 (file `a.csv`, line 4) was requeued already by version 1" in err


def test_requeue_writes_events_with_json(call: Call, tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(PIPELINE.replace("n int", "n string").replace("tm.sum", "tm.max"))
    status, out, err = call("requeue", "--version", "0", "--source", "source", "--json")
    assert (status, "Traceback" in err) == (Exit.DONE, False), out
    result = json.loads(out)
    assert (result["verb"], result["versions"], result["rows"]) == ("requeue", [1], 2)


def test_an_export_does_not_replace_a_file_and_says_when_there_are_no_rows(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("corrections of an hour")
    status, _, err = call("quarantine", "--export", str(file))
    assert (status, file.read_text()) == (Exit.FAILED, "corrections of an hour")
    assert "the file exists, and may hold corrections" in err
    status, _, err = call("quarantine", "--export", str(tmp_path / "rows.xlsx"))
    assert status == Exit.FAILED
    assert "expected a name that ends in .parquet, .csv, .json" in err
    status, _, err = call("quarantine", "--export", str(tmp_path / "gone" / "rows.csv"))
    assert (status, "No such file or directory" in err) == (Exit.FAILED, True)
    (tmp_path / "in" / "b.csv").write_text("word,n\nx,1\n")
    call("run")
    assert call("quarantine", "--version", "1", "--export", str(tmp_path / "none.csv"))[0] == Exit.NOTHING
    assert not (tmp_path / "none.csv").exists()
    status, _, err = call("quarantine", "--source", "sauce")
    assert (status, "unknown source `sauce`; did you mean `source`?" in err) == (Exit.FAILED, True)
