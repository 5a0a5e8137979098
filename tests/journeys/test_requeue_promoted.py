"""`requeue` of a promotion: its quarantined rows have the id and the version numbers of the branch in their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidemill as tm
from tests.journeys.place import Place, sums
from tests.world import run


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Files with a bad row each, in versions 0, 4 and 5: the branch will have them in 0, 1 and 2."""
    made = Place(tmp_path)
    made.arrive("1", "2", "3", "4", "5")
    r = made.open()
    assert run(r) == [0, 1, 2]
    r.rewind(0, "a test")
    assert run(r) == [4, 5]
    return made


def fixed(r: tm.Repository, version: int, **columns: Any) -> pa.Table:
    """The quarantined rows of a version, as rows of `k9`."""
    found = r.quarantine(version, export=True).to_pylist()
    schema = r.quarantine(version, export=True).schema
    return pa.Table.from_pylist([row | {"k": "k9", "n": 7} | columns for row in found], schema=schema)


def promoted(place: Place, **code: Any) -> tuple[tm.Repository, int]:
    r = place.open(**code)
    r.replay(0, into="fix", engine="local")
    return r, r.promote("fix").version


def test_rows_of_a_promotion_come_back_once(place: Place) -> None:
    r, made = promoted(place, factor=2)
    r.drop_branch("fix")
    r.maintain()
    rows = fixed(r, made)
    assert rows.num_rows == 5
    r.requeue(made, rows=rows.slice(0, 2))
    run(r)
    assert sums(r) == place.sums(2) | {"k9": 28}
    with pytest.raises(tm.InvalidInput, match=f"requeue version {made}: row 0 .*was requeued already by version 7"):
        r.requeue(made, rows=rows)
    r.requeue(made, rows=rows.slice(2))
    run(r)
    assert sums(r) == place.sums(2) | {"k9": 70}
    assert r.verify(deep=True).problems == []


def test_a_rewind_makes_them_wait_again(place: Place) -> None:
    r, made = promoted(place)
    r.requeue(made, rows=fixed(r, made))
    run(r)
    r.rewind(made, "a test")
    assert sums(r) == place.sums()
    r.requeue(made, rows=fixed(r, made))
    run(r)
    assert sums(r) == place.sums() | {"k9": 35}


def test_rows_that_came_back_on_the_branch_do_not_come_back_again(place: Place) -> None:
    r = place.open()
    r.replay(0, into="fix", engine="local")
    b = place.open("fix")
    b.requeue(1, rows=fixed(b, 1).slice(1))
    run(b)
    made = r.promote("fix").version
    assert sums(r) == place.sums() | {"k9": 7}
    rows = fixed(r, made)
    with pytest.raises(tm.InvalidInput, match=f"requeue version {made}: row 3 .*was requeued already by version 3"):
        r.requeue(made, rows=rows)
    r.requeue(made, rows=pa.concat_tables([rows.slice(0, 3), rows.slice(4)]))
    run(r)
    assert sums(r) == place.sums() | {"k9": 35}


def test_rows_that_the_branch_got_by_repeating_a_requeue_do_not_come_back_again(place: Place) -> None:
    r = place.open()
    r.requeue(4, rows=fixed(r, 4))
    run(r)
    made = promoted(place)[1]
    assert sums(r) == place.sums() | {"k9": 14}
    rows = fixed(r, made)
    with pytest.raises(tm.InvalidInput, match=r"row 2 \(file `3.csv`, line 5\) was requeued already .*1 more row"):
        r.requeue(made, rows=rows)
    r.requeue(made, rows=pa.concat_tables([rows.slice(0, 2), rows.slice(4)]))
    run(r)
    assert sums(r) == place.sums() | {"k9": 35}


def test_rows_of_a_promotion_of_a_promotion_come_back(place: Place) -> None:
    r = place.open()
    r.replay(0, into="one", engine="local")
    one = place.open("one")
    one.replay(1, into="two", engine="local")
    one.promote("two")
    made = r.promote("one").version
    rows = fixed(r, made)
    r.requeue(made, rows=rows)
    run(r)
    assert sums(r) == place.sums() | {"k9": 7 * rows.num_rows}


def test_rows_of_some_operators_come_back(place: Place) -> None:
    r = place.open(extra=True)
    r.replay(0, into="fix", operators=["extra"], engine="local")
    made = r.promote("fix").version
    r.requeue(made, rows=fixed(r, made))
    run(r)
    assert sums(r) == place.sums() | {"k9": 35} and sums(r, "extra")["k9"] == 5


def test_versions_that_do_not_count_are_refused_with_what_helps(place: Place) -> None:
    r, made = promoted(place)
    with pytest.raises(tm.InvalidInput, match=f"requeue version 4: version {made}, a promotion, replaced it") as said:
        r.requeue(4)
    assert said.value.hint == f"requeue version {made}, which has what its branch quarantined"
    r.rewind(5, "undo")
    with pytest.raises(tm.InvalidInput, match=f"requeue version {made}: it is a promotion that was rewound"):
        r.requeue(made)
    r.requeue(4, rows=fixed(r, 4))
    run(r)
    assert sums(r) == place.sums() | {"k9": 14}


def test_rows_come_back_after_a_replay_through_the_promotion(place: Place) -> None:
    r, made = promoted(place)
    r.requeue(made, rows=fixed(r, made).slice(0, 1))
    run(r)
    place.open(factor=2).replay(0, into="two", engine="local")
    r = place.open(factor=2)
    second = r.promote("two").version
    assert sums(r) == place.sums(2) | {"k9": 14}
    with pytest.raises(tm.InvalidInput, match=r"row 0 \(file `1.csv`, line 3\) was requeued already by version 7"):
        r.requeue(second, rows=fixed(r, second))
    r.requeue(second, rows=fixed(r, second).slice(1))
    run(r)
    assert sums(r) == place.sums(2) | {"k9": 70}


def test_rows_of_a_branch_that_ran_by_itself_come_back_once(place: Place) -> None:
    r = place.open()
    r.branch("fix", -1)
    b = place.open("fix")
    run(b)
    for number in (3, 4, 5, 6):
        place.arrive(str(number + 3))
        run(b)
    b.requeue(5, rows=fixed(b, 5))
    run(b)
    run(r)
    made = r.promote("fix").version
    assert made == b.head.version == 8
    rows = fixed(r, made)
    with pytest.raises(tm.InvalidInput, match=r"row 7 \(file `8.csv`.* was requeued already by version 7"):
        r.requeue(made, rows=rows)
    r.requeue(made, rows=pa.concat_tables([rows.slice(0, 7), rows.slice(8)]))
    run(r)
    assert sums(r) == place.sums() | {"k9": 7 * 9}
