"""The child process by itself, against a fake command line: what it returns, and that it never stays."""

from __future__ import annotations

import json
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

from tidemill.airflow.command import Command, Event, Outcome
from tidemill.airflow.process import Child
from tidemill.errors import InvalidInput

COMMAND = Command("run", "retail.py:p", "file:///lake", {"branch": "main", "max_batches": None})

Env = Callable[[str], dict[str, str]]
Pids = Callable[[], list[int]]
Alive = Callable[[list[int]], list[int]]
WaitFor = Callable[[Callable[[], object], str], None]

# A process of its own that runs a child, as an Airflow task does.
HOST = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[2] / "pyspark_jobs")!r})
from tidemill.airflow.command import Command
from tidemill.airflow.process import Child
command = Command("run", "retail.py:p", "file:///lake")
print(Child(command, print, print, env=json.loads(sys.argv[1])).run().ended, flush=True)
"""


class Seen:
    """Collects what a child hands on."""

    def __init__(self, env: dict[str, str], **arguments: Any) -> None:
        self.events: list[Event] = []
        self.lines: list[str] = []
        self.child = Child(COMMAND, self.events.append, self.lines.append, env=env, **arguments)


def run(env: dict[str, str]) -> tuple[Outcome, Seen]:
    seen = Seen(env)
    return seen.child.run(), seen


def test_result_progress_and_lines_come_back_in_order(fake_env: Env) -> None:
    outcome, seen = run(fake_env("done"))
    assert outcome.status == 0
    assert outcome.result is not None
    assert outcome.result["head"] == 5
    assert outcome.versions == (4, 5)
    assert [event["event"] for event in seen.events] == ["progress", "progress", "result"]
    assert sorted(seen.lines) == ["a line of a user function", "starting"]


def test_arguments_contain_exactly_the_given_options(fake_env: Env) -> None:
    command = Command(
        "run", "retail.py:p", "s3://lake", {"max_batches": 3, "time_budget": None}, {"tidemill.block": 5, "a": "b"}
    )
    lines: list[str] = []
    Child(command, lambda _: None, lines.append, env=fake_env("echo")).run()
    expected = ["run", "retail.py:p", "--root", "s3://lake", "--json", "--max-batches", "3"]
    assert json.loads(lines[0])["arguments"] == [*expected, "--conf", "tidemill.block=5", "--conf", "a=b"]


def test_environment_of_this_process_reaches_the_command(fake_env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "manual__1")
    _, seen = run(fake_env("echo"))
    assert json.loads(seen.lines[0])["env"]["AIRFLOW_CTX_DAG_RUN_ID"] == "manual__1"


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
