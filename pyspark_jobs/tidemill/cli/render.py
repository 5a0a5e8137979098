"""Tables for people: Arrow tables and a pipeline's status, printed by rich. Only a terminal limits their width.

INVARIANT: a value is printed so that the command line accepts it back: numbers without separators, an ASCII minus.
Only control characters are escaped, so that no file can drive the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..counts import count_of
from ..quarantine.rows import FORGOTTEN
from ..units import time_text
from ..visible import visible

if TYPE_CHECKING:
    import pyarrow as pa

    from ..reading.status import Status

SHOWN_NULL = "–"
_WIDE = 10_000
_AROUND = 11
"""The width of what is around and between the four columns of a table."""
_SHOWN_FILES = 20
"""How many input files of a version the log names. `--json` has all."""
_PLAN_WITHOUT_COMMIT = "in progress or failed; the next run retries it, `tidemill replan` abandons it"


def console() -> Console:
    """Return a console on stdout. In a pipe or a file its width is unlimited, so that no cell is folded."""
    return Console(highlight=False) if is_terminal() else Console(highlight=False, width=_WIDE)


def table_of(rows: pa.Table, title: str | None = None) -> Table:
    """Convert an Arrow table to one of rich's, with numbers aligned right."""
    shown = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for field in rows.schema:
        shown.add_column(
            Text(visible(field.name)), justify="right" if _is_number(field.type) else "left", overflow="fold"
        )
    for values in zip(*(_values(column) for column in rows.columns), strict=True):
        shown.add_row(*map(cell, values))
    return shown


def is_terminal() -> bool:
    """Whether people see the output as it is printed, in a window of some width."""
    return sys.stdout.isatty()


def quarantine_table(rows: pa.Table, width: int) -> Table:
    """Return quarantined rows for a terminal of a width: why and what first, and each row in one line.

    What does not fit is cut. The place is the file, with its source if there are several, and the line or row.
    """
    found = rows.to_pylist()
    several = len({one["source"] for one in found}) > 1
    cells = [[visible(_reason(one)), visible(one["text"] or ""), visible(_place(one, several)),
              str(one["version"])] for one in found]  # fmt: skip
    names = ("reason", "text", "place", "version")
    natural = [max([len(name), *(cell_len(row[at]) for row in cells)]) for at, name in enumerate(names)]
    left = width - natural[3] - _AROUND
    place = min(natural[2], max(len(names[2]), left // 3))
    reason, text = _shares(left - place, natural[0], natural[1])
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, size in zip(names, (reason, text, place, natural[3]), strict=True):
        side: Literal["left", "right"] = "right" if name == "version" else "left"
        shown.add_column(name, justify=side, width=size, no_wrap=True, overflow="ellipsis")
    for row in cells:
        row[2] = _end_of(row[2], place)
        shown.add_row(*map(Text, row))
    return shown


def _reason(row: Mapping[str, Any]) -> str:
    back = "" if row["requeued"] is None else f"requeued by version {row['requeued']}; "
    reason = row["reason"] or (FORGOTTEN if row["kind"] == FORGOTTEN else "")
    return f"{back}{reason}"


def _place(row: Mapping[str, Any], with_source: bool) -> str:
    """Return where a row in quarantine was: the file, and its line or else its row."""
    file = f"{row['source']}: {row['file'] or ''}" if with_source else row["file"] or row["source"] or ""
    if row["line"] is not None:
        return f"{file}:{row['line']}"
    return file if row["row"] is None else f"{file} row {row['row']}"


def _shares(left: int, one: int, other: int) -> tuple[int, int]:
    """Divide a width among two columns: each gets half, and what one of them does not need goes to the other."""
    half = max(left // 2, 1)
    if one <= half:
        return one, max(min(other, left - one), 1)
    if other <= half:
        return max(min(one, left - other), 1), other
    return half, max(left - half, 1)


def _end_of(text: str, width: int) -> str:
    """Return the end of a text that is too long, because the end of a path says more than its begin."""
    return text if cell_len(text) <= width else f"…{text[1 - width :]}" if width > 1 else "…"


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values as Python objects, or as in JSON if a time is outside Python's years 1 to 9999."""
    import pyarrow as pa

    from ..sinks.json_text import python_values

    try:
        return _times(column) if pa.types.is_timestamp(column.type) else python_values(column)
    except (OverflowError, ValueError):
        return python_values(column)


def _times(column: pa.ChunkedArray) -> list[datetime | None]:
    """Return timestamps as datetimes, in UTC if they have a zone.

    `to_pylist` would import pandas for them, which takes about a second.
    """
    import pyarrow as pa

    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[column.type.unit]
    epoch = datetime(1970, 1, 1, tzinfo=None if column.type.tz is None else UTC)
    return [
        None if value is None else epoch + timedelta(microseconds=value * 1_000_000 // per_second)
        for value in column.cast(pa.int64()).to_pylist()
    ]


def cell(value: Any) -> Text:
    """Return a value as text that rich does not interpret. Null is a dim dash, and bytes are hexadecimal."""
    if value is None:
        return Text(SHOWN_NULL, style="dim")
    if isinstance(value, bytes):
        return Text(f"0x{value.hex()}")
    if isinstance(value, date):
        return Text(time_text(value) if isinstance(value, datetime) else value.isoformat())
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return Text(str(int(value)))
    if isinstance(value, dict | list | tuple):
        return Text(visible(json.dumps(value, default=_json_text, ensure_ascii=False)))
    return Text(visible(str(value)) if isinstance(value, str | Decimal) else repr(value))


def _json_text(value: Any) -> str:
    """Return a value inside a struct, list or map as text, if JSON has no type for it."""
    return cell(value).plain


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def log_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table that `tidemill log` prints, from its rows for machines."""
    from ..protocol.kinds import KINDS
    from ..reading.log import remarks

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, side in (("version", "right"), ("kind", "left"), ("batch time", "left"), ("rows", "right"),
                       ("files", "right"), ("late", "right"), ("quarantined", "right"), ("", "left")):  # fmt: skip
        shown.add_column(name, justify=side, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        counts = [row[name] for name in ("input_rows", "input_files", "late_rows", "quarantined_rows")]
        numbers = [f"{count:,}" if KINDS[row["kind"]].reads else "" for count in counts]
        said = [*remarks(row), *([row["reason"]] if row["reason"] else [])]
        cells = [str(row["version"]), row["kind"], row["batch_time"], *numbers, "; ".join(said)]
        style = "dim" if row["undone"] else None
        shown.add_row(*map(Text, map(visible, cells)), style=style)
    return shown


def print_files(terminal: Console, files: Mapping[int, Sequence[str]]) -> None:
    """Print the input files of versions, one a line, which is never wrapped. Of many, only the first ones."""
    for version, lines in files.items():
        rest = len(lines) - _SHOWN_FILES
        shown = [*lines[:_SHOWN_FILES], *([f"and {count_of(rest, 'more file')}"] if rest > 0 else [])]
        for line in [f"version {version}", *(f"  {one}" for one in shown)] if lines else ():
            terminal.print(Text(visible(line)), soft_wrap=True)


def status_table(status: Status) -> Table:
    """Return the table that `tidemill status` prints."""
    shown = Table(box=None, show_header=False, pad_edge=False)
    shown.add_column(style="bold")
    shown.add_column(overflow="fold")
    for name, value in _status_rows(status):
        shown.add_row(Text(name), Text(visible(value)))
    return shown


def _status_rows(status: Status) -> list[tuple[str, str]]:
    from ..protocol.kinds import KINDS

    rows = [("pipeline", status.pipeline), ("repository", status.uri), ("branch", status.branch)]
    rules = None if status.kind is None else KINDS[status.kind]
    kind = rules.noun if rules is not None and rules.noun else status.kind
    rows.append(("head", "version -1, no batch yet" if status.head < 0 else f"version {status.head}, a {kind}"))
    if status.batch_time and status.committed:
        rows += [("batch time", status.batch_time), ("committed", status.committed)]
    if rules is not None and rules.carries_out:
        last = status.last_batch
        words = [
            count_of(last["rows"], "row"),
            *(f"{last[word]:,} {word}" for word in ("applied", "late", "quarantined")),
        ]
        if last["quarantined_files"]:
            words[-1] += f" with {count_of(last['quarantined_files'], 'file')}"
        rows.append(("last batch", ", ".join([*words, count_of(last["files"], "file")])))
        rows += [("", lost) for lost in status.lost_behind]
    rows += _each("watermark", {name: _watermark(status, name) for name in status.watermarks})
    rows += _each(
        "operator",
        {
            name: f"{found['kind']} by {', '.join(found['key'])}: {count_of(found['keys'], 'key')}"
            for name, found in status.operators.items()
        },
    )
    rows += _each("waiting", {name: count_of(count, "file") for name, count in status.waiting_files.items()})
    rows += _each(
        "requeued", {name: f"{count_of(count, 'row')} waiting" for name, count in status.requeued_rows.items()}
    )
    if status.oldest_waiting_s is not None:
        rows.append(("oldest file", f"arrived {age(status.oldest_waiting_s)} ago"))
    if status.planned is not None:
        planned = f"version {status.planned['version']}, {count_of(status.planned['files'], 'file')}"
        rows.append(("plan", f"{planned}: {_PLAN_WITHOUT_COMMIT}"))
    rows += [("problem", status.problem)] if status.problem else []
    rows += _each("next deadline", dict(status.next_deadline))
    if status.kept_from > 0:
        rows.append(("kept", f"versions from {status.kept_from} on"))
    rows += _each("tag", {name: f"version {version}" for name, version in status.tags.items()})
    if status.head >= 0 and status.branch == "main":
        rows.append(("published", _published(status)))
    return rows


def _watermark(status: Status, name: str) -> str:
    lags = status.watermark_lag_s[name]
    shown = [f"{age(abs(lag))} {'behind' if lag >= 0 else 'ahead of'} {to}" for to, lag in
             (("the batch time", lags["batch_time"]), ("now", lags["now"]))]  # fmt: skip
    return f"{status.watermarks[name]}: {', '.join(shown)}"


def age(seconds: float) -> str:
    """Return a time span in its two largest units.

    >>> age(0.4), age(75), age(2 * 86_400 + 3_700)
    ('0 s', '1 min 15 s', '2 d 1 h')
    """
    rest, parts = int(seconds), []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count:,} {unit}")
    return " ".join(parts[:2]) or "0 s"


def _published(status: Status) -> str:
    through = "nothing" if status.published_through < 0 else f"through version {status.published_through}"
    if not status.published_known:
        return f"{'unknown' if status.published_through < 0 else f'at least {through}'}; see `problem`"
    return f"{through}; the next run publishes the rest" if status.published_through < status.head else through


def _each(what: str, values: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return one row per value. Only the first row has the label."""
    return [(what if number == 0 else "", f"{name}  {value}") for number, (name, value) in enumerate(values.items())]
