"""Cost follows the batch: what a small batch writes after a large one, whatever number of tasks either was cut into;
and that merging as little as that loses and resurrects no row.
"""

from __future__ import annotations

import random

import pytest

import tidemill as tm
from tidemill.protocol.records import Commit, Segment
from tidemill.testing import Tester

pytestmark = pytest.mark.slow("long random runs")

ROWS = 20_000


def counts() -> tm.Pipeline:
    p = tm.Pipeline("counts")
    p.read(tm.Rows("user long")).groupBy("user").agg(n=tm.count(), name="counts")
    return p


def written_bytes(commit: Commit) -> int:
    """Bytes of the segments of operators that a commit's own batch wrote."""
    segments = [s for maps in commit.state.values() for segments in maps.values() for s in segments]
    return sum({s.name: s.size for s in segments if s.version == commit.version}.values())


@pytest.mark.parametrize(("large", "small"), [(8, 1), (1, 8), (8, 7), (24, 1)])
def test_a_small_batch_after_a_large_one_writes_little_whatever_the_tasks(large: int, small: int) -> None:
    tester = Tester(counts(), tasks=large)
    tester.batch([(user,) for user in range(ROWS)])
    all_of_it = written_bytes(tester.repository.head)
    tester.tasks = small
    result = tester.batch([(7,)])
    assert len(result.state) == ROWS
    assert result.state[7].n == 2
    assert written_bytes(tester.repository.head) < 1500 < all_of_it / 20


def live_segments(commit: Commit) -> list[Segment]:
    """The segments of operators that make a version."""
    return [s for maps in commit.state.values() for segments in maps.values() for s in segments]


def test_a_hundred_batches_without_maintenance_leave_few_segments_and_write_each_row_a_few_times() -> None:
    tester, users = Tester(counts(), tasks=1), 2000
    tester.batch([(user,) for user in range(users)])
    written, live = [], []
    for number in range(100):
        result = tester.batch([((number * 31 + user * 97) % users,) for user in range(3)])
        written.append(written_bytes(tester.repository.head))
        live.append(len(live_segments(tester.repository.head)))
    assert max(live) <= 8
    assert sum(written) < 1.5 * 100 * written[0]
    assert sum(row.n for row in result.state.values()) == users + 100 * 3


def keep(batch_time, user, amount, state):
    """The sum of a user's amounts; a negative amount forgets the user."""
    if amount is not None and amount < 0:
        if state.exists:
            state.remove()
    else:
        state.update((state.getOption or 0) + amount)


def sums() -> tm.Pipeline:
    p = tm.Pipeline("sums")
    p.read(tm.Rows("user long, amount long")).groupBy("user").mapWithState(
        tm.StateSpec.function(keep), value="amount", name="sums", stateSchema="long", outputSchema="user long"
    )
    return p


@pytest.mark.parametrize("seed", range(3))
def test_state_is_that_of_a_dict_while_the_number_of_tasks_changes(seed: int) -> None:
    chance, model = random.Random(seed), {}
    tester = Tester(sums())
    for _ in range(40):
        tester.tasks = chance.choice([1, 2, 3, 8, 13])
        rows = [(chance.randrange(150), chance.randint(-3, 9)) for _ in range(chance.choice([1, 1, 5, 300]))]
        for user, amount in rows:
            model.pop(user, None) if amount < 0 else model.update({user: model.get(user, 0) + amount})
        result = tester.batch(rows)
        assert result.state == model
        assert result.metrics.stateOperators[0]["numRowsTotal"] == len(model)
