"""The most important tables of a report as HTML, for readers without JavaScript. Pure.

INVARIANT: every text is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from ..counts import count_of
from ..units import iso
from .data import GraphCommit, Report

_MOST_COMMITS = 50


def plain_tables(report: Report) -> str:
    """Return the head, operators, newest commits and corrections as tables."""
    newest = list(reversed(report.commits[-_MOST_COMMITS:]))
    corrections = [one for one in reversed(report.commits) if not one.carries_out]
    return "\n".join(
        [
            f"<h1>{_text(report.pipeline)}</h1>",
            "<p>Charts, the graph of commits, the diff and look-ups need JavaScript. These tables do not.</p>",
            _table("Head", ("fact", "value"), _facts(report)),
            _table("Operators", ("operator", "kind", "rows", "stored bytes"),
                   ((one.name, one.kind, one.rows, one.bytes) for one in report.operators)),
            _table("Newest commits", ("version", "kind", "batch time", "rows", "ms", "late", "quarantined"),
                   map(_commit, newest)),
            _table("Corrections", ("version", "kind", "committed", "reason"),
                   ((one.label, one.kind, iso(one.committed_ms), one.reason or "") for one in corrections)),
        ]
    )  # fmt: skip


def _facts(report: Report) -> Iterable[Sequence[object]]:
    head = report.head
    yield "repository", report.uri
    yield "branch", report.branch
    yield "made", iso(report.made_ms)
    yield "head", "version -1, no batch yet" if head is None else f"version {head.version}, {head.kind}"
    if head is not None:
        yield "batch time", iso(head.batch_time_ms)
        yield "waiting at the newest commit", count_of(head.outstanding_files, "file")
    for one in report.watermarks:
        yield f"watermark {one.name}", "no event yet" if one.time_ms is None else iso(one.time_ms)
    for problem in report.problems:
        yield "problem", problem


def _commit(one: GraphCommit) -> Sequence[object]:
    counts = (one.rows, one.duration_ms, one.late_rows, one.quarantined_rows)
    return one.label, one.kind + (", undone" if one.undone else ""), iso(one.batch_time_ms), *counts


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    if not body:
        return f"<h2>{_text(title)}</h2>\n<p>None.</p>"
    return f"<h2>{_text(title)}</h2>\n<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"


def _text(value: object) -> str:
    return html.escape(f"{value:,}" if isinstance(value, int) else str(value))
