"""`_seq`: the canonical order of a batch's output rows, the same for every number of tasks."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest

import tidemill as tm
from tidemill.batch.ranges import cut
from tidemill.batch.sequence import GROUP_BITS, group_of, groups_of, sequence
from tidemill.errors import InvalidInput
from tidemill.protocol.records import HASH_END


def naive(groups: list[int], pass_number: int) -> list[int]:
    seen: dict[int, int] = {}
    found = []
    for group in groups:
        seen[group] = seen.get(group, -1) + 1
        found.append((pass_number << 52) + (group << 32) + seen[group])
    return found


@pytest.mark.parametrize("seed", range(5))
def test_a_number_is_the_pass_the_group_and_the_place_in_the_group(seed: int) -> None:
    chance = random.Random(seed)
    groups = sorted(chance.choice([0, 1, 7, (1 << GROUP_BITS) - 1]) for _ in range(chance.randint(1, 40)))
    for pass_number in (0, 1):
        found = sequence(pa.array(groups, pa.int64()), pass_number).to_pylist()
        assert found == naive(groups, pass_number)
        assert found == sorted(set(found))


def test_numbers_stay_exact_in_json_readers() -> None:
    [greatest] = sequence(pa.array([(1 << GROUP_BITS) - 1], pa.int64()), 1).to_pylist()
    assert 2**52 < greatest < 2**53 - 2**31


def test_groups_come_from_order_numbers() -> None:
    assert groups_of(pa.array([(5 << 32) + 7, 3], pa.int64())).to_pylist() == [5, 0]


@pytest.mark.parametrize("tasks", [1, 2, 3, 7, 1000, 1 << GROUP_BITS])
def test_no_range_cuts_a_group(tasks: int) -> None:
    bounds = cut(tasks)
    assert (bounds[0][0], bounds[-1][1]) == (0, HASH_END)
    for (_, end), (begin, _) in itertools.pairwise(bounds):
        assert begin == end + 1
        assert group_of(end) + 1 == group_of(begin)
    sizes = [hi - lo for lo, hi in bounds]
    assert max(sizes) - min(sizes) <= 1 << (64 - GROUP_BITS)


def test_more_tasks_than_groups_are_refused() -> None:
    with pytest.raises(InvalidInput, match="into 1,048,577 tasks: expected at most 1,048,576"):
        cut((1 << GROUP_BITS) + 1)


def test_a_stream_with_a_column_of_that_name_is_refused() -> None:
    p = tm.Pipeline("taken")
    rows = p.read(tm.Rows("k string")).sql("SELECT k, 1 AS _seq FROM rows")
    with pytest.raises(InvalidInput, match="sink `out`: the stream has a column `_seq`, which Tidemill adds itself"):
        rows.write(tm.Json("memory://taken"), name="out")
