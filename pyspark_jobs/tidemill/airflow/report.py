"""What a task log says about a command: one line of progress a batch, one summary, one message of failure.

Text only. INVARIANT: the first line of a summary or a failure stands alone and names the versions committed.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from ..counts import count_of, versions_of
from .command import Command, Event, Exit, Outcome

RECOMPUTE = (
    "hint: a commit is final, so clearing a task computes nothing again; "
    "to recompute, `init` and `run` the pipeline under a new root"
)


def progress(event: Event) -> str:
    """One batch in one line: version, rows, rows a second, then what was late or quarantined, if anything was."""
    parts = [f"version {event.get('version', '?')}"]
    parts.append("a sweep" if event.get("kind") == "sweep" else count_of(event.get("numInputRows", 0), "row"))
    rate = event.get("processedRowsPerSecond")
    if rate:
        parts.append(f"{rate:,.0f} rows/s")
    for key, words in (
        ("late_rows", "late"),
        ("quarantined_rows", "quarantined"),
    ):
        if event.get(key):
            parts.append(f"{event[key]:,} {words}")
    if event.get("numFilesOutstanding"):
        parts.append(f"{count_of(event['numFilesOutstanding'], 'file')} waiting")
    return "committed " + ", ".join(parts)


def summary(result: Event, earlier: Sequence[int]) -> list[str]:
    """The lines for a command that did what it should; `earlier`: versions of earlier tries of the same task."""
    committed, head = result.get("versions"), result.get("head")
    if committed:
        first = f"tidemill: committed {versions_of(committed)}"
    else:
        first = f"tidemill: nothing {'to do' if result.get('status') == 'nothing' else 'new to commit'}"
    if head is not None:
        first += " (no version yet)" if head < 0 else f" (head {head})"
    if earlier:
        first += f"; an earlier try of this task had already committed {versions_of(earlier)}"
    if result.get("already_committed"):
        first += f"; another run of the same plan had already committed {versions_of(result['already_committed'])}"
    lines = [first]
    left = set(result.get("published") or []) - set(committed or [])
    if left:
        lines.append(f"tidemill: published what was not in its folder: {versions_of(sorted(left))}")
    return [*lines, RECOMPUTE] if earlier else lines


def failure(command: Command, outcome: Outcome) -> str:
    """The message for a command that did not; its first line says how, and what was committed before."""
    first, rest = _reason(command, outcome)
    before = f" ({versions_of(outcome.versions)} committed before)" if outcome.versions else ""
    return "\n".join([first + before, *rest])


def _reason(command: Command, outcome: Outcome) -> tuple[str, list[str]]:
    name = f"`tidemill {command.verb} {command.pipeline}`"
    if outcome.ended is not None:
        return f"{name} was ended: {outcome.ended}", ["hint: what it had committed stays; a retry goes on from there"]
    if outcome.error is not None:
        kind, message = outcome.error.get("kind", "error"), str(outcome.error.get("message", "no message"))
        first, *rest = message.split("\n")
        return f"{kind}: {first}", rest
    if outcome.not_installed:
        hint = "hint: install Tidemill there (`<that python> -m pip install <its wheel>`), or give another `python=`"
        return f"{name} was not started: {outcome.last_lines[-1]}", [hint]
    if outcome.status < 0:
        return f"{name} was killed by {signal.Signals(-outcome.status).name}", _said(outcome)
    if outcome.status == Exit.USAGE and outcome.last_lines[-1:] and outcome.last_lines[-1].startswith("Error: "):
        return f"{name}: {outcome.last_lines[-1].removeprefix('Error: ')}", _said(outcome)
    if outcome.status in (Exit.DONE, Exit.NOTHING):
        return f"{name} ended with status {outcome.status} and wrote no result", _said(outcome)
    return f"{name} failed with exit status {outcome.status}", _said(outcome)


def _said(outcome: Outcome) -> list[str]:
    return ["its last lines:", *outcome.last_lines] if outcome.last_lines else ["it wrote nothing"]


def xcom(result: Event) -> Mapping[str, Any]:
    """What the task returns: always the same keys, plain JSON."""
    return {
        "status": result.get("status", "done"),
        "versions": list(result.get("versions") or []),
        "already_committed": list(result.get("already_committed") or []),
        "published": list(result.get("published") or []),
        "head": result.get("head"),
    }
