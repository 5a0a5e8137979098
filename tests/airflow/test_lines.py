"""From bytes to lines and levels, without a process."""

from __future__ import annotations

import logging

import pytest

from tidemill.airflow.calls import lines
from tidemill.airflow.calls.lines import Levels, Lines


def taken(*chunks: bytes, has_events: bool = False) -> list[str]:
    seen: list[str] = []
    split = Lines(seen.append, has_events=has_events)
    for chunk in (*chunks, b""):
        split.feed(chunk)
    return seen


def test_lines_end_where_they_end_however_they_arrive() -> None:
    assert taken(b"a\nb", b"c\n\nd") == ["a", "bc", "d"]
    assert taken(b"a\r", b"\nb\r\nc") == ["a", "b", "c"]
    assert taken("é".encode()[:1], "é".encode()[1:] + b"\n\xff\n") == ["é", "\ufffd"]


def test_frames_of_a_bar_are_passed_every_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(lines.time, "monotonic", lambda: now)
    seen: list[str] = []
    split = Lines(seen.append)
    for second in range(12):
        now = 100.0 + second
        split.feed(b"%d s\r" % second)
    assert seen == ["0 s", "5 s", "10 s"]
    split.feed(b"done\n")
    assert seen[3:] == ["11 s", "done"]


def test_long_text_is_cut_and_long_events_are_not() -> None:
    text = b"{" + b"x" * 20_000
    assert taken(text, text, has_events=True) == [(text + text).decode()]
    assert taken(text, text, b"\nshort") == [text[:8192].decode() + " … (31,810 more bytes)", "short"]


def test_events_are_cut_before_they_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST_EVENT", 10_000)
    assert taken(b"{" + b"x" * 20_000, has_events=True) == ["{" + "x" * 9_999 + " … (10,001 more bytes)"]


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("plain", "INFO"),
        ("Information: none", "INFO"),
        ("warning: late rows", "WARNING"),
        ("WARNING:root:late", "WARNING"),
        ("[ERROR] lost", "ERROR"),
        ("Error: no such option: --x", "ERROR"),
        ("26/11/25 08:00:00 WARN TaskSetManager: lost task", "WARNING"),
        ("26/11/25 08:00:00 INFO SparkContext: ERROR is a word", "INFO"),
        ("2026-11-25 08:00:00,123 - py4j - ERROR - lost", "ERROR"),
        ("[2026-11-25T08:00:00.123+0000] {job.py:3} CRITICAL - lost", "CRITICAL"),
        ("2026-11-25 08:00:00,123 DEBUG x", "DEBUG"),
        ("StoreUnavailable: no answer", "ERROR"),
        ("Traceback (most recent call last):", "ERROR"),
    ],
)
def test_level_of_a_line(line: str, level: str) -> None:
    assert logging.getLevelName(Levels().of(line)) == level


def test_lines_that_continue_a_message_have_its_level() -> None:
    levels = Levels()
    text = ["plain", "Traceback (most recent call last):", "  File x", "app.LostError: x", "plain", "  indented"]
    assert [logging.getLevelName(levels.of(line)) for line in text] == [
        *("INFO", "ERROR", "ERROR", "ERROR"), "INFO", "INFO"
    ]  # fmt: skip
