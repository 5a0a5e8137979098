"""What pages list is what the code has: the kinds of commits and what they change, and the actions with a dry run."""

from __future__ import annotations

import re
from typing import get_type_hints

from tests.docs.pages import ROOT
from tidemill.actions.registry import ACTIONS
from tidemill.protocol.kinds import KINDS, Changes

FORMAT = (ROOT / "docs/format.md").read_text("utf-8")


def in_code(text: str) -> list[str]:
    return re.findall(r"`(\w+)`", text)


def test_the_format_lists_every_kind_of_commits() -> None:
    section = FORMAT.partition("\n## Commit\n")[2]
    row = next(line for line in section.splitlines() if line.startswith("| `kind` |"))
    assert sorted(in_code(row.split("|")[3])) == sorted(KINDS)


def test_the_format_says_what_each_correction_changes() -> None:
    table = FORMAT.partition("\n### Corrections\n")[2].partition("\n\n- ")[0]
    rows = {row.split("|")[1].strip(" `"): row.split("|")[2] for row in table.splitlines() if row.startswith("| `")}
    assert set(rows) == {kind for kind, rules in KINDS.items() if not rules.carries_out}
    fields = get_type_hints(Changes).keys()
    said = {kind: set(in_code(row)) & fields | {"reason"} for kind, row in rows.items()}
    assert said == {kind: set(KINDS[kind].changes) for kind in said}


def test_the_page_of_undo_lists_every_action_with_a_dry_run() -> None:
    page = (ROOT / "docs/guides/undo.md").read_text("utf-8")
    sentence = next(one for one in re.split(r"\. (?=`)|\n\n", page) if one.endswith("take both arguments, too."))
    assert {"rewind", *in_code(sentence)} == set(ACTIONS)
