"""The decisions of the protocol, compared with models so simple that they cannot be wrong."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.protocol import valid_records as make
from tidemill.errors import InternalError
from tidemill.protocol.decide import (
    BatchTime,
    ObservedTimes,
    batch_time,
    check_receipts,
    choose_files,
    coalesce,
    commit_outcome,
    fenced_hint,
    fenced_reason,
    merge_state,
    segments_within,
    sweep_time,
)
from tidemill.protocol.kinds import KINDS
from tidemill.protocol.records import HASH_END, Receipt, Segment
from tidemill.protocol.tiling import NEVER, due_from, neighbours, with_due_from

# commit_outcome


@pytest.mark.parametrize(
    ("theirs", "outcome"),
    [
        ({"attempt": "try-1"}, "ours"),
        ({"attempt": "try-2"}, "already"),
        ({"attempt": "try-2", "plan_id": "other"}, "fenced"),
        ({"attempt": "try-2", "kind": "sweep"}, "fenced"),
        ({"attempt": "try-2", "committed_ms": 0, "code": {"digest": "other"}}, "already"),
    ],
)
def test_a_stored_commit_is_ours_or_of_the_same_plan_or_of_another_run(theirs: dict[str, Any], outcome: str) -> None:
    assert commit_outcome(make.commit(3, "try-1"), make.commit(3, **theirs)) == outcome


@pytest.mark.parametrize("kind", [kind for kind, rules in KINDS.items() if not rules.is_of_plan])
def test_two_attempts_at_a_correction_are_two_corrections_also_without_a_plan(kind: Any) -> None:
    for plan_id in ("", "plan-3"):
        ours, theirs = (make.commit(3, attempt, kind=kind, plan_id=plan_id) for attempt in ("try-1", "try-2"))
        assert commit_outcome(ours, theirs) == "fenced"


def test_the_message_for_fenced_names_both_attempts() -> None:
    theirs = make.commit(3, "try-2", plan_id="other", kind="sweep")
    assert fenced_reason(make.commit(3, "try-1"), theirs) == (
        "commit version 3 of branch `main`: another run is committing to this pipeline; its attempt `try-2` committed "
        "a sweep of plan `other`, ours is attempt `try-1`, a batch of plan `plan-3`; nothing of this run is committed"
    )


def test_the_hint_for_fenced_says_whether_the_plan_was_abandoned() -> None:
    assert fenced_hint(make.commit(3, "try-2")) == "find the other run, and let only one of them continue"
    abandoned = "the plan of this run was abandoned with `replan`; run again to plan the files that wait now"
    assert fenced_hint(make.commit(3, "try-2", kind="void")) == abandoned


@pytest.mark.parametrize("kind", ["skip", "reset", "rewind", "migrate", "requeue", "forget"])
def test_the_hint_for_fenced_names_a_correction(kind: Any) -> None:
    theirs = make.commit(3, "try-2", kind=kind)
    assert fenced_hint(theirs) == f"a `{kind}` took the number of this version meanwhile; run again"


# choose


@dataclass(frozen=True)
class File:
    size: int


sizes = st.lists(st.integers(0, 100).map(File), max_size=12)


def test_without_caps_all_files_are_chosen() -> None:
    files = [File(1), File(2)]
    assert choose_files(files) == files
    assert choose_files([]) == []


@pytest.mark.parametrize(
    ("max_files", "max_bytes", "taken"),
    [(1, None, 1), (2, None, 2), (9, None, 4), (None, 30, 2), (None, 29, 1), (None, 1, 1), (None, 0, 1), (3, 30, 2)],
)
def test_the_caps_limit_the_files_of_a_batch(max_files: int | None, max_bytes: int | None, taken: int) -> None:
    files = [File(10), File(20), File(0), File(5)]
    if (max_files, max_bytes) in ((None, 30), (3, 30)):
        taken += 1  # the empty file still fits
    assert choose_files(files, max_files, max_bytes) == files[:taken]


def test_a_file_larger_than_the_cap_is_a_batch_by_itself() -> None:
    assert choose_files([File(1000), File(0)], max_bytes=10) == [File(1000)]


@given(sizes, st.none() | st.integers(1, 15), st.none() | st.integers(0, 300))
def test_the_longest_prefix_within_the_caps_is_chosen(
    files: list[File], max_files: int | None, max_bytes: int | None
) -> None:
    def fits(count: int) -> bool:
        return (max_files is None or count <= max_files) and (
            max_bytes is None or sum(file.size for file in files[:count]) <= max_bytes
        )

    longest = max((count for count in range(1, len(files) + 1) if fits(count)), default=0)
    assert choose_files(files, max_files, max_bytes) == files[: max(longest, min(1, len(files)))]


# batch_time, sweep_time


@pytest.mark.parametrize(
    ("rule", "observed", "ms"),
    [
        ("arrival", ObservedTimes(100, newest_ms=70, oldest_waiting_ms=80), 70),
        ("arrival", ObservedTimes(100, newest_ms=70), 100),  # nothing waits behind it: now
        ("arrival", ObservedTimes(100, newest_ms=170, oldest_waiting_ms=80), 100),  # a file's clock is ahead
        ("arrival", ObservedTimes(100, newest_ms=70, oldest_waiting_ms=80, previous_ms=70), 70),
        ("arrival", ObservedTimes(100, newest_ms=-70, oldest_waiting_ms=-80), 0),  # files from before 1970
        ("plan", ObservedTimes(100, newest_ms=70, oldest_waiting_ms=80), 100),
        (7, ObservedTimes(100, newest_ms=70), 7),
        (7_000, ObservedTimes(100, newest_ms=70), 7_000),
    ],
)
def test_batch_time_follows_the_rule(rule: Any, observed: ObservedTimes, ms: int) -> None:
    assert batch_time(rule, observed) == BatchTime(ms)


@pytest.mark.parametrize("rule", ["arrival", "plan", 90])
def test_a_batch_time_that_would_go_back_is_raised_with_a_note(rule: Any) -> None:
    found = batch_time(rule, ObservedTimes(90, newest_ms=90, oldest_waiting_ms=95, previous_ms=100))
    assert found == BatchTime(100, raised_from_ms=90)
    assert found.note == (
        "batch time 1970-01-01T00:00:00.090Z is before that of the last commit and was raised to "
        "1970-01-01T00:00:00.100Z, because batch time never goes back"
    )
    assert batch_time(rule, ObservedTimes(90, newest_ms=90, oldest_waiting_ms=95, previous_ms=90)).note is None


@pytest.mark.parametrize(
    ("rule", "observed", "expected"),
    [
        ("arrival", ObservedTimes(100), BatchTime(100)),
        ("arrival", ObservedTimes(100, oldest_waiting_ms=80), BatchTime(80)),
        ("plan", ObservedTimes(100, oldest_waiting_ms=80), BatchTime(80)),
        ("arrival", ObservedTimes(100, oldest_waiting_ms=180), BatchTime(100)),
        ("arrival", ObservedTimes(100, oldest_waiting_ms=80, previous_ms=90), BatchTime(90, raised_from_ms=80)),
        (300, ObservedTimes(100, oldest_waiting_ms=80), BatchTime(300)),
        (30, ObservedTimes(100, previous_ms=90), BatchTime(90, raised_from_ms=30)),
    ],
)
def test_a_sweep_never_passes_the_oldest_waiting_file(rule: Any, observed: ObservedTimes, expected: BatchTime) -> None:
    assert sweep_time(rule, observed) == expected


@given(st.data())
def test_batch_times_after_an_outage_are_those_without_the_outage(data: st.DataObject) -> None:
    arrivals = sorted(data.draw(st.lists(st.integers(0, 1000), min_size=1, max_size=10, unique=True)))
    on_time, late = [], []
    previous = None
    for arrival in arrivals:  # a run right after each arrival, and nothing waits
        previous = batch_time("arrival", ObservedTimes(arrival, newest_ms=arrival, previous_ms=previous)).ms
        on_time.append(previous)
    previous = None
    for arrival, behind in zip(arrivals, [*arrivals[1:], None], strict=True):  # one run, long after
        observed = ObservedTimes(5000, newest_ms=arrival, oldest_waiting_ms=behind, previous_ms=previous)
        previous = batch_time("arrival", observed).ms
        late.append(previous)
    assert late[:-1] == on_time[:-1]
    assert late[-1] == 5000


# check_receipts


def cut(*bounds: int, level: int = 0, **more: Any) -> list[Receipt]:
    """Receipts for the ranges between the bounds."""
    starts = [0, *bounds]
    ends = [bound - 1 for bound in bounds] + [HASH_END]
    return [make.receipt(lo, hi, level, **more) for lo, hi in zip(starts, ends, strict=True)]


TWO_SPLITS = make.plan(7, splits=(make.split("a"), make.split("b")))
READ = {"0": 10, "1": 0}


def test_receipts_that_tile_and_count_each_split_once_are_accepted() -> None:
    check_receipts(cut(splits=READ), TWO_SPLITS, 1)
    check_receipts(list(reversed(cut(5, 1000, 2**63, splits=READ))), TWO_SPLITS, 1)
    check_receipts([*cut(5, splits=READ), *cut(7, 9, level=1), *cut(level=2)], TWO_SPLITS, 3)


def test_receipts_of_a_sweep_tile_without_splits() -> None:
    check_receipts(cut(5), make.plan(kind="sweep"), 1)
    with pytest.raises(InternalError, match="no receipt covers"):
        check_receipts([], make.plan(kind="sweep"), 1)


@pytest.mark.parametrize(
    ("receipts", "message"),
    [
        ([], "level 0: no receipt covers 0000000000000000..ffffffffffffffff"),
        (cut(5)[:1], "level 0: no receipt covers 0000000000000005..ffffffffffffffff"),
        (cut(5)[1:], "level 0: found the range 0000000000000005..ffffffffffffffff, expected one that begins at 0"),
        (
            cut(5, 9)[::2],
            "level 0: found the range 0000000000000009..ffffffffffffffff, expected one that begins at 0*5",
        ),
        ([*cut(5), cut(5)[0]], "level 0: found the range 0000000000000000..0000000000000004, expected .* at 0*5"),
        ([*cut(5), *cut()], "level 0: found the range 0000000000000000..ffffffffffffffff, expected .* at 0*5"),
        ([make.receipt(0, HASH_END + 1)], "level 0: found the range"),
        ([make.receipt(0, 4), make.receipt(5, 4), make.receipt(5)], "level 0: found the range 0000000000000005..0*4"),
        ([*cut(), make.receipt(level=1)], "a receipt of level 1, expected 0 to 0"),
        ([*cut(), make.receipt(level=-1)], "a receipt of level -1, expected 0 to 0"),
    ],
)
def test_ranges_that_do_not_tile_are_an_internal_error(receipts: list[Receipt], message: str) -> None:
    with pytest.raises(InternalError, match=f"^check the receipts of plan 0.*{message}"):
        check_receipts(receipts, make.plan(), 1)


def test_every_level_must_tile() -> None:
    with pytest.raises(InternalError, match="plan 0, level 1: no receipt covers 0000000000000000"):
        check_receipts(cut(5), make.plan(), 2)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({}, "did not receive the splits 0, 1"),
        ({"0": 10}, "did not receive the splits 1"),
        ({**READ, "2": 5}, "received splits that are not in the plan: 2"),
        ({"0": 11, "1": 0}, "counted 11 rows in split 0, but the first range 10"),
        ({"0": 10, "1": -1}, "counted -1 rows in split 1, but the first range 0"),
    ],
)
def test_a_missing_or_miscounted_split_is_an_internal_error(splits: dict[str, int], message: str) -> None:
    first, second = cut(5)
    receipts = [make.receipt(first.lo, first.hi, splits=READ), make.receipt(second.lo, second.hi, splits=splits)]
    with pytest.raises(InternalError, match=f"plan 7, level 0: the range 0*5..f* {message}"):
        check_receipts(receipts, TWO_SPLITS, 1)


def test_negative_rows_are_an_internal_error() -> None:
    with pytest.raises(InternalError, match="counted -3 rows in split 0"):
        check_receipts(cut(5, splits={"0": -3, "1": 0}), TWO_SPLITS, 1)


@given(st.sets(st.integers(1, HASH_END), max_size=8), st.data())
def test_a_tiling_with_a_range_too_few_or_too_many_is_an_error(bounds: set[int], data: st.DataObject) -> None:
    receipts = cut(*sorted(bounds))
    check_receipts(data.draw(st.permutations(receipts)), make.plan(), 1)
    one = data.draw(st.sampled_from(receipts))
    for wrong in ([r for r in receipts if r is not one], [*receipts, one]):
        with pytest.raises(InternalError):
            check_receipts(wrong, make.plan(), 1)


# coalesce, visible, merge_state: against a model that knows, for each hash, which objects show it

SPACE = 12


def shown(segments: list[Segment]) -> list[list[tuple[int, str]]]:
    """Return the (version, object) pairs that show each hash of a small hash space, oldest first."""
    return [sorted((s.version, s.name) for s in segments if s.lo <= key <= s.hi) for key in range(SPACE)]


@st.composite
def lists_of_segments(draw: st.DrawFn) -> list[Segment]:
    """Generate objects that each show some hashes, in ranges that do not overlap."""
    found = []
    for number in range(draw(st.integers(0, 4))):
        version = draw(st.integers(0, 3))
        bounds = sorted(draw(st.sets(st.integers(0, SPACE), min_size=2, max_size=6)))
        for lo, end in pairwise(bounds):
            if draw(st.booleans()):
                deadline = draw(st.none() | st.integers(0, 99))
                found.append(make.segment(f"s{number}", lo, end - 1, version, min_deadline_ms=deadline))
    return draw(st.permutations(found))


@given(lists_of_segments())
def test_coalescing_does_not_change_the_visible_segments(segments: list[Segment]) -> None:
    found = coalesce(segments)
    assert shown(found) == shown(segments)
    assert found == sorted(found, key=lambda s: (s.lo, s.version, s.name))
    touching = {(s.name, due_from(s), s.hi + 1) for s in found} & {(s.name, due_from(s), s.lo) for s in found}
    assert touching == set()
    assert coalesce(found) == found


@given(lists_of_segments())
def test_coalescing_keeps_the_first_deadline_of_each_hash(segments: list[Segment]) -> None:
    for joined in coalesce(segments):
        parts = [s for s in segments if s.name == joined.name and joined.lo <= s.lo <= joined.hi]
        assert {due_from(part) for part in parts} == {due_from(joined)}


@given(lists_of_segments(), st.integers(0, SPACE - 1), st.integers(0, SPACE - 1))
def test_neighbours_groups_the_touching_ranges_of_an_object(segments: list[Segment], one: int, two: int) -> None:
    seen = segments_within(coalesce(segments), min(one, two), max(one, two))
    found = neighbours(seen)
    assert [s for together in found for s in together] == seen
    for together in found:
        assert all(a.name == b.name and a.hi + 1 == b.lo for a, b in pairwise(together))
    assert all(a[-1].name != b[0].name or a[-1].hi + 1 < b[0].lo for a, b in pairwise(found))


def test_a_segment_without_live_deadlines_has_no_first_deadline() -> None:
    segment = make.segment(min_deadline_ms=5, min_deadline_hash=9)
    assert due_from(segment) == (5, 9)
    assert with_due_from(segment, NEVER) == make.segment()
    assert due_from(make.segment()) == NEVER
    assert with_due_from(make.segment(), (5, 9)) == segment


@given(lists_of_segments(), st.integers(0, SPACE - 1), st.integers(0, SPACE - 1))
def test_visible_segments_are_clipped_to_the_range_oldest_first(segments: list[Segment], one: int, two: int) -> None:
    lo, hi = min(one, two), max(one, two)
    found = segments_within(segments, lo, hi)
    expected = shown(segments)
    assert [keys if lo <= key <= hi else [] for key, keys in enumerate(expected)] == shown(found)
    assert [s.version for s in found] == sorted(s.version for s in found)
    assert all(lo <= s.lo <= s.hi <= hi for s in found)


@given(lists_of_segments(), st.sets(st.integers(1, SPACE - 1), max_size=4))
def test_merging_the_ranges_of_a_state_restores_the_state(segments: list[Segment], bounds: set[int]) -> None:
    ranges = [(receipt.lo, min(receipt.hi, SPACE - 1)) for receipt in cut(*sorted(bounds))]
    receipts = [make.receipt(lo, hi, state={"op": {"map": segments_within(segments, lo, hi)}}) for lo, hi in ranges]
    merged = merge_state(reversed(receipts))
    assert merged == {"op": {"map": coalesce(segments)}}


def test_the_states_of_all_operators_and_maps_are_merged() -> None:
    receipts = [
        make.receipt(0, 9, state={"b": {"y": [make.segment("1", 0, 9)], "x": []}, "a": {"z": []}}),
        make.receipt(
            10, 19, state={"b": {"y": [make.segment("1", 10, 19)], "x": [make.segment("2", 10, 12)]}, "a": {"z": []}}
        ),
        make.receipt(0, 19, level=1, state={"c": {"y": [make.segment("3", 0, 5)]}}),
    ]
    merged = merge_state(receipts)
    assert merged == {
        "b": {"y": [make.segment("1", 0, 19)], "x": [make.segment("2", 10, 12)]},
        "a": {"z": []},
        "c": {"y": [make.segment("3", 0, 5)]},
    }
    assert list(merged) == ["b", "a", "c"]


@pytest.mark.parametrize(
    "second",
    [
        make.segment("s", 5, 9),  # shown twice for 5
        make.segment("s", 0, 5),
        make.segment("s", 6, 9, version=1),
        make.segment("s", 6, 9, checksum="other"),
        make.segment("s", 6, 9, size=1),
        make.segment("s", 6, 9, rows=1),
    ],
)
def test_an_object_shown_twice_or_described_in_two_ways_is_an_internal_error(second: Segment) -> None:
    with pytest.raises(InternalError, match="^join the ranges of `s`: "):
        coalesce([make.segment("s", 0, 5), second])


@pytest.mark.parametrize(("lo", "hi"), [(4, 9), (5, 11), (0, 4), (11, 12)])
def test_a_segment_outside_its_range_is_an_internal_error(lo: int, hi: int) -> None:
    receipt = make.receipt(5, 10, state={"op": {"map": [make.segment("s", lo, hi)]}})
    with pytest.raises(InternalError, match="merge the state of `op`: the range 0*5..0*a returned `s` for"):
        merge_state([receipt])
