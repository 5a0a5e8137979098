"""How a replay makes a correction again, by the rules of its kind."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.unit.protocol import valid_records as make
from tidemill.errors import InternalError
from tidemill.protocol.kinds import KINDS, Replayed
from tidemill.protocol.records import Commit, Kind, SkippedFile
from tidemill.repo.steps import leaves_nothing, made_again

SKIPPED = [SkippedFile("shop", "bad.csv", "1", 1)]


def commit_of(kind: Kind, skipped: list[SkippedFile]) -> Commit:
    return make.commit(kind=kind, skipped=skipped)


def test_each_kind_is_made_again_as_its_row_says() -> None:
    made = {kind: made_again(commit_of(kind, [])) for kind, rules in KINDS.items() if rules.replayed.endswith("s")}
    assert made == {"skip": "skips", "requeue": "requeues"}


def test_files_that_any_correction_skipped_are_skipped_again() -> None:
    rewind = commit_of("rewind", SKIPPED)
    assert made_again(rewind) == "skips"
    assert not leaves_nothing(rewind) and leaves_nothing(commit_of("rewind", []))


@pytest.mark.parametrize("replayed", [how for how in get_args(Replayed) if how not in ("skips", "requeues")])
def test_a_kind_without_a_rule_is_not_made_again_as_another_one(replayed: Replayed) -> None:
    for kind, rules in KINDS.items():
        if rules.replayed == replayed:
            with pytest.raises(InternalError, match=f"no rule says how to repeat a commit of kind `{kind}`"):
                made_again(commit_of(kind, []))
