"""An operator from outside of the package with two inputs: paired, late, failed, chained, requeued, refused."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

import tidemill as tm
from tests.seams.naive_pairs import NaivePairs
from tests.seams.pairs import Pairs, with_ports
from tidemill.errors import InvalidInput
from tidemill.testing import Tester

START = datetime(1970, 1, 1, tzinfo=UTC)
ORDERS, CLICKS = "id string, at timestamp, amount int", "key string, seen timestamp, page string"


def at(seconds):
    return START + timedelta(seconds=seconds)


def joined(left, right):
    return f"{left}-{right}"


def unlucky(left, right):
    if left == 13:
        raise ValueError("unlucky")
    return joined(left, right)


def inputs(p, left="drop", right="drop"):
    orders = p.read(tm.Rows(ORDERS), name="orders").withWatermark("at", "10 seconds", late=left)
    clicks = p.read(tm.Rows(CLICKS), name="clicks").withWatermark("seen", "2 seconds", late=right)
    return orders, clicks


def pipeline(pair=joined, on_error="fail", left="drop", right="drop", ports=("left", "right")):
    p = tm.Pipeline("ports")
    orders, clicks = inputs(p, left, right)
    operator = with_ports(Pairs("pairs", "amount", "page", pair, on_error), *ports)
    orders.groupBy("id").add(operator, clicks.groupBy("key")).groupBy("id").agg(n=tm.count(), name="by-key")
    return p


def watched():
    """A pipeline that shows the rows which the operator emits."""
    p = tm.Pipeline("ports")
    orders, clicks = inputs(p)
    orders.groupBy("id").add(Pairs("pairs", "amount", "page", joined), clicks.groupBy("key"))
    return p


def rows(*given):
    return [(key, at(seconds), value) for key, seconds, value in given]


@pytest.mark.parametrize("tasks", [1, 3])
def test_rows_of_equal_keys_meet_across_batches_and_restarts(tasks):
    t = Tester(pipeline(), tasks=tasks)
    t.batch({"orders": rows(("a", 20, 1), ("b", 21, 2), ("a", 22, 3)), "clicks": rows(("b", 20, "x"), ("c", 20, "y"))})
    assert [(row["id"], row["side"], row["v0"], row["v1"]) for row in waiting(t)] == [
        ("a", 0, 1, None), ("a", 0, 3, None), ("c", 1, None, "y"),
    ]  # fmt: skip
    result = t.batch({"orders": [], "clicks": rows(("a", 23, "z"))})
    assert {key: row.n for key, row in result.state["by-key"].items()} == {"b": 1, "a": 1}
    t.restart()
    result = t.batch({"orders": rows(("c", 23, 4)), "clicks": rows(("a", 24, "w"))})
    assert {key: row.n for key, row in result.state["by-key"].items()} == {"a": 2, "b": 1, "c": 1}
    assert waiting(t) == []
    assert t.repository.head.schemas["pairs"]["ports"] == ["left", "right"]
    assert "ports" not in t.repository.head.schemas["by-key"]


def waiting(t):
    return t.repository.state("pairs").sort_by([("id", "ascending"), ("number", "ascending")]).to_pylist()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("tasks", [1, 3])
def test_random_batches_give_what_a_naive_model_gives(seed, tasks):
    draw, t, model = random.Random(seed), Tester(watched(), tasks=tasks), NaivePairs(10, left=10, right=2)
    now = 30
    for number in range(12):
        now += draw.choice([0, 3, 9])
        given = (draw.choices("abcdef", k=draw.randrange(7)) for _ in "lr")
        left, right = ([(key, now - draw.choice([0, 1, 5, 14]), 100 * number + n) for n, key in enumerate(keys)]
                       for keys in given)  # fmt: skip
        right = [(key, seconds, f"p{value}") for key, seconds, value in right]
        if not left and not right:
            continue
        if draw.random() < 0.2:
            t.restart()
        result = t.batch({"orders": rows(*left), "clicks": rows(*right)})
        expected = [(key, pair, at(seconds)) for key, pair, seconds in model.batch(left=left, right=right)]
        assert sorted(tuple(row.values()) for row in result.rows) == sorted(expected)
        assert t.repository.state("pairs").num_rows == model.left_waiting
        assert result.watermark == 1000 * min(model.watermarks.values())
    found = [commit.operators["pairs"].late_inputs for commit in t.repository.commits()]
    assert {side: sum(one.get(side, 0) for one in found) for side in ("left", "right")} == model.late
    assert sum(model.late.values()) > 0


def test_outputs_and_state_do_not_depend_on_the_number_of_tasks():
    seen = []
    for tasks in (1, 2, 5):
        t = Tester(watched(), tasks=tasks)
        for number in range(3):
            keys = [f"k{n % 17}" for n in range(40)]
            left = rows(*((key, 20 + number, number + n) for n, key in enumerate(keys)))
            right = rows(*((key, 20 + number, f"p{n}") for n, key in enumerate(reversed(keys[:30]))))
            t.batch({"orders": left, "clicks": right})
        seen.append(([t.repository.outputs(n).to_pylist() for n in range(3)], t.repository.state("pairs").to_pylist()))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("tasks", [1, 3])
def test_a_row_is_late_by_the_watermark_of_its_input(tasks):
    t = Tester(pipeline(left="quarantine", right="quarantine"), tasks=tasks)
    t.batch({"orders": rows(("a", 100, 1)), "clicks": rows(("b", 100, "x"))})  # watermarks: left 90, right 98
    assert t.repository.head.watermarks == {"orders.at": 90_000, "clicks.seen": 98_000}
    result = t.batch({"orders": rows(("a", 95, 2), ("a", 90, 3)), "clicks": rows(("a", 95, "y"), ("a", 99, "z"))})
    commit = t.repository.head
    assert (commit.operators["pairs"].late_rows, commit.operators["pairs"].late_inputs) == (2, {"left": 1, "right": 1})
    assert (commit.counts.late_rows, commit.counts.applied_rows) == (2, 2)
    found = t.repository.quarantine(1).sort_by("operator").select(["source", "operator", "kind", "reason"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("orders", "pairs.left", "late",
         "late for operator `pairs.left`: at or before the watermark `orders.at`, 1970-01-01T00:01:30.000Z"),
        ("clicks", "pairs.right", "late",
         "late for operator `pairs.right`: at or before the watermark `clicks.seen`, 1970-01-01T00:01:38.000Z"),
    ]  # fmt: skip
    assert {one.operator for one in commit.late_examples} == {"pairs.left", "pairs.right"}
    assert {key: row.n for key, row in result.state["by-key"].items()} == {"a": 1}


def test_the_least_watermark_of_the_inputs_times_out():
    t = Tester(watched())
    t.batch({"orders": rows(("a", 50, 1)), "clicks": rows(("b", 50, "x"))})
    assert t.batch({"orders": [], "clicks": rows(("b", 500, "y"))}).rows == []  # left stays at 40
    assert t.repository.state("pairs").num_rows == 3
    result = t.batch({"orders": rows(("c", 100, 2)), "clicks": []})  # left 90
    assert [row["pair"] for row in result.rows] == ["1 alone"]
    assert [(row["id"], row["side"]) for row in waiting(t)] == [("b", 1), ("c", 0)]
    assert t.repository.head.next_deadline == {"event/pairs": 110_000}


def test_rows_of_both_inputs_of_a_key_that_fails_are_quarantined_and_come_back():
    t = Tester(pipeline(unlucky, "quarantine"), tasks=2)
    result = t.batch({"orders": rows(("a", 20, 13), ("b", 20, 2)), "clicks": rows(("a", 20, "x"), ("b", 20, "y"))})
    assert (result.metrics.quarantined_rows, result.metrics.applied_rows) == (2, 2)
    assert t.repository.head.operators["pairs"].failure == "ValueError: unlucky"
    found = t.repository.quarantine(0).sort_by("operator").to_pylist()
    assert [(row["source"], row["row"], row["operator"]) for row in found] == [
        ("orders", 1, "pairs.left"), ("clicks", 1, "pairs.right"),
    ]  # fmt: skip
    t.pipeline = pipeline(joined, "quarantine")
    t.restart()
    t.repository.requeue(0, reason="a lucky day")
    t.repository.run(engine="local")
    assert sorted(t.repository.state("by-key").select(["id", "n"]).to_pylist(), key=str) == [
        {"id": "a", "n": 1}, {"id": "b", "n": 1},
    ]  # fmt: skip


def test_an_error_names_the_file_of_the_input_and_its_rows():
    t = Tester(pipeline(unlucky), tasks=2)
    with pytest.raises(InvalidInput, match=r"`pairs`: ValueError: unlucky for key `a`, processing rows of file `0"):
        t.batch({"orders": rows(("b", 20, 1), ("a", 20, 13)), "clicks": rows(("a", 20, "x"))})


def mixed(late="drop", on_error="fail", pair=joined):
    """A pipeline whose operator reads the output of another one and, below it, a source."""
    p = tm.Pipeline("mixed")
    orders, clicks = inputs(p, late, late)
    once = orders.dropDuplicates(["id", "at"], name="once")
    pairs = once.groupBy("id").add(Pairs("pairs", "amount", "page", pair, on_error), clicks.groupBy("key"))
    pairs.groupBy(tm.window("at", "1 minute")).agg(n=tm.count(), name="per-minute", outputMode="append")
    return p


@pytest.mark.parametrize("tasks", [1, 3])
def test_an_operator_reads_another_one_and_a_source(tasks):
    t = Tester(mixed("quarantine", "quarantine", unlucky), tasks=tasks)
    assert {name: one.level for name, one in t.repository.opened.job.operators.items()} == {
        "once": 0, "pairs": 1, "per-minute": 2,
    }  # fmt: skip
    left = rows(("a", 70, 1), ("a", 70, 2), ("b", 80, 3), ("c", 80, 13))
    result = t.batch({"orders": left, "clicks": rows(("a", 75, "x"), ("c", 90, "y"))})
    assert result.rows == []
    assert (result.metrics.quarantined_rows, result.metrics.applied_rows) == (1, 5)  # `c` of the source is an input row
    found = t.repository.quarantine(0).sort_by("operator").to_pylist()
    assert [(row["source"], row["row"], row["operator"]) for row in found] == [
        ("orders", 4, "pairs.left"), ("clicks", 2, "pairs.right"),
    ]  # fmt: skip
    result = t.batch({"orders": rows(("e", 200, 5)), "clicks": rows(("b", 80, "late"), ("e", 190, "z"))})
    commit = t.repository.head
    assert (commit.operators["pairs"].late_rows, commit.operators["pairs"].late_inputs) == (1, {"right": 1})
    assert (commit.counts.late_rows, commit.counts.applied_rows) == (1, 2)
    assert [row["operator"] for row in t.repository.quarantine(1).to_pylist()] == ["pairs.right"]
    minutes = {row["window"]["start"].minute: row["n"] for row in t.repository.state("per-minute").to_pylist()}
    assert minutes == {3: 1}  # the window of minute 1 ended when the least watermark passed it
    assert [(row["window"]["start"].minute, row["n"]) for row in t.repository.outputs(1).to_pylist()][:1] == [(1, 2)]


def test_an_error_names_the_operator_above_an_input_or_the_file():
    t = Tester(mixed(pair=unlucky))
    with pytest.raises(InvalidInput, match=r"processing rows of file `0.*`, row 1"):
        t.batch({"orders": rows(("a", 20, 13)), "clicks": rows(("a", 20, "x"))})
    t = Tester(mixed(pair=unlucky))
    t.batch({"orders": [], "clicks": rows(("a", 20, "x"))})
    with pytest.raises(InvalidInput, match=r"processing rows that operator `once` emitted for key `\('a', .*row 1"):
        t.batch({"orders": rows(("a", 20, 13)), "clicks": []})


@pytest.mark.parametrize("tasks", [1, 3])
def test_both_inputs_may_be_the_same_stream_and_operators_follow_each_other(tasks):
    p = tm.Pipeline("twice")
    orders, _ = inputs(p)
    clicks = orders.sql('SELECT id AS key, "at" AS seen, amount + 1 AS page FROM rows')
    same = orders.groupBy("id").add(Pairs("same", "amount", "amount", joined), orders.groupBy("id"))
    other = orders.groupBy("id").add(Pairs("other", "amount", "page", joined), clicks.groupBy("key"))
    both = same.groupBy("id").add(Pairs("both", "pair", "pair", joined), other.groupBy("id"))
    both.groupBy("id").agg(n=tm.count(), name="found")
    both.write(tm.Json("unused"), name="both")
    t = Tester(p, tasks=tasks)
    result = t.batch({"orders": rows(("a", 20, 1), ("b", 21, 5), ("a", 22, 2)), "clicks": []})
    assert sorted((row["id"], row["pair"]) for row in result.rows["both"]) == [
        ("a", "1-1-1-2"), ("a", "2-2-2-3"), ("b", "5-5-5-6"),
    ]  # fmt: skip
    assert {key: row.n for key, row in result.state["found"].items()} == {"a": 2, "b": 1}


def test_a_chain_that_skips_levels_gets_rows_of_a_source_at_its_own_level():
    p = tm.Pipeline("far")
    orders, clicks = inputs(p)
    stream = orders
    for number in range(3):
        stream = stream.dropDuplicates(["id", "at", "amount"], name=f"once-{number}")
    stream.groupBy("id").add(Pairs("pairs", "amount", "page", joined), clicks.groupBy("key"))
    t = Tester(p, tasks=3)
    assert t.repository.opened.job.levels == 4
    result = t.batch({"orders": rows(*((f"k{n}", 20, n) for n in range(9))), "clicks": rows(("k3", 20, "x"))})
    assert [row["pair"] for row in result.rows] == ["3-x"]
    result = t.batch({"orders": [], "clicks": rows(("k5", 40, "y"), ("k4", 10, "late"))})
    assert [row["pair"] for row in result.rows] == ["5-y"]
    assert t.repository.head.operators["pairs"].late_inputs == {"right": 1}


def grouped(key="key", schema=CLICKS, watermark=True, names=("id",)):
    p = tm.Pipeline("refused")
    orders, _ = inputs(p)
    other = p.read(tm.Rows(schema), name="other")
    other = other.withWatermark("seen", "2 seconds") if watermark else other
    return orders.groupBy(*names), other.groupBy(key), Pairs("pairs", "amount", "page", joined)


def test_keys_of_other_types_are_refused():
    left, right, operator = grouped(schema="key int, seen timestamp, page string")
    with pytest.raises(InvalidInput) as error:
        left.add(operator, right)
    assert str(error.value) == (
        "operator `pairs`: key column `id` of input `left` is string, `key` of input `right` is int\n"
        "hint: rows of a key meet only if its types are equal: cast one of them with .sql"
    )


def test_keys_of_other_numbers_of_columns_are_refused():
    left, right, operator = grouped(names=("id", "amount"))
    with pytest.raises(InvalidInput, match=r"input `left` is grouped by `id`, `amount`, input `right` by `key`; expec"):
        left.add(operator, right)


def test_an_input_without_a_watermark_is_refused_if_the_operator_needs_one():
    left, right, operator = grouped(watermark=False)
    with pytest.raises(InvalidInput, match="operator `pairs`: input `right` has no watermark, so its rows would wait"):
        left.add(operator, right)


def test_inputs_need_names_of_their_own():
    left, right, operator = grouped()
    with pytest.raises(InvalidInput, match="operator `pairs` has two inputs of one name: `side`, `side`"):
        left.add(with_ports(operator, "side", "side"), right)
    with pytest.raises(InvalidInput, match="invalid input name 'Left'"):
        left.add(with_ports(operator, "Left", "right"), right)


def test_an_operator_needs_a_stream_for_each_input():
    left, right, operator = grouped()
    with pytest.raises(InvalidInput, match="`pairs` is given 1 stream, expected 2, one for each of `left`, `right`"):
        left.add(operator)
    with pytest.raises(InvalidInput, match="`pairs` is given 3 streams, expected 2"):
        left.add(operator, right, right)
    with pytest.raises(InvalidInput, match=r"add: expected a grouped stream, found Stream\("):
        left.add(operator, inputs(tm.Pipeline("other"))[0])


def test_streams_of_two_pipelines_are_refused():
    left, _, operator = grouped()
    _, right, _ = grouped()
    with pytest.raises(InvalidInput, match="operator `pairs`: the streams belong to two pipelines, `refused` and `ref"):
        left.add(operator, right)


@pytest.mark.parametrize("ports", [("left", "clicks"), ("right", "left")])
def test_an_input_with_another_name_does_not_read_the_state(ports):
    t = Tester(pipeline())
    t.batch({"orders": rows(("a", 20, 1)), "clicks": []})
    t.pipeline = pipeline(ports=ports)
    t.restart()
    with pytest.raises(InvalidInput) as error:
        t.batch({"orders": rows(("a", 20, 1)), "clicks": []})
    now = ", ".join(f"`{port}`" for port in ports)
    assert error.value.message == (
        f"operator `pairs` has state made of rows of the inputs `left`, `right`, this code declares {now}"
    )
    (found,) = (one for one in t.repository.check().differences if one.what == "ports")
    assert (found.before, found.after, found.status) == ("left, right", ", ".join(ports), "needs migration")
