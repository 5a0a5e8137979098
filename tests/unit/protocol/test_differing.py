"""Differing segments and histories as ranges, beside a naive look at every hash and every version."""

from __future__ import annotations

import dataclasses
import random

from tests.unit.protocol import valid_records as make
from tidemill.protocol.differing import at_hashes, contents_at, differing
from tidemill.protocol.records import HASH_END, Parent, Segment, VersionOf
from tidemill.protocol.refs import MAIN, BranchRef, begin
from tidemill.protocol.retained import version_of
from tidemill.protocol.spans import effective_spans, without

ENDS = [0, 3, 7, 12, HASH_END]


def segment(number: int, lo: int, hi: int) -> Segment:
    return Segment(f"state/o/m/main/{number}.parquet", f"{number % 6:032x}", 1, 1, lo, hi, number % 4, 0)


def some(chance: random.Random) -> list[Segment]:
    found = []
    for _ in range(chance.randint(0, 6)):
        lo, hi = sorted(chance.sample(ENDS, 2))
        one = segment(chance.randint(0, 12), lo, hi)
        if not any(other.checksum == one.checksum and other.lo <= hi and lo <= other.hi for other in found):
            found.append(one)
    return found


def test_a_segment_differs_at_the_hashes_at_which_the_other_version_does_not_show_it() -> None:
    chance = random.Random(1)
    shared = 0
    for _ in range(500):
        before, after = some(chance), some(chance)
        ours, theirs = differing(before, after)
        for key_hash in (0, 1, 3, 4, 7, 8, 12, 13, HASH_END):
            one, other = contents_at(before, key_hash), contents_at(after, key_hash)
            assert contents_at(ours, key_hash) == one - other
            assert contents_at(theirs, key_hash) == other - one
            shared += bool(one & other)
            assert contents_at(at_hashes(before, [key_hash]), key_hash) == one
        assert all(one.lo <= one.hi for one in (*ours, *theirs))
        assert differing(before, before) == ([], [])
    assert shared, "some segments are shared"


def test_the_same_content_of_another_age_is_not_shared() -> None:
    one, other = segment(0, 0, 7), segment(6, 0, 7)  # the same checksum, another sequence
    assert one.checksum == other.checksum and one.sequence != other.sequence
    assert differing([one], [other]) == ([one], [other])


def test_histories_share_the_versions_before_the_fork_that_neither_rewound() -> None:
    branches = {
        MAIN: BranchRef(MAIN, MAIN),
        "one": BranchRef("one", "one-id", Parent(MAIN, 4, "c")),
        "two": BranchRef("two", "two-id", Parent("one-id", 6, "c")),
    }
    refs = dataclasses.replace(begin(make.init()), branches=branches)
    chance = random.Random(2)
    for _ in range(300):
        found = []
        for branch in (MAIN, "one-id", "two-id"):
            head = chance.randint(-1, 9)
            cut = sorted(chance.sample(range(10), 2))
            replaced = [(cut[0], min(cut[1], head - 1))] if chance.random() < 0.5 and cut[0] < head else []
            record = None if head < 0 else make.commit(head, branch=branch, replaced=replaced)
            spans = effective_spans(refs, branch, record)
            every = {VersionOf(span.branch, v) for span in spans for v in range(span.first, span.last + 1)}
            undone = {v for a, b in ([] if record is None else record.replaced) for v in range(a, b + 1)}
            assert every == {version_of(refs, branch, v) for v in range(head + 1) if v not in undone}
            assert spans == sorted(spans)
            found.append((spans, every))
        for spans, every in found:
            for others, theirs in found:
                left = {VersionOf(s.branch, v) for s in without(spans, others) for v in range(s.first, s.last + 1)}
                assert left == every - theirs
