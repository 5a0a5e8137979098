"""The child process by itself, against a fake command line: what it returns, and that it never stays."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidemill.airflow.calls import process, report
from tidemill.airflow.calls.command import Command, Event, Outcome
from tidemill.airflow.calls.process import Child
from tidemill.errors import InvalidInput

pytestmark = pytest.mark.servers("run Airflow tasks")

COMMAND = Command("run", "retail.py:p", "file:///lake", {"branch": "main", "max_batches": None})

Env = Callable[[str], dict[str, str]]
Pids = Callable[[], list[int]]
Alive = Callable[[list[int]], list[int]]
WaitFor = Callable[[Callable[[], object], str], None]

# A process of its own that runs a child, as an Airflow task does.
HOST = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[2] / "pyspark_jobs")!r})
from tidemill.airflow.calls.command import Command
from tidemill.airflow.calls.process import Child
command = Command("run", "retail.py:p", "file:///lake")
print(Child(command, print, print, env=json.loads(sys.argv[1])).run().ended, flush=True)
"""


class Seen:
    """Collects what a child hands on."""

    def __init__(self, env: dict[str, str], **arguments: Any) -> None:
        self.events: list[Event] = []
        self.lines: list[str] = []
        self.levels: dict[str, int] = {}
        self.child = Child(COMMAND, self.events.append, self.take, env=env, **arguments)

    def take(self, line: str, level: int) -> None:
        self.lines.append(line)
        self.levels[line] = level


def run(env: dict[str, str], **arguments: Any) -> tuple[Outcome, Seen]:
    seen = Seen(env, **arguments)
    return seen.child.run(), seen


def test_result_progress_and_lines_come_back_in_order(fake_env: Env) -> None:
    outcome, seen = run(fake_env("done"))
    assert outcome.status == 0
    assert outcome.result is not None
    assert outcome.result["head"] == 5
    assert outcome.versions == (4, 5)
    assert [event["event"] for event in seen.events] == ["progress", "progress", "result"]
    assert sorted(seen.lines) == ["a line of a user function", "starting"]


def heard(command: Command, env: dict[str, str], **arguments: Any) -> dict[str, Any]:
    """What the fake command was started with."""
    lines: list[str] = []
    Child(command, lambda _: None, lambda line, _: lines.append(line), env=env, **arguments).run()
    found: dict[str, Any] = json.loads(lines[0])
    return found


def test_arguments_contain_exactly_the_given_options(fake_env: Env) -> None:
    options = {"max_batches": 3, "time_budget": None, "engine": "None", "keep": ["1 day", "a=2 days"], "yes": True}
    command = Command("run", "retail.py:p", "s3://lake", {**options, "dry_run": "False", "branch": ""})
    expected = ["run", "--root=s3://lake", "--json", "--max-batches=3", "--keep=1 day", "--keep=a=2 days", "--yes"]
    assert heard(command, fake_env("echo"))["arguments"] == [*expected, "--", "retail.py:p"]


def test_a_pipeline_that_looks_like_an_option_is_the_pipeline() -> None:
    """With the real command line: without `--` it would be an unknown option, or worse, one that exists."""
    seen: list[str] = []
    outcome = Child(Command("run", "--help.py:p", "/lake"), lambda _: None, lambda line, _: seen.append(line)).run()
    assert outcome.error is not None
    assert outcome.error["message"].startswith("pipeline reference '--help.py:p': file `")


def test_settings_and_storage_options_are_in_the_environment_and_not_in_the_arguments(fake_env: Env) -> None:
    conf = {"tidemill.block_rows": 5, "spark.password": "hush", "spark.none": None}
    command = Command("run", "m:p", "s3://lake", conf=conf, storage_options={"root": {"secret": "hush"}})
    found = heard(command, fake_env("echo"))
    assert "hush" not in " ".join(found["arguments"])
    assert json.loads(found["env"]["TIDEMILL_CONF"]) == {"tidemill.block_rows": "5", "spark.password": "hush"}
    assert json.loads(found["env"]["TIDEMILL_STORAGE_OPTIONS"]) == {"root": {"secret": "hush"}}


def test_environment_of_this_process_reaches_the_command_without_airflows_settings(
    fake_env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "manual__1")
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "hush")
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "hush")
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", "aws://key:hush@")
    monkeypatch.setenv("AIRFLOW_VAR_TOKEN", "hush")
    env = heard(COMMAND, fake_env("echo"))["env"]
    assert env["AIRFLOW_CTX_DAG_RUN_ID"] == "manual__1"
    assert [name for name in env if name.startswith(("AIRFLOW__", "AIRFLOW_CONN_", "AIRFLOW_VAR_"))] == []
    own = {**fake_env("echo"), "AIRFLOW__CORE__FERNET_KEY": "mine"}
    assert heard(COMMAND, own)["env"]["AIRFLOW__CORE__FERNET_KEY"] == "mine"


def test_command_runs_in_its_folder_and_imports_nothing_from_it(fake_env: Env, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('a file of the DAG folder was imported')")
    found = heard(Command("run", "m:p", "/lake", cwd=str(tmp_path)), fake_env("echo"))
    assert found["cwd"] == str(tmp_path)
    assert not {"", str(tmp_path)} & set(found["path"])


def test_folder_that_is_not_there_is_invalid_input(fake_env: Env) -> None:
    command = Command("run", "m:p", "/lake", cwd="/no/folder")
    with pytest.raises(InvalidInput, match="cannot start the command in `/no/folder`: no such folder"):
        Child(command, lambda _: None, lambda *_: None, env=fake_env("done")).run()


@pytest.mark.parametrize("says", ["stalls", "stubborn"])
def test_command_that_is_silent_for_too_long_is_ended(fake_env: Env, pids: Pids, alive: Alive, says: str) -> None:
    outcome, _ = run(fake_env(says), stall_s=1.0)
    assert outcome.ended == "it wrote no line and committed nothing for 1 s"
    assert outcome.versions == (4,)
    assert alive(pids()) == []


def test_command_that_writes_lines_or_commits_is_not_ended(fake_env: Env) -> None:
    outcome, _ = run(fake_env("slow"), stall_s=1.0)
    assert (outcome.ended, outcome.status) == (None, 0)


def test_lines_keep_their_levels(fake_env: Env) -> None:
    text = (
        "plain\nwarning: 3 keys failed\n26/11/25 08:00:00 ERROR Utils: lost\n\tat org.apache\nCaused by: x\nplain too\n"
    )
    _, seen = run({**fake_env("says"), "FAKE_SAYS": text})
    found = {line: logging.getLevelName(level) for line, level in seen.levels.items() if line in text}
    assert found == {
        "plain": "INFO",
        "warning: 3 keys failed": "WARNING",
        "26/11/25 08:00:00 ERROR Utils: lost": "ERROR",
        "\tat org.apache": "ERROR",
        "Caused by: x": "ERROR",
        "plain too": "INFO",
    }


def test_lines_without_an_end_are_capped(fake_env: Env) -> None:
    outcome, seen = run(fake_env("endless"))
    assert outcome.status == 0
    assert [len(line) < 10_000 for line in seen.lines if line.startswith("xxx")] == [True, True]
    assert seen.lines[0].endswith("x … (99,991,808 more bytes)")


def test_bars_are_split_and_their_last_frame_is_kept(fake_env: Env) -> None:
    _, seen = run({**fake_env("says"), "FAKE_SAYS": "10 %\r20 %\r30 %\r\nafter\r\nlast\n"})
    said = ["10 %", "30 %", "after", "last"]
    assert [line for line in seen.lines if line in ("20 %", *said)] == said


def test_real_time_signal_is_named(fake_env: Env) -> None:
    outcome, _ = run(fake_env("realtime"))
    assert outcome.status == -(signal.SIGRTMIN + 3)
    assert "was killed by SIGRTMIN+3" in report.failure_message(COMMAND, outcome)


def test_process_that_the_kernel_does_not_end_is_not_waited_for(
    fake_env: Env, pids: Pids, alive: Alive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault: signals have no effect, as on a process that waits for a dead disk."""
    monkeypatch.setattr(process, "_UNKILLABLE_S", 1.0)
    monkeypatch.setattr(process, "_GRACE_S", 0.5)
    with monkeypatch.context() as faulty:
        faulty.setattr(process.os, "kill", lambda *_: None)
        faulty.setattr(process.os, "killpg", lambda *_: None)
        outcome, _ = run(fake_env("hang"), stall_s=1.0)
    assert outcome.survivors == tuple(sorted(pids()))
    assert outcome.ended is not None
    for pid in pids():
        os.kill(pid, signal.SIGKILL)


def test_error_event_and_status_come_back(fake_env: Env) -> None:
    outcome, _ = run(fake_env("fenced"))
    assert outcome.status == 4
    assert outcome.error is not None
    assert outcome.error["kind"] == "Fenced"
    assert outcome.versions == (4,)


def test_crash_gives_the_signal_and_the_last_lines(fake_env: Env) -> None:
    outcome, _ = run(fake_env("crash"))
    assert outcome.status == -signal.SIGSEGV
    assert outcome.result is None
    assert outcome.last_lines == ("about to crash",)


def test_interpreter_that_is_not_there_is_invalid_input(fake_env: Env) -> None:
    with pytest.raises(InvalidInput, match=r"start `/no/python -m tidemill`: No such file or directory"):
        Seen(fake_env("done"), python="/no/python").child.run()


@pytest.mark.parametrize("behaviour", ["hang", "stubborn"])
def test_end_leaves_no_process(behaviour: str, fake_env: Env, pids: Pids, alive: Alive) -> None:
    seen = Seen(fake_env(behaviour))
    asker = threading.Thread(target=lambda: (pids(), seen.child.end("the test asked")))
    asker.start()
    outcome = seen.child.run()
    asker.join()
    assert outcome.ended == "the test asked"
    assert outcome.status == (-signal.SIGKILL if behaviour == "stubborn" else -signal.SIGTERM)
    assert len(pids()) == 3
    assert alive(pids()) == []


def test_asked_to_end_before_it_started_it_ends(fake_env: Env) -> None:
    seen = Seen(fake_env("hang"))
    seen.child.end("too early")
    outcome = seen.child.run()
    assert outcome.ended == "too early"
    assert outcome.status < 0


def test_exception_in_the_waiting_thread_leaves_no_process(fake_env: Env, pids: Pids, alive: Alive) -> None:
    class Timeout(BaseException):
        """Like Airflow's, no Exception."""

    def interrupt(*_: object) -> None:
        raise Timeout

    seen = Seen(fake_env("stubborn"))
    before = signal.signal(signal.SIGUSR1, interrupt)
    asker = threading.Thread(target=lambda: (pids(), os.kill(os.getpid(), signal.SIGUSR1)))
    try:
        asker.start()
        with pytest.raises(Timeout):
            seen.child.run()
    finally:
        asker.join()
        signal.signal(signal.SIGUSR1, before)
    assert len(pids()) == 3
    assert alive(pids()) == []


def test_processes_that_a_command_leaves_are_ended(fake_env: Env, pids: Pids, alive: Alive) -> None:
    outcome, _ = run(fake_env("leave"))
    assert outcome.status == 0
    assert len(pids()) == 2
    assert alive(pids()) == []


def test_killed_parent_takes_the_command_with_it(fake_env: Env, pids: Pids, alive: Alive, wait_for: WaitFor) -> None:
    arguments = [sys.executable, "-c", HOST, json.dumps(fake_env("stubborn"))]
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as parent:
        assert alive(pids()) == pids()
        parent.kill()
    wait_for(lambda: alive(pids()) == [], "command, JVM and daemon are gone")


def test_killed_supervisor_takes_the_command_with_it(
    fake_env: Env, pids: Pids, alive: Alive, wait_for: WaitFor
) -> None:
    """Airflow's supervisor talks to its task over the task's stdin, a socket; here a shell takes its place."""
    ours, theirs = socket.socketpair()
    supervisor = subprocess.Popen(
        ["sh", "-c", '"$@" <&3 & echo $!; wait', "sh", sys.executable, "-c", HOST, json.dumps(fake_env("stubborn"))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: os.dup2(theirs.fileno(), 3),
        pass_fds=(3,),
    )
    assert supervisor.stdout is not None
    with supervisor.stdout, ours, theirs:
        task = int(supervisor.stdout.readline())
        processes_seen = [task, *pids()]
        assert alive(processes_seen) == processes_seen
        supervisor.kill()
        supervisor.wait()
        wait_for(lambda: alive(processes_seen) == [], "task, command, JVM and daemon are gone")
        assert b"the Airflow supervisor of this task has ended" in supervisor.stdout.read()
