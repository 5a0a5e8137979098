"""`fail_if_late` and `fail_if_quarantined`: a batch with too many bad rows fails before its commit.

INVARIANT: a batch that fails here changes nothing. The next run executes the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from ..batch.quarantine import LATE_REASON
from ..counts import count_of, listed_names
from ..errors import InvalidInput
from ..names import operator_of
from ..protocol.records import Commit, LateRow, OperatorMetrics
from ..quarantine.rejects import quarantined
from ..quarantine.rows import ABANDON_PLAN, FILE, LATE, REJECT_SCHEMA
from ..repo.opened import Opened
from ..settings import share_or_number
from ..store import Store
from ..units import iso

_EXAMPLES = 3
"""How many rows an error shows."""


def check_rows(repo: Opened, commit: Commit) -> None:
    """Raise `InvalidInput` if a batch has more late rows, or quarantined rows or files, than the settings allow."""
    counts, settings = commit.counts, repo.settings
    late = counts.late_rows + counts.kept_late_rows  # whatever becomes of them
    if _exceeds(late, counts.input_rows, settings.fail_if_late):
        by = {
            name: rows
            for name, metrics in commit.operators.items()
            if (rows := metrics.late_rows + metrics.kept_late_rows)
        }
        where = ", ".join(f"{count_of(rows, 'row')} for operator `{name}`" for name, rows in by.items())
        raise _refusal(
            commit, f"{count_of(late, 'late row')} ({where})", "fail_if_late", settings.fail_if_late,
            _examples(repo.store, commit, is_late=True) or [_shown(row) for row in commit.late_examples],
        )  # fmt: skip
    for name, metrics in commit.operators.items():
        late = metrics.late_rows + metrics.kept_late_rows
        if _exceeds(late, metrics.reached_rows, settings.fail_if_late):
            examples = [_shown(row) for row in commit.late_examples if operator_of(row.operator) == name]
            raise _refusal(
                commit, f"{count_of(late, 'late row')} for {_placed(name, metrics)}", "fail_if_late",
                settings.fail_if_late, examples, of=metrics.reached_rows,
            )  # fmt: skip
    limit = settings.fail_if_quarantined
    bad_files = count_of(counts.quarantined_files, "quarantined file")
    if _exceeds(counts.quarantined_rows, counts.input_rows, limit):
        found = count_of(counts.quarantined_rows, "quarantined row")
        found += f" ({bad_files} among them)" if counts.quarantined_files else ""
        raise _refusal(commit, found, "fail_if_quarantined", limit, _examples(repo.store, commit, is_late=False))
    if _exceeds(counts.quarantined_files, counts.input_files, limit):
        examples = _examples(repo.store, commit, is_late=False, kind=FILE)
        raise _refusal(commit, bad_files, "fail_if_quarantined", limit, examples, of=counts.input_files)
    for name, metrics in commit.operators.items():
        if _exceeds(metrics.quarantined_rows, metrics.reached_rows, limit):
            found = f"{count_of(metrics.quarantined_rows, 'row')} quarantined by {_placed(name, metrics)}"
            examples = _examples(repo.store, commit, is_late=False, operator=name)
            raise _refusal(commit, found, "fail_if_quarantined", limit, examples, of=metrics.reached_rows)


def _placed(name: str, metrics: OperatorMetrics) -> str:
    return f"operator `{name}`" + (f", behind {listed_names(metrics.behind)}," if metrics.behind else "")


def _exceeds(rows: int, of: int, limit: str) -> bool:
    allowed = share_or_number(limit) if limit else None
    # Exactly: as a product of floats, 29% of 100 would be less than 29.
    return allowed is not None and rows > (Fraction(str(allowed)) * of if isinstance(allowed, float) else allowed)


def _refusal(
    commit: Commit, found: str, setting: str, limit: str, examples: list[str], of: int | None = None
) -> InvalidInput:
    of = commit.counts.input_rows if of is None else of
    return InvalidInput(
        f"{commit.kind} {commit.version} is not committed: {found} of {of:,}, expected at most "
        f"{limit} (`tidemill.{setting}`)" + "".join(f"\n{example}" for example in examples),
        hint=f"the next run executes the same plan: correct the files and {ABANDON_PLAN}; or leave a file out with "
        f"`tidemill skip`; or raise the limit for one run, for example with --conf tidemill.{setting}=100%",
    )


def _examples(
    store: Store, commit: Commit, is_late: bool, kind: str | None = None, operator: str | None = None
) -> list[str]:
    """Return the first rows in quarantine that are late, or that are not; with `kind` or `operator` only such rows."""
    found = (
        ("an output" if row["file"] is None else f"file `{row['file']}`")
        + ("" if row["line"] is None else f", line {row['line']}")
        + ("" if row["row"] is None else f", row {row['row']}")
        + f": {row['reason']}"
        + ("" if row["text"] is None else f": {row['text']}")
        for row in _quarantined(store, commit)
        if (row["kind"] == LATE) == is_late
        and kind in (None, row["kind"])
        and operator in (None, *map(operator_of, str(row["operator"]).split(",")))
    )
    return [example for _, example in zip(range(_EXAMPLES), found, strict=False)]


def _shown(row: LateRow) -> str:
    """Return a late row that is not in quarantine, as `_examples` shows others."""
    place = "an output" if row.file is None else f"file `{row.file}`"
    place += "" if row.row is None else f", row {row.row}"
    if row.time_ms is None:
        return f"{place}: {LATE_REASON} `{row.operator}`: without an event time, in no window"
    times = f"event time {iso(row.time_ms)}, watermark {iso(row.watermark_ms)}"
    return f"{place}: {LATE_REASON} `{row.operator}`: {times}"


def _quarantined(store: Store, commit: Commit) -> Iterator[dict[str, object]]:
    for file in commit.quarantine:
        yield from quarantined(store, file).select(REJECT_SCHEMA.names).to_pylist()


def watermark_notes(commit: Commit) -> list[str]:
    """Return a warning for each watermark that a row of this batch moved past the batch time and past the clock."""
    found = []
    for name, row in commit.furthest.items():
        watermark = commit.watermarks.get(name, 0)
        if watermark <= max(commit.batch_time_ms, commit.committed_ms):
            continue
        place = "an output" if row.file is None else f"file `{row.file}`"
        place += "" if row.row is None else f", row {row.row},"
        found.append(
            f"{commit.kind} {commit.version}: {place} has the event time {iso(row.time_ms)}, which moved the watermark "
            f"`{name}` to {iso(watermark)}, after the batch time {iso(commit.batch_time_ms)}; rows before it are late "
            "from now on. If the row is wrong, use `tidemill reset --watermark`, and declare maxAhead in withWatermark"
        )
    return found
