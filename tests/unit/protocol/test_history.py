"""The effective history, beside a naive model that keeps for each version the list of versions that led to it."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from tests.unit.protocol import valid_records as make
from tidemill.protocol.history import correction, effective, is_effective, is_shown, replaced_at, shown_again, shown_by
from tidemill.protocol.records import Commit, Shown


def batch(head: Commit | None) -> Commit:
    """The next batch inherits what its parent says of the history."""
    number = 0 if head is None else head.version + 1
    before: Any = {} if head is None else {"replaced": head.replaced, "shown_by": head.shown_by}
    return dataclasses.replace(make.commit(number), **before)


def rewound(head: Commit, target: Commit | None) -> Commit:
    number, change = head.version + 1, correction(head, target)
    replaced = replaced_at(number, target)
    return dataclasses.replace(make.commit(number), replaced=replaced, shown_by=change.shown_by)


def test_a_rewind_leaves_out_the_versions_between() -> None:
    commits = [batch(None)]
    for _ in range(4):
        commits.append(batch(commits[-1]))
    change = correction(commits[4], commits[1])
    assert (change.undone, change.others.withdraws, change.others.adds, change.shown_by) == (
        [2, 3, 4],
        [2, 3, 4],
        [],
        [],
    )
    fifth = rewound(commits[4], commits[1])
    assert fifth.replaced == [(2, 4)]
    assert list(effective(fifth)) == [0, 1, 5]
    assert [version for version in range(7) if is_effective(fifth, version)] == [0, 1, 5]


def test_restoring_what_was_rewound_shows_it_again_under_the_new_number() -> None:
    commits = [batch(None)]
    for _ in range(4):
        commits.append(batch(commits[-1]))
    commits.append(rewound(commits[4], commits[1]))
    change = correction(commits[5], commits[4])
    assert (change.undone, change.others.withdraws, change.others.adds) == ([5], [5], [2, 3, 4])
    assert change.shown_by == [Shown(2, 4, 6)]
    commits.append(rewound(commits[5], commits[4]))
    assert list(effective(commits[6])) == [0, 1, 2, 3, 4, 6]
    change = correction(commits[6], commits[2])  # what version 6 shows goes; version 2 must come back
    assert (change.undone, change.others.withdraws, change.others.adds) == ([3, 4, 6], [6], [2])
    assert change.shown_by == [Shown(2, 2, 7)]


def test_version_minus_one_has_an_empty_history() -> None:
    first = batch(None)
    assert list(effective(None)) == []
    assert correction(first, None).undone == [0]
    second = rewound(first, None)
    assert (second.replaced, list(effective(second))) == ([(0, 0)], [1])


def test_what_one_sink_publishes_again_does_not_change_the_others() -> None:
    commits = [batch(None)]
    for _ in range(3):
        commits.append(batch(commits[-1]))
    fourth = dataclasses.replace(batch(commits[-1]), shown_by=shown_again(commits[-1], {"a": [0, 2], "b": [3]}, 4))
    assert fourth.shown_by == [Shown(0, 0, 4, "a"), Shown(2, 2, 4, "a"), Shown(3, 3, 4, "b")]
    assert [record for record in range(5) if is_shown(fourth, record, "a")] == [1, 3, 4]
    assert [record for record in range(5) if is_shown(fourth, record, "b")] == [0, 1, 2, 4]
    assert [record for record in range(5) if is_shown(fourth, record, "c")] == [0, 1, 2, 3, 4]
    again = dataclasses.replace(batch(fourth), shown_by=shown_again(fourth, {"a": [1, 4]}, 5))
    assert [shown_by(again, version, "a") for version in range(4)] == [5, 5, 5, 3]
    assert [shown_by(again, version, "b") for version in range(4)] == [0, 1, 2, 4]
    assert correction(batch(again), again).shown_by == again.shown_by


@pytest.mark.parametrize("seed", range(200))
def test_random_rewinds_agree_with_a_naive_model(seed: int) -> None:
    """Every version of the history is shown once: by a record that is not withdrawn, and by no other."""
    chance = random.Random(seed)
    commits: list[Commit] = []
    histories: list[list[int]] = []
    batches: set[int] = set()
    shown: dict[int, set[int]] = {}  # by record: the versions whose rows it shows now
    for number in range(chance.randint(1, 25)):
        head = commits[-1] if commits else None
        if head is None or chance.random() < 0.6:
            commits.append(batch(head))
            histories.append([*(histories[-1] if histories else []), number])
            shown[number] = {number}
            batches.add(number)
        else:
            at = chance.randint(-1, head.version)
            target = None if at < 0 else commits[at]
            change = correction(head, target)
            for record in change.others.withdraws:
                shown.pop(record, None)
            if change.others.adds:
                shown[number] = set(change.others.adds)
            commits.append(rewound(head, target))
            histories.append([*([] if at < 0 else histories[at]), number])
        newest = commits[-1]
        assert list(effective(newest)) == histories[-1]
        visible = sorted(version for versions in shown.values() for version in versions & batches)
        assert visible == [version for version in histories[-1] if version in batches]
        for record, versions in shown.items():
            assert is_shown(newest, record)
            assert all(shown_by(newest, version) == record for version in versions)
        for record in range(number):
            if record in batches and record not in shown:
                assert not is_shown(newest, record)


@pytest.mark.parametrize("seed", range(200))
def test_random_rewinds_and_compactions_of_a_sink_agree_with_a_naive_model(seed: int) -> None:
    """As above, with neighbours that one sink shows by one record, while others show them as before."""
    chance = random.Random(seed)
    commits: list[Commit] = []
    histories: list[list[int]] = []
    shown_in: dict[str, dict[int, set[int]]] = {"a": {}, "b": {}, "other": {}}
    batches: set[int] = set()
    for number in range(chance.randint(1, 30)):
        head = commits[-1] if commits else None
        what = chance.random()
        if head is None or what < 0.5:
            commits.append(batch(head))
            histories.append([*(histories[-1] if histories else []), number])
            batches.add(number)
            for shown in shown_in.values():
                shown[number] = {number}
        elif what < 0.75:
            sink = chance.choice("ab")
            ordered = sorted(shown_in[sink], key=lambda record: min(shown_in[sink][record]))
            first = chance.randrange(len(ordered)) if ordered else 0
            group = ordered[first : first + chance.randint(1, 4)]
            if group:
                shown_in[sink][number] = {one for record in group for one in shown_in[sink].pop(record)}
            again = shown_again(head, {sink: group}, number)
            commits.append(dataclasses.replace(batch(head), shown_by=again))
            histories.append([*histories[-1], number])
        else:
            at = chance.randint(-1, head.version)
            change = correction(head, None if at < 0 else commits[at])
            for sink, shown in shown_in.items():
                for record, rest in change.of(sink).rest.items():
                    assert set(rest) & batches == shown.get(record, set()) & set(histories[at] if at >= 0 else [])
                for record in change.of(sink).withdraws:
                    shown.pop(record, None)
                if back := set(change.of(sink).adds) & batches:
                    shown[number] = back
            commits.append(rewound(head, None if at < 0 else commits[at]))
            histories.append([*([] if at < 0 else histories[at]), number])
        newest = commits[-1]
        for sink, shown in shown_in.items():
            visible = sorted(version for versions in shown.values() for version in versions)
            assert visible == [version for version in histories[-1] if version in batches], sink
            assert all(shown_by(newest, one, sink) == record for record, versions in shown.items() for one in versions)
            assert all(is_shown(newest, record, sink) == (record in shown) for record in batches), sink
