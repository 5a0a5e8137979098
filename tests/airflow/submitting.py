"""A deferrable operator for tests: it starts a command, and waits in the triggerer until the command has ended.

It stands for the operator of a provider, which starts a job on a platform. It knows nothing of Tidemill.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

MOST_S = 150
_SCRIPT = 'timeout "$0" "${@:2}" > "$1/log" 2>&1; echo $? > "$1/part"; mv "$1/part" "$1/status"'


class EndedTrigger(BaseTrigger):
    """Fires when a process has left its exit status in a folder."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.EndedTrigger", {"folder": self.folder}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        while not Path(self.folder, "status").exists():
            await asyncio.sleep(0.1)
        yield TriggerEvent({"folder": self.folder, "status": int(Path(self.folder, "status").read_text())})


class SubmitOperator(BaseOperator):
    """Runs `command` with exactly the variables `environment`."""

    template_fields = ("command", "environment")

    def __init__(self, *, command: list[str], environment: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = command
        self.environment = dict(environment)

    def execute(self, context: Any) -> None:
        folder = tempfile.mkdtemp(prefix="tidemill-submitted-")
        bash = ["bash", "-c", _SCRIPT, str(MOST_S), folder, *self.command]
        subprocess.Popen(bash, env=self.environment, cwd=folder, stdin=subprocess.DEVNULL, start_new_session=True)
        self.defer(trigger=EndedTrigger(folder), method_name="ended")

    def ended(self, context: Any, event: Mapping[str, Any]) -> None:
        folder, status = event["folder"], event["status"]
        print("DEFERRED until the status", status, flush=True)
        print(Path(folder, "log").read_text(errors="replace")[-4000:], flush=True)
        for name in ("log", "status"):
            os.remove(Path(folder, name))
        os.rmdir(folder)
        if status:
            raise RuntimeError(f"the job ended with status {status}")
