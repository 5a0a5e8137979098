"""The text of a task log: one line of progress per batch, one summary, one failure message.

INVARIANT: the first line of a summary or a failure stands alone and names the committed versions.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import Any

from ..counts import count_of, versions_of
from .command import Command, Event, Exit, Outcome

RECOMPUTE = (
    "hint: commits are final, so clearing a task does not recompute them; "
    "to recompute, run `init` and `run` with a new root and new sink folders"
)


def progress(event: Event) -> str:
    """Describe one batch in one line: version, rows, rows per second, and late or quarantined rows, if any."""
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
    """Return the lines for a command that succeeded. `earlier`: versions that earlier tries of the task committed."""
    committed, head = result.get("versions"), result.get("head")
    if committed:
        first = f"tidemill: committed {versions_of(committed)}"
    else:
        first = f"tidemill: {'nothing to do' if result.get('status') == 'nothing' else 'committed nothing new'}"
    if head is not None:
        first += " (no version yet)" if head < 0 else f" (head {head})"
    if earlier:
        first += f"; an earlier try of this task had already committed {versions_of(earlier)}"
    if result.get("already_committed"):
        first += f"; another run of the same plan had already committed {versions_of(result['already_committed'])}"
    lines = [first]
    left = set(result.get("published") or []) - set(committed or [])
    if left:
        lines.append(f"tidemill: published {versions_of(sorted(left))}, left unpublished by an earlier run")
    return [*lines, RECOMPUTE] if earlier else lines


def failure(command: Command, outcome: Outcome) -> str:
    """Return the message for a failed command. Its first line gives the reason and the versions committed before."""
    first, rest = _reason(command, outcome)
    before = f" ({versions_of(outcome.versions)} committed before)" if outcome.versions else ""
    return "\n".join([first + before, *rest])


def _reason(command: Command, outcome: Outcome) -> tuple[str, list[str]]:
    name = f"`tidemill {command.verb} {command.pipeline}`"
    if outcome.ended is not None:
        return f"{name} was stopped: {outcome.ended}", ["hint: its commits are kept; a retry resumes after them"]
    if outcome.error is not None:
        kind, message = outcome.error.get("kind", "error"), str(outcome.error.get("message", "no message"))
        first, *rest = message.split("\n")
        return f"{kind}: {first}", rest
    if outcome.not_installed:
        hint = "hint: install the Tidemill wheel in that interpreter, or set `python=` to one that has it"
        return f"{name} did not start: {outcome.last_lines[-1]}", [hint]
    if outcome.status < 0:
        return f"{name} was killed by {signal.Signals(-outcome.status).name}", _said(outcome)
    if outcome.status == Exit.USAGE and outcome.last_lines[-1:] and outcome.last_lines[-1].startswith("Error: "):
        return f"{name}: {outcome.last_lines[-1].removeprefix('Error: ')}", _said(outcome)
    if outcome.status in (Exit.DONE, Exit.NOTHING):
        return f"{name} ended with status {outcome.status} and wrote no result", _said(outcome)
    return f"{name} failed with exit status {outcome.status}", _said(outcome)


def _said(outcome: Outcome) -> list[str]:
    return ["last lines of its output:", *outcome.last_lines] if outcome.last_lines else ["it wrote no output"]


def xcom(result: Event) -> Mapping[str, Any]:
    """Return the task's XCom: plain JSON, always with the same keys."""
    return {
        "status": result.get("status", "done"),
        "versions": list(result.get("versions") or []),
        "already_committed": list(result.get("already_committed") or []),
        "published": list(result.get("published") or []),
        "head": result.get("head"),
    }
