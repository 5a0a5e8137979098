"""`init`, `run`, `sweep` and what reads: exit statuses, events, lines, on the local engine and real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemill.cli import progress
from tidemill.cli import run as run_command
from tidemill.cli.main import main
from tidemill.errors import Exit, Fenced

PIPELINE = """
import os
from pathlib import Path
import tidemill as tm

HERE = Path(__file__).parent

def track(batchTime, word, row, state):
    if os.environ.get("WORDS_NOISE"):
        print("noise of a user function", flush=True)
        os.system("echo noise of a child")
    if row is not None and row.n == 13:
        raise ValueError("thirteen is not allowed")
    if state.isTimingOut:
        return (word, -1)
    total = (state.getOption or 0) + row.n
    state.update(total)
    return (word, total)

p = tm.Pipeline("words")
words = p.read(tm.Files(str(HERE / "in"), format="csv", header=True, mode="PERMISSIVE", maxFilesPerTrigger=1,
                        schema="word string, n int"))
words.groupBy("word").mapWithState(tm.StateSpec.function(track).timeout("1 day"), name="track",
                                   stateSchema="bigint", outputSchema="word string, total bigint")
words.groupBy("word", "n").agg(times=tm.count(), name="times").write(tm.Json(str(HERE / "out")))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with the pipeline `words.py` and two waiting files."""
    (tmp_path / "words.py").write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("word,n\nx,1\ny,2\nx,3\n")
    (tmp_path / "in" / "b.csv").write_text("word,n\ny,4\nz,five\n")
    return tmp_path


@pytest.fixture
def call(home: Path, capfd: pytest.CaptureFixture[str]):
    """Calls the command line on `words.py`; gives exit status, stdout and stderr."""

    def run(verb: str, *options: str) -> tuple[int, str, str]:
        capfd.readouterr()
        target = [f"{home / 'words.py'}:p", "--root", str(home / "root")]
        engine = ["--engine", "local"] if verb in ("run", "sweep") else []
        status = main([verb, *target, *engine, *options])
        return status, *capfd.readouterr()

    return run


def objects(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_run_before_init_fails_with_a_hint_and_creates_no_files(call, home):
    status, out, err = call("run")
    assert (status, out) == (Exit.FAILED, "")
    first, *rest = err.splitlines()
    assert first.startswith("InvalidInput: pipeline `words` has no repository under")
    assert rest[-1].startswith("hint: ")
    assert "Traceback" not in err
    assert not (home / "root").exists()


def test_init_drops_an_operator_only_if_drop_names_it(call, home):
    assert call("init")[0] == Exit.DONE
    assert call("run")[0] == Exit.DONE
    without = PIPELINE.replace('words.groupBy("word", "n").agg', 'if False: words.groupBy("word", "n").agg')
    (home / "words.py").write_text(without)
    status, _, err = call("init")
    assert status == Exit.FAILED
    assert "lacks the operator `times`" in err
    assert "tidemill init PIPELINE --root ROOT --drop times" in err
    assert call("init", "--drop", "times")[0] == Exit.DONE
    (home / "in" / "c.csv").write_text("word,n\nx,1\n")
    assert call("run")[0] == Exit.DONE


@pytest.mark.parametrize(
    ("late", "quarantined", "files", "keeps_late", "line"),
    [
        (0, 0, 0, True, []),
        (1, 0, 0, False, ["1 late row dropped"]),
        (4, 1, 0, False, ["4 late rows dropped, 1 quarantined row; see `tidemill quarantine`"]),
        (2, 0, 0, True, ["2 late rows; see `tidemill quarantine`"]),
        (0, 3, 0, False, ["3 quarantined rows; see `tidemill quarantine`"]),
        (0, 0, 2, False, ["2 quarantined files; see `tidemill quarantine`"]),
    ],
)
def test_dropped_rows_are_not_looked_for_in_quarantine(late, quarantined, files, keeps_late, line):
    assert run_command._not_applied(late, quarantined, files, keeps_late) == line


def test_init_run_and_run_again_end_with_0_0_and_3(call):
    status, out, _ = call("init")
    assert status == Exit.DONE
    assert out.startswith("repository of `words`: file://")
    status, out, err = call("run")
    assert status == Exit.DONE
    assert out.startswith("committed versions 0–1: 5 rows of 2 files in ")
    assert out.splitlines()[0].endswith("; 0 files waiting")
    assert "1 quarantined row; see `tidemill quarantine`" in out
    (aside,) = [json.loads(line) for line in call("quarantine", "--json")[1].splitlines()]
    assert (aside["source"], aside["file"], aside["version"]) == ("source", "b.csv", 1)
    assert call("quarantine", "--version", "0", "--json")[1] == ""
    status, shown, _ = call("quarantine", "--version", "0")
    assert (status, "no rows" in shown) == (Exit.DONE, True)
    zero, one = err.splitlines()
    assert zero.startswith("version 0: batch, 3 rows, ")
    assert zero.endswith(" rows/s, 0 late, 0 quarantined, 1 file waiting")
    assert one.startswith("version 1: batch, 2 rows, ")
    assert one.endswith(" rows/s, 0 late, 1 quarantined, 0 files waiting")
    status, out, err = call("run")
    assert (status, err) == (Exit.NOTHING, "")
    assert out == "nothing to do: no file is waiting and nothing is due; head is version 1\n"


def test_with_json_stdout_has_one_event_a_batch_and_a_result_that_also_goes_to_the_file(call, home):
    assert objects(call("init", "--json")[1]) == [
        {"event": "result", "verb": "init", "status": "done", "versions": [], "already_committed": [], "published": [],
         "head": -1, "added": ["times", "track"], "changed": [], "dropped": []}
    ]  # fmt: skip
    status, out, err = call("run", "--json", "--result-file", str(home / "result.json"))
    *batches, result = objects(out)
    assert (status, err) == (Exit.DONE, "")
    assert [(one["event"], one["version"], one["numInputRows"]) for one in batches] == [
        ("progress", 0, 3), ("progress", 1, 2)
    ]  # fmt: skip
    (due,) = result["next_deadline"].values()
    assert due > datetime.now(UTC).isoformat()
    graph = result.pop("graph")
    assert graph == call("explain")[1].splitlines()
    times = {name: result.pop(name) for name in ("committed", "batch_time", "batches_ms", "state_bytes")}
    assert times["batch_time"] <= times["committed"] and min(times["batches_ms"], times["state_bytes"]) > 0
    assert result == {
        "event": "result", "verb": "run", "status": "done", "versions": [0, 1], "already_committed": [],
        "published": [0, 1], "head": 1, "pipeline": "words", "branch": "main", "watermarks": {}, "idle_ms": None,
        "next_deadline": {"batch": due}, "repository": f"{(home / 'root').as_uri()}/words", "rows": 5, "late_rows": 0,
        "files": 2, "bytes": 37, "sources": {"source": (home / "in").as_uri()},
        "quarantined_rows": 1, "quarantined_files": 0,
        "files_waiting": 0, "bytes_waiting": 0, "oldest_waiting_seconds": None, "state_rows": 6,
        "sinks": {
            "times": {"first_version": 0, "last_version": 1, "rows": 4, "path": str(home / "out")},
            "track": {"first_version": 0, "last_version": 1, "rows": 4, "path": None},
        },
    }  # fmt: skip
    (written,) = objects((home / "result.json").read_text())
    assert written == {**result, **times, "graph": graph}
    status, out, _ = call("run", "--json", "--result-file", str(home / "result.json"))
    (result,) = objects(out)
    assert (status, result["status"], result["versions"], result["head"]) == (Exit.NOTHING, "nothing", [], 1)
    assert objects((home / "result.json").read_text()) == [result]


def test_with_json_prints_of_user_code_and_its_children_go_to_stderr(home):
    environment = {**os.environ, "WORDS_NOISE": "1"}
    target = [f"{home / 'words.py'}:p", "--root", str(home / "root"), "--json"]
    command = [sys.executable, "-m", "tidemill"]
    subprocess.run([*command, "init", *target], check=True, env=environment, capture_output=True)
    found = subprocess.run(
        [*command, "run", *target, "--engine", "local"], check=True, env=environment, capture_output=True, text=True
    )
    assert [one["event"] for one in objects(found.stdout)] == ["progress", "progress", "result"]
    assert "noise of a user function" in found.stderr
    assert "noise of a child" in found.stderr


@pytest.mark.slow("start the command line as a process")
@pytest.mark.parametrize("voice", ["--json on stdout", "lines on stderr"])
def test_a_run_continues_to_its_end_after_its_reader_closes_the_pipe(home, voice):
    for number in range(12):
        (home / "in" / f"f{number:02}.csv").write_text("word,n\nx,1\n")
    target = [f"{home / 'words.py'}:p", "--root", str(home / "root")]
    command = [sys.executable, "-m", "tidemill"]
    subprocess.run([*command, "init", *target], check=True, capture_output=True)
    json_events = voice.startswith("--json")
    unread, other = ("stdout", "stderr") if json_events else ("stderr", "stdout")
    with subprocess.Popen(
        [*command, "run", *target, "--engine", "local", *(["--json"] if json_events else [])],
        text=True,
        **{unread: subprocess.PIPE, other: subprocess.PIPE},
    ) as process:
        pipe = getattr(process, unread)
        assert "version" in pipe.readline()
        pipe.close()
        said = getattr(process, other).read()
    assert process.returncode == Exit.DONE
    found = subprocess.run([*command, "status", *target, "--json"], check=True, capture_output=True, text=True)
    assert objects(found.stdout)[0]["head"] == 13
    if json_events:
        assert said == ""
    else:
        assert said.startswith("committed versions 0–13: ")


@pytest.mark.slow("start the command line as a process")
def test_a_table_ends_with_0_if_its_reader_closed_the_pipe(home):
    target = [f"{home / 'words.py'}:p", "--root", str(home / "root")]
    assert main(["init", *target]) == Exit.DONE
    reader, writer = os.pipe()
    os.close(reader)
    found = subprocess.run(
        [sys.executable, "-m", "tidemill", "status", *target], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (found.returncode, found.stderr) == (Exit.DONE, "")


def test_an_error_of_a_user_function_shows_its_traceback_and_the_committed_versions(call, home):
    (home / "in" / "b.csv").write_text("word,n\ny,13\n")
    call("init")
    status, out, err = call("run")
    assert (status, out) == (Exit.FAILED, "")
    reported = err[err.index("InvalidInput: ") :]
    assert reported.splitlines()[1] == "committed version 0 before the failure; this is kept"
    assert "`track`" in reported.splitlines()[0]
    assert "ValueError: thirteen is not allowed" in reported
    assert 'words.py", line' in reported
    assert "site-packages/tidemill" not in reported
    assert "pyspark_jobs/tidemill" not in reported
    status, out, err = call("run", "--json", "--result-file", str(home / "result.json"))
    (event,) = objects(out)
    assert (status, event["event"], event["kind"], event["versions"]) == (Exit.FAILED, "error", "InvalidInput", [])
    assert "thirteen" in event["message"]
    assert objects((home / "result.json").read_text()) == [event]


def test_debug_shows_our_traceback_too(call):
    status, _, err = call("run", "--debug")
    assert status == Exit.FAILED
    assert err.startswith("Traceback (most recent call last):")
    assert "InvalidInput: pipeline `words` has no repository under" in err


def failing(error: BaseException):
    def run(*_: object) -> None:
        raise error

    return run


def test_fenced_ends_with_4(call, monkeypatch):
    call("init")
    monkeypatch.setattr("tidemill.run.run.run", failing(Fenced("commit 5 is another batch", hint="look")))
    status, out, err = call("run", "--json")
    assert (status, objects(out)) == (
        Exit.FENCED,
        [{"event": "error", "kind": "Fenced", "message": "commit 5 is another batch\nhint: look", "versions": []}],
    )
    assert err == "Fenced: commit 5 is another batch\nhint: look\n"


def test_an_unexpected_error_is_reported_as_a_bug_without_a_traceback(call, monkeypatch):
    call("init")
    monkeypatch.setattr("tidemill.run.run.run", failing(ZeroDivisionError("oh")))
    status, _, err = call("run")
    assert status == Exit.FAILED
    assert err.splitlines() == [
        "InternalError: unexpected `ZeroDivisionError`: oh",
        "hint: this is a bug in Tidemill; run again with `--debug` for a traceback",
    ]


def test_an_interrupt_says_so_and_ends_with_130(call, monkeypatch):
    call("init")
    monkeypatch.setattr("tidemill.run.run.run", failing(KeyboardInterrupt()))
    status, out, err = call("run")
    assert (status, out) == (Exit.INTERRUPTED, "")
    assert err.strip().startswith("interrupted: committed batches are kept")


def test_run_obeys_max_batches_and_batch_time(call):
    call("init")
    status, out, _ = call("run", "--max-batches", "1", "--batch-time", "2013-01-02T00:00:00Z", "--json")
    batch, result = objects(out)
    assert (status, result["versions"], batch["timestamp"]) == (Exit.DONE, [0], "2013-01-02T00:00:00.000Z")
    _, out, _ = call("run", "--max-batches", "1", "--batch-time", "1357171200000", "--json")
    assert objects(out)[0]["timestamp"] == "2013-01-03T00:00:00.000Z"


def test_a_sweep_fires_each_due_timeout_once(call):
    call("init")
    call("run", "--batch-time", "2013-01-01T00:00:00Z")
    status, out, err = call("sweep", "--batch-time", "2013-01-03T00:00:00Z")
    assert (status, out.startswith("committed version 2: 0 rows of 0 files")) == (Exit.DONE, True)
    assert err.startswith("version 2: sweep, 0 rows")
    assert call("sweep", "--batch-time", "2013-01-03T00:00:00Z")[0] == Exit.NOTHING


def test_a_line_of_progress_says_version_kind_rows_rate_and_quarantined_rows(call):
    call("init")
    _, out, _ = call("run", "--json")
    from tidemill.protocol.progress import BatchProgress

    event = objects(out)[1]
    del event["event"]
    reported = progress.line(BatchProgress(**{**event, "processedRowsPerSecond": 1234.5, "numFilesOutstanding": 7}))
    assert reported == "version 1: batch, 2 rows, 1,234 rows/s, 0 late, 1 quarantined, 7 files waiting"


@pytest.mark.slow("start the command line as a process")
def test_the_file_for_spark_submit_accepts_the_arguments_of_run(call, home):
    import tidemill.run_batch

    call("init")
    path = tidemill.run_batch.__file__
    target = [f"{home / 'words.py'}:p", "--root", str(home / "root"), "--engine", "local"]
    done = subprocess.run(
        [sys.executable, path, *target, "--result-file", str(home / "result.json")], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.splitlines()[0][:23]) == (Exit.DONE, "committed versions 0–1:")
    assert objects((home / "result.json").read_text())[0]["versions"] == [0, 1]
    idle = subprocess.run([sys.executable, path, *target, "--result-file", str(home / "result.json")])
    assert idle.returncode == Exit.DONE  # spark-submit, YARN, EMR and Databricks report any other status as a failure
    assert objects((home / "result.json").read_text())[0]["status"] == "nothing"
    assert subprocess.run([sys.executable, path, "--nothing"], capture_output=True).returncode == Exit.USAGE


def try_of(monkeypatch: pytest.MonkeyPatch, number: int, run: str = "r1", task: str = "run") -> None:
    """Set the environment of a try of an Airflow task."""
    named = {"DAG_ID": "words", "TASK_ID": task, "DAG_RUN_ID": run, "TRY_NUMBER": str(number)}
    for name, value in named.items():
        monkeypatch.setenv(f"AIRFLOW_CTX_{name}", value)


def earlier(out: str) -> list[list[int]]:
    return [event["versions"] for event in objects(out) if event["event"] == "earlier"]


def test_a_later_try_of_an_airflow_task_names_what_the_commits_say_of_earlier_ones(call, home, monkeypatch):
    call("init")
    try_of(monkeypatch, 1)
    assert earlier(call("run", "--json", "--max-batches", "1")[1]) == []
    try_of(monkeypatch, 1, run="r2")
    call("run", "--json")
    (home / "in" / "c.csv").write_text("word,n\nq,1\n")
    try_of(monkeypatch, 2)
    status, out, _ = call("run", "--json")
    assert (status, earlier(out)) == (Exit.DONE, [[0]])
    assert objects(out)[0] == {"event": "earlier", "versions": [0]}
    try_of(monkeypatch, 3)
    status, out, _ = call("sweep", "--json")
    assert (status, earlier(out)) == (Exit.NOTHING, [[0, 2]])
    assert "earlier" not in call("sweep")[2]


def test_a_first_try_and_other_tasks_report_no_earlier_try(call, home, monkeypatch):
    call("init")
    try_of(monkeypatch, 1)
    call("run")
    assert earlier(call("run", "--json")[1]) == []  # first tries do not search
    try_of(monkeypatch, 2, task="other")
    assert earlier(call("run", "--json")[1]) == []


@pytest.mark.parametrize(
    ("logical_date", "found"),
    [("2020-01-01T00:00:00+00:00", [[0, 1]]), ("2999-01-01T00:00:00+00:00", [[0, 1]]), ("no date", [[0, 1]])],
)
def test_a_later_try_searches_back_to_the_logical_date(call, monkeypatch, logical_date, found):
    call("init")
    try_of(monkeypatch, 1)
    call("run")
    try_of(monkeypatch, 2)
    monkeypatch.setenv("AIRFLOW_CTX_LOGICAL_DATE", logical_date)
    assert earlier(call("run", "--json")[1]) == found


def test_the_search_for_earlier_tries_ends_at_the_logical_date(call, home, monkeypatch):
    call("init")
    try_of(monkeypatch, 1)
    monkeypatch.setattr("tidemill.run.assemble.now_ms", lambda: 1_700_000_000_000)
    call("run")
    monkeypatch.undo()
    try_of(monkeypatch, 2)
    monkeypatch.setenv("AIRFLOW_CTX_LOGICAL_DATE", "2024-06-01T00:00:00+00:00")
    assert earlier(call("run", "--json")[1]) == []
