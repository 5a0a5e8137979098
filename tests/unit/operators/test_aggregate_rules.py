"""The table of aggregate functions has a row for each that Rust computes, and other tables name the same functions."""

from __future__ import annotations

import pytest

import tidemill as tm
from tidemill.cli import pyarrow_alone
from tidemill.errors import InvalidInput
from tidemill.operators import functions
from tidemill.operators.aggregate_rules import AGGREGATES
from tidemill.operators.functions import Aggregate
from tidemill.pipeline import pyspark_names
from tidemill.protocol.tied import is_recorded

CALLED = [name for name in AGGREGATES if name != "earliest"]


def grouped(p: tm.Pipeline) -> tm.GroupedStream:
    return p.read(tm.Rows("k string, v double, at int")).groupBy("k")


def call(name: str) -> Aggregate:
    given = {"min_by": ("v", "at"), "max_by": ("v", "at"), "collect_set": ("v", 3)}
    made: Aggregate = getattr(tm, name)(*given.get(name, ("v",)))
    return made


def test_rust_computes_the_functions_of_the_table() -> None:
    with pytest.raises(InvalidInput) as refused:
        grouped(tm.Pipeline("p")).agg(x=Aggregate("unknown", "v"))
    assert refused.value.first_line.partition("expected one of ")[2].split(", ") == list(AGGREGATES)


@pytest.mark.parametrize("name", CALLED)
def test_a_function_is_known_to_users_and_to_every_table(name: str) -> None:
    assert call(name).function == name and name in tm.__all__ and getattr(tm, name) is getattr(functions, name)
    assert name in pyarrow_alone._DECLARES and name not in pyspark_names.OF_THE_MODULE
    assert (call(name).parameter is not None) == AGGREGATES[name].has_parameter


@pytest.mark.parametrize("name", CALLED)
def test_partial_columns_are_those_of_the_state(name: str) -> None:
    p = tm.Pipeline("p")
    grouped(p).agg(x=call(name), name="one")
    (kept,) = p.operators["one"].operator.maps
    assert kept.value.names == [f"x{suffix}" for suffix in AGGREGATES[name].partials]


def test_functions_whose_state_does_not_show_a_type() -> None:
    assert {name for name in AGGREGATES if is_recorded(name)} == {
        "sum", "mean", "var", "stddev", "approx_count_distinct",
    }  # fmt: skip
