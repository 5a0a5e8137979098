"""Session windows equal those of a plain loop, to the last bit, for any number of tasks and batches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import tidemill as tm
from tests.exhaustive import examples
from tidemill.testing import Tester

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DELAY = 6
Row = tuple[str | None, datetime | None, float]
Batches = list[list[Row]]

rows = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.none() | st.integers(0, 60).map(lambda s: EPOCH + timedelta(seconds=s)),
    st.sampled_from([0.1, 0.2, 0.3, 1e16, -1e16, 3.0]),
)
streams = st.lists(st.lists(rows, max_size=8), min_size=1, max_size=6)


def second(moment: datetime) -> int:
    return int((moment - EPOCH).total_seconds())


def sessions(batches: Batches, gap: int) -> list[list[Any]]:
    """Return (key, start, end, rows, first, last) of each batch, sorted. Each batch regroups all open rows of a key."""
    held: dict[str | None, list[tuple[int, int, float]]] = {}
    watermark, arrived, found = 0, 0, []
    for batch in batches:
        for key, ts, x in batch:
            arrived += 1
            if ts is not None and second(ts) + gap > watermark:
                held.setdefault(key, []).append((second(ts), arrived, x))
        out = []
        watermark = max([watermark, *(second(ts) - DELAY for _, ts, _ in batch if ts is not None)])
        for key, known in held.items():
            cut: list[list[tuple[int, int, float]]] = []
            for row in sorted(known):
                if cut and row[0] <= max(r[0] for r in cut[-1]) + gap:
                    cut[-1].append(row)
                else:
                    cut.append([row])
            over = [one for one in cut if one[-1][0] + gap <= watermark]
            out += [(key, o[0][0], o[-1][0] + gap, len(o), o[0][2], o[-1][2]) for o in over]
            held[key] = [row for one in cut if one not in over for row in one]
        found.append(sorted(out, key=repr))
    return found


def pipeline(gap: int) -> tm.Pipeline:
    p = tm.Pipeline("model")
    stream = p.read(tm.Rows("k string, ts timestamp, x double")).withWatermark("ts", f"{DELAY} seconds")
    stream.groupBy("k", tm.session_window("ts", f"{gap} seconds")).agg(
        rows=tm.count(), head=tm.first("x"), tail=tm.last("x"), total=tm.sum("x"), outputMode="append"
    )
    return p


@settings(max_examples=examples(25), deadline=None)
@given(streams, st.integers(1, 12), st.integers(1, 3))
def test_sessions_equal_those_of_a_plain_loop_to_the_last_bit(batches: Batches, gap: int, tasks: int) -> None:
    tester, alone = Tester(pipeline(gap), tasks=tasks), Tester(pipeline(gap))
    for batch, expected in zip(batches, sessions(batches, gap), strict=True):
        result, other = tester.batch(batch), alone.batch(batch)
        found = [
            (k, second(s["start"]), second(s["end"]), count, head, tail)
            for k, s, count, head, tail, _ in result.outputs
        ]
        assert sorted(found, key=repr) == expected
        assert result.outputs == other.outputs
        assert result.state == other.state
        assert result.metrics is None or result.metrics.applied_rows + result.metrics.late_rows == len(batch)
        tester.restart()


def test_a_late_event_joins_two_sessions() -> None:
    at = lambda s: EPOCH + timedelta(seconds=s)  # noqa: E731
    p = tm.Pipeline("bridged")
    stream = p.read(tm.Rows("k string, ts timestamp")).withWatermark("ts", "1 minute")
    stream.groupBy("k", tm.session_window("ts", "10 seconds")).agg(n=tm.count(), outputMode="append")
    tester = Tester(p)

    def held(result: Any) -> list[tuple[int, int, int]]:
        return [(second(start), second(v.session_end), v.n) for start, v in sorted(result.state["a"].items())]

    assert held(tester.batch([("a", at(0)), ("a", at(15))])) == [(0, 10, 1), (15, 25, 1)]
    joined = tester.batch([("a", at(8))])
    assert held(joined) == [(0, 25, 3)]
    assert joined.metrics.stateOperators[0]["numRowsTotal"] == 1
    over = tester.batch([("b", at(85))])
    assert [(k, second(s["start"]), second(s["end"]), n) for k, s, n in over.outputs] == [("a", 0, 25, 3)]
