"""Pipelines with an operator of two inputs over files: replayed to equal bits, in part too, explained, previewed."""

from __future__ import annotations

import pytest

from tests.seams.shop import Shop, bits, everything


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def test_tasks_and_replays_make_equal_bits(shop):
    r = shop.open()
    r.run(engine="local", tasks=1)
    assert r.head.version == 3
    assert [commit.operators["pairs"].late_inputs for commit in r.commits()][2:] == [{"left": 1, "right": 2}] * 2
    assert all(commit.operators["mixed"].failed for commit in r.commits())
    r.replay(0, into="same", engine="local", tasks=1)
    assert bits(shop.open("same")) == bits(r)
    r.replay(0, into="cut", engine="local", tasks=3)
    cut = shop.open("cut")
    assert everything(cut) == everything(r)
    assert cut.verify(deep=True).problems == []


@pytest.mark.parametrize("operators", [["pairs", "per-key"], ["mixed", "per-time"]])
def test_a_part_is_replayed_with_what_its_inputs_need(shop, operators):
    r = shop.open()
    r.run(engine="local", tasks=2)
    r.replay(0, into="part", operators=operators, engine="local", tasks=2)
    part = shop.open("part")
    assert [commit.computed for commit in part.commits()] == [operators] * 4
    assert everything(part) == everything(r)


def test_a_rewound_pipeline_makes_the_same_again(shop):
    r = shop.open()
    r.run(engine="local", tasks=2)
    before = everything(r)
    r.rewind(1, reason="again")
    r.run(engine="local", tasks=2)
    after = everything(shop.open())
    states, counts, late = 0, 3, 4
    for part in (states, counts, late):
        assert [after[version][part] for version in (5, 6)] == [before[version][part] for version in (2, 3)]


def test_the_graph_shows_the_operator_below_each_of_its_inputs(shop, capsys):
    shop.open().explain()
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line.startswith("operator `pairs`")] == [
        "operator `pairs`: test-pairs by id", "operator `pairs`: test-pairs by id (shown above)",
    ]  # fmt: skip


def test_a_history_reads_the_rows_of_a_key_from_the_files_of_both_inputs(shop):
    r = shop.open()
    r.run(engine="local", tasks=2)
    (found,) = (one for one in r.history("pairs", "a0") if one.version == 0)
    assert {(row.get("amount"), row.get("page")) for row in found.rows} >= {(15, None), (None, "p15")}


def test_a_preview_runs_both_inputs(shop):
    shown = shop.pipeline().preview(20)
    assert "8-p8" in shown["pairs"].column("pair").to_pylist()
    assert "8-p8" in shown["mixed"].column("pair").to_pylist()
