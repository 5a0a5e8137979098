"""What holds of pipelines on a real Airflow and only waits for it: `test_scheduled.py` checks it side by side."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.airflow.production import Place, Production, sorted_rows
from tests.processes import in_session, living, parent, session_of
from tests.servers.airflow_servers import wait_until


def killed_task_leaves_no_process(world: Production) -> None:
    _leaves_no_process(world, "killed_task", lambda command: parent(command))


def killed_supervisor_leaves_no_process(world: Production) -> None:
    _leaves_no_process(world, "killed_supervisor", lambda command: parent(parent(command)))
    # Without its supervisor the run would count as running until a heartbeat is missed.
    world.servers.end_run("retail", "killed_supervisor")


def _leaves_no_process(world: Production, run_id: str, victim: Callable[[int], int]) -> None:
    command, *others = world.fake_processes("retail", run_id, "stubborn")
    processes_seen = [parent(command), command, *others]
    assert living(processes_seen) == processes_seen
    os.kill(victim(command), signal.SIGKILL)
    wait_until(lambda: living(processes_seen) == [], "task, command, JVM and daemon are gone")


def cancelled_task_leaves_no_process(world: Production) -> None:
    command, *others = world.fake_processes("retail", "cancelled", "stubborn")
    processes_seen = [parent(command), command, *others]
    assert living(processes_seen) == processes_seen
    wait_until(lambda: world.servers.task("retail", "cancelled")["state"] == "running", "the task runs")
    world.servers.patch_task("retail", "cancelled", "failed")
    wait_until(lambda: living(processes_seen) == [], "task, command, JVM and daemon are gone")


def run_that_takes_too_long_is_ended(world: Production) -> None:
    processes_seen = world.fake_processes("hasty", "late", "hang")
    world.ends("hasty", "late", "failed")
    wait_until(lambda: living(processes_seen) == [], "command, JVM and daemon are gone")


def secret_literals_are_neither_stored_nor_logged(world: Production) -> None:
    world.fake("retail", "secret", "says")
    world.ends("retail", "secret")
    assert "found ***" in world.servers.log("retail", "secret", 1)
    assert "hush" not in json.dumps(world.servers.task("retail", "secret"))
    stored = world.servers.query("SELECT data::text FROM serialized_dag")
    rendered = world.servers.query("SELECT rendered_fields::text FROM rendered_task_instance_fields")
    assert "retail.py" in str(stored) and "retail.py" in str(rendered)
    assert "hush" not in str(stored) + str(rendered)


def task_in_a_function_on_real_spark_leaves_no_process(world: Production) -> None:
    world.places["hold"].add("a.csv", (1, 1))
    for way in ("killed", "cancelled"):
        _leaves_no_process_of_spark(world, way)


def _leaves_no_process_of_spark(world: Production, way: str) -> None:
    folder = world.places["hold"].folder
    for seen in folder.glob("worker-*"):
        seen.unlink()
    world.servers.trigger("hold", way)
    wait_until(lambda: list(folder.glob("worker-*")), "a worker is in the user function")
    (worker,) = folder.glob("worker-*")
    in_function = int(worker.name.partition("-")[2])
    command = session_of(in_function)
    processes_seen = living([parent(command), *in_session(command)])
    assert {parent(command), command, in_function} < set(processes_seen)
    assert "java" in [Path(f"/proc/{pid}/comm").read_text().strip() for pid in processes_seen]
    if way == "killed":
        os.kill(parent(command), signal.SIGKILL)
    else:
        wait_until(lambda: world.servers.task("hold", way)["state"] == "running", "the task runs")
        world.servers.patch_task("hold", way, "failed")
    wait_until(lambda: living(processes_seen) == [], "task, driver, JVM, daemon and workers are gone")
    world.servers.end_run("hold", way)


def killed_task_is_retried_and_commits_once(world: Production) -> None:
    _is_retried(world, "task", parent)


def killed_supervisor_is_noticed_and_the_task_is_retried(world: Production) -> None:
    _is_retried(world, "supervisor", lambda command: parent(parent(command)))


def _is_retried(world: Production, name: str, victim: Callable[[int], int]) -> None:
    command = world.held(name, "killed")
    os.kill(victim(command), signal.SIGKILL)
    wait_until(lambda: living([command]) == [], "the command is gone")
    world.places[name].release()
    world.ends(name, "killed")
    assert world.servers.task(name, "killed")["try_number"] == 2
    assert world.places[name].version == 0


def task_that_is_cleared_while_it_runs_names_what_was_committed(world: Production) -> None:
    place = world.places["cleared"]
    place.add("a.csv", (1, 1))
    command = world.held("cleared", "cleared")
    assert place.version == 0
    world.servers.clear("cleared", "cleared")
    wait_until(lambda: living([command]) == [], "the first try is ended")
    wait_until(place.holding, "the second try is in the same batch")
    place.release()
    world.ends("cleared", "cleared")
    said = "tidemill: committed version 1 (head 1); an earlier try of this task had already committed version 0"
    assert said in world.servers.log("cleared", "cleared", 2)

    world.servers.clear("cleared", "cleared")
    wait_until(lambda: world.servers.task("cleared", "cleared")["try_number"] == 3, "the third try starts")
    world.ends("cleared", "cleared")
    log = world.servers.log("cleared", "cleared", 3)
    (said,) = [line for line in log if line.startswith("tidemill:") and "pipeline" not in line]
    assert said == "tidemill: nothing to do (head 1); an earlier try of this task had already committed versions 0–1"
    assert log[log.index(said) + 1].startswith("hint: commits are final, so clearing a task does not recompute them")


def four_dags_on_one_branch_commit_each_file_once(world: Production) -> None:
    place = world.places["race"]
    place.hold()
    for file, k in zip("abcd", range(4), strict=True):
        place.add(f"{file}.csv", (k, 1), (0, 999))
    dags = [f"race_{n}" for n in range(4)]
    for dag in dags:
        world.servers.trigger(dag, "race")
    wait_until(lambda: len(place.holding()) == 4, "all four commands are in the same batch")
    place.release()
    wait_until(lambda: {world.servers.run_state(dag, "race") for dag in dags} <= {"success", "failed"}, "all end")
    states = {dag: world.servers.run_state(dag, "race") for dag in dags}
    for dag in [dag for dag, state in states.items() if state == "failed"]:
        assert any("Fenced" in line for line in world.servers.log(dag, "race", 1)), "it lost a commit, and said so"
    assert "success" in states.values()
    assert place.version == 3


def dag_that_is_scheduled_on_a_sink_runs_after_a_change_and_only_then(world: Production) -> None:
    place, servers = world.places["words"], world.servers
    for number, (file, rows) in enumerate({"a.csv": [(1, 1)], "b.csv": [(2, 1), (3, 1)]}.items()):
        place.add(file, *rows)
        servers.trigger("words", file)
        world.ends("words", file)
        wait_until(lambda: [one["state"] for one in servers.runs("after")] == ["success"] * (number + 1), "`after` ran")  # noqa: B023
        (event,) = servers.xcom("after", servers.runs("after")[-1]["dag_run_id"], "seen")
        assert (event["first_version"], event["last_version"]) == (number, number)
        assert (event["rows"], event["path"]) == (len(rows), str(place.folder / "out"))
    servers.trigger("words", "idle")
    world.ends("words", "idle")
    assert servers.call("GET", "/api/v2/assets/events?source_run_id=idle")["total_entries"] == 0
    assert len(servers.runs("after")) == 2


def sweep_waits_without_a_slot_and_fires_at_the_deadline(world: Production) -> None:
    armed, run_id = waiting_sweep(world, key=1)
    world.ends("silent__sweep", run_id)
    fired = sweep_that_fired(world, key=1)
    assert (fired.version, fired.kind) == (armed.version + 1, "sweep")
    assert 0 < fired.batch_time_ms - armed.next_deadline["batch"] < 60_000, "near its deadline"
    assert fired.airflow["dag_id"] == "silent__sweep"


def waiting_sweep(world: Production, key: int) -> tuple[Any, str]:
    """Arm a timeout and start a sweep. Return the head, and the run of the sweep, which is deferred."""
    place, servers = world.places["silent"], world.servers
    place.add(f"{key}.csv", (key, 1))
    servers.trigger("silent", f"armed-{key}")
    world.ends("silent", f"armed-{key}")
    earlier = len(servers.runs("silent__sweep"))
    (asset,) = servers.call("GET", "/api/v2/assets?name_pattern=go")["assets"]
    servers.call("POST", "/api/v2/assets/events", {"asset_id": asset["id"]})
    wait_until(lambda: len(servers.runs("silent__sweep")) > earlier, "a sweep starts")
    run_id = servers.runs("silent__sweep")[-1]["dag_run_id"]
    wait_until(lambda: servers.task("silent__sweep", run_id, "sweep")["state"] == "deferred", "the sweep is deferred")
    return place.open().head, run_id


def sweep_that_fired(world: Production, key: int) -> Any:
    """Check that the newest version has the timeout of a key, and return it."""
    repository = world.places["silent"].open()
    head = repository.head
    assert head is not None
    assert sorted_rows(repository.outputs(head.version), "k", "v") == [(key, -1)]
    return head


REPLAYED = dict.fromkeys(("branch", "replay", "diff", "approve", "promote", "drop"), "success")


def _three_versions(world: Production, name: str) -> Place:
    place = world.places[name]
    for n in range(3):
        place.add(f"{n}.csv", (1, n + 1), (2, 1))
    world.servers.trigger(name, "live")
    world.ends(name, "live")
    assert place.version == 2
    return place


def replay_without_an_answer_changes_nothing(world: Production) -> None:
    place = _three_versions(world, "quiet")
    world.servers.trigger("quiet__replay", "silence", {"from_version": 0, "code": place.reference("twice")})
    world.ends("quiet__replay", "silence")
    assert world.states("quiet__replay", "silence") == {**REPLAYED, "promote": "skipped"}
    assert (place.version, [one.name for one in place.open().branches()]) == (2, ["main"])


def rejected_replay_changes_nothing_and_an_approved_one_takes_over(world: Production) -> None:
    place, servers = _three_versions(world, "shop"), world.servers
    form = {"from_version": 0, "code": place.reference("twice"), "reason": "prices"}
    servers.trigger("shop__replay", "no", form)
    world.answer("shop__replay", "no", "Reject")
    world.ends("shop__replay", "no")
    assert world.states("shop__replay", "no") == {**REPLAYED, "promote": "skipped"}
    assert (place.version, [one.name for one in place.open().branches()]) == (2, ["main"])
    place.check(factor=1)

    servers.trigger("shop__replay", "yes", form)
    wait_until(lambda: world.states("shop__replay", "yes")["approve"] == "awaiting_input", "the replay asks")
    place.add("3.csv", (1, 4), (2, 1))
    servers.trigger("shop", "meanwhile")
    world.ends("shop", "meanwhile")
    world.answer("shop__replay", "yes", "Approve")
    world.ends("shop__replay", "yes")
    assert world.states("shop__replay", "yes") == REPLAYED
    assert servers.xcom("shop__replay", "yes", "replay", "replayed") == [[0, 2]]
    assert servers.xcom("shop__replay", "yes", "diff", "is_equal") is False
    assert servers.xcom("shop__replay", "yes", "diff", "behind") == []
    assert servers.xcom("shop__replay", "yes", "diff", "operators")["totals"]["changed"] == 2
    assert "| `totals` | 0 | 2 | 0 | 0 |" in servers.xcom("shop__replay", "yes", "diff", "markdown")
    head = place.open("twice").head
    assert head is not None
    assert (head.kind, head.version, head.airflow["dag_id"]) == ("promote", 4, "shop__replay")
    assert head.reason is not None and head.reason.startswith("prices; approved by ")
    assert [one.name for one in place.open().branches()] == ["main"]


def job_on_another_machine_holds_no_slot_while_it_runs(world: Production) -> None:
    place, servers = world.places["distant"], world.servers
    place.add("a.csv", (1, 5))
    place.hold()
    servers.trigger("distant", "first")
    wait_until(lambda: servers.task("distant", "first", "submit")["state"] == "deferred", "the job runs, no task does")
    wait_until(lambda: servers.scheduler_knows_the_end("distant", "first", "submit"), "the scheduler saw the task end")
    place.release()
    world.ends("distant", "first")
    assert world.states("distant", "first") == {"submit": "success", "run": "success"}
    assert "tidemill: committed version 0 (head 0)" in servers.log("distant", "first", 1)
    commit = place.open().commit(0)
    assert (commit.airflow["dag_id"], commit.airflow["task_id"]) == ("distant", "submit")


TOGETHER: list[Callable[[Production], None]] = [
    killed_supervisor_is_noticed_and_the_task_is_retried,
    rejected_replay_changes_nothing_and_an_approved_one_takes_over,
    sweep_waits_without_a_slot_and_fires_at_the_deadline,
    killed_task_is_retried_and_commits_once,
    task_in_a_function_on_real_spark_leaves_no_process,
    replay_without_an_answer_changes_nothing,
    task_that_is_cleared_while_it_runs_names_what_was_committed,
    dag_that_is_scheduled_on_a_sink_runs_after_a_change_and_only_then,
    run_that_takes_too_long_is_ended,
    killed_task_leaves_no_process,
    cancelled_task_leaves_no_process,
    killed_supervisor_leaves_no_process,
    secret_literals_are_neither_stored_nor_logged,
    four_dags_on_one_branch_commit_each_file_once,
    job_on_another_machine_holds_no_slot_while_it_runs,
]
