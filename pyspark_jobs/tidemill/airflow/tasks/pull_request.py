"""The text of a replay as a pull request: the name of its branch, and in Markdown what the branch changes. Pure.

INVARIANT: a value of a key or a row appears as code in one line, so that data cannot add markup to a page of Airflow.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...counts import count_of, versions_of
from ..calls.checks import is_absent

if TYPE_CHECKING:
    from airflow.sdk import Context

LONGEST_VALUE = 60
"""Characters of a value that are shown."""
_LISTED = 20
"""Operators and sinks without a difference are counted beyond so many rows of a table."""
_NAME_LENGTH = 40
_Against = Mapping[str, Any]
"""The field `against` of the result."""


def branch_of_run(dag_id: str, run_id: str) -> str:
    """Return the name of the branch of a DAG run: the same in all its tasks, and no other run's.

    >>> branch_of_run("retail__replay", "manual__2026-11-25T09:36:32+00:00")
    'replay-manual-2026-11-25t09-36-32-00-00-68f4cf'
    """
    readable = re.sub("[^a-z0-9]+", "-", run_id.lower()).strip("-")[:_NAME_LENGTH].strip("-")
    mark = hashlib.sha256(f"{dag_id} {run_id}".encode()).hexdigest()[:6]
    return "-".join(part for part in ("replay", readable, mark) if part)


def name_of_branch(name: str | None, context: Context) -> str:
    """Return a name that was given, or without one that of the branch of the DAG run."""
    if not is_absent(name):
        return str(name).strip()
    return branch_of_run(context["dag"].dag_id, str(context["run_id"]))


def comparison_markdown(against: _Against, status: str = "compatible") -> str:
    """Return the page of a comparison: a sentence, a table of keys, a table of rows, largest changes, warnings."""
    parts = [headline(against), *_warnings(against, status), *_keys(against), *_rows(against), *_largest(against)]
    return "\n\n".join(parts)


def headline(against: _Against) -> str:
    """Return one sentence that says what differs, without a value of a key or a row."""
    what = f"`{against['before']}` → `{against['after']}`"
    if against["is_equal"]:
        return f"**Nothing differs**: {what}."
    keys = sum(one["added"] + one["removed"] + one["changed"] for one in against["operators"].values())
    added = sum(one["added"] for one in against["sinks"].values())
    removed = sum(one["removed"] for one in against["sinks"].values())
    rows = f"{count_of(added, 'row')} added, {removed:,} removed"
    return f"**{count_of(keys, 'key')} {'differs' if keys == 1 else 'differ'}; {rows}**: {what}."


def without_values(against: _Against) -> dict[str, Any]:
    """Return a copy of a comparison that has no value of a key."""
    operators = {name: {**one, "largest": []} for name, one in against["operators"].items()}
    return {**against, "operators": operators}


def _warnings(against: _Against, status: str) -> Iterator[str]:
    lines = [] if status == "compatible" else [f"the code does not fit the branch: {status}"]
    lines += [f"{name} cannot be compared: {_plain(why)}" for name, why in against["problems"].items()]
    for name in against.get("dropped_sinks") or ():
        lines.append(f"the code does not have sink {_code(name)}: a promotion withdraws what it has published")
    for name, one in [*against["operators"].items(), *against["sinks"].items()]:
        lines += [f"{_code(name)}: not compared: {_plain(why)}" for why in one.get("not_compared") or ()]
    for one in against.get("left_out") or ():
        file = f"{_code(one['path'])} of source {_code(one['source'])}, which version {one['version']} has read"
        lines.append(f"left out: {file}; it was gone when the branch was replayed")
    if against["behind"] and against["is_promotable"]:
        lines.append(f"not repeated yet: {versions_of(against['behind'])}; a promotion replays them first")
    lines += refusal(against)
    if lines:
        yield "\n".join(f"- {line}" for line in lines)


def refusal(against: _Against) -> Iterator[str]:
    """Yield why `promote` would refuse the branch; nothing if it would not after catching up."""
    if against["refusal"]:
        hint = f"; {_plain(against['hint'])}" if against["hint"] else ""
        yield f"it cannot be promoted: {_plain(against['refusal'])}{hint}"


def _keys(against: _Against) -> Iterator[str]:
    rows = []
    for name, one in _first(against["operators"]):
        same = max(one["keys"] - one["changed"] - one["removed"], 0)
        rows.append([_code(name), *(f"{n:,}" for n in (same, one["changed"], one["added"], one["removed"]))])
    yield from _table(["operator", "keys same", "changed", "new", "gone"], rows, against["operators"])
    for name, one in against["operators"].items():
        notes = [f"{count_of(one['deadlines'], 'key')} with another deadline only"] if one.get("deadlines") else []
        notes += [
            f"variable {_code(var)}: {count_of(n, 'row')}" for var, n in (one.get("variables") or {}).items() if n
        ]
        if notes:
            yield f"{_code(name)}: {'; '.join(notes)}."


def _rows(against: _Against) -> Iterator[str]:
    rows = [[_code(name), f"{one['added']:,}", f"{one['removed']:,}"] for name, one in _first(against["sinks"])]
    yield from _table(["sink", "rows added", "rows removed"], rows, against["sinks"])


def _largest(against: _Against) -> Iterator[str]:
    rows = []
    for name, one in against["operators"].items():
        for change in one["largest"]:
            key = ", ".join(f"{column} {value}" for column, value in change["key"].items())
            values = (_code(change["column"]), _code(key), _code(change["before"]), _code(change["after"]))
            rows.append([_code(name), *values])
    if rows:
        yield "Largest changes:"
        yield from _table(["operator", "column", "key", "before", "after"], rows, {}, texts=3)


def _first(parts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the parts to show: all, or if there are many, those that differ first."""
    differ = {name: any(one.get(n) for n in ("changed", "added", "removed")) for name, one in parts.items()}
    return sorted(parts.items(), key=lambda part: not differ[part[0]])[:_LISTED]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], of: Mapping[str, Any], texts: int = 1) -> Iterator[str]:
    """Yield a table whose first `texts` columns are text and whose others are numbers, and what `of` has beyond it."""
    if not rows:
        return
    marks = ["---"] * texts + ["---:"] * (len(head) - texts)
    yield "\n".join("| " + " | ".join(row) + " |" for row in (head, marks, *rows))
    if len(of) > len(rows):
        yield f"and {len(of) - len(rows)} more"


def _code(value: object) -> str:
    """Return a value as code that fits into a cell of a table.

    >>> _code("a|b`c")
    "`a\\\\|b'c`"
    """
    text = " ".join(str(value).split()).replace("`", "'")
    text = text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
    return "`" + (text or " ").replace("|", "\\|") + "`"


def _plain(text: object) -> str:
    return " ".join(str(text).split())
