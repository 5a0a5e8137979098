"""The reference says what the code says: messages of errors, settings, and the fields of `BatchProgress`."""

from __future__ import annotations

import dataclasses
import functools
import re

import pytest

import tidemill as tm
from tests.docs.messages import messages
from tests.docs.pages import ROOT
from tidemill.errors import ERROR_KINDS
from tidemill.settings import Settings
from tidemill.units import duration_ms, size_bytes

REFERENCE = ROOT / "docs/reference"
ERRORS = (REFERENCE / "errors.md").read_text("utf-8")
RUNBOOK = (ROOT / "docs/guides/runbook.md").read_text("utf-8").partition("\n## ")[0]
SEEN = [
    (wide or narrow).strip()
    for cell in re.findall(r"^\| ([^|]+) \|", RUNBOOK, re.M)
    for wide, narrow in re.findall(r"``(.+?)``|`([^`]+)`", cell)
    if narrow.partition(":")[0] not in ERROR_KINDS
]
"""The messages in the tables of the runbook."""
LISTED = [
    (kind, message.strip())
    for section in re.split(r"^## ", ERRORS, flags=re.M)[1:]
    if (kind := section.split("\n")[0]) in ERROR_KINDS
    for message in re.findall(r"^\| ``(.+?)`` \|", section, re.M)
]


@functools.cache
def texts() -> list[tuple[str, str | None]]:
    """Return the messages of the sources, once, and not where tests are only collected."""
    return list(messages())


def says(text: str, message: str) -> bool:
    """Whether a text of the sources has the fixed parts of a message, in their order."""
    place = 0
    for part in message.split("…"):
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return True


@pytest.mark.parametrize(("kind", "message"), LISTED, ids=[message for _, message in LISTED])
def test_a_message_of_the_page_is_in_the_sources(kind: str, message: str) -> None:
    kinds = {found for text, found in texts() if says(text, message)}
    assert kinds, "no text of the sources has these words: reword the page as the sources are"
    assert kind in kinds or None in kinds, f"it is {kinds}"


@pytest.mark.parametrize("message", SEEN)
def test_a_message_of_the_runbook_is_in_the_sources(message: str) -> None:
    assert any(says(text, message) for text, _ in texts())


def test_the_runbook_lists_messages() -> None:
    assert len(SEEN) > 15


def test_the_page_has_many_messages_of_every_kind() -> None:
    assert {kind for kind, _ in LISTED} == set(ERROR_KINDS)
    assert len(LISTED) >= 30 and len({message for _, message in LISTED}) == len(LISTED)
    short = [message for _, message in LISTED if len(re.sub(r"[…`\W]", "", message)) < 6]
    assert short == []


def test_a_message_is_found_only_in_a_text_that_contains_it() -> None:
    assert not any(says(text, "pipeline `…` has no riddle under …") for text, _ in texts())
    assert says("a `…` has b", "a … b") and not says("b a", "a … b")


def rows_of(page: str, heading: str = "") -> dict[str, list[str]]:
    """The rows of the first table below a heading, by their first cell."""
    text = (REFERENCE / page).read_text("utf-8").partition(heading)[2] if heading else (REFERENCE / page).read_text()
    table = re.search(r"^\|.*\n\| ---.*\n((?:\|.*\n)+)", text, re.M)
    assert table, page
    rows = [[cell.strip() for cell in line.strip("|\n ").split(" | ")] for line in table[1].splitlines()]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_settings_are_listed_with_their_variables_and_defaults() -> None:
    rows = rows_of("settings.md")
    assert set(rows) == {f"tidemill.{field.name}" for field in dataclasses.fields(Settings)}
    for field in dataclasses.fields(Settings):
        variable, default, meaning = rows[f"tidemill.{field.name}"]
        assert variable == f"`TIDEMILL_{field.name.upper()}`"
        assert len(meaning) > 20
        shown = default.strip("`")
        read = duration_ms if shown.endswith(("day", "minutes")) else size_bytes
        assert (shown == "empty" and field.default == "") or read(shown) == field.default


def test_every_field_of_batch_progress_is_listed_in_its_order() -> None:
    assert list(rows_of("batch-progress.md")) == [field.name for field in dataclasses.fields(tm.BatchProgress)]


def test_every_key_of_state_operators_is_listed() -> None:
    def fails(key: str, row: object, state: object) -> None:
        raise ValueError("no")

    p = tm.Pipeline("fields")
    spec = tm.StateSpec.function(fails)
    p.read(tm.Rows("k string")).groupBy("k").mapWithState(spec, "int", "k string", on_error="quarantine")
    metrics = tm.testing.Tester(p).batch(["a"]).metrics
    assert metrics is not None
    (entry,) = metrics.stateOperators
    rows = rows_of("batch-progress.md", "\n## stateOperators\n")
    assert set(rows) == set(entry)
    assert all(f"`{name}`" in rows["customMetrics"][-1] for name in entry["customMetrics"] if name != "rows")
