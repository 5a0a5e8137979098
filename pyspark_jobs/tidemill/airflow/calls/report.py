"""The text of a task log: one line of progress per batch, one summary, one failure message.

INVARIANT: the first line of a summary or a failure stands alone and names the committed versions. An exception has no
text of a row, unless the operator asks for it; the log has all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...counts import count_of, version_ranges, versions_of
from ...errors import Exit
from .command import Command, Event, Outcome, signal_name
from .rowless import without_rows

RECOMPUTE = (
    "hint: commits are final, so clearing a task does not recompute them; "
    "to recompute, use the DAG `NAME__replay`, or `tidemill replay`"
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
    parts += event.get("lost_behind") or []
    if event.get("quarantined_files"):
        parts.append(f"{count_of(event['quarantined_files'], 'file')} quarantined")
    if event.get("numFilesOutstanding"):
        parts.append(f"{count_of(event['numFilesOutstanding'], 'file')} waiting")
    return "committed " + ", ".join(parts)


def success_lines(outcome: Outcome) -> list[str]:
    """Return the lines for a command that succeeded, and for what earlier tries of the task had committed."""
    result = outcome.result or {}
    if result.get("verb") == "maintain":
        return [f"tidemill: {_upkeep(result)}"]
    committed, head = result.get("versions"), result.get("head")
    if committed:
        first = f"tidemill: committed {versions_of(committed)}"
    else:
        first = f"tidemill: {'nothing to do' if result.get('status') == 'nothing' else 'committed nothing new'}"
    if head is not None:
        first += " (no version yet)" if head < 0 else f" (head {head})"
    if outcome.earlier:
        first += f"; an earlier try of this task had already committed {versions_of(outcome.earlier)}"
    if result.get("already_committed"):
        first += f"; another run of the same plan had already committed {versions_of(result['already_committed'])}"
    lines = [first]
    left = set(result.get("published") or []) - set(committed or [])
    if left:
        lines.append(f"tidemill: published {versions_of(sorted(left))}, left unpublished by an earlier run")
    lines += [RECOMPUTE] if outcome.earlier else []
    return [*lines, *_graph(result)]


def _graph(result: Event) -> list[str]:
    """Return the lines that show the pipeline, as a folded group of the log."""
    graph = result.get("graph") or []
    return ["::group::tidemill: the pipeline", *graph, "::endgroup::"] if graph else []


def _upkeep(result: Event) -> str:
    """Describe the upkeep that was done, in one line."""
    if result.get("dry_run"):
        return f"dry run: {count_of(len(result.get('garbage') or []), 'object')} would be deleted"
    if result.get("status") == "nothing":
        return "nothing to do"
    parts = [f"deleted {count_of(result.get('deleted') or 0, 'object')}"]
    if result.get("merged"):
        parts.append(f"merged {count_of(len(result['merged']), 'range')} of state")
    if result.get("compacted"):
        parts.append(f"joined {count_of(len(result['compacted']), 'group')} of published files")
    return f"{', '.join(parts)}; versions from {result.get('floor', 0)} on are kept"


def failure_message(command: Command, outcome: Outcome, *, with_rows: bool = False) -> str:
    """Return the message for a failed command. Its first line gives the reason and the versions committed before.

    `with_rows` keeps the whole message of the command and its last lines, which may contain values of rows.
    """
    first, rest = _reason(command, outcome)
    if not with_rows:
        first, *rest = without_rows("\n".join([first, *rest]))
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
        return f"{name} was killed by {signal_name(-outcome.status)}", _said(outcome)
    if outcome.status == Exit.USAGE and outcome.last_lines[-1:] and outcome.last_lines[-1].startswith("Error: "):
        return f"{name}: {outcome.last_lines[-1].removeprefix('Error: ')}", _said(outcome)
    if outcome.status in (Exit.DONE, Exit.NOTHING):
        return f"{name} ended with status {outcome.status} and wrote no result", _said(outcome)
    return f"{name} failed with exit status {outcome.status}", _said(outcome)


def _said(outcome: Outcome) -> list[str]:
    return ["last lines of its output:", *outcome.last_lines] if outcome.last_lines else ["it wrote no output"]


FIGURES = (
    "pipeline", "repository", "branch", "sources", "files", "bytes",
    "rows", "late_rows", "quarantined_rows", "quarantined_files", "batches_ms", "committed",
    "batch_time", "files_waiting", "bytes_waiting", "oldest_waiting_seconds", "state_rows", "state_bytes",
)  # fmt: skip
"""What a run or sweep says of itself and of the head, beside versions and sinks; None from other verbs."""


VERSIONS = ("versions", "already_committed", "published", "replayed", "replaced", "undone", "behind")
"""Lists of versions in the result of a command. A drain commits hundreds, so the XCom has ranges."""


def with_ranges(result: Event) -> dict[str, Any]:
    """Return a result in which lists of versions are ranges, `[[first, last], …]`."""
    return {
        name: version_ranges(value) if name in VERSIONS and isinstance(value, list) else value
        for name, value in result.items()
    }


def xcom(result: Event) -> Mapping[str, Any]:
    """Return the task's XCom: plain JSON, always with the same keys."""
    return {
        "status": result.get("status", "done"),
        **{name: version_ranges(result.get(name) or []) for name in VERSIONS[:3]},
        "head": result.get("head"),
        "sinks": dict(result.get("sinks") or {}),
        "watermarks": dict(result.get("watermarks") or {}),
        "next_deadline": dict(result.get("next_deadline") or {}),
        **{name: result.get(name) for name in FIGURES},
    }
