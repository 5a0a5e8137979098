"""Suggestions for misspelt names."""

from __future__ import annotations

from tidemill.spelling import nearest


def test_the_nearest_word_is_found() -> None:
    assert nearest("MAXfilespertriger", ["maxFilesPerTrigger", "path"]) == "maxFilesPerTrigger"
    assert nearest("zzz", ["maxFilesPerTrigger", "path"]) is None
