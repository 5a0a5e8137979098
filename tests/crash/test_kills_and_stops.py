"""Drains are killed, or stopped while another run takes over, at random moments; the end equals an undisturbed run.

`TIDEMILL_KILLS` sets the number of events, `TIDEMILL_SEED` repeats a campaign. The moments, the step that each event
hit, and the counts are printed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.crash.drain import BATCHES, Project, command, seen, step_of
from tests.exhaustive import EXHAUSTIVE

pytestmark = pytest.mark.slow("interrupt a run at every step")

EVENTS = int(os.environ.get("TIDEMILL_KILLS", "20" if EXHAUSTIVE else "6"))
SEED = int(os.environ.get("TIDEMILL_SEED", "0")) or random.SystemRandom().randrange(10**9)
MOST_SECONDS = 120
ENDED_WELL = (0, 3)
FENCED = 4


@contextmanager
def drain(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A drain in a process of its own; it is killed if the block leaves it behind."""
    with (folder / "drain.log").open("ab") as log:
        process = subprocess.Popen(
            [*command(folder, "run"), *arguments], stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def wait_until_planned(folder: Path, process: subprocess.Popen[bytes], chance: random.Random) -> None:
    """Wait until the drain has begun to plan or ends, and a random time more."""
    plans = folder / "root/killed/branches/main/plans"
    before = len(list(plans.glob("*.json")))
    deadline = time.monotonic() + MOST_SECONDS
    early = chance.random() < 0.2  # also moments before the first plan
    while process.poll() is None and not early and len(list(plans.glob("*.json"))) == before:
        assert time.monotonic() < deadline, f"no plan after {MOST_SECONDS} s"
        time.sleep(0.001)
    time.sleep(chance.random() * (0.6 if early else 0.25))


def some(chance: random.Random, least: int, most: int) -> tuple[str, str]:
    """Arguments that bound a drain, so that one event does not drain everything."""
    return "--max-batches", str(chance.randint(least, most))


def kill(folder: Path, chance: random.Random) -> str:
    """Kill a drain."""
    with drain(folder) as process:
        wait_until_planned(folder, process, chance)
        if process.poll() is not None:
            return "ended before the kill"
        process.kill()
        process.wait()
    return "kill"


def stop(folder: Path, chance: random.Random) -> str:
    """Stop a drain, let another run take over, and let the first one continue."""
    with drain(folder, *some(chance, 2, 4)) as stopped:
        wait_until_planned(folder, stopped, chance)
        if stopped.poll() is not None:
            return "ended before the stop"
        stopped.send_signal(signal.SIGSTOP)
        with drain(folder, *some(chance, 1, 4)) as other:
            assert other.wait(MOST_SECONDS) in ENDED_WELL, (folder / "drain.log").read_text()[-3000:]
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait(MOST_SECONDS) in (*ENDED_WELL, FENCED), (folder / "drain.log").read_text()[-3000:]
        return "stop, then fenced" if stopped.returncode == FENCED else "stop"


def stop_and_kill(folder: Path, chance: random.Random) -> str:
    """Stop a drain, kill the one that takes over, and let the first one continue."""
    with drain(folder, *some(chance, 2, 4)) as stopped:
        wait_until_planned(folder, stopped, chance)
        if stopped.poll() is not None:
            return "ended before the stop"
        stopped.send_signal(signal.SIGSTOP)
        kill(folder, chance)
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait(MOST_SECONDS) in (*ENDED_WELL, FENCED), (folder / "drain.log").read_text()[-3000:]
    return "stop, and kill of the other"


WAYS = (kill, kill, stop, stop_and_kill)


def test_kills_and_stops_at_random_moments_leave_the_result_of_an_undisturbed_run(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(SEED)
    calm = project("calm")
    for verb in ("init", "run"):
        subprocess.run(command(calm, verb), check=True, capture_output=True)
    expected = seen(calm)
    counts: Counter[str] = Counter()
    rounds = 0
    while counts.total() < EVENTS:
        folder = project(f"round-{rounds}")
        subprocess.run(command(folder, "init"), check=True, capture_output=True)
        while not (folder / f"root/killed/branches/main/commits/{BATCHES - 1:010d}.json").exists():
            what = chance.choice(WAYS)(folder, chance)
            counts[what] += 1
            with capsys.disabled():
                print(f"seed {SEED}, round {rounds}: {what} at {step_of(folder)}")
            if counts.total() >= EVENTS:
                break
        assert subprocess.run(command(folder, "run"), capture_output=True).returncode in ENDED_WELL
        found = seen(folder)
        for part, value in expected.items():
            assert found[part] == value, f"seed {SEED}, round {rounds}: {part}"
        rounds += 1
    with capsys.disabled():
        print(f"seed {SEED}: {counts.total()} events in {rounds} repositories: {json.dumps(counts)}")
